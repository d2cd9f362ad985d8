'use strict';

/**
 * `web-locks run`: a command that runs while a lock is held. Its end is the end of the program; if
 * the lock is lost, the command is told to end, then killed.
 */

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { UNKNOWN_HOLDERS } = require('../extensions/holders.js');
const { LockTimeoutError } = require('../extensions/lock-errors.js');
const { describeHolders, quoted } = require('./people.js');
const { LATE, Place, checkName, messageOf, noAnswer, unreachable, within } = require('./places.js');
const { Signals } = require('./signals.js');
const { STATUS, say } = require('./status.js');

/** @typedef {import('./status.js').Ending} Ending */
/** @typedef {import('./arguments.js').Request} Request */

const KILL_AFTER_MS = 5000;
/** How long who does not wait for others waits for an engine to answer. */
const PATIENCE_MS = 10_000;
/** Who waits for less than that gives an engine that much to be reached. */
const LEAST_PATIENCE_MS = 1000;
/** How long it waits to hear who has the lock that it did not get. */
const LOOK_MS = 1000;

/**
 * @param {Request} request
 * @returns {Promise<Ending>}
 */
async function run(request) {
  checkName(String(request.name), request.values);
  const signals = new Signals();
  const place = new Place(request.values);
  const job = new Job(request, place, signals);
  const gaveUp = signals.came.then((signal) => ({ signal }));
  // What becomes of it after a signal is nobody's business.
  const work = job.done();
  work.catch(() => {});
  try {
    return await Promise.race([work, gaveUp]);
  } finally {
    await place.close();
  }
}

class Job {
  #name;
  #words;
  #values;
  #place;
  #signals;
  /** @type {Promise<Ending> | undefined} the end of the command */
  #ended;
  #isLost = false;
  /** It was given up: a grant that comes now is too late. */
  #isOver = false;
  #doesNotWait;

  /**
   * @param {Request} request
   * @param {InstanceType<typeof Place>} place
   * @param {InstanceType<typeof Signals>} signals
   */
  constructor({ name, words, values }, place, signals) {
    this.#name = /** @type {string} */ (name);
    this.#words = words;
    this.#values = values;
    this.#place = place;
    this.#signals = signals;
    this.#doesNotWait = values['if-available'] || values.timeout === 0;
  }

  /** How long an engine may take to answer, in milliseconds; undefined: as long as it wants. */
  get #patience() {
    const { at, timeout } = this.#values;
    if (!at) return undefined;
    if (this.#doesNotWait) return PATIENCE_MS;
    return timeout === undefined ? undefined : Math.max(timeout, LEAST_PATIENCE_MS);
  }

