/** The common part of the benches with a server. */

const { fork } = require('node:child_process');
const { once } = require('node:events');

const ms = () => Number(process.hrtime.bigint()) / 1e6;
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** @returns {number} a quantile, also of few values; NaN if there are none */
const rank = (values, part) =>
  values.sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] ??
  Number.NaN;

const row = (what, text) => console.log(`  ${what.padEnd(16)} ${text}`);

/** The error if a process of a bench dies. */
const diedError = (file, code, signal) =>
  new Error(`a process of ${file} ended with ${signal ?? code}: see what it wrote`);

/**
 * Starts a process that communicates by messages.
 * @returns {{ next: () => Promise<any>, send: (message: any) => void, exited: Promise<void> }}
 *   both promises reject if it fails
 */
function startProcess(file, args) {
  const child = fork(file, args);
  const exited = once(child, 'exit').then(([code, signal]) => {
    if (code !== 0) throw diedError(file, code, signal);
  });
  exited.catch(() => {});
  const isOver = exited.then(() => {
    throw new Error(`a process of ${file} ended too early`);
  });
  isOver.catch(() => {});
  return {
    exited,
    next: async () => (await Promise.race([once(child, 'message'), isOver]))[0],
    send: (message) => child.send(message),
    kill: (signal) => child.kill(signal),
  };
}

module.exports = { ms, rank, row, startProcess, wait };
