'use strict';

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { describe, it } = require('node:test');
const { LockStolenError, locks, needs } = require('../helpers/scope.js');
const { FREE, deferred, freshName, hold, stateOf } = require('../helpers/locks.js');

describe('users’ code that runs while events are handed over may use locks', () => {
  for (const [title, needed, use] of [
    ['', [], () => {}],
    [', also blocking ones', ['sync'], (other) => locks.tryAcquireSync(other)?.release()],
  ]) {
    it(`subscribers of a channel${title}`, needs(...needed), async (t) => {
      const [name, other] = [freshName(), freshName('other')];
      let nested = 0;
      const listener = (message) => {
        if (message.name !== name) return;
        nested++;
        use(other);
        locks.request(other, () => {});
      };
      subscribe('locks.request.grant', listener);
      t.after(() => unsubscribe('locks.request.grant', listener));
      const held = await hold(locks, name);
      const readers = [1, 2, 3, 4].map((i) => locks.request(name, { mode: 'shared' }, () => i));
      await held.release();
      assert.deepEqual(await Promise.all(readers), [1, 2, 3, 4]);
      assert.equal(nested, 5);
      await locks.request(other, () => {});
      assert.deepEqual(await stateOf(locks, other), FREE);
    });
  }

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
        // It must not get what belongs to one of the others.
        successor = locks.request(freshName(), () => 'successor');
      });
      const thief = await hold(locks, name, { steal: true });
      await assert.rejects(second.released, LockStolenError);
      assert.equal(await successor, 'successor');
      assert.ok(third.released && third.signal.reason instanceof LockStolenError);
      assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
      await thief.release();
      assert.deepEqual(await stateOf(locks, name), FREE);
    },
  );
});

it(
  'a subscriber that steals the lock whose grant it hears of: the robbed one hears of it',
  needs('atOnce'),
  async (t) => {
    const name = freshName();
    const held = await hold(locks, name);
    const heard = deferred();
    let thief;
    const listener = (message) => {
      if (message.name !== name) return;
      unsubscribe('locks.request.grant', listener);
      thief = locks.request(name, { steal: true }, () => heard.promise);
    };
    subscribe('locks.request.grant', listener);
    t.after(() => unsubscribe('locks.request.grant', listener));
    const robbed = locks.acquire(name);
    await held.release();
    await assert.rejects(robbed, LockStolenError);
    heard.resolve('thief');
    assert.equal(await thief, 'thief');
    assert.deepEqual(await stateOf(locks, name), FREE);
  },
);
