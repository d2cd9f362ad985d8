'use strict';

/**
 * The contract between a LockManager and the backend that manages its locks, such as the native
 * core of the process (native.js). This file contains types only. A backend may answer during a
 * call or at any time later, and calls the members of a Requester on the thread of the request.
 *
 * State first, users afterwards. Calls of a backend, and the members of a Requester that say what
 * happened (`granted`, `unavailable`, `stolen`, `otherLimit` …), only change state and run no
 * users' code. `announceAnswer` and `announceLoss` may run users' code, which may call the backend
 * again, about the same request too. A backend calls these two from `announce`, or from its own
 * events, when its state is settled. Losses come first: a holder learns of a theft before the
 * thief, if it is of the same thread, runs. The caller of `request`, `requestAll` or `wait`
 * announces an answer that came during the call, unless `deferAnnouncement` takes it over.
 *
 * Applying events calls nothing. A backend applies a batch of events by calling these members, one
 * event after the other. So a member changes fields and returns: it calls no backend, no addon, and
 * nothing that could be users' code; neither does the backend between two of them. A call from
 * there would apply the rest of the batch before the current event is done. So an error is
 * made only when it is announced. Tests hold all backends to this
 * (test/helpers/applying.js, test/lib/applying.test.js).
 *
 * Any call can throw near the end of the stack, with its work done or not. The caller then puts the
 * request into `unfinished` and calls `undo` with its tag, which together need no stack. The
 * backend calls the request's `finish` from the event loop.
 */

/** @typedef {'exclusive' | 'shared'} LockMode a mode (2.3) */

/**
 * What to do if the lock is not available. A request that passes waits or not, as 'wait' and
 * 'ifAvailable' say, and ends when it would be granted: it never holds the lock. It is exclusive,
 * and never part of `requestAll`.
 * @typedef {'wait' | 'ifAvailable' | 'steal' | 'pass' | 'passIfAvailable'} Disposition
 */

/**
 * A lock request (2.5), as a backend sees it.
 * @typedef {object} Requester
 * @property {string} name
 * @property {LockMode} mode
 * @property {Disposition} disposition
 * @property {string} [label] for `details`
 * @property {number} [limit] of a shared request: how many units of the name may be held at a time,
 *   1 to 2^31 - 1; undefined for no limit. Exclusive requests ignore it
 * @property {number} [weight] the units that the request takes, 1 to `limit`; 1 if undefined
 * @property {number} [maxPending] if the request would have to wait and so many wait already, it
 *   ends
 * @property {number} [priority] -2^31 to 2^31 - 1; 0 if undefined. The request waits behind those
 *   with the same or a higher one, and ahead of those with a lower one. 0 for a thief, who never
 *   waits
 * @property {boolean} [hasExtensions] whether it has any of `label`, `limit`, `maxPending`,
 *   `inside`, or a `priority` other than 0
 * @property {number} [keep] milliseconds, more than 0: `release` marks the name for this time. It
 *   is undefined for no mark; otherwise it is set after `marked` was asked, and before `release`
 * @property {Requester[]} [inside] if the request rejects deadlocks: the locks that are not
 *   released before it has ended
 * @property {Backend} backend
 * @property {number} tag for the backend's use; NO_TAG while the backend does not know the request
 * @property {(tokenLow: number, tokenHigh: number) => void} granted called once at most: the
 *   request holds the lock from now on, or has passed and ended. The token, in two halves of 32
 *   bits, is greater than that of any lock granted on the name before, to anybody, even if nobody
 *   held or knew the name in between
 * @property {() => void} unavailable ends a request that said `ifAvailable`
 * @property {(clientId: string, pid?: number) => void} stolen ends a lock, which this client has
 *   stolen. `pid` is that of the thief, if the client id does not lead to it
 * @property {(reason: LossReason, cause?: () => Error | undefined) => void} lost ends a lock for
 *   another reason. `cause` makes the error behind it, when that is announced. If the lock was
 *   released meanwhile, this means nothing, unless it has `keep`: then its name was not marked
 * @property {(cycle: CycleEntry[]) => void} [deadlocked] ends a request that has `inside`, or
 *   blocks in `wait`, and would close this cycle
 * @property {(limit: number) => void} [otherLimit] ends a shared request: those who hold the name
 *   or wait for it have agreed on this limit, 0 for none, and not on that of the request
 * @property {() => void} [queueFull] ends a request, because `maxPending` others wait
 * @property {(why: () => unknown) => void} failed ends a request that could not be made. `why`
 *   makes the error, when that is announced
 * @property {() => void} announceAnswer notifies users that the request was granted, is unavailable
 *   or failed, if that is still so
 * @property {boolean} isDelivered whether users' code was called with the answer, once
 *   `announceAnswer` was
 * @property {(fromEvents: boolean) => void} announceLoss notifies users, once, of a lock that was
 *   stolen or lost; `fromEvents` is false within a call of users'
 * @property {() => Error} lossReason
 * @property {() => void} finish does what found no stack before
 */

