'use strict';

/**
 * The adapter of etcd (../../adapter.js), over its JSON gateway (gateway.js). A session is a lease
 * with a key of its own, and its requests are keys of that lease (keys.js). Every client computes
 * the holders of a name from the keys (queue.js), so grants are not written. A session watches only
 * the keys that are written for it, such as a thief's notices, and the names that it waits for
 * (streams.js). So its cost does not depend on the number of other sessions.
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

const { NO_EVENTS } = require('../../adapter.js');
const { CAN, EngineAdapter } = require('../engine-adapter.js');
const { classify, deadError, staleError } = require('../errors.js');
const { Epochs, isBehind } = require('./epoch.js');
const { firstError, isClosed, isCompacted, newLeaderError } = require('./errors.js');
const { Gateway } = require('./gateway.js');
const { Keys, base64, leaseKey } = require('./keys.js');
const { only, remove } = require('./operations.js');
const { Query } = require('./query.js');
const { EtcdSession } = require('./session.js');
const { executeStep } = require('./steps.js');
const { findAbsent } = require('./streams.js');

/** @import { Adapter, Op, Seen, SessionInfo } from '../../adapter.js' */
/** @import { Entry } from './queue.js' */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof EtcdSession>} Own */

/**
 * How many exclusive requests may be ahead of a session that watches a name (far-waits.js). It must
 * notice that it is near, and read the queue, while these hold their locks.
 */
const NEAR = 6;
/** The most theft notices that one renewal deletes, each perhaps with the data of the lock. */
const MOST_TOLD = 50;

/**
 * @extends {EngineAdapter<Link>}
 * @implements {Adapter}
 */
class EtcdAdapter extends EngineAdapter {
  can = Object.freeze({ ...CAN, priorities: false, endsLeases: true });

  #gateway;
  #keys;
  #epochs;
  #near;
  /** The session that `open` started last. @type {Own | undefined} */
  #own;

  /**
   * @param {string} bucket @param {ConstructorParameters<typeof Gateway>[0]} options
   * @param {number} [near] how many exclusive requests are ahead of a waiter that watches its name
   */
  constructor(bucket, options, near = NEAR) {
    super();
    this.#gateway = new Gateway(options);
    this.#near = near;
    this.#keys = new Keys(bucket);
    this.#epochs = new Epochs(this.#keys);
    this.id = `etcd ${bucket}`;
  }

  /** @param {SessionInfo} info @param {number} ttl @param {Seen} seen */
  async open(info, ttl, seen) {
    return this.#connect(async (link) => {
      const { ID, TTL } = await this.#grantSessionLease(ttl, link);
      const bucket = { keys: this.#keys, epochs: this.#epochs, near: this.#near };
      /** @type {Own} */
      const own = new EtcdSession(bucket, String(ID), Number(TTL) * 1_000, info, () =>
        own === this.#own ? this.events : NO_EVENTS,
      );
      await own.open(this.#own?.withHeard(seen) ?? seen, link);
      const grantsIn = await quarantineLeft(own, link);
      return [own, { session: own.id, ttl: own.ttl, life: own.life.name, grantsIn }];
    });
  }

