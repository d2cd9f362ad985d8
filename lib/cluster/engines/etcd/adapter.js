'use strict';

/**
 * The adapter of etcd (adapter.js), by its JSON gateway (gateway.js).
 *
 * A session is a lease and a key bound to it; requests are keys bound to it, too (keys.js). A
 * watch of all of a bucket's keys tells everything to the mirror (mirror.js), which knows who
 * holds what; grants are not written. What the mirror says is made certain by the conditions of a
 * transaction (plan.js), or so: something is written, and when it comes by the watch, all
 * that was before it has come. So every renewal also shows that the watch is heard.
 *
 * The session's key is written by each connection; all that is written has its version as a
 * condition. So nothing of an earlier connection, or of a lease that has ended, changes anything.
 *
 * What is not as adapter.js has it:
 * - A step is as many transactions as it needs; a group is in one.
 * - A name has the limit of its first shared request as long as there is a shared one.
 * - Shared locks that are granted by the same event have the same token.
 * - A mark lasts for as long as its lease: whole seconds, at least what etcd gives (2 by default),
 *   and from anew when another member leads, unless it was started to keep that (checkpoints).
 * - There is no quarantine: etcd forgets nothing that it has answered.
 * - How long a request has waited, and a lock is held, is known as far as it was seen from here.
 */

const { clearTimeout, now, setTimeout, unref } = require('../../../platform/intrinsics.js');
const { ENDED, NOT_MARKED, NO_EVENTS, QUEUED, failed, granted } = require('../../adapter.js');
const {
  classify,
  deadError,
  longNameError,
  newLeaderError,
  noWatchError,
  staleError,
} = require('./errors.js');
const { Gateway } = require('./gateway.js');
const { Keys, base64, base64Json, doneLease, leaseKey, valueOf } = require('./keys.js');
const { Mirror } = require('./mirror.js');
const { Planner, nextPart, setterOf, unitsOf } = require('./plan.js');

/** @typedef {import('../../adapter.js').Adapter} Adapter */
/** @typedef {import('../../adapter.js').Answer} Answer */
/** @typedef {import('../../adapter.js').Entry} Entry */
/** @typedef {import('../../adapter.js').Op} Op */
/** @typedef {import('../../adapter.js').SessionInfo} SessionInfo */
/** @typedef {InstanceType<typeof import('./gateway.js').Link>} OpenLink */

/** Keys that are read at once. */
const PAGE = 5_000;
/** The most characters of a request's value. */
const MOST_VALUE = 1_000_000;

/** Errors of one operation that is alone in its transaction. */
const OF_ONE = ['ERR_WEB_LOCKS_TOO_MANY', 'ERR_WEB_LOCKS_TOO_LARGE'];

/**
 * What belongs to a session.
 * @typedef {object} Own
 * @property {string} id of the lease, as etcd has it
 * @property {string} lease as in keys
 * @property {string} info the value of its key
 * @property {number} ttl milliseconds
 * @property {number} version of its key: of the connection
 * @property {InstanceType<typeof Mirror>} mirror
 * @property {InstanceType<typeof Planner>} planner
 * @property {boolean} isDead
 */

/** @implements {Adapter} */
class EtcdAdapter {
  /** @type {string} */
  id;
  can = Object.freeze({ limits: true, groups: true, marks: true });
  /** @type {import('../../adapter.js').AdapterEvents} */
  events = NO_EVENTS;
  classify = classify;

  #gateway;
  #keys;
  /** The session that `open` started last. @type {Own | undefined} */
  #own;
  /** @type {OpenLink | undefined} */
  #link;
  /** One that is not ready yet. @type {OpenLink | undefined} */
  #making;
  /** Counts calls of `open`, `hello` and `dispose`, of which the last counts. */
  #epoch = 0;
  /** Requests of the step under way: their tokens, or 0n. @type {Map<number, bigint>} */
  #asked = new Map();
  /** Ends of the step under way: nobody else has ended those. @type {Set<number>} */
  #ending = new Set();
  /** Calls that end a session. @type {Set<OpenLink>} */
  #closing = new Set();

  /**
   * @param {string} bucket
   * @param {ConstructorParameters<typeof Gateway>[0]} options
   */
  constructor(bucket, options) {
    this.#gateway = new Gateway(options);
    this.#keys = new Keys(bucket);
    this.id = `etcd ${bucket}`;
  }

