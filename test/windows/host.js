'use strict';

/**
 * `web-locks/host` on Windows: what its port does that others do in another way. Run there by
 * `node test/windows/host.js`, or under Wine by run.js.
 */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const fsPromises = require('node:fs/promises');
const os = require('node:os');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const host = require('../../lib/host.js');
const { RemoteProcess, pendingOn } = require('../helpers/process.js');

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-'));
const opened = [];
after(async () => {
  await Promise.all(opened.map((bucket) => bucket.close()));
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 5 });
});

/** A directory for a test of its own. */
let directories = 0;
const freshDirectory = () => path.join(root, `locks ${++directories}`);

/** So many other processes, which have a bucket open there. Their streams would not do under Wine. */
function others(t, count, directory) {
  const where = {
    bucket: '',
    directory,
    options: { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] },
  };
  return Promise.all(Array.from({ length: count }, () => RemoteProcess.start(t, where)));
}

function ofBucket(directory, name = '') {
  const bucket = host.openBucket(name, { directory });
  opened.push(bucket);
  return bucket;
}

describe('processes', () => {
  it('who waits is granted what a killed process held', async (t) => {
    const directory = freshDirectory();
    const [holder, waiter] = await others(t, 2, directory);
    await holder.hold('a');
    const waits = await waiter.request('a');
    await pendingOn(ofBucket(directory).locks, 'a');
    holder.kill();
    assert.equal((await waits.granted).name, 'a');
  });

  it('the death of who has the place of one that left is noticed', async (t) => {
    const directory = freshDirectory();
    const [first, second] = await others(t, 2, directory);
    const { locks } = ofBucket(directory);
    await locks.request('mine', () => {}); // a member before them
    await first.hold('a');
    const waits = locks.request('a', () => 'granted'); // and so it watches the first
    await pendingOn(locks, 'a');
    await first.ask('close'); // its process lives on
    assert.equal(await waits, 'granted');
    await second.hold('b');
    const waitsForSecond = locks.request('b', () => 'granted');
    await pendingOn(locks, 'b');
    second.kill();
    assert.equal(await waitsForSecond, 'granted');
  });

  it('50 buckets are open in three processes', async (t) => {
    const directory = freshDirectory();
    const fill = (other) => other.ask('fill', { directory, count: 50 });
    await Promise.all((await others(t, 2, directory)).map(fill));
    for (let i = 0; i < 50; i++) await ofBucket(directory, `bucket ${i}`).locks.query();
    assert.equal(fs.readdirSync(directory).length, 50);
  });

  it('the file grows while several processes have it open', async (t) => {
    const directory = freshDirectory();
    const [one, other] = await others(t, 2, directory);
    await one.hold('b');
    const [bucket] = fs.readdirSync(directory);
    const size = () => fs.statSync(path.join(directory, bucket, 'bucket')).size;
    const before = size();
    const name = (i) => `${'a long name '.repeat(10)}${i}`;
    await Promise.all(Array.from({ length: 3000 }, (_, i) => one.hold(name(i))));
    assert.ok(size() > 4 * before);
    await Promise.all(Array.from({ length: 100 }, (_, i) => other.hold(name(-1 - i))));
    assert.equal((await ofBucket(directory).locks.query()).held.length, 3101);
  });
});

describe('names', () => {
  const NAMES = ['', 'CON', 'a\\b/c:d*?"<>|', '\0', '..', 'ä😀', '\ud800', 'x'.repeat(32768)];

  it('any string is the name of a lock, and of a bucket', async () => {
    const directory = freshDirectory();
    for (const name of NAMES) {
      const { locks } = ofBucket(directory, name);
      assert.equal(await locks.request(name, (lock) => lock.name), name);
    }
    assert.equal(fs.readdirSync(directory).length, NAMES.length);
  });
});

