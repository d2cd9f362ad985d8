'use strict';

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { describe, it } = require('node:test');
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
