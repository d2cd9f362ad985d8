'use strict';

/**
 * The contract between the cluster backend and an engine, which is a server that keeps the lock
 * state and that all machines can reach. How to write an adapter for an engine, and the reasons for
 * these rules, are in docs/ADAPTERS.md.
 *
 * Sessions: everything that a manager holds and waits for belongs to its session. If a session is
 * not renewed for `ttl` milliseconds, the server removes it with its locks and requests. Leases and
 * marks end by the server's clock; an adapter sends only their durations.
 *
 * Names: a name is any number of UTF-16 code units, including lone surrogates, and has one queue.
 * The requests at its head are *held*: one exclusive lock, or shared locks whose total weight does
 * not exceed the limit. A new request enters at the end, or ahead of the waiting requests of lower
 * priority. A thief enters ahead of all waiting requests, including other thieves. If a request
 * does not fit, no request behind it is granted. Members of a group must have priority 0, so that
 * groups have the same order in all queues. The first shared request sets a name's limit, until the
 * name is free. Requests of expired sessions may block other requests only until the next `sweep`.
 * They must not block an `ifAvailable`, except while another client is ending their session.
 *
 * Tokens: each grant must get a number from 1 to 2^63 - 1, greater than the token of any earlier
 * grant of the name, even after restarts, failovers and lost data.
 *
 * Quarantine: after anything that may have lost grants (a promotion, a restart without the data)
 * the server must grant nothing for the longest `ttl` of a lease that may still last. Meanwhile
 * former holders lose their locks by their own clocks. Requests enter their queues, a thief at the
 * head, and `ifAvailable` is answered with UNAVAILABLE. The `ttl` of a closed session no longer
 * counts. The `ttl` of an expired session counts for another `ttl`, because the session may have
 * renewed on another copy of the server.
 *
 * Marks: the step that ends a lock can mark its name as done for a time. A mark survives locks,
 * sessions and thefts, and blocks nobody.
 *
 * Six rules keep these promises when answers, connections or servers are lost:
 * R1. A step takes effect exactly once. The server keeps the answers of the session's last
 * `can.window` steps, and repeats them if such a step arrives again, whatever happened in between.
 * A step that has only ends without marks may be executed again instead, as it finds nothing then.
 * R2. A group stays a group: the session repeats its requests together, and holds none of its locks
 * until all are granted.
 * R3. An operation that can never succeed fails alone. If the server refuses or misses a step, or
 * the step cannot be sent, the session halves the step until it has found the operation. A step was
 * missed if the `step` of a later renewal is smaller than its number. A step of ends without marks
 * may count as missed although it was executed: to end again does no harm.
 * R4. Names wait independently. If an operation would have to wait for something that only a user
 * can end, the server answers it with BUSY, and the session repeats it in a later step.
 * R5. Clients report the epoch (`life`) and the greatest token that they have seen. If the server
 * does not know this epoch or has not reached this token, another server has granted locks
 * meanwhile, and this server must begin a new epoch. It then enters a quarantine, and its tokens
 * leap ahead, because other clients may have got even greater tokens than the reported one.
 * R6. The lease ends by a clock that also counts while the machine sleeps and that nobody can set
 * (session/lease.js).
 */

/** @import { LockMode } from '../backend/contract.js' */

/** The shortest, the longest and the default lease, in milliseconds. */
const TTL = Object.freeze({ least: 2_000, most: 3_600_000, usual: 10_000 });

/**
 * @typedef {object} SessionInfo what `query` and the server's administrators see of a session
 * @property {string} clientId unique in the cluster, and equal in all sessions of a manager
 * @property {string} host @property {number} pid @property {number} threadId
 * @property {string} threadName '' for none
 * @property {string} program the script's name, the default label of requests
 * @property {string} version of this library
 */

/**
 * Requests a lock. Members of a group must follow one another in one step, without another
 * operation between them, and must have the same kind and different names. `ifAvailable` grants all
 * locks of a group or none: if a lock cannot be granted, its answer says why, and the other answers
 * are UNAVAILABLE.
 * @typedef {object} RequestOp
 * @property {'request' | 'ifAvailable' | 'steal' | 'pass' | 'passIfAvailable'} kind `steal` takes
 *   the name's locks from their holders and notifies their sessions (`stolen`). `pass` and
 *   `passIfAvailable` are requests that pass: when such a request could be granted, it ends without
 *   a lock or a token, and the same step processes the requests after it. Otherwise `pass` waits,
 *   like `request`, and `passIfAvailable` is UNAVAILABLE, like `ifAvailable`. Both must be
 *   exclusive and in no group
 * @property {number} ref 1 to 2^53 - 1; grows with each request, in all sessions of its manager
 * @property {string} name @property {LockMode} mode
 * @property {number} limit of a shared request: the name's units, 1 to 2^31 - 1; otherwise 0
 * @property {number} weight how many units it takes, 1 to `limit`; 0 without a limit
 * @property {number} maxPending of a `request` or a `pass`: the answer is QUEUE_FULL if the request
 *   would have to wait and this many requests are already waiting; -1 for no limit
 * @property {number} priority -2^31 to 2^31 - 1; 0 for thefts, groups, and engines without it
 * @property {string} label for `query`; '' for none
 * @property {number} group the same number for all members of a group; 0 for no group
 */

