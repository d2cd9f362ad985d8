'use strict';

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { getEventListeners, once } = require('node:events');
const { after, before, describe, it } = require('node:test');
const { LockError, LockLostError, Mutex, Semaphore } = require('../../lib/index.js');
const { noMemoryError } = require('../../lib/platform/errors.js');
const { HeldRequest } = require('../../lib/extensions/request/lock-handle.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const { deferred, notCalled, nothing, turn, valuesOf } = require('../helpers/locks.js');

/** A backend that notes what it is asked, and answers when the test says so. */
class ManualBackend {
  requests = [];
  released = [];
  withdrawn = [];
  releaseAnswer = () => {};
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
}

/** Answers later: says what happened, then has it told. */
function answer(request, what, ...details) {
  request[what](...details);
  request.announceAnswer();
}

function setUp() {
  const backend = new ManualBackend();
  return { backend, locks: createLockManager(backend) };
}

describe('a LockManager assumes nothing of when its backend answers', () => {
  it('a grant turns later calls back then, in the context of the request', async () => {
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
    await assert.rejects(locks.request('a', notCalled), {
      name: 'RangeError',
      code: 'ERR_WEB_LOCKS_NO_MEMORY',
      message: /^Out of memory/,
    });
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
      lock.announceLoss(true);
    };
    const released = locks.request('a', () => 'value');
    answer(backend.requests[0], 'granted');
    await assert.rejects(released, { name: 'AbortError', clientId: 'thief' });
  });

  for (const [title, ask] of [
    ['one lock', (locks) => locks.request('a', () => 'value')],
    ['several locks', (locks) => locks.requestAll(['a'], () => 'value')],
  ]) {
    it(`a theft that is announced after the release rejects, too: ${title}`, async () => {
      const { backend, locks } = setUp();
      const stolen = [];
      backend.announce = () => {
        for (const lock of stolen.splice(0)) lock.announceLoss(false);
      };
      backend.releaseAnswer = async (lock) => {
        await undefined;
        lock.stolen('thief');
        stolen.push(lock);
      };
      const released = ask(locks);
      answer(backend.requests[0], 'granted');
      await assert.rejects(released, { name: 'AbortError', clientId: 'thief' });
    });
  }

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
    request.announceLoss(true);
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
    lose(request, 'unreachable', () => cause);
    await assert.rejects(released, (error) => {
      assert.ok(error instanceof LockLostError);
      assert.ok(error instanceof LockError);
      const { name, lockName, reason, token, message } = error;
      assert.deepEqual(
        [name, lockName, reason, token],
        ['AbortError', 'a', 'unreachable', 2n ** 32n + 7n],
      );
      assert.equal(error.cause, cause);
      assert.match(message, /^Lock "a" was lost: .* \(reset\)\.$/);
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

  it('a lock whose lease is over serves no reentrant request', async () => {
    const { backend, locks } = setUp();
    const options = { reentrant: true };
    backend.holds = () => backend.left > 0;
    backend.left = 1;
    const inner = [];
    const outer = locks.request('a', options, () => {
      inner.push(locks.request('a', options, () => 'served'));
      backend.left = 0;
      inner.push(locks.request('a', options, () => 'granted'));
    });
    answer(backend.requests[0], 'granted');
    await turn();
    assert.equal(backend.requests.length, 2);
    answer(backend.requests[1], 'granted');
    assert.deepEqual(await Promise.all(inner), ['served', 'granted']);
    await outer;
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

  const somebody = [{ clientId: 'somebody', label: '', held: 3 }];

  it('a time limit names the holders that were asked for before it', async () => {
    const { backend, locks } = setUp();
    const withdrawn = [];
    backend.askHolders = async () => {
      withdrawn.push(backend.withdrawn.length);
      return somebody;
    };
    const released = locks.request('a', { timeout: 20 }, () => assert.fail('called'));
    await assert.rejects(released, {
      name: 'TimeoutError',
      message: /held by client somebody, for 3 ms/,
    });
    assert.deepEqual(withdrawn, [0]);
    assert.deepEqual(backend.withdrawn, backend.requests);
  });

  it('a time limit does not wait for holders that are not known by then', async () => {
    const { backend, locks } = setUp();
    backend.askHolders = () => new Promise(() => {});
    const released = locks.request('a', { timeout: 5 }, () => assert.fail('called'));
    await assert.rejects(released, { name: 'TimeoutError', message: /holder unknown/ });
  });

  it('the time limit 0 does not wait long for holders that are not known', async () => {
    const { backend, locks } = setUp();
    backend.askHolders = () => new Promise(() => {});
    const released = locks.request('a', { timeout: 0 }, () => assert.fail('called'));
    answer(backend.requests[0], 'unavailable');
    await assert.rejects(released, { name: 'TimeoutError', message: /holder unknown/ });
  });

  it('the time limit 0 rejects though there is no answer, on one machine', async () => {
    const { backend, locks } = setUp();
    backend.wait = () => {};
    backend.holders = () => undefined;
    for (const options of [{ timeout: 0 }, { timeout: 0, maxPending: 0 }]) {
      const released = locks.request('a', options, () => assert.fail('called'));
      await assert.rejects(released, { name: 'TimeoutError', message: /holder unknown/ });
    }
    assert.deepEqual(backend.withdrawn, backend.requests);
  });

  it('what needs an answer at once is a NotSupportedError', async () => {
    const { backend, locks } = setUp();
    backend.askHolders = async () => [];
    const unsupported = { name: 'NotSupportedError' };
    assert.throws(() => locks.acquireSync('a', { timeout: 1 }), unsupported);
    assert.throws(() => locks.tryAcquireSync('a'), unsupported);
    assert.throws(() => new Mutex('a', { locks }).locked, unsupported);
    assert.throws(() => new Semaphore('a', { locks, permits: 1 }).available, unsupported);
    await assert.rejects(locks.request('a', { deadlock: 'reject' }, nothing), unsupported);
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

describe('a release() near the end of the stack', () => {
  /** A handle, and what the calls of its release() go to. `undo` needs no stack. */
  async function setUpHeld() {
    const { backend, locks } = setUp();
    backend.holds = () => true;
    const pending = locks.acquire('a', { holdTimeout: 1e6, warnAfter: 1e6 });
    const [request] = backend.requests;
    answer(request, 'granted');
    return { backend, request, observer: request.observer, handle: await pending };
  }

  it('loses no lock, whichever of its calls finds no stack', async () => {
    const failed = [];
    for (const whose of ['request', 'observer', 'backend']) {
      for (const name of methodsOf((await setUpHeld())[whose])) {
        if (name === 'undo') continue;
        const held = await setUpHeld();
        const { backend, request, handle } = held;
        const inherited = held[whose][name];
        held[whose][name] = () => {
          failed.push(`${whose}.${name}`);
          throw new RangeError('Maximum call stack size exceeded');
        };
        try {
          handle.release();
        } catch {}
        held[whose][name] = inherited;
        // As with an empty stack: the user tries again, or the event loop does the rest.
        handle.release();
        for (const unfinished of backend.unfinished) unfinished.finish();
        const isEnded = backend.released.includes(request) || backend.withdrawn.includes(request);
        assert.ok(isEnded && handle.released, `without stack for ${whose}.${name}`);
      }
    }
    for (const call of ['request.releaseInBackend', 'observer.noteRelease', 'backend.release']) {
      assert.ok(failed.includes(call), `${call} was not called`);
    }
  });

  it('tells who gets the lock, at once or from the event loop, whichever of its calls finds no stack', async (t) => {
    for (const isSlow of [false, true]) {
      const failed = [];
      for (const whose of ['request', 'observer', 'backend']) {
        for (const name of methodsOf((await setUpHeld())[whose])) {
          if (name === 'undo') continue;
          const held = await setUpHeld();
          const { backend, observer, handle } = held;
          if (isSlow) backend.releaseAnswer = () => Promise.resolve();
          const told = t.mock.method(backend, 'announce');
          const undone = t.mock.method(backend, 'undo');
          const ended = t.mock.method(observer, 'onEnd');
          const inherited = held[whose][name];
          held[whose][name] = () => {
            failed.push(`${whose}.${name}`);
            throw new RangeError('Maximum call stack size exceeded');
          };
          let released;
          try {
            released = handle.release();
          } catch {
            assert.ok(!handle.released, `${whose}.${name}: what it threw was not that it is held`);
          }
          // What comes later finds an empty stack.
          held[whose][name] = inherited;
          await released;
          if (!handle.released) continue;
          const isTold = told.mock.callCount() > 0 || undone.mock.callCount() > 0;
          assert.ok(isTold, `without stack for ${whose}.${name} nobody gets it`);
          for (const unfinished of backend.unfinished) unfinished.finish();
          assert.ok(ended.mock.callCount() > 0, `without stack for ${whose}.${name} no end`);
        }
      }
      assert.ok(failed.includes('backend.announce'));
    }
  });

  it('of a lock that was held too long ends it from the event loop', async () => {
    const { backend, request } = await setUpHeld();
    backend.release = () => {
      throw new RangeError('Maximum call stack size exceeded');
    };
    request.handleHoldTimeout();
    for (const unfinished of backend.unfinished) unfinished.finish();
    assert.deepEqual(backend.withdrawn, [request]);
  });
});

describe('a request() near the end of the stack', () => {
  it('that was aborted meanwhile rejects with the reason', async (t) => {
    const { backend, locks } = setUp();
    const controller = new AbortController();
    const { signal } = controller;
    // Users' code, which has stack left, runs before ours, which has none.
    const abort = () => {
      controller.abort('no');
      backend.announce = () => {
        throw new RangeError('Maximum call stack size exceeded');
      };
    };
    subscribe('locks.request.start', abort);
    t.after(() => unsubscribe('locks.request.start', abort));
    const asked = locks.request('a', { signal }, () => assert.fail('called'));
    await assert.rejects(asked, (reason) => reason === 'no');
  });
});

describe('the loss of one of several near the end of the stack', () => {
  /** One of several is held and another one waited for; then the first one is lost. */
  async function setUpLost() {
    const { backend, locks } = setUp();
    const done = locks.requestAll(['a', 'b'], () => assert.fail('called'));
    const settled = Promise.allSettled([done]);
    answer(backend.requests[0], 'granted');
    await turn();
    const [held, waiting] = backend.requests;
    held.stolen('thief');
    return { backend, held, waiting, settled };
  }

  it('ends the others when it is told again, whichever call finds no stack', async () => {
    const failed = [];
    for (const whose of ['held', 'waiting', 'backend']) {
      for (const name of methodsOf((await setUpLost())[whose])) {
        if (name === 'announceLoss' || name === 'undo') continue;
        const lost = await setUpLost();
        const inherited = lost[whose][name];
        lost[whose][name] = () => {
          failed.push(`${whose}.${name}`);
          throw new RangeError('Maximum call stack size exceeded');
        };
        try {
          lost.held.announceLoss(false);
        } catch {}
        lost[whose][name] = inherited;
        // What the event loop does, on an empty stack.
        lost.held.announceLoss(true);
        const before = `without stack for ${whose}.${name}`;
        assert.deepEqual([...new Set(lost.backend.withdrawn)], [lost.waiting], before);
        const first = await Promise.race([
          lost.settled,
          turn()
            .then(turn)
            .then(() => 'hangs'),
        ]);
        assert.equal(first[0].reason?.clientId, 'thief', before);
      }
    }
    for (const call of [
      'waiting.withdraw',
      'waiting.disarm',
      'waiting.rejectPromise',
      'backend.withdraw',
    ]) {
      assert.ok(failed.includes(call), `${call} was not called`);
    }
  });
});

describe('a lock that waits for what it serves, near the end of the stack', () => {
  it('is released, whichever call finds no stack when the last of those leaves', async (t) => {
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
      const mock = t.mock.method(request, name, () => {
        throw new RangeError('Maximum call stack size exceeded');
      });
      try {
        inner.release();
      } catch {}
      mock.mock.restore();
      for (const unfinished of backend.unfinished) unfinished.finish();
      assert.deepEqual(backend.released, [request], name);
      assert.equal(await outer, 'a');
    }
  });
});

describe('the loss of a lock near the end of the stack', () => {
  it('ends what it serves when it is told again, whichever call finds no stack', async (t) => {
    const failed = [];
    for (const whose of ['outer', 'inner']) {
      for (const name of [
        'publishLoss',
        'loseServedRequests',
        'announceLoss',
        'lossReason',
        'rejectPromise',
      ]) {
        const { backend, locks } = setUp();
        let inner;
        const outer = locks.request('a', { reentrant: true }, async () => {
          inner = locks.request('a', { reentrant: true }, () => new Promise(() => {}));
          await new Promise(() => {});
        });
        answer(backend.requests[0], 'granted');
        await turn();
        const both = { outer: backend.requests[0], inner: backend.requests[0].served.requests[0] };
        const mock = t.mock.method(both[whose], name, () => {
          failed.push(`${whose}.${name}`);
          throw new RangeError('Maximum call stack size exceeded');
        });
        both.outer.stolen('thief');
        try {
          both.outer.announceLoss(false);
        } catch {}
        mock.mock.restore();
        // What the event loop does, on an empty stack.
        both.outer.announceLoss(true);
        const settled = Promise.allSettled([outer, inner]);
        const hang = turn().then(() => 'hangs');
        const all = await Promise.race([settled, hang]);
        assert.ok(all !== 'hangs', `without stack for ${whose}.${name}`);
      }
    }
    assert.ok(failed.includes('outer.loseServedRequests'));
  });
});

describe('several near the end of the stack', () => {
  it('leave what was asked for and cannot be waited for', async (t) => {
    for (const isGranted of [false, true]) {
      const { backend, locks } = setUp();
      const { request } = backend;
      if (isGranted) backend.request = (it) => request.call(backend, it) ?? it.granted();
      const { acquire } = HeldRequest.prototype;
      const mock = t.mock.method(HeldRequest.prototype, 'acquire', function noWait() {
        acquire.call(this);
        throw new RangeError('Maximum call stack size exceeded');
      });
      const undo = t.mock.method(backend, 'undo');
      await assert.rejects(locks.requestAll(['a', 'b'], assert.fail), /call stack/);
      mock.mock.restore();
      assert.equal(undo.mock.callCount(), 1);
      for (const unfinished of backend.unfinished) unfinished.finish();
      assert.deepEqual(backend.withdrawn, backend.requests);
    }
  });
});

describe('a lock that is held too long, of a backend whose release is never answered', () => {
  // The timer of a limit does not keep the event loop alive.
  let alive;
  before(() => {
    alive = setInterval(() => {}, 60_000);
  });
  after(() => clearInterval(alive));

  /** Grants at once; `late` resolves when all is told that is told before a release is answered. */
  function setUpStanding() {
    const { backend, locks } = setUp();
    const releasing = deferred();
    backend.releaseAnswer = () => {
      releasing.resolve();
      return new Promise(() => {});
    };
    const ask = backend.request;
    backend.request = (request) => {
      ask.call(backend, request);
      request.granted();
    };
    return { backend, locks, late: releasing.promise.then(turn) };
  }

  /** Notes what is told of a lock. */
  function follow(told, { signal, name }) {
    signal.addEventListener('abort', () => told.push([`signal of ${name}`, signal.reason.name]));
  }

  it('is told to requestAll, whichever of them it is', async () => {
    const { backend, locks, late } = setUpStanding();
    const told = [];
    const asked = locks.requestAll(['a', 'b'], { maxTotal: 60_000 }, (both) => {
      for (const lock of both) follow(told, lock);
      return new Promise(() => {});
    });
    asked.catch((error) => told.push(['promise', error.name]));
    await turn();
    backend.requests[1].handleHoldTimeout();
    await late;
    assert.deepEqual(told.slice(0, 2), [
      ['signal of b', 'TimeoutError'],
      ['promise', 'TimeoutError'],
    ]);
  });

  for (const limit of ['holdTimeout', 'maxTotal']) {
    const options = { [limit]: 10 };

    it(`is told to request, after its state has changed (${limit})`, async () => {
      const { backend, locks, late } = setUpStanding();
      const told = [];
      const asked = locks.request('a', options, (lock) => {
        lock.signal.addEventListener('abort', () => told.push(lock.held, backend.released.length));
        follow(told, lock);
        return new Promise(() => {});
      });
      asked.catch((error) => told.push(['promise', error.name]));
      await late;
      assert.deepEqual(told, [
        false,
        1,
        ['signal of a', 'TimeoutError'],
        ['promise', 'TimeoutError'],
      ]);
    });

    it(`is told to a handle of acquire (${limit})`, async () => {
      const { locks, late } = setUpStanding();
      const told = [];
      const handle = await locks.acquire('a', options);
      follow(told, handle);
      await late;
      assert.deepEqual(told, [['signal of a', 'TimeoutError']]);
      // Nobody has collected it.
      assert.equal(handle.held, false);
    });

    it(`is told to requestAll (${limit})`, async () => {
      const { locks, late } = setUpStanding();
      const told = [];
      const asked = locks.requestAll(['a', 'b'], options, (both) => {
        for (const lock of both) follow(told, lock);
        return new Promise(() => {});
      });
      asked.catch((error) => told.push(['promise', error.name]));
      await late;
      // The limit of either may come first.
      const [first, ...others] = told.map(([what]) => what);
      assert.match(first, /^signal of [ab]$/);
      assert.ok(others.includes('promise'));
      for (const [, error] of told) assert.equal(error, 'TimeoutError');
    });
  }
});

describe('what a lock serves, of a backend that releases later', () => {
  const options = { reentrant: true };

  // The timer of a `holdTimeout` does not keep the event loop alive.
  let alive;
  before(() => {
    alive = setInterval(() => {}, 60_000);
  });
  after(() => clearInterval(alive));

  /** Both reject with this. */
  const bothReject = ({ inner, outer }, error) =>
    Promise.all([assert.rejects(inner.promise, error), assert.rejects(outer.promise, error)]);

  /** An outer lock that is held, and an inner one; `end` ends the callback of the inner one. */
  async function setUpNested(more = {}) {
    const { backend, locks } = setUp();
    const end = deferred();
    const granted = deferred();
    const releasing = deferred();
    const released = deferred();
    const inner = deferred();
    const held = [];
    backend.releaseAnswer = () => {
      held.push(...outerAndInner.map((lock) => lock.held));
      releasing.resolve();
      return released.promise;
    };
    const outerAndInner = [];
    const outer = locks.request('a', { ...options, ...more }, async (lock) => {
      outerAndInner.push(lock);
      inner.resolve({
        promise: locks.request('a', options, (lock) => {
          outerAndInner.push(lock);
          granted.resolve();
          return end.promise;
        }),
      });
      return new Promise(() => {});
    });
    answer(backend.requests[0], 'granted');
    await granted.promise;
    return {
      backend,
      outer: { promise: outer },
      inner: await inner.promise,
      locks: outerAndInner,
      heldAtRelease: held,
      end,
      releasing: releasing.promise,
      released,
    };
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
    assert.equal(nested.locks[1].signal.reason.name, 'TimeoutError');
  });

  it('is stolen if the release of the outer one, held too long, says so at once', async () => {
    const nested = await setUpNested({ holdTimeout: 1 });
    nested.backend.releaseAnswer = (request) => request.stolen('thief');
    await bothReject(nested, { name: 'AbortError', clientId: 'thief' });
  });

  for (const [how, note] of [
    ['stolen', (request) => request.stolen('thief')],
    ['lost', (request) => request.lost('closed')],
  ]) {
    it(`is not held from the moment that the outer one is ${how}`, async () => {
      const nested = await setUpNested();
      const [request] = nested.backend.requests;
      note(request);
      assert.deepEqual(valuesOf(nested.locks, 'held'), [false, false]);
      request.announceLoss(true);
      await bothReject(nested, { name: 'AbortError' });
    });
  }
});

describe('a loss', () => {
  it('of a lock that was released meanwhile is told nobody', async () => {
    const { backend, locks } = setUp();
    const { promise, resolve: done } = deferred();
    backend.releaseAnswer = () => promise;
    const heard = [];
    const listen = ({ error }) => heard.push(error);
    subscribe('locks.request.lost', listen);
    const released = locks.request('a', () => 'value');
    answer(backend.requests[0], 'granted');
    while (backend.released.length === 0) await turn();
    backend.requests[0].lost('destroyed');
    backend.requests[0].announceLoss(true);
    done();
    assert.equal(await released, 'value');
    unsubscribe('locks.request.lost', listen);
    assert.deepEqual(heard, []);
  });

  it('is told once', async () => {
    const { backend, locks } = setUp();
    const heard = [];
    const listen = ({ error }) => heard.push(error);
    subscribe('locks.request.lost', listen);
    const released = locks.request('a', () => new Promise(() => {}));
    answer(backend.requests[0], 'granted');
    await turn();
    backend.requests[0].lost('destroyed');
    backend.requests[0].announceLoss(false);
    backend.requests[0].announceLoss(false);
    await assert.rejects(released);
    unsubscribe('locks.request.lost', listen);
    assert.equal(heard.length, 1);
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
    answer(b, 'failed', () => error);
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

  /** Asks for two locks inside of one that has the first name. */
  async function askInside(mode, options) {
    const { backend, locks, steps } = setUpSeveral();
    const asked = deferred();
    const outer = locks.request('a', { mode, reentrant: true }, () => {
      const all = { reentrant: true, ...options };
      const inner = locks.requestAll(['a', 'b'], all, (given) => given?.length ?? null);
      asked.resolve();
      return inner;
    });
    const [a] = backend.requests;
    answer(a, 'granted');
    await asked.promise;
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

  /** Which of two locks the error is about that does not wait for both. */
  async function blamedOf({ backend, locks }, options) {
    const done = locks.requestAll(['a', 'b'], options, () => assert.fail('called'));
    if (options.timeout === 0) {
      for (const request of backend.requests) request.unavailable();
      for (const request of backend.requests) request.announceAnswer();
    }
    const { lockName } = await done.then(assert.fail, (error) => error);
    return lockName;
  }

  const holder = (name, mode) => ({ clientId: 'other', label: '', held: 3, name, mode });
  const limits = [{ timeout: 0 }, { timeout: 20 }, { maxTotal: 20 }];

  it('a time limit is told of the one that somebody holds', async () => {
    for (const limit of limits) {
      const { backend, locks } = setUpSeveral();
      backend.askHolders = async (name) => (name === 'b' ? [holder('b', 'exclusive')] : []);
      assert.equal(await blamedOf({ backend, locks }, limit), 'b');
    }
  });

  it('a time limit is not told of one that others can share', async () => {
    for (const limit of limits) {
      const { backend, locks } = setUpSeveral();
      backend.askHolders = async (name) => [holder(name, name === 'b' ? 'exclusive' : 'shared')];
      assert.equal(await blamedOf({ backend, locks }, { ...limit, mode: 'shared' }), 'b');
    }
  });

  it('a time limit is not told of one that waits only for the others', async () => {
    for (const limit of limits.slice(1)) {
      const { backend, locks } = setUpSeveral();
      backend.progress = ({ name }) => (name === 'b' ? 'waiting' : 'allotted');
      backend.askHolders = async (name) => (name === 'b' ? undefined : [holder(name, 'exclusive')]);
      assert.equal(await blamedOf({ backend, locks }, limit), 'b');
    }
  });

  it('a warning is not told of one that waits only for the others', async () => {
    const { backend, locks } = setUpSeveral();
    backend.progress = ({ name }) => (name === 'b' ? 'waiting' : 'allotted');
    backend.askHolders = async (name) => (name === 'b' ? [holder('b', 'exclusive')] : []);
    const told = [];
    const listen = ({ message }) => told.push(/lock "(.)"/.exec(message)[1]);
    process.on('warning', listen);
    // A timer of a warning does not keep the event loop alive.
    const alive = setInterval(() => {}, 60_000);
    const done = locks.requestAll(['a', 'b'], { warnAfter: 5 }, () => 'done');
    await once(process, 'warning');
    await turn();
    clearInterval(alive);
    process.off('warning', listen);
    for (const request of backend.requests) answer(request, 'granted');
    assert.equal(await done, 'done');
    assert.deepEqual(told, ['b']);
  });

  it('the time limit 0 is told of one of which it is not known that nobody holds it', async () => {
    const { backend, locks } = setUpSeveral();
    backend.askHolders = async (name) => (name === 'b' ? undefined : []);
    assert.equal(await blamedOf({ backend, locks }, { timeout: 0 }), 'b');
  });

  it('the time limit 0 does not take the place of another reason that comes first', async () => {
    const { backend, locks } = setUpSeveral();
    backend.askHolders = async (name) => [holder(name, 'exclusive')];
    const done = locks.requestAll(['a', 'b'], { timeout: 0 }, () => assert.fail('called'));
    const timedOut = [];
    const listen = ({ error }) => timedOut.push(error);
    subscribe('locks.request.timeout', listen);
    const [a, b] = backend.requests;
    answer(a, 'unavailable');
    const error = new Error('no');
    answer(b, 'failed', () => error);
    await assert.rejects(done, error);
    await turn();
    unsubscribe('locks.request.timeout', listen);
    assert.deepEqual(timedOut, []);
  });
});

describe('locks.once, while it is asked whether the name is marked', () => {
  /** Asks; `happens` comes before the answer, which is no. */
  async function asked(happens) {
    const { backend, locks } = setUp();
    const controller = new AbortController();
    const answered = deferred();
    backend.marked = () => answered.promise;
    const options = { keep: 1000, signal: controller.signal };
    let isCalled = false;
    const outcome = locks.once('a', options, () => {
      isCalled = true;
    });
    const [request] = backend.requests;
    answer(request, 'granted');
    await turn();
    happens(request, controller);
    answered.resolve(false);
    const error = await outcome.catch((reason) => reason);
    await turn();
    assert.equal(isCalled, false);
    return { backend, error };
  }

  it('the lock is stolen: the callback is not called', async () => {
    const { error } = await asked((request) => {
      request.stolen('thief');
      request.announceLoss(true);
    });
    assert.equal(error.clientId, 'thief');
  });

  it('it is given up: the callback is not called, and nothing is marked', async () => {
    const reason = new Error('given up');
    const { backend, error } = await asked((_, controller) => controller.abort(reason));
    assert.equal(error, reason);
    assert.deepEqual(valuesOf(backend.released, 'keep'), [undefined]);
  });
});
