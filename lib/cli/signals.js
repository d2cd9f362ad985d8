'use strict';

/**
 * Forwards signals to the command of `run`, `once` and `elect`. A signal that arrives while no
 * command is running ends the program.
 */

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const { constants } = require('node:os');

const isWindows = process.platform === 'win32';

/**
 * Every signal that ends a process and can be caught, except those that Node.js ignores (SIGPIPE,
 * SIGXFSZ) or cannot name (real-time signals). SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGTRAP and SIGSYS
 * are left out as well: the fault that they report would occur again after the handler, forever.
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
/** Other systems lack these signals, or ignore them by default. @type {NodeJS.Signals[]} */
const OF_LINUX = ['SIGIO', 'SIGPWR', 'SIGSTKFLT'];
/** SIGHUP means that the console was closed; Windows soon kills us. @type {NodeJS.Signals[]} */
const OF_WINDOWS = ['SIGINT', 'SIGBREAK', 'SIGHUP'];

const CAUGHT = isWindows
  ? OF_WINDOWS
  : [...OF_UNIX, ...(process.platform === 'linux' ? OF_LINUX : [])];
/** A terminal sends these to all processes in its foreground. @type {NodeJS.Signals[]} */
const OF_TERMINAL = ['SIGINT', 'SIGQUIT'];
/** Signals with which users ask a process to end. @type {NodeJS.Signals[]} */
const ENDING = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGBREAK'];
/** Signals that dump a core, which would be useless here. @type {NodeJS.Signals[]} */
const CORE_DUMP_SIGNALS = [
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

/** Whether this process, and so its command, is in the foreground of the terminal. */
function isInForeground() {
  try {
    const stat = fs.readFileSync('/proc/self/stat', 'utf8');
    // The fields after the name, which may contain anything: state, parent, group, session,
    // terminal, and the terminal's foreground group.
    const [, , group, , terminal, foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return terminal !== '0' && group === foreground;
  } catch {
    return isInForegroundBySystem();
  }
}

/** For systems without /proc: `ps` marks the processes in the foreground with a `+`. */
function isInForegroundBySystem() {
  const { stdout } = spawnSync('ps', ['-o', 'stat=', '-p', `${process.pid}`], { encoding: 'utf8' });
  return stdout ? stdout.includes('+') : process.stdin.isTTY === true;
}

/**
 * Whether the signal must not be forwarded, because the command has received it as well. On
 * Windows, the console notifies all of its processes. (Node.js cannot forward there: it would kill
 * the command.)
 * @param {NodeJS.Signals} signal
 */
const reachesCommandToo = (signal) =>
  isWindows || (OF_TERMINAL.includes(signal) && isInForeground());

class Signals {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  #child;
  /** @type {NodeJS.Signals | undefined} */
  #first;
  /** The last signal that asked the command to end. @type {NodeJS.Signals | undefined} */
  #lastEnding;
  #resolveFirstSignal = /** @type {(signal: NodeJS.Signals) => void} */ (() => {});
  /** Resolves to the first signal that arrives while no command is running. */
  firstSignal = /** @type {Promise<NodeJS.Signals>} */ (
    new Promise((resolve) => {
      this.#resolveFirstSignal = resolve;
    })
  );

  constructor() {
    for (const signal of CAUGHT) process.on(signal, this.#handle);
  }

  /** If no command is running, the second signal ends the process at once. */
  #handle = (/** @type {NodeJS.Signals} */ signal) => {
    if (this.#child) {
      if (ENDING.includes(signal)) this.#lastEnding = signal;
      if (!reachesCommandToo(signal)) this.#child.kill(signal);
    } else if (this.#first) {
      // A second signal means that the user does not want to wait for an orderly end.
      endBySignal(signal);
    } else {
      this.#first = signal;
      this.#resolveFirstSignal(signal);
    }
  };

  /** Whether a signal arrived while no command was running. */
  get hasFirstSignal() {
    return this.#first !== undefined;
  }

  /** If the last command was asked to end, the program ends instead of starting another one. */
  repeatLastEnding() {
    if (this.#lastEnding && !this.#child) this.#handle(this.#lastEnding);
  }

  /** @param {import('node:child_process').ChildProcess} child receives the signals until it ends */
  forwardTo(child) {
    this.#child = child;
    this.#lastEnding = undefined;
    child.once('exit', () => {
      this.#child = undefined;
    });
  }
}

/**
 * Ends this process as if the signal had not been caught. If the signal would dump a core, or does
 * not end the process (because it is the first process of a container), the process exits with the
 * status that shells report for the signal.
 * @param {NodeJS.Signals} signal
 */
function endBySignal(signal) {
  process.removeAllListeners(signal);
  if (isWindows) process.exit(CONTROL_C_EXIT);
  if (!CORE_DUMP_SIGNALS.includes(signal)) process.kill(process.pid, signal);
  process.exit(128 + constants.signals[signal]);
}

module.exports = { CAUGHT, Signals, endBySignal };
