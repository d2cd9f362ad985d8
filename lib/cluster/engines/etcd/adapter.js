'use strict';

/**
 * The adapter of etcd (../../adapter.js), over its JSON gateway (gateway.js). A session is a lease,
 * and its locks and requests are keys of that lease (keys.js). The transaction that ends a lock
 * also grants it to the next waiter, if this is still the next one (transaction.js), and writes
 * news for the waiter's session (own-requests.js). A session watches only its news, so its cost
 * does not depend on the number of other sessions.
 *
 * A step goes through these files: step.js sends its transactions, attempt.js plans its operations,
 * plan.js grants and queues in memory (section 4.4), and transaction.js makes a plan safe. Plans
 * begin with pictures of names (picture.js). etcd-session.js has the session's connection and
 * epoch, own-requests.js its requests, and watches.js brings their news.
 *
 * This adapter differs from the contract as follows:
 * - A name keeps the limit of its first shared request only while a shared request exists.
 * - Shared locks that one transaction grants have the same token.
 * - A mark lasts as long as its lease: whole seconds, at least etcd's minimum (2 by default), and
 *   its time starts again after a change of leader, unless etcd runs with lease checkpoints.
 * - A quarantine begins when a client has seen an epoch or token that etcd does not know, and all
 *   sessions end then (epoch.js).
 * - Waiting and holding times are measured by wall clocks: those of the sessions that made and
 *   granted the request, and of the session that asks.
 */

const { NO_EVENTS } = require('../../adapter.js');
const { CAN, EngineAdapter } = require('../engine-adapter.js');
const { classify, deadError, staleError } = require('../errors.js');
const { Epochs, isBehind } = require('./epoch.js');
const { firstError, isClosed, isCompacted, newLeaderError } = require('./errors.js');
const { Gateway } = require('./gateway.js');
const { Keys, base64, leaseKey } = require('./keys.js');
const { only } = require('./operations.js');
const { Query } = require('./query.js');
const { EtcdSession } = require('./etcd-session.js');
const { executeStep } = require('./step.js');

/** @import { Adapter, Op, Seen, SessionInfo } from '../../adapter.js' */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof EtcdSession>} Own */

/** About how many waiters of a name watch the ends of sessions (watches.js). */
const GUARDS = 4;

/**
 * @extends {EngineAdapter<Link>}
 * @implements {Adapter}
 */
class EtcdAdapter extends EngineAdapter {
  can = Object.freeze({ ...CAN, endsLeases: true });

  #gateway;
  #keys;
  #epochs;
  #guards;
  /** The session that `open` started last. @type {Own | undefined} */
  #own;
  /** Settles when the step under way is answered. @type {Promise<unknown>} */
  #step = Promise.resolve();
  /** Settles when the queries under way have a revision. @type {Promise<unknown>} */
  #queries = Promise.resolve();

  /**
   * @param {string} bucket @param {ConstructorParameters<typeof Gateway>[0]} options
   * @param {number} [guards] see above
   */
  constructor(bucket, options, guards = GUARDS) {
    super();
    this.#gateway = new Gateway(options);
    this.#guards = guards;
    this.#keys = new Keys(bucket);
    this.#epochs = new Epochs(this.#keys);
    this.id = `etcd ${bucket}`;
  }

