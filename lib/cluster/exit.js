'use strict';

/**
 * Closes open backends when a thread has nothing more to do. Then waiters get the thread's locks at
 * once, and not only when the lease expires. A thread is allowed to end while it holds a lock, so
 * losses are reported only if the thread continues to run after all.
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
