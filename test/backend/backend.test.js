// slow: 4

'use strict';

/** A LockManager makes no assumption about when its backend answers. */

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { once } = require('node:events');
const { after, describe, it } = require('node:test');
const { dataOf } = require('../../lib/backend/details.js');
const { LockError, LockLostError, Mutex, Semaphore } = require('../../lib/index.js');
const { HeldRequest } = require('../../lib/extensions/request/lock-handle.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const {
  deferred,
  hold,
  notCalled,
  nothing,
  rejectionOf,
  turn,
  valuesOf,
} = require('../helpers/locks.js');

/** Timers of warnings and holding limits do not keep the event loop alive, this one does. */
const alive = setInterval(nothing, 60_000);
after(() => clearInterval(alive));

const forever = () => new Promise(nothing);
const noStack = () => {
  throw new RangeError('Maximum call stack size exceeded');
};

/** A backend that records its calls, and answers when the test says so. */
class ManualBackend {
  requests = [];
  released = [];
  withdrawn = [];
  releaseAnswer = nothing;
  unfinished = [];
  undo() {}
  announce() {}

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

  finish() {
    for (const unfinished of this.unfinished) unfinished.finish();
  }
}

/** Answers later: applies the event, then announces it. */
function answer(request, what, ...details) {
  request[what](...details);
  request.announceAnswer();
}

function lose(request, ...why) {
  request.lost(...why);
  request.announceLoss(true);
}

function rob(request) {
  request.stolen('thief');
  request.announceLoss(true);
}

/** @param {object} [more] other members of the backend */
function setUp(more) {
  const backend = Object.assign(new ManualBackend(), more);
  return { backend, locks: createLockManager(backend) };
}

async function setUpHandle(more, options) {
  const { backend, locks } = setUp(more);
  const pending = locks.acquire('a', options);
  const [request] = backend.requests;
  answer(request, 'granted');
  return { backend, request, handle: await pending };
}

/** The errors on a channel until the test ends. */
function heardOn(t, channel) {
  const heard = [];
  const listen = ({ error }) => heard.push(error);
  subscribe(`locks.request.${channel}`, listen);
  t.after(() => unsubscribe(`locks.request.${channel}`, listen));
  return heard;
}

