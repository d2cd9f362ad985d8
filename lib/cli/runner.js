'use strict';

/**
 * What `run`, `once` and `elect` have in common: they requestLock for a lock, tell people for whom they
 * wait, run a command while they hold it, and end as that ends.
 */

const process = require('node:process');
const { LockTimeoutError } = require('../extensions/lock-errors.js');
const { hostname } = require('../platform/machine.js');
const { theLock } = require('../platform/names.js');
const { Command } = require('./command.js');
const { nameOfCommand, shortened } = require('./command-name.js');
const { wouldWaitFor, outerMatcher } = require('./nesting.js');
const { describeHolders, quoted } = require('./format.js');
const { CLOSING_MS, LATE, OpenBucket, checkName, unreachable, within } = require('./bucket.js');
const { Signals } = require('./signals.js');
const { Failure, STATUS, say } = require('./status.js');

/** @typedef {import('./status.js').Ending} Ending */
/** @typedef {import('./arguments.js').ParsedCommand} ParsedCommand */

/** How long a request that does not wait for a lock waits for an engine to answer. */
const PATIENCE_MS = 10_000;
/** How long it waits for the answer who holds the lock that it did not get. */
const LOOK_MS = 1000;
/** After that long a wait it says whom it waits for. */
const REPORT_MS = 1000;
/** An engine has at least that long to be reached, also with a shorter time limit. */
const LEAST_PATIENCE_MS = 1000;

/**
 * What a kind of runner does: asks for the lock, and calls `runCommand` when it has it. What it returns is
 * how the program ends if there was no command; by default it did not get the lock.
 * @typedef {(runner: Runner) => Promise<Ending | undefined | void>} RequestLock
 */

/**
 * @param {ParsedCommand} request
 * @param {RequestLock} requestLock
 * @returns {Promise<Ending>}
 */
