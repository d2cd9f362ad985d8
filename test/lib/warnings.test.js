'use strict';

/** Warnings whose question about others is not answered: they harm nobody. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { NativeBackend } = require('../../lib/backend/native.js');
const { createLockManager } = require('../../lib/extensions/lock-manager.js');
const { freshName } = require('../helpers/locks.js');

describe('warnAfter of a lock that is held', () => {
  it('says that it is not known who waits, where that question fails', async (t) => {
    const backend = new NativeBackend(freshName());
    t.after(() => backend.close());
    const locks = createLockManager(backend);
    t.mock.method(backend, 'details', async () => {
      throw new Error('no');
    });
    const handle = await locks.acquire('a', { warnAfter: 1 });
    const alive = setInterval(() => {}, 1000);
    const [{ code, message }] = await once(process, 'warning');
    clearInterval(alive);
    assert.equal(code, 'WEB_LOCKS_SLOW');
    assert.match(message, /waiters unknown/);
    handle.release();
  });
});
