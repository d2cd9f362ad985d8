'use strict';

/**
 * The contract between the cluster backend and an engine, a server that keeps the lock state and
 * that all machines reach. An engine with an Adapter has locks. docs/ADAPTERS.md says how to write
 * one, and gives the reasons.
 *
 * Sessions: everything that a manager holds and waits for belongs to its session. If a session is
 * not renewed for `ttl` milliseconds, the server removes it with its locks and requests. All times
 * are of the server's clock; an adapter never sends one.
 *
 * Names: each name has one queue, of which a prefix is *held*: one exclusive lock, or shared ones
 * whose weights do not exceed the limit. A request enters at the end, or before those of lower
 * priority; a thief enters behind earlier thieves that were granted. No request overtakes one that
 * does not fit. Members of a group have priority 0, so their order is the same in all queues. The
 * first shared request sets a name's limit, until the name is free. Names are UTF-16 code units of
 * any number, lone surrogates included. Requests of expired sessions block others until the next
 * `sweep` at most. They never block an `ifAvailable`, except while another client ends the session.
 *
 * Tokens: each grant gets a number from 1 to 2^63 - 1, greater than that of any earlier grant of
 * the name, even after restarts, fail-overs and lost data.
 *
 * Quarantine: after anything that may have lost grants (a promotion, a restart without the data)
 * the server grants nothing for the longest `ttl` that can still last. Meanwhile former holders
 * lose their locks by their own clocks. Requests queue, a thief at the head, and `ifAvailable` is
 * UNAVAILABLE. A closed session no longer counts. An expired one counts for another `ttl`, because
 * it may have renewed on another copy of the server.
 *
 * Marks: the step that ends a lock can mark its name as done for a time. A mark survives locks,
 * sessions and thefts, and blocks nobody.
 *
 * References: a request has a number, its `ref`, which is unique in all sessions of its manager.
 * The end of a missing `ref` succeeds. Calls over a connection that `hello` replaced change
 * nothing.
 *
 * Rules that keep these promises when answers, connections or servers are lost:
 *
 * R1. A step has exactly one effect. The server keeps the answers of the session's last steps, as
 * many as may be under way. If a step comes again, the server repeats its answers, whatever
 * happened since. It executes a step only after the previous one; otherwise it refuses the step
 * without effect.
 * R2. A group stays a group: the session requests it again as a whole, and holds nothing of it
 * until it has everything.
 * R3. An operation that can never succeed fails alone. If the server refuses a step, or it cannot
 * be sent, the session halves it until the operation is found. It also halves an unanswered step if
 * a later renewal shows by `step` that the server did not execute it.
 * R4. Names wait independently: a step never waits for something that only a user ends. Such an
 * operation is BUSY, and the session repeats it on its own.
 * R5. Clients report the epoch (`life`) and the greatest token that they have seen. If the server
 * does not know them, another server has granted locks meanwhile, and it begins a new epoch. That
 * is a quarantine, and tokens that leap, because nobody may have seen the greatest.
 * R6. The lease runs on a clock that counts sleep and that nobody can set (session/lease.js).
 */

/** @import { LockMode } from '../backend/contract.js' */

/**
 * @typedef {object} SessionInfo what `query` and the server's administrators see of a session
 * @property {string} clientId unique in the cluster; the same in all sessions of a manager
 * @property {string} host
 * @property {number} pid
 * @property {number} threadId
 * @property {string} threadName '' for none
 * @property {string} program the script's name, the default label of requests
 * @property {string} version of this library
 */

/**
 * Requests a lock. Members of a group follow one another in one step, without another operation
 * between them, and have one kind and different names. `ifAvailable` grants all of a group or
 * nothing: if one lock cannot be had, its answer says why, and the others are UNAVAILABLE.
 * @typedef {object} RequestOp
 * @property {'request' | 'ifAvailable' | 'steal' | 'pass' | 'passIfAvailable'} kind `steal` takes
 *   the name's locks from their holders and notifies their sessions (`stolen`). A request that
 *   passes is exclusive and in no group; it waits like a `request`, or does not, like an
 *   `ifAvailable`. Instead of being granted, it ends in the same step without a lock or a token,
 *   and the requests behind it are processed
 * @property {number} ref 1 to 2^53 - 1; grows from one request to the next
 * @property {string} name
 * @property {LockMode} mode
 * @property {number} limit of a shared request: the name's units, 1 to 2^31 - 1; otherwise 0
 * @property {number} weight how many units it takes, 1 to `limit`; 0 without a limit
 * @property {number} maxPending of a `request` or a `pass`: QUEUE_FULL if it would have to wait and
 *   as many wait already; -1 for any number
 * @property {number} priority -2^31 to 2^31 - 1; 0 for a `steal`, for a group, and for engines
 *   without priorities
 * @property {string} label for `query`; '' for none
 * @property {number} group the same number for all its members in a step; 0 for none
 */

