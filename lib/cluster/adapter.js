'use strict';

/**
 * The contract between the cluster backend and an engine, a server that keeps the lock state and
 * that all machines reach. An engine with an Adapter has locks; docs/ADAPTERS.md says how to write
 * one, with the reasons. This file holds the types and the few answers.
 *
 * Sessions: everything that a manager holds and waits for belongs to its session. If a session is
 * not renewed for `ttl` milliseconds, the server removes it with its locks and requests. All times
 * are of the server's clock; an adapter never sends one.
 *
 * Names: each name has one queue, of which a prefix is *held*: one exclusive lock, or shared ones
 * whose weights do not exceed the limit. A request enters at the end, or before those of lower
 * priority; a thief enters behind earlier thieves that were granted. No request overtakes one that
 * does not fit. Members of a group have priority 0, so they have one order in all queues. The first
 * shared request sets a name's limit, until the name is free. Names are UTF-16 code units of any
 * number, lone surrogates included. Requests of expired sessions block others no longer than until
 * the next `sweep`, and `ifAvailable` never, except while another client ends such a session.
 *
 * Tokens: each grant gets a number from 1 to 2^63 - 1, greater than that of any earlier grant of
 * the name, even after restarts, fail-overs and lost data.
 *
 * Quarantine: after anything that may have lost grants (a promotion, a restart without the data)
 * the server grants nothing for the longest `ttl` that can still last. Requests queue, a thief at
 * the head, and `ifAvailable` is UNAVAILABLE, while former holders lose their locks by their own
 * clocks. A closed session no longer counts; an expired one counts for another `ttl`, because it
 * may have renewed on another copy of the server.
 *
 * Marks: the step that ends a lock can mark its name as done for a time. A mark survives locks,
 * sessions and thefts, and blocks nobody.
 *
 * References: a request has a number, its `ref`, which is unique in all sessions of its manager. To
 * end a missing `ref` succeeds. Calls over a connection that `hello` replaced change nothing.
 *
 * Rules that keep these promises when answers, connections or servers are lost:
 *
 * R1. A step has exactly one effect. The server keeps the answers of the session's last steps, as
 * many as may be under way, and repeats them if the step comes again, whatever happened since. It
 * executes a step only after the one before it; otherwise it refuses the step without effect.
 * R2. A group stays a group: the session requests it again as a whole, and holds nothing of it
 * until it has everything.
 * R3. An operation that can never succeed fails alone. The session halves a step that the server
 * refuses, or that cannot be sent, until the operation is found. It also halves a step that got no
 * answer, if a later renewal shows by `step` that the server did not execute it.
 * R4. Names wait independently: a step never waits for something that only a user ends. Such an
 * operation is BUSY, and the session repeats it on its own.
 * R5. Clients report the epoch (`life`) and the greatest token that they have seen. If the server
 * does not know them, another server has granted locks meanwhile, and it begins a new epoch: a
 * quarantine, and tokens that leap, because nobody may have seen the greatest.
 * R6. The lease runs on a clock that counts sleep and that nobody sets (session/lease.js).
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
 * @typedef {object} RequestOp requests a lock. Members of a group follow one another in one step,
 *   are of one kind and of different names, and no other operation comes between them.
 *   `ifAvailable` grants all of a group or nothing: if one lock cannot be had, its answer says why,
 *   and the others are UNAVAILABLE
 * @property {'request' | 'ifAvailable' | 'steal' | 'pass' | 'passIfAvailable'} kind `steal` takes
 *   the name's locks from their holders and notifies their sessions (`stolen`). A request that
 *   passes is exclusive and in no group; it waits as a `request`, or not, as an `ifAvailable`. When
 *   it would be granted, it ends in the same step without a lock or a token, and the requests
 *   behind it are processed
 * @property {number} ref 1 to 2^53 - 1; grows from one request to the next
 * @property {string} name
 * @property {LockMode} mode
 * @property {number} limit of a shared request: the name's units, 1 to 2^31 - 1; otherwise 0
 * @property {number} weight how many units it takes, 1 to `limit`; 0 without a limit
 * @property {number} maxPending of a `request` or a `pass`: QUEUE_FULL if as many wait already and
 *   it would have to; -1 for any number
 * @property {number} priority -2^31 to 2^31 - 1; 0 of a `steal`, of a group, and where the engine
 *   has no priorities
 * @property {string} label for `query`; '' for none
 * @property {number} group the same number for all its members in a step; 0 for none
 */

/**
 * @typedef {object} EndOp releases a lock or withdraws a request, whatever its state
 * @property {'end'} kind
 * @property {number} ref
 * @property {string | undefined} name undefined if only the `ref` is known, from `renew`
 * @property {number} keep milliseconds to mark the name for, if the session holds its exclusive
 *   lock; 0 for no mark
 */

/** @typedef {RequestOp | EndOp} Op */

