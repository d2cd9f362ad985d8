'use strict';

/** What the errors of the host scope say: the path, the cause, and what to do. */

const assert = require('node:assert/strict');
const { execFile, execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const { LockLostError, openBucket } = require('../../lib/host.js');
const { hold } = require('../helpers/locks.js');
const { freshBucket, freshDirectory, pendingOn, RemoteProcess } = require('../helpers/process.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

const notRoot = process.getuid?.() === 0 ? false : 'only root can change the owner of a file';
const library = JSON.stringify(require.resolve('../../lib/host.js'));

/** Another user; nobody needs to know this one. */
const USER = 12345;
const ELSEWHERE = "use another directory (option 'directory' or WEB_LOCKS_DIRECTORY).";

/** The directory of the one bucket in a directory. */
const bucketIn = (directory) => path.join(directory, fs.readdirSync(directory)[0]);

/** Opens a bucket, which fails, and has a message with these parts. */
async function refused(t, directory, kind, parts) {
  const bucket = openBucket('a', { directory });
  t.after(() => bucket.close());
  await assert.rejects(bucket.ready, (error) => {
    assert.equal(error.code, `ERR_WEB_LOCKS_SCOPE_${kind}`);
    assert.match(error.message, /^web-locks: opening a storage bucket failed: /);
    for (const part of parts) assert.ok(error.message.includes(part), error.message);
    return true;
  });
}

/** What another user is told who opens a bucket there. */
async function toldUser(directory) {
  const source = `
    const { openBucket } = require(${library});
    process.setgid(${USER});
    process.setuid(${USER});
    openBucket('a', { directory: ${JSON.stringify(directory)} })
      .ready.then(() => console.log('open'), ({ code, message }) => console.log(code, message));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', source]);
  return stdout;
}

/** A directory in which a bucket was opened once. */
async function usedDirectory(t) {
  const directory = freshDirectory(t);
  const bucket = openBucket('a', { directory });
  await bucket.ready;
  await bucket.close();
  return directory;
}

describe('the message about a directory', { skip }, () => {
  it('that others may write names it, its mode and the right one', async (t) => {
    const directory = freshDirectory(t);
    fs.chmodSync(directory, 0o777);
    const parts = [directory, 'its mode is 0777', 'Set the mode 0700', ELSEWHERE];
    await refused(t, directory, 'UNSUPPORTED', parts);
  });

  it('of another user names both users', { skip: notRoot }, async (t) => {
    const directory = freshDirectory(t);
    fs.chownSync(directory, USER, USER);
    const who = `belongs to user ${USER}, but this process runs as user 0.`;
    const parts = [
      directory,
      who,
      `Run it as user ${USER}, or`,
      'a group of theirs',
      ELSEWHERE.slice(0, -1),
    ];
    await refused(t, directory, 'UNSUPPORTED', parts);
  });

  it('that another user made in it says that it may be deleted', { skip: notRoot }, async (t) => {
    const directory = await usedDirectory(t);
    const parts = (made) => [
      `${made} belongs to user ${USER}`,
      'have that path deleted while no process uses it',
    ];
    const inner = bucketIn(directory);
    fs.chownSync(path.join(inner, 'bucket'), USER, USER);
    await refused(t, directory, 'UNSUPPORTED', parts(path.join(inner, 'bucket')));
    fs.chownSync(inner, USER, USER);
    await refused(t, directory, 'UNSUPPORTED', parts(inner));
  });

  it('that does not let us in says whose it is', { skip: notRoot }, async (t) => {
    const directory = freshDirectory(t);
    const whose = (what, mode) =>
      `permission denied: ${what} belongs to user 0 with mode ${mode}, and this process runs as ` +
      `user ${USER}. Change the owner or the mode, or ${ELSEWHERE}`;
    const closed = await toldUser(directory);
    assert.ok(closed.startsWith('ERR_WEB_LOCKS_SCOPE_UNSUPPORTED '), closed);
    assert.ok(closed.includes(`${directory}: cannot open`), closed);
    assert.ok(closed.includes(whose('it', '0700')), closed);
    fs.chmodSync(directory, 0o755);
    const inside = await toldUser(path.join(directory, 'mine'));
    assert.ok(inside.includes(whose(directory, '0755')), inside);
  });

  it('whose place is taken, or cannot be, says so', async (t) => {
    const directory = freshDirectory(t);
    const [file, link] = ['file', 'link'].map((name) => path.join(directory, name));
    fs.writeFileSync(file, '');
    fs.symlinkSync(freshDirectory(t), link);
    const taken = [
      'Not a directory. Another kind of file, or a symbolic link, has this path',
      ELSEWHERE,
    ];
    await refused(t, file, 'UNSUPPORTED', [file, ...taken]);
    await refused(t, link, 'UNSUPPORTED', [link, ...taken]);
    const deep = path.join(directory, 'a', 'b');
    const missing = 'No such file or directory. Its parent directory must exist';
    await refused(t, deep, 'UNSUPPORTED', [deep, missing, ELSEWHERE]);
    const long = path.join('/', 'x'.repeat(2000));
    await refused(t, long, 'UNSUPPORTED', ['is longer than 960 bytes: ', ELSEWHERE]);
  });

  it('with something else in the place of a file names that', async (t) => {
    const directory = await usedDirectory(t);
    const file = path.join(bucketIn(directory), 'bucket');
    fs.rmSync(file);
    execFileSync('mkfifo', [file]);
    const says = `${file} is not a file. Remove it, or ${ELSEWHERE}`;
    await refused(t, directory, 'UNSUPPORTED', [says]);
  });

  it('of the environment that is not absolute says why', async (t) => {
    const before = process.env.WEB_LOCKS_DIRECTORY;
    t.after(() => {
      if (before === undefined) delete process.env.WEB_LOCKS_DIRECTORY;
      else process.env.WEB_LOCKS_DIRECTORY = before;
    });
    process.env.WEB_LOCKS_DIRECTORY = 'here/it/is';
    await refused(t, undefined, 'UNSUPPORTED', ['here/it/is, is not absolute', 'with a slash']);
  });
});

describe('the message about a file that is lost', { skip }, () => {
  /** @type {Record<string, [(file: string) => void, string]>} */
  const harms = {
    'was deleted': [(file) => fs.unlinkSync(file), 'was deleted.'],
    'was moved': [(file) => fs.renameSync(file, `${file} away`), 'was moved.'],
    'was replaced': [
      (file) => {
        fs.writeFileSync(`${file} new`, 'new');
        fs.linkSync(file, `${file} kept`);
        fs.renameSync(`${file} new`, file);
      },
      'was moved, and another file has its path.',
    ],
    'was cut off': [(file) => fs.truncateSync(file, 0), 'was truncated.'],
  };
  for (const [what, [harm, said]] of Object.entries(harms)) {
    it(`says that it ${what}, and what follows`, async (t) => {
      const { locks, where } = freshBucket(t);
      const held = await hold(locks, 'a');
      const lost = assert.rejects(held.released, LockLostError);
      const pending = locks.request('a', () => {});
      await pendingOn(locks, 'a');
      const file = path.join(bucketIn(where.directory), 'bucket');
      harm(file);
      await assert.rejects(pending, (error) => {
        assert.equal(error.code, 'ERR_WEB_LOCKS_SCOPE_LOST');
        for (const part of [`${file} ${said}`, 'Do not delete', 'The next request']) {
          assert.ok(error.message.includes(part), error.message);
        }
        return true;
      });
      await lost;
    });
  }
});

describe('the message where no thread can be started', { skip: skip || notRoot }, () => {
  // The search for leaks at the end of a process starts a thread.
  const inSanitizer = Boolean(process.env.WEB_LOCKS_SANITIZED) && 'not under a sanitizer';
  it('says so, and names the limit', { skip: inSanitizer }, async (t) => {
    const directory = freshDirectory(t);
    fs.chownSync(directory, USER, USER);
    // The limit counts for other users than root.
    const source = `
      const { openBucket } = require(${library});
      const { locks } = openBucket('a', { directory: ${JSON.stringify(directory)} });
      process.setgid(${USER});
      process.setuid(${USER});
      const told = ({ code, message }) => console.log(code, message);
      (async () => {
        await locks.request('a', () => {}).catch(told);
        await locks.query().catch(told);
      })();`;
    const shell = [
      '-c',
      '{ ulimit -p 1 || ulimit -u 1; } 2> /dev/null && exec "$0" -e "$1"',
      process.execPath,
      source,
    ];
    const { stdout } = await promisify(execFile)('sh', shell);
    const said = 'failed: cannot start a thread: Resource temporarily unavailable.';
    const lines = stdout.trim().split('\n');
    assert.equal(lines.length, 2, stdout);
    for (const line of lines) {
      assert.ok(line.startsWith('ERR_WEB_LOCKS_SCOPE_FULL') && line.includes(said), line);
      assert.ok(line.includes('ulimit -u'), line);
    }
  });
});

describe('the error of a time limit', { skip }, () => {
  /** Writes into the tables that the member with this pid is inside. */
  function keepInside(directory, pid) {
    const file = path.join(bucketIn(directory), 'bucket');
    const bytes = fs.readFileSync(file);
    let member = 0;
    // src/host/segment/segment.h: the members, and of each `gen` and `pid`.
    while (bytes.readUInt32LE(256 + 64 * member + 20) !== pid) member++;
    const generation = bytes.readBigUInt64LE(256 + 64 * member);
    const opened = fs.openSync(file, 'r+');
    fs.writeSync(opened, new BigUint64Array([(generation << 16n) | BigInt(member + 1)]), 0, 8, 128);
    fs.closeSync(opened);
  }

  it('names the holder while another process stands still inside the tables', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await RemoteProcess.start(t, where);
    const { pid } = other;
    await other.hold('a', { label: 'report' });
    await locks.query();
    keepInside(where.directory, pid);
    const named = {
      name: 'TimeoutError',
      message: new RegExp(`held by process ${pid} \\("report"`),
    };
    await assert.rejects(locks.acquire('a', { timeout: 20 }), named);
    await assert.rejects(locks.acquire('a', { timeout: 0 }), named);
    assert.throws(() => locks.acquireSync('a', { timeout: 20 }), named);
  });

  it('has all holders, their threads and labels', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await RemoteProcess.start(t, where);
    await other.hold('a', { mode: 'shared', label: 'x'.repeat(200) });
    const own = await locks.acquire('a', { mode: 'shared' });
    const { held } = await locks.query({ details: true });
    await assert.rejects(locks.acquire('a', { timeout: 20 }), ({ holders }) => {
      const known = ({ clientId, label, pid, token }) => ({ clientId, label, pid, token });
      assert.deepEqual(holders.map(known), held.map(known));
      return true;
    });
    await own.release();
  });
});
