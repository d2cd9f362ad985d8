'use strict';

/**
 * Ends the processes that a test started. The hooks of a test run in their order, and a test makes
 * its directory before it starts processes that use it. So the hook that removes the directory ends
 * the processes first: otherwise they might make a file there meanwhile.
 */

const { once } = require('node:events');

/** @type {WeakMap<object, import('node:child_process').ChildProcess[]>} of each test */
const started = new WeakMap();

async function end(child) {
  const runs = child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  if (!runs) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

/** Makes the end of a test kill a process that still runs. */
function endWith(t, child) {
  started.set(t, [...(started.get(t) ?? []), child]);
  t.after(() => end(child));
}

/** Kills all processes of the test; resolves when they have ended. */
const endAll = (t) => Promise.all((started.get(t) ?? []).map(end));

module.exports = { endAll, endWith };
