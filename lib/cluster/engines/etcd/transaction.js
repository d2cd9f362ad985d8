'use strict';

/**
 * The part of a transaction that executes the plan of a name (plan.js): its changes, and the
 * conditions under which the plan is right.
 *
 * - Each lock is granted by the transaction that ends what was in its way. So a transaction that
 *   grants or ends something requires that no request came which it should have considered: no lock
 *   was granted since, and no request came that is ahead of what was granted, or of the first one
 *   that still waits.
 * - That request, and locks that are enough to block it, must still be there. Otherwise its turn
 *   might have come, and nobody would notice.
 * - A request that only enters the queue requires that the request before it still waits.
 */

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
const { fitsBeside } = require('./plan.js');

/** @import { QueuedRequest } from './picture.js' */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./plan.js').NamePlan>} Plan */

const { now: dateNow } = Date;

class NameTransaction {
  #keys;
  #name;
  #plan;

  /** @param {BucketKeys} keys @param {string} name @param {Plan} plan */
  constructor(keys, name, plan) {
    this.#keys = keys;
    this.#name = name;
    this.#plan = plan;
  }

  /** @returns {object[]} */
  get conditions() {
    const { added, ended, granted, holders, isCounted, isGranting } = this.#plan;
    const { marking, passed, picture, published, waiters } = this.#plan;
    const { holdersAt, queueAt } = picture;
    if (picture === NOTHING) {
      const isChanging = added.length + passed.length > 0 || isGranting;
      return isChanging ? [isEmpty(allWith(this.#keys.name(this.#name)))] : [];
    }
    const queue = this.#keys.queue(this.#name);
    const changed = [...granted, ...passed, ...ended];
    const ofOwnLocks = [...published].filter((entry) => holders.includes(entry));
    const ofWaiters = changed.filter((entry) => this.#plan.hasWaited(entry));
    const conditions = [...marking, ...ofOwnLocks, ...ofWaiters]
      .filter(({ created }) => created > 0)
      .map((entry) => this.#unchanged(entry));
    conditions.push(...this.#limitConditions);
    if (isCounted && added.length > 0) conditions.push(isOlder(allWith(queue), queueAt));
    if (changed.length === 0 && !isGranting) return [...conditions, ...this.#entryConditions];
    if (changed.length > ended.length || isGranting || waiters.length > 0)
      conditions.push(isOlder(allWith(this.#keys.holders(this.#name)), holdersAt));
    const bound = this.#bound;
    if (bound) conditions.push(isOlder(range(queue, bound), queueAt));
    return [...conditions, ...this.#obstacleConditions];
  }

  /** @returns {object[]} */
  get changes() {
    const { added, ended, granted, holders, passed, published, stolen } = this.#plan;
    const changes = [];
    for (const entry of ended)
      changes.push(remove(only(this.#keyBefore(entry))), ...this.#limitRemovals(entry));
    for (const entry of stolen) changes.push(this.#theftOf(entry));
    for (const entry of passed) {
      if (entry.created === 0) continue;
      changes.push(remove(only(this.#queueKey(entry))), this.#newsFor(entry, { thief: '' }));
    }
    for (const entry of granted) changes.push(...this.#grantOf(entry));
    for (const entry of added) {
      if (passed.includes(entry)) continue;
      if (isShared(entry))
        changes.push(put(this.#limitKey(entry), '', leaseNumber(leaseOf(entry))));
      changes.push(this.#put(entry));
    }
    for (const entry of published) {
      const isWritten = granted.includes(entry) || added.includes(entry);
      if (!isWritten && holders.includes(entry)) changes.push(this.#put(entry));
    }
    return changes;
  }

  // Keys

  /** @param {QueuedRequest} entry */
  #lockKey({ tail }) {
    return this.#keys.holders(this.#name) + tail;
  }

  /** @param {QueuedRequest} entry */
  #queueKey({ level, tail }) {
    return this.#keys.queue(this.#name, level) + tail;
  }

  /** The key that shows the limit of a shared request. @param {QueuedRequest} entry */
  #limitKey({ tail, value: { limit = 0 } }) {
    return this.#keys.limit(this.#name, limit) + tail;
  }

  /** The key that a request had in the picture. @param {QueuedRequest} entry */
  #keyBefore(entry) {
    return this.#plan.hasWaited(entry) ? this.#queueKey(entry) : this.#lockKey(entry);
  }

  // Conditions

  /** The condition that a request is where it was in the picture. @param {QueuedRequest} entry */
  #unchanged(entry) {
    return isSame({ key: this.#keyBefore(entry), created: entry.created });
  }

  /** @param {QueuedRequest} entry */
  #isNew(entry) {
    return entry.created === 0 || this.#plan.granted.includes(entry);
  }

  /** The exclusive lock that the plan grants last, if any. Nothing behind it can be granted. */
  get #newExclusiveLock() {
    const last = this.#plan.holders.at(-1);
    return last && this.#isNew(last) && !isShared(last) ? last : undefined;
  }

  /**
   * The end of the part of the queue in which no request may have come; undefined if it does not
   * matter which requests came.
   */
  get #bound() {
    const { granted, passed, picture, waiters } = this.#plan;
    const first = this.#newExclusiveLock ?? waiters[0];
    if (first) return this.#boundOf(first);
    if (picture.isComplete) return after(this.#keys.queue(this.#name));
    const last = [...granted, ...passed].at(-1);
    return last && this.#boundOf(last);
  }

  /** The end of the requests that would come ahead of it. @param {QueuedRequest} entry */
  #boundOf({ created, level, value }) {
    const own = this.#keys.queue(this.#name, level);
    // A new thief gets ahead of all others, even of the thieves that wait already.
    if (value.thief !== undefined && created === 0) return undefined;
    return created === 0 ? after(own) : own;
  }

  /** The conditions that the first waiter is still there and blocked. */
  get #obstacleConditions() {
    const { holders, isCut, isQuarantined, waiters } = this.#plan;
    const [first] = waiters;
    if (!first || isQuarantined || isCut || this.#newExclusiveLock) return [];
    const made = holders.filter((one) => this.#isNew(one));
    const others = holders.filter((one) => !this.#isNew(one));
    const all = [...made, ...others];
    let count = 0;
    while (count < all.length && fitsBeside(all.slice(0, count), first)) count++;
    const blocking = all.slice(made.length, count);
    return [...(first.created > 0 ? [first] : []), ...blocking].map((one) => this.#unchanged(one));
  }

  /** The conditions of requests that only enter the queue. */
  get #entryConditions() {
    const { added, isQuarantined, waiters } = this.#plan;
    if (isQuarantined || added.length === 0) return [];
    if (waiters[0]?.created === 0) return this.#obstacleConditions;
    // The last request in the queue is the least likely to leave it soon.
    const known = waiters.findLast(({ created }) => created > 0);
    return known ? [this.#unchanged(known)] : [];
  }

  /** The conditions that no shared request with another limit has come. */
  get #limitConditions() {
    const { added, limit, picture } = this.#plan;
    if (limit === undefined || !added.some(isShared)) return [];
    const all = this.#keys.limits(this.#name);
    const own = this.#keys.limit(this.#name, limit);
    const greater = range(after(own), after(all));
    const others = limit === 0 ? [greater] : [range(all, own), greater];
    return others.map((one) => isOlder(one, picture.queueAt));
  }

  // Changes

  /** The news for the session of a request. @param {QueuedRequest} entry @param {object} news */
  #newsFor(entry, news) {
    const { tail, value } = entry;
    const lease = leaseOf(entry);
    const key = this.#keys.news(lease) + tail.slice(lease.length + 1);
    return put(key, base64Json({ ref: value.ref, ...news }), leaseNumber(lease));
  }

  /** The operations that remove the limit of a shared request. @param {QueuedRequest} entry */
  #limitRemovals(entry) {
    return isShared(entry) ? [remove(only(this.#limitKey(entry)))] : [];
  }

  /** The operation that writes a request's key. @param {QueuedRequest} entry */
  #put(entry) {
    const { isHeld, value } = entry;
    const key = isHeld ? this.#lockKey(entry) : this.#queueKey(entry);
    if (isHeld) value.granted ??= dateNow();
    return put(key, base64Json(value), leaseNumber(leaseOf(entry)));
  }

  /** The operations that grant a lock to a waiter. @param {QueuedRequest} entry */
  #grantOf(entry) {
    const news = { granted: dateNow(), ...(isShared(entry) ? {} : this.#queueNews) };
    entry.value.granted = news.granted;
    return [remove(only(this.#queueKey(entry))), this.#put(entry), this.#newsFor(entry, news)];
  }

  /** The part of a grant's news that shows the queue. */
  get #queueNews() {
    const { count, next, picture } = this.#plan;
    return {
      next: next.waiters.map(({ created, level, tail, value }) => [level, tail, created, value]),
      ...{ isAll: next.isAll, count, at: picture.queueAt },
    };
  }

  /**
   * The operation that takes a lock away. It does nothing if the lock is gone: then the lease of
   * its session may be gone, too, and etcd would refuse to write a key with this lease.
   * @param {QueuedRequest} entry
   */
  #theftOf(entry) {
    const { created } = entry;
    const news = this.#newsFor(entry, { thief: this.#plan.thief, created });
    if (created === 0) return news;
    const removals = [remove(only(this.#keyBefore(entry))), ...this.#limitRemovals(entry)];
    return nested([this.#unchanged(entry)], [...removals, news]);
  }
}

module.exports = { NameTransaction };
