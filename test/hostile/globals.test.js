// slow: 31; long

'use strict';

// Globals and prototypes that somebody replaced, after or before the library was loaded.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { run } = require('../helpers/program.js');

/** Uses of the library; each fails if somebody else has the lock, or if a promise is not its own. */
const uses = `
  const IntrinsicPromise = (async () => {})().constructor;
  const microtask = () => (async () => {})();
  const nodeImmediate = require('node:timers').setImmediate;
  const immediate = () => new IntrinsicPromise((resolve) => nodeImmediate(resolve));
  const check = (condition, what) => {
    if (!condition) throw new Error('it is not true that ' + what);
  };
  const { isPromise } = require('node:util').types;
  const { getPrototypeOf } = Object;
  const isIntrinsic = (promise) =>
    isPromise(promise) && getPrototypeOf(promise) === IntrinsicPromise.prototype;
  let inside = 0;
  const alone = async () => {
    check(inside === 0, 'it is alone');
    inside++;
    await microtask();
    await immediate();
    inside--;
    return 'result';
  };
  const aloneAndSync = () => {
    check(inside === 0, 'it is alone');
    return 'result';
  };
  // Not an array, whose iterator may be anybody's.
  const names = { *[Symbol.iterator]() { yield 'y'; yield 'x'; } };
  const forms = {
    request: () => locks.request('x', alone),
    sync: () => locks.request('x', aloneAndSync),
    acquire: () => {
      const acquired = locks.acquire('x');
      check(isIntrinsic(acquired), 'acquire() returns an intrinsic promise');
      return (async () => {
        const handle = await acquired;
        const result = await alone();
        handle.release();
        return result;
      })();
    },
    requestAll: () => locks.requestAll(names, alone),
    acquireAll: async () => {
      const all = await locks.acquireAll(names);
      const result = await alone();
      all.release();
      return result;
    },
    mutex: () => new library.Mutex('x').runExclusive(alone),
    readers: () => new library.RWLock('x').runExclusive(alone),
    options: () => {
      const { signal } = new NodeAbortController();
      return locks.request('x', { signal, timeout: 1e6, warnAfter: 1e6, label: 'x' }, alone);
    },
    deadlock: () => locks.request('x', { deadlock: 'reject' }, alone),
    misses: async () => {
      check((await locks.request('x', { ifAvailable: true }, (lock) => lock)) === null, 'it is held');
      return 'result';
    },
    abort: async () => {
      const controller = new NodeAbortController();
      const request = locks.request('x', { signal: controller.signal }, alone);
      const abort = controller.abort('enough');
      try {
        await request;
      } catch (reason) {
        check(reason === 'enough', 'it rejects with the reason');
      }
      return 'result';
    },
    timeout: async () => {
      try {
        await locks.request('held', { timeout: 1 }, alone);
      } catch (error) {
        check(error.name === 'TimeoutError', 'it rejects with a TimeoutError: ' + error.message);
      }
      return 'result';
    },
  };
  const use = async () => {
    const held = await locks.acquire('held');
    const first = locks.request('x', alone);
    const pending = [];
    for (const form in forms) {
      const promise = forms[form]();
      check(isIntrinsic(promise), form + ' returns an intrinsic promise');
      pending[pending.length] = { form, promise };
    }
    check(isIntrinsic(locks.query()), 'query() returns an intrinsic promise');
    check((await first) === 'result', 'it gives the result');
    for (let i = 0; i < pending.length; i++) {
      const { form, promise } = pending[i];
      let result;
      try {
        result = await promise;
      } catch (error) {
        throw new Error(form + ': ' + (error && error.stack));
      }
      check(result === 'result', form + ' gives the result, not ' + result);
    }
    // A theft, and a lock that is handed over within a callback.
    const victim = await locks.acquire('x');
    const robbed = victim.signal;
    await locks.request('x', { steal: true }, alone);
    check(victim.released && robbed.aborted, 'the victim knows');
    held.release();
  };
`;

