'use strict';

/** Starts `web-locks` as a shell would, with pipes or in a terminal. */

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
/** A version manager's shim in front of it takes longer than the tests. */
const PYTHON = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3';

/** Why tests in a terminal cannot run, or false. */
const noTerminal = (() => {
  if (skip) return skip;
  try {
    execFileSync(PYTHON, ['-c', 'import pty, os; os.waitstatus_to_exitcode'], { stdio: 'pipe' });
    return false;
  } catch {
    return 'python3 (3.9 or newer) is not installed, which makes the terminal';
  }
})();

/** A command that says that it runs, and ends when a line is typed. */
const UNTIL_LINE = ['--', 'sh', '-c', 'echo runs; read line; echo ends'];

const UNSET = 'AT DIRECTORY NAME OUTER TOKEN'.split(' ').map((name) => [`WEB_LOCKS_${name}`]);
/** What a test does not want from the environment of whoever runs it. */
const CLEAN = { ...Object.fromEntries(UNSET), NO_COLOR: undefined, TERM: 'xterm' };

/** A process that runs, and what it has written so far. It is killed at the end of the test `t`. */
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

  /** Waits until what it has written to a stream matches. @returns {Promise<RegExpExecArray>} */
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

  /** Types a line, and waits for the end, which is to have this status. */
  async endsAfter(line, code = 0) {
    this.type(`${line}\n`);
    assert.equal((await this.ended).code, code);
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
  return new Command(t, PYTHON, [TERMINAL, String(columns), String(rows), ...words], options);
}

/**
 * A bucket of this test alone, and `web-locks` in it. Calls take words: the first text is cut at its
 * spaces, others are one word each; options come last.
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

/** Compares a part of how a command has ended; a stream can be compared with an expression. */
function check(ending, expected, message) {
  for (const [key, value] of Object.entries(expected)) {
    if (value instanceof RegExp) assert.match(ending[key], value, message);
    else assert.equal(ending[key], value, message ?? `${key}: ${ending.stderr}`);
  }
}

/**
 * Has something happen to `web-locks` after its command has ended, before anything else of it runs.
 * @param {string} folder for a file
 * @param {string} [what] the code of what happens; a signal, if there is none
 * @returns {{ NODE_OPTIONS: string }} of its environment
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
