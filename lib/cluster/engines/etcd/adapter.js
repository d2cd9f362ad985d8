'use strict';

/**
 * The adapter of etcd (../../adapter.js), over its JSON gateway (gateway.js). A session is a lease
 * with a key of its own, and its requests are keys of that lease (keys.js). Every client computes
 * the holders of a name from the keys (queue.js), so grants are not written. A session watches only
 * the keys that are written for it, such as a thief's notices, and the names that it waits for
 * (streams.js). So its cost does not depend on the number of other sessions. Each connection writes
 * the session's key, and the transactions of steps and renewals require that version of the key. So
 * a late transaction of an older connection or an expired lease changes nothing.
 *
 * This adapter differs from the contract as follows:
 * - A step takes as many transactions as it needs; each group is in a single transaction.
 * - A name keeps the limit of its first shared request only while a shared request exists.
 * - Shared locks that one event grants have the same token.
 * - A mark lasts as long as its lease: whole seconds, at least etcd's minimum (2 by default), and
 *   its time starts again after a change of leader, unless etcd runs with lease checkpoints.
 * - A quarantine begins when a client has seen an epoch or token that etcd does not know, and all
 *   sessions end then (epoch.js).
 * - Waiting and holding times are measured by the clock of the querying session. A holding time is
 *   NaN if the lock was granted after its holder's last renewal and this session did not see the
 *   grant.
 */

const { clearTimeout, setTimeout, unref } = require('../../../platform/intrinsics.js');
const { NO_EVENTS } = require('../../adapter.js');
const { Links } = require('../links.js');
const { classify, deadError, staleError } = require('../errors.js');
const { firstError, isClosed, noEpochError, noWatchEventsError } = require('./errors.js');
const { isCompacted, newLeaderError, watchEndedError } = require('./errors.js');
const { Gateway } = require('./gateway.js');
const { Keys, NONE, allWith, base64, base64Json, existsCondition } = require('./keys.js');
const { leaseKey, range, textOf, valueOf } = require('./keys.js');
const {
  NOTHING_SEEN,
  isBehind,
  parseEpoch,
  epochPut,
  epochRead,
  beginEpochTransaction,
} = require('./epoch.js');
const { QueueCache } = require('./queue-cache.js');
const { Planner, sameEntryCondition } = require('./plan.js');
const { Query } = require('./query.js');
const { Steps } = require('./steps.js');
const { DeliveryBarrier, Streams, findAbsent } = require('./streams.js');

/** @import { Adapter, Op, Seen, SessionInfo } from '../../adapter.js' */
/** @import { Epoch } from './epoch.js' */
/** @import { Entry } from './queue.js' */
/** @typedef {InstanceType<typeof import('./step.js').Step>} OwnStep */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */

/**
 * How many exclusive requests may be ahead of a session that watches a name (far-waits.js). It must
 * notice that it is near, and read the queue, while these hold their locks.
 */
const NEAR = 6;
/** The most theft notices that one renewal deletes, each perhaps with the data of the lock. */
const MOST_TOLD = 50;

/**
 * @typedef {object} Own the state of a session
 * @property {string} id of the lease, in etcd's decimal form
 * @property {string} lease the same id as it appears in keys, see `leaseKey`
 * @property {string} info the value of the session's key
 * @property {number} ttl milliseconds
 * @property {number} version the version of the session's key, which identifies the connection
 * @property {number} entered the revision at which this connection wrote the key
 * @property {number} heard the greatest revision that the session knows
 * @property {InstanceType<typeof DeliveryBarrier>} deliveries of the watch of the session's keys
 * @property {InstanceType<typeof Streams> | undefined} streams of the connection
 * @property {InstanceType<typeof QueueCache>} queueCache
 * @property {InstanceType<typeof Planner>} planner
 * @property {boolean} isDead
 * @property {boolean} isDeleting whether keys of passed requests are being deleted
 * @property {Epoch} life
 * @property {OwnStep | undefined} step the current step, or the last one
 * @property {string} logged the revision of the key that steps write (`Keys.steps`)
 * @property {number} proofs counts the transactions that succeeded, which proves that the session
 *   was alive and that no newer connection had replaced this one
 */

/** @implements {Adapter} */
class EtcdAdapter {
  /** @type {string} */
  id;
  can = Object.freeze({ limits: true, groups: true, marks: true, data: true, endsLeases: true });
  /** @type {import('../../adapter.js').AdapterEvents} */
  events = NO_EVENTS;
  classify = classify;

