'use strict';

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { describe, it } = require('node:test');
const { Semaphore, locks, openBucket, turn, needs } = require('../helpers/scope.js');
const { freshName, hold } = require('../helpers/locks.js');

const shared = (limit, weight) => ({ mode: 'shared', limit, weight });

describe('the options limit and weight', () => {
  for (const [title, other, what] of [
    ['another limit', shared(3), /limit 3.*limit 2/],
    ['none', { mode: 'shared' }, /no limit.*limit 2/],
  ]) {
    it(`reject a shared request with ${title}, in words that have both`, async () => {
      const name = freshName();
      const held = await hold(locks, name, shared(2));
      const isIt = (error) => error instanceof TypeError && what.test(error.message);
      await assert.rejects(
        locks.request(name, other, () => {}),
        isIt,
      );
      await assert.rejects(
        locks.request(name, { ...other, ifAvailable: true }, () => {}),
        isIt,
      );
      await held.release();
      await locks.request(name, other, () => {});
    });

    it(`throw for tryAcquireSync of a shared lock with ${title}`, needs('sync'), async () => {
      const name = freshName();
      const held = await hold(locks, name, shared(2));
      const isIt = (error) => error instanceof TypeError && what.test(error.message);
      assert.throws(() => locks.tryAcquireSync(name, other), isIt);
      await held.release();
    });
  }

  it('reject with the limit that a name has not', async () => {
    const name = freshName();
    const held = await hold(locks, name, { mode: 'shared' });
    const request = locks.request(name, shared(2), () => {});
    await assert.rejects(request, { name: 'TypeError', message: /limit 2.*have no limit/ });
    await held.release();
  });

  it(
    'keep the limit of the name while an exclusive request waits',
    needs('keptLimit'),
    async () => {
      const name = freshName();
      const held = await hold(locks, name, shared(2));
      const writer = hold(locks, name);
      await held.release();
      const { release } = await writer;
      await assert.rejects(
        locks.request(name, shared(3), () => {}),
        TypeError,
      );
      await release();
      await locks.request(name, shared(3), () => {});
    },
  );

  for (const value of [0, -1, 1.5, 2 ** 31, Number.NaN, Number.POSITIVE_INFINITY, '2', null, 2n]) {
    for (const option of ['limit', 'weight']) {
      it(`reject a ${option} of ${typeof value} ${String(value)} with a TypeError`, async () => {
        const options = { ...shared(5), [option]: value };
        await assert.rejects(
          locks.request(freshName(), options, () => {}),
          { name: 'TypeError', message: new RegExp(`The '${option}' option`) },
        );
      });
    }
  }

  it('take the greatest numbers there are', async () => {
    const most = 2 ** 31 - 1;
    const name = freshName();
    const held = await hold(locks, name, shared(most, most));
    const other = { ...shared(most), ifAvailable: true };
    assert.equal(await locks.acquire(name, other), null);
    await held.release();
  });

  for (const [title, options] of [
    ['a weight above the limit', shared(2, 3)],
    ['a weight without a limit', { mode: 'shared', weight: 1 }],
    ['a limit without the mode shared', { limit: 2 }],
    ['a limit with steal', { steal: true, limit: 2 }],
  ]) {
    it(`reject ${title} with a TypeError`, async () => {
      await assert.rejects(
        locks.request(freshName(), options, () => {}),
        TypeError,
      );
    });
  }

  it(
    'are a deadlock for a request inside of a lock that leaves it no room',
    needs('deadlock'),
    async () => {
      const name = freshName();
      const options = { ...shared(3, 2), deadlock: 'reject' };
      await locks.request(name, options, async () => {
        await assert.rejects(
          locks.request(name, options, () => {}),
          { name: 'DeadlockError' },
        );
        await locks.request(name, { ...options, weight: 1 }, () => {});
      });
    },
  );
});

