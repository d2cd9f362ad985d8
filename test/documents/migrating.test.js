// slow: 23; long; waits

'use strict';

/** What docs/MIGRATING.md says of other packages and of this one, beside what its programs show. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { EventEmitter, once } = require('node:events');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { setTimeout: sleep } = require('node:timers/promises');
const { Semaphore } = require('web-locks');
const servers = require('../cluster/servers.js');
const { blocksOf, root } = require('./blocks.js');

const PAGE = 'docs/MIGRATING.md';
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-migrating-'));
process.env.WEB_LOCKS_DIRECTORY = path.join(folder, 'locks');

after(() => fs.rmSync(folder, { recursive: true, force: true }));

/** @returns {string} a file to lock */
function newFile() {
  const file = path.join(fs.mkdtempSync(path.join(folder, 'file-')), 'file');
  fs.writeFileSync(file, '');
  return file;
}

/** A promise that settles when it is told to, for what holds up another call. */
function untilOver() {
  const over = new AbortController();
  return { over: () => over.abort(), wait: () => sleep(60_000, null, over).catch(() => {}) };
}

const isPending = async (promise) =>
  (await Promise.race([promise.then(() => 'settled'), sleep(50, 'pending')])) === 'pending';

describe('async-mutex', () => {
  const { Semaphore: Other } = require('async-mutex');

  it('setValue sets the free units, resize all of them', async () => {
    const other = new Other(2);
    const [, giveBack] = await other.acquire();
    other.setValue(2);
    giveBack();
    assert.equal(other.getValue(), 3);

    const ours = new Semaphore(2);
    const release = await ours.acquire();
    const resized = ours.resize(3);
    assert.ok(await isPending(resized));
    release();
    await resized;
    assert.equal(ours.available, 3);
  });

  it('a semaphore of 0 units is closed there, and a TypeError here', async () => {
    const other = new Other(0);
    assert.ok(await isPending(other.acquire()));
    assert.throws(() => new Semaphore(0), TypeError);
    await assert.rejects(new Semaphore(1).resize(0), TypeError);
  });

  it('a program that waits for itself ends there with status 0', () => {
    const program = `const mutex = new (require('async-mutex').Mutex)();
      mutex.runExclusive(() => mutex.runExclusive(() => console.log('inside')));`;
    assert.equal(execFileSync(process.execPath, ['-e', program], { cwd: root }).length, 0);
  });
});

describe('async-lock', () => {
  it('maxOccupationTime counts the wait', async () => {
    const AsyncLock = require('async-lock');
    const lock = new AsyncLock();
    const { over, wait } = untilOver();
    const first = lock.acquire('key', wait);
    const options = { maxOccupationTime: 20 };
    const second = lock.acquire('key', () => assert.fail('it has the lock'), options);
    await assert.rejects(second, /^Error: Maximum occupation time is exceeded/);
    over();
    await first;
  });
});

describe('p-limit', () => {
  it('clearQueue leaves promises pending', async () => {
    const { default: pLimit } = await import('p-limit');
    const limit = pLimit(1);
    const { over, wait } = untilOver();
    const first = limit(wait);
    const second = limit(() => {});
    limit.clearQueue();
    over();
    await first;
    assert.ok(await isPending(second));
  });
});

describe('p-queue', () => {
  /** @returns {Promise<any>} a queue for one call at a time */
  const newQueue = async () => new (await import('p-queue')).default({ concurrency: 1 });

  it('timeout limits the run there, as holdTimeout here; neither stops the callback', async () => {
    const queue = await newQueue();
    const semaphore = new Semaphore(1);
    for (const [run, name] of [
      [(callback) => queue.add(callback, { timeout: 20 }), 'TimeoutError'],
      [(callback) => semaphore.run(callback, { holdTimeout: 20 }), 'TimeoutError'],
    ]) {
      const over = new AbortController();
      let isOver = false;
      const callback = async () => {
        await sleep(60_000, null, over).catch(() => {});
        isOver = true;
        over.signal.dispatchEvent(new Event('over'));
      };
      await assert.rejects(run(callback), { name });
      assert.equal(await run(async () => 'next'), 'next');
      assert.equal(isOver, false);
      const ends = once(over.signal, 'over');
      over.abort();
      await ends;
    }
  });

  it('a call that waits is not timed out there', async () => {
    const queue = await newQueue();
    const { over, wait } = untilOver();
    const first = queue.add(wait);
    const second = queue.add(async () => 'runs', { timeout: 20 });
    assert.ok(await isPending(second));
    over();
    await first;
    assert.equal(await second, 'runs');
  });

  it('clear leaves promises pending there, and cancel rejects them here', async () => {
    const queue = await newQueue();
    const { over, wait } = untilOver();
    const first = queue.add(wait);
    const second = queue.add(() => assert.fail('it was cleared'));
    queue.clear();
    over();
    await first;
    assert.ok(await isPending(second));

    const semaphore = new Semaphore(1);
    const release = await semaphore.acquire();
    const waits = semaphore.run(() => assert.fail('it was cancelled'));
    semaphore.cancel();
    await assert.rejects(waits, { name: 'AbortError' });
    release();
  });
});