  /** @returns {Promise<Ending>} of the command, or why there was none */
  async done() {
    await this.#place.ready(this.#patience);
    try {
      await this.#request();
    } catch (error) {
      if (!this.#ended) return this.#refused(error);
      this.#lost(error);
    }
    if (!this.#ended) return this.#notAvailable();
    const ending = await this.#ended;
    return this.#isLost ? { status: STATUS.lost } : ending;
  }

  /** @returns {Promise<void>} also rejects if whether it is available is not answered in time */
  async #request() {
    let answer = () => {};
    /** @type {Promise<void>} */
    const answered = new Promise((resolve) => {
      answer = resolve;
    });
    const request = this.#place.locks.request(
      this.#name,
      this.#options(),
      (/** @type {any} */ lock) => {
        answer();
        return this.#hold(lock);
      },
    );
    if (this.#doesNotWait) {
      const first = await within(Promise.race([request, answered]), this.#patience);
      this.#isOver = first === LATE;
      if (this.#isOver) {
        request.catch(() => {});
        throw noAnswer(PATIENCE_MS);
      }
    }
    await request;
  }

  #options() {
    const { shared, limit, weight, timeout, steal, label } = this.#values;
    const isShared = shared || limit !== undefined;
    return {
      mode: /** @type {'shared' | 'exclusive'} */ (isShared ? 'shared' : 'exclusive'),
      ifAvailable: this.#doesNotWait,
      steal,
      limit,
      weight,
      timeout: this.#doesNotWait ? undefined : timeout,
      label: label ?? path.basename(this.#words[0]),
    };
  }

  /** @param {any} lock null: not available */
  async #hold(lock) {
    if (!lock || this.#isOver || this.#signals.haveCome) return;
    this.#ended = this.#command(lock);
    await this.#ended;
  }

  /**
   * @param {any} lock
   * @returns {Promise<Ending>} of the command
   */
  async #command(lock) {
    const [program, ...words] = this.#words;
    const env = {
      ...process.env,
      WEB_LOCKS_NAME: this.#name,
      WEB_LOCKS_TOKEN: String(lock.token),
    };
    let child;
    try {
      child = spawn(program, words, { stdio: 'inherit', env });
    } catch (error) {
      return notStarted(error, program);
    }
    const ended = endOf(child, program);
    if (child.pid === undefined) return ended;
    this.#signals.forwardTo(child);
    const killAfter = this.#values['kill-after'] ?? KILL_AFTER_MS;
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const stop = () => {
      this.#lost(lock.signal.reason);
      child.kill('SIGTERM');
      timer = setTimeout(() => child.kill('SIGKILL'), killAfter);
    };
    if (lock.signal.aborted) stop();
    else lock.signal.addEventListener('abort', stop, { once: true });
    const ending = await ended;
    lock.signal.removeEventListener('abort', stop);
    clearTimeout(timer);
    return ending;
  }

  /** @param {unknown} error why */
  #lost(error) {
    if (this.#isLost) return;
    this.#isLost = true;
    say(`${messageOf(error)} The command is told to end.`);
  }

  /**
   * @param {unknown} error of a request that was not granted
   * @returns {Ending}
   */
  #refused(error) {
    if (!(error instanceof LockTimeoutError)) throw unreachable(error);
    const seconds = this.#values.timeout / 1000;
    const { holders: known, message } = /** @type {any} */ (error);
    const isUnknown = message.endsWith(`(${UNKNOWN_HOLDERS}).`);
    const holders = describeHolders(isUnknown ? undefined : known);
    const name = quoted(this.#name);
    return this.#conflict(`timed out after ${seconds} s waiting for lock ${name} (${holders}).`);
  }

  async #notAvailable() {
    const holders = this.#values.quiet ? '' : await this.#holders();
    return this.#conflict(`lock ${quoted(this.#name)} is not available (${holders}).`);
  }

  /** @returns {Promise<string>} who holds it now, which may be nobody any more */
  async #holders() {
    const asked = this.#place.locks.query({ name: this.#name, details: true });
    try {
      const state = await within(asked, LOOK_MS);
      return describeHolders(state === LATE ? undefined : state.held);
    } catch {
      return describeHolders(undefined);
    }
  }

  /**
   * @param {string} message
   * @returns {Ending}
   */
  #conflict(message) {
    if (!this.#values.quiet) say(message);
    return { status: this.#values['conflict-exit-code'] ?? STATUS.conflict };
  }
}

/**
 * @param {import('node:child_process').ChildProcess} child
 * @param {string} program
 * @returns {Promise<Ending>}
 */
async function endOf(child, program) {
  try {
    const [status, signal] = await once(child, 'exit');
    return signal ? { signal } : { status };
  } catch (error) {
    return notStarted(error, program);
  }
}

/**
 * @param {unknown} error
 * @param {string} program
 * @returns {Ending}
 */
function notStarted(error, program) {
  const { code } = /** @type {NodeJS.ErrnoException} */ (error);
  const isMissing = code === 'ENOENT';
  const why = isMissing ? 'is not found' : `cannot be executed (${code})`;
  say(`the command ${quoted(program)} ${why}.`);
  return { status: isMissing ? STATUS.notFound : STATUS.notExecutable };
}

module.exports = { run };