/**
 * Releases a lock or withdraws a request, whatever its state.
 * @typedef {object} EndOp
 * @property {'end'} kind
 * @property {number} ref
 * @property {string | undefined} name undefined if only the `ref` is known, from `renew`
 * @property {number} keep milliseconds to mark the name for, if the session holds its exclusive
 *   lock; 0 for no mark
 */

/** @typedef {RequestOp | EndOp} Op */

/**
 * The result of an operation. Requests: GRANTED; PASSED (a request that passes has ended at once);
 * QUEUED (a `request`, a `pass`, or a `steal` in a quarantine); UNAVAILABLE (a request that does
 * not wait); OTHER_LIMIT (the name has the limit `limit`); QUEUE_FULL; FAILED (nothing was changed,
 * for the reason `error`). Ends: ENDED; NOT_MARKED (an end with `keep` whose lock was not held; a
 * repetition whose mark is there is ENDED). Thefts and ends: BUSY (nothing was changed, because a
 * user's transaction, which `error` may name, guards the lock).
 * @typedef {{ code: Code, token: bigint, limit: number, error: unknown }} Answer
 */

/**
 * @typedef {'granted' | 'passed' | 'queued' | 'unavailable' | 'otherLimit' | 'queueFull' | 'failed'
 *   | 'ended' | 'notMarked' | 'busy'} Code
 */

/** @type {(code: Code) => Readonly<Answer>} */
const plain = (code) => Object.freeze({ code, token: 0n, limit: 0, error: undefined });

const PASSED = plain('passed');
const QUEUED = plain('queued');
const UNAVAILABLE = plain('unavailable');
const QUEUE_FULL = plain('queueFull');
const ENDED = plain('ended');
const NOT_MARKED = plain('notMarked');

/** @type {(token: bigint) => Answer} */
const granted = (token) => ({ code: 'granted', token, limit: 0, error: undefined });
/** @type {(limit: number) => Answer} */
const otherLimit = (limit) => ({ code: 'otherLimit', token: 0n, limit, error: undefined });
/** @type {(error: unknown) => Answer} */
const failed = (error) => ({ code: 'failed', token: 0n, limit: 0, error });
/** @type {(error?: unknown) => Answer} */
const busy = (error) => ({ code: 'busy', token: 0n, limit: 0, error });

/**
 * @typedef {object} Seen the greatest that a client has seen of servers
 * @property {string} life the epoch of the server that answered the last `open` or `renew`; '' for
 *   none
 * @property {bigint} token the greatest that was granted to it; 0n for none
 */

/**
 * @typedef {object} Renewal
 * @property {boolean} alive false if the session is dead or expired; the rest means nothing then
 * @property {Map<number, bigint>} mine the token of each lock of the session, and 0n for each
 *   request that waits, by `ref`, at one instant after the renewal was sent and the lease extended
 * @property {Map<number, string>} [stolen] the thief's client id for each lock of the session that
 *   was stolen, and '' for each waiting request that has passed, until a renewal that listed it was
 *   answered. Without it, a theft whose hint got lost appears as a lost lock, and a request that
 *   has passed is made again
 * @property {number} nextExpiryIn milliseconds until a lease expires that blocks this session's
 *   requests (the adapter may count others, too); Infinity for none
 * @property {number} grantsIn milliseconds until the quarantine ends; 0 for none
 * @property {string} life the server's epoch: unique, and a new one after anything that may have
 *   lost grants
 * @property {number} [step] the greatest number of a step that the server has recorded as a whole,
 *   at the same instant. Without it, an unanswered step is never halved
 */

/**
 * @typedef {object} Entry a lock or a request, for `query`
 * @property {number} ref
 * @property {string} name
 * @property {LockMode} mode
 * @property {bigint} token 0n if it waits
 * @property {string} clientId
 * @property {string} host
 * @property {number} pid
 * @property {number} threadId
 * @property {string} threadName
 * @property {string} [program] undefined in sessions of older versions
 * @property {string} label
 * @property {number} waited milliseconds until the grant, or so far
 * @property {number} held milliseconds since the grant; 0 if it waits; NaN if unknown
 * @property {number} limit 0 for none
 * @property {number} weight 0 without a limit
 * @property {number} [priority] 0 if undefined
 */

/**
 * Events that the adapter reports to the session, at any time, even within a call of the session;
 * they do not throw. They are hints: the next `renew` makes up for a lost one, but none may be
 * wrong. The session sets them before its first call.
 * @typedef {object} AdapterEvents
 * @property {(ref: number, token: bigint) => void} granted a waiting request is granted
 * @property {(ref: number, thief: string) => void} stolen the client `thief` stole a lock, or a
 *   waiting request has passed ('')
 * @property {() => void} changed hints may have got lost, or something else changed: the session
 *   renews at once, and compares
 * @property {(error: unknown) => void} down the connection is gone, for calls or for hints, so the
 *   session calls `hello`. Never reported for a connection that `open` or `hello` has replaced, or
 *   is still making
 */

/**
 * @typedef {object} Opened
 * @property {string} session its id
 * @property {number} ttl the server's, in milliseconds
 * @property {string} life see Renewal
 * @property {number} [grantsIn] see Renewal; only users see it
 */