describe('answers that come later', () => {
  it('what query() of the backend throws is the rejection', async () => {
    const error = new Error('connection lost');
    const { locks } = setUp({ query: () => assert.fail(error) });
    await assert.rejects(locks.query(), error);
  });

  const releases = {
    'request()': ({ locks }) => locks.request('a', nothing),
    'release() of a handle': async ({ locks }) => (await locks.acquire('a')).release(),
  };
  for (const [call, make] of Object.entries(releases)) {
    it(`${call} settles when the release is done`, async () => {
      const { promise: releaseAnswer, resolve: done } = deferred();
      const made = setUp({ releaseAnswer: () => releaseAnswer });
      let isSettled = false;
      const released = make(made).then(() => {
        isSettled = true;
      });
      answer(made.backend.requests[0], 'granted');
      await turn();
      assert.equal(isSettled, false);
      done();
      await released;
    });
  }

  const thefts = {
    before: rob,
    after: async (lock, backend) => {
      await undefined;
      lock.stolen('thief');
      backend.announce = () => lock.announceLoss(false);
    },
  };
  for (const [when, steal] of Object.entries(thefts)) {
    it(`a theft that is announced ${when} the answer to the release rejects`, async () => {
      for (const ask of ['request', 'requestAll']) {
        const { backend, locks } = setUp();
        backend.releaseAnswer = async (lock) => steal(lock, backend);
        const released = locks[ask](ask === 'request' ? 'a' : ['a'], () => 'value');
        answer(backend.requests[0], 'granted');
        await assert.rejects(released, { name: 'AbortError', clientId: 'thief' }, ask);
      }
    });
  }

  it('what needs an answer at once is a NotSupportedError', async () => {
    const { backend, locks } = setUp({ askHolders: async () => [] });
    const unsupported = { name: 'NotSupportedError' };
    assert.throws(() => locks.acquireSync('a', { timeout: 1 }), unsupported);
    assert.throws(() => locks.tryAcquireSync('a'), unsupported);
    assert.throws(() => new Mutex('a', { locks }).locked, unsupported);
    assert.throws(() => new Semaphore('a', { locks, permits: 1 }).available, unsupported);
    await assert.rejects(locks.request('a', { deadlock: 'reject' }, nothing), unsupported);
    assert.deepEqual(backend.requests, []);
  });

  it('guard() asks the backend, or is a NotSupportedError', async () => {
    const { backend, request, handle } = await setUpHandle();
    await assert.rejects(handle.guard('client'), { name: 'NotSupportedError' });
    const guarded = [];
    backend.guard = async (...what) => guarded.push(what);
    await handle.guard('client');
    assert.deepEqual(guarded, [[request, 'client']]);
  });

  describe('publish()', () => {
    it('is a NotSupportedError if the backend cannot publish', async () => {
      const { handle } = await setUpHandle();
      await assert.rejects(handle.publish(1), { name: 'NotSupportedError' });
    });

    it('gives a value only to text that is JSON, as another program may write any', () => {
      assert.deepEqual(['{', '', 'null'].map(dataOf), [undefined, undefined, null]);
    });

    it('keeps the last text for errors, though an earlier one is answered after it', async () => {
      const first = deferred();
      const answers = [first.promise, true];
      const { request, handle } = await setUpHandle({ publish: () => answers.shift() });
      const both = [handle.publish('first'), handle.publish('second')];
      first.resolve(true);
      assert.deepEqual(await Promise.all(both), [true, true]);
      assert.equal(request.published, '"second"');
    });

    it('is false, and does not ask the backend, if the lock is known to have ended', async () => {
      const ends = [
        ({ request }) => lose(request, 'expired'),
        ({ handle }) => handle.release(),
        ({ backend }) => Object.assign(backend, { checkHeld: () => false }),
      ];
      for (const end of ends) {
        const held = await setUpHandle({ publish: notCalled });
        end(held);
        assert.equal(await held.handle.publish(1), false);
      }
    });

    it('rejects if there is no stack for it, and the lock stays', async () => {
      let undone = 0;
      const { handle } = await setUpHandle({ publish: noStack, undo: () => undone++ });
      await assert.rejects(handle.publish(1), RangeError);
      assert.equal(undone, 1);
      assert.equal(handle.held, true);
    });
  });

  it('held and remaining are what the backend says, which has the clock', async () => {
    const { backend, handle } = await setUpHandle({
      checkHeld: () => backend.left > 0,
      remaining: () => backend.left,
      left: 5,
    });
    const state = () => [handle.held, handle.released, handle.remaining];
    assert.deepEqual(state(), [true, false, 5]);
    backend.left = 0;
    assert.deepEqual(state(), [false, true, 0]);
    handle.release();
    assert.deepEqual(backend.released, backend.requests);
  });

  it('a lock whose lease has expired serves no reentrant request', async () => {
    const options = { reentrant: true };
    let left = 1;
    const inner = [];
    const { backend, locks } = setUp({ checkHeld: () => left > 0 });
    const outer = locks.request('a', options, () => {
      inner.push(locks.request('a', options, () => 'served'));
      left = 0;
      inner.push(locks.request('a', options, () => 'granted'));
    });
    answer(backend.requests[0], 'granted');
    await turn();
    assert.equal(backend.requests.length, 2);
    answer(backend.requests[1], 'granted');
    assert.deepEqual(await Promise.all(inner), ['served', 'granted']);
    await outer;
  });
});