/**
 * Releases a lock or withdraws a request, whatever its state. Ending a missing `ref` must succeed.
 * @typedef {object} EndOp
 * @property {'end'} kind @property {number} ref
 * @property {string | undefined} name undefined if only the `ref` is known, from `renew`
 * @property {number} markFor milliseconds to mark the name for, if its exclusive lock is held; or 0
 */

/**
 * Sets or removes the data of a held lock, which `query` reports until the lock ends. The session
 * sends another publication of the same lock only after this one was answered.
 * @typedef {object} PublishOp
 * @property {'publish'} kind @property {number} ref of the lock @property {string} name
 * @property {string} data JSON, at most 4,096 bytes of UTF-8; '' removes the data
 */

/** @typedef {RequestOp | EndOp | PublishOp} Op */

/**
 * The result of an operation. The answer to a request is one of these:
 *
 * - GRANTED
 * - PASSED: a request that passes has ended at once
 * - QUEUED: a `request`, a `pass`, or (in a quarantine) a `steal` waits
 * - UNAVAILABLE: a request that must not wait was not granted
 * - OTHER_LIMIT: the name has another limit, which is in `limit`
 * - QUEUE_FULL: see `maxPending`
 * - FAILED: nothing was changed, for the reason `error`
 *
 * The answer to an end is one of these:
 *
 * - ENDED
 * - NOT_MARKED: an end with `markFor` set no mark, because its lock was not held. If the step is
 *   repeated and has already set the mark, the answer is ENDED
 *
 * The answer to a publication is one of these:
 *
 * - PUBLISHED: each later `query` reports the data
 * - NOT_HELD: nothing was changed, because the session does not hold the lock. The next `renew`
 *   must then report the loss or the theft
 * - FAILED, as above
 *
 * A theft, an end or a publication can also get BUSY: nothing was changed, because a user's
 * transaction guards the lock. `error` may name that transaction.
 * @typedef {{ code: Code, token: bigint, limit: number, error: unknown }} Answer
 * @typedef {'granted' | 'passed' | 'queued' | 'unavailable' | 'otherLimit' | 'queueFull' | 'failed'
 *   | 'ended' | 'notMarked' | 'published' | 'notHeld' | 'busy'} Code
 */

/** @type {(code: Code) => Readonly<Answer>} */
const plain = (code) => Object.freeze({ code, token: 0n, limit: 0, error: undefined });

const PASSED = plain('passed');
const QUEUED = plain('queued');
const UNAVAILABLE = plain('unavailable');
const QUEUE_FULL = plain('queueFull');
const ENDED = plain('ended');
const NOT_MARKED = plain('notMarked');
const PUBLISHED = plain('published');
const NOT_HELD = plain('notHeld');

/** @type {(token: bigint) => Answer} */
const granted = (token) => ({ code: 'granted', token, limit: 0, error: undefined });
/** @type {(limit: number) => Answer} */
const otherLimit = (limit) => ({ code: 'otherLimit', token: 0n, limit, error: undefined });
/** @type {(error: unknown) => Answer} */
const failed = (error) => ({ code: 'failed', token: 0n, limit: 0, error });
/** @type {(error?: unknown) => Answer} */
const busy = (error) => ({ code: 'busy', token: 0n, limit: 0, error });

/**
 * @typedef {object} Seen the epoch and the greatest token that a client has seen
 * @property {string} life the epoch in the last answer to `open` or `renew`; '' for none
 * @property {bigint} token the greatest token that was granted to the client; 0n for none
 */

