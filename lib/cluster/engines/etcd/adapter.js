'use strict';

/**
 * The adapter of etcd (adapter.js), by its JSON gateway (gateway.js).
 *
 * A session is a lease and a key bound to it; requests are keys bound to it, too (keys.js). A
 * watch of all of a bucket's keys tells everything to the mirror (mirror.js), which knows who
 * holds what; grants are not written. What is done has its conditions, which etcd judges (plan.js),
 * and what the mirror says is made certain so: something is written, and when it comes by the
 * watch, all that was before it has come. So every renewal also shows that the watch is heard.
 *
 * The session's key is written by each connection; all that is written has its version as a
 * condition. So nothing of an earlier connection, or of a lease that has ended, changes anything.
 * Each transaction of a step also writes its number into a key of the session, on condition that
 * this is as the last one has left it: so it is done once, and what it has done is found out where
 * its answer got lost (R1; steps.js).
 *
 * What is not as adapter.js has it:
 * - A step is as many transactions as it needs; a group is in one.
 * - A name has the limit of its first shared request as long as there is a shared one.
 * - Shared locks that are granted by the same event have the same token.
 * - A mark lasts for as long as its lease: whole seconds, at least what etcd gives (2 by default),
 *   and from anew when another member leads, unless it was started to keep that (checkpoints).
 * - A quarantine begins when a client tells of what etcd does not know any more (life.js), and all
 *   sessions end then. Without that etcd forgets nothing that it has answered.
 * - How long a request has waited is told by the clock of who asks; since when a lock is held is
 *   known if it was granted while we looked, else it is NaN.
 */

const { clearTimeout, now, setTimeout, unref } = require('../../../platform/intrinsics.js');
const { NO_EVENTS } = require('../../adapter.js');
const { classify, deadError, newLeaderError, noWatchError, staleError } = require('./errors.js');
const { Gateway } = require('./gateway.js');
const { Keys, base64, base64Json, exists, leaseKey } = require('./keys.js');
const { NOTHING_SEEN, isBehind, lifeOf, putLife, readLife, rebirth } = require('./life.js');
const { Mirror } = require('./mirror.js');
const { Planner } = require('./plan.js');
const { Steps } = require('./steps.js');

const { now: dateNow } = Date;

/** @typedef {import('../../adapter.js').Adapter} Adapter */
/** @typedef {import('../../adapter.js').Entry} Entry */
/** @typedef {import('../../adapter.js').Op} Op */
/** @typedef {import('../../adapter.js').Seen} Seen */
/** @typedef {import('../../adapter.js').SessionInfo} SessionInfo */
/** @typedef {import('./life.js').Life} Life */
/** @typedef {InstanceType<typeof import('./step.js').Step>} OwnStep */
/** @typedef {InstanceType<typeof import('./gateway.js').Link>} OpenLink */

/** Keys that are read at once. */
const PAGE = 5_000;

