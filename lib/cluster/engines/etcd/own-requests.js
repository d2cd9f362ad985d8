'use strict';

/** The requests of a session in etcd, their data, and the notices of thefts. */

const { groupBy } = require('./lists.js');
const { Slots } = require('./slots.js');

/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @import { Entry } from './queue.js' */

class OwnRequests {
  /**
   * The session's requests in etcd, by `ref`, without the requests of a transaction that is under
   * way or whose outcome is unknown. Only `forget` and `notePass` remove one.
   * @type {Map<number, Entry>}
   */
  mine = new Map();
  slots = new Slots();
  /**
   * By `ref`: the thief of each stolen lock whose notice is still in etcd; '' for a request that
   * has passed and was not reported yet.
   * @type {Map<number, string>}
   */
  thefts = new Map();
  /** The `ref`s of own locks whose data may be in etcd. @type {Set<number>} */
  published = new Set();
  /** Own requests that have passed, until their keys are deleted. @type {Map<number, Entry>} */
  passed = new Map();

  #keys;

  /** @param {BucketKeys} keys @param {string} lease see `leaseKey` */
  constructor(keys, lease) {
    this.#keys = keys;
    this.lease = lease;
  }

  /** @param {Entry} entry */
  isMine({ key, lease, ref }) {
    return lease === this.lease && this.mine.get(ref)?.key === key;
  }

  /** The requests that wait. */
  get waiting() {
    return [...this.mine.values()].filter(({ token }) => token === 0n);
  }

  /** The prefixes of the names that this session waits for. */
  get wanted() {
    return new Set(this.waiting.map(({ name }) => this.#keys.queue(name)));
  }

  /**
   * The only request of this session that waits for a name; undefined if none or several wait.
   * @param {string} prefix
   */
  onlyWaiter(prefix) {
    const all = this.waiting.filter(({ name }) => this.#keys.queue(name) === prefix);
    return all.length === 1 ? all[0] : undefined;
  }

  /** The session's waiting requests that existed at a revision. @param {number} revision */
  waitingUntil(revision) {
    const waiting = this.waiting.filter(({ created }) => created <= revision);
    return groupBy(waiting, ({ name }) => this.#keys.queue(name));
  }

  /** Called when a step begins. Frees slots whose keys certainly do not exist in etcd. */
  beginStep() {
    this.slots.recycle({ has: (ref) => this.mine.has(ref) || this.passed.has(ref) });
  }

  /** Removes a request that certainly does not exist in etcd. @param {number} ref */
  forget(ref) {
    this.mine.delete(ref);
    this.slots.free(ref);
  }

  /** Removes a request that has passed, and whose key is still there. @param {Entry} entry */
  notePass(entry) {
    this.mine.delete(entry.ref);
    this.passed.set(entry.ref, entry);
    this.thefts.set(entry.ref, '');
  }

  /** Forgets passed requests, whose keys were deleted. @param {Iterable<number>} refs */
  dropPassed(refs) {
    for (const ref of refs) if (this.passed.delete(ref)) this.slots.free(ref);
  }
}

module.exports = { OwnRequests };
