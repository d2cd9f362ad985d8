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

describe('a signal that aborts many requests', () => {
  it('aborts all of them where one of them throws when it is told', async () => {
    await run(`${tools}
      const controller = new AbortController();
      const { signal } = controller;
      const handle = await locks.acquire('x');
      const all = [1, 2, 3].map(() => locks.acquire('x', { signal, warnAfter: 1e6 }));
      const settled = Promise.allSettled(all);
      const { clearTimeout } = globalThis;
      let calls = 0;
      globalThis.clearTimeout = (timer) => {
        clearTimeout(timer);
        if (++calls === 1) fail('of clearTimeout');
      };
      controller.abort(new Error('enough'));
      const outcome = await Promise.race([settled, turn().then(turn)]);
      handle.release();
      assert.ok(outcome, 'some are still pending');
      assert.deepEqual(outcome.map(({ reason }) => reason.message), ['enough', 'enough', 'enough']);
      report.uncaught = [];
    `);
  });

  it('aborts them with its reason where an own `reason` of it throws', async () => {
    await run(`${tools}
      const controller = new AbortController();
      const { signal } = controller;
      Object.defineProperty(signal, 'reason', { get: () => fail('of the getter') });
      const handle = await locks.acquire('x');
      const all = [1, 2, 3].map(() => locks.acquire('x', { signal }));
      const settled = Promise.allSettled(all);
      controller.abort(new Error('enough'));
      const outcome = await Promise.race([settled, turn().then(turn)]);
      handle.release();
      assert.ok(outcome, 'some are still pending');
      assert.deepEqual(outcome.map(({ reason }) => reason.message), ['enough', 'enough', 'enough']);
      report.uncaught = [];
    `);
  });
});

describe('the state of a signal is its own', () => {
  it('an abort event that script dispatches on a signal that is not aborted is ignored', () =>
    run(`
      const controller = new AbortController();
      const held = await hold(locks, 'x');
      const request = locks.acquire('x', { signal: controller.signal });
      request.catch(() => {});
      controller.signal.dispatchEvent(new Event('abort'));
      await turn();
      const state = await stateOf(locks, 'x');
      controller.abort(new Error('enough'));
      const outcome = await Promise.race([request.catch((error) => error), turn()]);
      await held.release();
      (await request.catch(() => {}))?.release();
      assert.deepEqual(state, { held: ['exclusive'], pending: ['exclusive'] });
      assert.equal(outcome.message, 'enough');
    `));

  for (const form of ['request', 'requestAll', 'acquire', 'acquireAll']) {
    const names = form.endsWith('All') ? "['x']" : "'x'";
    const callback = form.startsWith('request') ? ", () => 'called'" : '';
    const call = `locks.${form}(${names}, { signal }${callback})`;

    it(`${form}(): an own \`aborted\` of a signal that is not aborted is ignored`, () =>
      run(`
        const { signal } = new AbortController();
        Object.defineProperty(signal, 'aborted', { value: true });
        Object.defineProperty(signal, 'reason', { value: 'of nobody' });
        signal.throwIfAborted = () => { throw 'of nobody'; };
        const got = await ${call};
        got.release?.();
      `));

    it(`${form}(): an own \`aborted\` of a signal that is aborted is ignored`, () =>
      run(`
        const signal = AbortSignal.abort(new Error('enough'));
        Object.defineProperty(signal, 'aborted', { value: false });
        Object.defineProperty(signal, 'reason', { value: new Error('of nobody') });
        signal.throwIfAborted = () => {};
        await assert.rejects(${call}, { message: 'enough' });
      `));
  }

  it('its own listener functions are not asked', () =>
    run(`
      const controller = new AbortController();
      const { signal } = controller;
      signal.addEventListener = () => {};
      signal.removeEventListener = () => {};
      const held = await hold(locks, 'x');
      const request = locks.acquire('x', { signal });
      request.catch(() => {});
      controller.abort(new Error('enough'));
      const outcome = await Promise.race([request.catch((error) => error), turn()]);
      await held.release();
      (await request.catch(() => {}))?.release();
      assert.equal(outcome?.message, 'enough');
    `));
});
