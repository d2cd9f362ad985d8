'use strict';

/**
 * What an adapter knows about one session of etcd, and the transactions of that session. Each
 * connection writes the session's key, and all transactions require that version of the key. So a
 * late transaction of an older connection or of an expired lease changes nothing.
 *
 * What others do with the session's requests is written as news for the session, which it watches.
 * Nobody writes anything when a session ends. So some of the waiters of each name watch the ends of
 * sessions, and grant what can be granted then (watches.js).
 */

const { PASSED, QUEUED, granted, isRequest } = require('../../adapter.js');
const { deadError, staleError } = require('../errors.js');
const { NO_EPOCH, isBehind } = require('./epoch.js');
const { grantWaiters } = require('./grants.js');
const { base64Json, leaseKey, textOf, valueOf } = require('./keys.js');
const { allWith, depthOf, exists, isUnchanged, isVersion, nest } = require('./operations.js');
const { nested, only, put, read, unnest } = require('./operations.js');
const { NOTHING, isShared, newEntry } = require('./picture.js');
const { Slots } = require('./slots.js');
const { Watches } = require('./watches.js');
const { partsOf } = require('./lists.js');

/** @import { AdapterEvents, Answer, Op, PublishOp, RequestOp, Seen, SessionInfo } from '../../adapter.js' */
/** @import { Epoch } from './epoch.js' */
/** @import { Entry, Picture } from './picture.js' */
/** @typedef {InstanceType<typeof import('./epoch.js').Epochs>} BucketEpochs */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */

/**
 * A request of the session. `isAnswered`: whether its step was answered. `picture`: what the news of
 * its grant told about the queue.
 * @typedef {{ name: string, entry: Entry, isAnswered: boolean, picture?: Picture }} OwnRequest
 */

/**
 * The news about a request. A grant has `granted`, and perhaps the first waiters. The end of a lock
 * has the thief's client id and the revision of the grant, and the end of a request that has passed
 * has '' as `thief`.
 * @typedef {{ ref: number, granted?: number, thief?: string, created?: number,
 *   next?: [level: string, tail: string, created: number, value: any][], isAll?: boolean,
 *   count?: number, at?: number }} News
 */

/** Etcd's default limit of what a transaction may have. */
const MOST_DEPTH = 128;
const MOST_READS = 100;

