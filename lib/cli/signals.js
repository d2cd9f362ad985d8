'use strict';

/**
 * Signals of `run`, `once` and `elect`. Before the command starts they end the program; then they
 * are
 * forwarded to the command.
 */

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const { constants } = require('node:os');

const isWindows = process.platform === 'win32';

/**
 * Every signal that ends a process. Missing are those that Node.js ignores (SIGPIPE, SIGXFSZ) or
 * cannot name (real-time signals), and those by which a fault of this program ends it
 * (SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGTRAP, SIGSYS): after a handler the fault would come again,
 * for ever.
 * @type {NodeJS.Signals[]}
 */
const OF_UNIX = [
  'SIGINT',
  'SIGTERM',
  'SIGHUP',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  'SIGABRT',
  'SIGALRM',
  'SIGVTALRM',
  'SIGPROF',
  'SIGXCPU',
];
/** @type {NodeJS.Signals[]} elsewhere they do not exist, or are ignored unless caught */
const OF_LINUX = ['SIGIO', 'SIGPWR', 'SIGSTKFLT'];
/**
 * Ctrl-C, Ctrl-Break, and the end of the console, which comes as SIGHUP and leaves some seconds.
 * @type {NodeJS.Signals[]}
 */
const OF_WINDOWS = ['SIGINT', 'SIGBREAK', 'SIGHUP'];

const CAUGHT = isWindows
  ? OF_WINDOWS
  : [...OF_UNIX, ...(process.platform === 'linux' ? OF_LINUX : [])];
/** @type {NodeJS.Signals[]} a terminal sends these to all processes in its foreground */
const OF_TERMINAL = ['SIGINT', 'SIGQUIT'];
/** @type {NodeJS.Signals[]} these mean only that the process should end */
const ENDING = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGBREAK'];
/** @type {NodeJS.Signals[]} these dump a core, and the core of this process would be useless */
const OF_CORES = [
  'SIGQUIT',
  'SIGILL',
  'SIGTRAP',
  'SIGABRT',
  'SIGBUS',
  'SIGFPE',
  'SIGSEGV',
  'SIGXCPU',
  'SIGXFSZ',
  'SIGSYS',
];

/** On Windows, the exit status after a console event such as Ctrl-C. */
const CONTROL_C_EXIT = 0xc000013a;

/**
 * Whether this process is in the foreground of a terminal. Its command is then, too, and what the
 * keyboard sends comes to both of them.
 */
function isInForeground() {
  try {
    const stat = fs.readFileSync('/proc/self/stat', 'utf8');
    // After the name, which may contain anything: state, parent, group, session, terminal, and
    // the group in its foreground.
    const [, , group, , terminal, foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return terminal !== '0' && group === foreground;
  } catch {
    return isInForegroundBySystem();
  }
}

/** Without /proc, `ps` tells which processes are in the foreground. */
function isInForegroundBySystem() {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', `${process.pid}`], { encoding: 'utf8' });
  return stdout ? stdout.includes('+') : process.stdin.isTTY === true;
}

/**
 * Whether the command has got a signal as well. On Windows a console tells all of its processes,
 * and to send a signal would be to kill.
 * @param {NodeJS.Signals} signal
 */
const comesToBoth = (signal) => isWindows || (OF_TERMINAL.includes(signal) && isInForeground());

class Signals {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  /** @type {NodeJS.Signals | undefined} */
  #first;
  /** The last signal that asked the command to end. @type {NodeJS.Signals | undefined} */
  #lastEnding;
  #give = /** @type {(signal: NodeJS.Signals) => void} */ (() => {});
  /** Resolves to the signal that came before the command started. */
  came = /** @type {Promise<NodeJS.Signals>} */ (
    new Promise((resolve) => {
      this.#give = resolve;
    })
  );

  constructor() {
    for (const signal of CAUGHT) process.on(signal, this.#handle);
  }

  #handle = (/** @type {NodeJS.Signals} */ signal) => {
    if (this.#child) {
      if (ENDING.includes(signal)) this.#lastEnding = signal;
      if (!comesToBoth(signal)) this.#child.kill(signal);
    } else if (this.#first) {
      // The user asks a second time: do not wait for the orderly end.
      dieOf(signal);
    } else {
      this.#first = signal;
      this.#give(signal);
    }
  };

  /** @returns {boolean} whether a signal came before there was a command */
  get haveCome() {
    return this.#first !== undefined;
  }

  /** If the last command was asked to end, the program ends instead of starting another one. */
  repeatLastEnding() {
    if (this.#lastEnding && !this.#child) this.#handle(this.#lastEnding);
  }

  /** @param {import('node:child_process').ChildProcess} child that has them until it ends */
  forwardTo(child) {
    this.#child = child;
    this.#lastEnding = undefined;
    child.once('exit', () => {
      this.#child = undefined;
    });
  }
}

/**
 * Ends this process by a signal, as if it had not been caught; with the status that shells make of
 * it if a signal does not end it (the first process of a container), or if it would leave a core.
 * @param {NodeJS.Signals} signal
 */
function dieOf(signal) {
  process.removeAllListeners(signal);
  if (isWindows) process.exit(CONTROL_C_EXIT);
  if (!OF_CORES.includes(signal)) process.kill(process.pid, signal);
  process.exit(128 + constants.signals[signal]);
}

module.exports = { CAUGHT, Signals, dieOf };
