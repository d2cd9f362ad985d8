'use strict';

/** Calls of the host scope that are answered later: what comes after a query() waits for that. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { THIEF, addon } = require('../../lib/backend/addon.js');
const { agent, exchange } = require('../../lib/backend/agent.js');
const { LockLostError, LockStolenError, openBucket } = require('../../lib/host.js');
const { backendOf } = require('../../lib/standard/lock-manager.js');
const { deferred, hold } = require('../helpers/locks.js');
const { freshBucket, freshDirectory } = require('../helpers/process.js');
const { run } = require('../helpers/program.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

describe('a call that comes after one that is not answered yet', { skip }, () => {
  it('release() and an abort are done later, whatever became of Map', async (t) => {
    const { value } = await run(`
      const { openBucket } = require(${JSON.stringify(require.resolve('../../lib/host.js'))});
      const bucket = openBucket('bucket', { directory: ${JSON.stringify(freshDirectory(t))} });
      await bucket.ready;
      for (const name of ['get', 'set', 'has', 'delete']) {
        Map.prototype[name] = () => { throw new Error('of Map'); };
      }
      const controller = new AbortController();
      const { signal } = controller;
      const handle = await bucket.locks.acquire('a');
      const aborted = bucket.locks.request('a', { signal }, () => {}).catch(({ name }) => name);
      const before = bucket.locks.query();
      controller.abort();
      await handle.release();
      await before;
      return [await aborted, await bucket.locks.request('a', ({ name }) => name)];
    `);
    assert.deepEqual(value, ['AbortError', 'a']);
  });

  it('release() is done later, and the lock goes to the next in line', async (t) => {
    const { locks } = freshBucket(t);
    let later = 0;
    for (let i = 0; i < 100; i++) {
      const handle = await locks.acquire('a');
      const next = locks.request('a', (lock) => lock.name);
      const before = locks.query();
      const released = handle.release();
      if (released instanceof Promise) later++;
      assert.equal(handle.released, true);
      await released;
      assert.equal((await before).held.length, 1);
      assert.equal(await next, 'a');
    }
    // The helper may have answered meanwhile.
    t.diagnostic?.(`${later} of 100 were done later`);
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });

  it('a release that marks is done later; if close() comes first, once() rejects', async (t) => {
    const { locks, where } = freshBucket(t);
    const keep = { keep: 3_600_000 };
    const ask = () => void locks.query().catch(() => {});
    for (let i = 0; i < 50; i++) {
      assert.equal((await locks.once(`${i}`, keep, ask)).ran, true);
      assert.equal((await locks.once(`${i}`, keep, ask)).ran, false);
    }
    const outcomes = new Set();
    for (let turns = 0; turns < 20; turns++) {
      const opened = openBucket(where.bucket, { directory: where.directory });
      const started = deferred();
      const done = opened.locks.once(`closed ${turns}`, keep, () => started.resolve(ask()));
      const outcome = done.catch(({ reason, name }) => reason ?? name);
      await started.promise;
      for (let i = 0; i < turns; i++) await undefined;
      await opened.close();
      const answer = await outcome;
      outcomes.add(answer.ran || answer);
      assert.ok(answer.ran || answer === 'closed', answer);
      const isMarked = !(await locks.once(`closed ${turns}`, keep, () => {})).ran;
      if (answer.ran) assert.ok(isMarked);
    }
    t.diagnostic?.(`ended so: ${[...outcomes].join(', ')}`);
  });

  it('publish() is done later, in its order, and is told by the next query', async (t) => {
    const { locks } = freshBucket(t);
    const handle = await locks.acquire('a');
    const dataOf = async () => (await locks.query({ details: true })).held[0]?.data;
    for (let i = 0; i < 100; i++) {
      locks.query();
      const both = [handle.publish([i, 'first']), handle.publish([i, 'x'.repeat(i * 40)])];
      assert.deepEqual(await Promise.all(both), [true, true]);
      assert.deepEqual(await dataOf(), [i, 'x'.repeat(i * 40)]);
    }
    locks.query();
    assert.equal(await handle.publish(undefined), true);
    assert.equal(await dataOf(), undefined);
    await handle.release();
  });

  it('publish() and a release after it are both done later', async (t) => {
    const { locks } = freshBucket(t);
    for (let i = 0; i < 50; i++) {
      const handle = await locks.acquire('a');
      const next = locks.request('a', (lock) => lock.publish('next'));
      locks.query();
      const published = handle.publish(i);
      const released = handle.release();
      assert.equal(await published, true);
      assert.equal(await handle.publish('late'), false);
      await released;
      assert.equal(await next, true);
    }
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });

  it('publish() of a lock that is stolen meanwhile is false', async (t) => {
    const { locks } = freshBucket(t);
    const held = await hold(locks, 'a');
    const lost = assert.rejects(held.released, LockStolenError);
    locks.query();
    const thief = hold(locks, 'a', { steal: true });
    const published = held.lock.publish('late');
    assert.equal(await published, false);
    await lost;
    await (await thief).release();
  });

  it('close() ends a publish() that is not done', async (t) => {
    const { bucket, locks } = freshBucket(t);
    const handle = await locks.acquire('a');
    const asked = assert.rejects(locks.query(), { name: 'InvalidStateError' });
    const published = handle.publish(1);
    await bucket.close();
    assert.equal(typeof (await published), 'boolean');
    await asked;
    assert.equal(await handle.publish(2), false);
  });

  it('the file grows for what is published, and becomes small again', async (t) => {
    const { locks } = freshBucket(t);
    const { locks: all } = await locks.acquireAll(Array.from({ length: 50 }, (_, i) => `${i}`));
    const text = 'x'.repeat(4_000);
    const published = all.map((lock) => lock.publish(text));
    assert.ok((await Promise.all(published)).every((done) => done));
    const { held } = await locks.query({ details: true });
    assert.deepEqual([...new Set(held.map(({ data }) => data))], [text]);
    for (const lock of all) await lock.release();
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });

  it('a limit and maxPending are answered, too', async (t) => {
    const { locks } = freshBucket(t);
    const held = await hold(locks, 'a', { mode: 'shared', limit: 2 });
    const alone = await hold(locks, 'b');
    locks.query();
    await Promise.all([
      assert.rejects(
        locks.request('a', { mode: 'shared', limit: 3 }, () => {}),
        { name: 'TypeError', message: /limit 3.*limit 2/ },
      ),
      assert.rejects(
        locks.request('b', { maxPending: 0 }, () => {}),
        { name: 'QuotaExceededError' },
      ),
    ]);
    await held.release();
    await alone.release();
  });

  it('close() ends a release that is not done, and what waits', async (t) => {
    const { bucket, locks } = freshBucket(t);
    const handle = await locks.acquire('a');
    const held = await hold(locks, 'b');
    const lost = assert.rejects(held.released, LockLostError);
    const asked = assert.rejects(locks.query(), { name: 'InvalidStateError' });
    const pending = assert.rejects(
      locks.request('b', () => {}),
      { name: 'InvalidStateError' },
    );
    const released = handle.release();
    await bucket.close();
    await Promise.all([released, lost, asked, pending]);
  });

  it('close() takes a lock away of whose grant its thread had not heard', async (t) => {
    const { bucket, locks } = freshBucket(t);
    await bucket.ready;
    // Of a query this waits for, so it is granted by the helper.
    const before = assert.rejects(locks.query(), { name: 'InvalidStateError' });
    const tokens = [];
    const asked = locks.request('a', (lock) => tokens.push(lock.token));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
    await Promise.all([assert.rejects(asked, LockLostError), bucket.close(), before]);
    assert.equal(tokens.length, 1);
    assert.ok(tokens[0] > 0n);
  });

  it('a release and a theft that meet are both done', async (t) => {
    const { locks } = freshBucket(t);
    for (let i = 0; i < 40; i++) {
      const isTheftFirst = i % 2 === 0;
      const handle = await locks.acquire('a');
      const asked = locks.query();
      const steal = () => locks.request('a', { steal: true }, (lock) => [lock.held, handle.held]);
      let stolen = isTheftFirst ? steal() : undefined;
      const released = handle.release();
      stolen ??= steal();
      await released;
      assert.deepEqual(await stolen, [true, false]);
      await asked;
    }
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });

  it('close() settles all that is put off, and what comes after it is not disturbed', async (t) => {
    const { locks, where } = freshBucket(t);
    for (let i = 0; i < 40; i++) {
      const second = openBucket(where.bucket, { directory: where.directory });
      const controller = new AbortController();
      const { signal } = controller;
      const handle = await second.locks.acquire('a');
      const held = await hold(second.locks, 'b');
      const all = [held.released, second.locks.request('a', () => {})];
      all.push(second.locks.query());
      all.push(second.locks.request('a', { signal }, () => {}));
      all.push(second.locks.request('b', { steal: true }, () => new Promise(() => {})));
      all.push(second.locks.request('c', { timeout: 1 }, () => {}));
      all.push(second.locks.request('c', { steal: true }, () => {}));
      const settled = Promise.allSettled([...all, handle.release()]);
      controller.abort('no');
      if (i % 3 === 1) await null;
      if (i % 3 === 2) await new Promise(setImmediate);
      await second.close();
      const after = ['b', 'c', 'd'].map((name) => locks.request(name, (lock) => lock.name));
      await settled;
      assert.deepEqual(await Promise.all(after), ['b', 'c', 'd']);
      assert.deepEqual(await locks.query(), { held: [], pending: [] });
    }
  });

  it('close() of a bucket that is open twice ends what it asked for, and nothing else', async (t) => {
    const { locks, where } = freshBucket(t);
    await locks.query();
    for (let i = 0; i < 50; i++) {
      const second = openBucket(where.bucket, { directory: where.directory });
      const mine = await hold(locks, 'mine');
      const theirs = await hold(second.locks, 'theirs');
      const lost = assert.rejects(theirs.released, LockLostError);
      // The answer may be there before the end, where there is time for it.
      const isLate = i % 2 === 0;
      const asked = second.locks.query().then(
        () => 'answered',
        ({ name }) => name,
      );
      const pending = assert.rejects(
        second.locks.request('mine', () => {}),
        { name: 'InvalidStateError' },
      );
      if (isLate) await new Promise(setImmediate);
      const closed = second.close();
      // They get the numbers of what was ended.
      const after = ['b', 'c', 'd'].map((name) => locks.request(name, (lock) => lock.name));
      await Promise.all([closed, lost, pending]);
      const outcome = await asked;
      assert.ok(outcome === 'InvalidStateError' || (isLate && outcome === 'answered'), outcome);
      assert.deepEqual(await Promise.all(after), ['b', 'c', 'd']);
      assert.equal(mine.lock.held, true);
      await mine.release();
      assert.deepEqual(await locks.query(), { held: [], pending: [] });
    }
  });

  it('close() ends a lock also where it cannot be released just then', async (t) => {
    const { locks, where } = freshBucket(t);
    const second = openBucket(where.bucket, { directory: where.directory });
    const held = await hold(second.locks, 'a');
    const lost = assert.rejects(held.released, LockLostError);
    // As if others were inside the tables.
    t.mock.method(addon, 'hostRelease', () => addon.WLH_PENDING);
    await second.close();
    await lost;
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });

  it('close() ends the wait for a release that is not done', async (t) => {
    const { locks, where } = freshBucket(t);
    const second = openBucket(where.bucket, { directory: where.directory });
    const handle = await second.locks.acquire('a');
    t.mock.method(addon, 'hostRelease', () => addon.WLH_PENDING);
    const released = handle.release();
    await second.close();
    await released;
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
  });

  it('close() drops the answer to a query that was told and not taken', async (t) => {
    const { locks, where } = freshBucket(t);
    const second = openBucket(where.bucket, { directory: where.directory });
    await second.ready;
    const asked = assert.rejects(second.locks.query(), { name: 'InvalidStateError' });
    // It waits for the answer to the query.
    const handle = locks.acquireSync('a', { timeout: 60_000 });
    await Promise.all([second.close(), asked]);
    // It gets the number of the other one.
    const { held } = await locks.query();
    assert.deepEqual(
      held.map(({ name }) => name),
      ['a'],
    );
    await handle.release();
  });

  it('close() tells of a theft that comes before it', async (t) => {
    const { bucket, locks } = freshBucket(t);
    const handle = await locks.acquire('a');
    const asked = locks.request('a', () => assert.fail('called'));
    t.mock.method(addon, 'hostAbort', () => {
      addon.hostEnd();
      exchange[THIEF] = 0xab;
      exchange[THIEF + 1] = 7;
      return addon.WLH_STOLEN;
    });
    const rejected = assert.rejects(asked, (error) => {
      assert.ok(error instanceof LockStolenError);
      assert.equal(error.clientId, '000000ab-7');
      return true;
    });
    await Promise.all([bucket.close(), rejected]);
    assert.equal(handle.released, true);
  });
});

/** What ends a test that waits for ever; far more than it needs. */
const LIMIT = { timeout: 60_000 };