  /**
   * @param {SessionInfo} info
   * @param {number} ttl milliseconds
   */
  async open(info, ttl) {
    const link = this.#connect();
    const epoch = this.#epoch;
    try {
      const lease = await link.call('lease/grant', { TTL: String(Math.ceil(ttl / 1_000)) });
      const own = this.#newSession(String(lease.ID), Number(lease.TTL) * 1_000, info);
      await link.call('kv/put', this.#sessionPut(own));
      own.version = 1;
      await this.#load(link, own.mirror);
      await this.#watch(link, own, 0);
      this.#keep(epoch, link, own);
      return { session: own.id, ttl: own.ttl };
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  async hello() {
    const link = this.#connect();
    const epoch = this.#epoch;
    const own = this.#session();
    try {
      const key = base64(this.#keys.session(own.lease));
      const { header, responses, succeeded } = await link.call('kv/txn', {
        compare: [{ key, target: 'CREATE', result: 'GREATER', create_revision: '0' }],
        success: [{ request_put: this.#sessionPut(own) }, { request_range: { key } }],
      });
      if (!succeeded) throw deadError();
      const version = Number(responses[1].response_range.kvs[0].version);
      if (!(await this.#watch(link, own, Number(header.revision)))) {
        // What it has missed is not kept any more.
        await this.#load(link, own.mirror);
        await this.#watch(link, own, 0);
      }
      own.version = version;
      this.#keep(epoch, link, own);
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  /** @param {Op[]} ops */
  async step(ops) {
    const own = this.#session();
    const link = this.#connection();
    /** @type {Map<number, bigint>} */
    const asked = new Map();
    for (const { kind, ref } of ops) if (kind !== 'end') asked.set(ref, 0n);
    this.#asked = asked;
    this.#ending = new Set();
    /** @type {Map<Op, Answer>} */
    const answers = new Map();
    try {
      await this.#leaseMarks(ops, own, link);
      const units = unitsOf(ops.filter((op) => !this.#isTooLarge(op, answers)));
      while (units.length > 0) {
        await this.#do(nextPart(units, this.#keys, own.mirror), own, link, answers);
      }
      for (const op of ops) if (isMarking(op)) answers.set(op, await this.#lookAt(op, own, link));
      return ops.map((op) => answers.get(op) ?? this.#answer(op, own, asked));
    } finally {
      if (this.#asked === asked) this.#asked = new Map();
    }
  }

  async renew() {
    const own = this.#session();
    const link = this.#connection();
    const dead = {
      alive: false,
      mine: new Map(),
      nextExpiryIn: Number.POSITIVE_INFINITY,
      grantsIn: 0,
    };
    if (own.isDead) return dead;
    const { header, TTL } = await link.call('lease/keepalive', { ID: own.id });
    if (!(Number(TTL) > 0)) return dead;
    // A leader that others have replaced answers, and extends nothing. What is committed in the
    // same term shows that it led.
    const { raft_term: term } = await this.#sync(own, link);
    if (term !== header.raft_term) throw newLeaderError();
    const mine = new Map([...own.mirror.mine].map(([ref, { token }]) => [ref, token]));
    return { ...dead, alive: true, mine };
  }

  /** etcd ends leases by itself, and tells by the watch. */
  async sweep() {}

  /** @param {string} session */
  async close(session) {
    for (let left = this.#gateway.size; left > 0; left--) {
      // Not by the connection there is: that may be replaced meanwhile.
      const link = this.#gateway.link(this.#gateway.size - left);
      this.#closing.add(link);
      try {
        await link.call('lease/revoke', { ID: session });
        return;
      } catch (error) {
        if (classify(error) === 'dead') return;
        if (left === 1) throw error;
      } finally {
        this.#closing.delete(link);
      }
    }
  }

  /** @param {string} [name] */
  async query(name) {
    const own = this.#session();
    await this.#sync(own, this.#connection());
    const { mirror } = own;
    const names = name === undefined ? [...mirror.queues] : [name];
    return names.flatMap((one) => entriesOf(mirror, one));
  }

  async dispose() {
    this.events = NO_EVENTS;
    this.#replace();
    for (const link of this.#closing) link.drop();
  }

  // Sessions and connections.

  /**
   * @param {string} id
   * @param {number} ttl
   * @param {SessionInfo} info
   * @returns {Own}
   */
  #newSession(id, ttl, info) {
    const lease = leaseKey(id);
    const mirror = new Mirror(this.#keys, lease, {
      granted: (ref, token) => own === this.#own && this.#granted(ref, token),
      stolen: (ref, thief) => own === this.#own && this.events.stolen(ref, thief),
      gone: (ref) => own === this.#own && !this.#ending.has(ref) && this.events.changed(),
      dead: () => {
        own.isDead = true;
        if (own === this.#own) this.events.changed();
      },
    });
    const planner = new Planner(this.#keys, mirror, lease, id);
    /** @type {Own} */
    const own = {
      ...{ id, lease, ttl, mirror, planner },
      info: base64Json(info),
      version: 0,
      isDead: false,
    };
    return own;
  }

  #session() {
    if (!this.#own) throw staleError();
    return this.#own;
  }

  #connection() {
    if (!this.#link) throw staleError();
    return this.#link;
  }

  /** @param {Own} own */
  #sessionPut({ id, info, lease }) {
    return { key: base64(this.#keys.session(lease)), value: info, lease: id };
  }

  /** Ends the connection there is, or is being made. */
  #replace() {
    this.#link?.drop();
    this.#link = undefined;
    this.#making?.drop();
    this.#making = undefined;
    this.#own?.mirror.hangUp(staleError());
    this.#epoch++;
  }

  #connect() {
    this.#replace();
    const link = this.#gateway.connect();
    this.#making = link;
    return link;
  }

  /**
   * @param {number} epoch
   * @param {OpenLink} link
   * @param {Own} own
   */
  #keep(epoch, link, own) {
    if (epoch !== this.#epoch || link.isDropped) throw staleError();
    this.#making = undefined;
    this.#link = link;
    this.#own = own;
  }

  /**
   * @param {OpenLink} link
   * @param {unknown} error
   */
  #isDown(link, error) {
    if (link !== this.#link) return;
    this.#link = undefined;
    link.drop();
    this.#own?.mirror.hangUp(error);
    this.events.down(error);
  }

  // The mirror.

  /**
   * @param {OpenLink} link
   * @param {InstanceType<typeof Mirror>} mirror
   */
  async #load(link, mirror) {
    const { end } = mirror.range;
    let { key } = mirror.range;
    const all = [];
    let revision = '0';
    for (;;) {
      const page = await link.call('kv/range', {
        ...{ key: base64(key), range_end: base64(end), limit: String(PAGE), revision },
      });
      if (revision === '0') ({ revision } = page.header);
      const { kvs = [] } = page;
      all.push(...kvs);
      if (!page.more) break;
      key = `${Buffer.from(kvs.at(-1).key, 'base64').toString('latin1')}\0`;
    }
    mirror.load(all, Number(revision));
  }

  /**
   * Follows all that comes after what the mirror knows.
   * @param {OpenLink} link
   * @param {Own} own
   * @param {number} revision to be reached; that has to be heard in half a lease
   * @returns {Promise<boolean>} false: etcd does not have all of that any more
   */
  #watch(link, { mirror, ttl }, revision) {
    const { key, end } = mirror.range;
    const start = String(mirror.revision + 1);
    const body = { key: base64(key), range_end: base64(end), start_revision: start };
    let isOver = false;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(noWatchError()), ttl / 2);
      unref(timer);
      /** @param {() => void} settle */
      const done = (settle) => {
        isOver = true;
        clearTimeout(timer);
        settle();
      };
      /** @param {any} error */
      const fail = (error) => {
        done(() => reject(error));
        this.#isDown(link, error);
        link.drop();
      };
      /** @param {any} result */
      const hear = (result) => {
        if (result.compact_revision && !isOver) done(() => resolve(false));
        else if (result.canceled) fail(new Error(`the watch was ended: ${result.cancel_reason}`));
        else if (result.events) mirror.apply(result.events);
        if (!isOver && mirror.revision >= revision) done(() => resolve(true));
      };
      link.watch({ create_request: body }, hear, fail).catch(fail);
    });
  }

  /**
   * @param {number} ref
   * @param {bigint} token
   */
  #granted(ref, token) {
    if (this.#asked.has(ref)) this.#asked.set(ref, token);
    else this.events.granted(ref, token);
  }

  // Steps.

  /**
   * @param {Op} op
   * @param {Map<Op, Answer>} answers
   */
  #isTooLarge(op, answers) {
    if (op.kind === 'end' || this.#keys.value(op).length <= MOST_VALUE) return false;
    answers.set(op, failed(longNameError(op.name)));
    return true;
  }

  /**
   * Does a part of a step. What refuses something has to be known after the step began.
   * @param {Op[]} part
   * @param {Own} own
   * @param {OpenLink} link
   * @param {Map<Op, Answer>} answers
   */
  async #do(part, own, link, answers) {
    for (let isKnown = false; ; isKnown = true) {
      const plan = own.planner.plan(part);
      for (const { kind, ref } of part) if (kind === 'end') this.#ending.add(ref);
      if (plan.refused.size === 0 || isKnown) {
        const isDone =
          plan.changes.length === 0 || (await this.#try(part, plan, own, link, answers));
        if (isDone) {
          for (const [op, answer] of plan.refused) answers.set(op, answer);
          return;
        }
      }
      await this.#sync(own, link);
    }
  }

  /**
   * @param {Op[]} part
   * @param {import('./plan.js').Plan} plan
   * @param {Own} own
   * @param {OpenLink} link
   * @param {Map<Op, Answer>} answers
   * @returns {Promise<boolean>} false: a condition is not met
   */
  async #try(part, { changes, conditions }, own, link, answers) {
    try {
      return (await this.#transact(changes, conditions, own, link)) !== undefined;
    } catch (/** @type {any} */ error) {
      if (classify(error) === 'dead' && part.some(isMarking)) {
        // It may be the lease of a mark that is over: then the session is there.
        await this.#sync(own, link);
        throw staleError();
      }
      if (!OF_ONE.includes(error?.code) || unitsOf(part).length > 1) throw error;
      for (const op of part) answers.set(op, failed(error));
      return true;
    }
  }

  // Marks.

  /**
   * Makes the leases of the marks that a step sets, or finds those of an earlier attempt.
   * @param {Op[]} ops
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #leaseMarks(ops, own, link) {
    // All at once: the first is to last until the last mark is set.
    await Promise.all(ops.filter(isMarking).map((op) => this.#leaseMark(op, own, link)));
  }

  /**
   * @param {import('../../adapter.js').EndOp} op
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #leaseMark({ keep, ref }, own, link) {
    const TTL = String(Math.ceil(keep / 1_000));
    try {
      await link.call('lease/grant', { ID: doneLease(own.lease, ref), TTL });
    } catch (/** @type {any} */ error) {
      if (!/lease already exists/.test(error?.message)) throw error;
    }
  }

  /**
   * @param {Op} op that was to mark its name
   * @param {Own} own
   * @param {OpenLink} link
   * @returns {Promise<Answer>} whether it has
   */
  async #lookAt({ name = '', ref }, { lease }, link) {
    const { kvs } = await link.call('kv/range', { key: base64(this.#keys.done(name)) });
    if (kvs && valueOf(kvs[0].value) === setterOf(lease, ref)) return ENDED;
    // Nothing is bound to it, and it would stay as long as a mark.
    await link.call('lease/revoke', { ID: doneLease(lease, ref) }).catch(() => {});
    return NOT_MARKED;
  }

  /** @param {string} name */
  async marked(name) {
    const key = base64(this.#keys.done(name));
    const { count } = await this.#connection().call('kv/range', { key, count_only: true });
    return Number(count ?? 0) > 0;
  }

  /**
   * Changes something, if the session is alive and this is its connection.
   * @param {object[]} changes
   * @param {object[]} conditions
   * @param {Own} own
   * @param {OpenLink} link
   * @returns {Promise<any>} the header of the answer; undefined: another condition is not met
   */
  async #transact(changes, conditions, own, link) {
    const key = base64(this.#keys.session(own.lease));
    const { header, responses, succeeded } = await link.call('kv/txn', {
      compare: [
        { key, target: 'VERSION', result: 'EQUAL', version: String(own.version) },
        ...conditions,
      ],
      success: changes,
      failure: [{ request_range: { key } }],
    });
    if (succeeded) {
      const hasChanged = responses.some(
        (/** @type {any} */ one) => one.response_put || one.response_delete_range.deleted,
      );
      if (hasChanged) await own.mirror.reached(Number(header.revision));
      return header;
    }
    const [found] = responses[0].response_range.kvs ?? [];
    if (!found) throw deadError();
    if (Number(found.version) !== own.version) throw staleError();
    return undefined;
  }

  /**
   * Has the mirror know all that has happened until now.
   * @param {Own} own
   * @param {OpenLink} link
   * @returns {Promise<any>} the header of the answer
   */
  async #sync(own, link) {
    const key = base64(this.#keys.mark(own.lease));
    return this.#transact([{ request_put: { key, lease: own.id } }], [], own, link);
  }

  /**
   * @param {Op} op
   * @param {Own} own
   * @param {Map<number, bigint>} asked tokens of what was asked
   * @returns {Answer} as the mirror has it
   */
  #answer(op, own, asked) {
    if (op.kind === 'end') return ENDED;
    const token = asked.get(op.ref) || own.mirror.mine.get(op.ref)?.token;
    return token ? granted(token) : QUEUED;
  }
}

/**
 * @param {Op} op
 * @returns {op is import('../../adapter.js').EndOp}
 */
const isMarking = (op) => op.kind === 'end' && op.keep > 0;

/**
 * @param {InstanceType<typeof Mirror>} mirror
 * @param {string} name
 * @returns {Entry[]}
 */
function entriesOf(mirror, name) {
  const time = now();
  return [...mirror.queue(name).entries.values()].map((entry) => {
    const { granted: since, kind, label, lease, limit, seen, token, weight } = entry;
    const { clientId = '', host = '', pid = 0 } = mirror.session(lease) ?? {};
    const { threadId = 0, threadName = '' } = mirror.session(lease) ?? {};
    const isHeld = token > 0n;
    return {
      ...{ name, token, clientId, host, pid, threadId, threadName, label, limit, weight },
      mode: kind === 'c' ? 'shared' : 'exclusive',
      waited: (isHeld ? since : time) - seen,
      held: isHeld ? time - since : 0,
    };
  });
}

module.exports = { EtcdAdapter };
