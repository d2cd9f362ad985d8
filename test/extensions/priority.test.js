// slow: 2

'use strict';

/** The order of the queue by the option priority. */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { Mutex, RWLock, locks, needs, turn } = require('../helpers/scope.js');
const { freshName, hold, valuesOf } = require('../helpers/locks.js');
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

  it('orders the requests of all agents', async (t) => {
    const queue = new Queue(freshName());
    const other = await RemoteAgent.start(t);
    const held = await hold(locks, queue.name);
    queue.add('less');
    const theirs = await other.request(queue.name, { priority: 1 });
    queue.add('more', { priority: 2 });
    const { pending } = await locks.query({ details: true, name: queue.name });
    assert.deepEqual(valuesOf(pending, 'priority'), [2, 1, 0]);
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
    assert.deepEqual(valuesOf(pending, 'mode'), order);
    for (const entry of pending) assert.deepEqual(Object.keys(entry), ['clientId', 'mode', 'name']);
    const details = await locks.query({ details: true, name });
    assert.equal(details.held[0].priority, -3);
    assert.deepEqual(valuesOf(details.pending, 'ahead', 'mode', 'priority'), [
      [0, 'exclusive', 4],
      [1, 'shared', 0],
      [2, 'shared', -2],
    ]);
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
