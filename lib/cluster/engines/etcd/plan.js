'use strict';

/**
 * The plan of a name: what operations do with its picture, in memory, and the conditions and changes
 * of the transaction that makes it so. The conditions hold only if the picture is still true as far
 * as the plan depends on it:
 *
 * - Each lock is granted by the transaction that ends what was in its way. So a transaction that
 *   grants or ends something requires that nobody has come whom it should have considered: no lock
 *   was granted since, and no request came that is ahead of what was granted, or of the first one
 *   that still waits.
 * - That request, and locks that are enough to block it, must still be there. Otherwise its turn
 *   might have come, and nobody would notice.
 * - A request that only enters the queue requires that the request before it still waits.
 */

const { NOT_HELD, PASSED, PUBLISHED, QUEUE_FULL, UNAVAILABLE } = require('../../adapter.js');
const { otherLimit } = require('../../adapter.js');
const { after, base64Json, leaseNumber } = require('./keys.js');
const {
  allWith,
  isEmpty,
  isOlder,
  isSame,
  nested,
  only,
  put,
  range,
  remove,
} = require('./operations.js');
const { NOTHING, isShared, leaseOf } = require('./picture.js');

/** @import { Answer, RequestOp } from '../../adapter.js' */
/** @import { Entry, Picture } from './picture.js' */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */

/** How many waiters the news of a grant tells about. */
const HINTS = 8;
/** The most waiters that a plan grants. Each of them has a condition, and etcd limits these. */
const MOST_GRANTED = 90;

const { now: dateNow } = Date;

/** Whether a request ends when it would be granted. @param {{ kind?: string }} request */
const isPassing = ({ kind }) => kind === 'pass' || kind === 'passIfAvailable';

/**
 * Whether a request can be held beside locks.
 * @param {Entry[]} holders @param {Entry} entry
 */
function fitsBeside(holders, entry) {
  if (holders.length === 0) return true;
  if (isPassing(entry.value) || !isShared(entry) || !holders.every(isShared)) return false;
  const { limit = 0, weight = 0 } = entry.value;
  return (
    limit === 0 || holders.reduce((sum, { value }) => sum + (value.weight ?? 0), weight) <= limit
  );
}

/** @type {(own: Entry) => (one: Entry) => boolean} */
const isSameRequest = (own) => (one) => one.tail === own.tail && one.value.ref === own.value.ref;

class NamePlan {
  /** Requests of this plan, in the order of their steps. @type {Entry[]} */
  #added = [];
  /** Requests of this plan behind the part of the queue that was read. @type {Entry[]} */
  #behind = [];
  /** Waiters that are granted. @type {Entry[]} */
  #granted = [];
  /** Waiters that pass. @type {Entry[]} */
  #passed = [];
  /** The session's requests that end. @type {Entry[]} */
  #ended = [];
  /** Locks that a theft ends. @type {Entry[]} */
  #stolen = [];
  /** Locks that must be held because their ends mark the name. @type {Entry[]} */
  #marking = [];
  /** Locks whose data changes. @type {Set<Entry>} */
  #published = new Set();
  #thief = '';
  /** Whether a request of this plan is granted. */
  #isGranting = false;
  #isCounted = false;
  #keys;
  #name;
  #picture;
  #isQuarantined;
  #holders;
  #waiters;
  #count;
  #shares;
  #limit;

  /**
   * @param {BucketKeys} keys @param {string} name @param {Readonly<Picture>} picture
   * @param {boolean} isQuarantined if true, nothing is granted
   */
  constructor(keys, name, picture, isQuarantined) {
    this.#keys = keys;
    this.#name = name;
    this.#picture = picture;
    this.#isQuarantined = isQuarantined;
    // The plan changes its entries.
    this.#holders = picture.holders.map((one) => ({ ...one }));
    this.#waiters = picture.waiters.map((one) => ({ ...one }));
    this.#count = picture.count;
    this.#shares = picture.shares;
    this.#limit = picture.limit;
  }

