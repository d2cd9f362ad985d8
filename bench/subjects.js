/**
 * The subjects of the comparisons: each has `request(name, callback, options)`, which calls back
 * with the lock and returns a promise of the result. They are made in the process that measures
 * them.
 */

const { Missing, need } = require('./missing.js');

/** No lock at all: the cost of the promises that every such API needs. */
function floor() {
  const settled = Promise.resolve();
  return {
    request: (_name, callback) =>
      new Promise((resolve) => {
        settled.then(() => resolve(callback()));
      }),
  };
}

/** @param locks anything with the API of the specification */
const webApi = (locks) => ({
  request: (name, callback, options) =>
    options ? locks.request(name, options, callback) : locks.request(name, callback),
  query: () => locks.query(),
});

const webLocks = () => webApi(require('..').locks);

/** Locks without calls of the addon. */
const oneThread = () => webApi(require('./one-thread.js').locks);

/** Locks with a running profile; a small one, because it is written at the exit. */
const profiled = (sites) => () => {
  const file = require('node:os').devNull;
  require('../lib/profile.js').startProfile({ file, size: 2 ** 20, sites });
  return webLocks();
};

function nodeLocks() {
  const { locks } = require('node:worker_threads');
  if (!locks) throw new Missing('this Node.js has none');
  return webApi(locks);
}

const byHandle = (acquire, release) => ({
  async request(name, callback) {
    const handle = await acquire(name);
    try {
      return await callback();
    } finally {
      await release(handle);
    }
  },
});

function acquired() {
  const { locks } = require('..');
  return byHandle(
    (name) => locks.acquire(name),
    (handle) => handle.release(),
  );
}

const ofMutex = (mutex) =>
  byHandle(
    () => mutex.acquire(),
    (release) => release(),
  );

function asyncMutex() {
  const { Mutex } = need('async-mutex');
  const mutexes = new Map();
  return {
    request: (name, callback) => {
      if (!mutexes.has(name)) mutexes.set(name, new Mutex());
      return mutexes.get(name).runExclusive(callback);
    },
  };
}

function asyncLock() {
  const AsyncLock = need('async-lock');
  const lock = new AsyncLock({ maxPending: Number.POSITIVE_INFINITY });
  return { request: (name, callback) => lock.acquire(name, callback) };
}

function metarhia() {
  const { locks } = need('metarhia-web-locks');
  return { request: (name, callback) => locks.request(name, callback) };
}

/**
 * A lock whose abort has the simplest code: a listener for each request, and a Set as queue. It is
 * only for works that abort.
 */
function listeners() {
  const queue = new Set();
  return {
    request: (_name, callback, options) =>
      new Promise((resolve, reject) => {
        const entry = { callback, resolve };
        queue.add(entry);
        options?.signal?.addEventListener(
          'abort',
          () => {
            queue.delete(entry);
            reject(options.signal.reason);
          },
          { once: true },
        );
        if (queue.size === 1 && !options) resolve(callback());
      }),
  };
}

const subjects = {
  floor,
  'web-locks': webLocks,
  'in one thread': oneThread,
  profiled: profiled(true),
  'profiled, no call sites': profiled(false),
  'locks.acquire': acquired,
  'mutex.acquire': () => ofMutex(new (require('..').Mutex)('resource')),
  'async-mutex, acquire': () => ofMutex(new (need('async-mutex').Mutex)()),
  node: nodeLocks,
  'async-mutex': asyncMutex,
  'async-lock': asyncLock,
  metarhia,
  listeners,
};

module.exports = { subjects };