describe('proper-lockfile', { skip: process.platform !== 'linux' && 'for Linux' }, () => {
  const other = require('proper-lockfile');
  const ours = require('web-locks/lockfile');
  const { openBucket } = require('web-locks/host');

  it('retries: 5 waits for up to 31 s in both', () => {
    const retry = createRequire(require.resolve('proper-lockfile'))('retry');
    const pauses = retry.timeouts({ retries: 5 });
    assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000]);
    const { toOptions } = require('../../lib/lockfile/options.js');
    assert.equal(toOptions({ retries: 5 }).wait, 31_000);
    const text = fs.readFileSync(path.join(root, PAGE), 'utf8').replace(/\s+/g, ' ');
    assert.match(text, /waits for up to 31 s in both: the pauses are 1, 2, 4, 8 and 16 s/);
  });

  it('looks after a second there; here the waiter gets the lock when it is released', async () => {
    const file = newFile();
    const releases = [await other.lock(file), await ours.lock(file)];
    // Both have looked once.
    const looked = new EventEmitter();
    const stat = (at, callback) =>
      fs.stat(at, (error, found) => {
        callback(error, found);
        looked.emit('done');
      });
    const there = other.lock(file, { retries: 1, fs: { ...fs, stat } });
    const here = ours.lock(file, { retries: 1 });
    await once(looked, 'done');
    const { locks } = openBucket('web-locks/lockfile');
    const name = `${fs.realpathSync(file)}.lock`;
    while ((await locks.query({ name })).pending.length === 0);

    for (const release of releases) await release();
    await (await here)();
    assert.ok(await isPending(there));
    await (await there)();
  });

  it('the directory that a killed process leaves is ignored here', async () => {
    const file = newFile();
    fs.mkdirSync(`${file}.lock`);
    await assert.rejects(other.lock(file), { code: 'ELOCKED' });
    assert.equal(await ours.check(file), false);
    await (await ours.lock(file))();
    assert.ok(fs.existsSync(`${file}.lock`));
  });

  it('the two do not exclude each other', async () => {
    const file = newFile();
    const releases = [await other.lock(file), await ours.lock(file)];
    for (const release of releases) await release();
  });

  it('a file need not exist with realpath: false, in both', async () => {
    const file = path.join(folder, 'missing');
    for (const { lock } of [other, ours]) {
      await assert.rejects(lock(file), { code: 'ENOENT' });
      await (await lock(file, { realpath: false }))();
    }
  });
});

describe('redlock', { skip: servers.lacks.redis }, () => {
  let redis;
  before(async () => {
    const { Redis } = require('ioredis');
    redis = new Redis((await servers.startRedis()).port);
  });
  after(async () => {
    await redis?.quit();
    await servers.stopAll();
  });

  const newRedlock = () => new (require('redlock'))([redis], { retryCount: 0 });

  it('cannot lock a resource that has the name of a key; here a lock can have it', async () => {
    const { openBucket } = require('web-locks/redis');
    await redis.set('data', 'value');
    await assert.rejects(newRedlock().lock('data', 1000), { name: 'LockError' });
    const bucket = openBucket('migrating', { client: redis, ttl: 2000 });
    assert.equal(await bucket.locks.request('data', ({ name }) => name), 'data');
    await bucket.close();
    assert.equal(await redis.get('data'), 'value');
  });

  it('unlock rejects if the ttl was over; release here does nothing', async () => {
    const { openBucket } = require('web-locks/redis');
    const lock = await newRedlock().lock('expired', 60_000);
    await redis.del('expired'); // as its expiry does
    await assert.rejects(lock.unlock(), { name: 'LockError' });

    const bucket = openBucket('migrating', { client: redis, ttl: 2000 });
    const handle = await bucket.locks.acquire('lost');
    await bucket.locks.request('lost', { steal: true }, () => {});
    assert.equal(await handle.release(), undefined);
    await bucket.close();
  });
});

describe('code for browsers and Node.js', () => {
  it("'#locks' is web-locks in Node.js", () => {
    const [manifest, browser] = blocksOf(PAGE).filter(
      ({ keys }) => keys['tested by'] === 'test/documents/migrating.test.js',
    );
    assert.equal(manifest.language, 'json');
    const application = path.join(folder, 'application');
    fs.mkdirSync(path.join(application, 'node_modules'), { recursive: true });
    fs.symlinkSync(root, path.join(application, 'node_modules', 'web-locks'), 'junction');
    const program = `import { locks } from '#locks';
      import * as ours from 'web-locks';
      console.log(locks === ours.locks);`;
    for (const [file, text] of [
      ['package.json', manifest.code.join('\n')],
      ['locks.browser.js', browser.code.join('\n')],
      ['program.mjs', program],
    ]) {
      fs.writeFileSync(path.join(application, file), text);
    }
    const options = /** @type {const} */ ({ cwd: application, encoding: 'utf8' });
    assert.equal(execFileSync(process.execPath, ['program.mjs'], options), 'true\n');
    const imports = JSON.parse(manifest.code.join('\n')).imports['#locks'];
    assert.deepEqual(Object.keys(imports), ['node', 'default']);
    assert.equal(path.basename(imports.default), 'locks.browser.js');
    assert.match(browser.code[0], /locks\.browser\.js/);
  });
});
