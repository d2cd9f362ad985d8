'use strict';

/** Reads queues for a step, at the revision of its transaction or as they are now. */

const { isRequest } = require('../../adapter.js');
const { isCompacted } = require('./errors.js');
const { partsOf } = require('./lists.js');
const { allWith } = require('./operations.js');
const { queueAsOf } = require('./queue.js');

/** @import { Op } from '../../adapter.js' */
/** @import { View } from './plan.js' */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./session.js').EtcdSession>} Own */
/** @typedef {InstanceType<typeof import('./step.js').Step>} OwnStep */

const MOST_READS = 100;

class QueueReader {
  #keys;
  #own;
  #link;

  /** @param {BucketKeys} keys @param {Own} own @param {Link} link */
  constructor(keys, own, link) {
    this.#keys = keys;
    this.#own = own;
    this.#link = link;
  }

  /** Reads the present queues of the names that are stolen. @param {Op[][]} units */
  readStolen(units) {
    const thefts = units.flat().filter((op) => op.kind === 'steal');
    return this.read([...new Set(thefts.map(({ name }) => String(name)))]);
  }

  /**
   * Reads queues at a revision. If etcd has compacted that revision, this reads the present queues,
   * and then waits until all thefts so far are known: a request that is missing in the queues may
   * have been stolen, and must not be repeated.
   * @param {string[]} names @param {string} [at] the revision
   */
  async read(names, at = '0') {
    /** @type {View} */
    const view = { queues: new Map(), revision: Number(at), isCompacted: false };
    for (const some of partsOf(names, MOST_READS)) {
      const { header, found } = await this.#readAt(some, view);
      const isNow = view.isCompacted || view.revision === 0;
      const revision = isNow ? header.revision : String(view.revision);
      this.#addQueues(view.queues, some, found, revision);
      if (view.revision === 0) view.revision = Number(revision);
    }
    if (view.isCompacted) await this.#own.sync(this.#link);
    return view;
  }

  /**
   * Reads the present state, and notes that in `view`, if etcd has compacted the revision.
   * @param {string[]} names @param {View} view
   */
  async #readAt(names, view) {
    const rangesAt = (/** @type {string} */ revision) =>
      names.map((name) => ({ ...allWith(this.#keys.queue(name)), revision }));
    try {
      return await this.#link.read(rangesAt(String(view.revision)));
    } catch (error) {
      if (!isCompacted(error)) throw error;
      view.isCompacted = true;
      return await this.#link.read(rangesAt('0'));
    }
  }

  /**
   * Adds the queues of names that were read at a revision.
   * @param {View['queues']} queues @param {string[]} names @param {any[]} found
   * @param {string} revision
   */
  #addQueues(queues, names, found, revision) {
    const { queueCache } = this.#own;
    const token = queueCache.tokenOf(revision);
    const isQuarantined = queueCache.wasQuarantined(Number(revision));
    for (const [i, name] of names.entries())
      queues.set(name, queueAsOf(found[i].kvs ?? [], this.#keys, token, isQuarantined));
  }

  /**
   * The queues of all names of a transaction, which has read those of `names` at `revision`.
   * @param {OwnStep} step @param {string[]} names @param {any[]} reads @param {string} revision
   */
  async afterTransaction(step, names, reads, revision) {
    const { queueCache } = this.#own;
    const found = reads.flatMap((one) =>
      one.response_txn.responses.map((/** @type {any} */ { response_range: read }) => read),
    );
    /** @type {View['queues']} */
    const queues = new Map();
    this.#addQueues(queues, names, found, revision);
    const left = names.filter((_, i) => found[i].more);
    for (const { name } of step.open.flat().filter(isRequest)) {
      if (queues.has(name)) continue;
      // The transaction changed this watched queue, so the watch reaches that revision.
      await queueCache.waitForRevision(name, Number(revision));
      this.#link.throwIfDropped();
      const queue = queueCache.queue(name);
      if (queue) queues.set(name, queue);
      else if (!left.includes(name)) left.push(name);
    }
    const all = await this.read(left, revision);
    for (const [name, queue] of all.queues) queues.set(name, queue);
    return queues;
  }
}

module.exports = { QueueReader };
