'use strict';

/**
 * `web-locks/host` on Windows (`node test/windows/host.js`), or under Wine by run.js: what its port
 * does in another way than others.
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
const { RemoteProcess, freshBucket, pendingIs } = require('../helpers/process.js');

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-'));
const opened = [];
// Windows removes no directory whose files are open.
after(async () => {
  await Promise.all(opened.map((bucket) => bucket.close()));
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 5 });
});

let directories = 0;
const freshDirectory = () => path.join(root, `locks ${++directories}`);

function openIn(directory, name = '') {
  const bucket = host.openBucket(name, { directory });
  opened.push(bucket);
  return bucket.locks;
}

/** The folder of the only bucket in a directory. */
const folderIn = (directory) => path.join(directory, fs.readdirSync(directory)[0]);

describe('processes', () => {
  it('a waiter is granted a killed process’s lock, also if its number was reused', async (t) => {
    const { locks, where } = freshBucket(t);
    const [first, second] = await Promise.all([1, 2].map(() => RemoteProcess.start(t, where)));
    await locks.request('mine', () => {}); // a member before them
    await first.hold('a');
    const waits = locks.request('a', () => 'granted'); // this makes it watch the first
    await pendingIs(locks, 'a', 1);
    await first.ask('close'); // its process continues
    assert.equal(await waits, 'granted');
    await second.hold('b');
    const waitsForSecond = locks.request('b', () => 'granted');
    await pendingIs(locks, 'b', 1);
    second.kill();
    assert.equal(await waitsForSecond, 'granted');
  });

  it('a process opens 50 buckets, and another one shares them', async (t) => {
    const directory = freshDirectory();
    const names = Array.from({ length: 50 }, (_, i) => `bucket ${i}`);
    const buckets = names.map((name) => openIn(directory, name));
    for (const locks of buckets) await locks.request('a', () => {});
    assert.equal(fs.readdirSync(directory).length, 50);
    const other = await RemoteProcess.start(t, { bucket: names[49], directory });
    await other.hold('a');
    assert.equal((await buckets[49].query()).held.length, 1);
  });

  it('the file grows while several processes have it open', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await RemoteProcess.start(t, where);
    await other.hold('b');
    const file = path.join(folderIn(where.directory), 'bucket');
    const before = fs.statSync(file).size;
    let end;
    const ended = new Promise((resolve) => (end = resolve));
    const crowd = Array.from({ length: 3000 }, (_, i) =>
      locks.request(`${'a long name '.repeat(10)}${i}`, () => ended),
    );
    const last = locks.request('last', () => fs.statSync(file).size);
    assert.ok((await last) > 4 * before);
    await other.hold('c');
    assert.equal((await other.ask('query')).held.length, 3002);
    end();
    await Promise.all(crowd);
  });
});

describe('names', () => {
  const NAMES = ['', 'CON', 'a\\b/c:d*?"<>|', '\0', '..', 'ä😀', '\ud800', 'x'.repeat(32768)];

  it('any string is the name of a lock, and of a bucket', async () => {
    const directory = freshDirectory();
    for (const name of NAMES) {
      const locks = openIn(directory, name);
      assert.equal(await locks.request(name, (lock) => lock.name), name);
    }
    assert.equal(fs.readdirSync(directory).length, NAMES.length);
  });
});

describe('directories', () => {
  const useIn = async (directory) =>
    assert.equal(await openIn(directory).request('a', () => 'granted'), 'granted');
  const SCOPE_UNSUPPORTED = { code: 'ERR_WEB_LOCKS_SCOPE_UNSUPPORTED' };
  const refusedIn = (directory, message) =>
    assert.rejects(
      openIn(directory).request('a', () => {}),
      { ...SCOPE_UNSUPPORTED, message },
    );
  /** Sets or deletes WEB_LOCKS_DIRECTORY until the end of the test. */
  const setDirectory = (t, directory) => {
    const { WEB_LOCKS_DIRECTORY: given } = process.env;
    const set = (value) => {
      if (value === undefined) delete process.env.WEB_LOCKS_DIRECTORY;
      else process.env.WEB_LOCKS_DIRECTORY = value;
    };
    t.after(() => set(given));
    set(directory);
  };

  it('can have spaces, umlauts and a long path', async () => {
    const parent = path.join(
      root,
      'Schlösser für Müller & Söhne',
      'a'.repeat(200),
      'b'.repeat(200),
    );
    fs.mkdirSync(parent, { recursive: true });
    await useIn(path.join(parent, 'locks'));
  });

  it('are the same with slashes, and however WEB_LOCKS_DIRECTORY writes them', async (t) => {
    const directory = freshDirectory();
    await useIn(directory.replaceAll('\\', '/'));
    await useIn(directory);
    assert.equal(fs.readdirSync(directory).length, 1);
    const { dir, name } = path.parse(directory);
    setDirectory(t, `${dir}\\none\\..\\.\\\\${name}\\`);
    await openIn(undefined).request('a', async () => {
      assert.equal((await openIn(directory).query()).held.length, 1);
    });
  });

  it('are by default in the user’s own folder', async (t) => {
    setDirectory(t, undefined);
    await host.locks.request('a', () => {});
    const directory = path.join(process.env.LOCALAPPDATA, 'web-locks');
    assert.ok(fs.readdirSync(directory).length > 0);
  });

  it('are refused where other users may write', async () => {
    // Wine has no icacls: there run.js makes the directory.
    const { WEB_LOCKS_TEST_OPEN_DIRECTORY: open = freshDirectory() } = process.env;
    if (!process.env.WEB_LOCKS_TEST_OPEN_DIRECTORY) {
      fs.mkdirSync(open);
      execFileSync('icacls', [open, '/grant', '*S-1-1-0:(OI)(CI)F'], { stdio: 'ignore' });
    }
    await refusedIn(open, /gives rights to another user, S-1-1-0, .*icacls/);
  });

  it('are refused if they are files, are nowhere, or have no drive', async (t) => {
    const file = path.join(root, 'a file');
    fs.writeFileSync(file, '');
    await refusedIn(file, /is not a directory/);
    await refusedIn(path.join(root, 'nowhere', 'locks'), /Its parent directory must exist/);
    await refusedIn('Q:\\locks', /Q:\\locks/);
    setDirectory(t, '\\locks');
    await refusedIn(undefined, /\\locks, is not absolute/);
  });
});

describe('harm', () => {
  it('a lock is lost when its file is deleted, where the system allows that', async (t) => {
    const { locks, where } = freshBucket(t);
    let reason;
    const held = locks.request('a', async (lock) => {
      try {
        fs.rmSync(path.join(folderIn(where.directory), 'bucket'));
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

  it('the members of a bucket make the file peers anew when it is moved', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await RemoteProcess.start(t, where);
    await locks.request('a', async () => {
      const peers = path.join(folderIn(where.directory), 'peers');
      const changes = fsPromises.watch(path.dirname(peers), {
        signal: AbortSignal.timeout(20_000),
      });
      const made = (async () => {
        for await (const _ of changes) if (fs.existsSync(peers)) return;
      })();
      fs.renameSync(peers, `${peers}.old`);
      await made;
      await other.ask('query');
      await locks.query(); // once it is answered, no process uses these files
      const lives = [0, 1].map((member) => fs.readFileSync(peers).readBigUInt64LE(32 * member));
      assert.ok(lives.every((life) => life !== 0n));
    });
  });
});
