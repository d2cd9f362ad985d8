'use strict';

/**
 * What an adapter knows about one session of etcd, and the transactions of that session. Each
 * connection writes the session's key, and all transactions require that version of the key. So a
 * late transaction of an older connection or of an expired lease changes nothing.
 */

const { deadError, staleError } = require('../errors.js');
const { NO_EPOCH, isBehind } = require('./epoch.js');
const { base64Json, leaseKey } = require('./keys.js');
const { exists, isSame, isUnchanged, nested } = require('./operations.js');
const { only, put, range, read, remove } = require('./operations.js');
const { Planner } = require('./plan.js');
const { syncValue } = require('./query.js');
const { QueueCache } = require('./queue-cache.js');
const { Streams } = require('./streams.js');

/** @import { AdapterEvents, Seen, SessionInfo } from '../../adapter.js' */
/** @import { Epoch } from './epoch.js' */
/** @typedef {InstanceType<typeof import('./epoch.js').Epochs>} BucketEpochs */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./step.js').Step>} OwnStep */

const MOST_DELETED = 50;

class EtcdSession {
  /** The connection in use; undefined until the session is open. @type {Link | undefined} */
  link;
  /** The greatest revision that the session knows. */
  heard = 0;
  /** The streams of the latest connection. @type {InstanceType<typeof Streams> | undefined} */
  streams;
  isDead = false;
  life = NO_EPOCH;
  /** The current step, or the last one. @type {OwnStep | undefined} */
  step;
  /** The revision of the key that steps write (`Keys.steps`). */
  logged = '0';
  /**
   * Counts the transactions that succeeded, which proves that the session was alive and that no
   * newer connection had replaced this one.
   */
  proofs = 0;
  #keys;
  #epochs;
  #near;
  #key;
  #put;
  /** The version of the session's key, which identifies the connection. */
  #version = 0;
  /** The revision at which this connection wrote the key. */
  #entered = 0;
  /** Whether keys of passed requests are being deleted. */
  #isDeleting = false;

  /**
   * @param {{ keys: BucketKeys, epochs: BucketEpochs, near: number }} bucket
   * @param {string} id of the lease, in etcd's decimal form @param {number} ttl milliseconds
   * @param {SessionInfo} info @param {() => AdapterEvents} events for this session
   */
  constructor({ keys, epochs, near }, id, ttl, info, events) {
    this.id = id;
    this.ttl = ttl;
    /** The id as it appears in keys. */
    this.lease = leaseKey(id);
    this.#keys = keys;
    this.#epochs = epochs;
    this.#near = near;
    this.#key = keys.session(this.lease);
    this.#put = put(this.#key, base64Json({ ...info, ttl }), id);
    this.queueCache = new QueueCache(keys, this.lease, {
      // The answer to the step reports a grant to its own requests.
      granted: (entry) => {
        const { ref, token } = entry;
        if (this.step?.noteGrant(ref, token) || this.queueCache.mine.get(ref) !== entry) return;
        events().granted(ref, token);
      },
      stolen: (ref, thief) => {
        this.step?.stolenFrom.add(ref);
        events().stolen(ref, thief);
      },
      passed: (ref) => {
        events().stolen(ref, '');
        this.deletePassed();
      },
      gone: (ref) => {
        if (!this.step?.ending.has(ref)) events().changed();
      },
      freed: () => this.streams?.reload(),
      dead: () => {
        this.isDead = true;
        events().changed();
      },
    });
    this.planner = new Planner(keys, this.queueCache, info.clientId);
  }

