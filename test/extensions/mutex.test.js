'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const {
  DeadlockError,
  LockError,
  LockTimeoutError,
  Mutex,
  RWLock,
  Semaphore,
  locks,
  openBucket,
  turn,
  needs,
} = require('../helpers/scope.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');
const { start } = require('../helpers/worker.js');

/** The programs of chapters 5, 7 and 8 as printed, but for `window`; `Lock` is the `Mutex`. */
describe('Mutex, the trial programs of the article', () => {
  const Lock = Mutex;
  const seq = [...new Array(10)].map((_, i) => i);

  async function push(a, x) {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 100));
    a.push(x);
  }

  it('5: with the lock, what is called first is done first', async () => {
    const lock = new Lock();
    async function pushWithLock(a, x) {
      await lock.runExclusive(async () => await push(a, x));
    }

    const a = [];
    await Promise.all(seq.map((x) => push(a, x)));
    assert.deepEqual(a.sort(), seq);

    const b = [];
    await Promise.all(seq.map((x) => pushWithLock(b, x)));
    assert.deepEqual(b, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it('7: without blocking only the first gets it; with a timeout the first ones do', async () => {
    const errors = [];
    const lockA = new Lock();
    async function pushWithLockA(a, x) {
      try {
        await lockA.runExclusive(async () => await push(a, x), { blocking: false });
      } catch (error) {
        errors.push(error);
      }
    }

    const lockB = new Lock();
    async function pushWithLockB(a, x) {
      try {
        await lockB.runExclusive(async () => await push(a, x), { timeout: 200 });
      } catch (error) {
        errors.push(error);
      }
    }

    const a = [];
    await Promise.all(seq.map((x) => pushWithLockA(a, x)));
    assert.deepEqual(a, [0]);
    assert.equal(errors.length, 9);

    const b = [];
    await Promise.all(seq.map((x) => pushWithLockB(b, x)));
    // How many depends on chance, and on the machine.
    assert.equal(b[0], 0);
    assert.deepEqual(b, [...b].sort());
    assert.equal(errors.length, 19 - b.length);
    for (const error of errors) assert.ok(error instanceof LockError, error);
  });

  it('8: gives the result of the callback', async () => {
    const lock = new Lock();
    const result = await lock.runExclusive(
      async () => await new Promise((resolve) => resolve(42)),
      { blocking: true, timeout: 500 },
    );
    assert.equal(result, 42);
  });
});

describe('Mutex', () => {
  it('acquire resolves to the function that releases it; twice is harmless', async () => {
    const mutex = new Mutex();
    const release = await mutex.acquire();
    assert.equal(mutex.locked, true);
    const second = mutex.acquire();
    release();
    release();
    const releaseSecond = await second;
    release();
    assert.equal(mutex.locked, true);
    releaseSecond();
    assert.equal(mutex.locked, false);
  });

  it('an error of the callback rejects and releases', async () => {
    const mutex = new Mutex();
    const fail = () => {
      throw new Error('callback');
    };
    await assert.rejects(mutex.runExclusive(fail), { message: 'callback' });
    assert.equal(mutex.locked, false);
    await assert.rejects(mutex.runExclusive('no function'), TypeError);
    await assert.rejects(mutex.acquire({ timeout: -1 }), TypeError);
  });

  it('without a name each is its own, and not to be seen in locks.query()', async () => {
    const [one, other] = [new Mutex(), new Mutex()];
    const releases = [await one.acquire(), await other.acquire()];
    assert.deepEqual((await locks.query()).held, []);
    for (const release of releases) release();
  });

  it('a reserved name is refused', () => {
    assert.throws(() => new Mutex('-x'), { name: 'NotSupportedError' });
    assert.throws(() => new RWLock('-x'), { name: 'NotSupportedError' });
  });

  it('with a name it waits for who holds the lock of that name', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const waiting = new Mutex(name).acquire();
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: ['exclusive'] });
    (await new Mutex(name, { bucket: 'other' }).acquire())();
    await held.release();
    const release = await waiting;
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    await release();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('with a name it is the lock of that name', needs('state'), async () => {
    const name = freshName();
    const mutex = new Mutex(name);
    const held = await hold(locks, name);
    assert.equal(mutex.locked, true);
    assert.equal(new Mutex(name, { bucket: 'other' }).locked, false);
    await held.release();
    const bucket = openBucket('of a mutex');
    const release = await new Mutex(name, { bucket }).acquire();
    assert.equal((await bucket.locks.query()).held[0].name, name);
    release();
  });
});

