// slow: 16; long

'use strict';

/** Globals and prototypes that were replaced, before or after the library was loaded. */

const { describe, it } = require('node:test');
const { run } = require('../helpers/program.js');

/** Uses of the library. Each fails if another lock is held, or if a promise is not intrinsic. */
const uses = `
  const IntrinsicPromise = (async () => {})().constructor;
  const { prototype } = IntrinsicPromise;
  const nodeImmediate = require('node:timers').setImmediate;
  const { isPromise } = require('node:util').types;
  const { getPrototypeOf } = Object;
  const check = (condition, what) => {
    if (!condition) throw new Error('it is not true that ' + what);
  };
  const intrinsic = (promise) => {
    check(isPromise(promise) && getPrototypeOf(promise) === prototype, 'the promise is intrinsic');
    return promise;
  };
  let inside = 0;
  const alone = async () => {
    check(inside === 0, 'it is alone');
    inside++;
    await (async () => {})();
    await new IntrinsicPromise((resolve) => nodeImmediate(resolve));
    inside--;
    return 'result';
  };
  const acquireAndRelease = async (acquired) => {
    const handle = await intrinsic(acquired);
    const result = await alone();
    handle.release();
    return result;
  };
  const reasonOf = async (request) => {
    try {
      await request;
    } catch (reason) {
      return reason.name === 'TimeoutError' ? 'result' : reason;
    }
  };
  // It is not an array, because the iterator of arrays may be replaced.
  const names = { *[Symbol.iterator]() { yield 'y'; yield 'x'; } };
  const forms = {
    request: () => locks.request('x', alone),
    sync: () => locks.request('x', () => 'result'),
    acquire: () => acquireAndRelease(locks.acquire('x')),
    requestAll: () => locks.requestAll(names, alone),
    acquireAll: () => acquireAndRelease(locks.acquireAll(names)),
    mutex: () => new library.Mutex('x').runExclusive(alone),
    readers: () => new library.RWLock('x').runExclusive(alone),
    options: () => {
      const { signal } = new NodeAbortController();
      return locks.request('x', { signal, timeout: 1e6, warnAfter: 1e6, label: 'x' }, alone);
    },
    deadlock: () => locks.request('x', { deadlock: 'reject' }, alone),
    misses: () => locks.request('x', { ifAvailable: true }, (lock) => lock ?? 'result'),
    abort: () => {
      const controller = new NodeAbortController();
      const request = locks.request('x', { signal: controller.signal }, alone);
      controller.abort('result');
      return reasonOf(request);
    },
    timeout: () => reasonOf(locks.request('held', { timeout: 1 }, alone)),
  };
  const use = async () => {
    const held = await locks.acquire('held');
    const first = locks.request('x', alone);
    const pending = [];
    for (const form in forms) {
      pending[pending.length] = { form, promise: intrinsic(forms[form]()) };
    }
    intrinsic(locks.query());
    check((await first) === 'result', 'it gives the result');
    for (let i = 0; i < pending.length; i++) {
      const { form, promise } = pending[i];
      const result = await promise;
      check(result === 'result', form + ' gives the result, not ' + result);
    }
    // A theft, and a lock that is handed over within a callback.
    const victim = await locks.acquire('x');
    const { signal } = victim;
    await locks.request('x', { steal: true }, alone);
    check(victim.released && signal.aborted, 'the victim knows');
    held.release();
  };
`;

const before = 'const NodeAbortController = AbortController; const { apply } = Reflect;';

const throwing = (what) => `() => { throw new Error('of ${what}'); }`;

const replaceAll = (object, names) => `
  for (const name of ${JSON.stringify(names)}) ${object}[name] = ${throwing('somebody')};`;

const PROMISE = ['resolve', 'reject', 'all', 'race', 'allSettled', 'any', 'withResolvers'];
const GLOBALS = [
  ...['AbortController', 'AbortSignal', 'Buffer', 'DOMException', 'Event', 'EventTarget', 'URL'],
  ...[
    'clearImmediate',
    'clearInterval',
    'clearTimeout',
    'performance',
    'process',
    'queueMicrotask',
  ],
  ...['setImmediate', 'setInterval', 'setTimeout', 'structuredClone', 'TextDecoder', 'TextEncoder'],
];
const TIMERS = ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'setInterval'];

