// slow: 2

'use strict';

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { LockTimeoutError, locks, needs } = require('../helpers/scope.js');
const { FREE, deferred, freshName, hold, stateOf } = require('../helpers/locks.js');
const { run } = require('../helpers/program.js');
const { start } = require('../helpers/worker.js');

/** Nothing else keeps the event loop alive while a lock is held. */
const awake = setInterval(() => {}, 2 ** 30);
require('node:test').after(() => clearInterval(awake));

const lost = (signal) => signal.aborted || once(signal, 'abort');

describe('the holdTimeout option', () => {
  it('gives the lock up, rejects, aborts the signal, and lets the callback go on', async () => {
    const name = freshName('report');
    const end = deferred();
    const goesOn = deferred();
    const asked = locks.request(name, { holdTimeout: 20, label: 'mine' }, async (lock) => {
      await lost(lock.signal);
      goesOn.resolve(lock.signal.reason);
      await end.promise;
      return 'ignored';
    });
    const next = locks.request(name, () => 'next');
    const error = await asked.then(assert.fail, (reason) => reason);
    assert.ok(error instanceof LockTimeoutError && error instanceof DOMException);
    assert.deepEqual([error.name, error.lockName], ['TimeoutError', name]);
    assert.match(
      error.message,
      /^Lock "report.*" was released after [\d,]+ ms: its 'holdTimeout' is 20 ms\.$/,
    );
    assert.ok(error.held >= 19);
    assert.deepEqual(error.holders, []);
    assert.match(error.stack, /hold-timeout\.test\.js/);
    assert.equal(await goesOn.promise, error);
    assert.equal(await next, 'next');
    end.resolve();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('waits longer than a timer can', async () => {
    const handle = await locks.acquire(freshName(), { holdTimeout: 2 ** 40 });
    await new Promise((resolve) => setTimeout(resolve, 10));
    assert.equal(handle.released, false);
    handle.release();
  });

  it('tells subscribers of the channels', async (t) => {
    const name = freshName();
    const told = [];
    for (const channel of ['timeout', 'steal', 'end']) {
      const listener = (message) => message.name === name && told.push([channel, message.error]);
      subscribe(`locks.request.${channel}`, listener);
      t.after(() => unsubscribe(`locks.request.${channel}`, listener));
    }
    const asked = locks.request(name, { holdTimeout: 5 }, () => new Promise(() => {}));
    const error = await asked.then(assert.fail, (reason) => reason);
    assert.deepEqual(told, [
      ['timeout', error],
      ['end', error],
    ]);
  });

  it('lets another thread have the lock', needs('threads'), async (t) => {
    const name = freshName();
    const held = await hold(locks, name, { holdTimeout: 50 });
    const worker = start("locks.request(name, () => post('mine'));", name);
    t.after(() => worker.terminate());
    assert.deepEqual(await once(worker, 'message'), ['mine']);
    await assert.rejects(held.released, LockTimeoutError);
  });

  it('takes effect when the thread comes to its timers', async () => {
    const name = freshName();
    const handle = await locks.acquire(name, { holdTimeout: 1 });
    const end = performance.now() + 10;
    while (performance.now() < end);
    assert.equal(handle.released, false);
    await lost(handle.signal);
    assert.ok(handle.signal.reason.held >= 9);
  });

  it('does not keep the event loop alive', needs('entry'), async () => {
    await run(`
      const worker = new Worker(\`
        const { locks } = require(\${JSON.stringify(entry)});
        locks.acquire('x', { holdTimeout: 1e9 }).then((handle) => { globalThis.handle = handle; });
      \`, { eval: true });
      await once(worker, 'exit');
    `);
  });

  it('leaves no timer behind, however the request ends', needs('entry'), async () => {
    const before = `
      const timers = require('node:timers');
      const { clearTimeout, setTimeout } = timers;
      const alive = new Set();
      timers.setTimeout = (then, milliseconds) => {
        const timer = setTimeout(() => {
          alive.delete(timer);
          then();
        }, milliseconds);
        alive.add(timer);
        return timer;
      };
      timers.clearTimeout = (timer) => {
        alive.delete(timer);
        clearTimeout(timer);
      };`;
    const { value } = await run(
      `
      const options = { holdTimeout: 1e6, timeout: 1e6, warnAfter: 1e6 };
      const steal = (name) => locks.request(name, { steal: true }, () => {});
      const ways = {
        async callback(name, check) {
          await locks.request(name, options, async () => {
            await turn();
            check();
          });
        },
        async handle(name, check) {
          const handle = await locks.acquire(name, options);
          await turn();
          check();
          handle.release();
        },
        async sync(name, check) {
          const handle = locks.tryAcquireSync(name, { holdTimeout: 1e6 });
          await turn();
          check();
          handle.release();
        },
        async several(name, check) {
          const all = await locks.acquireAll([name, name + ' 2'], options);
          await turn();
          check();
          all.release();
        },
        async theft(name, check) {
          const held = await hold(locks, name, options);
          await turn();
          check();
          await steal(name);
          await held.released.catch(() => {});
        },
        async abort(name, check) {
          const held = await hold(locks, name);
          const controller = new AbortController();
          const { timeout, holdTimeout } = options;
          const given = { timeout, holdTimeout, signal: controller.signal };
          const asked = locks.request(name, given, () => {});
          await turn();
          check();
          controller.abort();
          await asked.catch(() => {});
          await held.release();
        },
      };
      const left = {};
      for (const [way, end] of Object.entries(ways)) {
        await end(way, () => assert.ok(alive.size > 0, 'no timer of ' + way));
        await turn();
        left[way] = alive.size;
      }
      return left;`,
      { before },
    );
    assert.deepEqual(value, { callback: 0, handle: 0, sync: 0, several: 0, theft: 0, abort: 0 });
  });

  it('must be a number of milliseconds above 0', async () => {
    for (const holdTimeout of [0, -1, NaN, Infinity, '5', null]) {
      await assert.rejects(
        locks.request('x', { holdTimeout }, () => {}),
        TypeError,
      );
    }
  });
});
