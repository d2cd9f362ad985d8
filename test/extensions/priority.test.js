// slow: 2

'use strict';

/** The order of the queue by the option priority. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks, needs, turn } = require('../helpers/scope.js');
const { freshName, hold, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

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
});
