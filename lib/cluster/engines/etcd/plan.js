'use strict';

/**
 * The plan of a name applies operations to its picture, in memory, as the specification says. Then
 * transaction.js makes a transaction of it, whose conditions fail if the picture is not true any
 * more and the plan depends on that.
 */

const { NOT_HELD, PASSED, PUBLISHED, QUEUE_FULL, UNAVAILABLE } = require('../../adapter.js');
const { isPassing, otherLimit, waits } = require('../../adapter.js');
const { isShared } = require('./picture.js');

/** @import { Answer, RequestOp } from '../../adapter.js' */
/** @import { Picture, QueuedRequest } from './picture.js' */

/** How many of the next waiters a grant tells its session. */
const MOST_NEXT = 8;
/** The most waiters that a plan grants. Each of them has a condition, and etcd limits these. */
const MOST_GRANTED = 90;

/**
 * Whether a request can be held beside locks.
 * @param {QueuedRequest[]} holders @param {QueuedRequest} entry
 */
function fitsBeside(holders, entry) {
  if (holders.length === 0) return true;
  if (isPassing(entry.value) || !isShared(entry) || !holders.every(isShared)) return false;
  const { limit = 0, weight = 0 } = entry.value;
  return (
    limit === 0 || holders.reduce((sum, { value }) => sum + (value.weight ?? 0), weight) <= limit
  );
}

/** @type {(own: QueuedRequest) => (one: QueuedRequest) => boolean} */
const isSameRequest = (own) => (one) => one.tail === own.tail && one.value.ref === own.value.ref;

class NamePlan {
  // Others only read the public fields.

  /** The requests that the plan makes and does not end, in their order. @type {QueuedRequest[]} */
  added = [];
  /** The waiters of the picture that are granted their locks. @type {QueuedRequest[]} */
  granted = [];
  /** The requests that pass. @type {QueuedRequest[]} */
  passed = [];
  /** The session's requests in etcd that end. @type {QueuedRequest[]} */
  ended = [];
  /** The locks that a theft ends. @type {QueuedRequest[]} */
  stolen = [];
  /** The client id of the thief; '' without a theft. */
  thief = '';
  /** The locks whose ends mark the name, so they must still be held. @type {QueuedRequest[]} */
  marking = [];
  /** The locks whose data changes. @type {Set<QueuedRequest>} */
  published = new Set();
  /** Whether a request of this plan is granted. */
  isGranting = false;
  /** Whether an answer depends on the number of waiters. */
  isCounted = false;
  /** The plan's requests behind the part of the queue that was read. @type {QueuedRequest[]} */
  #behind = [];
  /** How many shared requests there are. */
  #shares;

  /**
   * @param {Readonly<Picture>} picture
   * @param {boolean} isQuarantined if true, nothing is granted
   */
  constructor(picture, isQuarantined) {
    this.picture = picture;
    this.isQuarantined = isQuarantined;
    // The plan changes its entries.
    this.holders = picture.holders.map((one) => ({ ...one }));
    this.waiters = picture.waiters.map((one) => ({ ...one }));
    /** How many requests wait. */
    this.count = picture.count;
    /** The limit of the name's shared requests; undefined if there are none. */
    this.limit = picture.limit;
    this.#shares = picture.shares;
  }

  /** Whether more requests can be granted, or may be behind those that were read. */
  get isCut() {
    const [first] = this.waiters;
    if (first) return !this.isQuarantined && fitsBeside(this.holders, first);
    const isChanged = this.granted.length + this.passed.length + this.ended.length > 0;
    return !this.picture.isComplete && isChanged && this.holders.every(isShared);
  }

  /**
   * The answer to a request that is refused; otherwise undefined. § 4.1 "request a lock":
   * https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
   * @param {RequestOp} op @param {QueuedRequest} entry @returns {Readonly<Answer> | undefined}
   */
  refusalOf({ kind, limit, maxPending, mode }, entry) {
    if (kind === 'steal') return undefined;
    if (mode === 'shared' && (this.limit ?? limit) !== limit) return otherLimit(Number(this.limit));
    if (this.#fits(entry)) return undefined;
    if (!waits({ kind })) return UNAVAILABLE;
    if (maxPending < 0) return undefined;
    this.isCounted = true;
    return this.count >= maxPending ? QUEUE_FULL : undefined;
  }

  /**
   * Makes a request that is not refused; returns PASSED if it passes at once. Otherwise the entry
   * is held or waits then.
   * @param {RequestOp} op @param {QueuedRequest} entry @param {string} clientId of the session, for
   *   the sessions that it steals from
   */
  request(op, entry, clientId) {
    if (isPassing(op) && this.#fits(entry)) {
      this.passed.push(entry);
      return PASSED;
    }
    this.added.push(entry);
    if (isShared(entry)) {
      this.limit ??= op.limit;
      this.#shares++;
    }
    if (op.kind === 'steal' && !this.isQuarantined) this.#steal(entry, clientId);
    else this.#enqueue(entry);
    this.#process();
    return undefined;
  }

  /** @param {QueuedRequest} entry */
  #fits(entry) {
    const isFirst = this.#placeOf(entry) === 0 && (this.waiters.length > 0 || this.#isWhole);
    return isFirst && !this.isQuarantined && fitsBeside(this.holders, entry);
  }

