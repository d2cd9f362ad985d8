'use strict';

/** Runs programs that may hang or leave processes behind because of a defect. */

const { execFileSync, spawn } = require('node:child_process');

/** The number of characters of the output that are kept. */
const KEPT = 20_000;

/**
 * @typedef {object} End
 * @property {'passed' | 'failed' | 'hung'} how
 * @property {string} output the end of the output
 * @property {string} said how it ended, and its last line; '' if it passed
 */

/**
 * Runs a program until it ends or its time is over, and then ends all processes that it started.
 * @param {string} command
 * @param {string[]} args
 * @param {object} options
 * @param {string} options.cwd
 * @param {NodeJS.ProcessEnv} options.env
 * @param {number} options.limit milliseconds
 */
function runProgram(command, args, { cwd, env, limit }) {
  return new Promise((resolve) => {
    const stdio = /** @type {const} */ (['ignore', 'pipe', 'pipe']);
    const child = spawn(command, args, { cwd, env, stdio, detached: true });
    let output = '';
    let isOver = false;
    /** @param {End['how']} how @param {string} said */
    const end = (how, said) => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      endAll(child.pid);
      running.delete(child);
      resolve({ how, output, said });
    };
    const timer = setTimeout(() => end('hung', ''), limit);
    /** @param {Buffer} chunk */
    const read = (chunk) => {
      output = (output + chunk).slice(-KEPT);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.on('error', (error) => end('failed', String(error)));
    // The output may still be in the pipes, but processes that keep the pipes open may live on, so
    // it waits only a moment.
    child.on('exit', (code, signal) => {
      const how = code === 0 ? 'passed' : 'failed';
      const last = output.trim().split('\n').at(-1);
      const said = code === 0 ? '' : `ended with ${signal ?? code}: ${last}`;
      setTimeout(() => end(how, said), 1000).unref();
      child.on('close', () => end(how, said));
    });
    running.add(child);
  });
}

/** @type {Set<import('node:child_process').ChildProcess>} */
const running = new Set();

/** Ends all running programs and the processes that they started. */
function endRunning() {
  for (const { pid } of running) endAll(pid);
}

/**
 * Ends the leader of a process group, its group, and all descendants, which may have groups of
 * their own.
 * @param {number | undefined} pid
 */
function endAll(pid) {
  if (pid === undefined) return;
  for (const one of [...descendantsOf(pid), -pid, pid]) {
    try {
      process.kill(one, 'SIGKILL');
    } catch {
      // The process has ended.
    }
  }
}

/** @param {number} pid @returns {number[]} all descendants of the process */
function descendantsOf(pid) {
  const rows = String(execFileSync('ps', ['-A', '-o', 'pid=,ppid=']))
    .trim()
    .split('\n')
    .map((row) => row.trim().split(/\s+/).map(Number));
  const found = [pid];
  for (const parent of found) {
    for (const [child, of] of rows) if (of === parent) found.push(child);
  }
  return found.slice(1);
}

module.exports = { endRunning, runProgram };
