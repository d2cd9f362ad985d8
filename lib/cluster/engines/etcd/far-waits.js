'use strict';

/**
 * The names that the session waits for with one request far from the head of the queue. Such a
 * session does not watch the name: if all waiters did, each change of a queue would be sent to each
 * of them. It watches one exclusive request ahead of its own, `near` exclusive requests away,
 * without whose end its own cannot be granted. When that request is gone, the session looks again
 * how far it is, and near the head it watches the name (streams.js).
 *
 * A session that waits for a name with several requests watches it all the same. Without the queue,
 * each further step for the name would have to read it.
 */

const { watchEndedError } = require('./errors.js');
const { allWith } = require('./operations.js');

/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./queue-cache.js').QueueCache>} Cache */

/**
 * @typedef {object} FarWait
 * @property {string} key of the watched request, in base64; '' while it is looked for
 * @property {string} created the revision that created the watched request
 * @property {() => void} stop ends the watch
 */

class FarWaits {
  #queueCache;
  #link;
  #onNear;
  #near;
  /** By the prefix of the name's keys. @type {Map<string, FarWait>} */
  #waits = new Map();
  #isOver = false;

  /**
   * @param {object} parts @param {Cache} parts.queueCache @param {Link} parts.link
   * @param {number} parts.near
   * @param {(prefix: string) => void} parts.onNear called when the name must be watched
   */
  constructor({ queueCache, link, near, onNear }) {
    this.#queueCache = queueCache;
    this.#link = link;
    this.#onNear = onNear;
    this.#near = near;
  }

  get count() {
    return this.#waits.size;
  }

  /** @param {string} prefix */
  has(prefix) {
    return this.#waits.has(prefix);
  }

  /** Looks how far the session's waiter is from the head. @param {string} prefix */
  add(prefix) {
    this.#delete(prefix);
    this.#waits.set(prefix, { key: '', created: '', stop: () => {} });
    this.#look(prefix).catch(this.#link.fail);
  }

  /** Forgets the names for which not exactly one request of the session waits. */
  prune() {
    for (const prefix of [...this.#waits.keys()])
      if (!this.#queueCache.onlyWaiter(prefix)) this.#delete(prefix);
  }

  /**
   * Called at each renewal, because a watch can be silent. Resolves when every name is watched of
   * which the watched request had gone.
   */
  async check() {
    const waits = [...this.#waits].filter(([, { key }]) => key !== '');
    await Promise.all(waits.map(([prefix, wait]) => this.#checkOne(prefix, wait)));
  }

  /** Ends all watches. */
  stop() {
    this.#isOver = true;
    for (const prefix of [...this.#waits.keys()]) this.#delete(prefix);
  }

  /** @param {string} prefix */
  #delete(prefix) {
    this.#waits.get(prefix)?.stop();
    this.#waits.delete(prefix);
  }

  /**
   * Watches a request ahead of ours, or has the name watched if there is none.
   * @param {string} prefix
   */
  async #look(prefix) {
    const before = this.#waits.get(prefix);
    const own = this.#queueCache.onlyWaiter(prefix);
    const ahead = own && (await this.#exclusiveAhead(prefix, own.created));
    // Another look may have been quicker, or the session may not wait any more.
    if (this.#isOver || this.#waits.get(prefix) !== before) return;
    this.#delete(prefix);
    if (!ahead) {
      this.#onNear(prefix);
      return;
    }
    /** @type {FarWait} */
    const wait = { key: ahead.key, created: ahead.create_revision, stop: () => {} };
    this.#waits.set(prefix, wait);
    wait.stop = this.#link.watch({ key: wait.key }, (result) =>
      this.#handleResult(prefix, wait, result),
    );
  }

  /**
   * The exclusive request that is `near` exclusive requests ahead of a revision, if there is one.
   * @param {string} prefix @param {number} created
   */
  async #exclusiveAhead(prefix, created) {
    const { found } = await this.#link.read([
      {
        ...allWith(`${prefix}b/`),
        ...{ sort_target: 'CREATE', sort_order: 'DESCEND', keys_only: true },
        ...{ max_create_revision: String(created - 1), limit: String(this.#near) },
      },
    ]);
    return found[0].kvs?.[this.#near - 1];
  }

  /** @param {string} prefix @param {FarWait} wait @param {any} result of its watch */
  #handleResult(prefix, wait, { created, canceled, cancel_reason: reason, events = [] }) {
    if (canceled) throw watchEndedError(reason);
    if (this.#waits.get(prefix) !== wait) return;
    const isGone = events.some((/** @type {any} */ { type }) => type === 'DELETE');
    // The request may have gone before the watch began.
    if (created) this.#checkOne(prefix, wait).catch(this.#link.fail);
    else if (isGone) this.#look(prefix).catch(this.#link.fail);
  }

  /** Looks again if the watched request is gone. @param {string} prefix @param {FarWait} wait */
  async #checkOne(prefix, wait) {
    const { found } = await this.#link.read([{ key: wait.key, keys_only: true }]);
    if (this.#waits.get(prefix) !== wait) return;
    if (found[0].kvs?.[0].create_revision !== wait.created) await this.#look(prefix);
  }
}

module.exports = { FarWaits };
