'use strict';

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { getEventListeners } = require('node:events');
const { describe, it } = require('node:test');
const { LockError, LockLostError, Mutex, Semaphore } = require('../../lib/index.js');
const { noMemoryError } = require('../../lib/platform/errors.js');
const { createLockManager } = require('../../lib/extensions/lock-manager.js');
const { deferred, turn } = require('../helpers/locks.js');

/** A backend that notes what it is asked, and answers when the test says so. */
class ManualBackend {
  requests = [];
  released = [];
  withdrawn = [];
  releaseAnswer = () => {};
  unfinished = [];
  undo() {}
  tell() {}

  request(request) {
    this.requests.push(request);
  }

  withdraw(request) {
    this.withdrawn.push(request);
  }

  release(lock) {
    this.released.push(lock);
    return this.releaseAnswer(lock);
  }

  query() {
    return Promise.resolve({ held: [], pending: [] });
  }
}

/** Answers later: says what happened, then has it told. */
function answer(request, what, ...details) {
  request[what](...details);
  request.answer();
}

function setUp() {
  const backend = new ManualBackend();
  return { backend, locks: createLockManager(backend) };
}

describe('a LockManager assumes nothing of when its backend answers', () => {
  it('hands over name, mode and disposition', () => {
    const { backend, locks } = setUp();
    locks.request('a', () => {});
    locks.request('b', { mode: 'shared', ifAvailable: true }, () => {});
    locks.request('c', { steal: true }, () => {});
    assert.deepEqual(
      backend.requests.map(({ name, mode, disposition }) => [name, mode, disposition]),
      [
        ['a', 'exclusive', 'wait'],
        ['b', 'shared', 'ifAvailable'],
        ['c', 'exclusive', 'steal'],
      ],
    );
  });

  it('a grant turns later calls back then, in the context of the request', async () => {
    const { backend, locks } = setUp();
    const storage = new AsyncLocalStorage();
    const released = storage.run('context', () => locks.request('a', () => storage.getStore()));
    await turn();
    answer(backend.requests[0], 'granted');
    assert.equal(await released, 'context');
    assert.deepEqual(backend.released, backend.requests);
  });

  it('a refusal turns later calls back with null and releases nothing', async () => {
    const { backend, locks } = setUp();
    const released = locks.request('a', { ifAvailable: true }, (lock) => lock);
    await turn();
    answer(backend.requests[0], 'unavailable');
    assert.equal(await released, null);
    assert.deepEqual(backend.released, []);
  });

  it('a failure rejects, and the callback is not called', async () => {
    const { backend, locks } = setUp();
    const controller = new AbortController();
    const options = { signal: controller.signal };
    const released = locks.request('a', options, () => assert.fail('called'));
    const error = new Error('connection lost');
    answer(backend.requests[0], 'failed', error);
    await assert.rejects(released, error);
    controller.abort();
    assert.deepEqual(backend.withdrawn, []);
  });

  it('out of memory in the backend rejects with an error that says so', async () => {
    const { backend, locks } = setUp();
    backend.request = (request) => request.failed(noMemoryError('requesting a lock'));
    await assert.rejects(
      locks.request('a', () => assert.fail('called')),
      { name: 'RangeError', code: 'ERR_WEB_LOCKS_NO_MEMORY', message: /^Out of memory/ },
    );
  });

  it('waits for a release that takes its time before the released promise settles', async () => {
    const { backend, locks } = setUp();
    const { promise, resolve: done } = deferred();
    backend.releaseAnswer = () => promise;
    const released = locks.request('a', () => 'value');
    answer(backend.requests[0], 'granted');
    let settled = false;
    released.then(() => {
      settled = true;
    });
    await turn();
    assert.equal(settled, false);
    done();
    assert.equal(await released, 'value');
  });

  it('a release that comes after a steal rejects with an AbortError', async () => {
    const { backend, locks } = setUp();
    backend.releaseAnswer = async (lock) => {
      lock.stolen('thief');
      lock.lose(true);
    };
    const released = locks.request('a', () => 'value');
    answer(backend.requests[0], 'granted');
    await assert.rejects(released, { name: 'AbortError', clientId: 'thief' });
  });

  it('an abort withdraws the request once, whatever comes after', async () => {
    const { backend, locks } = setUp();
    const controller = new AbortController();
    const { signal } = controller;
    const released = locks.request('a', { signal }, () => assert.fail('called'));
    controller.abort();
    await assert.rejects(released, { name: 'AbortError' });
    assert.deepEqual(backend.withdrawn, backend.requests);
  });

  it('what query() of the backend throws is the rejection', async () => {
    const { backend, locks } = setUp();
    const error = new Error('connection lost');
    backend.query = () => {
      throw error;
    };
    await assert.rejects(locks.query(), error);
  });
});

