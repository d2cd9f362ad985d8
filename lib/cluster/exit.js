'use strict';

/**
 * Closes what is open when a thread has nothing more to do: its locks go on at once, and not when
 * the lease has run out.
 */

const process = require('node:process');

/** @type {Set<{ close(): Promise<void> }>} */
const open = new Set();

function closeAll() {
  for (const one of open) one.close();
}

/** @param {{ close(): Promise<void> }} one */
function closeAtExit(one) {
  if (open.size === 0) process.on('beforeExit', closeAll);
  open.add(one);
}

/** @param {{ close(): Promise<void> }} one */
function doNotCloseAtExit(one) {
  open.delete(one);
  if (open.size === 0) process.off('beforeExit', closeAll);
}

module.exports = { closeAtExit, doNotCloseAtExit };
