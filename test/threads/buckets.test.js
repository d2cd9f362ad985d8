// slow: 2

'use strict';

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { LockManager, Mutex, locks, openBucket } = require('../../lib/index.js');
const { scopes } = require('../conformance/scopes.js');
const { startBeside } = require('../helpers/beside.js');
const { gc } = require('../helpers/kept.js');
const { FREE, HELD, freshName, hold, stateOf, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

describe('2.2, 6.1 Storage buckets', () => {
  it('openBucket converts the name as a DOMString, and gives it with a lock manager', () => {
    const bucket = openBucket(7);
    assert.deepEqual(Object.keys(bucket), ['name', 'locks']);
    assert.ok(Object.isFrozen(bucket));
    assert.equal(bucket.name, '7');
    assert.ok(bucket.locks instanceof LockManager);
    for (const name of [[], [Symbol('bucket')]])
      assert.throws(() => openBucket(...name), TypeError);
  });

  it('options are a TypeError that says of which entries they are', () => {
    for (const options of [{ directory: '/tmp' }, { pool: {} }, {}]) {
      assert.throws(() => openBucket('shop', options), /takes only a name.*web-locks\/host/);
    }
    assert.deepEqual(valuesOf(['a', 'b'].map(openBucket), 'name'), ['a', 'b']);
  });

  it('no bucket name opens the default bucket', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    for (const bucket of ['', 'default', 'bucket:', 'undefined', '\0', '-']) {
      assert.deepEqual(await stateOf(openBucket(bucket).locks, name), FREE, bucket);
    }
    await held.release();
  });

  it('the same name opens the same bucket, in all threads', async (t) => {
    const bucket = freshName('bucket');
    const remote = await RemoteAgent.start(t, { bucket });
    const name = freshName();
    const there = await remote.hold(name);
    const { locks: mine } = openBucket(bucket);
    assert.deepEqual(await stateOf(mine, name), HELD);
    assert.deepEqual(await stateOf(locks, name), FREE);
    const here = hold(mine, name);
    there.release();
    await (await here).release();
  });

  it('a bucket keeps its locks while nobody refers to its manager', async () => {
    const bucket = freshName('bucket');
    const name = freshName();
    const held = await hold(openBucket(bucket).locks, name);
    for (let i = 0; i < 3; i++) {
      gc();
      await new Promise(setImmediate);
    }
    assert.deepEqual(await stateOf(openBucket(bucket).locks, name), HELD);
    await held.release();
    assert.deepEqual(await stateOf(openBucket(bucket).locks, name), FREE);
  });

  describe('close()', () => {
    const INVALID = { name: 'InvalidStateError' };

    for (const scope of ['process', 'host', 'memory']) {
      it(`neither ready nor query() says that a closed bucket is open: ${scope}`, async () => {
        const { openBucket: open } = scopes[scope];
        const [opened, unopened] = [open(freshName('bucket')), open(freshName('bucket'))];
        assert.equal(await opened.ready, undefined);
        const { ready } = opened;
        await Promise.all([opened.close(), unopened.close()]);
        assert.notEqual(opened.ready, ready);
        const asked = [opened, unopened].flatMap(({ locks, ready }) => [ready, locks.query()]);
        for (const one of asked.map((it) => assert.rejects(it, INVALID))) await one;
      });
    }

    it('can be called from a callback, again, and by await using', async () => {
      const bucket = openBucket(freshName('bucket'));
      const lost = { name: 'AbortError', reason: 'closed' };
      await assert.rejects(
        bucket.locks.request('a', () => bucket.close()),
        lost,
      );
      await bucket.close();
      await bucket[Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')]();
      const other = openBucket(freshName('bucket'));
      const released = other.locks.request('a', () => {});
      await Promise.all([other.close(), assert.rejects(released, lost)]);
    });

    it('fails a request whose grant this thread has not noticed', async (t) => {
      const name = freshName('bucket');
      const source = `
        const { locks } = require(library).openBucket(name);
        const lock = locks.acquireSync('a');
        say(1);
        waitWhile(1);
        lock.release();
        say(3);`;
      const holder = startBeside(t, source, { name });
      holder.waitWhile(0);
      const bucket = openBucket(name);
      const request = bucket.locks.request('a', () => assert.fail('called'));
      // The end of that request, which has the lock, lets this one pass.
      const passing = new Mutex('a', { locks: bucket.locks }).waitForUnlock();
      holder.say(2);
      holder.waitWhile(2);
      bucket.close();
      await Promise.all([request, passing].map((it) => assert.rejects(it, INVALID)));
      assert.deepEqual(await stateOf(openBucket(name).locks, 'a'), FREE);
    });

    // A sanitizer keeps freed memory for a while.
    const inSanitizer = Boolean(process.env.WEB_LOCKS_SANITIZED) && 'not under a sanitizer';
    const options = { skip: inSanitizer };
    it(
      'gives the native memory of the bucket back, also of one that is still referred to',
      options,
      () => {
        // It runs in a process of its own. An open bucket takes 10 KiB, and its object 2 KiB.
        const program = `
        const { openBucket } = require(${JSON.stringify(require.resolve('../../lib/index.js'))});
        const kept = [];
        const open = async (name) => (kept.push(openBucket(name)), kept.at(-1).close());
        (async () => {
          for (let i = 0; i < 1_000; i++) await open('first ' + i);
          const before = process.memoryUsage().rss;
          for (let i = 0; i < 10_000; i++) await open('bucket ' + i);
          console.log((process.memoryUsage().rss - before) / 10_000);
        })();`;
        const bytes = Number(execFileSync(process.execPath, ['-e', program]));
        assert.ok(bytes < 6_000, `${bytes} bytes of each`);
      },
    );
  });
});
