'use strict';

/**
 * The contract between a LockManager and the backend that manages its locks, such as the native
 * core of the process (native.js). Section numbers are those of the specification,
 * https://www.w3.org/TR/2023/WD-web-locks-20230105/. A backend may answer during a call or at any
 * time later, and calls the members of a Requester on the thread of the request.
 *
 * State changes first, and users are notified afterwards. Calls of a backend, and the members of a
 * Requester that report what happened (`granted`, `stolen` …), run no user code. `announceAnswer`
 * and `announceLoss` may run user code, which may call the backend again, even about the same
 * request. A backend calls these two from `announce`, or from its own events. Losses come first: a
 * holder must be notified of a theft before the code of a thief in the same thread runs. If the
 * answer came during a call of `request`, `requestAll` or `wait`, the caller must announce it,
 * unless `deferAnnouncement` takes it over.
 *
 * While a backend applies a batch of events, the members that it calls must only change fields.
 * Neither they nor the backend, between two events, may call a backend, the addon, or anything that
 * could be user code: the call would apply the rest of the batch before the current event is done.
 * For the same reason, an error is created only when it is announced. test/backend/applying.test.js
 * checks this.
 *
 * Any call can throw a stack overflow, whether or not its work is done. The caller must then put
 * the request into `unfinished` and call `undo` with its tag; neither needs any further stack.
 * Afterwards the backend calls the request's `finish` from the event loop.
 */

/** @typedef {'exclusive' | 'shared'} LockMode section 2.3 */

/**
 * What to do if the lock is not available. A request that passes never holds the lock: it ends when
 * it would be granted. 'pass' waits until then. 'passIfAvailable' ends at once, as unavailable if
 * it would have to wait. Both require an exclusive request that is not part of `requestAll`.
 * @typedef {'wait' | 'ifAvailable' | 'steal' | 'pass' | 'passIfAvailable'} Disposition
 */

/**
 * A lock request (section 2.5), as a backend sees it.
 * @typedef {object} Requester
 * @property {string} name @property {LockMode} mode @property {Disposition} disposition
 * @property {string} [label] for `details`
 * @property {string} [published] the text that the thread has published last; see `publish`
 * @property {number} [limit] of a shared request: how many units of the name may be held at a time,
 *   1 to 2^31 - 1; undefined for no limit. Exclusive requests ignore it
 * @property {number} [weight] the units that the request takes, 1 to `limit`; 1 if undefined
 * @property {number} [maxPending] the request ends if it would have to wait and this many requests
 *   are already waiting
 * @property {number} [priority] -2^31 to 2^31 - 1; 0 if undefined, and for a thief. A higher
 *   priority goes first
 * @property {boolean} [hasExtensions] whether it has any of `label`, `limit`, `maxPending`,
 *   `inside`, or a `priority` other than 0
 * @property {number} [keep] milliseconds, more than 0, at most FOR_EVER: `release` marks the name
 *   for this time. It is undefined for no mark; otherwise it is set after the call of `marked` and
 *   before `release`
 * @property {Requester[]} [inside] if the request rejects deadlocks: the locks that cannot be
 *   released before the request has ended
 * @property {Backend} backend
 * @property {number} tag for the backend's use; NO_TAG while the backend does not know the request
 * @property {boolean} isPending whether the thread knows neither a grant nor an end of it
 * @property {boolean} isGranted whether it holds its lock, as far as the thread knows
 * @property {(tokenLow: number, tokenHigh: number) => void} granted called at most once: from now
 *   on the request holds the lock, or it has passed and ended. The token, in two halves of 32 bits,
 *   is greater than the token of any earlier lock on the name, even if nobody used the name in
 *   between
 * @property {() => void} unavailable ends a request that would have to wait, but must not
 * @property {(clientId: string, pid?: number) => void} stolen ends a lock that the client
 *   `clientId` has stolen. `pid` is the thief's process id, unless `clientId` contains it
 * @property {(reason: LossReason, cause?: () => Error | undefined) => void} lost ends a lock for
 *   another reason. `cause` creates the underlying error when the loss is announced. If the lock
 *   was released meanwhile, the call means nothing, unless the lock has `keep`: then it means that
 *   the name may not have been marked
 * @property {(cycle: CycleEntry[]) => void} [deadlocked] ends a request that has `inside`, or
 *   blocks in `wait`, and would close this cycle
 * @property {(limit: number) => void} [otherLimit] ends a shared request: the holders and waiters
 *   of the name use this limit (0 for none), which differs from the limit of the request
 * @property {() => void} [queueFull] ends a request because of its `maxPending`
 * @property {(why: () => unknown) => void} failed ends a request that could not be made, or whose
 *   bucket is closed before the thread knows of its grant. `why` creates the error when the failure
 *   is announced
 * @property {() => void} announceAnswer notifies users that the request was granted, is unavailable
 *   or failed, if that is still true
 * @property {boolean} isDelivered whether user code was called with the answer; valid after
 *   `announceAnswer`
 * @property {(fromEvents: boolean) => void} announceLoss notifies users, once, of the theft or
 *   loss; `fromEvents` is false within a call from user code
 * @property {() => Error} lossReason
 * @property {() => void} finish does what a stack overflow prevented
 */