describe('directories', () => {
  const useIn = async (directory) =>
    assert.equal(await ofBucket(directory).locks.request('a', () => 'granted'), 'granted');
  const refusedIn = (directory, message) =>
    assert.rejects(
      ofBucket(directory).locks.request('a', () => {}),
      {
        code: 'ERR_WEB_LOCKS_SCOPE_UNSUPPORTED',
        message,
      },
    );

  it('can have spaces and umlauts', () => useIn(path.join(root, 'Schlösser für Müller & Söhne')));

  it('can have a long path', async () => {
    const parent = path.join(root, 'a'.repeat(200), 'b'.repeat(200));
    fs.mkdirSync(parent, { recursive: true });
    await useIn(path.join(parent, 'locks'));
  });

  it('are the same with slashes', async () => {
    const directory = freshDirectory();
    await useIn(directory.replaceAll('\\', '/'));
    await useIn(directory);
    assert.equal(fs.readdirSync(directory).length, 1);
  });

  it('are the same however WEB_LOCKS_DIRECTORY writes them', async (t) => {
    const directory = freshDirectory();
    const { dir, name } = path.parse(directory);
    t.after(() => delete process.env.WEB_LOCKS_DIRECTORY);
    process.env.WEB_LOCKS_DIRECTORY = `${dir}\\none\\..\\.\\\\${name}\\`;
    await ofBucket(undefined).locks.request('a', async () => {
      assert.equal((await ofBucket(directory).locks.query()).held.length, 1);
    });
  });

  it('of WEB_LOCKS_DIRECTORY are refused without a drive', async (t) => {
    t.after(() => delete process.env.WEB_LOCKS_DIRECTORY);
    process.env.WEB_LOCKS_DIRECTORY = '\\locks';
    await refusedIn(undefined, /\\locks, is not absolute/);
  });

  it('by default it is the user’s own', async () => {
    const { WEB_LOCKS_DIRECTORY: given } = process.env;
    delete process.env.WEB_LOCKS_DIRECTORY;
    try {
      await host.locks.request('a', () => {});
      const directory = path.join(process.env.LOCALAPPDATA, 'web-locks');
      assert.ok(fs.readdirSync(directory).length > 0);
    } finally {
      if (given !== undefined) process.env.WEB_LOCKS_DIRECTORY = given;
    }
  });

  it('are refused where others may write', async () => {
    // Wine has no icacls: there run.js has made one.
    const { WEB_LOCKS_TEST_OPEN_DIRECTORY: open = freshDirectory() } = process.env;
    if (!process.env.WEB_LOCKS_TEST_OPEN_DIRECTORY) {
      fs.mkdirSync(open);
      execFileSync('icacls', [open, '/grant', '*S-1-1-0:(OI)(CI)F'], { stdio: 'ignore' });
    }
    await refusedIn(open, /gives rights to another user, S-1-1-0, .*icacls/);
  });

  it('are refused where they are files', async () => {
    const file = path.join(root, 'a file');
    fs.writeFileSync(file, '');
    await refusedIn(file, /is not a directory/);
  });

  it('are refused where the one above is not there', () =>
    refusedIn(path.join(root, 'nowhere', 'locks'), /Its parent directory must exist/));

  it('are refused on drives that are not there', () => refusedIn('Q:\\locks', /Q:\\locks/));
});

describe('harm', () => {
  it('a lock is lost when its file is deleted, where the system lets it be', async (t) => {
    const directory = freshDirectory();
    const { locks } = ofBucket(directory);
    let reason;
    const held = locks.request('a', async (lock) => {
      const file = path.join(directory, fs.readdirSync(directory)[0], 'bucket');
      try {
        fs.rmSync(file);
      } catch {
        return t.diagnostic('the system does not let it be deleted');
      }
      if (!lock.signal.aborted) await once(lock.signal, 'abort');
      reason = lock.signal.reason;
      throw reason;
    });
    await held.catch(() => {});
    if (reason) assert.equal(reason.code, 'ERR_WEB_LOCKS_SCOPE_LOST');
    assert.equal(await locks.request('a', () => 'granted'), 'granted');
  });

  it('who has a bucket open makes the file peers anew when it is moved, and can be woken', async (t) => {
    const directory = freshDirectory();
    const [other] = await others(t, 1, directory);
    const { locks } = ofBucket(directory);
    await locks.request('a', async () => {
      const [bucket] = fs.readdirSync(directory);
      const peers = path.join(directory, bucket, 'peers');
      const changes = fsPromises.watch(path.dirname(peers), {
        signal: AbortSignal.timeout(20_000),
      });
      const made = (async () => {
        for await (const _ of changes) if (fs.existsSync(peers)) return;
      })();
      fs.renameSync(peers, `${peers}.old`);
      await made;
      await other.ask('query');
      await locks.query(); // when it has an answer nobody is at these files
      const lives = [0, 1].map((member) => fs.readFileSync(peers).readBigUInt64LE(32 * member));
      assert.ok(lives.every((life) => life !== 0n));
    });
  });
});
