'use strict';

/** What is meant to be looked at can be printed, sent and cloned, though tokens are bigints. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { inspect } = require('node:util');
const { MessageChannel } = require('node:worker_threads');
const { locks, needs, openBucket } = require('../helpers/scope.js');
const { freshName, hold, timedOut } = require('../helpers/locks.js');

const jsonOf = (value) => JSON.parse(JSON.stringify(value));

/** `work` with a state of which there is something of each kind. */
async function withState(work) {
  const name = freshName();
  const held = await hold(locks, name, { label: 'holder' });
  const waiting = locks.request(name, () => {});
  try {
    await work(await locks.query({ details: true, name }), held.lock, name);
  } finally {
    await held.release();
    await waiting;
  }
}

/** The same with each token as JSON has it. */
const withText = ({ token, blockedBy, ...entry }) => ({
  ...entry,
  token: String(token),
  ...(blockedBy && { blockedBy: blockedBy.map(withText) }),
});

describe('what query({ details: true }) tells', () => {
  it('is JSON with tokens in digits', () =>
    withState((state) => {
      assert.deepEqual(jsonOf(state), {
        held: state.held.map(withText),
        pending: state.pending.map(withText),
      });
      assert.match(jsonOf(state).held[0].token, /^[1-9]\d*$/);
      assert.deepEqual(jsonOf(state.pending[0]).blockedBy[0], jsonOf(state.held[0]));
    }));

  it('is cloned and posted as plain objects, with bigints', () =>
    withState(async (state) => {
      assert.deepEqual(structuredClone(state), state);
      const { port1, port2 } = new MessageChannel();
      const received = new Promise((resolve) => port2.once('message', resolve));
      port1.postMessage(state);
      assert.deepEqual(await received, state);
      port1.close();
    }));

  it('is plain objects for comparisons and for console.log', () =>
    withState(({ held: [entry], pending: [request] }) => {
      assert.equal(Object.getPrototypeOf(entry), Object.prototype);
      assert.deepEqual(entry, { ...entry });
      for (const shown of [entry, request]) {
        assert.equal(inspect(shown, { depth: 0 }), inspect({ ...shown }, { depth: 0 }));
        assert.ok(!('toJSON' in { ...shown }));
      }
      assert.match(inspect(entry), /token: \d+n/);
    }));
});

describe('JSON.stringify', () => {
  it('of a lock has name, mode, held and token', () =>
    withState((_, lock) => {
      const { name, mode, held, token } = lock;
      assert.deepEqual(jsonOf(lock), { name, mode, held, token: String(token) });
      assert.ok(!Object.keys(Object.getPrototypeOf(lock)).includes('toJSON'));
    }));

  it('of a handle, of several locks and of a leader', async () => {
    const name = freshName();
    const handle = await locks.acquire(name);
    const expected = { name, mode: 'exclusive', held: true, token: String(handle.token) };
    assert.deepEqual(jsonOf(handle), expected);
    await handle.release();
    assert.deepEqual(jsonOf(handle), { ...expected, held: false });
    const several = await locks.acquireAll([name, { name: `${name} 2`, mode: 'shared' }]);
    assert.deepEqual(
      jsonOf(several).locks.map((lock) => [lock.mode, lock.token]),
      several.locks.map((lock) => [lock.mode, String(lock.token)]),
    );
    await several.release();
    await locks.elect(name, (leader) => {
      assert.deepEqual(jsonOf(leader), { name, held: true, token: String(leader.token) });
    });
  });

  it('of a time limit has message and holders', () =>
    withState(async ({ held }, _, name) => {
      const error = await timedOut(() => locks.acquire(name, { timeout: 100 }));
      const { name: kind, message, lockName, holders } = jsonOf(error);
      assert.deepEqual([kind, message, lockName], ['TimeoutError', error.message, name]);
      assert.equal(holders[0].token, String(held[0].token));
    }));

  it('of a deadlock has the cycle', needs('deadlock'), async () => {
    const name = freshName();
    await locks.request(name, { deadlock: 'reject' }, async ({ token }) => {
      const error = await locks.acquire(name, { deadlock: 'reject' }).catch((reason) => reason);
      assert.deepEqual(
        jsonOf(error).cycle.map((entry) => entry.token),
        ['0', String(token)],
      );
    });
  });

  it('of an error that names others has a few lines only on the console', async () => {
    const name = freshName();
    await locks.request(name, { reentrant: true, mode: 'shared' }, async () => {
      for (const options of [{ reentrant: true }, { timeout: 1 }]) {
        const error = await locks.acquire(name, options).catch((reason) => reason);
        assert.ok((error.cycle ?? error.holders).length > 0);
        for (const customInspect of [true, false]) {
          const lines = inspect(error, { customInspect, depth: 5 }).split('\n');
          const more = lines.filter((line) => !/^ +at /.test(line));
          assert.ok(more.length < 10 && !/clientId/.test(more.join()), more.join('\n'));
        }
      }
    });
  });

  it('of a loss has its reason and the token', async () => {
    const bucket = openBucket(freshName());
    const handle = await bucket.locks.acquire('a');
    const { token } = handle;
    await bucket.close();
    const { reason } = handle.signal;
    assert.deepEqual(jsonOf(reason), {
      name: 'AbortError',
      message: reason.message,
      lockName: 'a',
      errorCode: 'ERR_WEB_LOCKS_LOST',
      reason: 'closed',
      token: String(token),
    });
  });

  it('of a loss with a cause has that as text', () => {
    const { LockLostError } = require('../../lib/extensions/errors/lock-errors.js');
    const error = new LockLostError('a', 'unreachable', 7n, new Error('reset'));
    assert.equal(jsonOf(error).cause, 'Error: reset');
    assert.equal(jsonOf(error).token, '7');
  });
});
