// slow: 23; long; waits

'use strict';

/** Checks what docs/MIGRATING.md says about other packages and this one beyond its programs. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { once } = require('node:events');
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

/** @returns a promise that settles after `over()`, for a call that others wait for */
function untilOver() {
  const over = new AbortController();
  return { over: () => over.abort(), wait: () => sleep(60_000, null, over).catch(() => {}) };
}

const isPending = async (promise) =>
  (await Promise.race([promise.then(() => 'settled'), sleep(50, 'pending')])) === 'pending';

describe('async-mutex', () => {
  const { Semaphore: Other } = require('async-mutex');

  it('setValue sets the free units there, and resize all of them here', async () => {
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
    assert.ok(await isPending(new Other(0).acquire()));
    assert.throws(() => new Semaphore(0), TypeError);
    await assert.rejects(new Semaphore(1).resize(0), TypeError);
  });
});

describe('p-limit and p-queue', () => {
  it('a timeout limits the run there, as holdTimeout here; both let the callback run', async () => {
    const { default: PQueue } = await import('p-queue');
    const queue = new PQueue({ concurrency: 1 });
    const semaphore = new Semaphore(1);
    for (const run of [
      (callback) => queue.add(callback, { timeout: 20 }),
      (callback) => semaphore.run(callback, { holdTimeout: 20 }),
    ]) {
      const over = new AbortController();
      let isOver = false;
      const callback = async () => {
        await sleep(60_000, null, over).catch(() => {});
        isOver = true;
        over.signal.dispatchEvent(new Event('over'));
      };
      await assert.rejects(run(callback), { name: 'TimeoutError' });
      assert.equal(await run(async () => 'next'), 'next');
      assert.equal(isOver, false);
      const ends = once(over.signal, 'over');
      over.abort();
      await ends;
    }
  });

  it('clear leaves promises pending there, and cancel rejects them here', async () => {
    const { default: pLimit } = await import('p-limit');
    const { default: PQueue } = await import('p-queue');
    const limit = pLimit(1);
    const queue = new PQueue({ concurrency: 1 });
    const notCalled = () => assert.fail('it was cleared');
    for (const [add, clear] of [
      [limit, () => limit.clearQueue()],
      [(callback) => queue.add(callback), () => queue.clear()],
    ]) {
      const { over, wait } = untilOver();
      const first = add(wait);
      const second = add(notCalled);
      clear();
      over();
      await first;
      assert.ok(await isPending(second));
    }
    const semaphore = new Semaphore(1);
    const release = await semaphore.acquire();
    const waits = semaphore.run(notCalled);
    semaphore.cancel();
    await assert.rejects(waits, { name: 'AbortError' });
    release();
  });
});

describe('proper-lockfile', { skip: process.platform !== 'linux' && 'for Linux' }, () => {
  const other = require('proper-lockfile');
  const ours = require('web-locks/lockfile');

  it('retries: 5 waits for up to 31 s in both', () => {
    const retry = createRequire(require.resolve('proper-lockfile'))('retry');
    const pauses = retry.timeouts({ retries: 5 });
    assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000]);
    const { toOptions } = require('../../lib/lockfile/options.js');
    assert.equal(toOptions({ retries: 5 }).wait, 31_000);
    const text = fs.readFileSync(path.join(root, PAGE), 'utf8').replace(/\s+/g, ' ');
    assert.match(text, /waits for up to 31 s in both: the pauses are 1, 2, 4, 8 and 16 s/);
  });

  it('a lock of one is ignored by the other, and realpath: false needs no file', async () => {
    const file = newFile();
    const releases = [await other.lock(file), await ours.lock(file)];
    for (const release of releases) await release();
    // A process that is killed leaves this folder behind.
    fs.mkdirSync(`${file}.lock`);
    await assert.rejects(other.lock(file), { code: 'ELOCKED' });
    assert.equal(await ours.check(file), false);
    await (await ours.lock(file))();
    assert.ok(fs.existsSync(`${file}.lock`));
    const missing = path.join(folder, 'missing');
    for (const { lock } of [other, ours]) {
      await assert.rejects(lock(missing), { code: 'ENOENT' });
      await (await lock(missing, { realpath: false }))();
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

  it('refuses the name of a key and a late unlock; here both do no harm', async () => {
    const { openBucket } = require('web-locks/redis');
    const redlock = new (require('redlock'))([redis], { retryCount: 0 });
    await redis.set('data', 'value');
    await assert.rejects(redlock.lock('data', 1000), { name: 'LockError' });
    const lock = await redlock.lock('expired', 60_000);
    await redis.del('expired'); // as when it expires
    await assert.rejects(lock.unlock(), { name: 'LockError' });

    const bucket = openBucket('migrating', { client: redis });
    const { locks } = bucket;
    assert.equal(await locks.request('data', ({ name }) => name), 'data');
    assert.equal(await redis.get('data'), 'value');
    const handle = await locks.acquire('lost');
    await locks.request('lost', { steal: true }, () => {});
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
    for (const [file, text] of Object.entries({
      'package.json': manifest.code.join('\n'),
      'program.mjs': program,
    }))
      fs.writeFileSync(path.join(application, file), text);
    const options = /** @type {const} */ ({ cwd: application, encoding: 'utf8' });
    assert.equal(execFileSync(process.execPath, ['program.mjs'], options), 'true\n');
    const imports = JSON.parse(manifest.code.join('\n')).imports['#locks'];
    assert.deepEqual(Object.keys(imports), ['node', 'default']);
    assert.equal(path.basename(imports.default), 'locks.browser.js');
    assert.match(browser.code[0], /locks\.browser\.js/);
  });
});
