// slow: 2

'use strict';

/** In which order a thread is told of its grants. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks, needs } = require('../helpers/scope.js');
const { freshName, hold, turn } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const SHARED = { mode: 'shared' };

/** Notes the tokens of locks in the order in which their callbacks are called. */
function notebook() {
  const tokens = [];
  const note = ({ token }) => tokens.push(token);
  const isInOrder = () => tokens.every((token, i) => i === 0 || tokens[i - 1] < token);
  const check = (count) => {
    assert.equal(tokens.length, count);
    assert.ok(isInOrder(), `the callbacks were called in the order ${tokens.join(', ')}`);
  };
  return { note, check };
}

/** Ways to request a shared lock, each of which hands the lock to `note`. */
const ways = {
  request: (name, note) => locks.request(name, SHARED, note),
  acquire: async (name, note) => {
    const handle = await locks.acquire(name, SHARED);
    note(handle);
    await handle.release();
  },
  requestAll: (name, note) => locks.requestAll([name], SHARED, ([lock]) => note(lock)),
};

describe('callbacks of a thread come in the order of grants', needs('orderOfGrants'), () => {
  for (const first of Object.keys(ways)) {
    for (const second of Object.keys(ways)) {
      it(`${first}() granted by a release of its own, then ${second}() at once`, async () => {
        const name = freshName();
        const { note, check } = notebook();
        const held = await locks.acquire(name);
        const waiting = ways[first](name, note);
        await turn();
        const released = held.release();
        await Promise.all([released, waiting, ways[second](name, note)]);
        check(2);
      });

      it(
        `${first}() granted by another agent, then ${second}() at once`,
        needs('sync'),
        async (t) => {
          const remote = await RemoteAgent.start(t);
          const [name, gate] = [freshName(), freshName()];
          const { note, check } = notebook();
          const theirs = await remote.request(name);
          const theirGate = await remote.request(gate);
          await Promise.all([theirs.granted, theirGate.granted]);
          const waiting = ways[first](name, note);
          await turn();
          theirs.release();
          theirGate.release();
          // No event of this thread is told until the other one has released both.
          const handle = locks.acquireSync(gate, { timeout: 30_000 });
          const last = ways[second](name, note);
          await Promise.all([waiting, last]);
          await handle.release();
          check(2);
        },
      );
    }
  }

  it('many that were granted together, then one at once, and one more', async () => {
    const name = freshName();
    const { note, check } = notebook();
    const held = await hold(locks, name);
    const all = Array.from({ length: 5 }, () => ways.request(name, note));
    await turn();
    held.release();
    all.push(ways.request(name, note), ways.acquire(name, note), ways.request(name, note));
    await turn();
    all.push(ways.request(name, note));
    await Promise.all(all);
    check(9);
  });

  it('an abort before its turn takes one back that was granted at once', async () => {
    const name = freshName();
    const { note, check } = notebook();
    const controller = new AbortController();
    const { signal } = controller;
    const held = await locks.acquire(name);
    const waiting = ways.request(name, note);
    await turn();
    const released = held.release();
    const aborted = locks.request(name, { ...SHARED, signal }, () => assert.fail('called'));
    controller.abort('no');
    await assert.rejects(aborted, (error) => error === 'no');
    await Promise.all([released, waiting]);
    check(1);
    await locks.request(name, () => {});
  });
});
