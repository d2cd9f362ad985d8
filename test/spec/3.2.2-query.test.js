'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { clientId: pattern, locks } = require('../helpers/scope.js');
const { deferred, freshName, hold } = require('../helpers/locks.js');

const ofName = ({ held, pending }, name) => ({
  held: held.filter((info) => info.name === name),
  pending: pending.filter((info) => info.name === name),
});

describe('3.2.2 query() and 4.5 Snapshot the lock state', () => {
  it('resolves to plain data: held and pending, each with clientId, mode and name', async () => {
    const name = freshName();
    const held = await hold(locks, name, { mode: 'shared' });
    const waiting = locks.request(name, () => {});
    const state = await locks.query();
    assert.deepEqual(Object.keys(state), ['held', 'pending']);
    const own = ofName(state, name);
    const { clientId } = own.held[0];
    assert.deepEqual(own, {
      held: [{ clientId, mode: 'shared', name }],
      pending: [{ clientId, mode: 'exclusive', name }],
    });
    assert.deepEqual(JSON.parse(JSON.stringify(own)), own);
    await held.release();
    await waiting;
  });

  it('the clientId is one string for all of an agent, and names process and thread', async () => {
    const name = freshName();
    const locked = await Promise.all([1, 2, 3].map(() => hold(locks, name, { mode: 'shared' })));
    const ids = new Set(ofName(await locks.query(), name).held.map((info) => info.clientId));
    assert.equal(ids.size, 1);
    const { threadId } = require('node:worker_threads');
    assert.match([...ids][0], new RegExp(`^${pattern(process.pid, threadId)}$`));
    await Promise.all(locked.map((one) => one.release()));
  });

  it('reflects the state at the time of the call', async () => {
    const name = freshName();
    const before = locks.query();
    const released = locks.request(name, () => {});
    const during = locks.query();
    await released;
    assert.equal(ofName(await before, name).held.length, 0);
    assert.equal(ofName(await during, name).held.length, 1);
    assert.equal(ofName(await locks.query(), name).held.length, 0);
  });

  it('does not show a request that was answered with null', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    await locks.request(name, { ifAvailable: true }, async (lock) => {
      assert.equal(lock, null);
      assert.deepEqual(ofName(await locks.query(), name).pending, []);
    });
    await held.release();
  });

  it('shows many names and many requests', async () => {
    const title = freshName();
    const released = [];
    const end = deferred();
    for (let i = 0; i < 2000; i++) {
      const name = `${title} ${i % 500}`;
      released.push(locks.request(name, { mode: 'shared' }, () => end.promise));
    }
    // A server that is slow may answer before it has granted all of them.
    const { held, pending } = await locks.query();
    end.resolve();
    const counts = new Map();
    for (const { name } of [...held, ...pending]) counts.set(name, (counts.get(name) ?? 0) + 1);
    for (let i = 0; i < 500; i++) assert.equal(counts.get(`${title} ${i}`), 4);
    await Promise.all(released);
  });
});
