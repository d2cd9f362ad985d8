'use strict';

/**
 * The contract between the cluster backend and an engine: a server that all machines reach, and
 * that holds the lock state. An engine that has an Adapter has locks. This file has types, and the
 * few answers; docs/ADAPTERS.md says how to write one.
 *
 * Sessions. All that a manager holds and waits for belongs to its session, a lease: the server
 * forgets a session, with its locks and requests, when it was not renewed for `ttl` milliseconds.
 * The clock is the server's in everything that an adapter answers; it never sends a time.
 *
 * Names. The state of a name is one queue. A request enters at its end, a thief at its head, but
 * behind the thieves that were granted; a prefix of it is *held*: a lock is granted when it comes
 * to stand in that prefix. Exclusive: alone. Shared: with others, as long as their weights do not
 * add up to more than the name's limit (0: none). What would fit does not overtake what does not.
 * Where the engine knows priorities, a request enters behind all that wait with its priority or
 * more and before all that wait with less: never before what is held, or a thief. That of a group's
 * members is 0, and so they stand in one order in all queues.
 * The first shared request sets the limit of a name; it stays until nobody holds the name or waits
 * for it. Names are UTF-16 code units, lone surrogates among them, of any length, and different
 * if one code unit is. Requests of a session that has expired count for nothing, wherever they
 * stand: nothing is refused or made to wait on their account longer than until the next `sweep`,
 * and `ifAvailable` not even that, but while somebody else is just ending such a session.
 *
 * Tokens. A grant gets a number, greater than that of any grant of the name before: after restarts,
 * fail-overs and lost data, too. 1 to 2^63 - 1.
 *
 * Quarantine. After anything that may have lost what the server knew of grants (a promotion, a
 * restart without the data) it grants nothing for the longest `ttl` that can still last: requests
 * queue, a thief at the head, `ifAvailable` is UNAVAILABLE. Meanwhile those who held something have
 * lost it by their own clocks. A session that was closed lasts no longer; one that was ended when
 * its time was over may have renewed on another copy of the server, and counts for another `ttl`.
 *
 * Marks. A name can be marked as done for a time, in the step that ends a lock of it. A mark is no
 * part of the queue: it outlives locks, sessions and thefts, and nobody is kept waiting by it. It
 * is gone when its time is over, by the server's clock, or with the data.
 *
 * References. A request has a number, its `ref`, that no other request of the same manager has, in
 * none of its sessions. An end of what is not there is an end. What comes by a connection that was
 * replaced (`hello`) changes nothing any more.
 *
 * The rules that keep what is said above, whatever gets lost on the way:
 *
 * R1. A step has exactly one effect. It has a number; the server keeps the answers of the session's
 * last steps, as many as may be under way, and gives those to a step when it comes again, whatever
 * has become since of what it did. A thief whose answer was lost, and who was robbed, robs nobody
 * by asking once more. Where several may be under way, the server does one only after the one
 * before it: a step whose predecessor got lost is refused, without effect, and comes again behind
 * that.
 * R2. A group stays a group: the session asks for one again as a whole, and holds nothing of it
 * until it has all of it.
 * R3. What can never succeed ends by itself: a step that the server refuses, or that cannot even be
 * sent, is halved by the session until the one operation is found, whose request fails with the
 * cause. `classify` tells such a refusal from a connection that does not work. So is one that got
 * no answer by its connection, if the server tells by the next one that it has not done it (`step`
 * of a renewal): it may be too long for the line, or for somebody's patience.
 * R4. Names wait independently: no step waits for what only a user ends. Such an operation is BUSY,
 * and the session asks for it again, by itself.
 * R5. Clients tell the server what they have seen: the life of the server that answered last, and
 * the greatest token. A server that does not know that life, or has not given such a token, was
 * replaced by another one meanwhile, and may lack what that one granted: it begins another life,
 * with a quarantine and greater tokens. Others may have been granted more than anybody tells of: so
 * the tokens leap, by what can be granted in the longest lease, or ahead of the time.
 * R6. The lease runs on a clock that counts the time that a machine sleeps, and that nobody sets
 * (session/lease.js).
 */

