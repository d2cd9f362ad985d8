'use strict';

/** Users' code that runs while events are announced; test/standard has more of it. */

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { describe, it } = require('node:test');
const { LockStolenError, locks, needs } = require('../helpers/scope.js');
const { FREE, HELD, deferred, freshName, hold, stateOf } = require('../helpers/locks.js');

/** Calls `work` at each grant of a name. */
function onGrant(t, name, work) {
  const listener = (message) => {
    if (message.name === name) work();
  };
  subscribe('locks.request.grant', listener);
  t.after(() => unsubscribe('locks.request.grant', listener));
}

describe('users’ code that runs while events are handed over may use locks', () => {
  it('a subscriber of a channel requests another one, and takes it synchronously', async (t) => {
    const [name, other] = [freshName(), freshName('other')];
    let nested = 0;
    onGrant(t, name, () => {
      nested++;
      if (!needs('sync').skip) locks.tryAcquireSync(other)?.release();
      locks.request(other, () => {});
    });
    const held = await hold(locks, name);
    const readers = [1, 2, 3, 4].map((i) => locks.request(name, { mode: 'shared' }, () => i));
    await held.release();
    assert.deepEqual(await Promise.all(readers), [1, 2, 3, 4]);
    assert.equal(nested, 5);
    await locks.request(other, () => {});
    assert.deepEqual(await stateOf(locks, other), FREE);
  });

  it('a subscriber steals the lock whose grant is announced', needs('atOnce'), async (t) => {
    const name = freshName();
    const held = await hold(locks, name);
    const heard = deferred();
    let thief;
    onGrant(t, name, () => {
      thief ??= locks.request(name, { steal: true }, () => heard.promise);
    });
    const stolen = locks.acquire(name);
    await held.release();
    await assert.rejects(stolen, LockStolenError);
    heard.resolve('thief');
    assert.equal(await thief, 'thief');
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it(
    'a listener of a lost lock releases another one that is lost with it',
    needs('turns'),
    async () => {
      const name = freshName();
      const first = await locks.acquire(name, { mode: 'shared' });
      const second = await hold(locks, name, { mode: 'shared' });
      const third = await locks.acquire(name, { mode: 'shared' });
      let successor;
      first.signal.addEventListener('abort', () => {
        third.release();
        // It must not get the events of another lock.
        successor = locks.request(freshName(), () => 'successor');
      });
      const thief = await hold(locks, name, { steal: true });
      await assert.rejects(second.released, LockStolenError);
      assert.equal(await successor, 'successor');
      assert.ok(third.released && third.signal.reason instanceof LockStolenError);
      assert.deepEqual(await stateOf(locks, name), HELD);
      await thief.release();
    },
  );
});