/**
 * Why a lock was lost that was not stolen.
 * - 'unreachable': the server did not answer before the lease expired, or did not confirm the mark
 * - 'expired': the lease was not renewed in time
 * - 'failover': a server that took over does not know the lock
 * - 'closed': the bucket was closed
 * - 'destroyed': the lock state was deleted or damaged
 * @typedef {'expired' | 'unreachable' | 'failover' | 'closed' | 'destroyed'} LossReason
 */

/**
 * The stage that a pending request has reached on a server.
 * - 'sent': the request was sent and not answered, so it may exist, and a theft may have happened
 * - 'waiting': the request is in the queue
 * - 'grantedPartial': the request has its lock, and waits only for the other requests of its group
 * @typedef {'unsent' | 'sent' | 'waiting' | 'grantedPartial'} Progress
 */

const NO_TAG = 2 ** 32 - 1;

/**
 * An entry of a snapshot (section 4.5), with its members in the order of the specification.
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
 * @property {(request: Requester) => void} request requests a lock (section 4.1). Leads to exactly
 *   one of `granted`, `unavailable`, `deadlocked`, `otherLimit`, `queueFull` and `failed`, once,
 *   unless the request is withdrawn first. The first shared request sets the limit of a name, which
 *   stays until nobody holds the name or waits for it. Shared locks are held together while the sum
 *   of their weights does not exceed the limit. A request that would fit does not overtake an
 *   earlier request that does not fit. A queue is ordered by priority, higher first, and among
 *   equals by age; only a thief takes a lock away. A backend without priorities rejects a request
 *   whose priority is not 0 with a NotSupportedError. The step that puts requests into the queue
 *   also decides whether to refuse them. A refusal changes nothing.
 * @property {(request: Requester) => void | Promise<void>} withdraw ends a request whose lock
 *   nobody has used: aborts it (section 4.3) if it is pending, releases its lock if it was granted
 *   meanwhile, and announces nothing about it. Does nothing if it has ended. Callers must ignore
 *   the result.
 * @property {(lock: Requester) => void | Promise<void>} release releases a granted lock (section
 *   4.2) on which neither `stolen` nor `lost` was called. If the lock has `keep`, the same step
 *   marks its name for that time, by the clock of the server or process that keeps the lock state.
 *   If the lock turns out to be no longer held, or if it is unknown whether the name was marked,
 *   `stolen` or `lost` is called. A returned promise never rejects.
 * @property {(lock: Requester) => boolean | Promise<boolean>} [marked] whether the name of a held
 *   exclusive lock is marked; nobody else can mark the name while the lock is held. Neither thefts
 *   nor other locks remove a mark. If the lock turns out to be lost, `stolen` or `lost` is called,
 *   and the answer means nothing. Rejects if the answer cannot be found out. A backend without this
 *   member cannot mark names
 * @property {(lock: Requester, text: string | undefined) => boolean | Promise<boolean>} [publish]
 *   sets the text that `details` tell of a held lock as `data`: JSON, at most 4,096 bytes of UTF-8.
 *   It replaces an earlier text; undefined removes it, as does the end of the lock. The answer is
 *   true once everybody who queries afterwards sees it, and false if the lock was no longer held;
 *   then `stolen` or `lost` is called, unless the thread knew. It throws or rejects only if
 *   there is no memory or room left, and then nothing has changed. A backend without this member
 *   cannot publish
 * @property {(request: Requester) => Progress | undefined} [progress] the stage of a pending
 *   request; undefined if the request has ended, or if nothing is known
 * @property {(requests: Requester[]) => void} [requestAll] requests several locks in one step, in
 *   which all requests enter their queues, so that no two such steps wait for each other. Requests
 *   with a `priority` fail with a NotSupportedError, because they would break that: a request that
 *   waits for `a` could enter the queue of `b` ahead of a request that holds `a`. Each request is
 *   answered as by `request`; with `ifAvailable`, all are granted or none. Without this member,
 *   locks are requested one after the other
 * @property {() => void} announce notifies users of the results of all calls so far
 * @property {(request: Requester) => boolean} [deferAnnouncement] is called for a request that was
 *   granted during its call. If callbacks of earlier grants must still be called, it returns true,
 *   and the backend announces this grant after them. Otherwise the caller must announce it
 * @property {Requester[]} unfinished requests whose `finish` must be called
 * @property {(tag: number) => unknown} undo ends a request in any state, and makes sure that
 *   `finish` is soon called on an empty stack; with NO_TAG it does only the latter
 * @property {(name?: string) => LockManagerSnapshot | Promise<LockManagerSnapshot>} query snapshots
 *   the lock state (section 4.5), or the state of one name
 * @property {(name?: string) => DetailedSnapshot | Promise<DetailedSnapshot>} details
 * @property {(name: string, waits?: boolean) => LockDetails[] | undefined} [holders] the locks held
 *   on a name, if they can be read at once; undefined if the query failed or the backend is closed.
 *   `waits` says that a request of this thread waits for these locks (see blockers.js)
 * @property {(name: string) => LockDetails[] | undefined} [seenHolders] like `holders` for a
 *   waiting request, but only for messages, because the holders may have changed
 * @property {(name: string) => Promise<LockDetails[] | undefined>} [askHolders] like `holders` for
 *   a waiting request, but asynchronous; never rejects, and may take any time. Every backend has
 *   one of these three members
 * @property {() => number} [grantsIn] milliseconds during which, as far as is known, the server
 *   grants nothing to anybody, because it may have lost locks that clients still hold
 * @property {(request?: Requester) => unknown} [outage] why the backend knows nothing about its
 *   locks, or about the given pending request: its server does not answer, or it is not open yet.
 *   It is undefined if the backend knows them
 * @property {(request: Requester, isHeld: boolean) => CycleEntry} [entryOf] the details of a
 *   request of this thread that are known at once, for errors. Required if `holders` is missing
 * @property {(request: Requester, milliseconds: number) => void} [wait] blocks the thread until a
 *   pending request is answered, or until this time is over
 * @property {boolean} [findsDeadlocks] whether it searches for deadlocks; only then it reads
 *   `inside`
 * @property {(lock: Requester) => void} [catchUp] applies the theft or loss of a granted lock that
 *   the thread does not know of yet: calls `stolen` or `lost`, and the loss is announced later.
 *   Without this member, the thread is notified of losses only in its event loop
 * @property {(lock: Requester) => boolean} [checkHeld] whether a granted lock that was neither
 *   released nor lost is held at this moment, according to the clock. If not, this call marks the
 *   lock as `lost`, and the loss is announced later. Without this member, the lock counts as held
 * @property {(lock: Requester) => number} [remaining] milliseconds during which the lock is
 *   certainly held, according to the clock. Without this member, there is no limit
 * @property {(lock: Requester, client: any) => Promise<void>} [guard] see `lock.guard`
 * @property {Promise<void>} [ready] resolves when the backend is open, rejects if it cannot be
 *   opened; then the next read makes another attempt. A backend without this member is always open
 * @property {() => Promise<void>} close releases the locks held through the backend, which count as
 *   lost, and rejects pending and later requests with an InvalidStateError; never rejects
 */
/** @typedef {import('../../types/shared.js').DetailedSnapshot} DetailedSnapshot */

/**
 * The longest time that a mark is kept, 100 years in milliseconds. In the host scope, a mark with
 * this time even outlives a restart of the machine, if the directory is on a disk.
 */
const FOR_EVER = 100 * 365.25 * 86_400_000;

module.exports = { FOR_EVER, NO_TAG };
