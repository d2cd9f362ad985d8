'use strict';

/**
 * The contract between a LockManager and what manages its locks: the process's native core
 * (native.js), or a manager of any wider scope. This file has types only.
 *
 * A backend may answer during the call or at any time later; a LockManager assumes neither. It
 * calls the members of a Requester on the thread of the request, and they never throw and never run
 * users' code before they return.
 */

/** @typedef {'exclusive' | 'shared'} LockMode a mode (2.3) */

/**
 * @typedef {'wait' | 'ifAvailable' | 'steal'} Disposition what to do if the lock is not available
 */

/**
 * A lock request (2.5), as a backend sees it.
 * @typedef {object} Requester
 * @property {string} name the resource name
 * @property {LockMode} mode
 * @property {Disposition} disposition
 * @property {number} tag for the backend's use
 * @property {() => void} granted the lock is held from now on; called at most once
 * @property {() => void} unavailable answers a request that said `ifAvailable`; ends the request
 * @property {() => void} stolen the lock, granted before, was stolen; ends the request
 * @property {(error: unknown) => void} failed the request could not be made; ends the request
 */

/**
 * @typedef {object} LockInfo an entry of a snapshot (4.5), members in WebIDL's order
 * @property {string} clientId
 * @property {LockMode} mode
 * @property {string} name
 */

/** @typedef {{ held: LockInfo[], pending: LockInfo[] }} LockManagerSnapshot */

/**
 * @typedef {object} Backend
 * @property {(request: Requester) => void} request requests a lock (4.1). Calls exactly one of
 *   `granted`, `unavailable` and `failed`, once, unless the request is withdrawn before.
 * @property {(request: Requester) => void} withdraw ends a request that was made and whose lock
 *   nobody has used: aborts it (4.3) if it is pending, releases its lock if it was granted
 *   meanwhile. Nothing is called afterwards.
 * @property {(lock: Requester) => boolean | Promise<boolean>} release releases a lock (4.2) that
 *   was granted and of which `stolen` was not called. True once it is released; false if it turns
 *   out to have been stolen before. Nothing is called afterwards.
 * @property {() => LockManagerSnapshot | Promise<LockManagerSnapshot>} query snapshots the lock
 *   state (4.5)
 */

module.exports = {};