/** @typedef {import('../backend/contract.js').LockMode} LockMode */

/**
 * Who a session is, for `query` and for those who look into the server.
 * @typedef {object} SessionInfo
 * @property {string} clientId nobody else's in the cluster; the same in all sessions of a manager
 * @property {string} host the machine's name
 * @property {number} pid
 * @property {number} threadId
 * @property {string} threadName '' for none
 * @property {string} program the name of its script, the label of requests that have none
 * @property {string} version of this library
 */

/**
 * Requests a lock. In a group, a few that are made at once: no other operation comes between
 * them, on any of their names. Members of a group follow one another in one step, and are all of
 * one kind and of different names. With `ifAvailable` the group gets all its locks or none: if one
 * cannot be had, that one says why, the others are UNAVAILABLE, and nothing has changed.
 * @typedef {object} RequestOp
 * @property {'request' | 'ifAvailable' | 'steal' | 'pass' | 'passIfAvailable'} kind to wait; or not
 *   to; or to take the locks that are held on the name away from their holders (those locks stop
 *   being held, and their sessions are told: `stolen`). A request that passes is exclusive and in
 *   no group. It waits in the queue as a `request`, or does not wait, as an `ifAvailable`. When it
 *   would be granted, it ends in the same step: it holds nothing and gets no token, and the
 *   requests behind it are looked at next
 * @property {number} ref 1 to 2^53 - 1; grows from one request to the next
 * @property {string} name
 * @property {LockMode} mode
 * @property {number} limit of a shared request: how many units of the name may be held at a time,
 *   1 to 2^31 - 1; 0 for no limit, and for an exclusive one
 * @property {number} weight how many of them it takes, 1 to `limit`; 0 without a limit
 * @property {number} maxPending of a `request` or a `pass`: QUEUE_FULL if it had to wait and so many wait on
 *   the name already; -1 for any number
 * @property {number} priority -2^31 to 2^31 - 1; 0 of a `steal`, of a group, and where the engine
 *   does not know them
 * @property {string} label for `query`; '' for none
 * @property {number} group 0 for none; the same number within a group, in a step
 */

/**
 * Releases a lock, or takes a request back: this `ref` is gone, whatever it was.
 * @typedef {object} EndOp
 * @property {'end'} kind
 * @property {number} ref
 * @property {string | undefined} name undefined, rarely, where only the `ref` is known: the server
 *   told it by `renew`
 * @property {number} keep milliseconds for which the name is marked, if the session holds the lock,
 *   which is exclusive; 0 for no mark
 */

/** @typedef {RequestOp | EndOp} Op */

/**
 * What became of an operation. To requests: GRANTED, PASSED (a request that passes has ended at
 * once), QUEUED (a `request` or a `pass`; a `steal` in a quarantine), UNAVAILABLE (one that does not
 * wait), OTHER_LIMIT (shared, and the name has another limit, which `limit` tells; not of a
 * `steal`), QUEUE_FULL, FAILED (this one cannot be done; nothing was changed; `error` tells why). To ends: ENDED, or FAILED never. NOT_MARKED, to an end with `keep`
 * whose lock was not held; if it comes again, and the mark that it has set is there: ENDED. To
 * thieves and ends BUSY: something that the server cannot end is in the way (a user's transaction
 * that guards the lock, which `error` may name); nothing was changed by this operation.
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
 * What a client has seen of the servers that it had.
 * @typedef {object} Seen
 * @property {string} life of the server that answered `open` or `renew` last; '' for none so far
 * @property {bigint} token the greatest that was granted to it; 0n for none
 */