describe('a loss', () => {
  it('rejects with a LockLostError that has the token and the cause', async () => {
    const { backend, locks } = setUp();
    const held = hold(locks, 'a');
    answer(backend.requests[0], 'granted', 7, 1);
    const { lock, released } = await held;
    const cause = new Error('reset');
    lose(backend.requests[0], 'unreachable', () => cause);
    const error = await rejectionOf(released);
    assert.ok(error instanceof LockLostError && error instanceof LockError);
    const { name, lockName, reason, token } = error;
    const expected = ['AbortError', 'a', 'unreachable', 2n ** 32n + 7n];
    assert.deepEqual([name, lockName, reason, token], expected);
    assert.equal(error.cause, cause);
    assert.match(error.message, /^Lock "a" was lost: .* \(reset\)\.$/);
    assert.deepEqual([lock.signal.reason, lock.held], [error, false]);
    assert.deepEqual(backend.released, []);
  });

  it('is announced once, and not for a lock that was released meanwhile', async (t) => {
    const heard = heardOn(t, 'lost');
    const releasing = deferred();
    const { backend, request, handle } = await setUpHandle({
      releaseAnswer: () => releasing.promise,
    });
    const released = handle.release();
    lose(request, 'destroyed');
    releasing.resolve();
    await released;
    assert.deepEqual(backend.released, [request]);
    assert.deepEqual(heard, []);
    const other = await setUpHandle();
    other.request.lost('destroyed');
    for (let i = 0; i < 2; i++) other.request.announceLoss(false);
    assert.deepEqual(valuesOf(heard, 'reason'), ['destroyed']);
  });
});

describe('a time limit, if the backend has to be asked who holds the lock,', () => {
  const somebody = [{ clientId: 'somebody', label: '', held: 3 }];
  const known = /held by client somebody, for 3 ms/;
  const unknown = /holder unknown/;

  for (const [title, timeout, askHolders, message] of [
    ['names the holders if they are known by then', 20, async () => somebody, known],
    ['does not wait for holders that are not known by then', 5, forever, unknown],
    ['does not say that nobody holds a lock that was not granted', 5, async () => [], unknown],
    ['of 0 does not wait long for holders that are not known', 0, forever, unknown],
    ['of 0 rejects when the holders are known', 0, async () => somebody, known],
  ]) {
    it(title, async () => {
      const { backend, locks } = setUp({ askHolders });
      const released = locks.request('a', { timeout }, notCalled);
      if (timeout === 0) answer(backend.requests[0], 'unavailable');
      await assert.rejects(released, { name: 'TimeoutError', message });
      assert.deepEqual(backend.withdrawn, timeout === 0 ? [] : backend.requests);
    });
  }

  it('of 0 rejects without an answer if the backend can block', async () => {
    const { backend, locks } = setUp({ wait() {}, holders: () => undefined });
    for (const options of [{ timeout: 0 }, { timeout: 0, maxPending: 0 }]) {
      const released = locks.request('a', options, notCalled);
      await assert.rejects(released, { name: 'TimeoutError', message: unknown });
    }
    assert.deepEqual(backend.withdrawn, backend.requests);
  });
});

/** @returns {string[]} the names of the methods of an object, its own and inherited */
function methodsOf(object) {
  const names = new Set();
  for (let at = object; at !== Object.prototype; at = Object.getPrototypeOf(at)) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (typeof value === 'function' && name !== 'constructor') names.add(name);
    }
  }
  return [...names];
}

function attempt(call) {
  try {
    return call();
  } catch {
    return undefined;
  }
}

