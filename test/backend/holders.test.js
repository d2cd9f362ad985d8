'use strict';

/** What backends report about the holders of a lock: if unknown, undefined, never an empty list. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { STATUS, addon } = require('../../lib/backend/addon.js');
const { exchange } = require('../../lib/backend/agent.js');
const { HostBackend } = require('../../lib/backend/host.js');
const { NativeBackend } = require('../../lib/backend/native.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const { freshName, hold, nothing, turn, valuesOf } = require('../helpers/locks.js');
const { freshDirectory } = require('../helpers/process.js');
const { memoryBackend } = require('../conformance/memory.js');
const { lacksHost: noHost } = require('../helpers/host-scope.js');

/** Makes a call of the addon return this status until the test ends. */
const failCall = (t, name, status) => t.mock.method(addon, name, () => status);

/** How each backend is made, and how its query of holders is made to fail. */
const backends = {
  native: {
    make: () => new NativeBackend(freshName()),
    fail: (t) => failCall(t, 'holders', addon.NO_MEMORY),
  },
  host: {
    skip: noHost,
    make: (t) => new HostBackend('bucket', freshDirectory(t)),
    fail: (t) => failCall(t, 'holders', addon.NO_MEMORY),
  },
  cluster: {
    make: () => memoryBackend(freshName()),
    fail(t, { adapter }) {
      t.mock.method(adapter, 'query', () => Promise.reject(new Error('no')));
    },
  },
};

const holdersOf = async (backend, name) =>
  await (backend.holders ?? backend.seenHolders ?? backend.askHolders).call(backend, name);

async function setUp(t, make) {
  let backend;
  t.after(() => backend.close());
  backend = make(t);
  await backend.ready;
  const locks = createLockManager(backend);
  const held = await hold(locks, 'a');
  held.released.catch(() => {});
  return { backend, locks };
}

const TIMED_OUT = { name: 'TimeoutError' };

describe('the holders of a lock', () => {
  for (const [kind, { skip, make, fail }] of Object.entries(backends)) {
    describe(kind, { skip }, () => {
      it('are known, also that there is none', async (t) => {
        const { backend } = await setUp(t, make);
        const holders = await holdersOf(backend, 'a');
        assert.deepEqual(valuesOf(holders, 'name', 'mode'), [['a', 'exclusive']]);
        assert.deepEqual(await holdersOf(backend, 'b'), []);
      });

      it('are not known if the question fails, or the backend is closed', async (t) => {
        const { backend, locks } = await setUp(t, make);
        fail(t, backend);
        assert.equal(await holdersOf(backend, 'a'), undefined);
        for (const timeout of [0, 20]) {
          await assert.rejects(locks.request('a', { timeout }, nothing), {
            ...TIMED_OUT,
            message: /holder unknown/,
          });
        }
        t.mock.restoreAll();
        await backend.close();
        assert.equal(await holdersOf(backend, 'a'), undefined);
      });

      it('are asked for once for all whose time limits are reached together', async (t) => {
        const { backend, locks } = await setUp(t, make);
        const method = ['holders', 'seenHolders', 'askHolders'].find((name) => backend[name]);
        const asked = t.mock.method(backend, method);
        const requests = Array.from({ length: 200 }, () =>
          locks.request('a', { timeout: 20 }, () => {}).catch((error) => error),
        );
        await turn();
        // Other time limits are all due when the thread returns to its event loop.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
        const errors = await Promise.all(requests);
        assert.ok(asked.mock.callCount() <= 20, `${asked.mock.callCount()} questions`);
        assert.ok(new Set(errors.map(({ holders }) => holders)).size <= 20);
      });
    });
  }
});

describe('a time-out while the bucket of the host scope opens', { skip: noHost }, () => {
  const isNotOpen = ({ name, message, cause }) => {
    assert.match(message, /\(holder unknown: The storage bucket was not open yet\)/);
    assert.deepEqual([name, cause.errorCode], ['TimeoutError', 'ERR_WEB_LOCKS_SCOPE_NOT_OPEN']);
    return true;
  };

  it('names the holder once it is open', async (t) => {
    const { locks } = await setUp(t, backends.host.make);
    t.mock.method(addon, 'holders', () => addon.LOST, { times: 1 });
    const named = { ...TIMED_OUT, message: /held by/ };
    await assert.rejects(locks.request('a', { timeout: 20 }, nothing), named);
  });

  it('says that it was not open, as ready does if it is closed meanwhile', async (t) => {
    const { backend, locks } = await setUp(t, backends.host.make);
    failCall(t, 'holders', addon.LOST);
    failCall(t, 'hostReady', addon.PENDING);
    await assert.rejects(locks.request('a', { timeout: 20 }, nothing), isNotOpen);
    // It would be a deadlock to wait for one's own lock, so the holder is another thread.
    t.mock.method(addon, 'wait', () => {
      exchange[STATUS] = addon.PENDING;
    });
    assert.throws(() => locks.acquireSync('a', { timeout: 20 }), isNotOpen);
    const isClosed = { name: 'InvalidStateError' };
    await Promise.all([assert.rejects(backend.ready, isClosed), backend.close()]);
  });
});

/** The addon's call that returns the locks of a name, and how a waiter queries them. */
const snapshots = {
  native: { call: 'holders', ask: (backend) => backend.holders('a', true) },
  host: { skip: noHost, call: 'holders', ask: (backend) => backend.seenHolders('a') },
};

for (const [kind, { skip, call, ask }] of Object.entries(snapshots)) {
  it(`the holders leave out a lock whose grant its thread does not know yet: ${kind}`, {
    skip,
  }, async (t) => {
    const backend = backends[kind].make(t);
    t.after(() => backend.close());
    await backend.ready;
    const locks = createLockManager(backend);
    const acquire = () => locks.acquire('a', { mode: 'shared' });
    const [one, other] = [await acquire(), await acquire()];
    const tokens = async () => (await ask(backend))?.map(({ token }) => token);
    // The addon keeps returning its first answer.
    const snapshot = addon[call];
    let first;
    t.mock.method(addon, call, (...given) => {
      first ??= snapshot(...given);
      return first;
    });
    assert.deepEqual(await tokens(), [one.token, other.token]);
    // A lock that the thread has released is left out, too.
    await one.release();
    assert.deepEqual(await tokens(), [other.token]);
    await other.release();
    assert.equal(await tokens(), undefined);
  });
}