const methods = [
  ['Mutex', 'acquire'],
  ['Mutex', 'runExclusive'],
  ['RWLock', 'acquireShared'],
  ['RWLock', 'acquireExclusive'],
  ['RWLock', 'runShared'],
  ['RWLock', 'runExclusive'],
];

describe('the options of Mutex and RWLock', () => {
  for (const [kind, method] of methods) {
    const make = (...args) => new ({ Mutex, RWLock })[kind](...args);
    const call = (lock, options) =>
      method.startsWith('run') ? lock[method](() => () => {}, options) : lock[method](options);
    /** @returns what lets go of a lock that excludes all others */
    const occupy = (lock) => (lock.acquire ?? lock.acquireExclusive).call(lock);

    it(`${kind}: ${method} takes signal`, async () => {
      const lock = make();
      const release = await occupy(lock);
      const controller = new AbortController();
      const waiting = call(lock, { signal: controller.signal });
      controller.abort(new Error('enough'));
      await assert.rejects(waiting, { message: 'enough' });
      release();
      const aborted = { signal: controller.signal };
      await assert.rejects(call(lock, aborted), { message: 'enough' });
    });

    it(`${kind}: ${method} takes blocking, not together with ifAvailable`, async () => {
      const lock = make(freshName(), { label: 'cache' });
      for (const blocking of [true, false]) {
        const both = call(lock, { blocking, ifAvailable: true });
        await assert.rejects(both, { name: 'TypeError', message: /'blocking' and 'ifAvailable'/ });
        (await call(lock, { blocking, ifAvailable: false }))?.();
      }
      const release = await occupy(lock);
      // What never waits is not given up while it waits.
      const { signal } = new AbortController();
      for (const more of [{}, { timeout: 1e6 }, { signal }]) {
        const error = await call(lock, { blocking: false, ...more }).catch((reason) => reason);
        assert.ok(error instanceof LockError && error.name === 'LockError', error);
        assert.match(error.message, /^Lock "[^"]+" is not free \(.*'blocking' is false\)\.$/);
      }
      await release();
    });

    it(`${kind}: ${method} takes label and deadlock`, needs('deadlock'), async () => {
      const lock = make(freshName());
      const run = (lock.runExclusive ?? lock.run).bind(lock);
      const options = { deadlock: 'reject', label: 'inner' };
      await run(
        async () => {
          const error = await call(lock, options).then(assert.fail, (reason) => reason);
          assert.ok(error instanceof DeadlockError);
          assert.deepEqual(
            error.cycle.map(({ label }) => label),
            ['inner', 'outer'],
          );
        },
        { deadlock: 'reject', label: 'outer' },
      );
    });

    it(`${kind}: ${method} takes warnAfter`, async (t) => {
      const lock = make(undefined, { label: 'cache' });
      const release = await occupy(lock);
      const warned = new Promise((resolve) => {
        const listener = (warning) => resolve(warning.message);
        process.on('warning', listener);
        t.after(() => process.removeListener('warning', listener));
      });
      const waiting = call(lock, { warnAfter: 1, timeout: 1e6 });
      assert.match(
        await warned,
        new RegExp(
          `^Still waiting for the private ${kind.replace('M', 'm')} "cache" \\("cache"\\) after`,
        ),
      );
      release();
      (await waiting)();
    });

    it(`${kind}: ${method} refuses what it does not take`, async () => {
      const lock = make();
      for (const options of [
        { mode: 'shared' },
        { steal: true },
        { timeOut: 5 },
        { bucket: 'x' },
      ]) {
        const [option] = Object.keys(options);
        const error = { name: 'TypeError', message: new RegExp(`'${method}'.*option '${option}'`) };
        await assert.rejects(call(lock, options), error);
      }
      const { signal } = new AbortController();
      for (const options of [{ timeout: 5 }, { signal }]) {
        const refused = call(lock, { ifAvailable: true, ...options });
        await assert.rejects(refused, { name: 'NotSupportedError' });
      }
      (await call(lock, { mode: undefined, steal: undefined }))();
    });
  }

  it('the constructors refuse what they do not take', () => {
    for (const Class of [Mutex, RWLock]) {
      assert.throws(() => new Class('x', { timeout: 5 }), { message: /option 'timeout'/ });
      assert.throws(() => new Class(undefined, { bucket: 'x' }), { message: /option 'bucket'/ });
      assert.throws(() => new Class(undefined, { locks }), { message: /option 'locks'/ });
      const both = { locks, bucket: 'x' };
      assert.throws(() => new Class('x', both), { name: 'NotSupportedError' });
      assert.throws(() => new Class('x', { locks: {} }), TypeError);
    }
  });

  it('locks: the manager whose lock it is', needs('state'), async () => {
    const bucket = openBucket('of a manager');
    const name = freshName();
    const release = await new Mutex(name, { locks: bucket.locks, label: 'mine' }).acquire();
    const { held } = await bucket.locks.query({ details: true });
    assert.deepEqual([held[0].name, held[0].label], [name, 'mine']);
    assert.equal(new RWLock(name, { locks: bucket.locks }).locked, 'exclusive');
    assert.equal(new Mutex(name, { locks }).locked, false);
    release();
  });

  it('a release function is disposable', async () => {
    const mutex = new Mutex();
    const dispose = Symbol.dispose ?? Symbol.for('nodejs.dispose');
    const release = await mutex.acquire();
    release[dispose]();
    assert.equal(mutex.locked, false);
    const next = await mutex.acquire();
    release[dispose]();
    assert.equal(mutex.locked, true);
    next();
  });
});