describe('class Semaphore', () => {
  it('runs as many callbacks at a time as it has permits', async () => {
    const semaphore = new Semaphore(2);
    let running = 0;
    let most = 0;
    const work = async () => {
      most = Math.max(most, ++running);
      await turn();
      running--;
    };
    await Promise.all(Array.from({ length: 7 }, () => semaphore.run(work)));
    assert.equal(most, 2);
    assert.equal(semaphore.available, 2);
  });

  it('passes the lock to the callback of run, and its result on', async () => {
    const semaphore = new Semaphore(2);
    const result = await semaphore.run(
      (lock) => [lock.mode, typeof lock.token, semaphore.available],
      { weight: 2 },
    );
    assert.deepEqual(result, ['shared', 'bigint', 0]);
    await assert.rejects(
      semaphore.run(() => Promise.reject(new Error('mine'))),
      /mine/,
    );
    await assert.rejects(semaphore.run('no function'), TypeError);
  });

  it('acquires units, and gives them back once', async () => {
    const semaphore = new Semaphore(3);
    const release = await semaphore.acquire({ weight: 2 });
    assert.equal(semaphore.available, 1);
    assert.equal(await semaphore.tryAcquire({ weight: 2 }), null);
    const other = await semaphore.tryAcquire();
    release();
    release();
    assert.equal(semaphore.available, 2);
    other();
    assert.equal(semaphore.available, 3);
  });

  it('returns release functions that are disposable', async () => {
    const dispose = Symbol.dispose ?? Symbol.for('nodejs.dispose');
    const asyncDispose = Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose');
    const semaphore = new Semaphore(2);
    const one = await semaphore.acquire();
    const two = await semaphore.acquire();
    one[dispose]();
    assert.equal(semaphore.available, 1);
    await two[asyncDispose]();
    assert.equal(semaphore.available, 2);
  });

  it('is private without a name', async () => {
    const [one, other] = [new Semaphore(1), new Semaphore(1)];
    const release = await one.acquire();
    assert.equal(other.available, 1);
    const { held } = await locks.query();
    assert.ok(held.every(({ mode }) => mode !== 'shared'));
    release();
  });

  it('with a name is made of the shared locks of that name', needs('state'), async () => {
    const name = freshName();
    const semaphore = new Semaphore(name, { permits: 2 });
    const other = new Semaphore(name, { permits: 2 });
    const release = await semaphore.acquire();
    assert.equal(other.available, 1);
    const lock = await locks.acquire(name, shared(2));
    assert.equal(semaphore.available, 0);
    lock.release();
    release();
    const writer = await locks.acquire(name);
    assert.equal(semaphore.available, 0);
    writer.release();
  });

  it('is in the bucket that is given', async () => {
    const bucket = openBucket(freshName());
    const semaphore = new Semaphore('x', { permits: 1, bucket });
    const release = await semaphore.acquire();
    assert.equal((await bucket.locks.query()).held.length, 1);
    release();
  });

  it('tells how many requests wait', needs('state'), async () => {
    const name = freshName();
    const semaphore = new Semaphore(name, { permits: 1 });
    assert.equal(semaphore.pending, 0);
    const release = await semaphore.acquire();
    const waiting = [semaphore.acquire(), new Semaphore(name, { permits: 1 }).acquire()];
    assert.equal(semaphore.pending, 2);
    release();
    (await waiting[0])();
    (await waiting[1])();
    assert.equal(semaphore.pending, 0);
  });

  describe('resize', () => {
    /** @returns how many callbacks of a semaphore run at a time at most */
    async function most(semaphore, count) {
      let running = 0;
      let greatest = 0;
      const work = async () => {
        greatest = Math.max(greatest, ++running);
        await turn();
        running--;
      };
      await Promise.all(Array.from({ length: count }, () => semaphore.run(work)));
      return greatest;
    }

    for (const [from, to] of [
      [2, 5],
      [5, 2],
      [3, 3],
    ]) {
      it(`from ${from} to ${to} units, for all that is asked for later`, async () => {
        const semaphore = new Semaphore(from);
        const before = most(semaphore, 10);
        const resized = semaphore.resize(to);
        const after = most(semaphore, 10);
        assert.deepEqual([await before, await after, await resized], [from, to, undefined]);
        assert.deepEqual([semaphore.available, semaphore.pending], [to, 0]);
      });
    }

    it('waits for those who hold units, and for nobody else', async () => {
      const semaphore = new Semaphore(1);
      const release = await semaphore.acquire();
      let isResized = false;
      const resized = semaphore.resize(2).then(() => {
        isResized = true;
      });
      const next = semaphore.acquire({ weight: 2 });
      assert.equal(await semaphore.tryAcquire(), null);
      await assert.rejects(semaphore.acquire({ timeout: 1 }), { name: 'TimeoutError' });
      assert.deepEqual([isResized, semaphore.available], [false, 0]);
      release();
      await resized;
      (await next)();
    });

    it('waits also for those whose priority is less than any', async () => {
      const semaphore = new Semaphore(1);
      const release = await semaphore.acquire();
      const least = [-(2 ** 31), -1].map((priority) => semaphore.acquire({ priority }));
      let isResized = false;
      const resized = semaphore.resize(2).then(() => {
        isResized = true;
      });
      release();
      (await least[1])();
      const last = await least[0];
      await turn();
      assert.ok(!isResized);
      last();
      await resized;
    });

    it('can be said again at once: the last one counts', async () => {
      const semaphore = new Semaphore(1);
      const release = await semaphore.acquire();
      const all = [semaphore.resize(5), semaphore.resize(3), semaphore.acquire({ weight: 3 })];
      release();
      const [, , last] = await Promise.all(all);
      last();
      assert.equal(semaphore.available, 3);
    });

    it('counts those that wait since before, where a request says `maxPending`', async () => {
      const semaphore = new Semaphore(1);
      const release = await semaphore.acquire();
      const before = semaphore.acquire();
      const resized = semaphore.resize(2);
      const after = semaphore.acquire({ maxPending: 2 });
      const refused = semaphore.acquire({ maxPending: 2 });
      assert.equal(semaphore.pending, 2);
      await assert.rejects(refused, { name: 'QuotaExceededError', maxPending: 2 });
      release();
      (await before)();
      (await after)();
      await resized;
      (await semaphore.acquire({ maxPending: 0 }))();
    });

    it('refuses nobody for `maxPending` who does not wait', async () => {
      const semaphore = new Semaphore(1);
      const release = await semaphore.acquire();
      const resized = semaphore.resize(2);
      const maxPending = 0;
      assert.equal(await semaphore.acquire({ maxPending, ifAvailable: true }), null);
      assert.equal(await semaphore.tryAcquire({ maxPending }), null);
      await assert.rejects(semaphore.acquire({ maxPending, blocking: false }), {
        name: 'LockError',
      });
      await assert.rejects(semaphore.acquire({ maxPending, timeout: 0 }), { name: 'TimeoutError' });
      release();
      await resized;
    });

    it('is what a time-out names while it waits for those who hold units', async () => {
      const semaphore = new Semaphore(1);
      const release = await semaphore.acquire();
      const resized = semaphore.resize(2);
      await assert.rejects(
        semaphore.acquire({ timeout: 1 }),
        /"resize: former permits are in use"/,
      );
      release();
      await resized;
    });

    it('does not take the units of who is cancelled', async () => {
      const semaphore = new Semaphore(1);
      const release = await semaphore.acquire();
      const resized = semaphore.resize(2);
      const waiting = semaphore.acquire();
      semaphore.cancel('enough');
      await assert.rejects(waiting, (reason) => reason === 'enough');
      release();
      await resized;
      assert.equal(semaphore.available, 2);
    });

    it('counts all who wait, those before it and those after it', async () => {
      const semaphore = new Semaphore(1);
      const release = await semaphore.acquire();
      const before = [semaphore.run(() => {}), semaphore.run(() => {})];
      const resized = [semaphore.resize(2)];
      assert.equal(semaphore.pending, 2);
      const after = semaphore.run(() => {});
      resized.push(semaphore.resize(3));
      assert.equal(semaphore.pending, 3);
      release();
      await Promise.all([...before, after, ...resized]);
      assert.equal(semaphore.pending, 0);
    });

    for (const [method, isServed] of [
      ['run', (semaphore, options) => semaphore.run((lock) => lock !== null, options)],
      [
        'acquire',
        async (semaphore, options) => {
          const release = await semaphore.acquire(options);
          release?.();
          return release !== null;
        },
      ],
    ]) {
      it(`leaves a reentrant ${method} to the lock that it is inside of`, async () => {
        const semaphore = new Semaphore(1);
        const inner = { reentrant: true, ifAvailable: true };
        let next;
        let resized;
        await semaphore.run(
          async () => {
            semaphore.resize(2);
            next = semaphore.acquire();
            resized = semaphore.resize(3);
            assert.ok(await isServed(semaphore, inner));
            assert.equal(semaphore.pending, 1);
          },
          { reentrant: true },
        );
        (await next)();
        await resized;
        // And one that has the new number.
        await semaphore.run(
          async () => assert.ok(await isServed(semaphore, { ...inner, weight: 3 })),
          { reentrant: true },
        );
      });
    }

    it('makes a deadlock of a request inside of a lock that it waits for', async () => {
      const semaphore = new Semaphore(2);
      const options = { deadlock: 'reject' };
      const resized = [];
      await semaphore.run(async () => {
        resized.push(semaphore.resize(3), semaphore.resize(4));
        const waits = semaphore.acquire({ ...options, timeout: 5000 });
        await assert.rejects(waits, { name: 'DeadlockError' });
      }, options);
      await Promise.all(resized);
      assert.equal(semaphore.available, 4);
    });

    it('counts from a request on whose options were read before', async () => {
      const semaphore = new Semaphore(1);
      let resized;
      const options = {
        get label() {
          resized = semaphore.resize(2);
          return 'x';
        },
      };
      const release = await semaphore.acquire(options);
      await resized;
      const other = await semaphore.tryAcquire();
      assert.ok(other);
      other();
      release();
    });

    it('tells subscribers of channels nothing of itself', async () => {
      const messages = [];
      const listen = (message) => messages.push(message);
      const channels = ['start', 'grant', 'end'].map((name) => `locks.request.${name}`);
      const semaphore = new Semaphore(1);
      for (const name of channels) subscribe(name, listen);
      await semaphore.resize(2);
      for (const name of channels) unsubscribe(name, listen);
      assert.deepEqual(messages, []);
    });

    it('is refused without a number, and of a name that others use, too', async () => {
      const semaphore = new Semaphore(2);
      for (const permits of [undefined, 0, 1.5, '2']) {
        await assert.rejects(semaphore.resize(permits), TypeError);
      }
      const named = new Semaphore(freshName(), { permits: 2 });
      await assert.rejects(named.resize(3), { name: 'NotSupportedError' });
    });
  });

  for (const [title, options] of [
    ['mode', { mode: 'shared' }],
    ['limit', { limit: 1 }],
    ['steal', { steal: true }],
  ]) {
    it(`refuses the option ${title}`, async () => {
      const semaphore = new Semaphore(1);
      await assert.rejects(semaphore.acquire(options), TypeError);
      await assert.rejects(
        semaphore.run(() => {}, options),
        TypeError,
      );
    });
  }

  for (const given of [[], [0], [1.5], [2 ** 31], ['x'], ['x', { permits: 0 }], [undefined]]) {
    it(`throws a TypeError for new Semaphore(${given.map((one) => JSON.stringify(one))})`, () => {
      assert.throws(() => new Semaphore(...given), TypeError);
    });
  }

  it('rejects a weight above the permits with a TypeError', async () => {
    await assert.rejects(new Semaphore(2).acquire({ weight: 3 }), TypeError);
  });

  it('of a reserved name throws a NotSupportedError', () => {
    assert.throws(() => new Semaphore('-x', { permits: 1 }), { name: 'NotSupportedError' });
  });
});
