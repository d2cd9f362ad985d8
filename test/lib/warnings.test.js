'use strict';

/** Warnings whose question about others is not answered: they harm nobody. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { NativeBackend } = require('../../lib/backend/native.js');
const { createLockManager } = require('../../lib/extensions/lock-manager.js');
const { freshName } = require('../helpers/locks.js');

/** @returns {Promise<string>} the message of the next warning, for which nothing else goes on */
async function warning() {
  const alive = setInterval(() => {}, 1000);
  const [{ code, message }] = await once(process, 'warning');
  clearInterval(alive);
  assert.equal(code, 'WEB_LOCKS_SLOW');
  return message;
}

describe('warnAfter of a lock that is held', () => {
  it('says that it is not known who waits, where that question fails', async (t) => {
    const backend = new NativeBackend(freshName());
    t.after(() => backend.close());
    const locks = createLockManager(backend);
    t.mock.method(backend, 'details', async () => {
      throw new Error('no');
    });
    const handle = await locks.acquire('a', { warnAfter: 1 });
    assert.match(await warning(), /waiters unknown/);
    handle.release();
  });

  it('says that it was held, if that is over when it is known who waits', async (t) => {
    const backend = new NativeBackend(freshName());
    t.after(() => backend.close());
    const handle = await createLockManager(backend).acquire('a', { warnAfter: 1 });
    const { details } = backend;
    t.mock.method(backend, 'details', (name) => {
      handle.release();
      return details.call(backend, name);
    });
    assert.match(await warning(), /^Held lock "a" for [\d.]+ m?s \(no waiters\)\.$/);
  });
});

describe('warnAfter of a request that waits', () => {
  it('says that it has waited, if that is over when it is known who holds', async (t) => {
    const backend = new NativeBackend(freshName());
    t.after(() => backend.close());
    const locks = createLockManager(backend);
    const handle = await locks.acquire('a');
    const request = locks.request('a', { warnAfter: 1 }, () => {});
    // As in a scope that has to ask.
    backend.holders = undefined;
    backend.askHolders = async () => {
      handle.release();
      await request;
      return [];
    };
    assert.match(await warning(), /^Waited for lock "a" for [\d.]+ m?s\.$/);
  });
});
