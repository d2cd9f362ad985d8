// slow: 4

'use strict';

/** A LockManager assumes nothing of when its backend answers. */

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { getEventListeners, once } = require('node:events');
const { after, describe, it } = require('node:test');
const { LockError, LockLostError, Mutex, Semaphore } = require('../../lib/index.js');
const { noMemoryError } = require('../../lib/platform/errors.js');
const { HeldRequest } = require('../../lib/extensions/request/lock-handle.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const {
  deferred,
  notCalled,
  nothing,
  rejectionOf,
  turn,
  valuesOf,
} = require('../helpers/locks.js');

/** No timer of a warning or of a limit on holding keeps the event loop alive. */
const alive = setInterval(nothing, 60_000);
after(() => clearInterval(alive));

const forever = () => new Promise(nothing);
const noStack = () => {
  throw new RangeError('Maximum call stack size exceeded');
};

/** A backend that notes what it is asked, and answers when the test says so. */
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

/** Answers later: says what happened, then has it told. */
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

/** As setUp(), with a request that is granted; `released` is its promise. */
function setUpGranted({ more, options = {}, callback = () => 'value' } = {}) {
  const { backend, locks } = setUp(more);
  const released = locks.request('a', options, callback);
  const [request] = backend.requests;
  answer(request, 'granted');
  return { backend, locks, request, released };
}

async function setUpHandle(more, options) {
  const { backend, locks } = setUp(more);
  const pending = locks.acquire('a', options);
  const [request] = backend.requests;
  answer(request, 'granted');
  return { backend, request, observer: request.observer, handle: await pending };
}

/** The errors that a channel tells of until the test ends. */
function heardOn(t, channel) {
  const heard = [];
  const listen = ({ error }) => heard.push(error);
  subscribe(`locks.request.${channel}`, listen);
  t.after(() => unsubscribe(`locks.request.${channel}`, listen));
  return heard;
}