describe('a private lock', () => {
  it('has a label in messages, and not its internal name', async () => {
    for (const [lock, name] of [
      [new Mutex(), 'a private mutex'],
      [new Mutex(undefined, { label: 'cache' }), 'the private mutex "cache"'],
      [new RWLock(), 'a private RWLock'],
      [new RWLock(undefined, { label: 'two\nlines' }), 'the private RWLock "two\\nlines"'],
    ]) {
      const acquire = (options) => (lock.acquire ?? lock.acquireExclusive).call(lock, options);
      const release = await acquire();
      const messages = await Promise.all(
        [{ maxPending: 0 }, { timeout: 1 }].map((options) =>
          acquire(options).then(assert.fail, ({ message }) => message),
        ),
      );
      release();
      const nested = lock.runExclusive(() => acquire({ deadlock: 'reject' }), {
        deadlock: 'reject',
      });
      messages.push(await nested.then(assert.fail, ({ message }) => message));
      const start = `${name[0].toUpperCase()}${name.slice(1)} is not available, and `;
      assert.ok(messages[0].startsWith(start), messages[0]);
      assert.ok(messages[1].includes(` ms waiting for ${name} (held by`), messages[1]);
      assert.ok(
        messages[2].startsWith(`The request for ${name} would wait for itself: `),
        messages[2],
      );
      assert.ok(messages[2].includes(` waits for ${name}, held by this thread`), messages[2]);
    }
  });

  it('is nobody else’s, whatever module registry made it', needs('entry'), async () => {
    const own = Object.keys(require.cache).filter((file) => /[\\/]lib[\\/]/.test(file));
    const first = own.map((file) => [file, require.cache[file]]);
    for (const file of own) delete require.cache[file];
    const second = require('../../lib/index.js');
    for (const [file, module] of first) require.cache[file] = module;
    assert.notEqual(second.Mutex, Mutex);
    const mutexes = [];
    for (let i = 0; i < 10; i++) mutexes.push(new Mutex(), new second.Mutex(), new second.RWLock());
    const releases = [];
    for (const mutex of mutexes) {
      assert.ok(!mutex.locked);
      releases.push(await (mutex.acquire ?? mutex.acquireExclusive).call(mutex));
    }
    for (const release of releases) release();
    // One lock of a name, all the same.
    const name = freshName();
    const release = await new second.Mutex(name).acquire();
    await assert.rejects(new Mutex(name).acquire({ timeout: 0 }), LockTimeoutError);
    release();
  });
});

