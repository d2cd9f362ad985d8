'use strict';

/**
 * `web-locks/lockfile`: a drop-in replacement for the package proper-lockfile. It takes a host lock
 * on the path of the lock file that proper-lockfile would create, and does not create that file.
 */

const { notAcquiredError, releasedError } = require('./lockfile/errors.js');
const { FileLock, heldHere, isLocked, isLockedSync } = require('./lockfile/file-lock.js');
const { toOptions, toSyncOptions } = require('./lockfile/options.js');
const { placeOf, placeOfSync } = require('./lockfile/path.js');

/** @import { CheckOptions, LockOptions, UnlockOptions } from '../types/lockfile.js' */

/**
 * With `retries`, the request waits in the queue of the lock for as long as the retries would take.
 * @param {string} file @param {LockOptions} [options]
 * @returns {Promise<() => Promise<void>>} releases the lock; rejects with the code `ERELEASED` if
 *   the lock was already released or lost
 */
async function lock(file, options) {
  const given = toOptions(options);
  const place = await placeOf(file, given, true);
  const held = new FileLock(place, given);
  await held.take();
  return async () => {
    if (!held.unregister()) throw releasedError(place.file);
    await held.end();
  };
}

/** @param {string} file @param {LockOptions} [options] without `retries` @returns {() => void} */
function lockSync(file, options) {
  const given = toSyncOptions(options);
  const place = placeOfSync(file, given, true);
  const held = new FileLock(place, given);
  held.takeSync();
  return () => {
    if (!held.unregister()) throw releasedError(place.file);
    held.endSync();
  };
}

/** Releases a lock of this thread. @param {string} file @param {UnlockOptions} [options] */
async function unlock(file, options) {
  const place = await placeOf(file, toOptions(options), false);
  const held = heldHere(place);
  if (!held?.unregister()) throw notAcquiredError(place.file);
  await held.end();
}

/** @param {string} file @param {UnlockOptions} [options] */
function unlockSync(file, options) {
  const place = placeOfSync(file, toSyncOptions(options), false);
  const held = heldHere(place);
  if (!held?.unregister()) throw notAcquiredError(place.file);
  held.endSync();
}

/** Asks whether anybody holds the lock. @param {string} file @param {CheckOptions} [options] */
async function check(file, options) {
  return await isLocked(await placeOf(file, toOptions(options), false));
}

/** @param {string} file @param {CheckOptions} [options] */
function checkSync(file, options) {
  return isLockedSync(placeOfSync(file, toSyncOptions(options), false));
}

module.exports = Object.assign(lock, { lock, unlock, check, lockSync, unlockSync, checkSync });
