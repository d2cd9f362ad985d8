'use strict';

/**
 * The contract between a LockManager and what manages its locks: the process's native core
 * (native.js), or a manager of any wider scope. This file has types only.
 *
 * A backend may answer during the call or at any time later; a LockManager assumes neither. It
 * calls the members of a Requester on the thread of the request.
 *
 * State first, users afterwards. Calls of a backend, and the members of a Requester that say what
 * happened (`granted`, `unavailable`, `stolen`, `otherLimit` …), change state only: they run no
 * users' code. What `announceAnswer` and `announceLoss` of the Requester do then may run users'
 * code, and that may make further calls of the backend, about the same request, too. A backend
 * calls them from `announce`, or from its own events, when its state is settled, losses first: a
 * robbed holder is notified before the thief of the same thread runs. If an answer is given during
 * `request`, `requestAll` or `wait`, the caller announces it, unless `announcesLater` takes it
 * over.
 *
 * What applies events calls nothing. A backend applies a batch of events by calling these members,
 * one event after the other. So a member changes fields and returns: it calls no backend, not the
 * addon, and nothing that could be users' code; neither does the backend between two of them. A
 * call from there would apply the rest of the batch before the current event is done. Whatever has
 * to be asked or made, such as an error, is asked and made when it is announced. The tests hold all
 * backends to this (test/helpers/applying.js, test/lib/applying.test.js).
 *
 * Any call can throw near the end of the stack. Then it has done its work or not; the caller puts
 * the request into `unfinished` and calls `undo` with its tag, which together need no stack, and
 * the backend calls its `finish` from the event loop.
 */

/** @typedef {'exclusive' | 'shared'} LockMode a mode (2.3) */

/**
 * @typedef {'wait' | 'ifAvailable' | 'steal' | 'pass' | 'passIfAvailable'} Disposition what to do
 *   if the lock is not available. A request that passes waits, or not, as 'wait' and 'ifAvailable'
 *   do, and ends when it would be granted: it never holds the lock. It is exclusive, and in no
 *   `requestAll`
 */

/**
 * A lock request (2.5), as a backend sees it.
 * @typedef {object} Requester
 * @property {string} name the resource name
 * @property {LockMode} mode
 * @property {Disposition} disposition
 * @property {string} [label] for `details`
 * @property {number} [limit] of a shared request: how many units of the name may be held at a time,
 *   1 to 2^31 - 1; undefined for no limit. Means nothing for an exclusive one
 * @property {number} [weight] how many of them it takes, 1 to `limit`; 1 if undefined
 * @property {number} [maxPending] it is not made if it has to wait and so many wait already
 * @property {number} [priority] -2^31 to 2^31 - 1; 0 if undefined. It waits behind all who have as
 *   much or more, and ahead of all who have less. 0 of a thief, who waits for nobody
 * @property {boolean} [asksForMore] whether it has any of `label`, `limit`, `maxPending`,
 *   `priority` (not 0), `inside`
 * @property {number} [keep] milliseconds, more than 0: `release` marks its name for so long. Set
 *   before that is called, and after `marked` was asked; undefined for no mark
 * @property {Requester[]} [inside] if the request rejects deadlocks: the locks that are
 *   not released before it has ended
 * @property {Backend} backend that it was made of
 * @property {number} tag for the backend's use; NO_TAG while the backend does not know it
 * @property {(tokenLow: number, tokenHigh: number) => void} granted the lock is held from now on,
 *   or its request has passed, and ended; called at most once. The token of a lock, in two halves
 *   of 32 bits, is greater than that of any lock that was granted on the name before, by whomever:
 *   also after nobody held the name, or knew it, in between
 * @property {() => void} unavailable answers a request that said `ifAvailable`; ends the request
 * @property {(clientId: string, pid?: number) => void} stolen the lock, granted before, was stolen,
 *   by whom; ends the request. `pid`: of the thief, if the client id does not lead to it
 * @property {(reason: LossReason, cause?: () => Error | undefined) => void} lost the lock, granted
 *   before, is no longer held, for another reason; ends the request. `cause` makes the error
 *   behind it, when it is told. Says nothing of one that was released meanwhile, but if it has
 *   `keep`: then that its name was not marked
 * @property {(cycle: CycleEntry[]) => void} [deadlocked] the request would close this cycle; ends
 *   it. Of those that say `inside`, or wait in `wait`
 * @property {(limit: number) => void} [otherLimit] the request is shared, and those who hold the
 *   name or wait for it have agreed on this limit, 0 for none, and not on its own; ends the request
 * @property {() => void} [queueFull] as many as its `maxPending` wait; ends the request
 * @property {(why: () => unknown) => void} failed the request could not be made; ends the request.
 *   `why` makes the error, when it is told
 * @property {() => void} announceAnswer tells users that it was granted, is unavailable or
 *   failed, if it still is
 * @property {boolean} isHeard whether users' code was called with the answer, if `announceAnswer`
 *   was
 * @property {(fromEvents: boolean) => void} announceLoss tells users that the lock was stolen or
 *   lost, if it was and that is not announced yet; `fromEvents`: not within a call of users'
 * @property {() => Error} lossReason why it was stolen or lost
 * @property {() => void} finish does what could not be done for want of stack
 */

