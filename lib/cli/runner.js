'use strict';

/**
 * The common part of `run`, `once` and `elect`: requests a lock, reports the holders for which the
 * request waits, runs a command under the lock, and ends with the command's status or signal.
 */

const process = require('node:process');
const { LockTimeoutError } = require('../extensions/errors/lock-errors.js');
const { hostname } = require('../platform/machine.js');
const { describeLock } = require('../platform/names.js');
const { Command } = require('./command.js');
const { labelOfCommand, shortened } = require('./command-name.js');
const { wouldWaitFor, enclosingMatcher } = require('./nesting.js');
const { describeHolders, quoted } = require('./format.js');
const { CLOSING_MS, LATE, OpenBucket, checkName, toFailure, within } = require('./bucket.js');
const { Signals } = require('./signals.js');
const { Failure, STATUS, say } = require('./status.js');

/** @typedef {import('./status.js').Ending} Ending */
/** @typedef {import('./arguments.js').ParsedCommand} ParsedCommand */

/** The server must answer within this time if the request may not wait for the lock. */
const PATIENCE_MS = 10_000;
/** The time limit of a query for the holders of the lock. */
const LOOK_MS = 1000;
/** The holders are reported if the request still waits after this time. */
const REPORT_MS = 1000;
/** The server has at least this time to answer, even if the time limit is shorter. */
const LEAST_PATIENCE_MS = 1000;

/**
 * Requests the lock, and calls `runCommand` with it. The result says how the program ends if no
 * command ran; undefined means that the lock was not available.
 * @typedef {(runner: Runner) => Promise<Ending | undefined | void>} RequestLock
 */

/** @param {ParsedCommand} request @param {RequestLock} requestLock */
async function runUnderLock(request, requestLock) {
  checkName(String(request.name), request.values);
  const signals = new Signals();
  const bucket = new OpenBucket(request.values);
  const runner = new Runner(request, bucket, signals);
  const work = runner.execute(requestLock);
  // If a signal comes first, nobody awaits this promise.
  work.catch(() => {});
  const gaveUp = signals.firstSignal.then((signal) => runner.endingAfterSignal(signal, work));
  try {
    return await Promise.race([work, gaveUp]);
  } finally {
    runner.isOver = true;
    runner.stopReporting();
    await bucket.close();
  }
}

/** @param {import('../backend/contract.js').LockDetails} request */
const isOwn = ({ host, pid }) => pid === process.pid && host === hostname();

class Runner {
  #request;
  #bucket;
  #command;
  /** @type {NodeJS.Timeout | undefined} */
  #report;
  /** Settles when the command ends. @type {Promise<Ending> | undefined} */
  #ended;
  /** Set when the program begins to end: then a grant runs no command, and no loss is reported. */
  isOver = false;

  /**
   * @param {ParsedCommand} request @param {InstanceType<typeof OpenBucket>} bucket
   * @param {InstanceType<typeof Signals>} signals
   */
  constructor(request, bucket, signals) {
    this.#request = request;
    this.#bucket = bucket;
    this.signals = signals;
    this.#command = new Command(request, signals);
  }

