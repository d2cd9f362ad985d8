'use strict';

/** Starts `web-locks` as a shell would, with pipes or in a terminal. */

const { execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const { writeFileSync } = require('node:fs');
const path = require('node:path');
const { endWith } = require('../helpers/ending.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

const root = path.join(__dirname, '..', '..');
const PROGRAM = path.join(root, 'bin', 'web-locks.js');
const TERMINAL = path.join(__dirname, 'terminal.py');

/** Why tests in a terminal cannot run, or false. */
const noTerminal = (() => {
  if (skip) return skip;
  try {
    execFileSync('python3', ['-c', 'import pty, os; os.waitstatus_to_exitcode'], { stdio: 'pipe' });
    return false;
  } catch {
    return 'python3 (3.9 or newer) is not installed, which makes the terminal';
  }
})();

/** What a test does not want from who runs it. */
const CLEAN = {
  WEB_LOCKS_AT: undefined,
  WEB_LOCKS_DIRECTORY: undefined,
  WEB_LOCKS_NAME: undefined,
  WEB_LOCKS_OUTER: undefined,
  WEB_LOCKS_TOKEN: undefined,
  NO_COLOR: undefined,
  TERM: 'xterm',
};

/** A process that runs, and what it has written so far. */
class Command {
  stdout = '';
  stderr = '';
  #wake = () => {};

  /**
   * @param {any} t the test, which kills it at its end
   * @param {string} program
   * @param {string[]} args
   * @param {{ env?: object, cwd?: string }} [options]
   */
  constructor(t, program, args, { env = {}, cwd = root } = {}) {
    this.child = spawn(program, args, { cwd, env: { ...process.env, ...CLEAN, ...env } });
    endWith(t, this.child);
    for (const stream of ['stdout', 'stderr']) {
      this.child[stream].setEncoding('utf8').on('data', (text) => {
        this[stream] += text;
        this.#wake();
      });
    }
    this.child.stdin.on('error', () => {});
    this.pid = this.child.pid;
    this.hasClosed = false;
    /** Resolves to `{ code, signal, stdout, stderr }`. */
    this.ended = (async () => {
      const [code, signal] = await once(this.child, 'close');
      this.hasClosed = true;
      this.#wake();
      return { code, signal, stdout: this.stdout, stderr: this.stderr };
    })();
  }

  /**
   * Waits until what it has written matches.
   * @param {RegExp} pattern
   * @param {'stdout' | 'stderr'} [stream]
   * @returns {Promise<RegExpExecArray>}
   */
  async says(pattern, stream = 'stdout') {
    for (;;) {
      const match = pattern.exec(this[stream]);
      if (match) return match;
      if (this.hasClosed) {
        throw new Error(`ended without ${pattern}:\n${this.stdout}\n${this.stderr}`);
      }
      await new Promise((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** @param {string} text */
  type(text) {
    this.child.stdin.write(text);
  }

  kill(signal) {
    this.child.kill(signal);
  }
}

/** Starts `web-locks` with pipes; `program`: of another copy of the package. */
const start = (t, args, { program = PROGRAM, ...options } = {}) =>
  new Command(t, process.execPath, [program, ...args], options);

/** Runs `web-locks` with pipes, and nothing on stdin. */
function run(t, args, options) {
  const command = start(t, args, options);
  command.child.stdin.end();
  return command.ended;
}

/** Starts a program in a terminal: `web-locks`, if there is none. */
function startInTerminal(t, args, { columns = 80, rows = 24, program, ...options } = {}) {
  const words = program ?? [process.execPath, PROGRAM, ...args];
  return new Command(t, 'python3', [TERMINAL, String(columns), String(rows), ...words], options);
}

/**
 * Has `web-locks` get SIGTERM after its command has ended, before anything else of it runs.
 * @param {string} folder for a file
 * @returns {{ NODE_OPTIONS: string }} of its environment
 */
function signalAfterEnd(folder) {
  const hook = path.join(folder, 'hook.js');
  writeFileSync(
    hook,
    `const { ChildProcess } = require('node:child_process');
    const { emit } = ChildProcess.prototype;
    ChildProcess.prototype.emit = function (event, ...values) {
      const heard = emit.call(this, event, ...values);
      if (event === 'exit') process.emit('SIGTERM', 'SIGTERM');
      return heard;
    };`,
  );
  return { NODE_OPTIONS: `--require ${hook}` };
}

module.exports = {
  Command,
  PROGRAM,
  noTerminal,
  root,
  run,
  signalAfterEnd,
  skip,
  start,
  startInTerminal,
};