const replaced = {
  'Promise by another class': `
    globalThis.Promise = class OtherPromise {
      constructor() { throw new Error('of the other class'); }
    };`,
  'Promise by undefined, and its functions': `
    ${replaceAll('Promise', PROMISE)}
    globalThis.Promise = undefined;`,
  'Promise.prototype.then by one of a library, as zone.js does': `
    const { then } = Promise.prototype;
    Promise.prototype.then = function (...all) {
      return apply(then, this, all);
    };
    ${replaceAll('Promise.prototype', ['catch', 'finally'])}`,
  'Promise.prototype.then by one that throws': replaceAll('Promise.prototype', ['then']),
  'the constructor and the species of promises': `
    Promise.prototype.constructor = class {
      constructor() { throw new Error('of the constructor'); }
      static resolve() { throw new Error('of resolve'); }
    };
    Object.defineProperty(Promise, Symbol.species, { get: ${throwing('species')} });`,
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
    ${replaceAll("require('node:timers')", TIMERS)}
    ${replaceAll('globalThis', TIMERS)}`,
  'the clock': `
    ${replaceAll('performance', ['now'])}
    Object.defineProperty(globalThis, 'performance', {
      value: { now: ${throwing('performance')} },
    });`,
  'AbortController and AbortSignal': `
    globalThis.AbortController = class { abort() {} };
    globalThis.AbortSignal = class {};`,
  'functions of EventTarget': replaceAll('EventTarget.prototype', [
    'addEventListener',
    'removeEventListener',
  ]),
  'FinalizationRegistry and WeakRef': `
    ${replaceAll('FinalizationRegistry.prototype', ['register', 'unregister'])}
    globalThis.FinalizationRegistry = globalThis.WeakRef = undefined;`,
  'what queues a function': `
    ${replaceAll('globalThis', ['queueMicrotask'])}
    ${replaceAll('process', ['nextTick', 'emitWarning'])}`,
  'Object.prototype by accessors of options and of what requests have': `
    const more = ['ifAvailable', 'deadlock', 'get', 'set'];
    for (const name of ['then', 'signal', 'timeout', 'steal', ...more]) {
      Object.defineProperty(Object.prototype, name, {
        configurable: true,
        set(value) {
          const attributes = { writable: true, configurable: true, enumerable: true };
          Object.defineProperty(this, name, { value, ...attributes });
        },
        get: () => undefined,
      });
    }
    for (const name of ['tag', 'backend', 'loss', 'refusal', 'served', 'tokenLow', 'tokenHigh']) {
      Object.defineProperty(Object.prototype, name, {
        configurable: true,
        set: ${throwing('the setter')},
        get: ${throwing('the getter')},
      });
    }`,
  'functions of functions, arrays and collections': `
    ${replaceAll('Function.prototype', ['call', 'bind'])}
    for (const { prototype } of [Map, Set, WeakMap]) {
      for (const name of ['get', 'set', 'add', 'has', 'delete', 'values', 'keys']) {
        if (Object.hasOwn(prototype, name)) prototype[name] = ${throwing('a collection')};
      }
    }
    ${replaceAll('Array.prototype', ['map', 'filter', 'find', 'at', 'sort', 'concat', 'includes'])}
    Array.prototype[Symbol.iterator] = ${throwing('the iterator')};`,
  'Reflect, Object and JSON': `
    globalThis.Reflect = undefined;
    globalThis.JSON = undefined;
    Object.defineProperty = Object.freeze = Object.assign = ${throwing('Object')};`,
  'functions of Error': `
    Object.defineProperty(Error, Symbol.hasInstance, { value: ${throwing('hasInstance')} });
    ${replaceAll('Error', ['captureStackTrace', 'prepareStackTrace'])}`,
};

describe('the library works after the replacement of', () => {
  for (const [title, code] of Object.entries(replaced)) {
    it(title, () => run(`${before}${uses}${code}\nawait use();`));
  }
});

describe('the library works if it is loaded after the replacement of', () => {
  const early = {
    ...replaced,
    'all that is not of the language by nothing': `
      for (const name of ${JSON.stringify(GLOBALS)}) delete globalThis[name];`,
    'timers by those of a test': `
      const { mock } = require('node:test');
      process.on('exit', () => mock.timers.reset());
      mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
      setImmediate(function tick() {
        mock.timers.tick(1);
        if (!report.finished) setImmediate(tick);
      });`,
  };
  for (const title of [
    'Promise by another class',
    'timers by functions that return numbers',
    'timers by those of a test',
    'AbortController and AbortSignal',
    'all that is not of the language by nothing',
  ]) {
    it(title, () => run(`${uses}await use();`, { before: `${before}${early[title]}` }));
  }
});
