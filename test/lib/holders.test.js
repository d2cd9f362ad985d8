'use strict';

/** What backends say of who holds a lock: undefined where that is not known, and never that nobody does. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { setImmediate: nextTurn, setTimeout: sleep } = require('node:timers/promises');
const { addon } = require('../../lib/backend/addon.js');
const { HostBackend } = require('../../lib/backend/host.js');
const { NativeBackend } = require('../../lib/backend/native.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const { freshName, hold, nothing, valuesOf } = require('../helpers/locks.js');
const { freshDirectory } = require('../helpers/process.js');
const late = require('../conformance/late.js');
const { memoryBackend } = require('../conformance/memory.js');
const { lacksHost: noHost } = require('../helpers/host-scope.js');

/** Has calls of the addon answer with this status instead, until the test ends. */
function failCalls(t, names, status) {
  for (const name of names) t.mock.method(addon, name, () => status);
}

/**
 * Each backend: how it is made, and how its question about holders is made to fail.
 */
const backends = {
  native: {
    make: () => new NativeBackend(freshName()),
    fail: (t) => failCalls(t, ['snapshotOf'], addon.WLK_NO_MEMORY),
  },
  late: {
    make: () => new late.LateBackend(freshName()),
    fail: (t) => failCalls(t, ['snapshotOf'], addon.WLK_NO_MEMORY),
  },
  host: {
    skip: noHost,
    make: (t) => new HostBackend('bucket', freshDirectory(t)),
    fail: (t) => failCalls(t, ['hostHolders'], addon.WLH_NO_MEMORY),
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

describe('who holds a lock', () => {
  for (const [kind, { skip, make, fail }] of Object.entries(backends)) {
    describe(kind, { skip }, () => {
      it('is known, and that nobody does', async (t) => {
        const { backend } = await setUp(t, make);
        const holders = await holdersOf(backend, 'a');
        assert.deepEqual(valuesOf(holders, 'name', 'mode'), [['a', 'exclusive']]);
        assert.deepEqual(await holdersOf(backend, 'b'), []);
      });

      it('is not known where the question fails', async (t) => {
        const { backend, locks } = await setUp(t, make);
        fail(t, backend);
        assert.equal(await holdersOf(backend, 'a'), undefined);
        await assert.rejects(locks.request('a', { timeout: 0 }, nothing), {
          name: 'TimeoutError',
          message: /holder unknown/,
        });
        await assert.rejects(locks.request('a', { timeout: 20 }, nothing), {
          name: 'TimeoutError',
          message: /holder unknown/,
        });
      });

      it('is not known where the backend is closed', async (t) => {
        const { backend } = await setUp(t, make);
        await backend.close();
        assert.equal(await holdersOf(backend, 'a'), undefined);
      });

      it('is asked for once by all whose time limits are reached together', async (t) => {
        const { backend, locks } = await setUp(t, make);
        const method = ['holders', 'seenHolders', 'askHolders'].find((name) => backend[name]);
        const asked = t.mock.method(backend, method);
        const requests = Array.from({ length: 200 }, () =>
          locks.request('a', { timeout: 20 }, () => {}).catch((error) => error),
        );
        await nextTurn();
        // They are all due when the thread returns to its event loop.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
        const errors = await Promise.all(requests);
        assert.ok(asked.mock.callCount() <= 5, `${asked.mock.callCount()} questions`);
        assert.ok(new Set(errors.map(({ holders }) => holders)).size <= 5);
      });

      it('is waited for where the answer is under way at the time limit', async (t) => {
        const { backend, locks } = await setUp(t, make);
        const { askHolders, withdraw } = backend;
        const left = new Promise((resolve) => {
          backend.withdraw = (request) => resolve(withdraw.call(backend, request));
        });
        if (askHolders) {
          backend.askHolders = async (name) => {
            const holders = await askHolders.call(backend, name);
            await left;
            return holders;
          };
        }
        await assert.rejects(locks.request('a', { timeout: 20 }, nothing), {
          name: 'TimeoutError',
          message: /held by/,
        });
      });

      it('is told in time, or not at all', async (t) => {
        const { backend, locks } = await setUp(t, make);
        if (backend.askHolders) backend.askHolders = () => sleep(60_000, undefined, { ref: false });
        await assert.rejects(locks.request('a', { timeout: 20 }, nothing), {
          name: 'TimeoutError',
          message: backend.askHolders ? /holder unknown/ : /held by/,
        });
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
    t.mock.method(addon, 'hostHolders', () => addon.WLH_LOST, { times: 1 });
    await assert.rejects(locks.request('a', { timeout: 20 }, nothing), {
      name: 'TimeoutError',
      message: /held by/,
    });
  });

  it('says that it was not open', async (t) => {
    const { locks } = await setUp(t, backends.host.make);
    failCalls(t, ['hostHolders'], addon.WLH_LOST);
    failCalls(t, ['hostReady'], addon.WLH_PENDING);
    await assert.rejects(locks.request('a', { timeout: 20 }, nothing), isNotOpen);
    // A request that its own thread blocks is a deadlock, so the holder is another thread's.
    t.mock.method(addon, 'hostWait', () => addon.WLH_PENDING);
    assert.throws(() => locks.acquireSync('a', { timeout: 20 }), isNotOpen);
  });
});

/** Each call of the addon that gives the locks of a name, and how a waiter asks for them. */
const snapshots = {
  process: {
    make: () => new NativeBackend(freshName()),
    call: 'snapshotOf',
    ask: (backend) => backend.holders('a', true),
  },
  host: {
    skip: noHost,
    make: (t) => new HostBackend('bucket', freshDirectory(t)),
    call: 'hostHolders',
    ask: (backend) => backend.seenHolders('a'),
  },
};

/** Has the addon go on telling the locks that it tells the first time, until the test ends. */
function standStill(t, call) {
  const real = addon[call];
  let first;
  t.mock.method(addon, call, (...given) => {
    const snapshot = real(...given);
    first ??= snapshot;
    return first;
  });
}

for (const [scope, { skip, make, call, ask }] of Object.entries(snapshots)) {
  describe(`who is in the way of a request that waits, ${scope}`, { skip }, () => {
    async function setUp(t) {
      const backend = make(t);
      t.after(() => backend.close());
      await backend.ready;
      const locks = createLockManager(backend);
      const acquire = () => locks.acquire('a', { mode: 'shared' });
      return { acquire, backend };
    }

    it('is its own thread, if that knows that it holds the lock', async (t) => {
      const { acquire, backend } = await setUp(t);
      const { token } = await acquire();
      const holders = await ask(backend);
      assert.deepEqual(
        holders.map((holder) => holder.token),
        [token],
      );
    });

    it('is not what its thread was granted and has not heard of', async (t) => {
      const { acquire, backend } = await setUp(t);
      const [one, other] = [await acquire(), await acquire()];
      const tokens = async () => (await ask(backend))?.map(({ token }) => token);
      standStill(t, call);
      assert.deepEqual(await tokens(), [one.token, other.token]);
      // What it has forgotten it does not know either.
      await one.release();
      assert.deepEqual(await tokens(), [other.token]);
      await other.release();
      assert.equal(await tokens(), undefined);
    });
  });
}
