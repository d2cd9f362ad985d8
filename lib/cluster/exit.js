'use strict';

/**
 * Closes open backends when a thread has nothing more to do, or when a signal is about to end the
 * process. Then waiters get the thread's locks at once, and not only when the lease expires. A
 * thread may end while it holds a lock, and that is no error. So losses are reported only if the
 * thread continues to run after all.
 */

const process = require('node:process');
const { doBeforeSignals, doNotBeforeSignals } = require('../platform/signals.js');

/** @typedef {{ closeQuietly(): Promise<void> }} Closable */
/** @typedef {{ signals: readonly NodeJS.Signals[], work: () => Promise<void> }} AtSignals */

/** @type {Map<Closable, AtSignals>} */
const open = new Map();

function closeAll() {
  for (const one of open.keys()) one.closeQuietly();
}

/** @param {Closable} one @param {readonly NodeJS.Signals[]} signals at which it is closed, too */
function closeAtExit(one, signals) {
  const work = () => one.closeQuietly();
  if (open.size === 0) process.on('beforeExit', closeAll);
  open.set(one, { signals, work });
  doBeforeSignals(signals, work);
}

/** @param {Closable} one */
function doNotCloseAtExit(one) {
  const atSignals = open.get(one);
  if (!atSignals) return;
  open.delete(one);
  doNotBeforeSignals(atSignals.signals, atSignals.work);
  if (open.size === 0) process.off('beforeExit', closeAll);
}

module.exports = { closeAtExit, doNotCloseAtExit };