  /** Whether `waiters` are all that wait. */
  get #isWhole() {
    return this.picture.isComplete && this.#behind.length === 0;
  }

  /** The place of a new request in the queue. @param {QueuedRequest} entry */
  #placeOf({ level, value }) {
    const isAhead = (/** @type {QueuedRequest} */ one) =>
      value.thief === undefined ? one.level <= level : one.level < level;
    let place = this.waiters.length;
    while (place > 0 && !isAhead(this.waiters[place - 1])) place--;
    return place;
  }

  /** @param {QueuedRequest} entry */
  #enqueue(entry) {
    const place = this.#placeOf(entry);
    const isBehind = place === this.waiters.length && !this.picture.isComplete;
    if (isBehind) this.#behind.push(entry);
    else this.waiters.splice(place, 0, entry);
    this.count++;
  }

  /**
   * Takes all locks of the picture. Nothing of this plan comes before a theft (step.js).
   * @param {QueuedRequest} thief @param {string} clientId
   */
  #steal(thief, clientId) {
    this.thief = clientId;
    for (const holder of this.holders) {
      this.#forgetShare(holder);
      this.stolen.push(holder);
    }
    thief.isHeld = this.isGranting = true;
    this.holders = [thief];
  }

  /** @param {QueuedRequest} entry */
  #forgetShare(entry) {
    if (isShared(entry) && --this.#shares === 0) this.limit = undefined;
  }

  /**
   * § 4.2 "release the lock" and § 4.3 "abort the request":
   * https://www.w3.org/TR/2023/WD-web-locks-20230105/#release-the-lock
   * @param {QueuedRequest} own a request of the session, as far as the session knows
   * @param {boolean} marks whether its end marks the name, if it is a lock
   */
  end(own, marks) {
    const isOwn = isSameRequest(own);
    const index = this.holders.findIndex(isOwn);
    if (index >= 0) {
      const [lock] = this.holders.splice(index, 1);
      if (marks) this.marking.push(lock);
      this.#remove(lock);
    } else {
      const list = this.waiters.some(isOwn) ? this.waiters : this.#behind;
      const waiting = list.findIndex(isOwn);
      // A request may wait behind those that were read.
      const isFar = waiting < 0 && !this.picture.isComplete && !own.isHeld && own.created > 0;
      if (waiting < 0 && !isFar) return;
      this.count--;
      this.#remove(isFar ? own : list.splice(waiting, 1)[0]);
    }
    this.#process();
  }

  /** @param {QueuedRequest} entry that is in no list any more */
  #remove(entry) {
    this.#forgetShare(entry);
    this.granted = this.granted.filter((one) => one !== entry);
    const added = this.added.indexOf(entry);
    if (added >= 0) this.added.splice(added, 1);
    else this.ended.push(entry);
  }

  /** A request of the session in the picture, or of this plan. @param {QueuedRequest} own */
  find(own) {
    const isOwn = isSameRequest(own);
    return this.holders.find(isOwn) ?? this.waiters.find(isOwn);
  }

  /** @param {QueuedRequest | undefined} own the lock @param {string} data JSON; '' for none */
  publish(own, data) {
    const lock = own && this.find(own);
    if (!lock?.isHeld) return NOT_HELD;
    lock.value = { ...lock.value, data: data === '' ? undefined : data };
    this.published.add(lock);
    return PUBLISHED;
  }

  /**
   * § 4.4 "process the lock request queue":
   * https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue
   */
  #process() {
    while (!this.isQuarantined && this.waiters.length > 0) {
      const [first] = this.waiters;
      if (!fitsBeside(this.holders, first)) return;
      if (first.created > 0 && this.granted.length + this.passed.length >= MOST_GRANTED) return;
      this.waiters.shift();
      this.count--;
      if (isPassing(first.value)) {
        this.passed.push(first);
        continue;
      }
      first.isHeld = true;
      this.holders.push(first);
      if (first.created > 0) this.granted.push(first);
      else this.isGranting = true;
    }
  }

  /** Grants what can be granted; returns whether that is anything. */
  process() {
    this.#process();
    return this.granted.length + this.passed.length > 0;
  }

  /** Whether an entry waited in the picture. @param {QueuedRequest} entry */
  hasWaited({ tail, created }) {
    return !this.picture.holders.some((one) => one.tail === tail && one.created === created);
  }

  /**
   * The first waiters that are in etcd already, up to MOST_NEXT, and whether nobody else waits. A
   * new holder learns them, so that its release need not read the queue.
   */
  get next() {
    const added = this.waiters.findIndex(({ created }) => created === 0);
    const next = (added < 0 ? this.waiters : this.waiters.slice(0, added)).slice(0, MOST_NEXT);
    return { waiters: next, isAll: this.#isWhole && next.length === this.waiters.length };
  }

  /**
   * The picture of the queue behind a lock of the session that this plan grants, at the revision of
   * its transaction; undefined if it is not known.
   * @param {QueuedRequest} own
   * @returns {Picture | undefined}
   */
  pictureBehind(own) {
    const { waiters, isAll } = this.next;
    if (isShared(own) && !(isAll && waiters.length === 0)) return undefined;
    return { ...this.picture, waiters, count: this.count, isComplete: isAll, limit: undefined };
  }
}

module.exports = { NamePlan, fitsBeside };
