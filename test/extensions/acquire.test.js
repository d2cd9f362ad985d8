// slow: 2

'use strict';

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { setFlagsFromString } = require('node:v8');
const { runInNewContext } = require('node:vm');
const { LockStolenError, locks } = require('../helpers/scope.js');
const { FREE, freshName, hold, stateOf, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc');

describe('locks.acquire', () => {
  for (const form of ['acquire', 'acquireAll']) {
    it(`${form}() rejects where the abort of its signal has let it in`, async () => {
      const name = freshName();
      const controller = new AbortController();
      const { signal } = controller;
      const held = await hold(locks, name, { mode: 'shared' });
      const ask = (mode) => locks[form](form === 'acquire' ? name : [name], { mode, signal });
      const all = Promise.allSettled(['exclusive', 'shared', 'shared'].map(ask));
      controller.abort('enough');
      assert.deepEqual(valuesOf(await all, 'reason'), ['enough', 'enough', 'enough']);
      await held.release();
      assert.deepEqual(await stateOf(locks, name), FREE);
    });
  }

  it('is released by Symbol.dispose and Symbol.asyncDispose', async () => {
    const name = freshName();
    (await locks.acquire(name))[Symbol.dispose]();
    await (await locks.acquire(name))[Symbol.asyncDispose]();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  /** The warning about a handle that `forgetful` acquires, once it is collected and released. */
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
    assert.equal(warning.name, 'LockWarning');
    assert.equal(warning.code, 'WEB_LOCKS_LEAK');
    assert.ok(warning.message.includes(name.slice(0, 20)));
    return warning.message;
  }

  it('a handle with `warnAfter` that is collected warns, says where it was acquired, and releases', async () => {
    assert.match(await leak({ warnAfter: 1e6 }), /forgetful/);
  });

  it('a plain handle has its place told once another one was collected', async () => {
    assert.doesNotMatch(await leak(), /forgetful/);
    assert.match(await leak(), /forgetful/);
  });
});

describe('lock.signal', () => {
  it('is aborted already where it is first asked for after the theft', async () => {
    const name = freshName();
    const victim = await hold(locks, name);
    const thief = await hold(locks, name, { steal: true });
    await assert.rejects(victim.released, LockStolenError);
    assert.ok(victim.lock.signal.reason instanceof LockStolenError);
    await thief.release();
  });

  /** How a lock is lost: in this thread, by another agent, and by time. */
  const losses = {
    'a theft in this thread': (name) => locks.request(name, { steal: true }, () => {}),
    async 'a theft elsewhere'(name, there) {
      const thief = await there.hold(name, { steal: true });
      thief.release();
      await thief.settled;
    },
    holdTimeout: () => {},
  };
  for (const [how, lose] of Object.entries(losses)) {
    it(`calls its listeners in the async context of the request: ${how}`, async (t) => {
      const storage = new AsyncLocalStorage();
      const there = await RemoteAgent.start(t);
      const alive = setInterval(() => {}, 1_000);
      const heard = async (ask) => {
        const name = freshName();
        const signal = await storage.run('holder', () => ask(name));
        const context = new Promise((resolve) => {
          signal.addEventListener('abort', () => resolve(storage.getStore()));
        });
        await storage.run('thief', () => lose(name, there));
        return context;
      };
      const options = how === 'holdTimeout' ? { holdTimeout: 1 } : {};
      const asking = [
        async (name) => (await locks.acquire(name, options)).signal,
        (name) =>
          new Promise((resolve) => {
            locks
              .request(name, options, async (lock) => {
                resolve(lock.signal);
                await once(lock.signal, 'abort');
              })
              .catch(() => {});
          }),
      ];
      for (const ask of asking) assert.equal(await heard(ask), 'holder');
      clearInterval(alive);
    });
  }

  it('tells the client id of a thief in another thread, also where the release finds it out', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t);
    const victim = await hold(locks, name);
    const stolen = await other.hold(name, { steal: true });
    const { clientId } = (await locks.query()).held.find((lock) => lock.name === name);
    const error = await victim.released.then(assert.fail, (reason) => reason);
    assert.equal(error.clientId, clientId);
    stolen.release();
  });
});

describe('await using', () => {
  let supported = true;
  try {
    new Function('return async () => { await using x = null; };');
  } catch {
    supported = false;
  }

  it('releases at the end of the block', { skip: !supported && 'no such syntax' }, async () => {
    const name = freshName();
    const body = `return async () => {
      {
        await using lock = await locks.acquire(name);
        if (lock.released) throw new Error('released already');
        using other = await locks.acquire(name + ' other');
      }
      return locks.query();
    };`;
    const { held } = await new Function('locks', 'name', body)(locks, name)();
    assert.deepEqual(
      held.filter((lock) => lock.name.startsWith(name)),
      [],
    );
  });
});
