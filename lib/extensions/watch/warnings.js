'use strict';

/** Warns of a request that waits, or whose lock is held, for longer than its `warnAfter`. */

const { readSetting, warn } = require('../../platform/environment.js');
const { report, threadsNow: now } = require('../../platform/intrinsics.js');
const { quote } = require('../../platform/errors.js');
const { describeLock } = require('../../platform/names.js');
const {
  describeHolders,
  describeOutage,
  describeWaiting,
  duration,
} = require('../errors/descriptions.js');
const { placeOf } = require('../sites/origin.js');
const { Deadline, NEVER } = require('./deadline.js');
const {
  holdersOfWaiter,
  prepareForUsers,
  queryHoldersToWarn,
  queryWaiters,
} = require('./holder-queries.js');

/** @typedef {InstanceType<typeof import('./watch.js').Watch>} Watch */

/** The `warnAfter` of requests that have none, in milliseconds; undefined for no warnings. */
const warnAfterEverywhere = readSetting(
  'WEB_LOCKS_WARN_AFTER',
  (text) => (/^\d+$/.test(text) ? Number(text) : undefined),
  'a whole number of milliseconds',
);

/** @param {import('../options.js').RequestOptions} options */
const warnAfterOf = ({ warnAfter = warnAfterEverywhere }) => warnAfter;

/** Warns at most once about a request: during the wait or during the hold. */
class Warning {
  #watch;
  #request;
  #warnAfter;
  #deadline = new Deadline(() => this.#emit().catch(report), true);
  #isEmitted = false;

  /** @param {Watch} watch @param {number} warnAfter milliseconds */
  constructor(watch, warnAfter) {
    this.#watch = watch;
    this.#request = watch.request;
    this.#warnAfter = warnAfter;
  }

  /** Called when the wait begins, and again when the hold begins. */
  begin() {
    if (!this.#isEmitted) this.#deadline.set(now() + this.#warnAfter);
  }

  end() {
    this.#deadline.set(NEVER);
  }

  /** For a blocked thread, in which timers do not run. */
  emitIfDue() {
    if ((this.#watch.granted || now()) < this.#deadline.due) return;
    this.#deadline.set(NEVER);
    this.#emit().catch(report);
  }

  async #emit() {
    const { backend } = this.#request;
    // This request waits only for other requests of its group. They emit the warnings.
    if (!this.#watch.granted && backend.progress?.(this.#request) === 'grantedPartial') return;
    this.#isEmitted = true;
    const { isHoldAnnounced } = this.#watch;
    const message = await (isHoldAnnounced ? this.#describeHold() : this.#describeWait());
    warn(message, 'WEB_LOCKS_SLOW');
  }

  get #lockDescription() {
    const { name, options } = this.#request;
    return `${describeLock(name)}${labelInParentheses(options.label)}`;
  }

  async #describeWait() {
    const { backend, name } = this.#request;
    const watch = this.#watch;
    let who = '';
    if (!watch.granted) {
      const known = backend.askHolders ? undefined : holdersOfWaiter(this.#request);
      const mustAsk = !known && !backend.holders;
      // In a blocked thread, this function continues only after the wait.
      const holders = await (mustAsk ? queryHoldersToWarn(backend, name) : known);
      // If the backend had to ask, and this request was granted meanwhile, the answer is outdated.
      if (!mustAsk || !watch.granted) who = ` (${this.#describeBlockers(holders)})`;
    }
    const waited = duration(watch.waitDuration());
    return watch.granted || watch.ended
      ? `Waited for ${this.#lockDescription} for ${waited}${who}.`
      : `Still waiting for ${this.#lockDescription} after ${waited}${who}.`;
  }

  /** @param {import('./holder-queries.js').Holders | undefined} holders */
  #describeBlockers(holders) {
    const { backend } = this.#request;
    prepareForUsers(holders);
    const outage = holders ? undefined : backend.outage?.(this.#request);
    if (outage !== undefined) return describeOutage(outage);
    return describeHolders(holders?.list, backend.grantsIn?.(), undefined, holders?.count);
  }

  async #describeHold() {
    const { backend, name } = this.#request;
    const watch = this.#watch;
    const waiting = describeWaiting(await queryWaiters(backend, name), backend.outage?.());
    const held = duration(watch.holdDuration());
    const place = placeOf(this.#request.origin);
    const where = place && ` It was requested:\n${place}`;
    return watch.released || watch.ended
      ? `Held ${this.#lockDescription} for ${held} (${waiting}).${where}`
      : `Still holding ${this.#lockDescription} after ${held} (${waiting}).${where}`;
  }
}

/** @param {string | undefined} label */
const labelInParentheses = (label) => (label ? ` (${quote(label)})` : '');

module.exports = { Warning, warnAfterOf };