/**
 * What belongs to a session.
 * @typedef {object} Own
 * @property {string} id of the lease, as etcd has it
 * @property {string} lease as in keys
 * @property {string} info the value of its key
 * @property {number} ttl milliseconds
 * @property {number} version of its key: of the connection
 * @property {number} entered the revision at which the key was written for that connection
 * @property {InstanceType<typeof Mirror>} mirror
 * @property {InstanceType<typeof Planner>} planner
 * @property {boolean} isDead
 * @property {Life} life of the server
 * @property {OwnStep | undefined} step that is under way, or was last
 * @property {string} logged revision of the key that steps write
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
  #steps;
  /** The session that `open` started last. @type {Own | undefined} */
  #own;
  /** @type {OpenLink | undefined} */
  #link;
  /** One that is not ready yet. @type {OpenLink | undefined} */
  #making;
  /** Counts calls of `open`, `hello` and `dispose`, of which the last counts. */
  #epoch = 0;
  /** Calls that end a session. @type {Set<OpenLink>} */
  #closing = new Set();

  /**
   * @param {string} bucket
   * @param {ConstructorParameters<typeof Gateway>[0]} options
   */
  constructor(bucket, options) {
    this.#gateway = new Gateway(options);
    this.#keys = new Keys(bucket);
    this.#steps = new Steps(this.#keys, () => this.events.changed());
    this.id = `etcd ${bucket}`;
  }

  /**
   * @param {SessionInfo} info
   * @param {number} ttl milliseconds
   * @param {Seen} seen
   */
  async open(info, ttl, seen = NOTHING_SEEN) {
    const link = this.#connect();
    const epoch = this.#epoch;
    try {
      const lease = await this.#grantLease(ttl, link);
      const own = this.#newSession(String(lease.ID), Number(lease.TTL) * 1_000, info);
      do {
        await this.#enter(own, seen, link);
        await this.#load(link, own.mirror);
      } while (!(await this.#watch(link, own)));
      this.#keep(epoch, link, own);
      return { session: own.id, ttl: own.ttl, life: own.life.name };
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  /** @param {Seen} seen */
  async hello(seen = NOTHING_SEEN) {
    const link = this.#connect();
    const epoch = this.#epoch;
    const own = this.#session();
    try {
      await this.#enterAgain(own, seen, link);
      while (!(await this.#watch(link, own))) {
        // What it has missed is not kept any more.
        await this.#enterAgain(own, seen, link);
        await this.#load(link, own.mirror);
      }
      this.#keep(epoch, link, own);
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  /**
   * @param {Op[]} ops
   * @param {number} number
   */
  async step(ops, number) {
    return await this.#steps.make(ops, number, this.#session(), this.#connection());
  }

  /**
   * @param {Seen} seen
   * @returns {Promise<import('../../adapter.js').Renewal>}
   */
  async renew(seen = NOTHING_SEEN) {
    const own = this.#session();
    const link = this.#connection();
    const { mirror } = own;
    const dead = {
      ...{ alive: false, mine: new Map(), grantsIn: 0, life: own.life.name },
      nextExpiryIn: Number.POSITIVE_INFINITY,
    };
    if (own.isDead) return dead;
    const { header, TTL } = await link.call('lease/keepalive', { ID: own.id });
    if (!(Number(TTL) > 0)) return dead;
    // A leader that others have replaced answers, and extends nothing. What is committed in the
    // same term shows that it led.
    const synced = await this.#steps.sync(own, link);
    if (synced.header.raft_term !== header.raft_term) throw newLeaderError();
    if (isBehind(own.life, synced.header.revision, seen)) {
      await this.#beginLife(seen, own.life, synced.header, own, link);
      return { ...dead, grantsIn: own.ttl };
    }
    const mine = new Map([...mirror.mine].map(([ref, { token }]) => [ref, token]));
    const grantsIn = await this.#grantsIn(mirror, link);
    return { ...dead, alive: true, mine, grantsIn };
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
    await this.#steps.sync(own, this.#connection());
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
      made: (ref) => own.step?.made.add(ref),
      granted: (ref, token) => own === this.#own && this.#granted(own, ref, token),
      stolen: (ref, thief) => own === this.#own && this.events.stolen(ref, thief),
      gone: (ref) => own === this.#own && !own.step?.ending.has(ref) && this.events.changed(),
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
      entered: 0,
      isDead: false,
      life: NO_LIFE,
      step: undefined,
      logged: '0',
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
   * Follows all that comes after what the mirror knows. That the session was entered comes by it,
   * too, and has to do so in half a lease.
   * @param {OpenLink} link
   * @param {Own} own
   * @returns {Promise<boolean>} false: etcd does not have all of that any more
   */
  #watch(link, { entered, mirror, ttl }) {
    const { key, end } = mirror.range;
    const start = String(Math.min(mirror.revision + 1, entered));
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
        const last = Number(result.events?.at(-1).kv.mod_revision);
        if (!isOver && last >= entered) done(() => resolve(true));
      };
      link.watch({ create_request: body }, hear, fail).catch(fail);
    });
  }

  /**
   * @param {Own} own
   * @param {number} ref
   * @param {bigint} token
   */
  #granted({ step }, ref, token) {
    if (!step?.granted(ref, token)) this.events.granted(ref, token);
  }

  // Lives of the server.

  /**
   * @param {number} ttl milliseconds
   * @param {OpenLink} link
   */
  #grantLease(ttl, link) {
    return link.call('lease/grant', { TTL: String(Math.ceil(ttl / 1_000)) });
  }

  /**
   * Writes the key of a session that begins.
   * @param {Own} own
   * @param {Seen} seen
   * @param {OpenLink} link
   */
  async #enter(own, seen, link) {
    const key = base64(this.#keys.session(own.lease));
    const put = { request_put: this.#sessionPut(own) };
    const look = [{ request_range: { key } }, readLife(this.#keys)];
    for (;;) {
      const { header, responses } = await link.call('kv/txn', {
        compare: [exists(base64(this.#keys.life))],
        success: [put, ...look],
        failure: [putLife(this.#keys), put, ...look],
      });
      const [self, found] = responses.slice(-2);
      isEntered(own, header, self);
      const life = lifeOf(header, found) ?? NO_LIFE;
      own.life = life;
      own.mirror.offset = life.offset;
      if (!isBehind(life, header.revision, seen)) return;
      await this.#beginLife(seen, life, header, own, link);
    }
  }

  /**
   * Writes the key of a session for another connection.
   * @param {Own} own
   * @param {Seen} seen
   * @param {OpenLink} link
   */
  async #enterAgain(own, seen, link) {
    const key = base64(this.#keys.session(own.lease));
    const { header, responses, succeeded } = await link.call('kv/txn', {
      compare: [exists(key)],
      success: [
        { request_put: this.#sessionPut(own) },
        { request_range: { key } },
        readLife(this.#keys),
      ],
    });
    if (!succeeded) throw deadError();
    await this.#compare(seen, lifeOf(header, responses[2]), header, own, link);
    isEntered(own, header, responses[1]);
  }

  /**
   * @param {Seen} seen
   * @param {Life | undefined} life that the server is in
   * @param {any} header of its answer
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #compare(seen, life, header, own, link) {
    if (!life) throw deadError();
    const { mirror } = own;
    const heard = BigInt(mirror.revision) + mirror.offset;
    const all = { life: seen.life || own.life.name, token: seen.token };
    if (heard > all.token) all.token = heard;
    if (!isBehind(life, header.revision, all)) return;
    await this.#beginLife(all, life, header, own, link);
    throw deadError();
  }

  /**
   * All sessions are dead then, this one, too.
   * @param {Seen} seen
   * @param {Life} life that ends
   * @param {any} header
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #beginLife(seen, life, { revision }, { ttl }, link) {
    const { ID } = await this.#grantLease(ttl, link);
    const change = rebirth(this.#keys, life, revision, seen, String(ID));
    const { succeeded } = await link.call('kv/txn', change);
    // Another client has done so.
    if (!succeeded) await link.call('lease/revoke', { ID }).catch(() => {});
  }

  /**
   * @param {InstanceType<typeof Mirror>} mirror
   * @param {OpenLink} link
   */
  async #grantsIn({ quarantine }, link) {
    if (quarantine === undefined) return 0;
    const { TTL } = await link.call('lease/timetolive', { ID: quarantine });
    return Math.max(Number(TTL) * 1_000, 1);
  }

  /** @param {string} name */
  async marked(name) {
    const key = base64(this.#keys.done(name));
    const { count } = await this.#connection().call('kv/range', { key, count_only: true });
    return Number(count ?? 0) > 0;
  }
}

/**
 * @param {Own} own
 * @param {any} header
 * @param {any} response to a read of its key
 */
function isEntered(own, header, response) {
  own.version = Number(response.response_range.kvs[0].version);
  own.entered = Number(header.revision);
}

/** @type {Life} */
const NO_LIFE = { name: '', offset: 0n, known: [], revision: '0' };

/**
 * @param {InstanceType<typeof Mirror>} mirror
 * @param {string} name
 * @returns {Entry[]}
 */
function entriesOf(mirror, name) {
  const time = now();
  return [...mirror.queue(name).entries.values()].map((entry) => {
    const { asked, granted: since, kind, label, lease, limit, token, weight } = entry;
    const { clientId = '', host = '', pid = 0 } = mirror.session(lease) ?? {};
    const { threadId = 0, threadName = '' } = mirror.session(lease) ?? {};
    const isHeld = token > 0n;
    return {
      ...{ name, token, clientId, host, pid, threadId, threadName, label, limit, weight },
      mode: kind === 'c' ? 'shared' : 'exclusive',
      waited: isHeld ? 0 : Math.max(dateNow() - asked, 0),
      held: isHeld ? time - since : 0,
    };
  });
}

module.exports = { EtcdAdapter };
