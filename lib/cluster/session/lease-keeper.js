'use strict';

/**
 * Extends the lease of one session from a thread other than the session's own, whose event loop may
 * be blocked. It extends the lease only if the session would probably do so if its loop turned:
 *
 * - The session was open when its loop turned last. If the session is cut off from the server, its
 *   lease must end, because it cannot be notified of thefts.
 * - The loop turned within the last `maxBlocked` milliseconds. A session whose loop hangs must not
 *   keep others waiting.
 * - The server is in the epoch that the session has seen. In another epoch, the server may lack
 *   locks of the session, and only the session can compare its list with the server's.
 */

const { timesOf } = require('./lease.js');

/** @import { Adapter, Seen } from '../adapter.js' */
/** @import { Clock } from './clock.js' */
/** @typedef {InstanceType<typeof import('./lease-cells.js').LeaseCells>} LeaseCells */

/**
 * @typedef {object} Keeping what the keeper needs to know about a session
 * @property {unknown} ticket the result of the adapter's `keeperTicket`
 * @property {Seen} seen as of the session's last renewal
 * @property {number} ttl the server's `ttl` in milliseconds
 * @property {number} margin see `Rules` in session.js
 * @property {number} maxBlocked milliseconds of a blocked event loop during which the lease is kept
 */

/**
 * @typedef {object} Keeper gives the sessions of a bucket access to the keeper's thread
 * @property {number} maxBlocked see Keeping
 * @property {(keeping: Keeping, cells: LeaseCells) => KeptLease} keep starts to keep a lease
 */

/**
 * @typedef {object} KeptLease gives a session access to its LeaseKeeper
 * @property {(seen: Seen) => void} update
 * @property {() => Promise<void>} stop resolves when the lease is no longer extended; never rejects
 */

/** The pause after an attempt that extended nothing, as a fraction of the `ttl`. */
const RETRY = 1 / 20;
/** The time limit of a call, as a fraction of the `ttl`. */
const PATIENCE = 1 / 6;
/** The pause after an extension, as a fraction of the `ttl`. */
const PERIOD = 1 / 3;

const ELSEWHERE =
  'the server is in another epoch. Either another server took over while the event loop was ' +
  'blocked, or the keeper reaches another server or database than the bucket.';

class LeaseKeeper {
  #keeping;
  #cells;
  #clock;
  #makeAdapter;
  #onTrouble;
  /** @type {Adapter | undefined} */
  #adapter;
  /** @type {any} */
  #timer;
  #isStopped = false;
  /** The number of the latest call; a call with another number was given up. */
  #call = 0;
  /** When calls began to fail; undefined after a success. @type {number | undefined} */
  #failingSince;
  #hasReported = false;
  /** The error of the last attempt; undefined after a success. @type {unknown} */
  #lastError;

  /**
   * @param {Keeping} keeping @param {LeaseCells} cells
   * @param {Pick<Clock, 'monotonic' | 'continuous' | 'wall' | 'setTimeout' | 'clearTimeout'>} clock
   *   reads the times of the session's clock
   * @param {() => Promise<Adapter>} makeAdapter makes an adapter with a new connection
   * @param {(error: unknown) => void} onTrouble called when calls have failed for a `ttl`, and not
   *   again before the next success
   */
  constructor(keeping, cells, clock, makeAdapter, onTrouble) {
    this.#keeping = keeping;
    this.#cells = cells;
    this.#clock = clock;
    this.#makeAdapter = makeAdapter;
    this.#onTrouble = onTrouble;
  }

  start() {
    this.#extend();
  }

  /** Must be called after each renewal of the session. @param {Seen} seen */
  update(seen) {
    this.#keeping = { ...this.#keeping, seen };
  }

  /**
   * Stops extending the lease at once. Resolves when the adapter is disposed, to the error of the
   * last attempt if that failed and was not reported.
   */
  async stop() {
    this.#isStopped = true;
    this.#clock.clearTimeout(this.#timer);
    await this.#dropAdapter();
    return this.#hasReported ? undefined : this.#lastError;
  }

  /** Whether the session is open, and its event loop is blocked for at most `maxBlocked`. */
  get #isWanted() {
    const cells = this.#cells;
    return cells.isOpen && this.#clock.monotonic() - cells.lastTurn <= this.#keeping.maxBlocked;
  }

  /** @param {number} part of the `ttl` */
  #extendLater(part) {
    if (this.#isStopped) return;
    const { clearTimeout, setTimeout } = this.#clock;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#extend(), Math.ceil(part * this.#keeping.ttl));
  }

  /** Extends the lease if that is wanted; in any case, the next attempt follows after a pause. */
  async #extend() {
    if (!this.#isWanted) {
      // The loop may turn again at any time, so check often; this does not call the server.
      this.#extendLater(RETRY);
      return;
    }
    const call = ++this.#call;
    const clock = this.#clock;
    clock.clearTimeout(this.#timer);
    this.#timer = clock.setTimeout(
      () => this.#handleFailure(call, new Error('the server did not answer the keeper')),
      Math.ceil(PATIENCE * this.#keeping.ttl),
    );
    try {
      const adapter = await this.#useAdapter(call);
      if (call !== this.#call || this.#isStopped) return;
      // Making the adapter can take so long that the session is cut off meanwhile.
      if (!this.#isWanted) {
        this.#extendLater(RETRY);
        return;
      }
      const { ticket, seen, ttl, margin } = this.#keeping;
      const times = timesOf(clock);
      const isExtended = (await adapter.extend?.(ticket, seen)) === true;
      if (this.#isStopped) return;
      // Even if this call was given up meanwhile, the server has extended the lease.
      if (isExtended) this.#cells.extend(times, margin * ttl);
      if (call !== this.#call) return;
      if (isExtended) this.#handleSuccess();
      else this.#handleOtherEpoch();
    } catch (error) {
      this.#handleFailure(call, error);
    }
  }

  /** Makes the adapter if needed; disposes it if `call` was given up. @param {number} call */
  async #useAdapter(call) {
    if (this.#adapter) return this.#adapter;
    const adapter = await this.#makeAdapter();
    if (call === this.#call && !this.#isStopped) this.#adapter = adapter;
    else await adapter.dispose();
    return adapter;
  }

  #handleSuccess() {
    this.#failingSince = this.#lastError = undefined;
    this.#hasReported = false;
    this.#extendLater(PERIOD);
  }

  /** Tries again soon: after a failover, the session's next renewal brings the new epoch. */
  #handleOtherEpoch() {
    this.#noteFailure(new Error(ELSEWHERE));
    this.#extendLater(RETRY);
  }

  /** Stores the error; reports it if calls have failed for a `ttl`. @param {unknown} error */
  #noteFailure(error) {
    const now = this.#clock.monotonic();
    this.#failingSince ??= now;
    this.#lastError = error;
    if (now - this.#failingSince < this.#keeping.ttl || this.#hasReported) return;
    this.#hasReported = true;
    this.#onTrouble(error);
  }

  /**
   * Drops the adapter and tries again soon, or stops if the server has ended the session. Ignores a
   * call that was given up.
   * @param {number} call @param {unknown} error
   */
  #handleFailure(call, error) {
    if (call !== this.#call || this.#isStopped) return;
    this.#call++;
    if (this.#adapter?.classify(error) === 'dead') {
      this.#cells.markDead();
      this.stop();
      return;
    }
    this.#dropAdapter();
    this.#noteFailure(error);
    this.#extendLater(RETRY);
  }

  async #dropAdapter() {
    const adapter = this.#adapter;
    this.#adapter = undefined;
    await adapter?.dispose();
  }
}

module.exports = { LeaseKeeper };