  /** How many requests wait. */
  get count() {
    return this.#count;
  }

  /** Whether more requests can be granted, or may be behind those that were read. */
  get isCut() {
    const [first] = this.#waiters;
    if (first) return !this.#isQuarantined && fitsBeside(this.#holders, first);
    const isOver = this.#waiters.length === 0 && !this.#picture.isComplete;
    const isChanged = this.#granted.length + this.#passed.length + this.#ended.length > 0;
    return isOver && isChanged && this.#holders.every(isShared);
  }

  /**
   * The answer to a request that is refused; otherwise undefined. § 4.1 "request a lock":
   * https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
   * @param {RequestOp} op @param {Entry} entry @returns {Readonly<Answer> | undefined}
   */
  refusalOf({ kind, limit, maxPending, mode }, entry) {
    if (kind === 'steal') return undefined;
    if (mode === 'shared' && (this.#limit ?? limit) !== limit)
      return otherLimit(Number(this.#limit));
    if (this.#fits(entry)) return undefined;
    if (kind === 'ifAvailable' || kind === 'passIfAvailable') return UNAVAILABLE;
    if (maxPending < 0) return undefined;
    this.#isCounted = true;
    return this.#count >= maxPending ? QUEUE_FULL : undefined;
  }

  /**
   * Makes a request that is not refused; returns PASSED if it passes at once. Otherwise the entry
   * is held or waits then.
   * @param {RequestOp} op @param {Entry} entry @param {string} clientId for those who are robbed
   */
  request(op, entry, clientId) {
    if (isPassing(op) && this.#fits(entry)) {
      this.#passed.push(entry);
      return PASSED;
    }
    this.#added.push(entry);
    if (isShared(entry)) {
      this.#limit ??= op.limit;
      this.#shares++;
    }
    if (op.kind === 'steal' && !this.#isQuarantined) this.#steal(entry, clientId);
    else this.#enqueue(entry);
    this.#process();
    return undefined;
  }

  /** @param {Entry} entry */
  #fits(entry) {
    const isFirst = this.#placeOf(entry) === 0 && (this.#waiters.length > 0 || this.#isKnown);
    return isFirst && !this.#isQuarantined && fitsBeside(this.#holders, entry);
  }

  /** Whether `#waiters` are all that wait. */
  get #isKnown() {
    return this.#picture.isComplete && this.#behind.length === 0;
  }

  /** The place of a new request in the queue. @param {Entry} entry */
  #placeOf({ level, value }) {
    const isAhead = (/** @type {Entry} */ one) =>
      value.thief === undefined ? one.level <= level : one.level < level;
    let place = this.#waiters.length;
    while (place > 0 && !isAhead(this.#waiters[place - 1])) place--;
    return place;
  }

  /** @param {Entry} entry */
  #enqueue(entry) {
    const place = this.#placeOf(entry);
    const isBehind = place === this.#waiters.length && !this.#picture.isComplete;
    if (isBehind) this.#behind.push(entry);
    else this.#waiters.splice(place, 0, entry);
    this.#count++;
  }

  /** @param {Entry} thief @param {string} clientId */
  #steal(thief, clientId) {
    this.#thief = clientId;
    for (const holder of this.#holders) {
      this.#forgetShare(holder);
      this.#stolen.push(holder);
    }
    this.#granted = [];
    thief.isHeld = this.#isGranting = true;
    this.#holders = [thief];
  }

  /** @param {Entry} entry */
  #forgetShare(entry) {
    if (isShared(entry) && --this.#shares === 0) this.#limit = undefined;
  }

  /**
   * § 4.2 "release the lock" and § 4.3 "abort the request":
   * https://www.w3.org/TR/2023/WD-web-locks-20230105/#release-the-lock
   * @param {Entry} own a request of the session, as far as the session knows
   * @param {boolean} marks whether its end marks the name, if it is a lock
   */
  end(own, marks) {
    const isOwn = isSameRequest(own);
    const held = this.#holders.findIndex(isOwn);
    if (held >= 0) {
      const [lock] = this.#holders.splice(held, 1);
      if (marks) this.#marking.push(lock);
      this.#remove(lock);
    } else {
      const list = this.#waiters.some(isOwn) ? this.#waiters : this.#behind;
      const waiting = list.findIndex(isOwn);
      // A request may wait behind those that were read.
      const isFar = waiting < 0 && !this.#picture.isComplete && !own.isHeld && own.created > 0;
      if (waiting < 0 && !isFar) return;
      this.#count--;
      this.#remove(isFar ? own : list.splice(waiting, 1)[0]);
    }
    this.#process();
  }

  /** @param {Entry} entry that is in no list any more */
  #remove(entry) {
    this.#forgetShare(entry);
    this.#granted = this.#granted.filter((one) => one !== entry);
    const added = this.#added.indexOf(entry);
    if (added >= 0) this.#added.splice(added, 1);
    else this.#ended.push(entry);
  }

  /** A request of the session in the picture, or of this plan. @param {Entry} own */
  find(own) {
    const isOwn = isSameRequest(own);
    return this.#holders.find(isOwn) ?? this.#waiters.find(isOwn);
  }

  /** Publishes with a lock. @param {Entry | undefined} own @param {string} data JSON, or '' */
  publish(own, data) {
    const held = own && this.find(own);
    if (!held?.isHeld) return NOT_HELD;
    held.value = { ...held.value, data: data === '' ? undefined : data };
    this.#published.add(held);
    return PUBLISHED;
  }

  /**
   * § 4.4 "process the lock request queue":
   * https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue
   */
  #process() {
    while (!this.#isQuarantined && this.#waiters.length > 0) {
      const [first] = this.#waiters;
      if (!fitsBeside(this.#holders, first)) return;
      if (first.created > 0 && this.#granted.length + this.#passed.length >= MOST_GRANTED) return;
      this.#waiters.shift();
      this.#count--;
      if (isPassing(first.value)) {
        this.#passed.push(first);
        continue;
      }
      first.isHeld = true;
      this.#holders.push(first);
      if (first.created > 0) this.#granted.push(first);
      else this.#isGranting = true;
    }
  }

  /** Grants what can be granted; returns whether that is anything. */
  process() {
    this.#process();
    return this.#granted.length + this.#passed.length > 0;
  }

  /** The session's requests that this plan robs of their locks before they are made. */
  get robbed() {
    return this.#stolen.filter(({ created }) => created === 0);
  }

  /** Whether a request that had to wait passes after all. @param {Entry} entry */
  hasPassed(entry) {
    return this.#passed.includes(entry);
  }

  // The transaction

  /** @param {Entry} entry */
  #lockKey({ tail }) {
    return this.#keys.holders(this.#name) + tail;
  }

  /** @param {Entry} entry */
  #queueKey({ level, tail }) {
    return this.#keys.queue(this.#name, level) + tail;
  }

  /** The key that a request had in the picture. @param {Entry} entry */
  #keyBefore(entry) {
    return this.#waitedBefore(entry) ? this.#queueKey(entry) : this.#lockKey(entry);
  }

  /** @param {Entry} entry */
  #isSame(entry) {
    return isSame({ key: this.#keyBefore(entry), created: entry.created });
  }

  /** Whether an entry waited in the picture. @param {Entry} entry */
  #waitedBefore({ tail, created }) {
    return !this.#picture.holders.some((one) => one.tail === tail && one.created === created);
  }

  /** The conditions on which the plan is right. @returns {object[]} */
  get conditions() {
    const { holdersAt, queueAt } = this.#picture;
    if (this.#picture === NOTHING) {
      const isChanging = this.#added.length + this.#passed.length > 0 || this.#isGranting;
      return isChanging ? [isEmpty(allWith(this.#keys.name(this.#name)))] : [];
    }
    const queue = allWith(this.#keys.queue(this.#name));
    const changed = [...this.#granted, ...this.#passed, ...this.#ended];
    const ofOwnLocks = [...this.#published].filter((entry) => this.#holders.includes(entry));
    const ofWaiters = changed.filter((entry) => this.#waitedBefore(entry));
    const conditions = [...this.#marking, ...ofOwnLocks, ...ofWaiters]
      .filter(({ created }) => created > 0)
      .map((entry) => this.#isSame(entry));
    conditions.push(...this.#limitConditions);
    if (this.#isCounted && this.#added.length > 0) conditions.push(isOlder(queue, queueAt));
    const isGranting = this.#isGranting;
    if (changed.length === 0 && !isGranting) return [...conditions, ...this.#entryConditions];
    if (changed.length > this.#ended.length || isGranting || this.#waiters.length > 0)
      conditions.push(isOlder(allWith(this.#keys.holders(this.#name)), holdersAt));
    const bound = this.#bound;
    if (bound) conditions.push(isOlder(range(this.#keys.queue(this.#name), bound), queueAt));
    return [...conditions, ...this.#obstacleConditions];
  }

  /**
   * The end of the part of the queue in which nobody may have come; undefined if it does not matter
   * who has come.
   */
  get #bound() {
    const last = this.#holders[this.#holders.length - 1];
    const isNew = last && (last.created === 0 || this.#granted.includes(last));
    // Behind a new exclusive lock nothing can be granted.
    if (isNew && !isShared(last)) return this.#boundOf(last);
    const [first] = this.#waiters;
    if (first) return this.#boundOf(first);
    const { isComplete } = this.#picture;
    if (isComplete) return after(this.#keys.queue(this.#name));
    const done = [...this.#granted, ...this.#passed];
    return done.length > 0 ? this.#boundOf(done[done.length - 1]) : undefined;
  }

  /** The end of those that would be ahead of an entry if they came. @param {Entry} entry */
  #boundOf({ created, level, value }) {
    const own = this.#keys.queue(this.#name, level);
    // A thief gets ahead of all others, and so do those that wait of its kind already.
    if (value.thief !== undefined && created === 0) return undefined;
    return created === 0 ? after(own) : own;
  }

  /** The conditions that the first waiter is still there and blocked. */
  get #obstacleConditions() {
    const [first] = this.#waiters;
    if (!first || this.#isQuarantined || this.isCut) return [];
    const last = this.#holders[this.#holders.length - 1];
    if (last && last.created === 0 && !isShared(last)) return [];
    if (last && this.#granted.includes(last) && !isShared(last)) return [];
    const isNew = (/** @type {Entry} */ one) => one.created === 0 || this.#granted.includes(one);
    const holders = [...this.#holders.filter(isNew), ...this.#holders.filter((one) => !isNew(one))];
    let count = 0;
    while (count < holders.length && fitsBeside(holders.slice(0, count), first)) count++;
    const blocking = holders.slice(0, count).filter((one) => !isNew(one));
    return [...(first.created > 0 ? [first] : []), ...blocking].map((one) => this.#isSame(one));
  }

  /** The conditions on which requests only enter the queue. */
  get #entryConditions() {
    if (this.#isQuarantined || this.#added.length === 0) return [];
    const [first] = this.#waiters;
    if (first?.created === 0) return this.#obstacleConditions;
    // Of those that wait already, the last one is the least likely to leave soon.
    const known = this.#waiters.findLast(({ created }) => created > 0);
    return known ? [this.#isSame(known)] : [];
  }

  /** The conditions that no shared request with another limit has come. */
  get #limitConditions() {
    const limit = this.#limit;
    if (limit === undefined || !this.#added.some(isShared)) return [];
    const all = this.#keys.limits(this.#name);
    const own = this.#keys.limit(this.#name, limit);
    const greater = range(after(own), after(all));
    const others = limit === 0 ? [greater] : [range(all, own), greater];
    return others.map((one) => isOlder(one, this.#picture.queueAt));
  }

  /** The news for the session of a request. @param {Entry} entry @param {object} news */
  #tell(entry, news) {
    const { tail, value } = entry;
    const lease = leaseOf(entry);
    const key = this.#keys.news(lease) + tail.slice(lease.length + 1);
    return put(key, base64Json({ ref: value.ref, ...news }), leaseNumber(lease));
  }

  /** The operation that removes the limit of a shared request. @param {Entry} entry */
  #limitRemovals(entry) {
    if (!isShared(entry)) return [];
    return [remove(only(this.#keys.limit(this.#name, entry.value.limit ?? 0) + entry.tail))];
  }

  /** The operations that make it so. @returns {object[]} */
  get changes() {
    const changes = [];
    for (const entry of this.#ended) {
      changes.push(remove(only(this.#keyBefore(entry))), ...this.#limitRemovals(entry));
    }
    for (const entry of this.#stolen) changes.push(this.#theftOf(entry));
    for (const entry of this.#passed) {
      if (entry.created === 0) continue;
      changes.push(remove(only(this.#queueKey(entry))), this.#tell(entry, { thief: '' }));
    }
    for (const entry of this.#granted) changes.push(...this.#grantOf(entry));
    for (const entry of this.#added) {
      if (this.#stolen.includes(entry) || this.#passed.includes(entry)) continue;
      const id = leaseNumber(leaseOf(entry));
      if (isShared(entry))
        changes.push(
          put(this.#keys.limit(this.#name, entry.value.limit ?? 0) + entry.tail, '', id),
        );
      changes.push(this.#put(entry));
    }
    for (const entry of this.#published) {
      const isWritten = this.#granted.includes(entry) || this.#added.includes(entry);
      if (!isWritten && this.#holders.includes(entry)) changes.push(this.#put(entry));
    }
    return changes;
  }

  /** The operation that writes a request's key. @param {Entry} entry */
  #put(entry) {
    const { isHeld, value } = entry;
    const key = isHeld ? this.#lockKey(entry) : this.#queueKey(entry);
    if (isHeld) value.granted ??= dateNow();
    return put(key, base64Json(value), leaseNumber(leaseOf(entry)));
  }

  /** The operations that grant a lock to a waiter. @param {Entry} entry */
  #grantOf(entry) {
    const news = { granted: dateNow(), ...(isShared(entry) ? {} : this.#hints) };
    entry.value.granted = news.granted;
    return [remove(only(this.#queueKey(entry))), this.#put(entry), this.#tell(entry, news)];
  }

  /**
   * The picture of the queue behind a lock of the session that this plan grants, at the revision of
   * its transaction; undefined if it is not known.
   * @param {Entry} own
   * @returns {Picture | undefined}
   */
  pictureBehind(own) {
    const { at, count, isAll, next } = this.#hints;
    if (isShared(own) && !(isAll && next.length === 0)) return undefined;
    const waiters = this.#waiters.slice(0, next.length);
    return { ...this.#picture, waiters, count, isComplete: isAll, limit: undefined, queueAt: at };
  }

  /** What a new holder is told about the queue, so that its release need not read it. */
  get #hints() {
    const isOld = (/** @type {Entry} */ { created }) => created > 0;
    const old = this.#waiters.findIndex((one) => !isOld(one));
    const known = (old < 0 ? this.#waiters : this.#waiters.slice(0, old)).slice(0, HINTS);
    const isAll = this.#isKnown && known.length === this.#waiters.length;
    return {
      next: known.map(({ created, level, tail, value }) => [level, tail, created, value]),
      ...{ isAll, count: this.#count, at: this.#picture.queueAt },
    };
  }

  /**
   * The operation that takes a lock away. It does nothing if the lock is gone: then the lease of its
   * session may be gone, too, and etcd would refuse to write a key with this lease.
   * @param {Entry} entry
   */
  #theftOf(entry) {
    const news = this.#tell(entry, { thief: this.#thief, created: entry.created });
    if (entry.created === 0) return news;
    const removals = [remove(only(this.#keyBefore(entry))), ...this.#limitRemovals(entry)];
    return nested([this.#isSame(entry)], [...removals, news]);
  }
}

module.exports = { NamePlan, fitsBeside, isPassing };
