'use strict';

/** Helpers of most tests. They wait for events, never for a time. */

const assert = require('node:assert/strict');
const { randomUUID } = require('node:crypto');
const { threadId } = require('node:worker_threads');
if (!process.env.WEB_LOCKS_TEST_UNGUARDED) require('./applying.js');

let names = 0;

/** A resource name that no other test uses. */
const freshName = (title = 'resource') => `${title} ${threadId}.${++names} ${randomUUID()}`;

/** Callbacks: one does nothing, and one must not be called. */
const nothing = () => {};
const notCalled = () => assert.fail('the callback was called');

/** Resolves to the reason for which a promise rejects. */
const rejectionOf = (promise) => promise.then(assert.fail, (reason) => reason);

/** The values of one field of each entry, or lists of the values of several fields. */
const valuesOf = (entries, ...keys) =>
  entries.map((entry) => (keys.length > 1 ? keys.map((key) => entry[key]) : entry[keys[0]]));

/** A promise with its functions. */
function deferred() {
  let resolve, reject;
  const promise = new Promise((...functions) => {
    [resolve, reject] = functions;
  });
  return { promise, resolve, reject };
}

/**
 * Requests a lock and waits until it is granted.
 * @returns an object with the `lock`; `release()` and `fail(reason)`, which end the callback;
 *   `released`, what request() returned. `release` resolves when the released promise has settled
 */
async function hold(locks, name, options = {}) {
  const granted = deferred();
  const waiting = deferred();
  const released = locks.request(name, options, (lock) => {
    granted.resolve(lock);
    return waiting.promise;
  });
  released.catch(granted.reject);
  return {
    lock: await granted.promise,
    released,
    release(value) {
      waiting.resolve(value);
      return released.catch(() => {});
    },
    fail: waiting.reject,
  };
}

/** The entries of a snapshot that concern `name`, as `{ held: [mode…], pending: [mode…] }`. */
async function stateOf(locks, name) {
  const { held, pending } = await locks.query();
  // Array.from: the arrays may be those of another realm.
  const of = (infos) => Array.from(infos).filter((info) => info.name === name);
  const modes = (infos) => of(infos).map((info) => info.mode);
  return { held: modes(held), pending: modes(pending) };
}

const FREE = { held: [], pending: [] };
const HELD = { held: ['exclusive'], pending: [] };

/** Waits for everything that is due in this thread: microtasks, then a turn of the event loop. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

/**
 * Resolves to the error of a request that times out, once it lists the holders: a busy thread may
 * have had no time to query them.
 * @param {() => Promise<unknown>} ask
 */
async function timedOut(ask) {
  for (let attempts = 5; ; attempts--) {
    const error = await rejectionOf(ask());
    if (attempts === 1 || error.holders?.length !== 0) return error;
  }
}

module.exports = {
  FREE,
  HELD,
  deferred,
  freshName,
  hold,
  notCalled,
  nothing,
  rejectionOf,
  stateOf,
  timedOut,
  turn,
  valuesOf,
};