/**
 * Why a lock was lost otherwise than by a theft: nobody answered until its lease ran out, or to
 * mark its name ('unreachable'); its lease was not renewed in time ('expired'); a server that took
 * over does not know it ('failover'); its bucket was closed ('closed'); its state was deleted or
 * damaged ('destroyed').
 * @typedef {'expired' | 'unreachable' | 'failover' | 'closed' | 'destroyed'} LossReason
 */

/**
 * How far a pending request has come, where it takes a while: nothing is done of it; it is not
 * known whether it is made (a theft may be done); it is in the queue; or it has its place for good,
 * and waits only for others that were requested in the same step.
 * @typedef {'unsent' | 'sent' | 'waiting' | 'allotted'} Progress
 */

/** The tag of a request that has none. */
const NO_TAG = 2 ** 32 - 1;

/**
 * @typedef {object} LockInfo an entry of a snapshot (4.5), members in WebIDL's order
 * @property {string} clientId
 * @property {LockMode} mode
 * @property {string} name
 */

/** @typedef {{ held: LockInfo[], pending: LockInfo[] }} LockManagerSnapshot */

/** @typedef {{ clientId: string, pid: number }} Thief */

/** @typedef {import('../../types/shared.js').LockDetails} LockDetails see details.js */
/** @typedef {import('../../types/shared.js').PendingDetails} PendingDetails */
/** @typedef {LockDetails & { isHeld: boolean }} CycleEntry whether it is a lock or a request */