/**
 * The meaning of a rejection. `dead`: the session does not exist, and this call has done nothing
 * (an adapter that cannot tell says `retry`, and `dead` to the next `hello`). `retry`: another
 * attempt over a new connection may succeed. `fatal`: the server does not serve this client until
 * somebody changes something. `refused`: the server works, and will never do this call. `local`:
 * the call failed in this process before anything was sent. `misuse`: it failed in this process,
 * and every attempt will.
 *
 * The session halves a step that is `fatal`, `refused` or `local`. If `open`, `hello` or `renew` is
 * `fatal` or `refused`, requests fail with its error until an attempt succeeds. A `local` error of
 * a call other than a step counts as `misuse` before a session was open, and as `retry` later.
 * @typedef {'dead' | 'retry' | 'fatal' | 'refused' | 'local' | 'misuse'} Meaning
 */

/**
 * An engine. Its calls do not throw; their promises reject with anything that `classify`
 * understands. The session gives up a call that is never answered, and calls `hello` or `open`. All
 * calls but `open`, `close`, `query` and `dispose` concern the session that `open` returned last.
 * At most `can.window` steps, one `renew` and one `sweep` are under way, and any number of `marked`
 * and `query`, in no order among them. An adapter never keeps the event loop alive.
 *
 * @typedef {object} Adapter
 * @property {string} id equal for adapters that manage the same locks (server, bucket); it need not
 *   distinguish servers
 * @property {AdapterEvents} events set by the session
 * @property {{ readonly limits: boolean, readonly groups: boolean, readonly marks?: boolean,
 *   readonly priorities?: boolean, readonly most?: number, readonly window?: number,
 *   readonly endsLeases?: boolean }}
 *   can whether it supports `limit` and `maxPending`; groups; `keep` and `marked`; `priority`; the
 *   most names of a group, unless the server decides; how many steps it takes at once (default 1);
 *   whether the engine ends leases by itself and pushes grants
 * @property {(info: SessionInfo, ttl: number, seen: Seen) => Promise<Opened>} open connects if
 *   needed, and starts a session. Its hints arrive from then on, and its lease does not begin
 *   before the call. The latest of several calls counts, and what earlier ones have made ends by
 *   itself. `close` of the previous session may be under way
 * @property {(seen: Seen) => Promise<void>} hello replaces the session's connection. The old one
 *   changes nothing any more, even at the server; its calls need not settle, and its hints stop.
 *   The latest of several calls counts. Rejects with `dead` if the session is dead
 * @property {(ops: Op[], number: number, before: number) => Promise<Answer[]>} step executes 1 to
 *   100 operations (more in a group) in order, atomically. `number` is greater than that of all
 *   earlier steps, and by less than `can.window` than that of any unanswered one. `before` is the
 *   number of the previous unanswered step, or 0; if that is not the last executed step, the
 *   adapter does nothing and rejects with `retry`. An unanswered step comes again unchanged, before
 *   any other, and gets the same answer (R1). A refused or missed step (R3) does not come again,
 *   nor do those sent after it. Grants to waiting requests become hints (`granted`), in order;
 *   grants to operations of the step are answers. If the session is dead, the adapter does nothing
 *   and rejects, even if it executed the step before; only ends may be executed then
 * @property {(seen: Seen) => Promise<Renewal>} renew extends the lease to `ttl` from now. If the
 *   lease has expired, `alive` is false, or it rejects with `dead`: a dead session does not come
 *   back
 * @property {() => Promise<void>} sweep ends expired sessions, and grants what that, or the end of
 *   a quarantine, makes free
 * @property {(session: string) => Promise<void>} close ends a session with its locks and requests,
 *   if it exists, and grants what becomes free. It may be called for an older session while steps
 *   of the current one are under way
 * @property {(name?: string, which?: 'held') => Promise<Entry[]>} query lists locks and requests of
 *   live sessions, all or those of a name. Those of a name are in the order of its queue, at one
 *   instant. 'held' lists only the locks of a name, if possible at a cost that does not grow with
 *   its queue
 * @property {(name: string) => Promise<boolean>} [marked] whether a name is marked, at an instant
 *   after the call
 * @property {() => Promise<void>} dispose gives back connections and timers, and emits no more
 *   events. It is the last call, and does not reject
 * @property {(error: any) => Meaning} classify does not throw; an unknown error is `retry`
 * @property {(client: any, lock: { ref: number, name: string, token: bigint }) => Promise<boolean>}
 *   [guard] for engines with transactions: makes sure that the lock is still held when the user's
 *   transaction on `client` commits; false if it is not held now
 */

/** Ignores events until the session sets its own, and after `dispose`. @type {AdapterEvents} */
const NO_EVENTS = { granted() {}, stolen() {}, changed() {}, down() {} };

module.exports = {
  ENDED,
  NOT_MARKED,
  NO_EVENTS,
  PASSED,
  QUEUED,
  QUEUE_FULL,
  UNAVAILABLE,
  busy,
  failed,
  granted,
  otherLimit,
};
