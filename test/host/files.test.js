// slow: 3; waits

'use strict';

/**
 * The files of the host scope: where they are and what can be wrong with them. Each error names the
 * path, the cause and what to do.
 */

const assert = require('node:assert/strict');
const { execFile, execFileSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');
const { LockLostError, openBucket } = require('../../lib/host.js');
const { hold, nothing } = require('../helpers/locks.js');
const {
  RemoteProcess,
  copyOfVersion,
  freshBucket,
  freshDirectory,
  pendingOn,
} = require('../helpers/process.js');
const { version } = require('../../package.json');
const { lacksHost: skip } = require('../helpers/host-scope.js');

const execute = promisify(execFile);
const code = (kind) => ({ code: `ERR_WEB_LOCKS_SCOPE_${kind}` });
const library = JSON.stringify(require.resolve('../../lib/host.js'));
const notRoot = process.getuid?.() === 0 ? false : 'only root can change the owner of a file';

/** Any other user; it needs no account. */
const USER = 12345;
const becomeUser = `process.setgid(${USER}); process.setuid(${USER});`;
const ELSEWHERE = "use another directory (option 'directory' or WEB_LOCKS_DIRECTORY).";

/** The directory of the only bucket in `directory`, and that bucket's file. */
const bucketIn = (directory) => path.join(directory, fs.readdirSync(directory)[0]);
const fileIn = (directory) => path.join(bucketIn(directory), 'bucket');

/** Overwrites bytes of a file at a position. */
function overwrite(file, bytes, position) {
  const opened = fs.openSync(file, 'r+');
  fs.writeSync(opened, bytes, 0, undefined, position);
  fs.closeSync(opened);
}

/** Opens the bucket `a` until the test ends. */
function open(t, directory) {
  const bucket = openBucket('a', { directory });
  t.after(() => bucket.close());
  return bucket;
}

function includesAll(text, parts) {
  for (const part of parts) assert.ok(text.includes(part), text);
}

/** Checks that opening a bucket fails with a message that contains these parts. */
const assertRefused = (t, directory, parts) =>
  assert.rejects(open(t, directory).ready, (error) => {
    assert.equal(error.code, code('UNSUPPORTED').code);
    assert.match(error.message, /^web-locks: opening a storage bucket failed: /);
    includesAll(error.message, parts);
    return true;
  });

describe('the directory of the locks of a machine', { skip }, () => {
  it('is made by the process that comes first, for its user only', async (t) => {
    const directory = path.join(freshDirectory(t), 'made');
    const bucket = open(t, directory);
    assert.equal(fs.existsSync(directory), false);
    await bucket.ready;
    assert.equal(fs.statSync(directory).mode & 0o777, 0o700);
    assert.equal(fs.statSync(fileIn(directory)).mode & 0o777, 0o600);
  });

  it('is that of the environment of its thread', async (t) => {
    const directory = path.join(freshDirectory(t), 'of-the-worker');
    const source = `
      const { parentPort } = require('node:worker_threads');
      require(${library}).locks.request('a', () => {}).then(() => parentPort.postMessage('held'));`;
    const env = { ...process.env, WEB_LOCKS_DIRECTORY: directory };
    const worker = new Worker(source, { eval: true, env });
    t.after(() => worker.terminate());
    assert.deepEqual(await once(worker, 'message'), ['held']);
    assert.ok(fs.existsSync(fileIn(directory)));
  });

  it('is refused if it is no path, or one of the environment that is not absolute', async (t) => {
    for (const directory of ['', 'a\0b', 7, null, {}]) {
      assert.throws(() => openBucket('a', { directory }), TypeError);
    }
    const before = process.env.WEB_LOCKS_DIRECTORY;
    t.after(() => {
      if (before === undefined) delete process.env.WEB_LOCKS_DIRECTORY;
      else process.env.WEB_LOCKS_DIRECTORY = before;
    });
    process.env.WEB_LOCKS_DIRECTORY = 'here/it/is';
    await assertRefused(t, undefined, ['here/it/is, is not absolute', 'with a slash']);
  });

  it('is refused if others may write to it, until its mode is set right', async (t) => {
    const directory = freshDirectory(t);
    fs.chmodSync(directory, 0o777);
    const parts = [directory, 'its mode is 0777', 'Set the mode 0700', ELSEWHERE];
    await assertRefused(t, directory, parts);
    const bucket = open(t, directory);
    const { locks } = bucket;
    await assert.rejects(bucket.ready, code('UNSUPPORTED'));
    await assert.rejects(locks.request('a', nothing), code('UNSUPPORTED'));
    await assert.rejects(locks.query(), code('UNSUPPORTED'));
    assert.throws(() => locks.acquireSync('a', { timeout: 1000 }), code('UNSUPPORTED'));
    fs.chmodSync(directory, 0o700);
    await bucket.ready;
    assert.equal(await locks.request('a', (lock) => lock.name), 'a');
  });

  it('is refused if it belongs to another user', { skip: notRoot }, async (t) => {
    const directory = freshDirectory(t);
    fs.chownSync(directory, USER, USER);
    const who = `belongs to user ${USER}, but this process runs as user 0.`;
    const run = `Run it as user ${USER}, or`;
    await assertRefused(t, directory, [
      directory,
      who,
      run,
      'a group of theirs',
      ELSEWHERE.slice(0, -1),
    ]);
  });

  it('is refused if another user made its files', { skip: notRoot }, async (t) => {
    const directory = freshDirectory(t);
    const bucket = openBucket('a', { directory });
    await bucket.ready;
    await bucket.close();
    for (const made of [fileIn(directory), bucketIn(directory)]) {
      fs.chownSync(made, USER, USER);
      const whose = `${made} belongs to user ${USER}`;
      await assertRefused(t, directory, [whose, 'have that path deleted while no process uses it']);
    }
  });

  it('is refused if others may write to its files, although not to it', async (t) => {
    const directory = freshDirectory(t);
    const bucket = openBucket('a', { directory });
    await bucket.ready;
    await bucket.close();
    for (const [made, mode, right] of [
      [fileIn(directory), 0o666, 0o600],
      [bucketIn(directory), 0o770, 0o700],
    ]) {
      fs.chmodSync(made, mode);
      const wrong = `its mode is 0${mode.toString(8)}. Set the mode 0${right.toString(8)} `;
      await assertRefused(t, directory, [`${made} is writable by others`, wrong, ELSEWHERE]);
      fs.chmodSync(made, right);
    }
    await open(t, directory).ready;
  });

  it('is refused if it does not let this user in', { skip: notRoot }, async (t) => {
    const directory = freshDirectory(t);
    const toldUser = async (where) => {
      const source = `
        const { openBucket } = require(${library});
        ${becomeUser}
        const { ready } = openBucket('a', { directory: ${JSON.stringify(where)} });
        ready.then(() => console.log('open'), ({ code, message }) => console.log(code, message));`;
      return (await execute(process.execPath, ['-e', source])).stdout;
    };
    const whose = (what, mode) =>
      `permission denied: ${what} belongs to user 0 with mode ${mode}, and this process runs as ` +
      `user ${USER}. Change the owner or the mode, or ${ELSEWHERE}`;
    const opening = `${directory}: cannot open`;
    includesAll(await toldUser(directory), [
      code('UNSUPPORTED').code,
      opening,
      whose('it', '0700'),
    ]);
    fs.chmodSync(directory, 0o755);
    includesAll(await toldUser(path.join(directory, 'mine')), [whose(directory, '0755')]);
  });

  it('is refused if something else has its path, or the path of a file', async (t) => {
    const directory = freshDirectory(t);
    const [file, link, deep] = ['file', 'link', 'a/b'].map((name) => path.join(directory, name));
    fs.writeFileSync(file, '');
    fs.symlinkSync(freshDirectory(t), link);
    const taken = 'Not a directory. Another kind of file, or a symbolic link, has this path';
    for (const one of [file, link]) await assertRefused(t, one, [one, taken, ELSEWHERE]);
    const missing = 'No such file or directory. Its parent directory must exist';
    await assertRefused(t, deep, [deep, missing, ELSEWHERE]);
    const long = path.join('/', 'x'.repeat(2000));
    await assertRefused(t, long, ['is longer than 960 bytes: ', ELSEWHERE]);
    const { bucket, where } = freshBucket(t, 'a');
    await bucket.ready;
    await bucket.close();
    fs.rmSync(fileIn(where.directory));
    execFileSync('mkfifo', [fileIn(where.directory)]);
    const says = `${fileIn(where.directory)} is not a file. Remove it, or ${ELSEWHERE}`;
    await assertRefused(t, where.directory, [says]);
  });

  // LeakSanitizer starts a thread at the end of a process.
  const inSanitizer = Boolean(process.env.WEB_LOCKS_SANITIZED) && 'not under a sanitizer';
  it('cannot be opened if no thread can be started', {
    skip: notRoot || inSanitizer,
  }, async (t) => {
    const directory = freshDirectory(t);
    fs.chownSync(directory, USER, USER);
    // The limit does not apply to root.
    const source = `
      const { openBucket } = require(${library});
      const { locks } = openBucket('a', { directory: ${JSON.stringify(directory)} });
      ${becomeUser}
      locks.request('a', () => {}).catch(({ code, message }) => console.log(code, message));`;
    const script = '{ ulimit -p 1 || ulimit -u 1; } 2> /dev/null && exec "$0" -e "$1"';
    const { stdout } = await execute('sh', ['-c', script, process.execPath, source]);
    const said = 'failed: cannot start a thread: Resource temporarily unavailable.';
    includesAll(stdout, [code('FULL').code, said, 'ulimit -u']);
  });

  it('takes names of 64 KiB, and refuses longer ones with their length', async (t) => {
    const { locks } = freshBucket(t);
    assert.equal(await locks.request('x'.repeat(32_768), () => 'held'), 'held');
    await assert.rejects(locks.request('x'.repeat(32_769), nothing), {
      ...code('FULL'),
      message: /the name has 32769 UTF-16 code units; at most 32768 \(64 KiB\) are allowed/,
    });
  });
});

describe('a file of locks', { skip }, () => {
  /** @type {Record<string, [(file: string) => void, string]>} */
  const harms = {
    'is deleted': [(file) => fs.unlinkSync(file), 'was deleted.'],
    'is moved': [(file) => fs.renameSync(file, `${file} away`), 'was moved.'],
    'is replaced': [
      (file) => {
        fs.writeFileSync(`${file} new`, 'new');
        fs.linkSync(file, `${file} kept`);
        fs.renameSync(`${file} new`, file);
      },
      'was moved, and another file has its path.',
    ],
    'is truncated': [(file) => fs.truncateSync(file, 0), 'was truncated.'],
  };
  for (const [what, [harm, said]] of Object.entries(harms)) {
    it(`is lost if it ${what}, and the next request opens it anew`, async (t) => {
      const { locks, where } = freshBucket(t);
      const other = await RemoteProcess.start(t, where);
      const mine = await hold(locks, 'a');
      const theirs = await other.hold('b');
      const file = fileIn(where.directory);
      const isLost = (error) => {
        includesAll(error.message, [`${file} ${said}`, 'Do not delete', 'The next request']);
        return error.code === code('LOST').code;
      };
      const lost = assert.rejects(mine.released, (error) => {
        assert.ok(error instanceof LockLostError);
        return error.reason === 'destroyed' && isLost(error.cause);
      });
      // Both wait for something: a process without an inotify instance notices the loss late.
      const failed = assert.rejects(locks.request('b', nothing), isLost);
      await other.request('a');
      await Promise.all([pendingOn(locks, 'a'), pendingOn(locks, 'b')]);
      // It blocks the thread until the loss is known, so that its release finds out.
      const unmarked = locks.once('c', { keep: 1000 }, () => {
        harm(file);
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
      });
      await Promise.all([failed, lost, assert.rejects(unmarked, { reason: 'destroyed' })]);
      assert.deepEqual([mine.lock.signal.aborted, mine.lock.held], [true, false]);
      assert.equal((await theirs.lost).reason, 'destroyed');
      const again = await hold(locks, 'a');
      assert.equal(await (await other.request('a', { ifAvailable: true })).granted, null);
      await again.release();
    });
  }

  it('is refused while another layout is in use, and the error names both versions', async (t) => {
    const { bucket, where } = freshBucket(t);
    await bucket.ready;
    overwrite(fileIn(where.directory), new Uint32Array([9999]), 4);
    const other = await RemoteProcess.start(t, { ...where, root: copyOfVersion(t, '99.1.2') });
    const { settled } = await other.request('a');
    const { error } = await settled;
    assert.equal(error.code, code('VERSION').code);
    const who = `process ${process.pid} with version ${version} of web-locks`;
    const parts = [fileIn(where.directory), who, 'version 99.1.2', 'the same version'];
    includesAll(error.message, parts);
  });
});

describe('a process that stands still inside the tables', { skip }, () => {
  /** Makes the member with this pid the owner of the tables' mutex. */
  function keepInside(directory, pid) {
    const file = fileIn(directory);
    const bytes = fs.readFileSync(file);
    let member = 0;
    // src/host/segment/segment.h has the offsets of the members, and of `gen` and `pid` in each.
    while (bytes.readUInt32LE(256 + 64 * member + 20) !== pid) member++;
    const generation = bytes.readBigUInt64LE(256 + 64 * member);
    overwrite(file, new BigUint64Array([(generation << 16n) | BigInt(member + 1)]), 128);
  }

  it('is named by time limits as the holder', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await RemoteProcess.start(t, where);
    const { pid } = other;
    await other.hold('a', { label: 'report' });
    await locks.query();
    keepInside(where.directory, pid);
    const message = new RegExp(`held by process ${pid} \\("report"`);
    const named = { name: 'TimeoutError', message };
    await assert.rejects(locks.acquire('a', { timeout: 20 }), named);
    await assert.rejects(locks.acquire('a', { timeout: 0 }), named);
    assert.throws(() => locks.acquireSync('a', { timeout: 20 }), named);
  });
});