/**
 * @typedef {object} Backend
 * @property {string} id the same for those that manage the same locks, and for no others
 * @property {unknown} [closed] once it is closed, or has failed for good: what requests fail with
 * @property {(request: Requester) => void} request requests a lock (4.1). Leads to exactly one of
 *   `granted`, `unavailable`, `deadlocked`, `otherLimit`, `queueFull` and `failed`, once, unless
 *   the request is withdrawn before. The limit of a name is set by the first shared request, and
 *   stays until nobody holds the name or waits for it. Shared locks are held together while their
 *   weights do not add up to more; what would fit does not overtake what does not. The queue of a
 *   name is ordered by priority, higher first, and among equals first come, first served; no
 *   request takes a lock away but a thief. A backend that does not know priorities fails those that
 *   are not 0 with a NotSupportedError. Whether to refuse a request is decided before anything
 *   changes, in the turn in which it would be made.
 * @property {(request: Requester) => void | Promise<void>} withdraw ends a request that was made
 *   and whose lock nobody has used: aborts it (4.3) if it is pending, releases its lock if it was
 *   granted meanwhile. Does nothing if it has ended. Nothing is told of it afterwards. What it
 *   returns is not looked at.
 * @property {(lock: Requester) => void | Promise<void>} release releases a lock (4.2) that was
 *   granted and of which neither `stolen` nor `lost` was called, or calls it if the lock turns out
 *   to have been stolen before. A promise never rejects. If it has `keep`, its name is marked in
 *   the same step, for so long by the clock of whatever keeps the lock state; if it turns out not
 *   to be held any more, or nobody can tell whether it was marked, `stolen` or `lost` is called.
 * @property {(lock: Requester) => boolean | Promise<boolean>} [marked] whether the name of an
 *   exclusive lock that is held is marked: nobody else can mark it meanwhile. Neither a theft nor
 *   other locks take a mark away. If the lock turns out to be lost, `stolen` or `lost` is called,
 *   and the answer means nothing. Rejects if it cannot tell. If it is missing, nothing can be
 *   marked
 * @property {(request: Requester) => Progress | undefined} [progress] of a pending request;
 *   undefined of one that has ended. If it is missing, nothing is known of it
 * @property {(requests: Requester[]) => void} [requestAll] requests several locks in one step, in
 *   which all take their places in their queues: so no two such steps wait for each other. Each is
 *   answered as by `request`; with `ifAvailable` all are granted or none. That holds as long as all
 *   steps come in one order in all queues: so those with a `priority` are failed with a
 *   NotSupportedError (one that waits for `a` could get ahead on `b` of one that holds `a`). If it
 *   is missing, locks are requested one after the other.
 * @property {() => void} announce tells users what became of requests through the calls so far
 * @property {(request: Requester) => boolean} [announcesLater] asked by the caller of `request`
 *   that was granted during the call: whether callbacks of earlier grants are still to be called.
 *   Then the backend announces this one, too, after those. If it is missing, there are none
 * @property {Requester[]} unfinished requests whose `finish` is to be called
 * @property {(tag: number) => unknown} undo ends a request, whatever has become of it, and lets
 *   `finish` be called soon, from an empty stack. NO_TAG: only that
 * @property {(name?: string) => LockManagerSnapshot | Promise<LockManagerSnapshot>} query snapshots
 *   the lock state (4.5), or that of one name
 * @property {(name?: string) => DetailedSnapshot | Promise<DetailedSnapshot>} details the same with
 *   details
 * @property {(name: string, waits?: boolean) => LockDetails[] | undefined} [holders] the locks held
 *   on a name, where that can be known at once; undefined if it is not known: the question failed,
 *   or the backend is closed. An empty list says that nobody holds it. `waits`: a request of this
 *   thread waits for them. What the thread was granted and has not heard of yet is left out then,
 *   as that request may be what has it; if nobody else is left, who is in its way is not known
 * @property {(name: string) => LockDetails[] | undefined} [seenHolders] the same at once for one
 *   that waits, for messages only: others may have changed it by the time it returns
 * @property {(name: string) => Promise<LockDetails[] | undefined>} [askHolders] the same, later,
 *   for one that waits; never rejects, and may take any time. A backend has one of the three
 * @property {() => number} [grantsIn] milliseconds for which nothing is granted to anybody, as far
 *   as is known: the server may have forgotten what others hold. If it is missing, 0
 * @property {(request?: Requester) => unknown} [outage] of a backend with a server: why that tells
 *   nothing (of a pending request); undefined while it answers. If it is missing, there is no
 *   server
 * @property {(request: Requester, isHeld: boolean) => CycleEntry} [entryOf] what is known at once
 *   of a request of this thread, for errors. To be there where `holders` is missing
 * @property {(request: Requester, milliseconds: number) => void} [wait] blocks the thread until a
 *   pending request is answered, or for so long. If it is missing, nothing can be done without
 *   returning to the event loop
 * @property {boolean} [findsDeadlocks] whether it looks at `inside`
 * @property {(lock: Requester) => void} [catchUp] applies what has become of a lock that was
 *   granted and that its thread has not heard of yet: `stolen` or `lost` is called if it was, to be
 *   told later. If it is missing, the thread hears of it from its event loop only
 * @property {(lock: Requester) => boolean} [holds] whether a lock that was granted, and neither
 *   released nor lost, is held at this moment, by the clock; if not, it is `lost` by this call, and
 *   told later. If it is missing, it is held
 * @property {(lock: Requester) => number} [remaining] milliseconds that it is held at least, by
 *   the clock. If it is missing, there is no limit
 * @property {(lock: Requester, client: any) => Promise<void>} [guard] see `lock.guard`
 * @property {Promise<void>} [ready] resolves when it is open, rejects with why it could not be
 *   opened; after that another one, of another attempt. If it is missing, it is open
 * @property {() => Promise<void>} close gives back what is held through it, which is lost then, has
 *   pending requests failed with an InvalidStateError, and later ones too; resolves when all this
 *   is done. Never rejects
 */
/** @typedef {import('../../types/shared.js').DetailedSnapshot} DetailedSnapshot */

module.exports = { NO_TAG };