describe('near the end of the stack', () => {
  for (const isSlow of [false, true]) {
    it(`${isSlow ? 'a slow' : 'an immediate'} release() ends the lock, and says so`, async (t) => {
      const setUpHeld = async () => {
        const held = await setUpHandle(
          { checkHeld: () => true },
          { holdTimeout: 1e6, warnAfter: 1e6 },
        );
        if (isSlow) held.backend.releaseAnswer = () => Promise.resolve();
        return { ...held, observer: held.request.observer };
      };
      const failed = new Set();
      for (const part of ['request', 'observer', 'backend']) {
        for (const name of methodsOf((await setUpHeld())[part])) {
          const held = await setUpHeld();
          const { backend, request, observer, handle } = held;
          const told = ['announce', 'undo'].map((method) => t.mock.method(backend, method));
          const ended = t.mock.method(observer, 'onEnd');
          const where = `${part}.${name}`;
          // A method without stack is called once; `undo` needs none.
          const inherited = held[part][name];
          if (name === 'undo') continue;
          held[part][name] = () => {
            failed.add(where);
            noStack();
          };
          const released = attempt(() => handle.release());
          held[part][name] = inherited;
          // Later calls have an empty stack: the user's next attempt, and the event loop.
          await released;
          if (handle.released)
            assert.ok(
              told.some(({ mock }) => mock.callCount() > 0),
              where,
            );
          handle.release();
          backend.finish();
          await turn();
          const isEnded = backend.released.includes(request) || backend.withdrawn.includes(request);
          assert.ok(isEnded && handle.released, where);
          assert.ok(ended.mock.callCount() > 0, where);
        }
      }
      for (const call of ['request.releaseInBackend', 'backend.release', 'backend.announce']) {
        assert.ok(failed.has(call), `${call} was not called`);
      }
    });
  }

  it('a lock that was held too long is ended from the event loop', async () => {
    const { backend, request } = await setUpHandle({ release: noStack }, { holdTimeout: 1e6 });
    request.handleHoldTimeout();
    backend.finish();
    assert.deepEqual(backend.withdrawn, [request]);
  });

  for (const call of ['request', 'acquire', 'requestAll', 'acquireAll']) {
    it(`a request of ${call}() that failed is withdrawn from the event loop`, async () => {
      const { backend, locks } = setUp();
      backend.request = (request) => {
        backend.requests.push(request);
        noStack();
      };
      const names = call.endsWith('All') ? ['a'] : 'a';
      const callback = call.startsWith('request') ? [notCalled] : [];
      await assert.rejects(async () => locks[call](names, {}, ...callback), /call stack/);
      backend.finish();
      assert.deepEqual(backend.withdrawn, backend.requests);
    });
  }

  it('a request that was aborted meanwhile rejects with the reason', async (t) => {
    const { backend, locks } = setUp();
    const controller = new AbortController();
    // Users' code still has stack; ours, which runs next, has none.
    const abort = () => {
      controller.abort('no');
      backend.announce = noStack;
    };
    subscribe('locks.request.start', abort);
    t.after(() => unsubscribe('locks.request.start', abort));
    const asked = locks.request('a', { signal: controller.signal }, notCalled);
    await assert.rejects(asked, (reason) => reason === 'no');
  });

  it('requestAll() withdraws the requests that it cannot wait for', async (t) => {
    for (const isGranted of [false, true]) {
      const { backend, locks } = setUp();
      const { request } = backend;
      if (isGranted) backend.request = (it) => request.call(backend, it) ?? it.granted();
      const { acquire } = HeldRequest.prototype;
      const { mock } = t.mock.method(HeldRequest.prototype, 'acquire', function noWait() {
        acquire.call(this);
        noStack();
      });
      const undo = t.mock.method(backend, 'undo');
      await assert.rejects(locks.requestAll(['a', 'b'], assert.fail), /call stack/);
      mock.restore();
      assert.equal(undo.mock.callCount(), 1);
      backend.finish();
      assert.deepEqual(backend.withdrawn, backend.requests);
    }
  });
});

describe('a lock that is held too long, although its release is never answered,', () => {
  const TIMED_OUT = { name: 'TimeoutError' };

  /** A backend that grants at once and never answers a release. */
  function setUpStanding() {
    const { backend, locks } = setUp({ releaseAnswer: forever });
    backend.request = (request) => {
      backend.requests.push(request);
      request.granted();
    };
    return { backend, locks };
  }

  for (const limit of ['holdTimeout', 'maxTotal']) {
    it(`ends the request, the handle and all of several: ${limit}`, async () => {
      const { backend, locks } = setUpStanding();
      const options = { [limit]: 10 };
      const { lock, released } = await hold(locks, 'a', options);
      await assert.rejects(released, TIMED_OUT);
      const handle = await locks.acquire('a', options);
      await once(handle.signal, 'abort');
      assert.equal(backend.released.length, 2);
      for (const { held, signal } of [lock, handle]) {
        assert.deepEqual([held, signal.reason.name], [false, 'TimeoutError']);
      }
      await assert.rejects(locks.requestAll(['a', 'b'], options, forever), TIMED_OUT);
    });
  }

  it('is one of several, whichever of them it is', async () => {
    const { backend, locks } = setUpStanding();
    let seen;
    const asked = locks.requestAll(['a', 'b'], { maxTotal: 60_000 }, (both) => {
      seen = both;
      return forever();
    });
    await turn();
    backend.requests[1].handleHoldTimeout();
    await assert.rejects(asked, { name: 'TimeoutError' });
    assert.equal(seen[1].signal.reason.name, 'TimeoutError');
  });
});