/** A wider scope: what the process's native core does not do. */
describe('a LockManager of a backend that is far away', () => {
  const lose = (request, ...why) => {
    request.lost(...why);
    request.lose(true);
  };

  it('a lock that is lost rejects with a LockLostError, and its signal is aborted', async () => {
    const { backend, locks } = setUp();
    const granted = deferred();
    const released = locks.request('a', (lock) => {
      granted.resolve(lock);
      return new Promise(() => {});
    });
    const [request] = backend.requests;
    answer(request, 'granted', 7, 1);
    const lock = await granted.promise;
    const cause = new Error('reset');
    lose(request, 'unreachable', cause);
    await assert.rejects(released, (error) => {
      assert.ok(error instanceof LockLostError);
      assert.ok(error instanceof LockError);
      const { name, lockName, reason, token, message } = error;
      assert.deepEqual(
        [name, lockName, reason, token],
        ['AbortError', 'a', 'unreachable', 2n ** 32n + 7n],
      );
      assert.equal(error.cause, cause);
      assert.match(message, /^The lock "a" was lost: .* \(reset\)\.$/);
      assert.equal(lock.signal.reason, error);
      return true;
    });
    assert.equal(lock.held, false);
    assert.deepEqual(backend.released, []);
  });

  it('a loss of a lock whose grant was not told rejects, and its signal is not followed', async () => {
    const { backend, locks } = setUp();
    const { signal } = new AbortController();
    const released = locks.request('a', { signal }, () => assert.fail('called'));
    lose(backend.requests[0], 'closed');
    await assert.rejects(released, { reason: 'closed', message: /its bucket was closed/ });
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });

  it('a loss after the callback has ended is not told', async () => {
    const { backend, locks } = setUp();
    const { promise, resolve: done } = deferred();
    backend.releaseAnswer = () => promise;
    const released = locks.request('a', () => 'value');
    answer(backend.requests[0], 'granted');
    while (backend.released.length === 0) await turn();
    backend.requests[0].lost('expired');
    done();
    assert.equal(await released, 'value');
  });

  it('a loss is told on the channel locks.request.lost', async () => {
    const { backend, locks } = setUp();
    const heard = [];
    const listen = ({ error }) => heard.push(error.reason);
    subscribe('locks.request.lost', listen);
    const released = locks.request('a', () => new Promise(() => {}));
    answer(backend.requests[0], 'granted');
    await turn();
    lose(backend.requests[0], 'failover');
    await assert.rejects(released);
    unsubscribe('locks.request.lost', listen);
    assert.deepEqual(heard, ['failover']);
  });

  it('held and remaining ask the backend, who has the clock', async () => {
    const { backend, locks } = setUp();
    backend.holds = () => backend.left > 0;
    backend.remaining = () => backend.left;
    const pending = locks.acquire('a');
    answer(backend.requests[0], 'granted');
    const lock = await pending;
    backend.left = 5;
    assert.deepEqual([lock.held, lock.released, lock.remaining], [true, false, 5]);
    backend.left = 0;
    assert.deepEqual([lock.held, lock.released, lock.remaining], [false, true, 0]);
    lock.release();
    assert.deepEqual(backend.released, backend.requests);
  });

  it('a handle’s release() and asyncDispose wait for the backend’s', async () => {
    const { backend, locks } = setUp();
    const { promise, resolve: done } = deferred();
    backend.releaseAnswer = () => promise;
    const pending = locks.acquire('a');
    answer(backend.requests[0], 'granted');
    const released = (await pending).release();
    let isDone = false;
    released.then(() => {
      isDone = true;
    });
    await turn();
    assert.equal(isDone, false);
    done();
    await released;
  });

  it('a time limit rejects when the holders are known, and withdraws at once', async () => {
    const { backend, locks } = setUp();
    const holders = deferred();
    backend.holders = () => holders.promise;
    const released = locks.request('a', { timeout: 1 }, () => assert.fail('called'));
    while (backend.withdrawn.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    holders.resolve([{ clientId: 'somebody', label: '', held: 3 }]);
    await assert.rejects(released, { name: 'TimeoutError', message: /held by somebody/ });
  });

  it('the time limit 0 rejects when the holders are known', async () => {
    const { backend, locks } = setUp();
    backend.holders = async () => [{ clientId: 'somebody', label: '', held: 3 }];
    const released = locks.request('a', { timeout: 0 }, () => assert.fail('called'));
    answer(backend.requests[0], 'unavailable');
    await assert.rejects(released, { name: 'TimeoutError', message: /held by somebody/ });
  });

  it('what needs an answer at once is a NotSupportedError', async () => {
    const { backend, locks } = setUp();
    backend.holders = async () => [];
    const unsupported = { name: 'NotSupportedError' };
    assert.throws(() => locks.acquireSync('a', { timeout: 1 }), unsupported);
    assert.throws(() => locks.tryAcquireSync('a'), unsupported);
    assert.throws(() => new Mutex('a', { locks }).locked, unsupported);
    assert.throws(() => new Semaphore('a', { locks, permits: 1 }).available, unsupported);
    await assert.rejects(
      locks.request('a', { deadlock: 'reject' }, () => {}),
      unsupported,
    );
    assert.deepEqual(backend.requests, []);
  });

  it('guard() asks the backend, or is a NotSupportedError', async () => {
    const { backend, locks } = setUp();
    const pending = locks.acquire('a');
    answer(backend.requests[0], 'granted');
    const lock = await pending;
    await assert.rejects(lock.guard('client'), { name: 'NotSupportedError' });
    const guarded = [];
    backend.guard = async (...what) => guarded.push(what);
    await lock.guard('client');
    assert.deepEqual(guarded, [[backend.requests[0], 'client']]);
  });
});

describe('several locks, of a backend that requests them in one step', () => {
  function setUpSeveral() {
    const { backend, locks } = setUp();
    const steps = [];
    backend.requestAll = (requests) => {
      steps.push(requests.map(({ name }) => name));
      backend.requests.push(...requests);
    };
    return { backend, locks, steps };
  }

  it('asks for all at once, and calls back when the last one is granted', async () => {
    const { backend, locks, steps } = setUpSeveral();
    const done = locks.requestAll(['b', 'a', 'b'], (all) => all.map(({ name }) => name));
    assert.deepEqual(steps, [['a', 'b']]);
    const [a, b] = backend.requests;
    answer(b, 'granted');
    await turn();
    assert.deepEqual(backend.released, []);
    answer(a, 'granted');
    assert.deepEqual(await done, ['b', 'a', 'b']);
    assert.deepEqual(backend.released, [a, b]);
  });

  it('if one fails, all fail, and those that were granted are released', async () => {
    const { backend, locks } = setUpSeveral();
    const done = locks.requestAll(['a', 'b', 'c'], () => assert.fail('called'));
    const [a, b, c] = backend.requests;
    answer(a, 'granted');
    await turn();
    const error = new Error('no');
    answer(b, 'failed', error);
    await assert.rejects(done, error);
    assert.deepEqual([...backend.withdrawn, ...backend.released], [a, c]);
  });

  it('an abort withdraws all of them', async () => {
    const { backend, locks } = setUpSeveral();
    const controller = new AbortController();
    const { signal } = controller;
    const done = locks.requestAll(['a', 'b'], { signal }, () => assert.fail('called'));
    controller.abort(new Error('enough'));
    await assert.rejects(done, { message: 'enough' });
    assert.deepEqual(backend.withdrawn, backend.requests);
  });

  it('ifAvailable is null if one is not', async () => {
    const { backend, locks } = setUpSeveral();
    const done = locks.requestAll(['a', 'b'], { ifAvailable: true }, (all) => all);
    for (const request of backend.requests) request.unavailable();
    for (const request of backend.requests) request.answer();
    assert.equal(await done, null);
  });
});
