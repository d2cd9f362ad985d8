'use strict';

/** Everything that users may print can be printed, sent and cloned, although tokens are bigints. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { inspect } = require('node:util');
const { LockLostError } = require('../../lib/extensions/errors/lock-errors.js');
const { locks, openBucket } = require('../helpers/scope.js');
const { freshName, hold, rejectionOf, timedOut } = require('../helpers/locks.js');

const jsonOf = (value) => JSON.parse(JSON.stringify(value));

/** Calls `work` with a state that has an entry of each kind. */
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

/** The same state with each token as JSON has it. */
const withText = ({ token, blockedBy, ...entry }) => ({
  ...entry,
  token: String(token),
  ...(blockedBy && { blockedBy: blockedBy.map(withText) }),
});

describe('what query({ details: true }) tells', () => {
  it('is JSON with tokens in digits', () =>
    withState((state) => {
      const { held, pending } = state;
      const expected = { held: held.map(withText), pending: pending.map(withText) };
      assert.deepEqual(jsonOf(state), expected);
      assert.match(jsonOf(state).held[0].token, /^[1-9]\d*$/);
    }));

  it('is plain objects with bigints for clones, comparisons and console.log', () =>
    withState((state) => {
      assert.deepEqual(structuredClone(state), state);
      for (const entry of [state.held[0], state.pending[0]]) {
        assert.equal(Object.getPrototypeOf(entry), Object.prototype);
        assert.equal(inspect(entry, { depth: 0 }), inspect({ ...entry }, { depth: 0 }));
        assert.ok(!('toJSON' in { ...entry }));
      }
      assert.match(inspect(state.held[0]), /token: \d+n/);
    }));
});

describe('JSON.stringify', () => {
  it('of a lock, a handle, several locks and a leader has name, mode, held and token', async () => {
    const name = freshName();
    const expected = ({ token }, more) => ({ name, held: true, token: String(token), ...more });
    const exclusive = { mode: 'exclusive' };
    await locks.request(name, (lock) => {
      assert.deepEqual(jsonOf(lock), expected(lock, exclusive));
      assert.ok(!Object.keys(Object.getPrototypeOf(lock)).includes('toJSON'));
    });
    const handle = await locks.acquire(name);
    await handle.release();
    assert.deepEqual(jsonOf(handle), expected(handle, { ...exclusive, held: false }));
    const all = await locks.acquireAll([name]);
    assert.deepEqual(jsonOf(all).locks, [expected(all.locks[0], exclusive)]);
    await all.release();
    await locks.elect(name, (leader) => assert.deepEqual(jsonOf(leader), expected(leader)));
  });

  it('of a time limit has message and holders', () =>
    withState(async ({ held }, _, name) => {
      const error = await timedOut(() => locks.acquire(name, { timeout: 100 }));
      const { name: kind, message, lockName, holders } = jsonOf(error);
      assert.deepEqual([kind, message, lockName], ['TimeoutError', error.message, name]);
      assert.equal(holders[0].token, String(held[0].token));
    }));

  it('of an error that names others has them, but only a few lines on the console', async () => {
    const name = freshName();
    await locks.request(name, { reentrant: true, mode: 'shared' }, async ({ token }) => {
      for (const options of [{ reentrant: true }, { timeout: 1 }]) {
        const error = await rejectionOf(locks.acquire(name, options));
        const { cycle, holders } = jsonOf(error);
        assert.equal((cycle?.[1] ?? holders[0]).token, String(token));
        for (const customInspect of [true, false]) {
          const lines = inspect(error, { customInspect, depth: 5 }).split('\n');
          const more = lines.filter((line) => !/^ +at /.test(line));
          assert.ok(more.length < 10 && !/clientId/.test(more.join()), more.join('\n'));
        }
      }
    });
  });

  it('of a loss has its reason, the token, and a cause as text', async () => {
    const bucket = openBucket(freshName());
    const handle = await bucket.locks.acquire('a');
    const token = String(handle.token);
    await bucket.close();
    const { reason } = handle.signal;
    assert.deepEqual(jsonOf(reason), {
      ...{ name: 'AbortError', message: reason.message, lockName: 'a', reason: 'closed', token },
      errorCode: 'ERR_WEB_LOCKS_LOST',
    });
    const error = new LockLostError('a', 'unreachable', 7n, new Error('reset'));
    assert.equal(jsonOf(error).cause, 'Error: reset');
  });
});