  /** @param {SessionInfo} info @param {number} ttl @param {Seen} seen */
  async open(info, ttl, seen) {
    return this.#connect(async (link) => {
      const { ID, TTL } = await this.#grantSessionLease(ttl, link);
      const bucket = { keys: this.#keys, epochs: this.#epochs, guards: this.#guards };
      /** @type {Own} */
      const own = new EtcdSession(bucket, String(ID), Number(TTL) * 1_000, info, () =>
        own === this.#own ? this.events : NO_EVENTS,
      );
      await own.open(this.#own?.withKnownRevision(seen) ?? seen, link);
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
    const answers = this.#execute(ops, number, this.#requireSession(), this.requireLink());
    this.#step = Promise.allSettled([answers]);
    return answers;
  }

  /** @param {Op[]} ops @param {number} number @param {Own} own @param {Link} link */
  async #execute(ops, number, own, link) {
    // Etcd executes concurrent calls in any order.
    await this.#queries;
    return executeStep(ops, number, own, link);
  }

  /** @param {Seen} seen @returns {Promise<import('../../adapter.js').Renewal>} */
  async renew(seen) {
    const own = this.#requireSession();
    const link = this.requireLink();
    const { generation } = this;
    for (const ref of this.knownThefts) own.requests.thefts.delete(ref);
    const dead = {
      ...{ alive: false, mine: new Map(), grantsIn: 0, life: own.life.name },
      nextExpiryIn: Number.POSITIVE_INFINITY,
    };
    if (own.isDead) return dead;
    const known = own.withKnownRevision(seen);
    const { header, TTL } = await link.call('lease/keepalive', { ID: own.id });
    if (!(Number(TTL) > 0)) return dead;
    // A deposed leader still answers keep-alives, but does not extend the lease. So a commit must
    // follow in the same term: it proves that the member that answered was still the leader.
    const [synced, absent] = await Promise.all([own.sync(link), this.#findAbsent(own, link)]);
    if (synced.raft_term !== header.raft_term) throw newLeaderError();
    if (await own.endIfBehind(known, own.life, synced, link)) return { ...dead, grantsIn: own.ttl };
    await this.#forgetAbsent(absent, own, link);
    own.knownRevision = Number(synced.revision);
    await own.watches.lookAfterNames(link);
    link.throwIfDropped();
    const grantsIn = await quarantineLeft(own, link);
    const stolen = new Map(own.requests.thefts);
    this.noteThefts(generation, stolen);
    return { ...dead, alive: true, mine: own.requests.tokens, stolen, grantsIn };
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
  async #findAbsent(own, link) {
    if (own.requests.answered.length === 0) return [];
    const { keys = [] } = await link.call('lease/timetolive', { ID: own.id, keys: true });
    const listed = new Set(keys);
    return own.findAbsent(
      own.requests.answered.filter((one) => !listed.has(base64(own.requests.keyOf(one)))),
      link,
    );
  }

  /**
   * Forgets the requests whose keys somebody deleted by hand, but not those of thefts or grants.
   * @param {Awaited<ReturnType<Own['findAbsent']>>} absent @param {Own} own @param {Link} link
   */
  async #forgetAbsent(absent, own, link) {
    if (absent.length === 0) return;
    // Other sessions delete keys, too, and the news of that arrive during `sync`.
    await own.sync(link);
    for (const one of await own.findAbsent(absent, link)) own.requests.forget(one.entry.value.ref);
  }

  /** Etcd ends leases by itself; this grants what nobody has granted after that. */
  async sweep() {
    await this.#requireSession().watches.lookAfterNames(this.requireLink());
  }

  /** Ends the session over any endpoint; rejects if none does that. @param {string} session */
  async close(session) {
    const { size } = this.#gateway;
    const own = this.#own;
    for (let i = 0; i < size; i++) {
      // Each attempt has its own connection, because the current one may be replaced meanwhile.
      const makeLink = () => this.#gateway.makeLinkAfter(i);
      try {
        await this.overSingleCallLink(makeLink, async (link) => {
          await link.call('lease/revoke', { ID: session });
          // If this fails, those who wait make up for it.
          if (own?.id === session) await own.grantAfterEnd(link).catch(() => {});
        });
        return;
      } catch (error) {
        if (classify(error) === 'dead') return;
        if (i === size - 1) throw error;
      }
    }
  }

  /** @param {string} [name] @param {'held'} [which] */
  async query(name, which) {
    const own = this.#requireSession();
    const tokenOf = (/** @type {number} */ revision) => own.tokenOf(revision);
    const make = () => new Query(this.#keys, this.requireLink(), tokenOf);
    const query = make();
    const answer = this.#ask(query, name, which);
    const isFixed = Promise.race([query.isFixed, answer]);
    this.#queries = Promise.allSettled([this.#queries, isFixed]);
    try {
      return await answer;
    } catch (error) {
      // Etcd compacted the revision during the query, which is unlikely to happen twice.
      if (!isCompacted(error)) throw error;
      return await make().run(name, which);
    }
  }

  /** @param {InstanceType<typeof Query>} query @param {string} [name] @param {'held'} [which] */
  async #ask(query, name, which) {
    await this.#step;
    return query.run(name, which);
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
async function quarantineLeft({ quarantine }, link) {
  return quarantine === undefined ? 0 : Math.max(await link.leaseLeft(quarantine), 1);
}

module.exports = { EtcdAdapter };