it('a lock that another one serves is no longer held once the outer one is lost', async () => {
  const options = { reentrant: true };
  const ends = {
    holdTimeout: (request) => request.handleHoldTimeout(),
    stolen: (request) => request.stolen('thief'),
    lost: (request) => request.lost('closed'),
  };
  for (const [how, end] of Object.entries(ends)) {
    const { backend, locks } = setUp({ releaseAnswer: forever });
    const held = [];
    const promises = [];
    const callback = (lock) => {
      held.push(lock);
      if (held.length === 1) promises.push(locks.request('a', options, callback));
      return forever();
    };
    promises.push(locks.request('a', { ...options, holdTimeout: 1e6 }, callback));
    const [request] = backend.requests;
    answer(request, 'granted');
    await turn();
    end(request);
    assert.deepEqual(valuesOf(held, 'held'), [false, false], how);
    request.announceLoss(true);
    const name = how === 'holdTimeout' ? 'TimeoutError' : 'AbortError';
    for (const promise of promises) await assert.rejects(promise, { name });
    assert.equal(held[1].signal.reason.name, name);
  }
});

describe('several locks that a backend requests in one step', () => {
  function setUpSeveral(more) {
    const requestAll = (requests) => backend.requests.push(...requests);
    const { backend, locks } = setUp({ requestAll, ...more });
    return { backend, locks };
  }

  it('all fail if one fails, and those that were granted are released', async () => {
    const { backend, locks } = setUpSeveral();
    const done = locks.requestAll(['a', 'b', 'c'], notCalled);
    const [a, b, c] = backend.requests;
    answer(a, 'granted');
    await turn();
    const error = new Error('no');
    answer(b, 'failed', () => error);
    await assert.rejects(done, error);
    assert.deepEqual([...backend.withdrawn, ...backend.released], [a, c]);
  });

  const holder = (name, mode) => ({ clientId: 'other', label: '', held: 3, name, mode });
  const progress = ({ name }) => (name === 'b' ? 'waiting' : 'grantedPartial');
  it('a warning does not name a lock that waits only for the others', async (t) => {
    const askHolders = async (name) => (name === 'b' ? [holder('b', 'exclusive')] : []);
    const { backend, locks } = setUpSeveral({ progress, askHolders });
    const told = [];
    const listen = ({ message }) => told.push(/lock "(.)"/.exec(message)[1]);
    process.on('warning', listen);
    t.after(() => process.off('warning', listen));
    const done = locks.requestAll(['a', 'b'], { warnAfter: 5 }, () => 'done');
    await once(process, 'warning');
    await turn();
    for (const request of backend.requests) answer(request, 'granted');
    assert.equal(await done, 'done');
    assert.deepEqual(told, ['b']);
  });

  it('the time limit 0 is not announced if another reason comes first', async (t) => {
    const timedOut = heardOn(t, 'timeout');
    const { backend, locks } = setUpSeveral({
      askHolders: async (name) => [holder(name, 'exclusive')],
    });
    const done = locks.requestAll(['a', 'b'], { timeout: 0 }, notCalled);
    answer(backend.requests[0], 'unavailable');
    const error = new Error('no');
    answer(backend.requests[1], 'failed', () => error);
    await assert.rejects(done, error);
    await turn();
    assert.deepEqual(timedOut, []);
  });
});

describe('locks.once, while it is asked whether the name is marked,', () => {
  for (const [what, happens, expected] of [
    ['if the lock is stolen', rob, { clientId: 'thief' }],
    ['if the lock is lost', (request) => lose(request, 'expired'), { reason: 'expired' }],
    ['if it is aborted', (_, controller) => controller.abort(new Error('up')), { message: 'up' }],
  ]) {
    it(`neither calls back nor marks the name ${what}`, async () => {
      const controller = new AbortController();
      const answered = deferred();
      const { backend, locks } = setUp({ marked: () => answered.promise });
      let calls = 0;
      const outcome = locks.once('a', { keep: 1000, signal: controller.signal }, () => calls++);
      answer(backend.requests[0], 'granted');
      await turn();
      happens(backend.requests[0], controller);
      answered.resolve(false);
      await assert.rejects(outcome, expected);
      await turn();
      assert.equal(calls, 0);
      assert.ok(backend.released.every(({ keep }) => keep === undefined));
    });
  }
});
