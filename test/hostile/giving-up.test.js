// slow: 30; long

'use strict';

// A request that gives up (its time is over, or its signal aborts) while users' code listens, which
// releases, aborts and requests from there.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { run } = require('../helpers/program.js');

/** How a request gives up: its options, what makes it, and how its promise is rejected. */
const reasons = {
  'its time is over': `
    const reason = () => ({
      options: { timeout: 1 },
      giveUp() {},
      rejection: { name: 'TimeoutError' },
    });`,
  'its signal aborts': `
    const reason = () => {
      const controller = new AbortController();
      return {
        options: { signal: controller.signal },
        giveUp: () => controller.abort(new Error('enough')),
        rejection: { message: 'enough' },
      };
    };`,
};
const channels = { 'its time is over': ['timeout', 'end'], 'its signal aborts': ['abort', 'end'] };

/** Each is a program of its own: a number that is given back twice harms all that come later. */
const tools = `
  const forms = {
    request: (name, options, called) => locks.request(name, options, called),
    acquire: (name, options, called) => locks.acquire(name, options).then(called),
    requestAll: (name, options, called) => locks.requestAll([name], options, called),
    acquireAll: (name, options, called) => locks.acquireAll([name], options).then(called),
  };
  /** Calls the listener once, when the channel tells of the request with this label. */
  const listen = (channel, label, listener) => {
    const listening = (message) => {
      if (message.label !== label) return;
      unsubscribe('locks.request.' + channel, listening);
      listener(message);
    };
    subscribe('locks.request.' + channel, listening);
  };
  /** A request of each form gives up while its name is held; a subscriber calls the listener. */
  const giveUp = async (listener, check) => {
    for (const [form, make] of Object.entries(forms)) {
      const name = freshName(form);
      const { options, giveUp, rejection } = reason();
      const got = [];
      const handle = await locks.acquire(name);
      listen(CHANNEL, name, () => listener({ name, handle }));
      const request = make(name, { ...options, label: name }, (it) => got.push(it) && turn());
      const checking = check?.({ name, handle, got });
      giveUp();
      await assert.rejects(request, rejection);
      await checking;
      for (let i = 0; i < 4; i++) await turn();
      assert.deepEqual(got, [], form + ' called back');
      handle.release();
      assert.deepEqual(await stateOf(locks, name), FREE, form);
    }
  };
  const HELD = { held: ['exclusive'], pending: [] };
  /** Locks do not share their numbers: the release of one releases no other. */
  const numbersAreApart = async () => {
    const all = ['one', 'two', 'three', 'four'].map((it) => locks.tryAcquireSync(freshName(it)));
    while (all.length > 0) {
      for (const { name } of all) assert.deepEqual(await stateOf(locks, name), HELD);
      all.pop().release();
    }
  };
`;

for (const [why, reason] of Object.entries(reasons)) {
  for (const channel of channels[why]) {
    const program = (body) => run(`const CHANNEL = '${channel}';${reason}${tools}${body}`);

    describe(`a request of any form gives up since ${why}; a subscriber of .${channel}`, () => {
      it('releases the lock it waited for: the next in line gets it, alone', () =>
        program(`
          let inside = 0;
          const next = async () => {
            assert.equal(++inside, 1);
            await turn();
            inside--;
          };
          await giveUp(
            ({ handle }) => handle.release(),
            ({ name }) => Promise.all([1, 2, 3].map(() => locks.request(name, next))),
          );
        `));

      it('finds it gone from the queue', () =>
        program(`
          const seen = [];
          await giveUp(({ name }) => seen.push(stateOf(locks, name)));
          for (const state of await Promise.all(seen)) assert.deepEqual(state, HELD);
        `));

      it('releases the lock it waited for, and takes others soon after, which it keeps', () =>
        program(`
          const taken = [];
          await giveUp(({ handle }) => {
            handle.release();
            queueMicrotask(() => taken.push(locks.tryAcquireSync(freshName('other'))));
          });
          for (const { name } of taken) assert.deepEqual(await stateOf(locks, name), HELD);
          for (const handle of taken) handle.release();
          await numbersAreApart();
        `));

      it('steals the lock it waited for, and has it alone', () =>
        program(`
          const thieves = [];
          await giveUp(({ name }) => {
            thieves.push(locks.request(name, { steal: true }, async () => {
              assert.deepEqual(await stateOf(locks, name), HELD);
              await turn();
              assert.deepEqual(await stateOf(locks, name), HELD);
            }));
          });
          await Promise.all(thieves);
        `));
    });
  }
}

describe('a request that gives up', () => {
  it('by timeout: 0 releases no lock of a subscriber that takes one and aborts', () =>
    run(`${tools}
      const controller = new AbortController();
      const held = await hold(locks, 'x');
      let bystander;
      listen('timeout', 'one', () => {
        bystander = locks.tryAcquireSync('y');
        controller.abort(new Error('as well'));
      });
      const options = { timeout: 0, signal: controller.signal, label: 'one' };
      await assert.rejects(locks.acquire('x', options), { name: 'TimeoutError' });
      assert.deepEqual(await stateOf(locks, 'y'), HELD);
      await numbersAreApart();
      bystander.release();
      await held.release();
    `));

  it('by an abort in a subscriber of its own .start rejects with the reason', () =>
    run(`${tools}
      const controller = new AbortController();
      const held = await hold(locks, 'x');
      listen('start', 'one', () => controller.abort(new Error('at once')));
      const request = locks.acquire('x', { signal: controller.signal, label: 'one' });
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
