'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { threadId } = require('node:worker_threads');
const { clientId: pattern, locks } = require('../helpers/scope.js');
const { deferred, freshName, hold } = require('../helpers/locks.js');

const ofName = ({ held, pending }, name) => ({
  held: held.filter((info) => info.name === name),
  pending: pending.filter((info) => info.name === name),
});

describe('3.2.2 query() and 4.5 Snapshot the lock state', () => {
  it('resolves to plain data: held and pending, each with clientId, mode and name', async () => {
    const name = freshName();
    const held = [1, 2].map(() => hold(locks, name, { mode: 'shared' }));
    const locked = await Promise.all(held);
    const waiting = locks.request(name, () => {});
    const state = await locks.query();
    assert.deepEqual(Object.keys(state), ['held', 'pending']);
    const own = ofName(state, name);
    const { clientId } = own.held[0];
    assert.match(clientId, new RegExp(`^${pattern(process.pid, threadId)}$`));
    const reader = { clientId, mode: 'shared', name };
    const pending = [{ clientId, mode: 'exclusive', name }];
    assert.deepEqual(own, { held: [reader, reader], pending });
    assert.deepEqual(JSON.parse(JSON.stringify(own)), own);
    for (const { release } of locked) await release();
    await waiting;
  });

  it('reflects the state at the time of the call', async () => {
    const name = freshName();
    const before = locks.query();
    const released = locks.request(name, () => {});
    const during = locks.query();
    await released;
    const after = locks.query();
    const states = await Promise.all([before, during, after]);
    const counts = states.map((state) => ofName(state, name).held.length);
    assert.deepEqual(counts, [0, 1, 0]);
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
