'use strict';

/**
 * Runs a callback once. The holder of the lock checks whether the name is marked as done. If not,
 * it runs the callback, and marks the name in the step that releases the lock.
 */

const { abortedReason } = require('../../standard/abort.js');
const { ENDED, GRANTED } = require('../../standard/lock-request.js');
const { Request } = require('../request/request.js');

/** @import { Backend } from '../../backend/contract.js' */
/** @import { RequestOptions } from '../options.js' */

class Once extends Request {
  /** See Requester. @type {number | undefined} */
  keep = undefined;

  /** @param {Backend} backend @param {string} name @param {RequestOptions} options with `keep` */
  // biome-ignore lint/complexity/noUselessConstructor: the implicit one iterates over its arguments
  constructor(backend, name, options) {
    super(backend, name, options);
  }

  /**
   * Skips the callback if the name is marked. After its success, the release marks the name.
   * @override @param {(lock: any) => any} callback @param {any} lock
   */
  async callCallback(callback, lock) {
    const isMarked = await /** @type {NonNullable<Backend['marked']>} */ (this.backend.marked)(
      this,
    );
    if (!this.checkHeld()) throw this.lossReason();
    if (isMarked) return { ran: false, value: undefined };
    // The request may have been aborted during the query of the mark.
    const { signal } = this.options;
    const aborted = signal && abortedReason(signal);
    if (aborted) throw aborted.reason;
    const value = await super.callCallback(callback, lock);
    // If the callback fails, `keep` stays undefined, and the name is not marked.
    this.keep = this.options.keep;
    return { ran: true, value };
  }

  /**
   * The lock also counts as lost if its release may not have marked the name.
   * @override @param {string} reason @param {() => Error | undefined} [cause]
   */
  lost(reason, cause) {
    const isReleasing = this.state === ENDED && this.keep !== undefined;
    if (this.state === GRANTED || isReleasing) this.markLost(undefined, reason, cause);
  }
}

module.exports = { Once };
