'use strict';

/** Starts `web-locks` like a shell, with pipes or in a terminal. */

const assert = require('node:assert/strict');
const { execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const { existsSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { endWith } = require('../helpers/ending.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');
const { freshBucket } = require('../helpers/process.js');

const root = path.join(__dirname, '..', '..');
const PROGRAM = path.join(root, 'bin', 'web-locks.js');
const TERMINAL = path.join(__dirname, 'terminal.py');
/** A version manager's shim for it would take longer than the tests. */
const PYTHON = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3';

/** The reason why tests in a terminal cannot run, or false. */
const noTerminal = (() => {
  if (skip) return skip;
  try {
    execFileSync(PYTHON, ['-c', 'import pty, os; os.waitstatus_to_exitcode'], { stdio: 'pipe' });
    return false;
  } catch {
    return 'python3 (3.9 or newer) is not installed, which makes the terminal';
  }
})();

/** A command that prints a line when it runs, and ends when a line is typed. */
const UNTIL_LINE = ['--', 'sh', '-c', 'echo runs; read line; echo ends'];

const UNSET = 'AT DIRECTORY NAME OUTER TOKEN'.split(' ').map((name) => [`WEB_LOCKS_${name}`]);
/** Removes the variables that would affect a test. */
const CLEAN = { ...Object.fromEntries(UNSET), NO_COLOR: undefined, TERM: 'xterm' };

/** A running process and its output so far. The end of the test `t` kills it. */
class Command {
  stdout = '';
  stderr = '';
  hasClosed = false;
  #wake = () => {};

  /** @param {{ env?: object, cwd?: string }} [options] */
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
    /** Resolves to `{ code, signal, stdout, stderr }`. */
    this.ended = once(this.child, 'close').then(([code, signal]) => {
      this.hasClosed = true;
      this.#wake();
      return { code, signal, stdout: this.stdout, stderr: this.stderr };
    });
  }

  /** Waits until the output on a stream matches. @returns {Promise<RegExpExecArray>} */
  async says(pattern, stream = 'stdout') {
    for (;;) {
      const match = pattern.exec(this[stream]);
      if (match) return match;
      if (this.hasClosed)
        throw new Error(`ended without ${pattern}:\n${this.stdout}\n${this.stderr}`);
      await new Promise((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  type(text) {
    this.child.stdin.write(text);
  }

  /** Types a line, and checks the status with which the process ends. */
  async endsAfter(line, code = 0) {
    this.type(`${line}\n`);
    assert.equal((await this.ended).code, code);
  }

  kill(signal) {
    this.child.kill(signal);
  }
}

/** Starts `web-locks` with pipes. `program` belongs to another copy of the package. */
const start = (t, args, { program = PROGRAM, ...options } = {}) =>
  new Command(t, process.execPath, [program, ...args], options);

/** Runs `web-locks` with pipes and empty standard input. */
function run(t, args, options) {
  const command = start(t, args, options);
  command.child.stdin.end();
  return command.ended;
}

/** Starts `program` in a terminal, or `web-locks` without one. */
function startInTerminal(t, args, { columns = 80, rows = 24, program, ...options } = {}) {
  const words = program ?? [process.execPath, PROGRAM, ...args];
  return new Command(t, PYTHON, [TERMINAL, String(columns), String(rows), ...words], options);
}

/**
 * Makes a bucket for this test, and functions that run `web-locks` in it. They take words: the
 * first text is split at its spaces, others are one word each; options come last.
 */
function setUp(t, name) {
  const { locks, where } = freshBucket(t, name);
  const at = ['--directory', where.directory, '--bucket', where.bucket];
  const withWords =
    (begin) =>
    (text, ...more) => {
      const options = typeof more.at(-1) === 'object' ? more.pop() : {};
      const [command, ...words] = text.split(' ');
      return begin(t, [command, ...at, ...words, ...more], options);
    };
  return {
    locks,
    directory: where.directory,
    bucket: where.bucket,
    at,
    start: withWords(start),
    run: withWords(run),
    inTerminal: withWords(startInTerminal),
  };
}

/** Compares parts of the outcome of a command; a stream may be compared with an expression. */
function check(ending, expected, message) {
  for (const [key, value] of Object.entries(expected)) {
    if (value instanceof RegExp) assert.match(ending[key], value, message);
    else assert.equal(ending[key], value, message ?? `${key}: ${ending.stderr}`);
  }
}

/**
 * Makes something happen in `web-locks` after its command has ended, before it runs any other code.
 * @param {string} folder for a file
 * @param {string} [what] code of what happens; SIGTERM by default
 * @returns {{ NODE_OPTIONS: string }} environment variables
 */
function afterEnd(folder, what = "process.emit('SIGTERM', 'SIGTERM')") {
  const hook = path.join(folder, 'hook.js');
  writeFileSync(
    hook,
    `const { ChildProcess, spawnSync } = require('node:child_process');
    const { emit } = ChildProcess.prototype;
    ChildProcess.prototype.emit = function (event, ...values) {
      const heard = emit.call(this, event, ...values);
      if (event === 'exit') ${what};
      return heard;
    };`,
  );
  return { NODE_OPTIONS: `--require ${hook}` };
}

module.exports = {
  ...{ Command, PROGRAM, UNTIL_LINE, check, noTerminal, root, run, setUp, afterEnd, skip },
  ...{ start, startInTerminal },
};
