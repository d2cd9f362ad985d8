'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const {
  DeadlockError,
  LockStolenError,
  LockTimeoutError,
  Mutex,
  RWLock,
  locks,
  openBucket,
  turn,
  needs,
} = require('../helpers/scope.js');
const { FREE, deferred, freshName, hold, stateOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const R = { reentrant: true };
const SHARED = { ...R, mode: 'shared' };
const HELD = { held: ['exclusive'], pending: [] };

describe('reentrant: true', () => {
  it('an inner request is served by the outer lock, ahead of the queue', async () => {
    const name = freshName();
    const order = [];
    let next;
    await locks.request(name, R, async () => {
      next = locks.request(name, () => order.push('next'));
      await locks.request(name, R, async (lock) => {
        assert.deepEqual([lock.name, lock.mode], [name, 'exclusive']);
        await locks.request(name, R, () => order.push('innermost'));
        order.push('inner');
      });
      await turn();
      assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: ['exclusive'] });
      order.push('outer');
    });
    await next;
    assert.deepEqual(order, ['innermost', 'inner', 'outer', 'next']);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('counts only if both say it', async () => {
    const name = freshName();
    for (const [outer, inner] of [
      [{}, R],
      [R, {}],
    ]) {
      await locks.request(name, outer, async () => {
        const asked = locks.request(name, { ...inner, ifAvailable: true }, (lock) => lock);
        assert.equal(await asked, null);
      });
    }
  });

  it('counts for code inside of the callback only', async () => {
    const name = freshName();
    const held = await hold(locks, name, R);
    assert.equal(await locks.request(name, { ...R, ifAvailable: true }, (lock) => lock), null);
    await held.release();
  });

  it('shared inside exclusive is fine, and exclusive inside that', async () => {
    const name = freshName();
    await locks.request(name, R, () =>
      locks.request(name, SHARED, async (lock) => {
        assert.equal(lock.mode, 'shared');
        assert.equal(await locks.request(name, R, () => 'inner'), 'inner');
      }),
    );
  });

  it('exclusive inside shared rejects with a DeadlockError', async () => {
    const name = freshName();
    const outer = { ...SHARED, label: 'outer' };
    await locks.request(name, outer, async () => {
      const error = await locks
        .request(name, { ...R, label: 'inner' }, () => assert.fail('called'))
        .then(assert.fail, (reason) => reason);
      assert.ok(error instanceof DeadlockError);
      const asked = locks.request(name, { ...R, ifAvailable: true }, (lock) => lock);
      assert.equal(await asked, null);
      await assert.rejects(
        locks.request(name, { ...R, timeout: 0 }, () => {}),
        LockTimeoutError,
      );
    });
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('exclusive inside shared tells who waits for whom', async () => {
    const name = freshName();
    const outer = { ...SHARED, label: 'outer' };
    await locks.request(name, outer, async () => {
      const error = await locks
        .request(name, { ...R, label: 'inner' }, () => assert.fail('called'))
        .then(assert.fail, (reason) => reason);
      assert.deepEqual(
        error.cycle.map(({ mode, label }) => [mode, label]),
        [
          ['exclusive', 'inner'],
          ['shared', 'outer'],
        ],
      );
    });
  });

  it('exclusive inside shared throws, if it would block', needs('sync'), async () => {
    const name = freshName();
    await locks.request(name, SHARED, () => {
      assert.throws(() => locks.acquireSync(name, { ...R, timeout: 10 }), DeadlockError);
    });
  });

  it('an inner one that outlives the outer keeps the lock, and the outer promise waits', async () => {
    const name = freshName();
    const end = deferred();
    const order = [];
    let inner;
    const outer = locks.request(name, R, async () => {
      inner = locks.request(name, R, () => end.promise).then(() => order.push('inner'));
      await turn();
      return 'outer';
    });
    const next = locks.request(name, () => order.push('next'));
    outer.then(() => order.push('outer'));
    await turn();
    await turn();
    assert.deepEqual(order, []);
    end.resolve();
    assert.equal(await outer, 'outer');
    await Promise.all([inner, next]);
    assert.deepEqual(order.sort(), ['inner', 'next', 'outer']);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('many inner ones end in any order; the last one releases', async () => {
    const name = freshName();
    const ends = [0, 1, 2, 3, 4].map(deferred);
    let inner;
    const outer = locks.request(name, R, () => {
      inner = ends.map(({ promise }) => locks.request(name, R, () => promise));
    });
    for (const i of [1, 4, 0, 3]) {
      await turn();
      ends[i].resolve();
      await inner[i];
      assert.deepEqual(await stateOf(locks, name), HELD);
    }
    ends[2].resolve();
    await outer;
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  for (const [title, needed, acquire] of [
    ['', [], (name) => locks.acquire(name, R)],
    [' that blocks', ['sync'], (name) => locks.acquireSync(name, { ...R, timeout: 0 })],
  ]) {
    it(
      `an inner handle${title} keeps the lock until it is released`,
      needs(...needed),
      async () => {
        const name = freshName();
        const got = deferred();
        const outer = locks.request(name, R, async () => {
          got.resolve([await locks.acquire(name, R), await acquire(name)]);
        });
        const [first, second] = await got.promise;
        first.release();
        first.release();
        await turn();
        assert.deepEqual(await stateOf(locks, name), HELD);
        assert.deepEqual([first.released, second.released], [true, false]);
        second.release();
        await outer;
        assert.deepEqual(await stateOf(locks, name), FREE);
      },
    );
  }

  it('a steal takes it from inner ones, too', async () => {
    const name = freshName();
    const ready = deferred();
    const inner = [];
    const outer = locks.request(name, R, async () => {
      inner.push(locks.request(name, R, () => new Promise(() => {})));
      inner.push(locks.acquire(name, R));
      ready.resolve(await inner[1]);
    });
    const handle = await ready.promise;
    const all = [outer, inner[0]].map((one) => assert.rejects(one, LockStolenError));
    const thief = await hold(locks, name, { steal: true });
    await Promise.all(all);
    assert.equal(handle.released, true);
    assert.ok(handle.signal.reason instanceof LockStolenError);
    assert.deepEqual(await stateOf(locks, name), HELD);
    handle.release();
    assert.deepEqual(await stateOf(locks, name), HELD);
    await thief.release();
  });

  it('a steal by another thread, too, while the outer one waits for the inner', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    let inner;
    const outer = locks.request(name, R, () => {
      inner = locks.request(name, R, ({ signal }) => once(signal, 'abort'));
    });
    await turn();
    const both = Promise.allSettled([outer, inner]);
    const thief = await remote.hold(name, { steal: true });
    const settled = await both;
    assert.ok(settled.every(({ reason }) => reason instanceof LockStolenError));
    thief.release();
    await thief.settled;
  });

  it('the holdTimeout of the outer one takes it from inner ones, too', async () => {
    const name = freshName();
    const awake = setInterval(() => {}, 1000);
    let inner;
    const outer = locks.request(name, { ...R, holdTimeout: 20 }, () => {
      inner = assert.rejects(
        locks.request(name, R, ({ signal }) => once(signal, 'abort')),
        LockTimeoutError,
      );
    });
    await assert.rejects(outer, LockTimeoutError);
    await inner;
    assert.deepEqual(await stateOf(locks, name), FREE);
    clearInterval(awake);
  });

  it('the holdTimeout of an inner one ends that one only', async () => {
    const name = freshName();
    const awake = setInterval(() => {}, 1000);
    await locks.request(name, R, async (lock) => {
      const inner = locks.request(name, { ...R, holdTimeout: 5 }, () => new Promise(() => {}));
      await assert.rejects(inner, LockTimeoutError);
      assert.equal(lock.signal.aborted, false);
      assert.deepEqual(await stateOf(locks, name), HELD);
    });
    clearInterval(awake);
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('an inner one that steals, steals from the outer one', async () => {
    const name = freshName();
    const outer = locks.request(name, R, (lock) =>
      locks.request(name, { ...R, steal: true }, () => assert.equal(lock.signal.aborted, true)),
    );
    await assert.rejects(outer, LockStolenError);
    await turn();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('an inner one that is aborted before its callback does not count', async () => {
    const name = freshName();
    const controller = new AbortController();
    await locks.request(name, R, async () => {
      const options = { ...R, signal: controller.signal };
      const inner = locks.request(name, options, () => assert.fail('called'));
      controller.abort();
      await assert.rejects(inner, { name: 'AbortError' });
    });
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('an error of an inner one rejects that one only', async () => {
    const name = freshName();
    await locks.request(name, R, async () => {
      const inner = locks.request(name, R, () => {
        throw new Error('inner');
      });
      await assert.rejects(inner, { message: 'inner' });
    });
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('once the outer lock is released, the context is not inside of it any more', async () => {
    const name = freshName();
    const later = deferred();
    let late;
    await locks.request(name, R, () => {
      late = later.promise.then(() => locks.request(name, R, () => 'in the queue'));
    });
    const held = await hold(locks, name);
    later.resolve();
    await turn();
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: ['exclusive'] });
    await held.release();
    assert.equal(await late, 'in the queue');
  });

  for (const [title, more, needed] of [
    ['', {}, []],
    [", with deadlock: 'reject'", { deadlock: 'reject' }, ['deadlock']],
  ]) {
    it(
      `requestAll: each of the names that one is inside of, and each that is taken${title}`,
      needs(...needed),
      async () => {
        const [a, b] = [freshName('a'), freshName('b')];
        const end = deferred();
        let inner;
        const all = locks.request(b, R, () =>
          locks.requestAll([a, b], { ...R, ...more }, async (held) => {
            assert.deepEqual(
              held.map(({ name }) => name),
              [a, b],
            );
            assert.equal(await locks.request(a, R, () => 'a'), 'a');
            inner = locks.request(a, R, () => end.promise);
            return 'all';
          }),
        );
        await turn();
        await turn();
        for (const name of [a, b]) assert.deepEqual(await stateOf(locks, name), HELD);
        end.resolve();
        assert.equal(await all, 'all');
        await inner;
        for (const name of [a, b]) assert.deepEqual(await stateOf(locks, name), FREE);
      },
    );
  }

  it('the same name of another bucket is another lock; of the same bucket, the same', async () => {
    const name = freshName();
    const [one, other] = [openBucket('reentrant'), openBucket('other reentrant')];
    await one.locks.request(name, R, async () => {
      const again = openBucket('reentrant').locks;
      assert.equal(await again.request(name, R, () => 'the same'), 'the same');
      await other.locks.request(name, R, () => {});
      assert.deepEqual((await other.locks.query()).held, []);
    });
  });

  it('Mutex and RWLock take it', async () => {
    const name = freshName();
    const [mutex, lock] = [new Mutex(), new RWLock(name)];
    const both = mutex.runExclusive(
      () =>
        mutex.runExclusive(() => lock.runExclusive(() => lock.runShared(() => 'both', R), R), R),
      R,
    );
    assert.equal(await both, 'both');
    const inner = () => lock.acquireExclusive(R);
    await assert.rejects(lock.runShared(inner, R), DeadlockError);
    assert.equal(
      await locks.request(name, R, () => new Mutex(name).runExclusive(() => 'by name', R)),
      'by name',
    );
  });

  it(
    "with deadlock: 'reject' an inner one is no deadlock, and its cycle is the outer one's",
    needs('deadlock'),
    async () => {
      const [a, b] = [freshName('a'), freshName('b')];
      const both = { ...R, deadlock: 'reject' };
      const ready = deferred();
      const entered = deferred();
      const other = locks.request(b, both, async () => {
        await entered.promise;
        const asked = locks.request(a, both, () => 'other');
        ready.resolve();
        return asked;
      });
      await locks.request(a, both, () =>
        locks.request(a, both, async () => {
          entered.resolve();
          await ready.promise;
          await assert.rejects(
            locks.request(b, both, () => {}),
            DeadlockError,
          );
        }),
      );
      assert.equal(await other, 'other');
    },
  );

  it('does not serve a request of another bucket', async () => {
    const name = freshName();
    const other = openBucket(`other ${name}`);
    const held = await hold(other.locks, name);
    await locks.request(name, R, async () => {
      assert.equal(
        await other.locks.request(name, { ...R, ifAvailable: true }, (lock) => lock),
        null,
      );
    });
    await held.release();
  });
});

describe('close() of a bucket, inside of a lock of the same bucket that was opened again', () => {
  const INVALID = { name: 'InvalidStateError' };

  /** Calls inside of a lock of the one, with both. */
  async function inside(callback) {
    const name = freshName('bucket');
    const [one, other] = [openBucket(name), openBucket(name)];
    await one.locks.request('a', R, (lock) => callback({ one, other, lock }));
    assert.deepEqual(await stateOf(one.locks, 'a'), FREE);
    await one.close();
  }

  for (const [method, needed, ask] of [
    ['request', [], (locks) => locks.request('a', R, () => assert.fail('called'))],
    ['acquire', [], (locks) => locks.acquire('a', R)],
    ['requestAll', [], (locks) => locks.requestAll(['a'], R, () => assert.fail('called'))],
    ['acquireSync', ['sync'], async (locks) => locks.acquireSync('a', { ...R, timeout: 0 })],
    ['tryAcquireSync', ['sync'], async (locks) => locks.tryAcquireSync('a', R)],
  ]) {
    it(`later requests reject with an InvalidStateError: ${method}`, needs(...needed), () =>
      inside(async ({ other }) => {
        await other.close();
        await assert.rejects(ask(other.locks), INVALID);
      }),
    );
  }

  it('what the lock serves of it is lost, and nothing else', () =>
    inside(async ({ one, other, lock }) => {
      const handle = await other.locks.acquire('a', R);
      const mine = await one.locks.acquire('a', R);
      let inner;
      const request = other.locks.request('a', R, async ({ signal }) => {
        inner = signal;
        await once(signal, 'abort');
      });
      const lost = assert.rejects(request, {
        name: 'AbortError',
        reason: 'closed',
        lockName: 'a',
      });
      await turn();
      await other.close();
      assert.deepEqual([handle.held, handle.released], [false, true]);
      await lost;
      assert.equal(inner.reason.reason, 'closed');
      assert.equal(handle.signal.reason.reason, 'closed');
      assert.deepEqual([mine.held, lock.held, lock.signal.aborted], [true, true, false]);
      mine.release();
      handle.release();
    }));

  it('a granted request whose callback was not called is lost', () =>
    inside(async ({ other }) => {
      const request = other.locks.request('a', R, ({ held }) => held);
      await Promise.all([other.close(), assert.rejects(request, { reason: 'closed' })]);
    }));

  it('it is lost before anybody hears of the close', () =>
    inside(async ({ other }) => {
      const seen = [];
      const handle = await other.locks.acquire('a', R);
      const held = await other.locks.acquire('b');
      held.signal.addEventListener('abort', () => {
        seen.push(handle.held);
        seen.push(
          assert.rejects(
            other.locks.request('a', R, () => {}),
            INVALID,
          ),
        );
      });
      await other.close();
      assert.equal(seen[0], false);
      await seen[1];
    }));

  it('a lock that waited only for that is released', async () => {
    const name = freshName('bucket');
    const [one, other] = [openBucket(name), openBucket(name)];
    const granted = deferred();
    const outer = one.locks.request('a', R, async () => {
      granted.resolve(await other.locks.acquire('a', R));
    });
    const handle = await granted.promise;
    const next = one.locks.request('a', () => 'next');
    await other.close();
    await outer;
    assert.equal(await next, 'next');
    assert.equal(handle.released, true);
    await one.close();
  });
});