const before = 'const NodeAbortController = AbortController; const { apply } = Reflect;';

/** A promise as a library makes it: settles, and calls back, in its own time; no intrinsic one. */
const otherPromise = `
  class OtherPromise {
    #promise;
    constructor(executor) {
      this.#promise = new NodePromise(executor);
    }
    then(...all) {
      return OtherPromise.resolve(this.#promise.then(...all));
    }
    catch(reject) {
      return this.then(undefined, reject);
    }
    static resolve(value) {
      return value instanceof OtherPromise ? value : new OtherPromise((resolve) => resolve(value));
    }
    static reject(reason) {
      return new OtherPromise((_, reject) => reject(reason));
    }
    static all(all) {
      return OtherPromise.resolve(NodePromise.all(all));
    }
    static race(all) {
      return OtherPromise.resolve(NodePromise.race(all));
    }
    static allSettled(all) {
      return OtherPromise.resolve(NodePromise.allSettled(all));
    }
  }
`;

const throwing = (what) => `() => { throw new Error('of ${what}'); }`;

const replaced = {
  'Promise by another class': `const NodePromise = Promise; ${otherPromise}
    globalThis.Promise = OtherPromise;`,
  'Promise by undefined': 'globalThis.Promise = undefined;',
  'Promise by a subclass': 'globalThis.Promise = class extends Promise {};',
  'the functions of Promise': `
    for (const name of ['resolve', 'reject', 'all', 'race', 'allSettled', 'any', 'withResolvers']) {
      Promise[name] = ${throwing('Promise')};
    }`,
  'Promise.prototype.then by one that is late, as zone.js does': `
    const { then } = Promise.prototype;
    Promise.prototype.then = function (...all) {
      return apply(then, this, all);
    };
    Promise.prototype.catch = ${throwing('catch')};
    Promise.prototype.finally = ${throwing('finally')};`,
  'Promise.prototype.then by one that throws': `
    Promise.prototype.then = ${throwing('then')};`,
  'Promise.prototype.constructor': `
    Promise.prototype.constructor = class {
      constructor() { throw new Error('of the constructor'); }
      static resolve() { throw new Error('of resolve'); }
    };`,
  'Promise[Symbol.species]': `
    Object.defineProperty(Promise, Symbol.species, { get() { throw new Error('of species'); } });`,
  'timers by functions that return numbers': `
    let id = 0;
    const timers = {};
    const { setTimeout, clearTimeout } = globalThis;
    globalThis.setTimeout = (callback, ms) => {
      timers[++id] = setTimeout(callback, ms);
      return id;
    };
    globalThis.clearTimeout = (number) => clearTimeout(timers[number]);`,
  'timers by functions that throw': `
    for (const name of ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'setInterval']) {
      globalThis[name] = ${throwing('a timer')};
    }`,
  'the functions of node:timers': `
    const timers = require('node:timers');
    for (const name of ['setTimeout', 'clearTimeout']) timers[name] = ${throwing('a timer')};`,
  performance: `
    Object.defineProperty(globalThis, 'performance', {
      value: { now: ${throwing('performance')} },
    });`,
  'performance.now': `performance.now = ${throwing('performance')};`,
  'AbortController and AbortSignal': `
    globalThis.AbortController = class { abort() {} };
    globalThis.AbortSignal = class {};`,
  'EventTarget.prototype': `
    EventTarget.prototype.addEventListener = ${throwing('addEventListener')};
    EventTarget.prototype.removeEventListener = ${throwing('removeEventListener')};`,
  FinalizationRegistry: `
    globalThis.FinalizationRegistry = undefined;
    globalThis.WeakRef = undefined;`,
  'FinalizationRegistry.prototype': `
    FinalizationRegistry.prototype.register = ${throwing('register')};
    FinalizationRegistry.prototype.unregister = ${throwing('unregister')};`,
  queueMicrotask: `globalThis.queueMicrotask = ${throwing('queueMicrotask')};`,
  'process.nextTick': `process.nextTick = ${throwing('nextTick')};`,
  'process.emitWarning': `process.emitWarning = ${throwing('emitWarning')};`,
  'Object.prototype by a getter of `then`': `
    Object.defineProperty(Object.prototype, 'then', { configurable: true, get: () => undefined });`,
  'Object.prototype by getters of options': `
    for (const name of ['signal', 'timeout', 'steal', 'ifAvailable', 'deadlock', 'get', 'set']) {
      Object.defineProperty(Object.prototype, name, {
        configurable: true,
        set(value) {
          Object.defineProperty(this, name, { value, writable: true, configurable: true, enumerable: true });
        },
        get: () => undefined,
      });
    }`,
  'Object.prototype by setters of what requests have': `
    for (const name of ['tag', 'backend', 'loss', 'refusal', 'served', 'tokenLow', 'tokenHigh']) {
      Object.defineProperty(Object.prototype, name, {
        configurable: true,
        set: ${throwing('the setter')},
        get: ${throwing('the getter')},
      });
    }`,
  'Function.prototype.call and bind': `
    for (const name of ['call', 'bind']) {
      Function.prototype[name] = ${throwing('Function.prototype')};
    }`,
  'functions of Array.prototype': `
    for (const name of ['map', 'filter', 'find', 'at', 'sort', 'concat', 'includes']) {
      Array.prototype[name] = ${throwing('Array.prototype')};
    }`,
  'the iterator of arrays': `
    Array.prototype[Symbol.iterator] = ${throwing('the iterator')};`,
  'Map, Set and WeakMap': `
    for (const { prototype } of [Map, Set, WeakMap]) {
      for (const name of ['get', 'set', 'add', 'has', 'delete', 'values', 'keys']) {
        if (Object.hasOwn(prototype, name)) prototype[name] = ${throwing('a collection')};
      }
    }`,
  'Reflect, Object and JSON': `
    globalThis.Reflect = undefined;
    globalThis.JSON = undefined;
    Object.defineProperty = Object.freeze = Object.assign = ${throwing('Object')};`,
  'Error.captureStackTrace': `Error.captureStackTrace = ${throwing('captureStackTrace')};`,
  'Error.prepareStackTrace': `Error.prepareStackTrace = ${throwing('prepareStackTrace')};`,
  'Error.stackTraceLimit': 'Error.stackTraceLimit = 0;',
  'Symbol.hasInstance of Error': `
    Object.defineProperty(Error, Symbol.hasInstance, { value: ${throwing('hasInstance')} });`,
};

