'use strict';

/** Mutex and RWLock. options.test.js and programs.test.js test what they share with request(). */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const scope = require('../helpers/scope.js');
const { FREE, freshName, hold, rejectionOf, stateOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const { LockError, LockTimeoutError, Mutex, RWLock, locks, needs, openBucket } = scope;

const acquire = (lock, options) => (lock.acquire ?? lock.acquireExclusive).call(lock, options);

describe('a Mutex and a RWLock', () => {
  it('of a name are the lock of that name, of the bucket or manager that is given', async () => {
    const name = freshName();
    const bucket = openBucket('of a mutex');
    const held = await hold(locks, name);
    const waiting = new Mutex(name).acquire();
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: ['exclusive'] });
    (await new Mutex(name, { bucket: 'other' }).acquire())();
    for (const given of [{ bucket }, { locks: bucket.locks, label: 'mine' }]) {
      const release = await new Mutex(name, given).acquire();
      const [entry] = (await bucket.locks.query({ details: true, name })).held;
      if (given.label) assert.equal(entry.label, 'mine');
      await release();
    }
    await held.release();
    await (await waiting)();
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('tell without a promise who holds the lock of their name', needs('state'), async () => {
    const name = freshName();
    const [mutex, lock] = [new Mutex(name), new RWLock(name)];
    assert.deepEqual([mutex.locked, lock.locked], [false, null]);
    const held = await hold(locks, name, { mode: 'shared' });
    assert.deepEqual([mutex.locked, lock.locked], [true, 'shared']);
    assert.equal(new Mutex(name, { bucket: 'other' }).locked, false);
    await held.release();
    await lock.runExclusive(() => assert.equal(lock.locked, 'exclusive'));
    const bucket = openBucket('closed');
    const closed = new Mutex(name, { bucket });
    await bucket.close();
    assert.throws(() => closed.locked, { name: 'InvalidStateError' });
  });

  it('refuse what they do not take', async () => {
    for (const Class of [Mutex, RWLock]) {
      assert.throws(() => new Class('-x'), { name: 'NotSupportedError' });
      assert.throws(() => new Class('x', { timeout: 5 }), { message: /option 'timeout'/ });
      assert.throws(() => new Class(undefined, { bucket: 'x' }), { message: /option 'bucket'/ });
      assert.throws(() => new Class(undefined, { locks }), { message: /option 'locks'/ });
      assert.throws(() => new Class('x', { locks, bucket: 'x' }), { name: 'NotSupportedError' });
      assert.throws(() => new Class('x', { locks: {} }), TypeError);
      await assert.rejects(new Class().runExclusive('no function'), TypeError);
    }
  });

  it('have a release function that is disposable, once', async () => {
    const mutex = new Mutex();
    for (const dispose of [Symbol.dispose, Symbol.asyncDispose]) {
      const release = await mutex.acquire();
      await release[dispose]();
      assert.equal(mutex.locked, false);
      const next = await mutex.acquire();
      await release[dispose]();
      assert.equal(mutex.locked, true);
      next();
    }
  });

  it('with blocking: false say that the lock is not free', async () => {
    const lock = new RWLock(freshName());
    const release = await acquire(lock);
    const error = await rejectionOf(lock.acquireShared({ blocking: false }));
    assert.ok(error instanceof LockError && error.name === 'LockError', error);
    assert.match(error.message, /^Lock "[^"]+" is not free \(.*'blocking' is false\)\.$/);
    await release();
  });
});

describe('a private lock', () => {
  it('is not to be seen in locks.query(), and has a label in messages, not its name', async () => {
    for (const [lock, name] of [
      [new Mutex(), 'a private mutex'],
      [new Mutex(undefined, { label: 'cache' }), 'the private mutex "cache"'],
      [new RWLock(), 'a private RWLock'],
      [new RWLock(undefined, { label: 'two\nlines' }), 'the private RWLock "two\\nlines"'],
    ]) {
      const release = await acquire(lock);
      assert.deepEqual((await locks.query()).held, []);
      const warned = once(process, 'warning');
      const waiting = acquire(lock, { warnAfter: 1 });
      const [{ message: warning }] = await warned;
      const full = await rejectionOf(acquire(lock, { maxPending: 0 }));
      const late = await rejectionOf(acquire(lock, { timeout: 1 }));
      release();
      (await waiting)();
      const options = { deadlock: 'reject' };
      const asked = lock.runExclusive(() => acquire(lock, options), options);
      const { message } = await rejectionOf(asked);
      const start = `${name[0].toUpperCase()}${name.slice(1)} is not available, and `;
      assert.ok(full.message.startsWith(start), full.message);
      assert.ok(late.message.includes(` ms waiting for ${name} (held by`), late.message);
      assert.ok(message.startsWith(`The request for ${name} would wait for itself: `), message);
      assert.ok(message.includes(` waits for ${name}, held by this thread`), message);
      assert.ok(warning.startsWith(`Still waiting for ${name} `), warning);
    }
  });

  it('is nobody else’s, whatever module registry made it', needs('entry'), async () => {
    const own = Object.keys(require.cache).filter((file) => /[\\/]lib[\\/]/.test(file));
    const first = own.map((file) => [file, require.cache[file]]);
    for (const file of own) delete require.cache[file];
    const second = require('../../lib/index.js');
    for (const [file, module] of first) require.cache[file] = module;
    assert.notEqual(second.Mutex, Mutex);
    const releases = [];
    for (let i = 0; i < 10; i++) {
      for (const mutex of [new Mutex(), new second.Mutex(), new second.RWLock()]) {
        assert.ok(!mutex.locked);
        releases.push(await acquire(mutex));
      }
    }
    for (const release of releases) release();
    // A name still has one lock.
    const name = freshName();
    const release = await new second.Mutex(name).acquire();
    await assert.rejects(new Mutex(name).acquire({ timeout: 0 }), LockTimeoutError);
    release();
  });
});

describe('waitForUnlock', () => {
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
});