/**
 * Says why a lock was lost, if it was not stolen.
 *
 * - 'unreachable': nobody answered until the lease ran out, or to mark the name
 * - 'expired': the lease was not renewed in time
 * - 'failover': a server that took over does not know the lock
 * - 'closed': the bucket was closed
 * - 'destroyed': the lock state was deleted or damaged
 *
 * @typedef {'expired' | 'unreachable' | 'failover' | 'closed' | 'destroyed'} LossReason
 */

/**
 * Says how far a pending request has come, if that takes a while.
 *
 * - 'unsent': nothing was sent
 * - 'sent': nobody knows whether the request exists; a theft may be done
 * - 'waiting': the request is in the queue
 * - 'allotted': the request has its place for good, and waits only for others of the same step
 *
 * @typedef {'unsent' | 'sent' | 'waiting' | 'allotted'} Progress
 */

const NO_TAG = 2 ** 32 - 1;

/**
 * An entry of a snapshot (4.5), with its members in the order of the specification.
 * @typedef {{ clientId: string, mode: LockMode, name: string }} LockInfo
 */

/** @typedef {{ held: LockInfo[], pending: LockInfo[] }} LockManagerSnapshot */

/** @typedef {{ clientId: string, pid: number }} Thief */

/** @typedef {import('../../types/shared.js').LockDetails} LockDetails */
/** @typedef {LockDetails & { isHeld: boolean }} CycleEntry a lock or a request */

