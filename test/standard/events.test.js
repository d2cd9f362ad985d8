// slow: 12

'use strict';

/**
 * Users' code throws, or is not what it seems, while events are announced: all other users are
 * still notified, and an exception of users' code reaches the process.
 */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { run } = require('../helpers/program.js');

/** Exceptions of listeners and subscribers must be uncaught; others may be caught. */
const tools = `
  const fail = (message) => { throw new Error(message); };
  const forgetOthers = () => {
    const isOurs = (message) => /^of a (listener|subscriber)$/.test(message);
    report.uncaught = [...new Set(report.uncaught.filter(isOurs))].sort();
  };
`;
const uncaughtOf = (code) =>
  [/'of a (listener|subscriber)'/.exec(code)?.[0].slice(1, -1) ?? []].flat();

/** Users' code that throws when a grant, a theft or an abort is announced. */
const ofGrants = {
  'a signal': `options.signal = Object.assign(new AbortController().signal, {
    removeEventListener: () => fail('of the signal'),
  });`,
  'a subscriber': `subscribe('locks.request.grant', ({ label }) => {
    if (label === '1') fail('of a subscriber');
  });`,
  'the clock': `subscribe('locks.request.grant', ({ label }) => {
    if (label === '0') globalThis.performance = { now: () => fail('of the clock') };
  });`,
  timers: `globalThis.clearTimeout = globalThis.setTimeout = () => fail('of the timers');
    Object.assign(options, { timeout: 1e6, warnAfter: 1e6 });`,
};
const STEAL = "const thief = await hold(locks, 'x', { steal: true }); await thief.release();";
const STEAL_ELSEWHERE = `
  const steal = '.locks.request("x", { steal: true }, () => {})';
  const source = 'require(' + JSON.stringify(entry) + ')' + steal;
  await once(new Worker(source, { eval: true }), 'exit');`;
const ofThefts = {
  'dispatchEvent of a signal': ["victims[1].signal.dispatchEvent = () => fail('of it');", STEAL],
  'dispatchEvent of a signal of a lock that another thread steals': [
    "victims[1].signal.dispatchEvent = () => fail('of it');",
    STEAL_ELSEWHERE,
  ],
  'a listener': [
    "victims[1].signal.addEventListener('abort', () => fail('of a listener'));",
    STEAL,
  ],
  'a subscriber': ["subscribe('locks.request.steal', () => fail('of a subscriber'));", STEAL],
  'Error.prepareStackTrace': [
    "Error.prepareStackTrace = () => fail('of it');",
    `${STEAL} delete Error.prepareStackTrace;`,
  ],
};
const ofAborts = {
  clearTimeout: `const { clearTimeout } = globalThis;
    let calls = 0;
    globalThis.clearTimeout = (timer) => {
      clearTimeout(timer);
      if (++calls === 1) fail('of clearTimeout');
    };`,
  'an own reason': "Object.defineProperty(signal, 'reason', { get: () => fail('of the getter') });",
  'a listener': "signal.addEventListener('abort', () => fail('of a listener'));",
  'a subscriber': "subscribe('locks.request.abort', () => fail('of a subscriber'));",
};

describe('all requests granted together are called back if an exception comes from', () => {
  for (const [title, code] of Object.entries(ofGrants)) {
    it(title, () =>
      run(
        `${tools}
        const options = {};
        ${code}
        const handle = await locks.acquire('x');
        const all = [{}, options, {}].map((more, i) =>
          locks.request('x', { mode: 'shared', label: String(i), ...more }, () => i),
        );
        const settled = Promise.allSettled(all);
        try {
          handle.release();
        } catch {}
        assert.deepEqual(await Promise.all([all[0], all[2]]), [0, 2]);
        await settled;
        forgetOthers();
        `,
        { uncaught: uncaughtOf(code) },
      ),
    );
  }
});

describe('all locks that are stolen together end if an exception comes from', () => {
  for (const [title, [code, steal]] of Object.entries(ofThefts)) {
    it(title, () =>
      run(
        `${tools}
        // Settles before the request is made which channels have subscribers.
        subscribe('locks.request.steal', () => {});
        const victims = [];
        for (let i = 0; i < 3; i++) victims.push(await locks.acquire('x', { mode: 'shared' }));
        const told = [0, 2].map((i) => once(victims[i].signal, 'abort'));
        ${code}
        ${steal}
        await Promise.all(told);
        assert.ok(victims.every(({ released }) => released));
        await turn();
        forgetOthers();
        `,
        { uncaught: uncaughtOf(code) },
      ),
    );
  }
});

