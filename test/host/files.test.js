// slow: 3

'use strict';

/** The files of the host scope: where they are, what is wrong with them, and what happens then. */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');
const { LockLostError, openBucket } = require('../../lib/host.js');
const { hold } = require('../helpers/locks.js');
const {
  RemoteProcess,
  copyOfVersion,
  freshBucket,
  freshDirectory,
  pendingOn,
} = require('../helpers/process.js');
const { version } = require('../../package.json');
const { lacksHost: skip } = require('../helpers/host-scope.js');

const code = (kind) => ({ code: `ERR_WEB_LOCKS_SCOPE_${kind}` });

/** The one file of the one bucket in a directory. */
const fileIn = (directory) => path.join(directory, fs.readdirSync(directory)[0], 'bucket');

describe('the directory of the locks of a machine', { skip }, () => {
  it('is made by the process that comes first, for its user only', async (t) => {
    const directory = path.join(freshDirectory(t), 'made');
    const bucket = openBucket('a', { directory });
    t.after(() => bucket.close());
    assert.equal(fs.existsSync(directory), false);
    await bucket.ready;
    assert.equal(fs.statSync(directory).mode & 0o777, 0o700);
    assert.equal(fs.statSync(fileIn(directory)).mode & 0o777, 0o600);
  });

  it('separates: the same name elsewhere is another bucket', async (t) => {
    const [one, two] = [freshBucket(t), freshBucket(t)];
    const held = await hold(one.locks, 'a');
    assert.equal(await two.locks.request('a', { ifAvailable: true }, (lock) => lock?.name), 'a');
    await held.release();
  });

  it('is that of the environment of its thread', async (t) => {
    const directory = path.join(freshDirectory(t), 'of-the-worker');
    const source = `
      const { locks } = require(${JSON.stringify(require.resolve('../../lib/host.js'))});
      locks.request('a', () => {}).then(() => require('node:worker_threads').parentPort.postMessage('held'));`;
    const env = { ...process.env, WEB_LOCKS_DIRECTORY: directory };
    const worker = new Worker(source, { eval: true, env });
    t.after(() => worker.terminate());
    assert.deepEqual(await once(worker, 'message'), ['held']);
    assert.ok(fs.existsSync(fileIn(directory)));
  });

  it('is refused if it is no path', () => {
    for (const directory of ['', 'a\0b', 7, null, {}]) {
      assert.throws(() => openBucket('a', { directory }), TypeError);
    }
  });

  it('is refused where others may write, and says so', async (t) => {
    const directory = freshDirectory(t);
    fs.chmodSync(directory, 0o777);
    const bucket = openBucket('a', { directory });
    t.after(() => bucket.close());
    await assert.rejects(bucket.ready, { ...code('UNSUPPORTED'), message: /writable by others/ });
    await assert.rejects(
      bucket.locks.request('a', () => {}),
      code('UNSUPPORTED'),
    );
    await assert.rejects(bucket.locks.query(), code('UNSUPPORTED'));
    assert.throws(() => bucket.locks.acquireSync('a', { timeout: 1000 }), code('UNSUPPORTED'));
  });

  it('can be put right: the next request opens it', async (t) => {
    const directory = freshDirectory(t);
    fs.chmodSync(directory, 0o777);
    const bucket = openBucket('a', { directory });
    t.after(() => bucket.close());
    await assert.rejects(
      bucket.locks.request('a', () => {}),
      code('UNSUPPORTED'),
    );
    fs.chmodSync(directory, 0o700);
    assert.equal(await bucket.locks.request('a', (lock) => lock.name), 'a');
  });

  it('that is refused costs no descriptor and no memory', async (t) => {
    const directory = freshDirectory(t);
    fs.chmodSync(directory, 0o777);
    const buckets = [];
    const fail = async () => {
      const bucket = openBucket(`a ${buckets.length}`, { directory });
      buckets.push(bucket);
      await assert.rejects(bucket.ready, code('UNSUPPORTED'));
    };
    t.after(() => Promise.all(buckets.map((bucket) => bucket.close())));
    const descriptors = () => fs.readdirSync('/proc/self/fd').length;
    const megabytes = () =>
      Number(/VmData:\s+(\d+)/.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1]) / 1024;
    await fail();
    const before = { descriptors: descriptors(), megabytes: megabytes() };
    for (let i = 0; i < 200; i++) await fail();
    assert.ok(descriptors() <= before.descriptors); // some of the tests before may be closed by now
    assert.ok(megabytes() - before.megabytes < 200, `${before.megabytes} to ${megabytes()} MB`);
  });

  it('has many buckets open in one process', async (t) => {
    const directory = freshDirectory(t);
    const buckets = [];
    t.after(() => Promise.all(buckets.map((bucket) => bucket.close())));
    // Each takes one of the 128 inotify instances of this user, and gives it back a little late.
    for (let i = 0; i < 40; i++) buckets.push(openBucket(`a ${i}`, { directory }));
    await Promise.all(buckets.map((bucket) => bucket.ready));
  });

  it('cannot be opened for want of descriptors, until there are some', async (t) => {
    const source = `
      const { openBucket } = require(${JSON.stringify(require.resolve('../../lib/host.js'))});
      const fs = require('node:fs');
      const bucket = openBucket('a', { directory: ${JSON.stringify(freshDirectory(t))} });
      const taken = [];
      const take = () => {
        for (;;) taken.push(fs.openSync('/dev/null'));
      };
      const failures = new Set();
      (async () => {
        try {
          take();
        } catch {}
        for (let failed = true; failed; ) {
          failed = await bucket.locks.query().then(() => false, ({ code, message }) => {
            failures.add(code + (message.includes('Too many open files') ? '' : message));
            return true;
          });
          if (failed) fs.closeSync(taken.pop());
        }
        fs.closeSync(taken.pop()); // for standard output
        console.log([...failures].join(), await bucket.locks.request('a', () => 'held'));
      })();`;
    const shell = ['-c', 'ulimit -n 100 && exec "$0" -e "$1"', process.execPath, source];
    const { stdout, stderr } = await promisify(execFile)('sh', shell, { timeout: 30_000 });
    assert.equal(stderr, '');
    assert.equal(stdout, `${code('FULL').code} held\n`);
  });

  it('may not be deleted: then locks are lost, and the next request opens it anew', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await RemoteProcess.start(t, where);
    const mine = await hold(locks, 'a');
    const theirs = await other.hold('b');
    // Both wait for something: where the system gives no inotify instance, who does not is told late.
    const pending = locks.request('b', () => {});
    await other.request('a');
    await Promise.all([pendingOn(locks, 'a'), pendingOn(locks, 'b')]);
    const failed = assert.rejects(pending, { ...code('LOST'), message: /deleted/ });
    const file = fileIn(where.directory);
    const lost = assert.rejects(mine.released, (error) => {
      assert.ok(error instanceof LockLostError);
      assert.equal(error.reason, 'destroyed');
      assert.equal(error.cause.code, 'ERR_WEB_LOCKS_SCOPE_LOST');
      return true;
    });
    fs.unlinkSync(file);
    await Promise.all([failed, lost]);
    assert.ok(mine.lock.signal.aborted);
    assert.equal(mine.lock.held, false);
    const { reason, cause } = await theirs.lost;
    assert.deepEqual({ reason, cause }, { reason: 'destroyed', cause: code('LOST').code });
    // Both meet again in a new file.
    const again = await hold(locks, 'a');
    assert.equal(await (await other.request('a', { ifAvailable: true })).granted, null);
    await again.release();
  });

  it('a file that is overwritten is lost to who has it, and nothing else', async (t) => {
    const { locks, where } = freshBucket(t);
    const mine = await hold(locks, 'a');
    // A lock that is held does not keep the process from ending.
    const alive = setInterval(() => {}, 60_000);
    t.after(() => clearInterval(alive));
    const file = fs.openSync(fileIn(where.directory), 'r+');
    // All but the first page, so that what says what the file is stays.
    fs.writeSync(file, Buffer.alloc(fs.fstatSync(file).size - 4096), 0, undefined, 4096);
    fs.closeSync(file);
    await assert.rejects(mine.released, (error) => {
      assert.ok(error instanceof LockLostError);
      assert.match(error.cause.message, /is damaged/);
      return true;
    });
    assert.equal(await locks.request('a', (lock) => lock.name), 'a');
  });

  it('a file of another layout in use is refused, and names both versions', async (t) => {
    const { bucket, where } = freshBucket(t);
    await bucket.ready;
    const file = fs.openSync(fileIn(where.directory), 'r+');
    fs.writeSync(file, new Uint32Array([9999]), 0, 4, 4);
    fs.closeSync(file);
    const other = await RemoteProcess.start(t, { ...where, root: copyOfVersion(t, '99.1.2') });
    const { settled } = await other.request('a');
    const { error } = await settled;
    assert.equal(error.code, code('VERSION').code);
    const who = `process ${process.pid} with version ${version} of web-locks`;
    for (const part of [fileIn(where.directory), who, 'version 99.1.2', 'the same version']) {
      assert.ok(error.message.includes(part), error.message);
    }
  });

  it('names that are too long are refused, and only their length is said to be why', async (t) => {
    const { locks } = freshBucket(t);
    await assert.rejects(
      locks.request('x'.repeat(32_769), () => {}),
      {
        ...code('FULL'),
        message: /the name has 32769 UTF-16 code units; at most 32768 \(64 KiB\) are allowed/,
      },
    );
    assert.equal(await locks.request('x'.repeat(32_768), () => 'held'), 'held');
  });
});

