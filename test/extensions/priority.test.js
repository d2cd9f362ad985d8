'use strict';

/** The order of the queue by the option priority. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { Mutex, RWLock, Semaphore, locks, needs, turn } = require('../helpers/scope.js');
const { deferred, freshName, hold } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const library = JSON.stringify(require.resolve('../fixtures/library.js'));

/** Requests that wait for a lock; each notes its label when it is granted. */
class Queue {
  order = [];
  requests = [];

  constructor(name) {
    this.name = name;
  }

  add(label, options = {}) {
    const note = () => void this.order.push(label);
    this.requests.push(locks.request(this.name, { label, ...options }, note));
  }

  /** @returns the labels, in the order in which they were granted */
  async end() {
    await Promise.all(this.requests);
    return this.order;
  }
}

describe('the option priority', needs('priority'), () => {
  it('more of it goes first; of the same, who came first', async () => {
    const queue = new Queue(freshName());
    const held = await hold(locks, queue.name);
    const priorities = [undefined, -1, 5, 0, 3, 5, -7, undefined, 3, -1, 2 ** 31 - 1, -(2 ** 31)];
    for (const [i, priority] of priorities.entries()) queue.add(`${priority} ${i}`, { priority });
    await held.release();
    assert.deepEqual(await queue.end(), [
      ...['2147483647 10', '5 2', '5 5', '3 4', '3 8'],
      ...['undefined 0', '0 3', 'undefined 7', '-1 1', '-1 9', '-7 6', '-2147483648 11'],
    ]);
  });

  it('takes the lock away from nobody', async () => {
    const name = freshName();
    const held = await hold(locks, name, { priority: -9 });
    const urgent = locks.request(name, { priority: 9 }, () => {});
    await turn();
    assert.ok(held.lock.held);
    await held.release();
    await urgent;
    await held.released;
  });

  it('lets who has less wait as long as others with more come in time', async () => {
    const name = freshName();
    let last = await hold(locks, name);
    let isGranted = false;
    const least = locks.request(name, { priority: -1 }, () => {
      isGranted = true;
    });
    for (let i = 0; i < 20; i++) {
      const next = hold(locks, name);
      await last.release();
      last = await next;
      assert.ok(!isGranted);
    }
    await last.release();
    await least;
    assert.ok(isGranted);
  });

  it('orders the requests of all agents', async (t) => {
    const queue = new Queue(freshName());
    const other = await RemoteAgent.start(t);
    const held = await hold(locks, queue.name);
    queue.add('less');
    const theirs = await other.request(queue.name, { priority: 1 });
    queue.add('more', { priority: 2 });
    const { pending } = await locks.query({ details: true, name: queue.name });
    assert.deepEqual(
      pending.map(({ priority }) => priority),
      [2, 1, 0],
    );
    await held.release();
    await theirs.granted;
    assert.deepEqual(queue.order, ['more']);
    theirs.release();
    await theirs.settled;
    assert.deepEqual(await queue.end(), ['more', 'less']);
  });

  it('is the order of query(), whose details have it, also of locks', async () => {
    const name = freshName();
    const held = await hold(locks, name, { priority: -3 });
    const modes = [
      ['shared', 0],
      ['exclusive', 4],
      ['shared', -2],
    ];
    const waiting = modes.map(([mode, priority]) =>
      locks.request(name, { mode, priority }, () => {}),
    );
    const order = ['exclusive', 'shared', 'shared'];
    const { pending } = await locks.query({ name });
    assert.deepEqual(
      pending.map(({ mode }) => mode),
      order,
    );
    for (const entry of pending) assert.deepEqual(Object.keys(entry), ['clientId', 'mode', 'name']);
    const details = await locks.query({ details: true, name });
    assert.equal(details.held[0].priority, -3);
    assert.deepEqual(
      details.pending.map(({ ahead, mode, priority }) => [ahead, mode, priority]),
      [
        [0, 'exclusive', 4],
        [1, 'shared', 0],
        [2, 'shared', -2],
      ],
    );
    await held.release();
    await Promise.all(waiting);
  });

  describe('grants at once what would be first and fits beside the locks that are held', () => {
    const more = { mode: 'shared', priority: 1 };

    for (const [title, options] of Object.entries({
      'with ifAvailable': { ifAvailable: true },
      'with a timeout of 0': { timeout: 0 },
      'and what would wait': {},
    })) {
      it(title, async () => {
        const name = freshName();
        const held = await hold(locks, name, { mode: 'shared' });
        const writer = locks.request(name, () => {});
        assert.ok(await locks.request(name, { ...more, ...options }, (lock) => lock?.token));
        await held.release();
        await writer;
      });
    }

    it('and nothing else', async () => {
      const name = freshName();
      const held = await hold(locks, name, { mode: 'shared' });
      const writer = locks.request(name, { priority: 1 }, () => {});
      for (const options of [
        { mode: 'shared', priority: 1 },
        { mode: 'shared', priority: -1 },
        { mode: 'exclusive', priority: 2 },
      ]) {
        const given = { ...options, ifAvailable: true };
        assert.equal(await locks.request(name, given, (lock) => lock), null);
      }
      await held.release();
      await writer;
    });
  });

  it('lets a light request get ahead of a heavy one that has less', async () => {
    const name = freshName();
    const units = (weight) => ({ mode: 'shared', limit: 3, weight });
    const held = await hold(locks, name, units(2));
    const heavy = locks.request(name, units(2), () => {});
    assert.equal(await locks.request(name, { ...units(1), ifAvailable: true }, String), 'null');
    const light = await hold(locks, name, { ...units(1), priority: 1 });
    await held.release();
    await heavy;
    await light.release();
  });

  it('is not of a theft', async () => {
    const name = freshName();
    await assert.rejects(
      locks.request(name, { priority: 1, steal: true }, () => {}),
      { name: 'NotSupportedError', message: /'priority' and 'steal'/ },
    );
    await locks.request(name, { priority: 0, steal: true }, () => {});
  });

  it('is less than a theft, whatever it is', async () => {
    const queue = new Queue(freshName());
    const held = await hold(locks, queue.name);
    queue.add('urgent', { priority: 2 ** 31 - 1 });
    queue.add('thief', { steal: true });
    await assert.rejects(held.released, { name: 'AbortError' });
    await held.release();
    assert.deepEqual(await queue.end(), ['thief', 'urgent']);
  });

  it('does not count for maxPending: that counts all who wait', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const least = locks.request(name, { priority: -1 }, () => {});
    await assert.rejects(
      locks.request(name, { priority: 9, maxPending: 1 }, () => {}),
      { name: 'QuotaExceededError' },
    );
    await held.release();
    await least;
  });

  it('leaves the order of the others as it was when a request is aborted', async () => {
    const queue = new Queue(freshName());
    const held = await hold(locks, queue.name);
    const controllers = [1, 1, 0, -1, -1].map((priority, i) => {
      const controller = new AbortController();
      const { signal } = controller;
      queue.add(`${i}`, { priority, signal });
      return controller;
    });
    for (const i of [1, 3]) controllers[i].abort();
    const gone = await Promise.allSettled(queue.requests.splice(1, 1));
    gone.push(...(await Promise.allSettled(queue.requests.splice(2, 1))));
    assert.ok(gone.every(({ status }) => status === 'rejected'));
    for (const priority of [1, 0, -1]) queue.add(`later ${priority}`, { priority });
    await held.release();
    assert.deepEqual(await queue.end(), ['0', 'later 1', '2', 'later 0', '4', 'later -1']);
  });

  it('of an inner request of a reentrant one has no effect', async () => {
    const name = freshName();
    const options = { reentrant: true };
    await locks.request(name, options, async () => {
      const other = locks.request(name, { priority: 9 }, () => 'other');
      await locks.request(name, { ...options, priority: -9 }, () => {});
      assert.equal((await locks.query({ name })).pending.length, 1);
      other.catch(() => {});
    });
  });

  describe('of requestAll', () => {
    it('is that of each of the locks', needs('oneByOne'), async () => {
      const [one, two] = [freshName('a'), freshName('b')];
      const held = [await hold(locks, one), await hold(locks, two)];
      const others = [one, two].map((name) => locks.request(name, () => 'other'));
      const all = locks.requestAll([two, one], { priority: 1 }, () => 'all');
      const ofName = async (name) => (await locks.query({ details: true, name })).pending;
      assert.equal((await ofName(one))[0].priority, 1);
      await held[0].release();
      await turn();
      assert.equal((await ofName(two))[0].priority, 1);
      await held[1].release();
      assert.deepEqual(await Promise.all([all, ...others]), ['all', 'other', 'other']);
    });

    it('does not make two callers wait for each other', needs('oneByOne'), async () => {
      const names = ['a', 'b', 'c'].map((title) => freshName(title));
      const some = (i) => names.filter((_, j) => (i >> j) & 1);
      const all = Array.from({ length: 200 }, (_, i) =>
        locks.requestAll(some((i % 7) + 1), { priority: ((i * 5) % 11) - 5 }, () => turn()),
      );
      assert.equal((await Promise.all(all)).length, 200);
    });

    it('is refused where the locks are requested together', async () => {
      const asked = locks.requestAll([freshName()], { priority: 1 }, () => 'called');
      if (needs('oneByOne').skip) {
        await assert.rejects(asked, { name: 'NotSupportedError', message: /'priority'/ });
      } else {
        assert.equal(await asked, 'called');
      }
    });
  });

  describe('of other calls', () => {
    /** Calls `ask` while the lock is held and waited for. @returns who came first */
    async function firstOf(name, ask, mode = 'exclusive') {
      const order = [];
      const held = await hold(locks, name);
      const other = locks.request(name, { mode }, () => void order.push('other'));
      const asked = ask(() => void order.push('asked'));
      await turn();
      await held.release();
      await Promise.all([other, asked]);
      return order[0];
    }

    const ways = {
      acquire: (name, options, note) => async () => {
        const handle = await locks.acquire(name, options);
        note();
        await handle.release();
      },
      'Mutex#acquire': (name, options, note) => async () => {
        const release = await new Mutex(name).acquire(options);
        note();
        await release();
      },
      'Mutex#runExclusive': (name, options, note) => () =>
        new Mutex(name).runExclusive(note, options),
      'RWLock#runExclusive': (name, options, note) => () =>
        new RWLock(name).runExclusive(note, options),
      elect: (name, options, note) => () => locks.elect(name, options, note),
    };
    for (const [title, way] of Object.entries(ways)) {
      it(title, async () => {
        for (const [priority, first] of [
          [1, 'asked'],
          [0, 'other'],
        ]) {
          const name = freshName();
          assert.equal(await firstOf(name, (note) => way(name, { priority }, note)()), first);
        }
      });
    }

    it('Semaphore#run', async () => {
      const name = freshName();
      const semaphore = new Semaphore(name, { permits: 1 });
      const order = [];
      const release = await semaphore.acquire();
      const requests = [0, 2, 1].map((priority) =>
        semaphore.run(() => void order.push(priority), { priority }),
      );
      await release();
      await Promise.all(requests);
      assert.deepEqual(order, [2, 1, 0]);
    });

    it('Mutex#waitForUnlock waits for those who have as much, and not for those who have less', async () => {
      const name = freshName();
      const held = await hold(locks, name);
      const less = deferred();
      const other = locks.request(name, { priority: -1 }, () => less.promise);
      const unlocked = new Mutex(name).waitForUnlock();
      await turn();
      await held.release();
      await unlocked;
      less.resolve();
      await other;
    });

    it('a private Mutex', async () => {
      const mutex = new Mutex();
      const order = [];
      const release = await mutex.acquire();
      const requests = [0, 2, 1].map((priority) =>
        mutex.runExclusive(() => void order.push(priority), { priority }),
      );
      release();
      await Promise.all(requests);
      assert.deepEqual(order, [2, 1, 0]);
    });

    it('tells a thread that blocks when it waits for itself behind who got ahead', {
      ...needs('sync'),
    }, async () => {
      const name = freshName();
      const unit = { mode: 'shared', limit: 2 };
      const held = await hold(locks, name, unit);
      const worker = new Worker(
        `const { parentPort, workerData } = require('node:worker_threads');
         const { locks } = require(${library});
         const options = { mode: 'shared', limit: 2 };
         const own = locks.acquireSync(workerData, options);
         try {
           locks.acquireSync(workerData, options);
         } catch ({ name, cycle }) {
           parentPort.postMessage({ name, cycle });
         }
         own.release();`,
        { eval: true, workerData: name },
      );
      const exited = once(worker, 'exit');
      const told = once(worker, 'message');
      for (let pending = []; pending.length < 1; await new Promise(setImmediate))
        ({ pending } = await locks.query({ name }));
      const urgent = locks.request(name, { priority: 1 }, () => 'granted');
      const [{ name: error, cycle }] = await told;
      assert.equal(error, 'DeadlockError');
      assert.equal(cycle.length, 2);
      await held.release();
      assert.equal(await urgent, 'granted');
      await exited;
    });

    it('acquireSync', needs('sync'), async () => {
      const name = freshName();
      const queue = new Queue(name);
      const held = await hold(locks, name);
      queue.add('other');
      const worker = new Worker(
        `const { parentPort, workerData } = require('node:worker_threads');
         const { locks } = require(${library});
         const lock = locks.acquireSync(workerData, { priority: 1 });
         parentPort.postMessage(lock.mode);
         parentPort.once('message', () => lock.release());`,
        { eval: true, workerData: name },
      );
      const exited = once(worker, 'exit');
      for (let pending = []; pending.length < 2; await new Promise(setImmediate))
        ({ pending } = await locks.query({ name }));
      const granted = once(worker, 'message');
      await held.release();
      assert.deepEqual(await granted, ['exclusive']);
      assert.deepEqual(queue.order, []);
      worker.postMessage('go on');
      assert.deepEqual(await queue.end(), ['other']);
      await exited;
    });
  });
});