describe('all requests of a signal are aborted with its reason if an exception comes from', () => {
  for (const [title, code] of Object.entries(ofAborts)) {
    it(title, () =>
      run(
        `${tools}
        const controller = new AbortController();
        const { signal } = controller;
        const handle = await locks.acquire('x');
        const all = [1, 2, 3].map(() => locks.acquire('x', { signal, warnAfter: 1e6 }));
        ${code}
        controller.abort(new Error('enough'));
        for (const one of all) await assert.rejects(one, { message: 'enough' });
        handle.release();
        await turn();
        forgetOthers();
        `,
        { uncaught: uncaughtOf(code) },
      ),
    );
  }
});

describe('a signal', () => {
  it('aborts no request by an event of a script, and needs no functions of its own', () =>
    run(`
      const controller = new AbortController();
      const { signal } = controller;
      signal.addEventListener = signal.removeEventListener = () => {};
      const held = await locks.acquire('x');
      const request = locks.acquire('x', { signal });
      signal.dispatchEvent(new Event('abort'));
      await turn();
      assert.deepEqual(await stateOf(locks, 'x'), { held: ['exclusive'], pending: ['exclusive'] });
      controller.abort(new Error('enough'));
      await assert.rejects(request, { message: 'enough' });
      held.release();
    `));

  it('is aborted or not whatever its own `aborted`, `reason` and `throwIfAborted` say', () =>
    run(`
      for (const form of ['request', 'requestAll', 'acquire', 'acquireAll']) {
        const names = form.endsWith('All') ? ['x'] : 'x';
        const callback = form.startsWith('request') ? [() => 'called'] : [];
        const ask = (signal, aborted) => {
          Object.defineProperty(signal, 'aborted', { value: aborted });
          Object.defineProperty(signal, 'reason', { value: new Error('of nobody') });
          signal.throwIfAborted = () => { if (aborted) throw 'of nobody'; };
          return locks[form](names, { signal }, ...callback);
        };
        (await ask(new AbortController().signal, true)).release?.();
        const reason = new Error('enough');
        await assert.rejects(ask(AbortSignal.abort(reason), false), { message: 'enough' });
      }
    `));

  it('ends a request that its abort grants, though another signal aborts in between', () =>
    run(`
      const held = [];
      for (const name of ['x', 'y', 'z']) held.push(await locks.acquire(name, { mode: 'shared' }));
      const [one, another] = [new AbortController(), new AbortController()];
      const ask = (name, { signal }, mode) => locks.acquire(name, { signal, mode });
      subscribe('locks.request.abort', ({ name }) => name === 'x' && another.abort());
      const all = [ask('x', one), ask('y', another), ask('z', one), ask('z', one, 'shared')];
      one.abort();
      for (const each of all) await assert.rejects(each, { name: 'AbortError' });
      for (const handle of held) handle.release();
    `));

  it('that a subscriber of .start aborts rejects the request, and nothing but .end follows', () =>
    run(`
      const held = await locks.acquire('held');
      let controller;
      const told = [];
      subscribe('locks.request.start', () => controller.abort(new Error('at once')));
      for (const channel of ['grant', 'end'])
        subscribe('locks.request.' + channel, () => told.push(channel));
      for (const name of ['held', 'free']) {
        controller = new AbortController();
        const { signal } = controller;
        await assert.rejects(locks.acquire(name, { signal }), { message: 'at once' });
      }
      assert.deepEqual(told, ['end', 'end']);
      held.release();
    `));
});

describe('a request that cannot be made leaves no timer that ends another lock, after', () => {
  const nodeTimers = "const nodeTimers = { ...require('node:timers') };";
  for (const [title, before, code = ''] of [
    [
      'an exception of its signal',
      '',
      "controller.signal.addEventListener = () => { throw new Error('of the signal'); };",
    ],
    [
      'a timer that is a number',
      'globalThis.setTimeout = (...all) => Number(nodeTimers.setTimeout(...all));',
    ],
    [
      'an exception of the second timer',
      `let calls = 0;
      globalThis.setTimeout = (...all) => {
        if (++calls % 2 === 0) throw new Error('no timer');
        return nodeTimers.setTimeout(...all);
      };`,
    ],
    [
      'an exception of the clock',
      '',
      `Object.defineProperty(globalThis, 'performance', {
        value: { now() { throw new Error('no time'); } },
      });`,
    ],
  ]) {
    it(title, async () => {
      const { value } = await run(
        `
        // The first lock of a process has the number 0.
        const bystander = await locks.acquire('bystander');
        const blocker = await locks.acquire('x');
        const controller = new AbortController();
        const { signal } = controller;
        ${code}
        const options = { timeout: 5, warnAfter: 10, signal };
        const outcome = locks.acquire('x', options).then((handle) => handle?.release(), () => {});
        // The timers of the request fire before this one.
        await new Promise((resolve) => nodeTimers.setTimeout(resolve, 50));
        controller.abort();
        const state = await stateOf(locks, 'bystander');
        blocker.release();
        await outcome;
        bystander.release();
        return state;
        `,
        { before: nodeTimers + before },
      );
      assert.deepEqual(value, { held: ['exclusive'], pending: [] });
    });
  }
});