/**
 * @typedef {object} Renewal
 * @property {boolean} alive false: the server does not have the session, or its lease has run out;
 *   the rest means nothing then
 * @property {Map<number, bigint>} mine all locks and requests of the session, by `ref`: the
 *   token, 0n if it waits. As of one instant, not before this renewal was sent, and not before the
 *   lease was extended
 * @property {Map<number, string>} [stolen] locks of the session that were stolen, by `ref`: the
 *   client id of the thief; and requests that waited and have passed: ''. Each at least until a
 *   renewal that told of it was answered. Without it, a theft whose hint got lost is told as a lock
 *   lost, and a request that has passed is made again
 * @property {number} nextExpiryIn milliseconds until the next lease of another session runs out, as
 *   far as it is ahead of this session's requests (more are allowed); Infinity for none
 * @property {number} grantsIn milliseconds until the quarantine is over; 0 if there is none
 * @property {string} life of the server: another one after anything that may have lost what it
 *   knew of grants, and nobody else's
 * @property {number} [step] the greatest number of a step of the session that the server has
 *   recorded (R1), as of the same instant, and as a whole; undefined if it does not tell: then a
 *   step that is not answered is never halved
 */

/**
 * A lock or a request, for `query`.
 * @typedef {object} Entry
 * @property {number} ref which of its session's it is
 * @property {string} name
 * @property {LockMode} mode
 * @property {bigint} token 0n: it waits
 * @property {string} clientId
 * @property {string} host
 * @property {number} pid
 * @property {number} threadId
 * @property {string} threadName
 * @property {string} [program] '' if undefined, as in sessions of older versions
 * @property {string} label
 * @property {number} waited milliseconds: until the grant, or so far
 * @property {number} held milliseconds since the grant; 0 if it waits; NaN if that is not known
 * @property {number} limit 0 for none
 * @property {number} weight 0 without a limit
 * @property {number} [priority] 0 if undefined
 */

/**
 * What an adapter tells of its own accord, at any time; these calls do not throw, and may be made
 * in a call of the adapter's. They are hints: what gets lost is found by the next `renew`. What
 * they say of a `ref` must have been true of it. The session sets them before its first call.
 * @typedef {object} AdapterEvents
 * @property {(ref: number, token: bigint) => void} granted a request that waited is granted
 * @property {(ref: number, thief: string) => void} stolen a lock was stolen, by that client id; or
 *   a request that waited has passed: ''
 * @property {() => void} changed something else may have changed, or hints may have got lost: the
 *   session renews, and so compares, at once
 * @property {(error: unknown) => void} down the connection is gone: steps and renewals cannot be
 *   answered, or hints not heard, any more. The session calls `hello`. Not of a connection that
 *   `open` or `hello` has replaced, or is making
 */

/**
 * @typedef {object} Opened
 * @property {string} session its id
 * @property {number} ttl milliseconds that the server keeps to
 * @property {string} life see Renewal
 * @property {number} [grantsIn] see Renewal; for people only, so it may be left out
 */

/**
 * What a rejection means: `dead`, the session is not there any more, and this call has done nothing
 * (an adapter that cannot tell says `retry`, and `dead` to the `hello` after it); `retry`, it may
 * go well another time, by another connection; `fatal`, the server answers that it does not serve
 * this client, and somebody has to change something; `refused`, the server works, and has not done
 * this call, nor will it; `local`, it went wrong here, before anything was sent (a missing file, a
 * defect); `misuse`, it went wrong here, and no other attempt will go better (a client of the wrong
 * kind, or one that was ended).
 *
 * Of a step that is `fatal`, `refused` or `local`, fewer operations may go well. If `open`, `hello`
 * or `renew` is `fatal` or `refused`, requests fail with that error until one of them goes well. A
 * `local` error of another call than a step is a `misuse` before a session was open, and `retry`
 * after that.
 * @typedef {'dead' | 'retry' | 'fatal' | 'refused' | 'local' | 'misuse'} Meaning
 */