describe('not to wait', () => {
  it('tryAcquire resolves to the function that releases it, or to null', async () => {
    const mutex = new Mutex(freshName());
    const release = await mutex.tryAcquire({ label: 'mine' });
    assert.equal(await mutex.tryAcquire(), null);
    const waiting = mutex.acquire();
    await turn();
    await release();
    const next = await waiting;
    assert.equal(await mutex.tryAcquire(), null);
    await next();
    await (await mutex.tryAcquire())();
  });

  it('is said by ifAvailable, and answered by null, by each way to a lock', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const ifAvailable = { ifAvailable: true };
    const got = (lock) => lock;
    const mutex = new Mutex(name);
    const rwlock = new RWLock(name);
    const semaphore = new Semaphore(name, { permits: 2 });
    const answers = await Promise.all([
      locks.request(name, ifAvailable, got),
      locks.acquire(name, ifAvailable),
      locks.requestAll([name], ifAvailable, got),
      locks.acquireAll([name], ifAvailable),
      mutex.acquire(ifAvailable),
      mutex.runExclusive(got, ifAvailable),
      mutex.tryAcquire(),
      rwlock.acquireShared(ifAvailable),
      rwlock.runShared(got, ifAvailable),
      rwlock.acquireExclusive(ifAvailable),
      rwlock.runExclusive(got, ifAvailable),
      semaphore.acquire(ifAvailable),
      semaphore.run(got, ifAvailable),
      semaphore.tryAcquire(),
    ]);
    assert.deepEqual(answers, Array(answers.length).fill(null));
    await held.release();
  });

  it('is answered by null without a promise, too', needs('sync'), async () => {
    const name = freshName();
    const held = await hold(locks, name);
    assert.equal(locks.tryAcquireSync(name), null);
    await held.release();
  });
});

