'use strict';

/** What the library makes of the calls of the process's core, and of what they answer. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../../lib/index.js');
const { addon, EVENT_CAPACITY } = require('../../lib/backend/addon.js');
const { freshName } = require('../helpers/locks.js');

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

describe('times that are not whole milliseconds', () => {
  it('once marks for no less than it was told', async (t) => {
    const marks = t.mock.method(addon, 'releaseAndMark');
    for (const keep of [0.5, 1, 1.5]) await locks.once(freshName(), { keep }, () => {});
    const given = marks.mock.calls.map((call) => call.arguments);
    assert.deepEqual(given, [[1], [1], [2]]);
  });
});