/**
 * An engine. Its calls do not throw; their promises may reject with anything, which `classify`
 * understands. A call that is never answered is given up by the session, which then says `hello`,
 * or `open`. All calls but `open`, `close`, `query` and `dispose` are about the session that `open`
 * returned last.
 *
 * At a time there are at most `can.window` steps under way, at most one `renew`, at most one
 * `sweep`; those, `marked` and `query` come in any combination, and need no order among them.
 * Nothing of an adapter keeps the event loop alive:
 * the session does so while somebody waits for something.
 *
 * @typedef {object} Adapter
 * @property {string} id the same for those that manage the same locks (server, bucket), and for no
 *   others; does not have to tell two servers apart
 * @property {AdapterEvents} events set by the session
 * @property {{ readonly limits: boolean, readonly groups: boolean, readonly marks?: boolean,
 *   readonly priorities?: boolean, readonly passes?: boolean, readonly most?: number,
 *   readonly window?: number, readonly endsLeases?: boolean }} can whether it knows `limit` and
 *   `maxPending`; groups; `keep` and `marked`; `priority`; requests that pass; the most names of a group, if that is not for the server to say; how
 *   many steps it takes at once, 1 if it does not say; whether the engine ends leases by itself,
 *   and who is granted something by that is told
 * @property {(info: SessionInfo, ttl: number, seen: Seen) => Promise<Opened>} open connects if it
 *   has to, and starts a new session, of which steps can be made at once and hints are heard. Its
 *   lease lasts from a time not before the call. `ttl`: milliseconds wanted. May be called again
 *   while it is under way: the later one counts, and whatever the earlier ones have made ends by
 *   itself. `close` of the session before may be under way
 * @property {(seen: Seen) => Promise<void>} hello replaces the connection, for the same session:
 *   the one there is does nothing any more, at the server neither, and what it was asked need not
 *   settle. Then hints are heard, and not those that came before. May be called again while it is
 *   under way. If the session is dead it rejects so
 * @property {(ops: Op[], number: number, before: number) => Promise<Answer[]>} step does all
 *   operations in their order, as one: nobody sees some of them done and some not. At least one; at
 *   most 100, unless a group has more. `number`: greater than that of any other step of the session
 *   before, and by less than `can.window` than that of any that is not answered; a step
 *   that was not answered comes again with the same operations and number, before any other one,
 *   and is answered as it was, or would have been, then (R1). Not one that was refused, or that a
 *   renewal by a later connection shows not to be done (R3), and not those that were sent behind
 *   it. `before`: the number of the step that was sent before this one, and is not answered; 0 if
 *   all are. If the step done last is not that one, it does nothing, and rejects with what is
 *   `retry`.
 *   Whoever is granted something by it is told (`granted`), in the order of the grants; the
 *   session itself by the answers, if the operation is among these, and by hints, if not. Does
 *   nothing, and rejects, if the session is dead: also if it was done before, or nothing is to be
 *   done. Only ends of what the session still has may be done, and be answered if there is nothing
 *   else
 * @property {(seen: Seen) => Promise<Renewal>} renew extends the lease to `ttl` from now. Says
 *   `alive: false`, or rejects so, if it has run out: a dead session does not come back
 * @property {() => Promise<void>} sweep ends the sessions whose lease has run out, and grants what
 *   can be granted by that, or by the end of a quarantine
 * @property {(session: string) => Promise<void>} close ends a session, with its locks and requests,
 *   if it is there, and grants what can be granted then. Called also for the one before that which
 *   is open, and steps may be made meanwhile
 * @property {(name?: string, which?: 'held') => Promise<Entry[]>} query all locks and requests of
 *   sessions that are alive, or those of one name; those of a name in the order of its queue, as of
 *   one instant. 'held': the locks of a name alone, at a cost that does not grow with its queue, as
 *   far as the engine can
 * @property {(name: string) => Promise<boolean>} [marked] whether a name is marked, as of an
 *   instant after the call
 * @property {() => Promise<void>} dispose nothing is called after it: gives back connections and
 *   timers, calls no events any more. Does not reject
 * @property {(error: any) => Meaning} classify what a rejection means. Does not throw; what it does
 *   not know is `retry`
 * @property {(client: any, lock: { ref: number, name: string, token: bigint }) => Promise<boolean>}
 *   [guard] of engines that have transactions: makes it certain that the lock is still held when
 *   the transaction commits that the user has begun on `client`; false if it is not held now
 */

/** Before the session sets them, and after the end. @type {AdapterEvents} */
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