  #gateway;
  #keys;
  #near;
  #steps;
  /** The session that `open` started last. @type {Own | undefined} */
  #own;
  /** @type {InstanceType<typeof Links<Link>>} */
  #links = new Links();
  /** The latest watches. @type {InstanceType<typeof Streams> | undefined} */
  #streams;
  /** Connections that close a session. @type {Set<Link>} */
  #closing = new Set();

  /**
   * @param {string} bucket @param {ConstructorParameters<typeof Gateway>[0]} options
   * @param {number} [near] how many exclusive requests are ahead of a waiter that watches its name
   */
  constructor(bucket, options, near = NEAR) {
    this.#gateway = new Gateway(options);
    this.#near = near;
    this.#keys = new Keys(bucket);
    this.#steps = new Steps(this.#keys);
    this.id = `etcd ${bucket}`;
  }

  /** @param {SessionInfo} info @param {number} ttl @param {Seen} seen */
  async open(info, ttl, seen = NOTHING_SEEN) {
    const link = this.#makeLink();
    const { generation } = this.#links;
    try {
      const lease = await this.#grantSessionLease(ttl, link);
      const own = this.#newSession(String(lease.ID), Number(lease.TTL) * 1_000, info);
      const all = this.#withHeard(seen);
      do await this.#writeSession(own, all, link);
      while (!(await this.#startStreams(link, own)));
      const grantsIn = await this.#quarantineLeft(own.queueCache, link);
      this.#useLink(generation, link, own);
      return { session: own.id, ttl: own.ttl, life: own.life.name, grantsIn };
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  /**
   * Replaces the session's connection; rejects if the session is dead.
   * @param {Seen} seen
   */
  async hello(seen = NOTHING_SEEN) {
    const link = this.#makeLink();
    const { generation } = this.#links;
    const own = this.#requireSession();
    try {
      await this.#writeSessionAgain(own, seen, link);
      while (!(await this.#startStreams(link, own))) await this.#writeSessionAgain(own, seen, link);
      this.#useLink(generation, link, own);
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  /** @param {Op[]} ops @param {number} number */
  async step(ops, number) {
    const own = this.#requireSession();
    try {
      return await this.#steps.execute(ops, number, own, this.#requireConnection());
    } finally {
      own.streams?.follow();
      this.#deletePassed(own);
    }
  }

  /** Deletes the keys of requests that have passed; nobody waits for this. @param {Own} own */
  async #deletePassed(own) {
    if (own.isDeleting) return;
    own.isDeleting = true;
    try {
      for (let some = passedOf(own); some.length > 0; some = passedOf(own)) {
        await this.#requireConnection().call('kv/txn', {
          compare: [],
          success: some.map(deletionOf),
        });
        own.queueCache.dropPassed(some.map(({ ref }) => ref));
      }
    } catch {
      // The next step or renewal tries again.
    } finally {
      own.isDeleting = false;
    }
  }

  /** @param {Seen} seen @returns {Promise<import('../../adapter.js').Renewal>} */
  async renew(seen = NOTHING_SEEN) {
    const own = this.#requireSession();
    const link = this.#requireConnection();
    const { queueCache } = own;
    const dead = {
      ...{ alive: false, mine: new Map(), grantsIn: 0, life: own.life.name },
      nextExpiryIn: Number.POSITIVE_INFINITY,
    };
    if (own.isDead) return dead;
    const known = this.#withHeard(seen);
    const { header, TTL } = await link.call('lease/keepalive', { ID: own.id });
    if (!(Number(TTL) > 0)) return dead;
    // A deposed leader still answers keep-alives, but does not extend the lease. So a commit must
    // follow in the same term: it proves that the member that answered was still the leader.
    const stolen = new Map([...queueCache.thefts].slice(0, MOST_TOLD));
    const [synced, absent] = await Promise.all([
      this.#steps.sync(own, link, this.#deletionsOfNotices(own, stolen)),
      this.#findAbsent(own, link),
    ]);
    for (const ref of stolen.keys()) {
      queueCache.thefts.delete(ref);
      queueCache.published.delete(ref);
    }
    this.#deletePassed(own);
    if (synced.header.raft_term !== header.raft_term) throw newLeaderError();
    if (isBehind(own.life, synced.header.revision, known)) {
      await this.#beginEpoch(known, own.life, synced.header, own, link);
      return { ...dead, grantsIn: own.ttl };
    }
    await this.#forgetAbsent(absent, own, link);
    own.heard = Number(synced.header.revision);
    await own.streams?.handleRenewal();
    link.throwIfDropped();
    const mine = new Map([...queueCache.mine].map(([ref, { token }]) => [ref, token]));
    const grantsIn = await this.#quarantineLeft(queueCache, link);
    for (const [ref, thief] of queueCache.thefts) stolen.set(ref, thief);
    return { ...dead, alive: true, mine, stolen, grantsIn };
  }

  /** The id of the session's lease, for `extend`; undefined before the first session. */
  keeperTicket() {
    return this.#own?.id;
  }

  /**
   * Extends another adapter's session; returns false if the server's epoch is not that of `seen`.
   * @param {string} session @param {Seen} seen
   */
  async extend(session, seen) {
    const link = this.#links.next ?? this.#makeLink();
    const { header: kept, TTL } = await link.call('lease/keepalive', { ID: session });
    const key = { key: base64(this.#keys.session(leaseKey(session))), count_only: true };
    const ranges = [key, epochRead(this.#keys).request_range];
    const { header, found } = await link.readAfterWrites(ranges);
    // The keeper may reach another etcd, which knows nothing of the session.
    const life = parseEpoch(header, { response_range: found[1] });
    if (life?.name !== seen.life || isBehind(life, header.revision, seen)) return false;
    // A deposed leader does not extend the lease: see `renew`.
    if (header.raft_term !== kept.raft_term) throw newLeaderError();
    if (!(Number(TTL) > 0 && Number(found[0].count) > 0)) throw deadError();
    return true;
  }

  /**
   * Finds the session's requests whose keys somebody deleted by hand. Etcd lists all keys of a
   * lease in one answer, which may be out of date, so each key that seems to be missing is read.
   * @param {Own} own @param {Link} link
   */
  async #findAbsent({ id, queueCache }, link) {
    if (queueCache.mine.size === 0) return [];
    const entries = [...queueCache.mine.values()];
    const { keys = [] } = await link.call('lease/timetolive', { ID: id, keys: true });
    const listed = new Set(keys);
    return await findAbsent(
      entries.filter(({ key }) => !listed.has(base64(key))),
      link,
    );
  }

  /**
   * Forgets the requests whose keys somebody deleted by hand, but not those of thefts.
   * @param {Entry[]} absent @param {Own} own @param {Link} link
   */
  async #forgetAbsent(absent, own, link) {
    const { queueCache } = own;
    const entriesStillCached = () =>
      absent.filter((entry) => queueCache.mine.get(entry.ref) === entry);
    // A thief also deletes keys, and its notice arrives during `sync`. After that, only requests
    // whose keys were deleted by hand are left.
    if (entriesStillCached().length > 0) await this.#steps.sync(own, link);
    for (const { ref } of entriesStillCached()) queueCache.forget(ref);
  }

  /** @param {Own} own @param {Map<number, string>} thefts */
  #deletionsOfNotices({ lease, planner, queueCache }, thefts) {
    const refs = [...thefts.keys()];
    const published = refs.filter((ref) => queueCache.published.has(ref));
    const notices = refs.map((ref) => ({
      request_delete_range: { key: base64(this.#keys.stolen(lease, ref)) },
    }));
    return [...notices, ...published.map((ref) => planner.dataDeletion(ref))];
  }

  /** Does nothing, because etcd ends leases by itself, and the watch delivers their ends. */
  async sweep() {}

  /** Ends the session over any endpoint; rejects if none does that. @param {string} session */
  async close(session) {
    for (let left = this.#gateway.size; left > 0; left--) {
      // Each attempt has its own connection, because the current one may be replaced meanwhile.
      const link = this.#gateway.makeLinkAfter(this.#gateway.size - left);
      this.#closing.add(link);
      try {
        await link.call('lease/revoke', { ID: session });
        return;
      } catch (error) {
        if (classify(error) === 'dead') return;
        // After `dispose` nobody would end a further attempt.
        if (left === 1 || link.isDropped) throw error;
      } finally {
        this.#closing.delete(link);
      }
    }
  }

  /** @param {string} [name] @param {'held'} [which] */
  async query(name, which) {
    const { queueCache } = this.#requireSession();
    const ask = () => new Query(this.#keys, queueCache, this.#requireConnection()).run(name, which);
    try {
      return await ask();
    } catch (error) {
      // Etcd compacted the revision during the query, which is unlikely to happen twice.
      if (!isCompacted(error)) throw error;
      return await ask();
    }
  }

  async dispose() {
    this.events = NO_EVENTS;
    this.#dropLinks();
    for (const link of this.#closing) link.drop();
  }

  /** @param {string} id @param {number} ttl @param {SessionInfo} info @returns {Own} */
  #newSession(id, ttl, info) {
    const lease = leaseKey(id);
    const queueCache = new QueueCache(this.#keys, lease, {
      granted: (entry) => own === this.#own && this.#handleGrant(own, entry),
      stolen: (ref, thief) => {
        own.step?.stolenFrom.add(ref);
        if (own === this.#own) this.events.stolen(ref, thief);
      },
      passed: (ref) => {
        if (own !== this.#own) return;
        this.events.stolen(ref, '');
        this.#deletePassed(own);
      },
      gone: (ref) => own === this.#own && !own.step?.ending.has(ref) && this.events.changed(),
      freed: () => own.streams?.reload(),
      dead: () => {
        own.isDead = true;
        if (own === this.#own) this.events.changed();
      },
    });
    const planner = new Planner(this.#keys, queueCache, lease, info.clientId);
    /** @type {Own} */
    const own = {
      ...{ id, lease, ttl, queueCache, planner },
      info: base64Json({ ...info, ttl }),
      version: 0,
      entered: 0,
      heard: 0,
      deliveries: new DeliveryBarrier(),
      streams: undefined,
      isDead: false,
      isDeleting: false,
      life: NO_EPOCH,
      step: undefined,
      logged: '0',
      proofs: 0,
    };
    return own;
  }

  #requireSession() {
    if (!this.#own) throw staleError();
    return this.#own;
  }

  #requireConnection() {
    if (!this.#links.current) throw staleError();
    return this.#links.current;
  }

  /** @param {Own} own */
  #sessionPut({ id, info, lease }) {
    return { key: base64(this.#keys.session(lease)), value: info, lease: id };
  }

  /**
   * Drops the connection, even one that is still being made, and stops its watches. Returns the
   * new generation.
   */
  #dropLinks() {
    const generation = this.#links.begin();
    this.#streams?.stop(staleError());
    return generation;
  }

  /** Drops the current connection, and makes a new one, which is not in use yet. */
  #makeLink() {
    const generation = this.#dropLinks();
    return this.#links.prepare(generation, this.#gateway.connect());
  }

  /**
   * Makes the new connection and its session current; throws if it is outdated.
   * @param {number} generation @param {Link} link @param {Own} own
   */
  #useLink(generation, link, own) {
    link.throwIfDropped();
    this.#links.use(generation, link);
    this.#own = own;
    own.streams?.follow();
  }

  /** @param {Link} link @param {unknown} error */
  #handleDisconnect(link, error) {
    if (!this.#links.lose(link)) return;
    link.drop();
    this.#own?.streams?.stop(error);
    this.events.down(error);
  }

  /**
   * Starts the watch of the keys written for the session. Resolves with true once the watch has
   * delivered the session's own key, and with false if etcd has compacted the revision that wrote
   * this key. Rejects after half a lease.
   * @param {Link} link @param {Own} own @returns {Promise<boolean>}
   */
  #startStreams(link, own) {
    const { entered, lease, queueCache, ttl } = own;
    let isOver = false;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(noWatchEventsError()), ttl / 2);
      unref(timer);
      /** Settles the promise, and stops its timer. @param {() => void} settle */
      const done = (settle) => {
        isOver = true;
        clearTimeout(timer);
        settle();
      };
      // Ends the connection, too.
      const fail = (/** @type {unknown} */ error) => {
        done(() => reject(error));
        this.#handleDisconnect(link, error);
        link.drop();
      };
      const streams = new Streams({
        keys: this.#keys,
        lease,
        queueCache,
        link,
        near: this.#near,
        fail,
      });
      own.streams = this.#streams = streams;
      const onCompacted = () => {
        if (isOver) throw watchEndedError('the next revision was compacted');
        streams.stop(staleError());
        done(() => resolve(false));
      };
      own.deliveries = streams.deliveries;
      streams.begin(entered, onCompacted);
      streams.deliveries.waitFor(entered).then(
        () => done(() => resolve(true)),
        (error) => done(() => reject(error)),
      );
    });
  }

  /**
   * Emits a grant, unless the answer to the step will report it.
   * @param {Own} own @param {Entry} entry
   */
  #handleGrant({ queueCache, step }, entry) {
    const { ref, token } = entry;
    if (!step?.noteGrant(ref, token) && queueCache.mine.get(ref) === entry) {
      this.events.granted(ref, token);
    }
  }

  /** @param {number} ttl @param {Link} link */
  #grantLease(ttl, link) {
    return link.call('lease/grant', { TTL: String(Math.ceil(ttl / 1_000)) });
  }

  /**
   * Grants the lease of a new session; a failure says if no etcd is at this address.
   * @param {number} ttl @param {Link} link
   */
  async #grantSessionLease(ttl, link) {
    try {
      return await this.#grantLease(ttl, link);
    } catch (error) {
      throw firstError(error, isClosed(error) ? await link.findOtherProtocol() : undefined);
    }
  }

  /**
   * Creates the session's key, in a new epoch if etcd is behind `seen`.
   * @param {Own} own @param {Seen} seen @param {Link} link
   */
  async #writeSession(own, seen, link) {
    const put = { request_put: this.#sessionPut(own) };
    const looks = this.#firstReads(own);
    for (;;) {
      const { header, responses } = await this.#changeInEpoch([put, ...looks], link);
      const [life = NO_EPOCH, ...found] = this.#parseFound(header, responses.slice(-looks.length));
      own.life = life;
      own.queueCache.offset = life.offset;
      this.#applyFound(own, header, found);
      if (!isBehind(life, header.revision, seen)) return;
      await this.#beginEpoch(seen, life, header, own, link);
    }
  }

  /**
   * Makes changes in the current epoch; if there is none, it begins the first epoch. It throws if
   * the bucket has keys but no epoch: an old version of this library, which would not notice
   * thefts, may have written them.
   * @param {object[]} changes @param {Link} link
   * @returns {Promise<{ header: any, responses: any[] }>}
   */
  async #changeInEpoch(changes, link) {
    const first = {
      compare: [{ ...allWith(this.#keys.prefix), ...NONE }],
      success: [epochPut(this.#keys), ...changes],
      failure: [],
    };
    const answer = await link.call('kv/txn', {
      compare: [existsCondition(base64(this.#keys.life))],
      success: changes,
      failure: [{ request_txn: first }],
    });
    if (answer.succeeded) return answer;
    const { responses, succeeded } = answer.responses[0].response_txn;
    if (!succeeded) throw noEpochError(this.#keys.prefix);
    return { header: answer.header, responses };
  }

  /** The ranges that a new session or connection reads. @param {Own} own */
  #firstReads({ lease }) {
    const { key, end } = this.#keys.ownRange(lease);
    return [
      epochRead(this.#keys),
      { request_range: range(key, end) },
      { request_range: { key: base64(this.#keys.quarantine) } },
    ];
  }

  /**
   * Writes the session's key for a new connection; throws if the session is dead.
   * @param {Own} own @param {Seen} seen @param {Link} link
   */
  async #writeSessionAgain(own, seen, link) {
    const { header, responses, succeeded } = await link.call('kv/txn', {
      compare: [existsCondition(base64(this.#keys.session(own.lease)))],
      success: [{ request_put: this.#sessionPut(own) }, ...this.#firstReads(own)],
    });
    if (!succeeded) throw deadError();
    const [life, ...found] = this.#parseFound(header, responses.slice(1));
    await this.#compareSeen(seen, life, header, own, link);
    this.#applyFound(own, header, found);
  }

  /**
   * Parses the answers to `#firstReads`: the epoch, the session's keys, the quarantine's key.
   * @param {any} header @param {any[]} responses @returns {[Epoch | undefined, any[], any]}
   */
  #parseFound(header, [life, own, quarantine]) {
    const { kvs = [] } = own.response_range;
    return [parseEpoch(header, life), kvs, quarantine.response_range.kvs?.[0]];
  }

  /**
   * Stores what was read in the session and its cache; ends a quarantine whose key is gone.
   * @param {Own} own @param {any} header @param {[any[], any]} found
   */
  #applyFound(own, header, [kvs, quarantine]) {
    const { queueCache } = own;
    own.version = Number(kvs[0].version);
    own.entered = Number(header.revision);
    own.heard = own.entered;
    if (quarantine) queueCache.quarantine = String(quarantine.lease);
    else queueCache.endQuarantine(own.entered);
    // These keys include thefts that happened while the session had no connection.
    queueCache.apply(kvs.map((/** @type {any} */ kv) => ({ kv })));
  }

  /**
   * Throws if the epoch is missing or behind `seen`; if it is behind, a new epoch begins first.
   * @param {Seen} seen @param {Epoch | undefined} life the server's epoch
   * @param {any} header @param {Own} own @param {Link} link
   */
  async #compareSeen(seen, life, header, own, link) {
    if (!life) throw deadError();
    const all = { ...this.#withHeard(seen), life: seen.life || own.life.name };
    if (!isBehind(life, header.revision, all)) return;
    await this.#beginEpoch(all, life, header, own, link);
    throw deadError();
  }

  /**
   * Adds the revisions that this session knows to what it has seen: the token of the greatest
   * revision counts as seen, even if it exceeds all tokens that were granted to the session.
   * @param {Seen} seen @returns {Seen}
   */
  #withHeard({ life, token }) {
    const own = this.#own;
    const heard = own ? own.queueCache.tokenOf(Math.max(own.heard, Number(own.logged))) : 0n;
    return { life, token: heard > token ? heard : token };
  }

  /**
   * Begins a new epoch, which ends all sessions, including this one.
   * @param {Seen} seen @param {Epoch} life the epoch that ends
   * @param {any} header @param {Own} own @param {Link} link
   */
  async #beginEpoch(seen, life, { revision }, { ttl }, link) {
    const { conditions, longest } = await this.#planQuarantine(ttl, link);
    const { ID } = await this.#grantLease(longest, link);
    const { compare, success } = beginEpochTransaction(
      this.#keys,
      life,
      revision,
      seen,
      String(ID),
    );
    const change = { compare: [...compare, ...conditions], success };
    const { succeeded } = await link.call('kv/txn', change);
    // The ended sessions may have renewed until now, so the quarantine's lease starts again now.
    if (succeeded) await link.call('lease/keepalive', { ID });
    // Another client has already begun the new epoch.
    else await link.call('lease/revoke', { ID }).catch(() => {});
  }

  /**
   * Returns how many milliseconds a quarantine must last: the longest of `ttl`, the leases of all
   * sessions, and the rest of the current quarantine. The conditions hold only if no key of a
   * session was created since the read, and the quarantine's key has not changed.
   * @param {number} ttl @param {Link} link
   * @returns {Promise<{ conditions: object[], longest: number }>}
   */
  async #planQuarantine(ttl, link) {
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
      longest: Math.max(longest, await this.#leaseLeft(old?.lease, link)),
    };
  }

  /** @param {string | undefined} lease @param {Link} link @returns milliseconds left */
  async #leaseLeft(lease, link) {
    if (lease === undefined) return 0;
    const { TTL } = await link.call('lease/timetolive', { ID: lease });
    return Number(TTL) * 1_000;
  }

  /**
   * How many milliseconds the quarantine still lasts, at least 1; 0 if there is none.
   * @param {InstanceType<typeof QueueCache>} queueCache @param {Link} link
   */
  async #quarantineLeft({ quarantine }, link) {
    if (quarantine === undefined) return 0;
    return Math.max(await this.#leaseLeft(quarantine, link), 1);
  }

  /** @param {string} name */
  async marked(name) {
    const key = base64(this.#keys.done(name));
    const { found } = await this.#requireConnection().read([{ key, count_only: true }]);
    return Number(found[0].count ?? 0) > 0;
  }
}

const MOST_DELETED = 50;

/** The next requests that have passed, up to `MOST_DELETED`. @param {Own} own */
const passedOf = ({ queueCache }) => [...queueCache.passed.values()].slice(0, MOST_DELETED);

/**
 * The operation that deletes a request's key unless another request has taken the key.
 * @param {Entry} entry
 */
const deletionOf = (entry) => ({
  request_txn: {
    compare: [sameEntryCondition(entry)],
    success: [{ request_delete_range: { key: base64(entry.key) } }],
  },
});

/** @type {Epoch} */
const NO_EPOCH = { name: '', offset: 0n, known: [], revision: '0' };

module.exports = { EtcdAdapter };