describe('many at once', { skip }, () => {
  // As many as nearly fill the file, which holds a power of two of cells.
  for (const count of [230, 250, 480, 500]) {
    it(`${count} grants by one release are all told, without anything else`, LIMIT, async (t) => {
      const { locks } = freshBucket(t);
      const held = await hold(locks, 'a');
      const never = [];
      const granted = Array.from(
        { length: count },
        () =>
          new Promise((resolve) => {
            const callback = () => {
              resolve();
              return new Promise((release) => never.push(release));
            };
            locks.request('a', { mode: 'shared' }, callback).catch(() => {});
          }),
      );
      await locks.query();
      await held.release();
      await Promise.all(granted);
      assert.equal(never.length, count);
    });
  }
});

describe('querySync', { skip }, () => {
  it('blocks until there is an answer, from the first call on', async (t) => {
    const { locks } = freshBucket(t);
    const backend = backendOf(locks);
    const { hostWaitForSnapshot: wait } = addon;
    const { mock } = t.mock.method(addon, 'hostWaitForSnapshot', wait);
    assert.deepEqual(backend.querySync('a', 1e4), { held: [], pending: [] });
    const handle = await locks.acquire('a');
    // One call for each, and one more for each slice of 50 ms that the helper takes longer.
    const before = mock.callCount();
    const from = performance.now();
    for (let i = 0; i < 50; i++) assert.equal(backend.querySync('a', 1e4).held.length, 1);
    const most = 50 + (performance.now() - from) / 45;
    assert.ok(mock.callCount() - before <= most, `${mock.callCount() - before}, not ${most}`);
    handle.release();
    assert.equal(backend.querySync('a', 1e4).held.length, 0);
  });

  it('tells what it hears of meanwhile', async (t) => {
    const { locks } = freshBucket(t);
    const handle = await locks.acquire('a');
    const next = locks.request('a', ({ name }) => name);
    const released = handle.release();
    const { held } = backendOf(locks).querySync('a', 1e4);
    assert.equal(held.length, 1);
    assert.equal(await next, 'a');
    await released;
  });

  it('gives up when the time is over, and leaves nothing behind', async (t) => {
    const { locks } = freshBucket(t);
    const backend = backendOf(locks);
    assert.equal(backend.querySync('a', 0), undefined);
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
    await new Promise(setImmediate);
    assert.deepEqual(agent.requestsOf(backend), []);
  });

  it('throws where the bucket is closed, or cannot be opened', async () => {
    const bucket = openBucket('a', { directory: '/proc/web-locks' });
    assert.throws(() => backendOf(bucket.locks).querySync('a', 1e4), {
      code: 'ERR_WEB_LOCKS_SCOPE_UNSUPPORTED',
    });
    await bucket.close();
    assert.throws(() => backendOf(bucket.locks).querySync('a', 1e4), {
      name: 'InvalidStateError',
    });
  });
});
