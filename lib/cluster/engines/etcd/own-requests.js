'use strict';

/**
 * The requests of a session, as far as it knows. A request is added before its step is sent, so
 * news about it may come before the answer to the step. Other sessions write these news, in the
 * transactions that grant a lock, steal it, or let a request pass.
 */

const { PASSED, QUEUED, granted, isRequest } = require('../../adapter.js');
const { textOf, valueOf } = require('./keys.js');
const { NOTHING, isShared, newEntry } = require('./picture.js');
const { Slots } = require('./slots.js');

/** @import { AdapterEvents, Op, PublishOp, RequestOp } from '../../adapter.js' */
/** @import { KeyValue, Picture, QueuedRequest } from './picture.js' */
/** @typedef {InstanceType<typeof import('./etcd-session.js').EtcdSession>} Session */

/**
 * A request of the session. `isAnswered`: whether its step was answered. `picture`: the name as it
 * was when the request was granted.
 * @typedef {{ name: string, entry: QueuedRequest, isAnswered: boolean, picture?: Picture }}
 *   OwnRequest
 */

/**
 * The news about a request. A grant has `granted`, and perhaps the first waiters. The end of a lock
 * has the thief's client id and the revision of the grant, and the end of a request that has passed
 * has '' as `thief`.
 * @typedef {{ ref: number, granted?: number, thief?: string, created?: number,
 *   next?: [level: string, tail: string, created: number, value: any][], isAll?: boolean,
 *   count?: number, at?: number }} News
 */

class OwnRequests {
  /**
   * The thieves of locks, and '' for requests that have passed. The adapter removes those that it
   * has reported.
   * @type {Map<number, string>}
   */
  thefts = new Map();
  #session;
  #events;
  /** @type {Map<number, OwnRequest>} */
  #all = new Map();
  #slots = new Slots();
  /** The number of the step under way, or of the last one. */
  #step = -1;
  /** The revisions of this step's grants that a theft has ended. @type {Map<number, number>} */
  #stolenGrants = new Map();
  /** The requests of this step that have passed already. @type {Set<number>} */
  #passed = new Set();
  /** The revision of the latest news. */
  #newsRevision = 0;

  /** @param {Session} session @param {() => AdapterEvents} events for this session */
  constructor(session, events) {
    this.#session = session;
    this.#events = events;
  }

  /** @param {number} ref */
  get(ref) {
    return this.#all.get(ref);
  }

