// slow: 2

'use strict';

/** Locks that are stolen at unusual moments. */

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { LockStolenError, locks } = require('../../lib/index.js');
const { freshName, hold, notCalled, nothing } = require('../helpers/locks.js');
const { rejectionOf, turn, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const STEAL = { steal: true };

describe('several locks of which one is stolen', () => {
  const calls = {
    requestAll: (names) => locks.requestAll(names, notCalled),
    acquireAll: (names) => locks.acquireAll(names),
  };
  for (const [call, ask] of Object.entries(calls)) {
    it(`by another thread reject at once, although ${call}() waits for the others`, async (t) => {
      const other = await RemoteAgent.start(t);
      const [a, b] = [freshName('a'), freshName('b')];
      const held = await hold(locks, b);
      const rejected = rejectionOf(ask([a, b]));
      await turn();
      // Its theft is announced after that of the first.
      const last = await locks.acquire(freshName('last'));
      const told = once(last.signal, 'abort');
      const thefts = [await other.hold(a, STEAL), await other.hold(last.name, STEAL)];
      await told;
      const outcome = await Promise.race([rejected, turn()]);
      await held.release();
      for (const theft of thefts) {
        theft.release();
        await theft.settled;
      }
      assert.ok(outcome instanceof LockStolenError, `it waits: ${outcome}`);
    });
  }

  it('by a subscriber of the last grant reject, and nobody is called', async (t) => {
    const [a, b] = [freshName('a'), freshName('b')];
    const thieves = [];
    const steal = ({ name }) => {
      if (name === b) thieves.push(locks.request(a, STEAL, nothing));
    };
    subscribe('locks.request.grant', steal);
    t.after(() => unsubscribe('locks.request.grant', steal));
    await assert.rejects(locks.requestAll([a, b], notCalled), LockStolenError);
    await Promise.all(thieves);
  });

  it('before the callback is called reject, and nobody is called without a lock', async () => {
    for (let ticks = 0; ticks < 9; ticks++) {
      const [a, b] = [freshName('a'), freshName('b')];
      let seen = [];
      const rejected = rejectionOf(
        locks.requestAll([a, b], async (taken) => {
          seen = valuesOf(taken, 'released');
          await turn();
        }),
      );
      for (let i = 0; i < ticks; i++) await null;
      await locks.request(a, STEAL, () => turn());
      assert.ok((await rejected) instanceof LockStolenError);
      assert.ok(!seen.includes(true), `after ${ticks} microtasks`);
    }
  });
});

it('a stolen request rejects with a LockStolenError that is a DOMException', async () => {
  const name = freshName();
  const robbed = await hold(locks, name);
  const thief = await hold(locks, name, STEAL);
  const [{ clientId }] = (await locks.query({ name })).held;
  const error = await rejectionOf(robbed.released);
  await thief.release();
  assert.ok(error instanceof LockStolenError && error.constructor === DOMException);
  const { code, lockName } = error;
  const expected = ['AbortError', DOMException.ABORT_ERR, name, clientId];
  assert.deepEqual([error.name, code, lockName, error.clientId], expected);
  assert.match(error.stack, /stolen/);
});
