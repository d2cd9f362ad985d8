'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const webLocks = require('../../lib/index.js');
const host = require('../../lib/host.js');
const { freshName } = require('../helpers/locks.js');
const { lacksHost: isSkipped } = require('../helpers/host-scope.js');

describe('Mutex, RWLock and Semaphore of a wider scope', { skip: isSkipped }, () => {
  it('are of the machine, not of the process, if they have a name', async () => {
    const name = freshName();
    const objects = [
      new host.Mutex(name),
      new host.RWLock(name),
      new host.Semaphore(name, { permits: 2 }),
    ];
    for (const object of objects) {
      const release = await (object.acquire?.() ?? object.acquireExclusive());
      const { held } = await host.locks.query({ name });
      assert.equal(held.length, 1, object.constructor.name);
      assert.deepEqual((await webLocks.locks.query({ name })).held, []);
      await release();
    }
  });

  it('take the name of a bucket of the machine', async () => {
    const bucket = host.openBucket(freshName('bucket'));
    const release = await new host.Mutex('a', { bucket: bucket.name }).acquire();
    assert.equal((await bucket.locks.query()).held.length, 1);
    await release();
    await bucket.close();
  });

  it('are instances of the classes of the process', () => {
    assert.ok(new host.Mutex() instanceof webLocks.Mutex);
    assert.equal(host.Mutex.name, 'Mutex');
  });

  it('need a bucket if they are of an engine', () => {
    for (const entry of ['postgres', 'redis', 'etcd']) {
      const { Mutex, RWLock, Semaphore } = require(`../../lib/${entry}.js`);
      for (const Class of [Mutex, RWLock]) assert.throws(() => new Class('a'), TypeError);
      assert.throws(() => new Semaphore('a', { permits: 1 }), TypeError);
      assert.throws(() => new Mutex('a', { bucket: 'b' }), TypeError);
      new Mutex();
      new Mutex('a', { locks: webLocks.locks });
    }
  });

  it('come with an openBucket that checks its options', () => {
    assert.throws(() => host.openBucket('a', '/dev/shm/x'), TypeError);
    assert.throws(() => host.openBucket('a', { directry: '/dev/shm/x' }), TypeError);
  });
});