/**
 * The result of an operation. Of requests: GRANTED; PASSED (a request that passes has ended at
 * once); QUEUED (a `request` or a `pass`, or a `steal` in a quarantine); UNAVAILABLE (one that does
 * not wait); OTHER_LIMIT (shared; the name has the limit `limit`); QUEUE_FULL; FAILED (nothing was
 * changed, for the reason `error`). Of ends: ENDED; NOT_MARKED (an end with `keep` whose lock was
 * not held, unless it is a repetition and its mark is there). Of thefts and ends: BUSY (nothing was
 * changed, because a user's transaction, which `error` may name, guards the lock).
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
 * @typedef {object} Seen what a client has seen of servers
 * @property {string} life the epoch of the server that answered `open` or `renew` last; '' for none
 * @property {bigint} token the greatest that was granted to it; 0n for none
 */

/**
 * @typedef {object} Renewal
 * @property {boolean} alive false if the session is dead or expired; the rest means nothing then
 * @property {Map<number, bigint>} mine the token (0n if it waits) of all locks and requests of the
 *   session, by `ref`, at one instant after the renewal was sent and the lease extended
 * @property {Map<number, string>} [stolen] the thief's client id for locks of the session that were
 *   stolen, and '' for requests that waited and have passed, each until a renewal that listed it
 *   was answered. Without it, a theft whose hint got lost appears as a lost lock, and a request
 *   that has passed is made again
 * @property {number} nextExpiryIn milliseconds until a lease expires that blocks this session's
 *   requests (the adapter may count others, too); Infinity for none
 * @property {number} grantsIn milliseconds until the quarantine ends; 0 if there is none
 * @property {string} life the server's epoch: unique, and a new one after anything that may have
 *   lost grants
 * @property {number} [step] the greatest number of a step that the server has recorded as a whole,
 *   at the same instant. Without it, a step that is not answered is never halved
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
 * Calls of the adapter to the session, at any time, also within a call of the session; they do not
 * throw. They are hints: one that gets lost is made up for by the next `renew`, but none may be
 * wrong. The session sets them before its first call.
 * @typedef {object} AdapterEvents
 * @property {(ref: number, token: bigint) => void} granted a request that waited is granted
 * @property {(ref: number, thief: string) => void} stolen the client `thief` stole a lock,
 *   or a request that waited has passed ('')
 * @property {() => void} changed hints may have got lost, or something else changed: the session
 *   renews at once, and compares
 * @property {(error: unknown) => void} down the connection is gone, for calls or for hints: the
 *   session calls `hello`. Not for a connection that `open` or `hello` has replaced, or still makes
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
 * somebody changes something. `refused`: the server works, and will never do this call. `local`: it
 * failed in this process before anything was sent. `misuse`: it failed in this process, and every
 * attempt will.
 *
 * The session halves a step that is `fatal`, `refused` or `local`. If `open`, `hello` or `renew` is
 * `fatal` or `refused`, requests fail with its error until an attempt succeeds. A `local` error of
 * a call other than a step is a `misuse` before a session was open, and `retry` later.
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
 *   readonly endsLeases?: boolean }} can whether it supports `limit` and `maxPending`; groups;
 *   `keep` and `marked`; `priority`; the most names of a group, unless the server decides; how many
 *   steps it takes at once (default 1); whether the engine ends leases by itself and pushes grants
 * @property {(info: SessionInfo, ttl: number, seen: Seen) => Promise<Opened>} open connects if
 *   needed, and starts a session, whose hints arrive from then on and whose lease does not begin
 *   before the call. The latest of several calls counts, and what earlier ones have made ends by
 *   itself. `close` of the session before may be under way
 * @property {(seen: Seen) => Promise<void>} hello replaces the session's connection. The old one
 *   changes nothing any more, also at the server; its calls need not settle, and its hints stop.
 *   The latest of several calls counts. Rejects with `dead` if the session is dead
 * @property {(ops: Op[], number: number, before: number) => Promise<Answer[]>} step does 1 to 100
 *   operations (more in a group) in order, atomically. `number` is greater than that of all earlier
 *   steps, and by less than `can.window` than that of any unanswered one. `before` is the number of
 *   the unanswered step before this one, or 0; if that is not the last step done, the adapter does
 *   nothing and rejects with `retry`. An unanswered step comes again unchanged, before any other,
 *   and gets the same answer (R1); but not if it was refused or missed (R3), nor those sent behind
 *   it. Grants to waiting requests become hints (`granted`), in order; grants to operations of the
 *   step are answers. Rejects, and does nothing, if the session is dead, even if the step was done
 *   before; only ends may be done then
 * @property {(seen: Seen) => Promise<Renewal>} renew extends the lease to `ttl` from now. `alive`
 *   is false, or it rejects with `dead`, if the lease has expired: a dead session does not come
 *   back
 * @property {() => Promise<void>} sweep ends expired sessions, and grants what that, or the end of
 *   a quarantine, makes free
 * @property {(session: string) => Promise<void>} close ends a session with its locks and requests,
 *   if it exists, and grants what becomes free. Also called for an older session, while steps of
 *   the current one are made
 * @property {(name?: string, which?: 'held') => Promise<Entry[]>} query lists locks and requests of
 *   live sessions, all or those of a name; a name's are in the order of its queue, as of one
 *   instant. 'held' lists the locks of a name alone, if possible at a cost that does not grow with
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

/** Ignores events before the session sets its own, and after `dispose`. @type {AdapterEvents} */
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
