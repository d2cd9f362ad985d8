'use strict';

/** What the library makes of the calls of the process's core, and of what they answer. */

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { describe, it } = require('node:test');
const { locks, openBucket } = require('../../lib/index.js');
const { EVENT_CAPACITY, TAG, addon } = require('../../lib/backend/addon.js');
const { NativeBackend, agent } = require('../../lib/backend/native.js');
const { exchange } = require('../../lib/backend/agent.js');
const { Request } = require('../../lib/extensions/request/request.js');
const { deferred, freshName, hold } = require('../helpers/locks.js');

const holdShared = (name) => locks.tryAcquireSync(name, { mode: 'shared' });

describe('many requests of a thread', () => {
  it('a theft of more locks than one call hands over is told of all of them at once', async () => {
    const name = freshName();
    const held = Array.from({ length: 2 * EVENT_CAPACITY + 1 }, () => holdShared(name));
    const stolen = locks.request(name, { steal: true }, () => {});
    assert.equal(held.filter((lock) => lock.held).length, 0);
    await stolen;
  });

  it('the end of one of them is not the end of the others', async () => {
    const name = freshName();
    // So many that their memory goes back when the last one ends.
    const held = Array.from({ length: 2000 }, () => holdShared(name));
    held.pop().release();
    const stolen = locks.request(name, { steal: true }, () => {});
    assert.equal(held.filter((lock) => lock.held).length, 0);
    await stolen;
  });
});

describe('what happens while something is told', () => {
  it('a loss that who hears of a grant has caused is told, though nothing else happens', async (t) => {
    const name = freshName();
    const bucket = openBucket(freshName());
    const held = await hold(bucket.locks, name);
    const handle = locks.tryAcquireSync(name);
    const close = () => bucket.close();
    subscribe('locks.request.grant', close);
    t.after(() => unsubscribe('locks.request.grant', close));
    const waiting = deferred();
    const asked = locks.request(name, () => waiting.promise);
    handle.release();
    await assert.rejects(held.released, { name: 'AbortError', reason: 'closed' });
    waiting.resolve();
    await asked;
  });

  it('a grant that could not be applied for want of stack is, though nothing else happens', async (t) => {
    const name = freshName();
    const handle = locks.tryAcquireSync(name);
    const asked = locks.request(name, (lock) => lock.name);
    // A call of a caller who has nothing to undo.
    t.mock.method(NativeBackend.prototype, 'release', function release(lock) {
      exchange[TAG] = lock.tag;
      addon.release();
      agent.remove(lock);
      assert.throws(() => agent.applyEvents(), RangeError);
    });
    let calls = 0;
    const { granted } = Request.prototype;
    t.mock.method(Request.prototype, 'granted', function once(...token) {
      if (calls++ === 0) throw new RangeError('Maximum call stack size exceeded');
      return granted.apply(this, token);
    });
    handle.release();
    assert.equal(calls, 1);
    NativeBackend.prototype.release.mock.restore();
    assert.equal(await asked, name);
  });
});

describe('times that are not whole milliseconds', () => {
  it('once marks for no less than it was told', async (t) => {
    const marks = t.mock.method(addon, 'releaseAndMark');
    for (const keep of [0.5, 1, 1.5]) await locks.once(freshName(), { keep }, () => {});
    const given = marks.mock.calls.map((call) => call.arguments);
    assert.deepEqual(given, [[1], [1], [2]]);
  });
});
