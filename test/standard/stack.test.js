// slow: 8; long

'use strict';

/**
 * Calls from near the end of the stack may fail with a RangeError, but nothing stays held or
 * pending, and no other request is affected.
 */

const { describe, it } = require('node:test');
const { run } = require('../helpers/program.js');

const tools = `
  // Frames have several sizes, so that the stack ends at every place of a call.
  const sizes = [0, 1, 3, 5, 8, 13].map((size) => {
    const variables = Array.from({ length: size }, (_, i) => 'v' + i);
    const declared = variables.map((name) => 'let ' + name + ' = depth;').join('');
    const call = 'return deeper(act, depth + 1, [' + variables + ']);';
    return Function('act', 'deeper', 'depth', declared + call);
  });

  const FRAMES = ${process.env.STACK_FRAMES ?? 250};
  const CALLS = sizes.length * FRAMES;
  /** The results and errors of calls: before the stack overflows, nothing can examine them. */
  const got = new Array(CALLS).fill(undefined);
  const thrown = new Array(CALLS * 10).fill(undefined);
  let calls = 0;
  let throws = 0;

  /** Calls act, with the number of the call, in each of the last frames of the stack. */
  const atTheEnd = (act) => {
    calls = throws = 0;
    for (let i = 0; i < sizes.length; i++) {
      const last = calls + FRAMES;
      const deeper = (act, depth) => {
        try {
          // Only the first frames differ, which shifts all others.
          sizes[depth < i ? i : 0](act, deeper, depth);
        } catch (error) {
          thrown[throws] = error;
          throws++;
        }
        if (calls >= last) return;
        try {
          got[calls] = act(calls);
        } catch (error) {
          thrown[throws] = error;
          throws++;
        }
        calls++;
      };
      deeper(act, 0);
    }
    for (const error of thrown.slice(0, throws)) {
      if (!isOverflow(error)) throw error;
    }
    // The first error only shows where the stack ends.
    assert.ok(throws > sizes.length, 'the stack did not come to its end: ' + act);
  };
  const isOverflow = (error) => error instanceof RangeError && /call stack/.test(error.message);

  const promises = [];
  const keep = (promise) => {
    promises[promises.length] = promise;
    return promise;
  };
  /** Waits for all results, and releases the handles among them. */
  const settle = async () => {
    for (const it of [...got, ...promises]) {
      try {
        (await it)?.release?.();
      } catch (error) {
        const isExpected = /enough|Timed out|stolen|not available/.test(error.message);
        if (!isOverflow(error) && !isExpected) throw error;
      }
    }
  };
  process.on('unhandledRejection', () => {});
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', (error) => {
    if (!isOverflow(error)) report.uncaught.push(error.message);
  });
`;

/** What the calls in each of the last frames use. */
const given = `
  const callback = () => {};
  const names = ['x', 'y'];
  const mutex = new library.Mutex('x');
  const { signal } = new AbortController();
  const ifAvailable = { ifAvailable: true };
  const limited = { signal, timeout: 1e6, warnAfter: 1e6, label: 'x' };
  const rejecting = { ...limited, deadlock: 'reject' };
  const shared = { mode: 'shared' };
  const stealing = { steal: true };
  const blocking = { mode: 'shared', timeout: 1e6, warnAfter: 1e6 };
`;

const ON_FREE = [
  "locks.request('x', callback)",
  "locks.request('x', stealing, callback)",
  "locks.acquire('x', shared)",
  'locks.requestAll(names, callback)',
  'locks.acquireAll(names, ifAvailable)',
  "locks.tryAcquireSync('x', shared)",
  "locks.acquireSync('x', blocking)",
  'locks.query()',
  'mutex.runExclusive(callback)',
];
const ON_HELD = [
  "locks.request('x', callback)",
  "locks.request('x', rejecting, callback)",
  "locks.request('x', ifAvailable, callback)",
  "locks.acquire('x', limited)",
];

const eachOf = (calls, before = '', after = '') => `${given}
  for (const call of [${calls.map((call) => `() => ${call}`)}]) {
    ${before}
    atTheEnd(call);
    ${after}
    await settle();
  }`;

