'use strict';

/** Work that is done before a signal ends the process. Signals reach only the main thread. */

const { constants } = require('node:os');
const process = require('node:process');
const { Promise, report, setTimeout } = require('./intrinsics.js');

/**
 * Must not throw; called at each signal. If `isHandled`, the program has a listener of its own,
 * which decides whether the process ends.
 * @typedef {(isHandled: boolean) => void | Promise<void>} Work
 */

/** The signal takes effect after this many milliseconds, even if the work is not done. */
const LONGEST = 1000;

/** @type {Map<string, Set<Work>>} */
const works = new Map();

/**
 * Does the work. If the program has no listener of its own, the signal then takes effect.
 * @param {NodeJS.Signals} signal
 */
function handleSignal(signal) {
  const isHandled = process.listenerCount(signal) > 1;
  // If the user sends the signal again, it must take effect at once.
  if (!isHandled) process.off(signal, handleSignal);
  const ends = [...(works.get(signal) ?? [])].map((work) => work(isHandled));
  if (isHandled) return;
  const late = new Promise((resolve) => setTimeout(resolve, LONGEST));
  Promise.race([Promise.allSettled(ends), late]).then(() => endBy(signal));
}

/** Lets a signal have its default effect. @param {NodeJS.Signals} signal */
function endBy(signal) {
  try {
    process.kill(process.pid, signal);
  } catch (error) {
    // Windows cannot send every signal that it reports.
    report(error);
    process.exit(128 + constants.signals[signal]);
  }
}

/**
 * The work starts before the program's listeners run. If the program has none, the signal takes
 * effect when the work is done.
 * @param {readonly NodeJS.Signals[]} signals @param {Work} work
 */
function doBeforeSignals(signals, work) {
  for (const signal of signals) {
    const those = works.get(signal) ?? new Set();
    if (those.size === 0) process.prependListener(signal, handleSignal);
    works.set(signal, those.add(work));
  }
}

/** Undoes `doBeforeSignals`. @param {readonly NodeJS.Signals[]} signals @param {Work} work */
function doNotBeforeSignals(signals, work) {
  for (const signal of signals) {
    const those = works.get(signal);
    if (those?.delete(work) && those.size === 0) process.off(signal, handleSignal);
  }
}

/** Whether a process can handle it. @param {unknown} name @returns {name is NodeJS.Signals} */
const isSignal = (name) =>
  typeof name === 'string' &&
  Object.hasOwn(constants.signals, name) &&
  name !== 'SIGKILL' &&
  name !== 'SIGSTOP';

module.exports = { doBeforeSignals, doNotBeforeSignals, isSignal };
