'use strict';

/**
 * A session of etcd and its transactions. Each connection writes the session's key, and all
 * transactions require that version of the key. So a late transaction of an older connection or of
 * an expired lease changes nothing.
 *
 * If another session grants or ends a request of this session, it writes news, which this session
 * watches (own-requests.js). Nobody writes anything when a session ends. So some of the waiters of
 * each name watch the ends of sessions, and grant what can be granted then (watches.js).
 */

const { deadError, staleError } = require('../errors.js');
const { NO_EPOCH, isBehind } = require('./epoch.js');
const { grantWaiters } = require('./grant-waiters.js');
const { base64Json, leaseKey, valueOf } = require('./keys.js');
const { partsOf } = require('./lists.js');
const { allWith, depthOf, exists, isUnchanged, isVersion, nest } = require('./operations.js');
const { nested, only, put, read, unnest } = require('./operations.js');
const { OwnRequests } = require('./own-requests.js');
const { Watches } = require('./watches.js');

/** @import { AdapterEvents, Answer, Seen, SessionInfo } from '../../adapter.js' */
/** @import { Epoch } from './epoch.js' */
/** @import { OwnRequest } from './own-requests.js' */
/** @typedef {InstanceType<typeof import('./epoch.js').Epochs>} BucketEpochs */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */

/** Etcd's default limit of what a transaction may have. */
const MOST_DEPTH = 128;
const MOST_READS = 100;

class EtcdSession {
  /** The greatest revision that the session knows. Renewals raise it. */
  knownRevision = 0;
  isDead = false;
  life = NO_EPOCH;
  /** The quarantine's lease while there is a quarantine. @type {string | undefined} */
  quarantine;
  /**
   * The answers of the last step, which step.js sets, and the record of what was answered.
   * @type {{ number: number, answers: Answer[], record: import('./step.js').StepRecord }}
   */
  last = { number: -1, answers: [], record: { number: -1, answers: '', limits: [] } };
  /** The revision of that record, which step.js sets; '0' if there is none. */
  logged = '0';
  /** @type {InstanceType<typeof OwnRequests>} */
  requests;
  /** @type {InstanceType<typeof Watches>} */
  watches;
  #epochs;
  #events;
  #key;
  #put;
  /** The version of the session's key, which identifies the connection. */
  #version = 0;
  /** The revision at which this connection wrote the key. */
  #entered = 0;
  /**
   * The names whose waiters are being granted, and whether to look again.
   * @type {Map<string, boolean>}
   */
  #granting = new Map();

  /**
   * @param {{ keys: BucketKeys, epochs: BucketEpochs, guards: number }} bucket `guards`: about how
   *   many waiters of a name watch the ends of sessions
   * @param {string} id of the lease, in etcd's decimal form @param {number} ttl milliseconds
   * @param {SessionInfo} info @param {() => AdapterEvents} events for this session
   */
  constructor({ keys, epochs, guards }, id, ttl, info, events) {
    this.id = id;
    this.ttl = ttl;
    this.info = info;
    /** The id as it appears in keys. */
    this.lease = leaseKey(id);
    this.keys = keys;
    this.#epochs = epochs;
    this.#events = events;
    this.#key = keys.session(this.lease);
    this.#put = put(this.#key, base64Json({ ...info, ttl }), id);
    this.requests = new OwnRequests(this, events);
    this.watches = new Watches(this, guards);
  }

  get isQuarantined() {
    return this.quarantine !== undefined;
  }

  /** The token of a grant. @param {number} revision */
  tokenOf(revision) {
    return BigInt(revision) + this.life.offset;
  }

