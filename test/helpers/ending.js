'use strict';

/**
 * Ends the processes that a test started, before anything goes that they use. Hooks of a test are
 * called in their order, and its directory is made before the processes that use it: so who removes it
 * ends them first, as they may make a file there while it is removed.
 */

const { once } = require('node:events');

/** By test: what it has started. @type {WeakMap<object, import('node:child_process').ChildProcess[]>} */
const started = new WeakMap();

/** Kills a process; resolves when it has ended. */
async function end(child) {
  const runs = child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  if (!runs) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

/** Has a process end with the test, at the latest. */
function endWith(t, child) {
  started.set(t, [...(started.get(t) ?? []), child]);
  t.after(() => end(child));
}

/** Kills all processes of the test; resolves when they have ended. */
const endAll = (t) => Promise.all((started.get(t) ?? []).map(end));

module.exports = { endAll, endWith };