  /**
   * Creates the session's key, in a new epoch if etcd is behind.
   * @param {Seen} seen @param {Link} link
   */
  async open(seen, link) {
    do await this.#create(seen, link);
    while (!(await this.#startStreams(link)));
  }

  /** Writes the session's key for a new connection. @param {Seen} seen @param {Link} link */
  async resume(seen, link) {
    do await this.#writeAgain(seen, link);
    while (!(await this.#startStreams(link)));
  }

  /**
   * Returns false if etcd has compacted the revision that wrote the session's key.
   * @param {Link} link
   */
  #startStreams(link) {
    const { queueCache } = this;
    this.streams = new Streams({ keys: this.#keys, queueCache, link, near: this.#near });
    return this.streams.begin(this.#entered, this.ttl / 2);
  }

  /** @param {Seen} seen @param {Link} link */
  async #create(seen, link) {
    for (;;) {
      const changes = [this.#put, ...this.#firstReads];
      const { header, responses } = await this.#epochs.change(changes, link);
      const [life = NO_EPOCH, ...found] = this.#parseFound(header, responses);
      this.life = life;
      this.queueCache.offset = life.offset;
      this.#applyFound(header, found);
      if (!isBehind(life, header.revision, seen)) return;
      await this.#epochs.begin(seen, life, header, this.ttl, link);
    }
  }

  /** Throws if the session is dead. @param {Seen} seen @param {Link} link */
  async #writeAgain(seen, link) {
    const known = this.withHeard(seen);
    const changes = [this.#put, ...this.#firstReads];
    const { header, responses, succeeded } = await link.transact([exists(this.#key)], changes);
    if (!succeeded) throw deadError();
    const [life, ...found] = this.#parseFound(header, responses);
    if (!life || (await this.endIfBehind(known, life, header, link))) throw deadError();
    this.#applyFound(header, found);
  }

  /** The reads of a new session or connection. */
  get #firstReads() {
    const { key, end } = this.#keys.ownRange(this.lease);
    return [this.#epochs.range, range(key, end), only(this.#keys.quarantine)].map(read);
  }

  /**
   * The epoch, the session's keys, and the quarantine's key.
   * @param {any} header @param {any[]} responses that end with those to `#firstReads`
   * @returns {[Epoch | undefined, any[], any]}
   */
  #parseFound(header, responses) {
    const [life, own, quarantine] = responses.slice(-3).map(({ response_range: found }) => found);
    return [this.#epochs.parse(header, life), own.kvs ?? [], quarantine.kvs?.[0]];
  }

  /**
   * Stores what was read in the session and its cache; ends a quarantine whose key is gone.
   * @param {any} header @param {[any[], any]} found
   */
  #applyFound(header, [kvs, quarantine]) {
    const { queueCache } = this;
    this.#version = Number(kvs[0].version);
    this.#entered = this.heard = Number(header.revision);
    if (quarantine) queueCache.quarantine = String(quarantine.lease);
    else queueCache.endQuarantine(this.#entered);
    // These keys include thefts that happened while the session had no connection.
    queueCache.apply(kvs.map((kv) => ({ kv })));
  }

  /**
   * Begins a new epoch, which ends this session, if etcd is behind; returns whether it did.
   * @param {Seen} seen @param {Epoch} life @param {any} header @param {Link} link
   */
  async endIfBehind(seen, life, header, link) {
    const all = { ...seen, life: seen.life || this.life.name };
    const isOver = isBehind(life, header.revision, all);
    if (isOver) await this.#epochs.begin(all, life, header, this.ttl, link);
    return isOver;
  }

  /**
   * Adds the revisions that this session knows to what it has seen: the token of the greatest
   * revision counts as seen, even if it exceeds all tokens that were granted to the session.
   * @param {Seen} seen
   */
  withHeard(seen) {
    const token = this.queueCache.tokenOf(Math.max(this.heard, Number(this.logged)));
    return token > seen.token ? { ...seen, token } : seen;
  }

  /** Deletes the keys of requests that have passed; nobody waits for this. */
  async deletePassed() {
    const { link, queueCache } = this;
    if (this.#isDeleting || !link) return;
    this.#isDeleting = true;
    try {
      while (queueCache.passed.size > 0) {
        const some = [...queueCache.passed.values()].slice(0, MOST_DELETED);
        const deletions = some.map((entry) => nested([isSame(entry)], [remove(only(entry.key))]));
        await link.transact([], deletions);
        queueCache.dropPassed(some.map(({ ref }) => ref));
      }
    } catch {
      // The next step or renewal tries again.
    } finally {
      this.#isDeleting = false;
    }
  }

  /** The condition that no other transaction has written the key of the session's steps. */
  get logCondition() {
    return isUnchanged(this.#keys.steps(this.lease), this.logged);
  }

  /**
   * Makes changes. Throws if the session is dead or this is not its latest connection. If one of
   * `conditions` does not hold, nothing was changed, there are no responses, and `logged` is the
   * revision of the key of the session's steps as it is now.
   * @param {object[]} changes @param {object[]} conditions @param {Link} link
   * @returns {Promise<{ header: any, responses?: any[], logged: string }>}
   */
  async transact(changes, conditions, link) {
    const isOurs = { target: 'VERSION', result: 'EQUAL', version: String(this.#version) };
    const compare = [{ ...only(this.#key), ...isOurs }, ...conditions];
    const { header, responses, succeeded } = await link.transact(compare, changes);
    if (succeeded) {
      this.proofs++;
      return { header, responses, logged: this.logged };
    }
    // The reason is read after a failure only, since reads in each transaction would cost time.
    const { found } = await link.read([this.#key, this.#keys.steps(this.lease)].map(only));
    const [[self], [log] = []] = found.map(({ kvs = [] }) => kvs);
    if (!self) throw deadError();
    if (Number(self.version) !== this.#version) throw staleError();
    return { header, logged: loggedAt(log) };
  }

  /** Rejects if the session is dead or has a newer link. @param {Link} link */
  async check(link) {
    // The transaction contains a read, because a member answers a transaction without operations
    // from its own state, which may be stale.
    await this.transact([read({ ...only(this.#key), keys_only: true })], [], link);
  }

  /**
   * Waits until the cache knows everything that was written for the session, and whether there is a
   * quarantine. For this purpose it writes a key, which the watch delivers last. `others` are
   * further operations of that transaction.
   * @param {Link} link @param {object[]} [others]
   */
  async sync(link, others = []) {
    const { lease, queueCache } = this;
    const value = base64Json(syncValue(queueCache, this.logged));
    const changes = [
      ...others,
      read({ ...only(this.#keys.quarantine), count_only: true }),
      put(this.#keys.syncKey(lease), value, this.id),
    ];
    // If another epoch has begun, the session was deleted, and `transact` throws. So only this
    // condition fails if somebody has deleted the epoch's key by hand.
    const isItsLife = isUnchanged(this.#keys.life, this.life.revision);
    const { header, responses } = await this.transact(changes, [isItsLife], link);
    if (!responses) throw deadError();
    const revision = Number(header.revision);
    await this.streams?.waitForDelivery(revision);
    link.throwIfDropped();
    if (!Number(responses.at(-2).response_range.count ?? 0)) queueCache.endQuarantine(revision);
    return { header, responses };
  }
}

/** The revision of the key that steps write; '0' if it does not exist. @param {any} found */
const loggedAt = (found) => found?.mod_revision ?? '0';

module.exports = { EtcdSession, loggedAt };
