// slow: 2; waits

'use strict';

/**
 * Stack overflows at any place in user calls whose answers come later: everything settles, and no
 * lock stays held. Each method of the library overflows once, at one of its first calls within a
 * user's call.
 */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { STATUS, addon, calls } = require('../../lib/backend/addon.js');
const { AddonBackend } = require('../../lib/backend/addon-backend.js');
const { HostBackend } = require('../../lib/backend/host.js');
const { agent, announcer } = require('../../lib/backend/agent.js');
const { HostBucket } = require('../../lib/backend/host-bucket.js');
const { Jobs } = require('../../lib/backend/jobs.js');
const { PendingReleases } = require('../../lib/backend/pending-releases.js');
const { HandleRequest, HeldRequest } = require('../../lib/extensions/request/lock-handle.js');
const { Request } = require('../../lib/extensions/request/request.js');
const { Deadline } = require('../../lib/extensions/watch/deadline.js');
const { TimeLimits } = require('../../lib/extensions/watch/time-limits.js');
const { Warning } = require('../../lib/extensions/watch/warnings.js');
const { Watch } = require('../../lib/extensions/watch/watch.js');
const { LockRequest } = require('../../lib/standard/lock-request.js');
const { nothing } = require('../helpers/locks.js');
const { freshBucket } = require('../helpers/process.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

/** Milliseconds for the helper to answer deferred calls. If it needs more, less is tested. */
const ANSWERED_MS = [10];
/** For methods that must be called: the next value is tried if the helper was too slow. */
const LONGER_MS = [10, 100, 1_000];
const CALLED = ['release', 'applyEvent', 'releaseInBackend', 'announce', 'addAnswer'];
/** Ends a trial that hangs; it needs far less. */
const HANGS_MS = 10_000;
/** How many calls of a method overflow, one in each trial. */
const MOST_CALLS = 3;

const block = (ms) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

/** @returns {string[]} the names of the methods */
const methodsOf = (prototype) =>
  Object.getOwnPropertyNames(prototype).filter((key) => {
    const { value } = Object.getOwnPropertyDescriptor(prototype, key);
    return key !== 'constructor' && typeof value === 'function';
  });

/** The class of the requests of `acquireAll`, which no module exports. */
async function classOfParts(t) {
  const { locks } = freshBucket(t);
  const { mock } = t.mock.method(AddonBackend.prototype, 'request');
  (await locks.acquireAll(['a'])).release();
  mock.restore();
  return Object.getPrototypeOf(mock.calls[0].arguments[0]);
}

/** Makes one call of a method throw, as if the stack had overflowed, while a user calls. */
class Fault {
  isArmed = false;
  hasFailed = false;
  #calls = 0;

  constructor(prototype, key, at) {
    const fault = this;
    const method = prototype[key];
    prototype[key] = function (...args) {
      if (fault.isArmed && ++fault.#calls === at) {
        fault.hasFailed = true;
        throw new RangeError('Maximum call stack size exceeded');
      }
      return Reflect.apply(method, this, args);
    };
    this.end = () => {
      prototype[key] = method;
    };
  }

  /** Calls a user's function near the end of the stack. */
  call(users) {
    this.isArmed = true;
    try {
      const answer = users();
      answer?.catch?.(nothing);
      return answer;
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      return undefined;
    } finally {
      this.isArmed = false;
    }
  }
}

/** @returns {Promise<Error | undefined>} the reason, if it failed or hangs */
function inTime(promise) {
  const end = new AbortController();
  const hangs = sleep(HANGS_MS, new Error('hangs'), { signal: end.signal }).catch(nothing);
  const failed = promise.then(nothing, (error) => error);
  return Promise.race([failed, hangs]).finally(() => end.abort());
}

/**
 * Makes all kinds of calls near the end of the stack, and waits until all have settled. The helper
 * gets `ms` milliseconds to answer.
 */
async function tryAll(t, fault, ms) {
  const { bucket, locks } = freshBucket(t);
  const near = (users) => fault.call(users);
  const inner = () => locks.request('v', { reentrant: true }, nothing).catch(nothing);
  const handles = await Promise.all(
    ['first', 'second', 'third', 'robbed'].map((name) => locks.acquire(name)),
  );
  const together = await locks.acquireAll(['t', 'u']);
  handles.push(together);
  const [first, second] = handles;
  const controller = new AbortController();
  const { signal } = controller;
  // Calls after a query are answered by events.
  const before = locks.query();
  const asked = [
    () => locks.request('x', nothing),
    () => locks.request('x', { ifAvailable: true }, nothing),
    () => locks.request('first', nothing),
    () => locks.request('second', { signal }, nothing),
    () => locks.request('robbed', { steal: true }, nothing),
    () => locks.requestAll(['p', 'q'], nothing),
    () => locks.request('v', { reentrant: true }, inner),
  ].map(near);
  const given = [
    () => locks.acquire('y', { holdTimeout: 5 }),
    () => locks.acquire('third', { timeout: 500 }),
    () => locks.acquireAll(['r', 's']),
  ].map(near);
  const early = [near(() => first.release())];
  near(() => controller.abort());
  block(ms);
  early.push(near(() => second.release()));
  block(ms);
  for (const users of [() => locks.request('z', nothing), () => together.release()]) near(users);
  block(ms);
  near(() => locks.request('w', nothing));
  const releasing = given.map(async (promise) => (await promise)?.release());
  for (const promise of releasing) promise.catch(nothing);
  const released = handles.map(async (handle) => handle.release());
  const rejected = (await Promise.allSettled([...early, ...released])).filter(
    ({ status }) => status === 'rejected',
  );
  assert.deepEqual(rejected, []);
  await Promise.allSettled([before, ...asked, ...releasing]);
  assert.ok(handles.every((handle) => handle.released !== false));
  assert.deepEqual(await locks.query(), { held: [], pending: [] });
  await bucket.close();
}

describe('the end of the stack, in a call of users of the host scope', { skip }, () => {
  it('leaves nothing held or unsettled, whichever method finds no stack', async (t) => {
    const requests = [LockRequest, Request, HeldRequest, HandleRequest];
    const others = [
      AddonBackend,
      HostBackend,
      HostBucket,
      Jobs,
      PendingReleases,
      Watch,
      TimeLimits,
      Warning,
      Deadline,
    ];
    const owners = [...requests, ...others].map(({ prototype }) => prototype);
    owners.push(...[agent, announcer].map(Object.getPrototypeOf), await classOfParts(t));
    const wrong = [];
    const failed = new Set();
    const alive = setInterval(nothing, HANGS_MS);
    t.after(() => clearInterval(alive));
    for (const owner of owners) {
      for (const key of methodsOf(owner)) {
        for (let at = 1; at <= MOST_CALLS; at++) {
          const tryWith = async (ms) => {
            const fault = new Fault(owner, key, at);
            const error = await inTime(tryAll(t, fault, ms));
            fault.end();
            if (error) wrong.push(`${owner.constructor.name}.${key}, call ${at}: ${error.stack}`);
            return fault.hasFailed;
          };
          const isFirst = CALLED.includes(key) && !failed.has(key);
          const times = [...(isFirst ? LONGER_MS : ANSWERED_MS)];
          while (times.length > 0 && !(await tryWith(times[0]))) times.shift();
          if (times.length === 0) break;
          failed.add(key);
        }
      }
    }
    assert.deepEqual(wrong, []);
    for (const call of CALLED) {
      assert.ok(failed.has(call), `${call} was not called`);
    }
  });

  it('leaves no lock held whose release is put off, and cannot be noted', async (t) => {
    const { locks } = freshBucket(t);
    const handle = await locks.acquire('a');
    const fault = new Fault(PendingReleases.prototype, 'add', 1);
    t.after(() => fault.end());
    // The release is deferred, as if other processes owned the mutex.
    t.mock.method(calls, 'release', () => {
      agent.exchange[STATUS] = addon.PENDING;
    });
    await fault.call(() => handle.release());
    assert.ok(fault.hasFailed);
    assert.equal(handle.released, true);
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });
});
