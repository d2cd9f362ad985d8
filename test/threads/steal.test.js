// slow: 3

'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../../lib/index.js');
const { FREE, freshName, hold, stateOf, turn } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

describe('steal over threads', () => {
  it('a lock of another thread ends with an AbortError there', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const robbed = await remote.hold(name);
    const thief = await hold(locks, name, { steal: true });
    assert.equal((await robbed.settled).error.name, 'AbortError');
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    await thief.release();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('all shared locks end, each in its own thread', async (t) => {
    const name = freshName();
    const remotes = await Promise.all([1, 2, 3].map(() => RemoteAgent.start(t)));
    const robbed = await Promise.all(
      remotes.map((remote) => remote.hold(name, { mode: 'shared' })),
    );
    const here = await hold(locks, name, { mode: 'shared' });
    const thief = await remotes[0].hold(name, { steal: true });
    for (const { settled } of robbed) assert.equal((await settled).error.name, 'AbortError');
    await assert.rejects(here.released, { name: 'AbortError' });
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    thief.release();
    await thief.settled;
  });

  it('the later end of a robbed callback releases nothing of the thief’s', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const robbed = await remote.hold(name);
    const thief = await hold(locks, name, { steal: true });
    await robbed.settled;
    robbed.release();
    await remote.query(); // the release was carried out there
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    await thief.release();
  });

  it('requests queued by other threads stay queued behind the thief', async (t) => {
    const name = freshName();
    const [one, other] = await Promise.all([RemoteAgent.start(t), RemoteAgent.start(t)]);
    const robbed = await one.hold(name);
    const queued = await other.request(name);
    const thief = await hold(locks, name, { steal: true });
    await robbed.settled;
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: ['exclusive'] });
    await thief.release();
    await queued.granted;
    queued.release();
    await queued.settled;
  });

  it('two threads that steal from each other all the time: one holds at the end', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const settled = [];
    for (let i = 0; i < 200; i++) {
      settled.push((await remote.hold(name, { steal: true })).settled);
      const mine = await hold(locks, name, { steal: true });
      settled.push(mine.released.catch((error) => ({ error })));
    }
    const last = await hold(locks, name, { steal: true });
    for (const { error } of await Promise.all(settled)) assert.equal(error.name, 'AbortError');
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    await last.release();
    await turn();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });
});
