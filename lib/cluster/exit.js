'use strict';

/**
 * Closes what is open when a thread has nothing more to do: its locks go to the next waiters at
 * once, and not when the lease has run out. It is no error that a thread ends while it holds a
 * lock, so the loss of a lock is told only if the thread goes on after all.
 */

const process = require('node:process');

/** @typedef {{ closeQuietly(): Promise<void> }} Closable */

/** @type {Set<Closable>} */
const open = new Set();

function closeAll() {
  for (const one of open) one.closeQuietly();
}

/** @param {Closable} one */
function closeAtExit(one) {
  if (open.size === 0) process.on('beforeExit', closeAll);
  open.add(one);
}

/** @param {Closable} one */
function doNotCloseAtExit(one) {
  open.delete(one);
  if (open.size === 0) process.off('beforeExit', closeAll);
}

module.exports = { closeAtExit, doNotCloseAtExit };
