'use strict';

/** The command of `run`, `once` and `elect`. It gets SIGTERM, then SIGKILL, if the lock is lost. */

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const process = require('node:process');
const {
  endProcessGroup,
  keepProcessGroup,
  signalThatEndedChild,
  watchChild,
} = require('./process-group.js');
const { environment } = require('./environment.js');
const { appendEnclosing } = require('./nesting.js');
const { messageOf } = require('./bucket.js');
const { DESCRIPTOR, Publisher, VARIABLE } = require('./publishing.js');
const { quoted } = require('./format.js');
const { STATUS, say } = require('./status.js');

/** @typedef {import('./status.js').Ending} Ending */

const KILL_AFTER_MS = 5000;

class Command {
  #name;
  #words;
  #killAfter;
  #publishes;
  #signals;
  /** Set once the lock was lost and the reason was printed. */
  isLost = false;

  /**
   * @param {import('./arguments.js').ParsedCommand} request
   * @param {InstanceType<typeof import('./signals.js').Signals>} signals
   */
  constructor({ name, words, values }, signals) {
    this.#name = /** @type {string} */ (name);
    this.#words = words;
    this.#killAfter = values['kill-after'] ?? KILL_AFTER_MS;
    this.#publishes = values.publish === true;
    this.#signals = signals;
  }

  /**
   * Runs the command to its end. If the lock is lost, ends it: with SIGTERM, and later SIGKILL.
   * @param {{ token: bigint, signal: AbortSignal, publish(value: unknown): Promise<boolean> }} lock
   * @returns {Promise<Ending>}
   */
  async run(lock) {
    const [program, ...words] = this.#words;
    let child;
    keepProcessGroup(true);
    try {
      child = spawn(program, words, { stdio: this.#streams(), env: this.#environment(lock) });
    } catch (error) {
      return reportNotStarted(error, program);
    }
    const ended = waitForEnd(child, program);
    if (child.pid === undefined) return ended;
    const pipe = /** @type {any} */ (child.stdio[DESCRIPTOR]);
    const publisher = pipe && new Publisher(pipe, lock);
    watchChild(child.pid);
    this.#signals.forwardTo(child);
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const stop = () => {
      publisher?.stop();
      this.reportLoss(lock.signal.reason, ' The command gets SIGTERM.');
      endProcessGroup();
      child.kill('SIGTERM');
      timer = setTimeout(() => child.kill('SIGKILL'), this.#killAfter);
    };
    if (lock.signal.aborted) stop();
    else lock.signal.addEventListener('abort', stop, { once: true });
    const ending = await ended;
    lock.signal.removeEventListener('abort', stop);
    clearTimeout(timer);
    if (publisher) await publisher.close();
    if (!this.isLost) keepProcessGroup(false);
    return ending;
  }

  /** @returns {import('node:child_process').StdioOptions} */
  #streams() {
    /** @type {('inherit' | 'pipe')[]} */
    const streams = ['inherit', 'inherit', 'inherit'];
    if (this.#publishes) streams[DESCRIPTOR] = 'pipe';
    return streams;
  }

  /** @param {{ token: bigint }} lock */
  #environment({ token }) {
    return {
      ...environment,
      // Descriptors of an enclosing web-locks command are not passed on.
      [VARIABLE]: this.#publishes ? String(DESCRIPTOR) : undefined,
      WEB_LOCKS_NAME: this.#name,
      WEB_LOCKS_TOKEN: String(token),
      WEB_LOCKS_OUTER: appendEnclosing(environment, token),
    };
  }

  /**
   * Sets `isLost` and prints the reason. A repeated call does nothing.
   * @param {unknown} error @param {string} [more]
   */
  reportLoss(error, more = '') {
    if (this.isLost) return;
    this.isLost = true;
    say(messageOf(error) + more);
  }
}

/**
 * Resolves to how the program ends, and reports a child that did not start.
 * @param {import('node:child_process').ChildProcess} child @param {string} program
 * @returns {Promise<Ending>}
 */
async function waitForEnd(child, program) {
  try {
    const [status, signal] = await once(child, 'exit');
    if (signal) return { signal };
    const unnamed = signalThatEndedChild();
    return { status: unnamed > 0 ? 128 + unnamed : status };
  } catch (error) {
    return reportNotStarted(error, program);
  }
}

/** Returns how the program ends. @param {unknown} error @param {string} program */
function reportNotStarted(error, program) {
  const { code } = /** @type {NodeJS.ErrnoException} */ (error);
  const isMissing = code === 'ENOENT' || program === '';
  const why = isMissing ? 'was not found' : `cannot be executed (${code})`;
  // On Windows, npm and similar programs are batch files, which Node.js starts only in a shell.
  const hint = process.platform === 'win32' ? ' If it is a batch file, use cmd: -- cmd /c …' : '';
  say(`the command ${quoted(program)} ${why}.${hint}`);
  return { status: isMissing ? STATUS.notFound : STATUS.notExecutable };
}

module.exports = { Command };