class EtcdSession {
  /** The connection in use; undefined until the session is open. @type {Link | undefined} */
  link;
  /** The greatest revision that the session knows. */
  heard = 0;
  isDead = false;
  life = NO_EPOCH;
  /** The quarantine's lease, as long as there is a quarantine. @type {string | undefined} */
  quarantine;
  /** The last step that was answered. @type {{ number: number, answers: Answer[] }} */
  last = { number: -1, answers: [] };
  /** The revision of the session's step key; '0' if there is none. */
  logged = '0';
  /** @type {Map<number, OwnRequest>} */
  requests = new Map();
  /** The thieves of locks, and '' for requests that have passed. @type {Map<number, string>} */
  thefts = new Map();
  slots = new Slots();
  /** @type {InstanceType<typeof Watches>} */
  watches;
  #epochs;
  #events;
  #key;
  #put;
  /** The number of the step under way, or of the last one. */
  #step = -1;
  /** The revisions of grants of this step that a theft has ended already. @type {Map<number, number>} */
  #robbed = new Map();
  /** The requests of this step that have passed already. @type {Set<number>} */
  #passed = new Set();
  /** The revision of the latest news. */
  #told = 0;
  /** The version of the session's key, which identifies the connection. */
  #version = 0;
  /** The revision at which this connection wrote the key. */
  #entered = 0;
  /** The names whose waiters are being granted: whether to look again. @type {Map<string, boolean>} */
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
      const { header, responses } = await this.#epochs.change(this.#entry, link);
      const life = this.#epochs.parse(header, rangeIn(responses, -4)) ?? NO_EPOCH;
      this.life = life;
      this.#applyEntry(header, responses);
      if (!isBehind(life, header.revision, seen)) return;
      await this.#epochs.begin(seen, life, header, this.ttl, link);
    }
  }

  /** Throws if the session is dead. @param {Seen} seen @param {Link} link */
  async #writeAgain(seen, link) {
    const known = this.withHeard(seen);
    const { header, responses, succeeded } = await link.transact([exists(this.#key)], this.#entry);
    if (!succeeded) throw deadError();
    const life = this.#epochs.parse(header, rangeIn(responses, -4));
    if (!life || (await this.endIfBehind(known, life, header, link))) throw deadError();
    this.#applyEntry(header, responses);
  }

  /** What a new session or connection writes and reads. */
  get #entry() {
    const { keys, lease } = this;
    const ranges = [this.#epochs.range, only(this.#key), allWith(keys.news(lease))];
    const reads = [...ranges, only(keys.quarantine)].map(read);
    const record = put(keys.steps(lease), base64Json({ number: -1 }), this.id);
    const first = this.#version === 0 ? [record] : [];
    return [this.#put, put(keys.sync(lease), '', this.id), ...first, ...reads];
  }

  /** Takes what `#entry` has read. @param {any} header @param {any[]} responses */
  #applyEntry(header, responses) {
    // A record of its own tells late copies of the first step from the first step.
    if (this.#version === 0) this.logged = header.revision;
    this.#version = Number(rangeIn(responses, -3).kvs[0].version);
    this.#entered = this.heard = Number(header.revision);
    this.quarantine = rangeIn(responses, -1).kvs?.[0].lease;
    // These are news about what happened while the session had no connection.
    this.applyNews(rangeIn(responses, -2).kvs);
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
    const token = this.tokenOf(Math.max(this.heard, Number(this.logged)));
    return token > seen.token ? { ...seen, token } : seen;
  }

  // Requests

  /** @param {number} number of a step that begins, or comes again */
  beginStep(number) {
    if (number !== this.#step) this.slots.recycle(this.requests);
    this.#step = number;
  }

  /** Notes that all requests of the step are answered. */
  answered() {
    this.#robbed.clear();
    this.#passed.clear();
  }

  /** Adds a request whose step is about to be sent. @param {RequestOp} op */
  addRequest(op) {
    if (this.requests.has(op.ref) || this.#robbed.has(op.ref) || this.#passed.has(op.ref)) return;
    const { name, ref } = op;
    const entry = newEntry(op, this.lease, this.slots.slotOf(ref), this.info.clientId);
    this.requests.set(ref, { name, entry, isAnswered: false });
  }

  /** Removes a request that certainly does not exist in etcd. @param {number} ref */
  forget(ref) {
    this.requests.delete(ref);
    this.slots.free(ref);
  }

  /** The revision of a grant that this session has heard of; 0 for none. @param {number} ref */
  grantOf(ref) {
    const { created = 0, isHeld } = this.requests.get(ref)?.entry ?? {};
    return this.#robbed.get(ref) ?? (isHeld ? created : 0);
  }

  /**
   * The answer to a request that a step granted.
   * @param {RequestOp} op @param {Entry | undefined} made @param {number} revision
   * @param {Picture} [picture] of the queue behind it
   */
  noteGranted({ ref }, made, revision, picture) {
    const own = this.requests.get(ref);
    if (own && made && !own.entry.isHeld) {
      own.entry = { ...made, created: revision, isHeld: true };
      own.picture = picture && { ...picture, holders: [own.entry], holdersAt: revision };
    }
    if (own) own.isAnswered = true;
    return granted(this.tokenOf(revision));
  }

  /**
   * The answer to a request that waited after its step. It may have been granted since.
   * @param {RequestOp} op @param {Entry | undefined} made @param {number} revision
   */
  noteQueued({ ref }, made, revision) {
    const own = this.requests.get(ref);
    if (this.#passed.has(ref)) return PASSED;
    const token = this.grantOf(ref);
    if (own) own.isAnswered = true;
    if (token > 0) return granted(this.tokenOf(token));
    if (!own || !made) return QUEUED;
    own.entry = { ...made, created: made.created || revision };
    return made.isHeld ? granted(this.tokenOf(made.created)) : QUEUED;
  }

  /** @param {PublishOp} op that was done */
  notePublished({ ref, data }) {
    const entry = this.requests.get(ref)?.entry;
    if (entry) entry.value = { ...entry.value, data: data === '' ? undefined : data };
  }

  /** @param {number} ref of a lock that was stolen, or of a request that has passed @param {string} thief */
  noteTheft(ref, thief) {
    this.forget(ref);
    this.thefts.set(ref, thief);
    this.#events().stolen(ref, thief);
  }

  /**
   * Takes news, of which some may have come before. All news of a revision come together.
   * @param {import('./picture.js').KeyValue[]} kvs keys of the session's news
   */
  applyNews(kvs) {
    const sync = this.keys.sync(this.lease);
    const news = kvs.filter(({ mod_revision: revision }) => Number(revision) > this.#told);
    news.sort((a, b) => Number(a.mod_revision) - Number(b.mod_revision));
    for (const one of news) {
      if (textOf(one.key) !== sync) this.#applyOne(one);
      this.#told = Number(one.mod_revision);
    }
  }

  /** @param {import('./picture.js').KeyValue} kv */
  #applyOne({ mod_revision: revision, value }) {
    /** @type {News} */
    const news = valueOf(value);
    const { created = 0, ref, thief } = news;
    const own = this.requests.get(ref);
    // The session may have ended its lock just before it hears that the lock was stolen.
    if (!own && thief) this.noteTheft(ref, thief);
    if (!own) return;
    if (thief === undefined) this.#applyGrant(own, news, Number(revision));
    else if (own.isAnswered) this.noteTheft(ref, thief);
    else if (thief === '') this.#passed.add(ref);
    else {
      this.#robbed.set(ref, created);
      this.noteTheft(ref, thief);
    }
  }

  /** @param {OwnRequest} own @param {News} news @param {number} revision */
  #applyGrant(own, { at = 0, count = 0, granted: time, isAll = false, next, ref }, revision) {
    const { entry } = own;
    if (entry.isHeld) return;
    entry.isHeld = true;
    entry.created = revision;
    entry.value = { ...entry.value, granted: time };
    if (next) {
      own.picture = {
        ...NOTHING,
        ...{ holders: [entry], holdersAt: revision, queueAt: at, count, isComplete: isAll },
        waiters: next.map(([level, tail, created, value]) => {
          return { level, tail, created, value, isHeld: false };
        }),
      };
    }
    if (own.isAnswered) this.#events().granted(ref, this.tokenOf(revision));
  }

  /**
   * A guess of a name's picture: it is as it was when the session was granted its lock, or the name
   * is free. Undefined if there is no good guess.
   * @param {Op[]} ops of the name
   * @returns {Picture | undefined}
   */
  guess(ops) {
    if (ops.some(({ kind }) => kind === 'steal')) return undefined;
    const owns = ops.map(({ ref }) => this.requests.get(ref)).filter((own) => own?.isAnswered);
    if (owns.length === 0) return NOTHING;
    const [own] = owns;
    if (owns.length > 1 || !own?.entry.isHeld) return undefined;
    // The picture has no limit, and not all shared locks.
    const hasOthers = ops.some(
      (op) => isRequest(op) && (op.mode === 'shared' || isShared(own.entry)),
    );
    const { picture } = own;
    // Whoever is the next one would have to be looked for afterwards.
    const knowsNext = picture?.isComplete || (picture?.waiters.length ?? 0) > 0;
    return hasOthers || !knowsNext ? undefined : picture;
  }

  // Transactions

  /** The condition that this is the session's latest connection. */
  get #isOurs() {
    return isVersion(this.#key, this.#version);
  }

  /**
   * Makes changes. Throws if the session is dead or this is not its latest connection. If a
   * condition does not hold, nothing was changed, there are no `responses`, and the result has what
   * is found in `ranges`, and the session's last record with its revision. Undefined if etcd would
   * refuse so large a transaction, and it is cuttable.
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
   * Reads ranges, however many. If that takes several calls, the header is that of the first one.
   * @param {object[]} ranges @param {Link['read']} call
   */
  async #readParts(ranges, call) {
    const parts = await Promise.all(partsOf(ranges, MOST_READS).map(call));
    return { header: parts[0]?.header, found: parts.flatMap(({ found }) => found) };
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

  /** The requests whose steps were answered. */
  get answeredRequests() {
    return [...this.requests.values()].filter(({ isAnswered }) => isAnswered);
  }

  /** The tokens of all requests; 0n for those that wait. @returns {Map<number, bigint>} */
  get mine() {
    return new Map(
      this.answeredRequests.map(({ entry: { created, isHeld, value } }) => [
        value.ref,
        isHeld ? this.tokenOf(created) : 0n,
      ]),
    );
  }

  /** The key of a request, as far as the session knows. @param {OwnRequest} own */
  keyOf({ entry: { isHeld, level, tail }, name }) {
    return (isHeld ? this.keys.holders(name) : this.keys.queue(name, level)) + tail;
  }

  /** The requests whose keys do not exist. @param {OwnRequest[]} all @param {Link} link */
  async findAbsent(all, link) {
    const still = all.filter((one) => this.requests.get(one.entry.value.ref) === one);
    if (still.length === 0) return [];
    const ranges = still.map((one) => ({ ...only(this.keyOf(one)), keys_only: true }));
    const { found } = await this.read(ranges, link);
    return still.filter(
      ({ entry }, i) => Number(found[i].kvs?.[0].create_revision) !== entry.created,
    );
  }

  // Waiters

  /** The names for which the session waits, and whether by a shared request. @returns {Map<string, boolean>} */
  get waiting() {
    const names = new Map();
    for (const { entry, isAnswered, name } of this.requests.values()) {
      if (!isAnswered || entry.isHeld) continue;
      names.set(name, names.get(name) || isShared(entry));
    }
    return names;
  }

  /**
   * Called when a request of the session waits.
   * @param {string} name @param {number} count how many requests wait
   */
  follow(name, count) {
    this.watches.follow(name, count);
  }

  /** Grants what the quarantine has kept from being granted. */
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
    const names = [...new Set([...this.requests.values()].map(({ name }) => name))];
    const ranges = names.map((name) => ({ ...allWith(this.keys.queue(name)), count_only: true }));
    const { found } = await this.read(ranges, link);
    const waiting = names.filter((_, i) => Number(found[i].count ?? 0) > 0);
    await Promise.all(waiting.map((name) => this.grantWaiters(name, link)));
  }
}

/** What a read of a transaction has found. @param {any[]} responses @param {number} i */
const rangeIn = (responses, i) => responses.at(i).response_range;

module.exports = { EtcdSession };