async function runUnderLock(request, requestLock) {
  checkName(String(request.name), request.values);
  const signals = new Signals();
  const bucket = new OpenBucket(request.values);
  const runner = new Runner(request, bucket, signals);
  const work = runner.execute(requestLock);
  // After a signal its result no longer matters.
  work.catch(() => {});
  const gaveUp = signals.came.then((signal) => runner.endBySignal(signal, work));
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
  /** The end of the command, once there is one. @type {Promise<Ending> | undefined} */
  #ended;
  /** It was given up, or has ended: a grant that comes now is too late, a loss our own doing. */
  isOver = false;

  /**
   * @param {ParsedCommand} request
   * @param {InstanceType<typeof OpenBucket>} bucket
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

  /** What `query` shows of it. */
  get label() {
    const { label, command } = this.values;
    if (label !== undefined) return label;
    return command === undefined ? nameOfCommand(this.#request.words) : shortened(command);
  }

  /** @returns {boolean} whether it takes the lock only if that is free */
  get doesNotWait() {
    return this.values['if-available'] || this.values.timeout === 0;
  }

  /** How long an engine may take to answer, in milliseconds; undefined: as long as it wants. */
  get patience() {
    const { at, timeout } = this.values;
    if (!at) return undefined;
    if (this.doesNotWait) return PATIENCE_MS;
    return timeout === undefined ? undefined : Math.max(timeout, LEAST_PATIENCE_MS);
  }

  /** @returns {boolean} whether the lock was lost while the command ran */
  get isLost() {
    return this.#command.isLost;
  }

  /** @returns {Promise<Ending> | undefined} how it ends, if there is a command */
  get ending() {
    return this.#ended?.then((ending) => (this.isLost ? { status: STATUS.lost } : ending));
  }

  /**
   * @param {RequestLock} requestLock
   * @returns {Promise<Ending>} of the command, or why there was none
   */
  async execute(requestLock) {
    await this.#bucket.ready(this.patience);
    await this.#refuseToWaitForItself();
    this.reportWaitLater();
    let instead;
    try {
      instead = await requestLock(this);
    } catch (error) {
      if (!this.#ended) return this.#endRefused(error);
      if (!this.isOver) this.#command.reportLoss(error);
    }
    return this.ending ?? instead ?? this.#endUnavailable();
  }

  /**
   * How a signal ends it. Of a command that has ended the end counts: the signal came too late for
   * it. But one of `once` is done when that is marked, for which the server has a while.
   * @param {NodeJS.Signals} signal
   * @param {Promise<Ending>} work
   * @returns {Promise<Ending>}
   */
  async endBySignal(signal, work) {
    const ending = await this.ending;
    if (!ending) return { signal };
    const isToMark = this.values.keep !== undefined && !ending.signal && ending.status === 0;
    if (!isToMark) return ending;
    /** @type {any} */
    const marked = await within(work, CLOSING_MS);
    return marked === LATE ? { signal } : marked;
  }

  /**
   * Runs the command, unless that is too late.
   * @param {any} lock null: not available
   * @returns {Promise<Ending | undefined>}
   */
  async runCommand(lock) {
    this.stopReporting();
    if (!lock || this.isOver || this.signals.haveCome) return undefined;
    if (this.values.verbose) say(`has lock ${quoted(this.name)} (token ${lock.token}).`);
    this.#ended = this.#command.run(lock);
    return this.#ended;
  }

  /**
   * The lock was lost, the command has ended, and the lock will be asked for again. A signal that
   * came for the command meanwhile was meant for this program, too.
   */
  prepareNextTerm() {
    this.signals.repeatLastEnding();
    this.#ended = undefined;
    this.#command = new Command(this.#request, this.signals);
    this.reportWaitLater();
  }

  /** Tells people for whom it waits, if that takes a while. */
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

  stopReporting() {
    clearTimeout(this.#report);
    this.#report = undefined;
  }

  /** @returns {Promise<any>} who holds it and who waits now, or why that is not known */
  async #look() {
    const asked = this.locks.query({ name: this.name, details: true });
    try {
      const state = await within(asked, LOOK_MS);
      return state === LATE ? undefined : state;
    } catch (outage) {
      return { outage };
    }
  }

  /** Also of a lock that several commands around this one hold together. */
  async #refuseToWaitForItself() {
    const { shared, limit, weight, priority, steal, timeout } = this.values;
    const isAround = outerMatcher(process.env);
    if (!isAround || this.doesNotWait || steal || timeout !== undefined) return;
    const { held = [], pending = [] } = (await this.#look()) ?? {};
    const mode = shared || limit !== undefined ? 'shared' : 'exclusive';
    const wanted = { mode, limit, weight, priority };
    if (!wouldWaitFor(held.filter(isAround), pending, wanted)) return;
    const around = `a web-locks around this one has lock ${quoted(this.name)}`;
    const hint = 'Leave the inner one out, or give it another name.';
    throw new Failure(STATUS.usage, `${around}: it would wait for ever.`, hint);
  }

  /**
   * @param {unknown} error of a request that was not granted
   * @returns {Ending}
   */
  #endRefused(error) {
    if (!(error instanceof LockTimeoutError)) throw unreachable(error);
    const seconds = this.values.timeout / 1000;
    const { holders: known, message } = /** @type {any} */ (error);
    // Without holders it says why there are none, and has nothing of others.
    const lock = theLock(this.name);
    const why = message.slice(message.indexOf(lock) + lock.length + ' ('.length, -').'.length);
    const holders = known.length > 0 ? describeHolders(known) : why;
    const name = quoted(this.name);
    return this.#endInConflict(
      `timed out after ${seconds} s waiting for lock ${name} (${holders}).`,
    );
  }

  async #endUnavailable() {
    const state = this.values.quiet ? undefined : await this.#look();
    const holders = describeHolders(state?.held, state?.grantsIn, state?.outage);
    return this.#endInConflict(`lock ${quoted(this.name)} is not available (${holders}).`);
  }

  /**
   * @param {string} message
   * @returns {Ending}
   */
  #endInConflict(message) {
    if (!this.values.quiet && !this.signals.haveCome) say(message);
    return { status: this.values['conflict-exit-code'] ?? STATUS.conflict };
  }
}

module.exports = { PATIENCE_MS, runUnderLock };
