'use strict';

/**
 * The adapter of etcd (adapter.js), by its JSON gateway (gateway.js).
 *
 * A session is a lease and a key bound to it; requests are keys bound to it, too (keys.js). Who
 * holds a name is computed from its keys (queue.js); grants are not written. What is done has its
 * conditions, which etcd judges (plan.js), and its transaction reads what has become of it.
 *
 * What a session costs must not depend on how many others there are, so it hears of nothing but
 * what concerns it (mirror.js, streams.js). One watch is always there, of the keys that are
 * written for this session alone: a thief writes one for each that it robs, in the transaction
 * that robs, and the end of the session's key is the end of its lease. This does without a watch
 * of what is held, which a free name would have to pay for, and the key stays until the session
 * has heard of it, also if it was cut off and etcd has forgotten what happened. A grant is not
 * written for the session that it is due to: when a lease runs out, no client is there to write it,
 * and otherwise it would be one write more. So the session watches the names that it waits for.
 *
 * Whatever is certain is so by something that is written, and comes by the watches: all that was
 * before it has come then. So every renewal also shows that the watches are heard.
 *
 * The session's key is written by each connection; all that is written has its version as a
 * condition. So nothing of an earlier connection, or of a lease that has ended, changes anything.
 * Each transaction that asks for something also writes its number into a key of the session, on
 * condition that this is as the last one has left it: so it is done once, and what it has done is
 * found out where its answer got lost (R1; steps.js).
 *
 * What is not as adapter.js has it:
 * - A step is as many transactions as it needs; a group is in one.
 * - A name has the limit of its first shared request as long as there is a shared one.
 * - Shared locks that are granted by the same event have the same token.
 * - A mark lasts for as long as its lease: whole seconds, at least what etcd gives (2 by default),
 *   and from anew when another member leads, unless it was started to keep that (checkpoints).
 * - A quarantine begins when a client tells of what etcd does not know any more (life.js), and all
 *   sessions end then. Without that etcd forgets nothing that it has answered.
 * - How long a request has waited, and a lock is held, is told by the clock of the session that
 *   asks. The latter is NaN if the lock was waited for, was granted after the last renewal of its
 *   holder, and was not seen.
 */

const { clearTimeout, setTimeout, unref } = require('../../../platform/intrinsics.js');
const { NO_EVENTS } = require('../../adapter.js');
const { classify, deadError, firstError, isClosed, lifelessError } = require('./errors.js');
const { isForgotten, newLeaderError, newWatchError } = require('./errors.js');
const { noWatchError, staleError } = require('./errors.js');
const { Gateway } = require('./gateway.js');
const { Keys, NONE, allWith, base64, base64Json, exists } = require('./keys.js');
const { leaseKey, range, textOf, valueOf } = require('./keys.js');
const { NOTHING_SEEN, isBehind, lifeOf, putLife, readLife, rebirth } = require('./life.js');
const { Mirror } = require('./mirror.js');
const { Planner } = require('./plan.js');
const { Query } = require('./query.js');
const { Steps } = require('./steps.js');
const { Ear, Streams, absentOf } = require('./streams.js');

/** @typedef {import('../../adapter.js').Adapter} Adapter */
/** @typedef {import('../../adapter.js').Op} Op */
/** @typedef {import('../../adapter.js').Seen} Seen */
/** @typedef {import('../../adapter.js').SessionInfo} SessionInfo */
/** @typedef {import('./life.js').Life} Life */
/** @typedef {InstanceType<typeof import('./step.js').Step>} OwnStep */
/** @typedef {InstanceType<typeof import('./gateway.js').Link>} OpenLink */

/** Thefts that are forgotten at once, when they were told. */
const MOST_TOLD = 100;

/**
 * What belongs to a session.
 * @typedef {object} Own
 * @property {string} id of the lease, as etcd has it
 * @property {string} lease as in keys
 * @property {string} info the value of its key
 * @property {number} ttl milliseconds
 * @property {number} version of its key: of the connection
 * @property {number} entered the revision at which the key was written for that connection
 * @property {number} heard the last revision that is known of
 * @property {InstanceType<typeof Ear>} ear what hears what is written for the session
 * @property {InstanceType<typeof Streams> | undefined} streams of the connection
 * @property {InstanceType<typeof Mirror>} mirror
 * @property {InstanceType<typeof Planner>} planner
 * @property {boolean} isDead
 * @property {Life} life of the server
 * @property {OwnStep | undefined} step that is under way, or was last
 * @property {string} logged revision of the key that steps write
 * @property {number} proofs how many transactions have shown that it is there, and its connection
 */