describe('after a burst of requests', { skip }, () => {
  const BURST = 6000;
  /** How many cells there are: src/host/segment/segment.h. */
  const cellsIn = (file) => fs.readFileSync(file).readUInt32LE(32);
  /** The file system that these tests run on may give room back; the plain port does not ask it. */
  const givesBack = process.platform === 'linux' && !process.env.WEB_LOCKS_BINARY;

  /** Has many requests wait, then aborts them. */
  async function burst(locks) {
    const held = await locks.acquire('burst');
    const controller = new AbortController();
    const { signal } = controller;
    const all = Array.from({ length: BURST }, () => locks.acquire('burst', { signal }));
    const ended = Promise.allSettled(all);
    await pendingOn(locks, 'burst', BURST);
    controller.abort();
    await ended;
    await held.release();
  }

  it('a file that nobody has open any more is made anew, and tokens go on', async (t) => {
    const { bucket, locks, where } = freshBucket(t);
    await burst(locks);
    const file = fileIn(where.directory);
    assert.ok(fs.statSync(file).size > BURST * 128);
    const token = await locks.request('a', (lock) => lock.token);
    await bucket.close();
    const again = openBucket(where.bucket, { directory: where.directory });
    t.after(() => again.close());
    assert.ok((await again.locks.request('a', (lock) => lock.token)) > token);
    assert.ok(fs.statSync(file).size < 100_000);
  });

  it('a file that is open gives its room back once nothing happens, and can grow again', async (t) => {
    const { locks, where } = freshBucket(t);
    const kept = await locks.acquire('kept');
    const file = fileIn(where.directory);
    for (let i = 0; i < 2; i++) {
      await burst(locks);
      assert.ok(cellsIn(file) > BURST);
      while (cellsIn(file) > 256) await new Promise((resolve) => setTimeout(resolve, 100));
      await locks.query();
      if (givesBack) assert.ok(fs.statSync(file).blocks * 512 < 100_000);
      assert.equal(await locks.request('kept', { ifAvailable: true }, Boolean), false);
    }
    await kept.release();
  });

  it('the process that made it dies, and its room is given back', async (t) => {
    const { locks, where } = freshBucket(t);
    const kept = await locks.acquire('kept');
    const other = await RemoteProcess.start(t, where);
    await other.hold('a');
    await Promise.all(Array.from({ length: BURST }, () => other.request('a')));
    const file = fileIn(where.directory);
    assert.ok(cellsIn(file) > BURST);
    other.kill();
    // Its cell is behind those of the burst, which stay until it has ended.
    await locks.request('a', () => {});
    while (cellsIn(file) > 256) await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(await locks.request('kept', { ifAvailable: true }, Boolean), false);
    await kept.release();
  });
});