/**
 * @typedef {object} Backend
 * @property {string} id equal for backends that manage the same locks, and for no others
 * @property {unknown} [closed] the error of all requests, once the backend is closed or has failed
 *   for good
 * @property {(request: Requester) => void} request requests a lock (4.1). Leads to exactly one of
 *   `granted`, `unavailable`, `deadlocked`, `otherLimit`, `queueFull` and `failed`, once, unless
 *   the request is withdrawn before. The first shared request sets the limit of a name, which stays
 *   until nobody holds the name or waits for it. Shared locks are held together while their weights
 *   do not add up to more; a request that would fit does not overtake one that does not. A queue is
 *   ordered by priority, higher first, and first come, first served among equals; only a thief
 *   takes a lock away. A backend without priorities fails requests with one other than 0 with a
 *   NotSupportedError. Whether to refuse a request is decided before anything changes, in the same
 *   step that would make it.
 * @property {(request: Requester) => void | Promise<void>} withdraw ends a request whose lock
 *   nobody has used: aborts it (4.3) if it is pending, releases its lock if it was granted
 *   meanwhile. Does nothing if it has ended. Nothing about it is announced afterwards. Callers
 *   ignore the result.
 * @property {(lock: Requester) => void | Promise<void>} release releases a granted lock (4.2) of
 *   which neither `stolen` nor `lost` was called, or calls one if the lock turns out to have been
 *   stolen before. A promise never rejects. If the lock has `keep`, the same step marks its name
 *   for that time, by the clock of whatever keeps the lock state. If the lock turns out not to be
 *   held any more, or nobody knows whether the name was marked, `stolen` or `lost` is called.
 * @property {(lock: Requester) => boolean | Promise<boolean>} [marked] whether the name of an
 *   exclusive lock that is held is marked; nobody else can mark it meanwhile. Neither thefts nor
 *   other locks remove a mark. If the lock turns out to be lost, `stolen` or `lost` is called, and
 *   the answer means nothing. Rejects if it does not know. If it is missing, names cannot be marked
 * @property {(request: Requester) => Progress | undefined} [progress] of a pending request;
 *   undefined for one that has ended, or if nothing is known
 * @property {(requests: Requester[]) => void} [requestAll] requests several locks in one step, in
 *   which all take their places in their queues, so that no two such steps wait for each other.
 *   Each request is answered as by `request`; with `ifAvailable`, all are granted or none. This
 *   needs all steps in one order in all queues. So requests with a `priority` fail with a
 *   NotSupportedError: one that waits for `a` could get ahead on `b` of one that holds `a`. If it
 *   is missing, locks are requested one after the other
 * @property {() => void} announce notifies users of what became of requests through the calls so
 *   far
 * @property {(request: Requester) => boolean} [deferAnnouncement] returns true if callbacks of
 *   earlier grants are still to be called when `request` returns with a grant. Then the backend
 *   announces this grant after those; otherwise the caller does. If it is missing, there are no
 *   such callbacks
 * @property {Requester[]} unfinished requests whose `finish` is to be called
 * @property {(tag: number) => unknown} undo ends a request, whatever has become of it, and has
 *   `finish` called soon, on an empty stack; with NO_TAG it does only that
 * @property {(name?: string) => LockManagerSnapshot | Promise<LockManagerSnapshot>} query snapshots
 *   the lock state (4.5), or that of one name
 * @property {(name?: string) => DetailedSnapshot | Promise<DetailedSnapshot>} details the same with
 *   details
 * @property {(name: string, waits?: boolean) => LockDetails[] | undefined} [holders] the locks held
 *   on a name, if that can be known at once; undefined if the query failed or the backend is
 *   closed. `waits` says that a request of this thread waits for them. Locks that were granted to
 *   the thread without its knowledge are left out then, because one can belong to that request; if
 *   no others are left, the answer is undefined
 * @property {(name: string) => LockDetails[] | undefined} [seenHolders] the same for a waiting
 *   request, for messages only: others may have changed it by the time it returns
 * @property {(name: string) => Promise<LockDetails[] | undefined>} [askHolders] the same for a
 *   waiting request; never rejects, and may take any time. A backend has one of the three
 * @property {() => number} [grantsIn] milliseconds during which, as far as is known, nothing is
 *   granted to anybody, because the server may have forgotten what others hold. If it is missing, 0
 * @property {(request?: Requester) => unknown} [outage] of a backend with a server: the reason why
 *   it does not answer (about a pending request); undefined while it answers. If it is missing,
 *   there is no server
 * @property {(request: Requester, isHeld: boolean) => CycleEntry} [entryOf] what is known at once
 *   of a request of this thread, for errors. Required if `holders` is missing
 * @property {(request: Requester, milliseconds: number) => void} [wait] blocks the thread until a
 *   pending request is answered, or for this time. If it is missing, nothing can be done without
 *   the event loop
 * @property {boolean} [findsDeadlocks] whether it reads `inside`
 * @property {(lock: Requester) => void} [catchUp] applies what has become of a granted lock without
 *   the thread's knowledge: calls `stolen` or `lost`, to be announced later. If it is missing, the
 *   thread learns of that in its event loop only
 * @property {(lock: Requester) => boolean} [holds] whether a granted lock, neither released nor
 *   lost, is held at this moment, by the clock. If not, this call marks it as `lost`, to be
 *   announced later. If it is missing, the lock is held
 * @property {(lock: Requester) => number} [remaining] milliseconds during which the lock is
 *   certainly held, by the clock. If it is missing, there is no limit
 * @property {(lock: Requester, client: any) => Promise<void>} [guard] see `lock.guard`
 * @property {Promise<void>} [ready] resolves when the backend is open, rejects if it cannot be
 *   opened; then the next read is another attempt. If it is missing, it is open
 * @property {() => Promise<void>} close gives back the locks held through it, which are lost, and
 *   fails pending and later requests with an InvalidStateError. Resolves when all this is done,
 *   never rejects
 */
/** @typedef {import('../../types/shared.js').DetailedSnapshot} DetailedSnapshot */

module.exports = { NO_TAG };