/** @implements {Adapter} */
class EtcdAdapter {
  /** @type {string} */
  id;
  can = Object.freeze({ limits: true, groups: true, marks: true, endsLeases: true });
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
  /** The watches that were begun last. @type {InstanceType<typeof Streams> | undefined} */
  #streams;
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
    this.#steps = new Steps(this.#keys);
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
      const lease = await this.#firstCall(ttl, link);
      const own = this.#newSession(String(lease.ID), Number(lease.TTL) * 1_000, info);
      const all = this.#withHeard(seen);
      do await this.#enter(own, all, link);
      while (!(await this.#watch(link, own)));
      const grantsIn = await this.#grantsIn(own.mirror, link);
      this.#keep(epoch, link, own);
      return { session: own.id, ttl: own.ttl, life: own.life.name, grantsIn };
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
      while (!(await this.#watch(link, own))) await this.#enterAgain(own, seen, link);
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
    const own = this.#session();
    try {
      return await this.#steps.make(ops, number, own, this.#connection());
    } finally {
      own.streams?.follow();
    }
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
    const known = this.#withHeard(seen);
    const { header, TTL } = await link.call('lease/keepalive', { ID: own.id });
    if (!(Number(TTL) > 0)) return dead;
    // A leader that others have replaced answers, and extends nothing. What is committed in the
    // same term shows that it led.
    const stolen = new Map([...mirror.thefts].slice(0, MOST_TOLD));
    const [synced, absent] = await Promise.all([
      this.#steps.sync(own, link, this.#forget(own, stolen)),
      this.#absent(own, link),
    ]);
    for (const ref of stolen.keys()) mirror.thefts.delete(ref);
    if (synced.header.raft_term !== header.raft_term) throw newLeaderError();
    if (isBehind(own.life, synced.header.revision, known)) {
      await this.#beginLife(known, own.life, synced.header, own, link);
      return { ...dead, grantsIn: own.ttl };
    }
    await this.#lose(absent, own, link);
    own.heard = Number(synced.header.revision);
    await own.streams?.renewed();
    link.check();
    const mine = new Map([...mirror.mine].map(([ref, { token }]) => [ref, token]));
    const grantsIn = await this.#grantsIn(mirror, link);
    for (const [ref, thief] of mirror.thefts) stolen.set(ref, thief);
    return { ...dead, alive: true, mine, stolen, grantsIn };
  }

  /**
   * A request whose key somebody has deleted by hand is not held, and does not wait, whatever is
   * remembered here. etcd lists all keys of a lease at once, however many there are. That list can
   * be a moment old, so each key that is not on it is looked at.
   * @param {Own} own
   * @param {OpenLink} link
   * @returns {Promise<import('./queue.js').Entry[]>} requests of the session whose keys are gone
   */
  async #absent({ id, mirror }, link) {
    if (mirror.mine.size === 0) return [];
    const entries = [...mirror.mine.values()];
    const { keys = [] } = await link.call('lease/timetolive', { ID: id, keys: true });
    const listed = new Set(keys);
    return await absentOf(
      entries.filter(({ key }) => !listed.has(base64(key))),
      link,
    );
  }

  /**
   * @param {import('./queue.js').Entry[]} absent
   * @param {Own} own
   * @param {OpenLink} link
   */
  async #lose(absent, own, link) {
    const { mirror } = own;
    const left = () => absent.filter((entry) => mirror.mine.get(entry.ref) === entry);
    // A thief deletes keys, too, and tells of it.
    if (left().length > 0) await this.#steps.sync(own, link);
    for (const { ref } of left()) mirror.forget(ref);
  }

  /**
   * @param {Own} own
   * @param {Map<number, string>} thefts that were told
   * @returns {object[]} what deletes the keys that tell of them
   */
  #forget({ lease }, thefts) {
    return [...thefts.keys()].map((ref) => ({
      request_delete_range: { key: base64(this.#keys.stolen(lease, ref)) },
    }));
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
        // What `dispose` has cut short is not begun again: nobody would end it.
        if (left === 1 || link.isDropped) throw error;
      } finally {
        this.#closing.delete(link);
      }
    }
  }

