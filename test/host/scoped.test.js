'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const webLocks = require('../../lib/index.js');
const host = require('../../lib/host.js');
const { freshName } = require('../helpers/locks.js');
const { lacksHost: isSkipped } = require('../helpers/host-scope.js');

describe('locks as objects, of a wider scope', { skip: isSkipped }, () => {
  it('with a name they are of the machine, not of the process', async () => {
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

  it('a bucket’s name is that of a bucket of the machine', async () => {
    const bucket = host.openBucket(freshName('bucket'));
    const release = await new host.Mutex('a', { bucket: bucket.name }).acquire();
    assert.equal((await bucket.locks.query()).held.length, 1);
    await release();
    await bucket.close();
  });

  it('they are those of the process, too', () => {
    assert.ok(new host.Mutex() instanceof webLocks.Mutex);
    assert.equal(host.Mutex.name, 'Mutex');
  });

  it('of an engine they need a bucket', () => {
    for (const entry of ['postgres', 'redis', 'etcd']) {
      const { Mutex, RWLock, Semaphore } = require(`../../lib/${entry}.js`);
      for (const Class of [Mutex, RWLock]) assert.throws(() => new Class('a'), TypeError);
      assert.throws(() => new Semaphore('a', { permits: 1 }), TypeError);
      assert.throws(() => new Mutex('a', { bucket: 'b' }), TypeError);
      new Mutex();
      new Mutex('a', { locks: webLocks.locks });
    }
  });

  it('options of openBucket that are misspelt, or no object, are refused', () => {
    assert.throws(() => host.openBucket('a', '/dev/shm/x'), TypeError);
    assert.throws(() => host.openBucket('a', { directry: '/dev/shm/x' }), TypeError);
  });
});