describe('what was replaced after the library was loaded changes nothing', () => {
  for (const [title, code] of Object.entries(replaced)) {
    it(title, () =>
      run(`${before}${uses}
        ${code}
        await use();
      `),
    );
  }

  it('the lock is held while the callback runs, whatever promise it returns', async () => {
    const { value } = await run(`
      const NodePromise = Promise;
      ${otherPromise}
      globalThis.Promise = OtherPromise;
      const states = [];
      const released = locks.request('x', () =>
        new OtherPromise((resolve) => {
          setImmediate(async () => {
            states[0] = (await locks.query()).held.length;
            resolve('result');
          });
        }),
      );
      states[1] = await released;
      states[2] = released instanceof NodePromise;
      return states;
    `);
    assert.deepEqual(value, [1, 'result', true]);
  });
});

describe('what was replaced before the library was loaded', () => {
  for (const title of [
    'Promise by another class',
    'timers by functions that return numbers',
    'AbortController and AbortSignal',
    'queueMicrotask',
  ]) {
    it(`${title}: the library works`, () =>
      run(`${uses}await use();`, { before: `${before}${replaced[title]}` }));
  }

  it('fake timers: the library works', () =>
    run(`${uses}await use();`, {
      before: `${before}
        const { mock } = require('node:test');
        process.on('exit', () => mock.timers.reset());
        // Nothing ticks: only what needs no time limit settles.
        mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
        setImmediate(function tick() {
          mock.timers.tick(1);
          if (!report.finished) setImmediate(tick);
        });`,
    }));
});