  /**
   * @param {string} [name]
   * @param {'held'} [which]
   */
  async query(name, which) {
    const { mirror } = this.#session();
    const ask = () => new Query(this.#keys, mirror, this.#connection()).run(name, which);
    try {
      return await ask();
    } catch (error) {
      // It is of one revision, which etcd has forgotten meanwhile: not soon once more.
      if (!isForgotten(error)) throw error;
      return await ask();
    }
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
      granted: (entry) => own === this.#own && this.#granted(own, entry),
      stolen: (ref, thief) => {
        own.step?.robbed.add(ref);
        if (own === this.#own) this.events.stolen(ref, thief);
      },
      gone: (ref) => own === this.#own && !own.step?.ending.has(ref) && this.events.changed(),
      freed: () => own.streams?.reload(),
      dead: () => {
        own.isDead = true;
        if (own === this.#own) this.events.changed();
      },
    });
    const planner = new Planner(this.#keys, mirror, lease, info.clientId);
    /** @type {Own} */
    const own = {
      ...{ id, lease, ttl, mirror, planner },
      info: base64Json({ ...info, ttl }),
      version: 0,
      entered: 0,
      heard: 0,
      ear: new Ear(),
      streams: undefined,
      isDead: false,
      life: NO_LIFE,
      step: undefined,
      logged: '0',
      proofs: 0,
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
    this.#streams?.hangUp(staleError());
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
    if (epoch !== this.#epoch) throw staleError();
    link.check();
    this.#making = undefined;
    this.#link = link;
    this.#own = own;
    own.streams?.follow();
  }

  /**
   * @param {OpenLink} link
   * @param {unknown} error
   */
  #isDown(link, error) {
    if (link !== this.#link) return;
    this.#link = undefined;
    link.drop();
    this.#own?.streams?.hangUp(error);
    this.events.down(error);
  }

  // Watches.

  /**
   * Hears what is written for the session. That it was entered comes by it, too, and has to do so
   * in half a lease.
   * @param {OpenLink} link
   * @param {Own} own
   * @returns {Promise<boolean>} false: etcd does not have that revision any more
   */
  #watch(link, own) {
    const { entered, lease, mirror, ttl } = own;
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
      const fail = (/** @type {unknown} */ error) => {
        done(() => reject(error));
        this.#isDown(link, error);
        link.drop();
      };
      const streams = new Streams({ keys: this.#keys, lease, mirror, link, fail });
      own.streams = this.#streams = streams;
      const isCompacted = () => {
        if (isOver) throw newWatchError('what comes next is compacted');
        streams.hangUp(staleError());
        done(() => resolve(false));
      };
      own.ear = streams.ear;
      streams.begin(entered, isCompacted);
      streams.ear.reached(entered).then(
        () => done(() => resolve(true)),
        (error) => done(() => reject(error)),
      );
    });
  }

  /**
   * @param {Own} own
   * @param {import('./queue.js').Entry} entry
   */
  #granted({ mirror, step }, entry) {
    const { ref, token } = entry;
    if (!step?.granted(ref, token) && mirror.mine.get(ref) === entry) {
      this.events.granted(ref, token);
    }
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
   * @param {number} ttl milliseconds
   * @param {OpenLink} link
   */
  async #firstCall(ttl, link) {
    try {
      return await this.#grantLease(ttl, link);
    } catch (error) {
      throw firstError(error, isClosed(error) ? await link.otherProtocol() : undefined);
    }
  }

  /**
   * Writes the key of a session that begins.
   * @param {Own} own
   * @param {Seen} seen
   * @param {OpenLink} link
   */
  async #enter(own, seen, link) {
    const put = { request_put: this.#sessionPut(own) };
    const looks = this.#looks(own);
    for (;;) {
      const { header, responses } = await this.#enterLife([put, ...looks], link);
      const [life = NO_LIFE, ...found] = this.#found(header, responses.slice(-looks.length));
      own.life = life;
      own.mirror.offset = life.offset;
      this.#isEntered(own, header, found);
      if (!isBehind(life, header.revision, seen)) return;
      await this.#beginLife(seen, life, header, own, link);
    }
  }

  /**
   * Does something in the life that there is, or in the first one. Keys without a life are those of
   * a version of this library that wrote none, and that would not hear of thefts.
   * @param {object[]} changes
   * @param {OpenLink} link
   * @returns {Promise<{ header: any, responses: any[] }>}
   */
  async #enterLife(changes, link) {
    const first = {
      compare: [{ ...allWith(this.#keys.prefix), ...NONE }],
      success: [putLife(this.#keys), ...changes],
      failure: [],
    };
    const answer = await link.call('kv/txn', {
      compare: [exists(base64(this.#keys.life))],
      success: changes,
      failure: [{ request_txn: first }],
    });
    if (answer.succeeded) return answer;
    const { responses, succeeded } = answer.responses[0].response_txn;
    if (!succeeded) throw lifelessError(this.#keys.prefix);
    return { header: answer.header, responses };
  }

  /** What is looked at by who enters. @param {Own} own */
  #looks({ lease }) {
    const { key, end } = this.#keys.own(lease);
    return [
      readLife(this.#keys),
      { request_range: range(key, end) },
      { request_range: { key: base64(this.#keys.quarantine) } },
    ];
  }

  /**
   * Writes the key of a session for another connection.
   * @param {Own} own
   * @param {Seen} seen
   * @param {OpenLink} link
   */
  async #enterAgain(own, seen, link) {
    const { header, responses, succeeded } = await link.call('kv/txn', {
      compare: [exists(base64(this.#keys.session(own.lease)))],
      success: [{ request_put: this.#sessionPut(own) }, ...this.#looks(own)],
    });
    if (!succeeded) throw deadError();
    const [life, ...found] = this.#found(header, responses.slice(1));
    await this.#compare(seen, life, header, own, link);
    this.#isEntered(own, header, found);
  }

  /**
   * @param {any} header
   * @param {any[]} responses to `#looks`
   * @returns {[Life | undefined, any[], any]} with the session's keys, and that of a quarantine
   */
  #found(header, [life, own, quarantine]) {
    const { kvs = [] } = own.response_range;
    return [lifeOf(header, life), kvs, quarantine.response_range.kvs?.[0]];
  }

  /**
   * @param {Own} own
   * @param {any} header
   * @param {[any[], any]} found
   */
  #isEntered(own, header, [kvs, quarantine]) {
    const { mirror } = own;
    own.version = Number(kvs[0].version);
    own.entered = Number(header.revision);
    own.heard = own.entered;
    if (quarantine) mirror.quarantine = String(quarantine.lease);
    else mirror.free(own.entered);
    // What was told while nobody heard it is still there.
    mirror.apply(kvs.map((/** @type {any} */ kv) => ({ kv })));
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
    const all = { ...this.#withHeard(seen), life: seen.life || own.life.name };
    if (!isBehind(life, header.revision, all)) return;
    await this.#beginLife(all, life, header, own, link);
    throw deadError();
  }

  /**
   * Who was granted nothing for long has still heard how far others may have come.
   * @param {Seen} seen
   * @returns {Seen}
   */
  #withHeard({ life, token }) {
    const own = this.#own;
    const heard = own ? own.mirror.tokenOf(Math.max(own.heard, Number(own.logged))) : 0n;
    return { life, token: heard > token ? heard : token };
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
    const { conditions, longest } = await this.#lookAtSessions(ttl, link);
    const { ID } = await this.#grantLease(longest, link);
    const { compare, success } = rebirth(this.#keys, life, revision, seen, String(ID));
    const change = { compare: [...compare, ...conditions], success };
    const { succeeded } = await link.call('kv/txn', change);
    // Who was ended by it may have renewed until then: the quarantine lasts from now.
    if (succeeded) await link.call('lease/keepalive', { ID });
    // Another client has done so.
    else await link.call('lease/revoke', { ID }).catch(() => {});
  }

  /**
   * A quarantine lasts as long as the longest lease of those whom it ends, and no shorter than one
   * that is under way.
   * @param {number} ttl milliseconds, at least
   * @param {OpenLink} link
   * @returns {Promise<{ conditions: object[], longest: number }>} that nothing of it has changed
   */
  async #lookAtSessions(ttl, link) {
    const sessions = allWith(this.#keys.session(''));
    const quarantine = { key: base64(this.#keys.quarantine) };
    const { header, found } = await link.read([sessions, quarantine]);
    let longest = ttl;
    for (const { key, value } of found[0].kvs ?? []) {
      const isSession = this.#keys.parse(textOf(key)).what === undefined;
      if (isSession) longest = Math.max(longest, valueOf(value).ttl ?? 0);
    }
    const [old] = found[1].kvs ?? [];
    const next = String(Number(header.revision) + 1);
    const isNoNewer = { target: 'CREATE', result: 'LESS', create_revision: next };
    const asItWas = { target: 'MOD', result: 'EQUAL', mod_revision: old?.mod_revision ?? '0' };
    return {
      conditions: [
        { ...sessions, ...isNoNewer },
        { ...quarantine, ...asItWas },
      ],
      longest: Math.max(longest, await this.#restOf(old?.lease, link)),
    };
  }

  /**
   * @param {string | undefined} lease
   * @param {OpenLink} link
   * @returns {Promise<number>} milliseconds
   */
  async #restOf(lease, link) {
    if (lease === undefined) return 0;
    const { TTL } = await link.call('lease/timetolive', { ID: lease });
    return Number(TTL) * 1_000;
  }

  /**
   * @param {InstanceType<typeof Mirror>} mirror
   * @param {OpenLink} link
   */
  async #grantsIn({ quarantine }, link) {
    if (quarantine === undefined) return 0;
    return Math.max(await this.#restOf(quarantine, link), 1);
  }

  /** @param {string} name */
  async marked(name) {
    const key = base64(this.#keys.done(name));
    const { found } = await this.#connection().read([{ key, count_only: true }]);
    return Number(found[0].count ?? 0) > 0;
  }
}

/** @type {Life} */
const NO_LIFE = { name: '', offset: 0n, known: [], revision: '0' };

module.exports = { EtcdAdapter };