  /**
   * Creates the session's key, in a new epoch if etcd is behind.
   * @param {Seen} seen @param {Link} link
   */
  async open(seen, link) {
    do await this.#create(seen, link);
    while (!(await this.watches.begin(link, this.#entered)));
  }

  /** Writes the session's key for a new connection. @param {Seen} seen @param {Link} link */
  async resume(seen, link) {
    do await this.#writeAgain(seen, link);
    while (!(await this.watches.begin(link, this.#entered)));
  }

  /** @param {Seen} seen @param {Link} link */
  async #create(seen, link) {
    for (;;) {
      const { header, responses } = await this.#epochs.change(this.#entryOperations, link);
      const life = this.#epochs.parse(header, rangeIn(responses, -4)) ?? NO_EPOCH;
      this.life = life;
      this.#applyResults(header, responses);
      if (!isBehind(life, header.revision, seen)) return;
      await this.#epochs.begin(seen, life, header, this.ttl, link);
    }
  }

  /** Throws if the session is dead. @param {Seen} seen @param {Link} link */
  async #writeAgain(seen, link) {
    const known = this.withKnownRevision(seen);
    const { header, responses, succeeded } = await link.transact(
      [exists(this.#key)],
      this.#entryOperations,
    );
    if (!succeeded) throw deadError();
    const life = this.#epochs.parse(header, rangeIn(responses, -4));
    if (!life || (await this.endIfBehind(known, life, header, link))) throw deadError();
    this.#applyResults(header, responses);
  }

  /** The operations of a new session or connection. */
  get #entryOperations() {
    const { keys, lease } = this;
    const ranges = [this.#epochs.range, only(this.#key), allWith(keys.news(lease))];
    const reads = [...ranges, only(keys.quarantine)].map(read);
    const record = put(keys.steps(lease), base64Json({ number: -1 }), this.id);
    const first = this.#version === 0 ? [record] : [];
    return [this.#put, put(keys.sync(lease), '', this.id), ...first, ...reads];
  }

  /** Applies the results of `#entryOperations`. @param {any} header @param {any[]} responses */
  #applyResults(header, responses) {
    // A record of its own tells late copies of the first step from the first step.
    if (this.#version === 0) this.logged = header.revision;
    this.#version = Number(rangeIn(responses, -3).kvs[0].version);
    this.#entered = this.knownRevision = Number(header.revision);
    this.quarantine = rangeIn(responses, -1).kvs?.[0].lease;
    // These are news about what happened while the session had no connection.
    this.requests.applyNews(rangeIn(responses, -2).kvs);
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
   * Adds the revisions that this session knows to `seen`: the token of the greatest revision counts
   * as seen, even if it exceeds all tokens that were granted to the session.
   * @param {Seen} seen
   */
  withKnownRevision(seen) {
    const token = this.tokenOf(Math.max(this.knownRevision, Number(this.logged)));
    return token > seen.token ? { ...seen, token } : seen;
  }

  // Transactions

  /** The condition that this is the session's latest connection. */
  get #isOurs() {
    return isVersion(this.#key, this.#version);
  }

  /**
   * Makes changes. Throws if the session is dead or this is not its latest connection. If a
   * condition does not hold, nothing was changed, and the result has no `responses`, but the keys
   * `found` in `ranges` and the session's last record with its revision. The result is undefined if
   * the transaction is too large for etcd and can be cut.
   * @param {object[]} changes @param {object[]} conditions @param {object[]} ranges
   * @param {boolean} isCuttable @param {Link} link
   * @returns {Promise<{ header: any, responses?: any[], found?: any[], record?: any,
   *   revision: string } | undefined>}
   */
  async transact(changes, conditions, ranges, isCuttable, link) {
    const { keys, lease } = this;
    const isLogged = isUnchanged(keys.steps(lease), this.logged);
    const isCareful = this.isQuarantined ? [exists(keys.quarantine)] : [];
    const all = [this.#isOurs, isLogged, ...isCareful, ...conditions];
    const success = nest(changes);
    if (isCuttable && depthOf(nested(all, success)) > MOST_DEPTH) return undefined;
    const { header, responses = [], succeeded } = await link.transact(all, success);
    if (!succeeded) return this.#lookAgain(ranges, link);
    return { header, responses: unnest(responses, changes.length), revision: '' };
  }

  /**
   * Reads ranges and the session's last record with its revision; throws if the session is dead or
   * has a newer link. Reads in each transaction would take etcd longer, and conditions rarely fail.
   * @param {object[]} ranges @param {Link} link
   */
  async #lookAgain(ranges, link) {
    const { keys, lease } = this;
    const own = [this.#key, keys.steps(lease), keys.quarantine].map(only);
    const { header, found } = await this.#readParts([...own, ...ranges], (some) =>
      link.readAfterWrites(some),
    );
    const [self, log, quarantine] = found.map(({ kvs = [] }) => kvs[0]);
    if (!self) throw deadError();
    if (Number(self.version) !== this.#version) throw staleError();
    if (this.isQuarantined && !quarantine) this.endQuarantine();
    const revision = log?.mod_revision ?? '0';
    return { header, found: found.slice(own.length), record: log && valueOf(log.value), revision };
  }

  /**
   * Reads ranges, however many. If that takes several calls, the header is of the oldest state.
   * @param {object[]} ranges @param {Link['read']} call
   */
  async #readParts(ranges, call) {
    const parts = await Promise.all(partsOf(ranges, MOST_READS).map(call));
    const found = parts.flatMap((part) => part.found);
    // Etcd executes the calls in any order.
    const headers = parts.map(({ header }) => header);
    headers.sort((a, b) => Number(a.revision) - Number(b.revision));
    return { header: headers[0], found };
  }

  /** Reads ranges, however many. @param {object[]} ranges @param {Link} link */
  read(ranges, link) {
    return this.#readParts(ranges, (some) => link.read(some));
  }

  /** Rejects if the session is dead or has a newer link. @param {Link} link */
  async check(link) {
    // The transaction contains a read, because a member answers a transaction without operations
    // from its own state, which may be stale.
    const look = { ...only(this.#key), keys_only: true };
    const { succeeded } = await link.transact([this.#isOurs], [read(look)]);
    if (succeeded) return;
    const { found } = await link.read([only(this.#key)]);
    throw found[0].kvs ? staleError() : deadError();
  }

  /**
   * Waits until the session knows all news that were written for it, and whether there is a
   * quarantine. For this purpose it writes a key, which the watch delivers last.
   * @param {Link} link
   */
  async sync(link) {
    const { keys, lease } = this;
    const changes = [
      read({ ...only(keys.quarantine), count_only: true }),
      put(keys.sync(lease), '', this.id),
    ];
    // If another epoch has begun, the session was deleted. So only this condition fails if somebody
    // has deleted the epoch's key by hand.
    const isItsLife = isUnchanged(keys.life, this.life.revision);
    const { header, responses, succeeded } = await link.transact(
      [this.#isOurs, isItsLife],
      changes,
    );
    if (!succeeded) {
      await this.check(link);
      throw deadError();
    }
    await this.watches.waitForDelivery(Number(header.revision));
    link.throwIfDropped();
    if (!Number(responses[0].response_range.count ?? 0)) this.endQuarantine();
    return header;
  }

  /** Finds requests whose keys do not exist. @param {OwnRequest[]} all @param {Link} link */
  async findAbsent(all, link) {
    const still = all.filter((one) => this.requests.get(one.entry.value.ref) === one);
    if (still.length === 0) return [];
    const ranges = still.map((one) => ({ ...only(this.requests.keyOf(one)), keys_only: true }));
    const { found } = await this.read(ranges, link);
    return still.filter(
      ({ entry }, i) => Number(found[i].kvs?.[0].create_revision) !== entry.created,
    );
  }

  // Waiters

  /** Grants the locks that the quarantine has held up. */
  endQuarantine() {
    if (!this.isQuarantined) return;
    this.quarantine = undefined;
    this.watches.look();
  }

  /** Called when the session's keys are deleted. */
  end() {
    this.isDead = true;
    this.#events().changed();
  }

  /**
   * Grants what can be granted to the waiters of a name; once more if this is called meanwhile.
   * @param {string} name @param {Link} link
   */
  async grantWaiters(name, link) {
    if (this.#granting.has(name)) {
      this.#granting.set(name, true);
      return;
    }
    try {
      do {
        this.#granting.set(name, false);
        await grantWaiters(this.keys, name, link);
      } while (this.#granting.get(name));
    } finally {
      this.#granting.delete(name);
    }
  }

  /** Grants what the end of this session has made free. @param {Link} link */
  async grantAfterEnd(link) {
    const { names } = this.requests;
    const ranges = names.map((name) => ({ ...allWith(this.keys.queue(name)), count_only: true }));
    const { found } = await this.read(ranges, link);
    const waiting = names.filter((_, i) => Number(found[i].count ?? 0) > 0);
    await Promise.all(waiting.map((name) => this.grantWaiters(name, link)));
  }
}

/** The result of a read in a transaction. @param {any[]} responses @param {number} i */
const rangeIn = (responses, i) => responses.at(i).response_range;

module.exports = { EtcdSession };