const programs = {
  'calls for a free lock': eachOf(ON_FREE),
  'calls for a held lock': eachOf(
    ON_HELD,
    "const held = await hold(locks, 'x');",
    'held.release();',
  ),
  'resize() of a Semaphore': `
    const semaphore = new library.Semaphore(1);
    const release = await semaphore.acquire();
    atTheEnd(() => semaphore.resize(2));
    await turn();
    assert.deepEqual([semaphore.available, semaphore.pending], [0, 0]);
    assert.equal(await semaphore.tryAcquire(), null);
    release();
    await settle();
    await semaphore.resize(3);
    assert.equal(semaphore.available, 3);
  `,
  'release() of a handle that is collected afterwards': `
    const work = () => {
      const handles = [];
      for (let i = 0; i < CALLS; i++) handles.push(locks.tryAcquireSync('x ' + i));
      atTheEnd((i) => handles[i].release());
    };
    work();
    // Errors keep the objects on their stacks alive.
    thrown.fill(undefined);
    await until(async () => {
      gc();
      return (await locks.query()).held.length === 0;
    });
    report.warnings = report.warnings.filter(({ code }) => code !== 'WEB_LOCKS_LEAK');
  `,
  'release() that grants others, and is called again if it failed': `
    const handles = [];
    for (let i = 0; i < CALLS; i++) handles.push(locks.tryAcquireSync('x ' + i));
    const { signal } = new AbortController();
    for (let i = 0; i < CALLS; i++) {
      keep(locks.request('x ' + i, { mode: 'shared', warnAfter: 1e6 }, () => {}));
      keep(locks.acquire('x ' + i, { mode: 'shared', signal }));
    }
    atTheEnd((i) => handles[i].release());
    for (const handle of handles) handle.release();
    assert.ok(handles.every(({ released }) => released));
  `,
  'a steal from others': `
    const victims = [];
    for (let i = 0; i < CALLS; i++) {
      const victim = locks.tryAcquireSync('x ' + i);
      victim.signal.addEventListener('abort', () => {});
      victims.push(victim);
    }
    const names = victims.map(({ name }) => name);
    const options = { steal: true };
    const callback = () => {};
    atTheEnd((i) => locks.request(names[i], options, callback));
    await settle();
    for (const victim of victims) victim.release();
    assert.ok(victims.every(({ released }) => released));
  `,
  'abort() of a signal': `
    const held = await hold(locks, 'x');
    const controllers = Array.from({ length: CALLS }, () => new AbortController());
    for (const { signal } of controllers) {
      keep(locks.request('x', { signal }, () => {}));
      keep(locks.acquire('x', { signal, timeout: 1e6 }));
    }
    const reason = new Error('enough');
    atTheEnd((i) => controllers[i].abort(reason));
    await turn();
    // A request that the abort did not reach is granted: an AbortSignal aborts only once.
    held.release();
  `,
  'a subscriber that requests in every .start until the stack ends': `
    let depth = 0;
    const listener = () => {
      depth++;
      keep(locks.request('x', { mode: 'shared' }, () => {}));
    };
    subscribe('locks.request.start', listener);
    keep(locks.request('x', { mode: 'shared' }, () => {}));
    unsubscribe('locks.request.start', listener);
    await turn();
    assert.ok(depth > 10);
  `,
  'a subscriber of .end that overflows the stack while others wait': `
    const overflow = () => overflow();
    subscribe('locks.request.end', overflow);
    const handle = await locks.acquire('x');
    for (let i = 0; i < 5; i++) keep(locks.request('x', { mode: 'shared' }, () => {}));
    handle.release();
    await settle();
  `,
};

describe('near the end of the stack, nothing is left by', () => {
  for (const [title, body] of Object.entries(programs)) {
    it(title, () => run(`${tools}${body}\nawait settle();`));
  }

  for (const title of ['abort() of a signal', 'a steal from others']) {
    it(`${title}, in a worker`, () =>
      run(`${tools}${programs[title]}\nawait settle();`, { worker: true }));
  }
});
