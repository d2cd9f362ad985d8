// slow: 2

'use strict';

// Locks that are stolen at unusual moments, and what the robbed are told.

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { LockStolenError, locks } = require('../../lib/index.js');
const { freshName, hold, stateOf, turn } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');
const { run } = require('../helpers/program.js');

const HELD = { held: ['exclusive'], pending: [] };

describe('several locks, one of which is stolen while the others are waited for', () => {
  const forms = {
    requestAll: (names, called) => locks.requestAll(names, called),
    acquireAll: (names, called) =>
      locks.acquireAll(names).then((all) => {
        called();
        all.release();
      }),
  };
  /** Waits with a lock in the hand for another one, which is held. */
  async function wait(make) {
    const [a, b] = [freshName('a'), freshName('b')];
    const held = await hold(locks, b);
    let called = 0;
    const all = make([a, b], () => called++);
    all.catch(() => {});
    await turn();
    assert.deepEqual(await stateOf(locks, a), HELD);
    return { a, b, held, all, called: () => called };
  }

  for (const [form, make] of Object.entries(forms)) {
    it(`${form}() rejects where another thread is the thief`, async (t) => {
      const other = await RemoteAgent.start(t);
      const { a, held, all, called } = await wait(make);
      // Its theft is told after that of the first.
      const last = await locks.acquire(freshName('last'));
      const told = once(last.signal, 'abort');
      const thefts = [await other.hold(a, { steal: true })];
      thefts.push(await other.hold(last.name, { steal: true }));
      await told;
      const outcome = await Promise.race([all.catch((reason) => reason), turn()]);
      await held.release();
      for (const theft of thefts) {
        theft.release();
        await theft.settled;
      }
      await turn();
      assert.ok(outcome instanceof LockStolenError, `it waits: ${outcome}`);
      assert.equal(called(), 0);
    });
  }

  it('requestAll() whose lock is stolen before its callback is called does not call it', () =>
    run(`
      // Of the last grant a subscriber hears before anybody else, and steals the first.
      const thieves = [];
      subscribe('locks.request.grant', ({ name, label }) => {
        if (name === 'b' && label === 'all') {
          thieves.push(locks.request('a', { steal: true }, () => {}));
        }
      });
      let called = 0;
      const all = locks.requestAll(['a', 'b'], { label: 'all' }, () => called++);
      await assert.rejects(all, library.LockStolenError);
      assert.equal(called, 0);
      await Promise.all(thieves);
    `));
});

describe('what a robbed request rejects with', () => {
  async function theft(options = {}) {
    const name = freshName();
    const robbed = await hold(locks, name, options);
    const thief = await hold(locks, name, { steal: true });
    const { held } = await locks.query();
    const { clientId } = held.find((lock) => lock.name === name);
    const error = await robbed.released.catch((reason) => reason);
    await thief.release();
    return { name, clientId, error };
  }

  it('has the constructor DOMException', async () => {
    const { error } = await theft();
    assert.equal(error.constructor, DOMException);
    assert.equal(error.name, 'AbortError');
    assert.equal(error.code, DOMException.ABORT_ERR);
  });

  it('is a LockStolenError with its members and a stack', async () => {
    const { name, clientId, error } = await theft();
    assert.ok(error instanceof LockStolenError && error instanceof DOMException);
    assert.equal(error.lockName, name);
    assert.equal(error.clientId, clientId);
    assert.match(error.stack, /stolen/);
  });
});