describe('waitForUnlock', () => {
  it('resolves when those who hold it or wait for it are done, and holds nothing then', async () => {
    const mutex = new Mutex(freshName());
    const order = [];
    const release = await mutex.acquire();
    const before = mutex.runExclusive(() => order.push('before'));
    const waited = mutex.waitForUnlock().then(() => order.push('unlocked'));
    const after = mutex.runExclusive(() => order.push('after'));
    await release();
    await Promise.all([before, waited, after]);
    assert.deepEqual(order.slice(0, 1), ['before']);
    assert.deepEqual([...order].sort(), ['after', 'before', 'unlocked']);
    assert.equal(await mutex.waitForUnlock(), undefined);
    await (await mutex.tryAcquire())();
  });

  it("of another agent is in nobody's way when its turn comes", async (t) => {
    const name = freshName();
    const [remote, other] = [await RemoteAgent.start(t), await RemoteAgent.start(t)];
    const held = await locks.acquire(name);
    const waiting = [await remote.waitForUnlock(name), await other.waitForUnlock(name)];
    assert.equal((await locks.query({ name })).pending.length, 2);
    const released = held.release();
    const next = await locks.acquire(name, { ifAvailable: true });
    assert.ok(next);
    await released;
    await next.release();
    const turns = await Promise.all(waiting.map(({ settled }) => settled));
    // Each may have seen the lock that was held next.
    assert.ok(Math.max(...turns) <= 2, `${turns} turns`);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('ends for all who wait in a loop: none sees the others', async () => {
    const name = freshName();
    const mutex = new Mutex(name);
    const release = await mutex.acquire();
    let turns = 0;
    const wait = async () => {
      while ((await locks.isBusy(name)) && ++turns < 100) await mutex.waitForUnlock();
    };
    const all = Promise.all([wait(), wait(), wait()]);
    await turn();
    await release();
    await all;
    assert.ok(turns < 100, `${turns} turns`);
  });

  it('with the time limit 0 holds nothing, either', needs('state'), async () => {
    const mutex = new Mutex(freshName());
    const unlocked = mutex.waitForUnlock({ timeout: 0 });
    assert.equal(mutex.locked, false);
    await unlocked;
    const release = await mutex.acquire();
    for (const options of [{}, { maxPending: 0 }, { deadlock: 'reject' }]) {
      const late = mutex.waitForUnlock({ timeout: 0, ...options });
      await assert.rejects(late, { name: 'TimeoutError' });
    }
    release();
  });

  it('holds nothing while its thread does something else', needs('state'), async () => {
    const name = freshName();
    const mutex = new Mutex(name);
    const memory = new Int32Array(new SharedArrayBuffer(4));
    const release = await mutex.acquire();
    const source = `
      const { Mutex } = require(${JSON.stringify(require.resolve('../../lib/index.js'))});
      new Mutex(name.name).waitForUnlock({ label: 'waits' }).then(() => post('unlocked'));
      post('asked');
      Atomics.wait(name.memory, 0, 0);`;
    const worker = start(source, { name, memory });
    await once(worker, 'message');
    assert.equal((await locks.query({ name, details: true })).pending[0].label, 'waits');
    const behind = mutex.acquire();
    release();
    (await behind)();
    assert.equal(mutex.locked, false);
    Atomics.store(memory, 0, 1);
    Atomics.notify(memory, 0);
    assert.deepEqual(await once(worker, 'message'), ['unlocked']);
    await once(worker, 'exit');
  });
});

describe('cancel', () => {
  for (const kind of ['Mutex', 'RWLock', 'Semaphore']) {
    const make = (name) =>
      new ({ Mutex, RWLock, Semaphore })[kind](
        name,
        ...(kind === 'Semaphore' ? [{ permits: 1 }] : []),
      );
    const acquire = (lock, options) => (lock.acquire ?? lock.acquireExclusive).call(lock, options);
    const run = (lock, callback) => (lock.run ?? lock.runExclusive).call(lock, callback);

    it(`of a ${kind} rejects what waits, and nothing else`, async () => {
      const name = freshName();
      const lock = make(name);
      const release = await acquire(lock);
      const others = acquire(make(name));
      const waiting = [acquire(lock), acquire(lock), run(lock, () => assert.fail('it ran'))];
      const outcomes = Promise.allSettled(waiting);
      await turn();
      lock.cancel();
      for (const { reason } of await outcomes) {
        assert.ok(reason instanceof LockError);
        assert.deepEqual([reason.name, reason.lockName], ['AbortError', name]);
      }
      await release();
      await (await others)();
      lock.cancel();
      await (await acquire(lock))();
    });
  }

  it('rejects with the reason that is given, also undefined’s like', async () => {
    const mutex = new Mutex();
    const release = await mutex.acquire();
    for (const reason of [null, 0, new Error('mine')]) {
      const waiting = mutex.acquire();
      await turn();
      mutex.cancel(reason);
      await assert.rejects(waiting, (error) => error === reason);
    }
    release();
  });

  it('grants nobody whom it rejects', async () => {
    const lock = new RWLock();
    const release = await lock.acquireShared();
    const waiting = [lock.acquireExclusive(), lock.acquireShared(), lock.acquireShared()];
    lock.cancel('enough');
    for (const { status } of await Promise.allSettled(waiting)) assert.equal(status, 'rejected');
    release();
  });

  it('has no hold on what has ended otherwise', async () => {
    const mutex = new Mutex();
    const release = await mutex.acquire();
    const controller = new AbortController();
    const late = mutex.acquire({ timeout: 1 });
    const aborted = mutex.acquire({ signal: controller.signal });
    controller.abort('aborted');
    await Promise.all([
      assert.rejects(late, LockTimeoutError),
      assert.rejects(aborted, (reason) => reason === 'aborted'),
    ]);
    const granted = mutex.acquire();
    release();
    const next = await granted;
    mutex.cancel();
    assert.equal(mutex.locked, true);
    next();
    assert.equal(mutex.locked, false);
  });
});

describe('RWLock', () => {
  it('readers share it, writers do not', async () => {
    const lock = new RWLock();
    assert.equal(lock.locked, null);
    const readers = [await lock.acquireShared(), await lock.acquireShared()];
    assert.equal(lock.locked, 'shared');
    assert.equal(await lock.acquireExclusive({ ifAvailable: true }), null);
    const writer = lock.runExclusive(() => lock.locked);
    for (const release of readers) release();
    assert.equal(await writer, 'exclusive');
    assert.equal(await lock.runShared(() => lock.locked), 'shared');
    await turn();
    assert.equal(lock.locked, null);
  });
});