describe('answers that come later', () => {
  it('a grant calls back then, in the context of the request', async () => {
    const { backend, locks } = setUp();
    const storage = new AsyncLocalStorage();
    const released = storage.run('context', () => locks.request('a', () => storage.getStore()));
    await turn();
    answer(backend.requests[0], 'granted');
    assert.equal(await released, 'context');
    assert.deepEqual(backend.released, backend.requests);
  });

  it('out of memory in the backend rejects with an error that says so', async () => {
    const { backend, locks } = setUp();
    backend.request = (request) => request.failed(() => noMemoryError('requesting a lock'));
    const error = {
      name: 'RangeError',
      code: 'ERR_WEB_LOCKS_NO_MEMORY',
      message: /^Out of memory/,
    };
    await assert.rejects(locks.request('a', notCalled), error);
  });

  it('what query() of the backend throws is the rejection', async () => {
    const error = new Error('connection lost');
    const { locks } = setUp({ query: () => assert.fail(error) });
    await assert.rejects(locks.query(), error);
  });

  for (const [form, make] of Object.entries({
    request: (more) => setUpGranted({ more }).released,
    'release() of a handle': async (more) => (await setUpHandle(more)).handle.release(),
  })) {
    it(`${form} settles when a release is done that takes its time`, async () => {
      const { promise: releaseAnswer, resolve: done } = deferred();
      let settled = false;
      const released = make({ releaseAnswer: () => releaseAnswer }).then(() => {
        settled = true;
      });
      await turn();
      assert.equal(settled, false);
      done();
      await released;
    });
  }

  for (const [when, steal] of Object.entries({
    'before the release': (lock) => rob(lock),
    'after the release': async (lock, backend) => {
      await undefined;
      lock.stolen('thief');
      const { announce } = backend;
      backend.announce = () => {
        backend.announce = announce;
        lock.announceLoss(false);
      };
    },
  })) {
    for (const [title, ask] of [
      ['one lock', (locks) => locks.request('a', () => 'value')],
      ['several locks', (locks) => locks.requestAll(['a'], () => 'value')],
    ]) {
      it(`a theft that is announced ${when} rejects: ${title}`, async () => {
        const { backend, locks } = setUp();
        backend.releaseAnswer = async (lock) => steal(lock, backend);
        const released = ask(locks);
        answer(backend.requests[0], 'granted');
        await assert.rejects(released, { name: 'AbortError', clientId: 'thief' });
      });
    }
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
    /** As setUpHandle(), with a backend that answers `outcome` and notes what it was given. */
    async function setUpPublisher(outcome = true) {
      const published = [];
      const publish = (lock, text) => {
        published.push([lock, text]);
        return outcome;
      };
      return { published, ...(await setUpHandle({ publish })) };
    }

    it('is a NotSupportedError if the backend cannot publish', async () => {
      const { handle } = await setUpHandle();
      await assert.rejects(handle.publish(1), { name: 'NotSupportedError' });
    });

    it('gives the backend the JSON text, or undefined to remove it', async () => {
      const { published, request, handle } = await setUpPublisher();
      assert.deepEqual([await handle.publish({ a: [1] }), await handle.publish()], [true, true]);
      assert.deepEqual(published, [
        [request, '{"a":[1]}'],
        [request, undefined],
      ]);
    });

    it('resolves to what the backend answers, also later', async () => {
      for (const outcome of [true, false]) {
        assert.equal(await (await setUpPublisher(outcome)).handle.publish(1), outcome);
        const later = Promise.resolve(outcome);
        assert.equal(await (await setUpPublisher(later)).handle.publish(1), outcome);
      }
    });

    it('keeps the last text for errors, though an earlier one is answered after it', async () => {
      let answerFirst = nothing;
      const first = new Promise((resolve) => {
        answerFirst = resolve;
      });
      const answers = [first, true];
      const { request, handle } = await setUpHandle({ publish: () => answers.shift() });
      const both = [handle.publish('first'), handle.publish('second')];
      answerFirst(true);
      assert.deepEqual(await Promise.all(both), [true, true]);
      assert.equal(request.published, '"second"');
    });

    it('is false of a lock that has ended, of which the backend is not asked', async () => {
      const { published, request, handle } = await setUpPublisher();
      lose(request, 'expired');
      assert.equal(await handle.publish(1), false);
      const other = await setUpPublisher();
      other.handle.release();
      assert.equal(await other.handle.publish(1), false);
      assert.deepEqual([published, other.published], [[], []]);
    });

    it('is false of a lock whose lease is over, which then counts as lost', async () => {
      const { handle } = await setUpHandle({ publish: notCalled, holds: () => false });
      assert.equal(await handle.publish(1), false);
    });

    it('announces a loss that the backend has found out', async () => {
      const { backend, handle, request } = await setUpHandle();
      let isAborted = false;
      handle.signal.onabort = () => {
        isAborted = true;
      };
      backend.publish = () => {
        request.lost('destroyed');
        return false;
      };
      backend.announce = () => request.announceLoss(false);
      assert.equal(await handle.publish(1), false);
      assert.equal(isAborted, true);
    });

    it('has what went wrong in the backend announced later, and rejects', async () => {
      let undone = 0;
      const { handle } = await setUpHandle({ publish: noStack, undo: () => undone++ });
      await assert.rejects(handle.publish(1), RangeError);
      assert.equal(undone, 1);
      assert.equal(handle.held, true);
    });

    it('asks about the lock that serves a reentrant one', async () => {
      const published = [];
      const { backend, locks } = setUp({ publish: (...what) => published.push(what) > 0 });
      const request = (callback) => locks.request('a', { reentrant: true }, callback);
      const outer = request(() => request((lock) => lock.publish('inner')));
      answer(backend.requests[0], 'granted');
      assert.equal(await outer, true);
      assert.deepEqual(published, [[backend.requests[0], '"inner"']]);
    });
  });

  it('held and remaining ask the backend, who has the clock', async () => {
    const { backend, handle } = await setUpHandle({
      holds: () => backend.left > 0,
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

  it('a lock whose lease is over serves no reentrant request', async () => {
    const options = { reentrant: true };
    let left = 1;
    const inner = [];
    const { backend, locks } = setUp({ holds: () => left > 0 });
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
  it('rejects with a LockLostError, and the signal is aborted', async () => {
    const { backend, locks } = setUp();
    const granted = deferred();
    const released = locks.request('a', (lock) => {
      granted.resolve(lock);
      return forever();
    });
    answer(backend.requests[0], 'granted', 7, 1);
    const lock = await granted.promise;
    const cause = new Error('reset');
    lose(backend.requests[0], 'unreachable', () => cause);
    const error = await rejectionOf(released);
    assert.ok(error instanceof LockLostError && error instanceof LockError);
    const { name, lockName, reason, token } = error;
    const expected = ['AbortError', 'a', 'unreachable', 2n ** 32n + 7n];
    assert.deepEqual([name, lockName, reason, token], expected);
    assert.equal(error.cause, cause);
    assert.match(error.message, /^Lock "a" was lost: .* \(reset\)\.$/);
    assert.equal(lock.signal.reason, error);
    assert.equal(lock.held, false);
    assert.deepEqual(backend.released, []);
  });

  it('before the grant was told rejects, and the signal is not followed', async () => {
    const { backend, locks } = setUp();
    const { signal } = new AbortController();
    const released = locks.request('a', { signal }, notCalled);
    lose(backend.requests[0], 'closed');
    await assert.rejects(released, { reason: 'closed', message: /its bucket was closed/ });
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });

  it('of a lock that was released meanwhile is told nobody', async (t) => {
    const { promise, resolve: done } = deferred();
    const heard = heardOn(t, 'lost');
    const { backend, request, released } = setUpGranted({ more: { releaseAnswer: () => promise } });
    while (backend.released.length === 0) await turn();
    lose(request, 'destroyed');
    done();
    assert.equal(await released, 'value');
    assert.deepEqual(heard, []);
  });

  it('is told once', async (t) => {
    const heard = heardOn(t, 'lost');
    const { request, released } = setUpGranted({ callback: forever });
    await turn();
    request.lost('destroyed');
    request.announceLoss(false);
    request.announceLoss(false);
    await assert.rejects(released);
    assert.deepEqual(valuesOf(heard, 'reason'), ['destroyed']);
  });
});

describe('a time limit, of a backend that has to be asked who holds', () => {
  const somebody = [{ clientId: 'somebody', label: '', held: 3 }];
  const known = /held by client somebody, for 3 ms/;
  const unknown = /holder unknown/;

  for (const [title, timeout, askHolders, message] of [
    ['names the holders that were asked for before it', 20, async () => somebody, known],
    ['does not wait for holders that are not known by then', 5, forever, unknown],
    ['does not say that nobody held what was not granted', 5, async () => [], unknown],
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

  it('of 0 rejects though there is no answer, on one machine', async () => {
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

/**
 * Calls `work` for each method of the parts of what `make` makes; a call of that method finds no stack
 * until `work` calls `restore`. `undo` needs no stack.
 * @returns the methods that were called: `part.method`
 */
async function withoutStack(make, parts, work, isTried = () => true) {
  const failed = new Set();
  for (const part of parts) {
    for (const name of methodsOf((await make())[part])) {
      if (name === 'undo' || !isTried(name)) continue;
      const made = await make();
      const inherited = made[part][name];
      made[part][name] = () => {
        failed.add(`${part}.${name}`);
        noStack();
      };
      const restore = () => {
        made[part][name] = inherited;
      };
      await work(made, restore, `without stack for ${part}.${name}`);
    }
  }
  return failed;
}

function attempt(call) {
  try {
    return call();
  } catch {
    return undefined;
  }
}

/** What a promise settles as in a few turns. */
const soon = (promise) =>
  Promise.race([
    promise,
    turn()
      .then(turn)
      .then(() => 'hangs'),
  ]);

describe('near the end of the stack', () => {
  const setUpHeld = () => setUpHandle({ holds: () => true }, { holdTimeout: 1e6, warnAfter: 1e6 });
  const PARTS = ['request', 'observer', 'backend'];

  it('a release() loses no lock, whichever of its calls finds no stack', async () => {
    const failed = await withoutStack(setUpHeld, PARTS, (held, restore, where) => {
      const { backend, request, handle } = held;
      attempt(() => handle.release());
      restore();
      // As with an empty stack: the user tries again, or the event loop does the rest.
      handle.release();
      backend.finish();
      const isEnded = backend.released.includes(request) || backend.withdrawn.includes(request);
      assert.ok(isEnded && handle.released, where);
    });
    for (const call of ['request.releaseInBackend', 'observer.noteRelease', 'backend.release']) {
      assert.ok(failed.has(call), `${call} was not called`);
    }
  });

  for (const isSlow of [false, true]) {
    it(
      `a release() that is ${isSlow ? 'slow' : 'done at once'} tells who gets the lock`,
      async (t) => {
        const make = async () => {
          const held = await setUpHeld();
          if (isSlow) held.backend.releaseAnswer = () => Promise.resolve();
          const told = ['announce', 'undo'].map((name) => t.mock.method(held.backend, name));
          return { ...held, told, ended: t.mock.method(held.observer, 'onEnd') };
        };
        const failed = await withoutStack(make, PARTS, async (held, restore, where) => {
          const released = attempt(() => held.handle.release());
          restore();
          // What comes later finds an empty stack.
          await released;
          if (!held.handle.released) return;
          assert.ok(
            held.told.some(({ mock }) => mock.callCount() > 0),
            `${where} nobody gets it`,
          );
          held.backend.finish();
          assert.ok(held.ended.mock.callCount() > 0, `${where} no end`);
        });
        assert.ok(failed.has('backend.announce'));
      },
      (name) => name !== 'announceLoss',
    );
  }

  it('a lock that was held too long is ended from the event loop', async () => {
    const { backend, request } = await setUpHeld();
    backend.release = noStack;
    request.handleHoldTimeout();
    backend.finish();
    assert.deepEqual(backend.withdrawn, [request]);
  });

  it('a request that was aborted meanwhile rejects with the reason', async (t) => {
    const { backend, locks } = setUp();
    const controller = new AbortController();
    // Users' code, which has stack left, runs before ours, which has none.
    const abort = () => {
      controller.abort('no');
      backend.announce = noStack;
    };
    subscribe('locks.request.start', abort);
    t.after(() => unsubscribe('locks.request.start', abort));
    const asked = locks.request('a', { signal: controller.signal }, notCalled);
    await assert.rejects(asked, (reason) => reason === 'no');
  });

  it('the loss of one of several ends the others when it is told again', async () => {
    /** One is held and another one waited for; then the first one is lost. */
    const make = async () => {
      const { backend, locks } = setUp();
      const settled = Promise.allSettled([locks.requestAll(['a', 'b'], notCalled)]);
      answer(backend.requests[0], 'granted');
      await turn();
      const [held, waiting] = backend.requests;
      held.stolen('thief');
      return { backend, held, waiting, settled };
    };
    const failed = await withoutStack(
      make,
      ['held', 'waiting', 'backend'],
      async (lost, restore, where) => {
        attempt(() => lost.held.announceLoss(false));
        restore();
        // What the event loop does, on an empty stack.
        lost.held.announceLoss(true);
        assert.deepEqual([...new Set(lost.backend.withdrawn)], [lost.waiting], where);
        assert.equal((await soon(lost.settled))[0].reason?.clientId, 'thief', where);
      },
    );
    for (const call of ['withdraw', 'disarm', 'rejectPromise'])
      assert.ok(failed.has(`waiting.${call}`));
    assert.ok(failed.has('backend.withdraw'));
  });

  /** A lock that is held, and one that it serves. */
  async function setUpServing() {
    const { backend, locks } = setUp();
    const options = { reentrant: true };
    let inner;
    const released = locks.request('a', options, async () => {
      inner = locks.request('a', options, forever);
      await forever();
    });
    const [outer] = backend.requests;
    answer(outer, 'granted');
    await turn();
    const settled = Promise.allSettled([released, inner]);
    return { backend, outer, inner: outer.served.requests[0], settled };
  }

  it('a lock that waits for what it serves is released when the last of those leaves', async (t) => {
    for (const name of ['release', 'releaseInBackend']) {
      const { backend, locks } = setUp();
      let inner;
      const outer = locks.request('a', { reentrant: true }, async (lock) => {
        inner = await locks.acquire('a', { reentrant: true });
        return lock.name;
      });
      const [request] = backend.requests;
      answer(request, 'granted');
      // It waits for the inner one when its callback has ended.
      await turn();
      assert.ok(request.served.isAwaited);
      const { mock } = t.mock.method(request, name, noStack);
      attempt(() => inner.release());
      mock.restore();
      backend.finish();
      assert.deepEqual(backend.released, [request], name);
      assert.equal(await outer, 'a');
    }
  });

  it('the loss of a lock ends what it serves when it is told again', async () => {
    const TOLD = [
      'publishLoss',
      'announceServedLosses',
      'announceLoss',
      'lossReason',
      'rejectPromise',
    ];
    const failed = await withoutStack(
      setUpServing,
      ['outer', 'inner'],
      async (both, restore, where) => {
        both.outer.stolen('thief');
        attempt(() => both.outer.announceLoss(false));
        restore();
        // What the event loop does, on an empty stack.
        both.outer.announceLoss(true);
        assert.notEqual(await soon(both.settled), 'hangs', where);
      },
      (name) => TOLD.includes(name),
    );
    assert.ok(failed.has('outer.announceServedLosses'));
  });

  it('several leave what was asked for and cannot be waited for', async (t) => {
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

describe('a lock that is held too long, of a backend whose release is never answered', () => {
  /** Grants at once; `late` resolves when all is told that is told before a release is answered. */
  function setUpStanding() {
    const releasing = deferred();
    const { backend, locks } = setUp({
      releaseAnswer() {
        releasing.resolve();
        return forever();
      },
      request(request) {
        backend.requests.push(request);
        request.granted();
      },
    });
    return { backend, locks, told: [], late: releasing.promise.then(turn) };
  }

  /** Notes what is told of a lock. */
  const follow = (told, { signal, name }) =>
    signal.addEventListener('abort', () => told.push([`signal of ${name}`, signal.reason.name]));

  /** Asks for both, and notes what is told. */
  function askForBoth({ locks, told }, options) {
    const asked = locks.requestAll(['a', 'b'], options, (both) => {
      for (const lock of both) follow(told, lock);
      return forever();
    });
    asked.catch((error) => told.push(['promise', error.name]));
  }

  it('is told to requestAll, whichever of them it is', async () => {
    const standing = setUpStanding();
    askForBoth(standing, { maxTotal: 60_000 });
    await turn();
    standing.backend.requests[1].handleHoldTimeout();
    await standing.late;
    const expected = ['signal of b', 'promise'].map((what) => [what, 'TimeoutError']);
    assert.deepEqual(standing.told.slice(0, 2), expected);
  });

  for (const limit of ['holdTimeout', 'maxTotal']) {
    const options = { [limit]: 10 };

    it(`is told to request, after its state has changed (${limit})`, async () => {
      const { backend, locks, told, late } = setUpStanding();
      const asked = locks.request('a', options, (lock) => {
        lock.signal.addEventListener('abort', () => told.push(lock.held, backend.released.length));
        follow(told, lock);
        return forever();
      });
      asked.catch((error) => told.push(['promise', error.name]));
      await late;
      const expected = ['signal of a', 'promise'].map((what) => [what, 'TimeoutError']);
      assert.deepEqual(told, [false, 1, ...expected]);
    });

    it(`is told to a handle of acquire, and to requestAll (${limit})`, async () => {
      const { locks, told, late } = setUpStanding();
      const handle = await locks.acquire('a', options);
      follow(told, handle);
      await late;
      assert.deepEqual(told, [['signal of a', 'TimeoutError']]);
      // Nobody has collected it.
      assert.equal(handle.held, false);
      const several = setUpStanding();
      askForBoth(several, options);
      await several.late;
      // The limit of either may come first.
      const [first, ...others] = valuesOf(several.told, 0);
      assert.match(first, /^signal of [ab]$/);
      assert.ok(others.includes('promise'));
    });
  }
});

describe('what a lock serves, of a backend that releases later', () => {
  const options = { reentrant: true };

  /** Both reject with this. */
  const bothReject = ({ promises }, error) =>
    Promise.all(promises.map((promise) => assert.rejects(promise, error)));

  /** An outer lock that is held, and an inner one; `end` ends the callback of the inner one. */
  async function setUpNested(more = {}) {
    const { backend, locks } = setUp();
    const [end, granted, releasing, released] = [deferred(), deferred(), deferred(), deferred()];
    const nested = { backend, end, released, releasing: releasing.promise, held: [], promises: [] };
    backend.releaseAnswer = () => {
      nested.heldAtRelease = valuesOf(nested.held, 'held');
      releasing.resolve();
      return released.promise;
    };
    const outer = locks.request('a', { ...options, ...more }, (lock) => {
      nested.held.push(lock);
      const inner = locks.request('a', options, (lock) => {
        nested.held.push(lock);
        granted.resolve();
        return end.promise;
      });
      nested.promises.push(inner);
      return forever();
    });
    nested.promises.push(outer);
    answer(backend.requests[0], 'granted');
    await granted.promise;
    return nested;
  }

  it('is not held from the moment that the outer one is held too long', async () => {
    const nested = await setUpNested({ holdTimeout: 1 });
    await nested.releasing;
    assert.deepEqual(nested.heldAtRelease, [false, false]);
    await bothReject(nested, { name: 'TimeoutError' });
  });

  it('rejects with it also if its callback ends, and the outer one turns out to be stolen', async () => {
    const nested = await setUpNested({ holdTimeout: 1 });
    await nested.releasing;
    const [request] = nested.backend.requests;
    nested.end.resolve('value');
    request.stolen('thief');
    nested.released.resolve();
    request.announceLoss(true);
    await bothReject(nested, { name: 'TimeoutError' });
    assert.equal(nested.held[1].signal.reason.name, 'TimeoutError');
  });

  it('is stolen if the release of the outer one, held too long, says so at once', async () => {
    const nested = await setUpNested({ holdTimeout: 1 });
    nested.backend.releaseAnswer = (request) => request.stolen('thief');
    await bothReject(nested, { name: 'AbortError', clientId: 'thief' });
  });

  for (const [how, note] of Object.entries({
    stolen: (request) => request.stolen('thief'),
    lost: (request) => request.lost('closed'),
  })) {
    it(`is not held from the moment that the outer one is ${how}`, async () => {
      const nested = await setUpNested();
      const [request] = nested.backend.requests;
      note(request);
      assert.deepEqual(valuesOf(nested.held, 'held'), [false, false]);
      request.announceLoss(true);
      await bothReject(nested, { name: 'AbortError' });
    });
  }
});

describe('several locks, of a backend that requests them in one step', () => {
  function setUpSeveral(more) {
    const steps = [];
    const requestAll = (requests) => {
      steps.push(valuesOf(requests, 'name'));
      backend.requests.push(...requests);
    };
    const { backend, locks } = setUp({ requestAll, ...more });
    return { backend, locks, steps };
  }

  it('asks for all at once, and calls back when the last one is granted', async () => {
    const { backend, locks, steps } = setUpSeveral();
    const done = locks.requestAll(['b', 'a', 'b'], (all) => valuesOf(all, 'name'));
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
    const done = locks.requestAll(['a', 'b', 'c'], notCalled);
    const [a, b, c] = backend.requests;
    answer(a, 'granted');
    await turn();
    const error = new Error('no');
    answer(b, 'failed', () => error);
    await assert.rejects(done, error);
    assert.deepEqual([...backend.withdrawn, ...backend.released], [a, c]);
  });

  it('an abort withdraws all of them; ifAvailable is null if one is not', async () => {
    const { backend, locks } = setUpSeveral();
    const controller = new AbortController();
    const done = locks.requestAll(['a', 'b'], { signal: controller.signal }, notCalled);
    controller.abort(new Error('enough'));
    await assert.rejects(done, { message: 'enough' });
    assert.deepEqual(backend.withdrawn, backend.requests);
    const available = locks.requestAll(['a', 'b'], { ifAvailable: true }, (all) => all);
    const asked = backend.requests.slice(2);
    for (const request of asked) request.unavailable();
    for (const request of asked) request.announceAnswer();
    assert.equal(await available, null);
  });

  /** Asks for two locks inside of one that has the first name. */
  async function askInside(mode, options) {
    const { backend, locks, steps } = setUpSeveral();
    const outer = locks.request('a', { mode, reentrant: true }, () =>
      locks.requestAll(['a', 'b'], { reentrant: true, ...options }, (all) => all?.length ?? null),
    );
    answer(backend.requests[0], 'granted');
    outer.catch(nothing);
    await turn();
    return { backend, outer, steps };
  }

  it('does not ask for what is served by a lock that they are inside of', async () => {
    const { backend, outer, steps } = await askInside('exclusive', {});
    assert.deepEqual(steps, [['b']]);
    answer(backend.requests[1], 'granted');
    assert.equal(await outer, 2);
    assert.deepEqual(valuesOf(backend.released, 'name'), ['b', 'a']);
  });

  it('asks for none if a lock that they are inside of does not serve one', async () => {
    const available = await askInside('shared', { ifAvailable: true });
    assert.equal(await available.outer, null);
    const waiting = await askInside('shared', {});
    await assert.rejects(waiting.outer, { name: 'DeadlockError' });
    for (const { backend, steps } of [available, waiting]) {
      assert.deepEqual(steps, []);
      assert.equal(backend.released.length, 1);
    }
  });

  const holder = (name, mode) => ({ clientId: 'other', label: '', held: 3, name, mode });
  const progress = ({ name }) => (name === 'b' ? 'waiting' : 'allotted');
  const limits = [{ timeout: 0 }, { timeout: 20 }, { maxTotal: 20 }];

  for (const [title, when, more, askHolders] of [
    ['that somebody holds', limits, {}, (name) => (name === 'b' ? [holder('b', 'exclusive')] : [])],
    [
      'that others cannot share',
      limits,
      { mode: 'shared' },
      (name) => [holder(name, name === 'b' ? 'exclusive' : 'shared')],
    ],
    [
      'that waits for more than the others',
      limits.slice(1),
      { progress },
      (name) => (name === 'b' ? undefined : [holder(name, 'exclusive')]),
    ],
    [
      'of which it is not known that nobody holds it',
      limits.slice(0, 1),
      {},
      (name) => (name === 'b' ? undefined : []),
    ],
  ]) {
    it(`a time limit is told of the one ${title}`, async () => {
      for (const limit of when) {
        const { mode, ...members } = more;
        const { backend, locks } = setUpSeveral({
          ...members,
          askHolders: async (name) => askHolders(name),
        });
        const done = rejectionOf(locks.requestAll(['a', 'b'], { ...limit, mode }, notCalled));
        if (limit.timeout === 0) {
          for (const request of backend.requests) request.unavailable();
          for (const request of backend.requests) request.announceAnswer();
        }
        assert.equal((await done).lockName, 'b');
      }
    });
  }

  it('a warning is not told of one that waits only for the others', async (t) => {
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

  it('the time limit 0 does not take the place of another reason that comes first', async (t) => {
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

describe('locks.once, while it is asked whether the name is marked', () => {
  for (const [what, happens, expected] of [
    ['the lock is stolen', rob, { clientId: 'thief' }],
    ['it is given up', (_, controller) => controller.abort(new Error('up')), { message: 'up' }],
  ]) {
    it(`${what}: the callback is not called, and nothing is marked`, async () => {
      const controller = new AbortController();
      const answered = deferred();
      const { backend, locks } = setUp({ marked: () => answered.promise });
      const outcome = locks.once('a', { keep: 1000, signal: controller.signal }, notCalled);
      answer(backend.requests[0], 'granted');
      await turn();
      happens(backend.requests[0], controller);
      answered.resolve(false);
      await assert.rejects(outcome, expected);
      await turn();
      assert.ok(backend.released.every(({ keep }) => keep === undefined));
    });
  }
});