/**
 * @typedef {object} Renewal
 * @property {boolean} alive if false, the session is gone, and the other fields mean nothing
 * @property {Map<number, bigint>} mine by `ref`: the token of each lock of the session, and 0n for
 *   each request that waits; all are read at one instant, after the lease was extended
 * @property {Map<number, string>} [stolen] by `ref`: the thief's client id for each lock of the
 *   session that was stolen, and '' for each waiting request that has passed. The server lists each
 *   of them until a renewal that lists it has arrived at the adapter. Without this field, a theft
 *   whose hint was lost appears as a lost lock, and a request that has passed is made again
 * @property {number} nextExpiryIn milliseconds until the expiry of the first lease that blocks this
 *   session's requests (the adapter may also count other leases); Infinity for none
 * @property {number} grantsIn milliseconds until the quarantine ends; 0 for none
 * @property {string} life the server's epoch: unique, and replaced after anything that may have
 *   lost grants
 * @property {number} [step] the number of the last step that the server has recorded as a whole,
 *   read at the same instant as `mine`. Without this field, an unanswered step is never halved
 */

/**
 * @typedef {object} Entry a lock or a request, for `query`
 * @property {number} ref @property {string} name @property {LockMode} mode
 * @property {bigint} token 0n if it waits
 * @property {string} clientId @property {string} host @property {number} pid
 * @property {number} threadId @property {string} threadName
 * @property {string} [program] undefined in sessions of older versions
 * @property {string} label
 * @property {number} waited how many milliseconds the request waited, or has waited so far
 * @property {number} held milliseconds since the grant; 0 if it waits; NaN if unknown
 * @property {number} limit 0 for none @property {number} weight 0 without a limit
 * @property {number} [priority] 0 if undefined
 * @property {string} [data] what was published with the lock: JSON; '' or undefined for nothing
 */

/**
 * Functions by which the adapter reports events to the session, at any time, even while the session
 * calls the adapter. They must not throw. Events are hints: the next `renew` makes up for a lost
 * event, but no event may be wrong. The session sets these functions before its first call.
 * @typedef {object} AdapterEvents
 * @property {(ref: number, token: bigint) => void} granted a waiting request is granted
 * @property {(ref: number, thief: string) => void} stolen the client `thief` stole a lock, or a
 *   waiting request has passed ('')
 * @property {() => void} changed hints may have been lost, or something else has changed: the
 *   session renews at once, and compares the server's list with its own
 * @property {(error: unknown) => void} down the connection is gone, for calls or for hints, so the
 *   session calls `hello`. Never reported for a connection that `open` or `hello` has replaced, or
 *   is still establishing
 */

/**
 * @typedef {object} Opened
 * @property {string} session the id of the session @property {string} life see Renewal
 * @property {number} ttl the server's `ttl` in milliseconds
 * @property {number} [grantsIn] see Renewal; only shown to users
 */

/**
 * The meaning of a rejection. docs/ADAPTERS.md ("Errors") says what the session does then.
 *
 * - `dead`: the session does not exist, and this call has done nothing. (If the call may have done
 *   something, the adapter must use `retry`, and reject the next `hello` with `dead`.)
 * - `retry`: another attempt over a new connection may succeed
 * - `fatal`: the server does not serve this client until somebody changes something
 * - `refused`: the server works, but will never execute this call
 * - `local`: the call failed in this process before anything was sent
 * - `misuse`: the call failed in this process, and every further attempt will fail too
 *
 * @typedef {'dead' | 'retry' | 'fatal' | 'refused' | 'local' | 'misuse'} Meaning
 */