  /**
   * Replaces the session's connection; rejects if the session is dead.
   * @param {Seen} seen
   */
  async hello(seen) {
    const own = this.#requireSession();
    await this.#connect(async (link) => {
      await own.resume(seen, link);
      return [own, undefined];
    });
  }

  /**
   * Replaces the connection, and makes the session current.
   * @template T @param {(link: Link) => Promise<[own: Own, result: T]>} greet
   */
  #connect(greet) {
    return this.connect(
      () => this.#gateway.connect(),
      async (link) => {
        const [own, result] = await greet(link);
        return () => {
          this.#own = own;
          own.link = link;
          own.streams?.follow();
          return result;
        };
      },
    );
  }

  /**
   * Grants the lease of a new session; a failure says if no etcd is at this address.
   * @param {number} ttl @param {Link} link
   */
  async #grantSessionLease(ttl, link) {
    try {
      return await link.grantLease(ttl);
    } catch (error) {
      throw firstError(error, isClosed(error) ? await link.findOtherProtocol() : undefined);
    }
  }

  /** @param {Op[]} ops @param {number} number */
  async step(ops, number) {
    const own = this.#requireSession();
    try {
      return await executeStep(ops, number, own, this.requireLink(), this.#keys);
    } finally {
      own.streams?.follow();
      own.deletePassed();
    }
  }

  /** @param {Seen} seen @returns {Promise<import('../../adapter.js').Renewal>} */
  async renew(seen) {
    const own = this.#requireSession();
    const link = this.requireLink();
    const { queueCache } = own;
    const dead = {
      ...{ alive: false, mine: new Map(), grantsIn: 0, life: own.life.name },
      nextExpiryIn: Number.POSITIVE_INFINITY,
    };
    if (own.isDead) return dead;
    const known = own.withHeard(seen);
    const { header, TTL } = await link.call('lease/keepalive', { ID: own.id });
    if (!(Number(TTL) > 0)) return dead;
    // A deposed leader still answers keep-alives, but does not extend the lease. So a commit must
    // follow in the same term: it proves that the member that answered was still the leader.
    const stolen = new Map([...queueCache.thefts].slice(0, MOST_TOLD));
    const [synced, absent] = await Promise.all([
      own.sync(link, this.#deletionsOfNotices(own, [...stolen.keys()])),
      this.#findAbsent(own, link),
    ]);
    for (const ref of stolen.keys()) {
      queueCache.thefts.delete(ref);
      queueCache.published.delete(ref);
    }
    own.deletePassed();
    if (synced.header.raft_term !== header.raft_term) throw newLeaderError();
    if (await own.endIfBehind(known, own.life, synced.header, link))
      return { ...dead, grantsIn: own.ttl };
    await this.#forgetAbsent(absent, own, link);
    own.heard = Number(synced.header.revision);
    await own.streams?.handleRenewal();
    link.throwIfDropped();
    const mine = new Map([...queueCache.mine].map(([ref, { token }]) => [ref, token]));
    const grantsIn = await quarantineLeft(own, link);
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
    const link = await this.linkForCalls(() => this.#gateway.connect());
    const { header: kept, TTL } = await link.call('lease/keepalive', { ID: session });
    const key = { ...only(this.#keys.session(leaseKey(session))), count_only: true };
    const { header, found } = await link.readAfterWrites([key, this.#epochs.range]);
    // The keeper may reach another etcd, which knows nothing of the session.
    const life = this.#epochs.parse(header, found[1]);
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
    if (entriesStillCached().length > 0) await own.sync(link);
    for (const { ref } of entriesStillCached()) queueCache.forget(ref);
  }

  /** @param {Own} own @param {number[]} refs of thefts */
  #deletionsOfNotices({ lease, planner, queueCache }, refs) {
    const published = refs.filter((ref) => queueCache.published.has(ref));
    const notices = refs.map((ref) => remove(only(this.#keys.stolen(lease, ref))));
    return [...notices, ...published.map((ref) => planner.dataDeletion(ref))];
  }

  /** Does nothing, because etcd ends leases by itself, and the watch delivers their ends. */
  async sweep() {}

  /** Ends the session over any endpoint; rejects if none does that. @param {string} session */
  async close(session) {
    const { size } = this.#gateway;
    for (let i = 0; i < size; i++) {
      // Each attempt has its own connection, because the current one may be replaced meanwhile.
      const makeLink = () => this.#gateway.makeLinkAfter(i);
      try {
        await this.overSingleCallLink(makeLink, (link) =>
          link.call('lease/revoke', { ID: session }),
        );
        return;
      } catch (error) {
        if (classify(error) === 'dead') return;
        if (i === size - 1) throw error;
      }
    }
  }

  /** @param {string} [name] @param {'held'} [which] */
  async query(name, which) {
    const { queueCache } = this.#requireSession();
    const ask = () => new Query(this.#keys, queueCache, this.requireLink()).run(name, which);
    try {
      return await ask();
    } catch (error) {
      // Etcd compacted the revision during the query, which is unlikely to happen twice.
      if (!isCompacted(error)) throw error;
      return await ask();
    }
  }

  /** @param {string} name */
  async marked(name) {
    const key = only(this.#keys.done(name));
    const { found } = await this.requireLink().read([{ ...key, count_only: true }]);
    return Number(found[0].count ?? 0) > 0;
  }

  #requireSession() {
    if (!this.#own) throw staleError();
    return this.#own;
  }
}

/**
 * How many milliseconds the quarantine still lasts, at least 1; 0 if there is none.
 * @param {Own} own @param {Link} link
 */
async function quarantineLeft({ queueCache: { quarantine } }, link) {
  return quarantine === undefined ? 0 : Math.max(await link.leaseLeft(quarantine), 1);
}

module.exports = { EtcdAdapter };
