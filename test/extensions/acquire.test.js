// slow: 2

'use strict';

/** Forgotten handles, and the signals of locks. programs.test.js tests when locks are lost. */

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { LockStolenError, locks } = require('../helpers/scope.js');
const { FREE, deferred, freshName, hold, rejectionOf, stateOf } = require('../helpers/locks.js');
const { gc } = require('../helpers/kept.js');
const { RemoteAgent } = require('../helpers/remote.js');

describe('locks.acquire', () => {
  it('gives a handle that is disposable', async () => {
    const name = freshName();
    (await locks.acquire(name))[Symbol.dispose]();
    await (await locks.acquire(name))[Symbol.asyncDispose]();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  /** @returns the warning about a handle of `forgetful`, once it is collected and released */
  async function leak(options) {
    const name = freshName();
    const warned = once(process, 'warning');
    await (async function forgetful() {
      await locks.acquire(name, options);
    })();
    const next = locks.request(name, () => 'next');
    const collecting = setInterval(gc, 10);
    const [warning] = await warned;
    clearInterval(collecting);
    assert.equal(await next, 'next');
    assert.deepEqual([warning.name, warning.code], ['LockWarning', 'WEB_LOCKS_LEAK']);
    assert.ok(warning.message.includes(name.slice(0, 20)));
    return warning.message;
  }

  it('warns of a handle that is collected, and releases it', async () => {
    assert.match(await leak({ warnAfter: 1e6 }), /forgetful/);
    // Without `warnAfter`, the place is noted once another handle was collected.
    assert.doesNotMatch(await leak(), /forgetful/);
    assert.match(await leak(), /forgetful/);
  });
});

describe('lock.signal', () => {
  it('is aborted already if it is first asked for after the theft', async () => {
    const name = freshName();
    const victim = await hold(locks, name);
    const thief = await hold(locks, name, { steal: true });
    await assert.rejects(victim.released, LockStolenError);
    assert.ok(victim.lock.signal.reason instanceof LockStolenError);
    await thief.release();
  });

  it('calls its listeners in the async context of the request: another agent steals', async (t) => {
    const storage = new AsyncLocalStorage();
    const there = await RemoteAgent.start(t);
    // A held lock does not keep the event loop alive.
    const alive = setInterval(() => {}, 1_000);
    const given = deferred();
    const handle = async (name) => (await locks.acquire(name)).signal;
    const callback = (name) => {
      const keep = async (lock) => {
        given.resolve(lock.signal);
        await once(lock.signal, 'abort');
      };
      locks.request(name, keep).catch(() => {});
      return given.promise;
    };
    for (const ask of [handle, callback]) {
      const name = freshName();
      const signal = await storage.run('holder', () => ask(name));
      const context = new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve(storage.getStore()));
      });
      const thief = await there.hold(name, { steal: true });
      thief.release();
      await thief.settled;
      assert.equal(await context, 'holder');
    }
    clearInterval(alive);
  });

  it('has the client id of a thief in another thread, even if the release finds it', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const victim = await hold(locks, name);
    const stolen = await other.hold(name, { steal: true });
    const [{ clientId }] = (await locks.query({ name })).held;
    assert.equal((await rejectionOf(victim.released)).clientId, clientId);
    stolen.release();
  });
});