/**
 * Connects one manager to an engine. Its methods must not throw; their promises may reject with
 * anything that `classify` understands. The session gives up a call that is not answered in time,
 * and calls `hello` or `open`. All calls but `open`, `close`, `query`, `extend` and `dispose`
 * concern the session that `open` returned last. Calls may overlap: at any time, up to `can.window`
 * steps, one `renew`, one `sweep`, and any number of `marked` and `query` may be unanswered. An
 * adapter must never keep the event loop alive.
 *
 * @typedef {object} Adapter
 * @property {string} id equal for adapters that manage the same locks (server, bucket); it need not
 *   differ between servers
 * @property {AdapterEvents} events set by the session
 * @property {{ readonly limits: boolean, readonly groups: boolean, readonly marks?: boolean,
 *   readonly priorities?: boolean, readonly data?: boolean, readonly most?: number,
 *   readonly window?: number, readonly endsLeases?: boolean }}
 *   can whether the engine supports `limit` and `maxPending` (`limits`), groups (`groups`),
 *   `markFor` and `marked` (`marks`), `priority` (`priorities`), and publications (`data`). `most`:
 *   the greatest number of names in a group (default: only the server limits it). `window`: how
 *   many steps may be under way (default 1). `endsLeases`: whether the engine ends leases by itself
 *   and pushes grants
 * @property {(info: SessionInfo, ttl: number, seen: Seen) => Promise<Opened>} open connects if
 *   needed, and starts a session. The session's hints arrive from then on, and its lease must not
 *   begin before the call. The latest of several calls counts, and sessions that earlier calls have
 *   started end by themselves. `close` of the previous session may be under way
 * @property {(seen: Seen) => Promise<void>} hello replaces the session's connection. What was sent
 *   over the old one must change nothing any more, but for ends without marks, which are always
 *   right; its calls need not settle, and its hints must stop. The latest of several calls counts.
 *   Rejects with `dead` if the session is dead
 * @property {(ops: Op[], number: number, before: number) => Promise<Answer[]>} step executes 1 to
 *   100 operations (more in a group) in order, atomically. `number` is greater than the numbers of
 *   all earlier steps, and exceeds the number of any unanswered step by less than `can.window`.
 *   `before` is the number of the previous unanswered step, or 0 for none; if it is neither 0 nor
 *   the last executed step, the adapter must do nothing and reject with `retry`. The session sends
 *   an unanswered step again unchanged, before any other step, and must get the same answer (R1).
 *   It does not send a refused or missed step (R3) again, nor the steps after it. Grants to waiting
 *   requests become hints (`granted`), in order; grants to operations of the step are answers. If
 *   the session is dead, the adapter must do nothing and reject, even if it executed the step
 *   earlier; only ends may be executed then
 * @property {(seen: Seen) => Promise<Renewal>} renew extends the lease to `ttl` from now. If the
 *   lease has expired, `alive` must be false, or the call must reject with `dead`: a dead session
 *   does not come back
 * @property {() => unknown} [keeperTicket] returns what `extend` needs besides the connection;
 *   `structuredClone` must be able to copy it
 * @property {(ticket: any, seen: Seen) => Promise<boolean>} [extend] for the keeper, which calls it
 *   on another adapter of the bucket, in another thread, without `open`: extends the lease to `ttl`
 *   from now. If the server is in another epoch than `seen.life`, or is another server, it extends
 *   nothing, begins no epoch, and the result is false: the session must first compare what it
 *   holds. Otherwise, if the lease has expired or the session has ended, it must reject with
 *   `dead`. Unlike `hello`, it does not replace the session's connection
 * @property {() => Promise<void>} sweep ends expired sessions, and grants the locks that can be
 *   granted because of that or of the end of a quarantine
 * @property {(session: string) => Promise<void>} close ends a session with its locks and requests,
 *   if it exists, and grants what becomes free. It may be called for an older session while steps
 *   of the current one are under way
 * @property {(name?: string, which?: 'held') => Promise<Entry[]>} query lists the locks and
 *   requests of live sessions, either of all names or of one. It shows what the steps before the
 *   call did, and nothing of the steps after it. For one name they must be in the order of the
 *   queue, as it was at one instant. 'held' lists only the locks of a name, if possible at a cost
 *   that does not depend on the length of the queue
 * @property {(name: string) => Promise<boolean>} [marked] whether a name was marked at an instant
 *   after the call
 * @property {() => Promise<void>} dispose frees connections and timers, and emits no more events.
 *   It is the last call, and must not reject
 * @property {(error: any) => Meaning} classify does not throw; an unknown error is `retry`
 * @property {(client: any, lock: { ref: number, name: string, token: bigint }) => Promise<boolean>}
 *   [guard] for engines with transactions: makes sure that the lock is still held when the user's
 *   transaction on `client` commits; false if it is not held now
 */

/** Whether an operation makes a request. @param {Op} op @returns {op is RequestOp} */
const isRequest = (op) => op.kind !== 'end' && op.kind !== 'publish';

/** Whether a request ends when it would be granted. @param {{ kind?: string }} request */
const isPassing = ({ kind }) => kind === 'pass' || kind === 'passIfAvailable';

/** Whether a request waits for its grant, instead of failing. @param {{ kind?: string }} op */
const waits = ({ kind }) => kind === 'request' || kind === 'pass';

/** What entries say of a session. @param {SessionInfo} info */
const whoOf = ({ clientId, host, pid, threadId, threadName, program }) => ({
  ...{ clientId, host, pid, threadId, threadName, program },
});

/** For the time before the session sets `events`, and after `dispose`. @type {AdapterEvents} */
const NO_EVENTS = { granted() {}, stolen() {}, changed() {}, down() {} };

module.exports = {
  ENDED,
  NOT_HELD,
  NOT_MARKED,
  NO_EVENTS,
  PASSED,
  PUBLISHED,
  QUEUED,
  QUEUE_FULL,
  TTL,
  UNAVAILABLE,
  busy,
  failed,
  granted,
  isPassing,
  isRequest,
  otherLimit,
  waits,
  whoOf,
};
