'use strict';

/**
 * Run once: who has the lock looks whether its name is marked as done, does it if not, and marks it
 * in the step that releases the lock. What fails, or loses its lock, marks nothing.
 */

const { typeError } = require('../platform/errors.js');
const { abortedReason } = require('../standard/abort.js');
const { ENDED, GRANTED } = require('../standard/lock-request.js');
const { describe } = require('../standard/webidl.js');
const { Request } = require('./request.js');

/** @typedef {import('../backend/contract.js').Backend} Backend */
/** @typedef {import('./options.js').RequestOptions} RequestOptions */

/** The longest time that a mark is kept, in milliseconds: 100 years. */
const LONGEST_KEEP = 100 * 365.25 * 86_400_000;

class Once extends Request {
  /** See Requester. @type {number | undefined} */
  keep = undefined;
  #keep;

  /**
   * @param {Backend} backend with `marked`
   * @param {string} name the resource name
   * @param {Readonly<RequestOptions>} options valid together
   * @param {number} keep milliseconds
   */
  constructor(backend, name, options, keep) {
    super(backend, name, options);
    this.#keep = keep;
  }

  /**
   * @override
   * @param {(lock: any) => any} callback
   * @param {any} lock
   * @returns {Promise<{ ran: boolean, value: any }>}
   */
  async call(callback, lock) {
    const isMarked = await /** @type {NonNullable<Backend['marked']>} */ (this.backend.marked)(
      this,
    );
    if (!this.holds) throw this.lossReason();
    if (isMarked) return { ran: false, value: undefined };
    // The request was given up while that was asked.
    const { signal } = this.options;
    const aborted = signal && abortedReason(signal);
    if (aborted) throw aborted.reason;
    const value = await super.call(callback, lock);
    this.keep = this.#keep;
    return { ran: true, value };
  }

  /**
   * Also that the release has not marked the name.
   * @override
   * @param {string} reason
   * @param {Error} [cause]
   */
  lost(reason, cause) {
    const isReleasing = this.state === ENDED && this.keep !== undefined;
    if (this.state === GRANTED || isReleasing) this.beLost(undefined, reason, cause);
  }
}

/**
 * @param {any} options
 * @param {string} operation for the message
 * @returns {number} the `keep` of options
 */
function toKeep(options, operation) {
  const keep = options?.keep;
  if (typeof keep === 'number' && keep > 0 && keep <= LONGEST_KEEP) return keep;
  const wanted = 'a number of milliseconds, more than 0 and at most 100 years';
  throw typeError(operation, `The 'keep' option is ${describe(keep)}, not ${wanted}.`);
}

module.exports = { Once, toKeep };
