// slow: 8; long

'use strict';

// A request that gives up (its time is over, or its signal aborts) while users' code listens. That it
// releases, steals and requests from there: test/model/hostile.js.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { run } = require('../helpers/program.js');

describe('a request that gives up', () => {
  it('by an abort in a subscriber of its own .start rejects with the reason', () =>
    run(`
      const controller = new AbortController();
      const held = await hold(locks, 'x');
      subscribe('locks.request.start', () => controller.abort(new Error('at once')));
      const request = locks.acquire('x', { signal: controller.signal });
      const outcome = await Promise.race([request.catch(({ message }) => message), turn()]);
      await held.release();
      (await request.catch(() => {}))?.release();
      assert.equal(outcome, 'at once');
    `));

  it('when its synchronous wait is over: a subscriber takes other locks, which stay', async () => {
    const { value } = await run(
      `
      const held = await locks.acquire('x');
      const keeper = new Worker(
        \`const { parentPort } = require('node:worker_threads');
         require(\${JSON.stringify(entry)}).locks.request('y', () => {
           parentPort.postMessage('held');
           return new Promise((resolve) => parentPort.once('message', resolve));
         });\`,
        { eval: true },
      );
      await once(keeper, 'message');
      const taken = [];
      const listener = () => {
        for (const name of ['1', '2', '3']) taken.push(locks.tryAcquireSync(name));
        throw new Error('of the subscriber');
      };
      subscribe('locks.request.timeout', listener);
      assert.throws(() => locks.acquireSync('y', { timeout: 5 }), { name: 'TimeoutError' });
      unsubscribe('locks.request.timeout', listener);
      keeper.postMessage('release');
      await once(keeper, 'exit');
      const { held: now } = await locks.query();
      for (const handle of [held, ...taken]) handle.release();
      return now.map(({ name }) => name).sort();
    `,
      { uncaught: ['of the subscriber'] },
    );
    assert.deepEqual(value, ['1', '2', '3', 'x']);
  });

  it('with others of the signal: a listener that throws costs none of them the abort', async () => {
    await run(
      `
      const controller = new AbortController();
      const { signal } = controller;
      signal.addEventListener('abort', () => { throw new Error('of the listener'); });
      const held = await locks.acquire('x');
      subscribe('locks.request.abort', () => { throw new Error('of the subscriber'); });
      const all = [1, 2, 3].map(() => locks.acquire('x', { signal }));
      controller.abort(new Error('enough'));
      for (const one of all) await assert.rejects(one, { message: 'enough' });
      held.release();
      await turn();
      report.uncaught = [...new Set(report.uncaught)].sort();
    `,
      { uncaught: ['of the listener', 'of the subscriber'] },
    );
  });
});

describe('a request that fails before it was made', () => {
  // In a process of its own the first lock has the number 0.
  const failing = (options, before = '') =>
    run(
      `
      const bystander = await locks.acquire('bystander');
      const blocker = await locks.acquire('x', { label: 'blocker' });
      const controller = new AbortController();
      ${options}
      const outcome = locks.acquire('x', options).then((handle) => handle?.release(), () => {});
      await Promise.race([outcome, new Promise((resolve) => nodeTimers.setTimeout(resolve, 50))]);
      await new Promise((resolve) => nodeTimers.setTimeout(resolve, 20));
      controller.abort();
      const state = await stateOf(locks, 'bystander');
      blocker.release();
      await outcome;
      bystander.release();
      return state;
      `,
      { before: `const nodeTimers = { ...require('node:timers') };\n${before}` },
    );
  const HELD = { held: ['exclusive'], pending: [] };

  it('since its signal throws from addEventListener leaves no timer that releases a lock', async () => {
    const { value } = await failing(`
      const { signal } = controller;
      signal.addEventListener = () => { throw new Error('of the signal'); };
      const options = { signal, timeout: 5 };
    `);
    assert.deepEqual(value, HELD);
  });

  it('since a timer of the globals is a number leaves no timer that releases a lock', async () => {
    const { value } = await failing(
      'const options = { timeout: 5, warnAfter: 10 };',
      'globalThis.setTimeout = (...all) => Number(nodeTimers.setTimeout(...all));',
    );
    assert.deepEqual(value, HELD);
  });

  it('since a timer of the globals throws leaves nothing', async () => {
    const { value } = await failing(
      'const options = { timeout: 5, warnAfter: 10, signal: controller.signal };',
      `const timer = nodeTimers.setTimeout;
       let calls = 0;
       globalThis.setTimeout = (...all) => {
         if (++calls % 2 === 0) throw new Error('no timer');
         return timer(...all);
       };`,
    );
    assert.deepEqual(value, HELD);
  });

  it('since performance.now throws leaves no timer that releases a lock', async () => {
    const { value } = await failing(`
      Object.defineProperty(globalThis, 'performance', {
        value: { now() { throw new Error('no time'); } },
      });
      const options = { timeout: 5, warnAfter: 10, signal: controller.signal };
    `);
    assert.deepEqual(value, HELD);
  });
});

it('a subscriber of .start that aborts hears of no grant after the end', () =>
  run(`
    const controller = new AbortController();
    const told = [];
    subscribe('locks.request.start', () => controller.abort(new Error('enough')));
    subscribe('locks.request.grant', () => told.push('grant'));
    subscribe('locks.request.end', () => told.push('end'));
    await assert.rejects(
      locks.request('x', { signal: controller.signal }, () => assert.fail('called')),
      { message: 'enough' },
    );
    assert.deepEqual(told, ['end']);
  `));
