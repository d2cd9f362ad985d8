// slow: 2

'use strict';

/** The order in which a thread is notified of its grants. */

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
  const check = (count) => {
    assert.equal(tokens.length, count);
    assert.ok(
      tokens.every((token, i) => i === 0 || tokens[i - 1] < token),
      tokens.join(),
    );
  };
  return { note, check };
}

/** Ways to request a shared lock. Each passes the lock to `note`. */
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
  const pairs = Object.keys(ways).flatMap((first) =>
    Object.keys(ways).map((second) => [first, second]),
  );
  for (const [first, second] of pairs) {
    it(
      `${first}() granted by another agent, then ${second}() at once`,
      needs('sync'),
      async (t) => {
        const remote = await RemoteAgent.start(t);
        const [name, gate] = [freshName(), freshName()];
        const { note, check } = notebook();
        const [theirs, theirGate] = [await remote.hold(name), await remote.hold(gate)];
        const waiting = ways[first](name, note);
        await turn();
        theirs.release();
        theirGate.release();
        // This thread receives no event until the other one has released both.
        const handle = locks.acquireSync(gate, { timeout: 30_000 });
        await Promise.all([waiting, ways[second](name, note)]);
        await handle.release();
        check(2);
      },
    );
  }

  it('many that were granted together, then some at once, and one more', async () => {
    const name = freshName();
    const { note, check } = notebook();
    const held = await hold(locks, name);
    const all = Object.values(ways).map((way) => way(name, note));
    await turn();
    held.release();
    for (const way of Object.values(ways)) all.push(way(name, note));
    await turn();
    all.push(ways.request(name, note));
    await Promise.all(all);
    check(7);
  });
});