  get name() {
    return /** @type {string} */ (this.#request.name);
  }

  get values() {
    return this.#request.values;
  }

  get locks() {
    return this.#bucket.locks;
  }

  get label() {
    const { label, command } = this.values;
    if (label !== undefined) return label;
    return command === undefined ? labelOfCommand(this.#request.words) : shortened(command);
  }

  get doesNotWait() {
    return this.values['if-available'] || this.values.timeout === 0;
  }

  /** How long the server may take to answer, in milliseconds; undefined for no limit. */
  get patience() {
    const { at, timeout } = this.values;
    if (!at) return undefined;
    if (this.doesNotWait) return PATIENCE_MS;
    return timeout === undefined ? undefined : Math.max(timeout, LEAST_PATIENCE_MS);
  }

  get isLost() {
    return this.#command.isLost;
  }

  /** @returns {Promise<Ending> | undefined} how the program ends, if there is a command */
  get ending() {
    return this.#ended?.then((ending) => (this.isLost ? { status: STATUS.lost } : ending));
  }

  /** @param {RequestLock} requestLock @returns {Promise<Ending>} how the program ends */
  async execute(requestLock) {
    await this.#bucket.ready(this.patience);
    await this.#refuseToWaitForItself();
    this.reportWaitLater();
    let instead;
    try {
      instead = await requestLock(this);
    } catch (error) {
      if (!this.#ended) return this.#reportRefusal(error);
      if (!this.isOver) this.#command.reportLoss(error);
    }
    return this.ending ?? instead ?? this.#reportUnavailable();
  }

  /**
   * If a command had already ended, its status counts, because the signal came too late. After a
   * success, `once` must still mark the name as done, and gets CLOSING_MS for that.
   * @param {NodeJS.Signals} signal came while no command was running
   * @param {Promise<Ending>} work
   */
  async endingAfterSignal(signal, work) {
    const ending = await this.ending;
    if (!ending) return { signal };
    const isToMark = this.values.keep !== undefined && !ending.signal && ending.status === 0;
    if (!isToMark) return ending;
    /** @type {any} */
    const marked = await within(work, CLOSING_MS);
    return marked === LATE ? { signal } : marked;
  }

  /** Runs the command, unless a signal arrived first. @param {any} lock null if not available */
  async runCommand(lock) {
    this.stopReporting();
    if (!lock || this.isOver || this.signals.hasFirstSignal) return undefined;
    if (this.values.verbose) say(`acquired lock ${quoted(this.name)} (token ${lock.token}).`);
    this.#ended = this.#command.run(lock);
    return this.#ended;
  }

  /**
   * Called before a lost lock is requested again. If the command received a signal that asks a
   * process to end, the signal was meant for this program, too, and ends it now.
   */
  prepareNextTerm() {
    this.signals.repeatLastEnding();
    this.#ended = undefined;
    this.#command = new Command(this.#request, this.signals);
    this.reportWaitLater();
  }

  /** Unless the options forbid it, prints after REPORT_MS which holders the request waits for. */
  reportWaitLater() {
    const { quiet, verbose } = this.values;
    if (quiet || this.doesNotWait || !(verbose || process.stderr.isTTY)) return;
    this.#report = setTimeout(async () => {
      const { grantsIn, held, outage, pending } = (await this.#look()) ?? {};
      if (!this.#report) return;
      const { ahead = 0 } = pending?.find(isOwn) ?? {};
      const others = ahead > 0 ? `; ${ahead} ahead` : '';
      const holders = describeHolders(held, grantsIn, outage);
      say(`waiting for lock ${quoted(this.name)} (${holders}${others}).`);
    }, REPORT_MS);
  }

  /** Cancels the report of `reportWaitLater`. */
  stopReporting() {
    clearTimeout(this.#report);
    this.#report = undefined;
  }

  /**
   * Resolves to undefined if there was no answer in time, or to `{ outage }` after an error.
   * @returns {Promise<any>}
   */
  async #look() {
    const asked = this.locks.query({ name: this.name, details: true });
    try {
      const state = await within(asked, LOOK_MS);
      return state === LATE ? undefined : state;
    } catch (outage) {
      return { outage };
    }
  }

  /** Several enclosing commands can hold a shared lock together, so all holders are checked. */
  async #refuseToWaitForItself() {
    const { shared, limit, weight, priority, steal, timeout } = this.values;
    const isAround = enclosingMatcher(process.env);
    if (!isAround || this.doesNotWait || steal || timeout !== undefined) return;
    const { held = [], pending = [] } = (await this.#look()) ?? {};
    const mode = shared || limit !== undefined ? 'shared' : 'exclusive';
    const wanted = { mode, limit, weight, priority };
    if (!wouldWaitFor(held.filter(isAround), pending, wanted)) return;
    const around = `an enclosing web-locks command already holds lock ${quoted(this.name)}`;
    const hint = 'Remove the inner web-locks command, or use another name for its lock.';
    throw new Failure(STATUS.usage, `${around}, so this one would wait forever.`, hint);
  }

  /**
   * After a timeout, returns how the program ends. Throws any other error.
   * @param {unknown} error
   */
  #reportRefusal(error) {
    if (!(error instanceof LockTimeoutError)) throw toFailure(error);
    const seconds = this.values.timeout / 1000;
    const { holders: known, message } = /** @type {any} */ (error);
    // If no holders are known, the reason from the message is printed as it is, because it contains
    // no text of other programs.
    const lock = describeLock(this.name);
    const why = message.slice(message.indexOf(lock) + lock.length + ' ('.length, -').'.length);
    const holders = known.length > 0 ? describeHolders(known) : why;
    const name = quoted(this.name);
    return this.#reportConflict(
      `timed out after ${seconds} s waiting for lock ${name} (${holders}).`,
    );
  }

  /** Resolves to how the program ends. */
  async #reportUnavailable() {
    const state = this.values.quiet ? undefined : await this.#look();
    const holders = describeHolders(state?.held, state?.grantsIn, state?.outage);
    return this.#reportConflict(`lock ${quoted(this.name)} is not available (${holders}).`);
  }

  /** Returns how the program ends. @param {string} message */
  #reportConflict(message) {
    if (!this.values.quiet && !this.signals.hasFirstSignal) say(message);
    return { status: this.values['conflict-exit-code'] ?? STATUS.conflict };
  }
}

module.exports = { PATIENCE_MS, runUnderLock };
