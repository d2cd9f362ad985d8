'use strict';

/**
 * Closes what is open when a thread has nothing more to do: its locks go on at once, and not when
 * the lease has run out. Nobody is told that he has lost one, unless the thread goes on after all:
 * that it ends while it holds a lock is no error.
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
