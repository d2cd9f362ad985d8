// slow: 17

'use strict';

// Events that come together, and an exception while one of them is told: the others are told, too,
// and the exception reaches the process.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { run } = require('../helpers/program.js');

const tools = `
  const fail = (message) => { throw new Error(message); };
  /** Three requests that one release grants; the middle one has the options. */
  const grants = async (options) => {
    const handle = await locks.acquire('x');
    const all = [{}, options, {}].map((more, i) =>
      locks.request('x', { mode: 'shared', label: String(i), ...more }, () => i),
    );
    const settled = Promise.allSettled(all);
    return { release: () => handle.release(), settled, first: all[0], last: all[2] };
  };
`;

describe('an exception while a batch of grants is told costs the others nothing', () => {
  const middle = {
    'of a signal whose removeEventListener throws': `{
      signal: Object.assign(new AbortController().signal, {
        removeEventListener: () => fail('of the signal'),
      }),
    }`,
    'of a subscriber of .grant': `(subscribe('locks.request.grant', ({ label }) => {
      if (label === '1') fail('of the subscriber');
    }), {})`,
    'of a clock that throws, where somebody subscribed': `(subscribe('locks.request.grant', ({ label }) => {
      if (label === '0') globalThis.performance = { now: () => fail('of the clock') };
    }), {})`,
    'of timers that throw': `(
      globalThis.clearTimeout = () => fail('of the timers'),
      globalThis.setTimeout = () => fail('of the timers'),
      { timeout: 1e6, warnAfter: 1e6 }
    )`,
  };
  for (const [title, options] of Object.entries(middle)) {
    it(title, async () => {
      const uncaught = title.includes('subscriber of') ? ['of the subscriber'] : [];
      const { value } = await run(
        `${tools}
        const { release, settled, first, last } = await grants(${options});
        try {
          release();
        } catch {
          // Where it is told from is nobody's promise; that the others are told is.
        }
        const values = await Promise.all([first, last]);
        await settled;
        // What the exception was of is nobody's promise, either, unless it was users' code.
        report.uncaught = report.uncaught.filter((message) => message === 'of the subscriber');
        return values;
        `,
        { uncaught },
      );
      assert.deepEqual(value, [0, 2]);
    });
  }
});

describe('an exception while a batch of thefts is told costs the others nothing', () => {
  const robbed = `
    const victims = await Promise.all(
      ['0', '1', '2'].map((label) => locks.acquire('x', { mode: 'shared', label })),
    );
    const heard = [];
    for (const [i, { signal }] of victims.entries()) {
      signal.addEventListener('abort', () => heard.push(i));
    }
  `;
  const hostile = {
    'of a loss signal whose dispatchEvent throws': [
      "victims[1].signal.dispatchEvent = () => fail('of dispatchEvent');",
      [],
      [0, 2],
    ],
    'of a listener of the loss signal': [
      "victims[1].signal.addEventListener('abort', () => fail('of the listener'));",
      ['of the listener'],
      [0, 1, 2],
    ],
    'of a subscriber of .steal': [
      "subscribe('locks.request.steal', () => fail('of the subscriber'));",
      [],
      [0, 1, 2],
    ],
    'of Error.prepareStackTrace': [
      "Error.prepareStackTrace = () => fail('of prepareStackTrace');",
      [],
      [0, 1, 2],
    ],
  };
  for (const [title, [code, uncaught, expected]] of Object.entries(hostile)) {
    it(title, async () => {
      const { value } = await run(
        `${tools}${robbed}${code}
        const thief = await hold(locks, 'x', { steal: true });
        const { prepareStackTrace } = Error;
        delete Error.prepareStackTrace;
        await turn();
        assert.ok(victims.every(({ released }) => released));
        await thief.release();
        report.uncaught = report.uncaught.filter((message) => message === 'of the listener');
        return heard.sort();
        `,
        { uncaught },
      );
      assert.deepEqual(
        value.filter((i) => expected.includes(i)),
        expected,
      );
    });
  }

  it('where another thread is the thief', async () => {
    const { value } = await run(
      `${tools}
      const victims = await Promise.all(
        ['0', '1', '2'].map((label) => locks.acquire('x', { mode: 'shared', label })),
      );
      victims[0].signal.dispatchEvent = () => fail('of dispatchEvent');
      const heard = [1, 2].map((i) => once(victims[i].signal, 'abort'));
      const thief = new Worker(
        'require(' + JSON.stringify(entry) + ').locks.request("x", { steal: true }, () => {})',
        { eval: true },
      );
      await Promise.all([...heard, once(thief, 'exit')]);
      report.uncaught = [];
      return victims.map(({ released }) => released);
      `,
    );
    assert.deepEqual(value, [true, true, true]);
  });
});

describe('a signal that aborts many requests aborts all of them with its reason', () => {
  for (const [title, prepare, options] of [
    [
      'where one of them throws when it is told',
      `const { clearTimeout } = globalThis;
      let calls = 0;
      globalThis.clearTimeout = (timer) => {
        clearTimeout(timer);
        if (++calls === 1) fail('of clearTimeout');
      };`,
      '{ signal, warnAfter: 1e6 }',
    ],
    [
      'where an own `reason` of it throws',
      "Object.defineProperty(signal, 'reason', { get: () => fail('of the getter') });",
      '{ signal }',
    ],
  ]) {
    it(title, () =>
      run(`${tools}
        const controller = new AbortController();
        const { signal } = controller;
        const handle = await locks.acquire('x');
        const all = [1, 2, 3].map(() => locks.acquire('x', ${options}));
        const settled = Promise.allSettled(all);
        ${prepare}
        controller.abort(new Error('enough'));
        const outcome = await Promise.race([settled, turn().then(turn)]);
        handle.release();
        assert.ok(outcome, 'some are still pending');
        assert.deepEqual(outcome.map(({ reason }) => reason.message), ['enough', 'enough', 'enough']);
        report.uncaught = [];
      `),
    );
  }
});

describe('the state of a signal is its own', () => {
  it('an abort event that script dispatches, and own listener functions, are ignored', () =>
    run(`
      const controller = new AbortController();
      const { signal } = controller;
      signal.addEventListener = signal.removeEventListener = () => {};
      const held = await hold(locks, 'x');
      const request = locks.acquire('x', { signal });
      request.catch(() => {});
      signal.dispatchEvent(new Event('abort'));
      await turn();
      const state = await stateOf(locks, 'x');
      controller.abort(new Error('enough'));
      const outcome = await Promise.race([request.catch((error) => error), turn()]);
      await held.release();
      (await request.catch(() => {}))?.release();
      assert.deepEqual(state, { held: ['exclusive'], pending: ['exclusive'] });
      assert.equal(outcome?.message, 'enough');
    `));

  it('an own `aborted` is ignored, of a signal that is aborted and of one that is not', () =>
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
        await assert.rejects(ask(AbortSignal.abort(new Error('enough')), false), { message: 'enough' });
      }
    `));
});