  /** The names of all requests. */
  get names() {
    return [...new Set([...this.#all.values()].map(({ name }) => name))];
  }

  /** The requests whose steps were answered. */
  get answered() {
    return [...this.#all.values()].filter(({ isAnswered }) => isAnswered);
  }

  /** The tokens of the answered requests; 0n for those that wait. @returns {Map<number, bigint>} */
  get tokens() {
    return new Map(
      this.answered.map(({ entry: { created, isHeld, value } }) => [
        value.ref,
        isHeld ? this.#session.tokenOf(created) : 0n,
      ]),
    );
  }

  /** The names of answered requests that wait, and whether one of these is shared. */
  get waiting() {
    /** @type {Map<string, boolean>} */
    const names = new Map();
    for (const { entry, name } of this.answered)
      if (!entry.isHeld) names.set(name, names.get(name) || isShared(entry));
    return names;
  }

  /** The key of a request, as far as the session knows. @param {OwnRequest} own */
  keyOf({ entry: { isHeld, level, tail }, name }) {
    const { keys } = this.#session;
    return (isHeld ? keys.holders(name) : keys.queue(name, level)) + tail;
  }

  // Steps

  /** @param {number} number of a step that begins, or comes again */
  beginStep(number) {
    if (number !== this.#step) this.#slots.recycle(this.#all);
    this.#step = number;
  }

  /** Notes that all requests of the step are answered. */
  endStep() {
    this.#stolenGrants.clear();
    this.#passed.clear();
  }

  /** Adds a request whose step is about to be sent. @param {RequestOp} op */
  add(op) {
    const { name, ref } = op;
    if (this.#all.has(ref) || this.#stolenGrants.has(ref) || this.#passed.has(ref)) return;
    this.#all.set(ref, { name, entry: this.entryOf(op), isAnswered: false });
  }

  /** A new entry of a request. @param {RequestOp} op */
  entryOf(op) {
    const { info, lease } = this.#session;
    return newEntry(op, lease, this.#slots.slotOf(op.ref), info.clientId);
  }

  /** Removes a request that certainly does not exist in etcd. @param {number} ref */
  forget(ref) {
    this.#all.delete(ref);
    this.#slots.free(ref);
  }

  /** The revision of a grant, even of a stolen lock; 0 if none is known. @param {number} ref */
  grantOf(ref) {
    const { created = 0, isHeld } = this.get(ref)?.entry ?? {};
    return this.#stolenGrants.get(ref) ?? (isHeld ? created : 0);
  }

  /**
   * Notes that a step granted a request; returns the answer.
   * @param {RequestOp} op @param {QueuedRequest | undefined} made @param {number} revision
   * @param {Picture} [picture] of the queue behind it
   */
  noteGranted({ ref }, made, revision, picture) {
    const own = this.get(ref);
    if (own && made && !own.entry.isHeld) {
      // The value lacks the time if etcd has decided on the request.
      const value = { granted: made.value.asked, ...made.value };
      own.entry = { ...made, created: revision, isHeld: true, value };
      own.picture = picture && { ...picture, holders: [own.entry], holdersAt: revision };
    }
    if (own) own.isAnswered = true;
    return granted(this.#session.tokenOf(revision));
  }

  /**
   * Notes that a request waited after its step; returns the answer. It may have been granted since.
   * @param {RequestOp} op @param {QueuedRequest | undefined} made @param {number} revision
   */
  noteQueued({ ref }, made, revision) {
    const own = this.get(ref);
    if (this.#passed.has(ref)) {
      this.forget(ref);
      return PASSED;
    }
    const grant = this.grantOf(ref);
    if (own) own.isAnswered = true;
    if (grant > 0) return granted(this.#session.tokenOf(grant));
    if (!own || !made) return QUEUED;
    own.entry = { ...made, created: made.created || revision };
    return made.isHeld ? granted(this.#session.tokenOf(made.created)) : QUEUED;
  }

  /** @param {PublishOp} op that was done */
  notePublished({ ref, data }) {
    const entry = this.get(ref)?.entry;
    if (entry) entry.value = { ...entry.value, data: data === '' ? undefined : data };
  }

  /**
   * Notes that a lock was stolen, or that a request has passed.
   * @param {number} ref @param {string} thief '' if it has passed
   */
  noteTheft(ref, thief) {
    this.forget(ref);
    this.thefts.set(ref, thief);
    this.#events().stolen(ref, thief);
  }

  /**
   * Guesses a name's picture: it is as it was when the session was granted its lock, or the name is
   * free. Undefined if there is no good guess.
   * @param {Op[]} ops of the name
   * @returns {Picture | undefined}
   */
  guess(ops) {
    // In a quarantine, a request that must not wait is refused without a condition.
    if (this.#session.isQuarantined || ops.some(({ kind }) => kind === 'steal')) return undefined;
    const owns = ops.map(({ ref }) => this.get(ref)).filter((own) => own?.isAnswered);
    if (owns.length === 0) return NOTHING;
    const [own] = owns;
    if (owns.length > 1 || !own?.entry.isHeld) return undefined;
    // The picture has no limit, not all shared locks, and waiters that may have left since.
    const hasOthers = ops.some(
      (op) => isRequest(op) && (op.mode === 'shared' || op.maxPending >= 0 || isShared(own.entry)),
    );
    const { picture } = own;
    // Otherwise the next waiter would have to be looked for after the step.
    const knowsNext = picture?.isComplete || (picture?.waiters.length ?? 0) > 0;
    return hasOthers || !knowsNext ? undefined : picture;
  }

  // News

  /**
   * Applies news, of which some may have come before. All news of a revision come together.
   * @param {KeyValue[]} kvs keys of the session's news
   */
  applyNews(kvs) {
    const { keys, lease } = this.#session;
    const news = kvs.filter(({ mod_revision: revision }) => Number(revision) > this.#newsRevision);
    news.sort((a, b) => Number(a.mod_revision) - Number(b.mod_revision));
    for (const one of news) {
      if (textOf(one.key) !== keys.sync(lease)) this.#applyOne(one);
      this.#newsRevision = Number(one.mod_revision);
    }
  }

  /** @param {KeyValue} kv */
  #applyOne({ mod_revision: revision, value }) {
    /** @type {News} */
    const news = valueOf(value);
    const { created = 0, ref, thief } = news;
    const own = this.get(ref);
    // The session may have ended its lock just before it learns that the lock was stolen.
    if (!own && thief) this.noteTheft(ref, thief);
    if (!own) return;
    if (thief === undefined) this.#applyGrant(own, news, Number(revision));
    else if (own.isAnswered) this.noteTheft(ref, thief);
    else if (thief === '') this.#passed.add(ref);
    else {
      this.#stolenGrants.set(ref, created);
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
    if (own.isAnswered) this.#events().granted(ref, this.#session.tokenOf(revision));
  }
}

module.exports = { OwnRequests };
