'use strict';

/**
 * `web-locks/host` on Windows: what its port does that others do in another way. Run there by
 * `node test/windows/host.js`, or under Wine by run.js.
 */

const assert = require('node:assert/strict');
const { execFileSync, fork } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const fsPromises = require('node:fs/promises');
const os = require('node:os');
const path = require('node:path');
const { after, afterEach, describe, it } = require('node:test');
const host = require('../../lib/host.js');

const root = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-'));
const opened = [];
after(async () => {
  await Promise.all(opened.map((bucket) => bucket.close()));
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 5 });
});

/** A directory for a test of its own. */
let directories = 0;
const freshDirectory = () => path.join(root, `locks ${++directories}`);

/** Another process. */
class Member {
  static #all = new Set();
  #answers = new Map();
  #numbers = 0;

  static async start() {
    const member = new Member();
    member.child = fork(path.join(__dirname, 'member.js'), {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    member.exited = once(member.child, 'exit');
    Member.#all.add(member);
    await once(member.child, 'message');
    member.child.on('message', ({ id, answer, error, code }) => {
      const { resolve, reject } = member.#answers.get(id);
      if (error) reject(Object.assign(new Error(error), { code }));
      else resolve(answer);
    });
    return member;
  }

  /** Two or more, which start beside each other. */
  static several(count) {
    return Promise.all(Array.from({ length: count }, () => Member.start()));
  }

  static async killAll() {
    await Promise.all([...Member.#all].map((member) => member.kill()));
    Member.#all.clear();
  }

  /** The number of what it is told; `answers` has its promise. */
  tell(what, message = {}) {
    const id = message.id ?? `${what} ${++this.#numbers}`;
    const answer = new Promise((resolve, reject) => this.#answers.set(id, { resolve, reject }));
    answer.catch(() => {});
    this.child.send({ do: what, ...message, id });
    return answer;
  }

  async kill() {
    this.child.kill('SIGKILL');
    await this.exited;
  }
}

function ofBucket(directory, name = '') {
  const bucket = host.openBucket(name, { directory });
  opened.push(bucket);
  return bucket;
}

/** Waits until so many requests are pending, by queries one after the other. */
async function pending(locks, count) {
  while ((await locks.query()).pending.length !== count);
}

describe('processes', () => {
  afterEach(() => Member.killAll());

  it('who waits is granted what a killed process held', async () => {
    const directory = freshDirectory();
    const [holder, waiter] = await Member.several(2);
    await holder.tell('hold', { directory, name: 'a' });
    const waits = waiter.tell('hold', { directory, name: 'a' });
    await pending(ofBucket(directory).locks, 1);
    await holder.kill();
    assert.equal(await waits, 'granted');
  });

  it('the death of who has the place of one that left is noticed', async () => {
    const directory = freshDirectory();
    const [first, second] = await Member.several(2);
    const { locks } = ofBucket(directory);
    await locks.request('mine', () => {}); // a member before them
    await first.tell('hold', { directory, name: 'a', id: 'mine' });
    const waits = locks.request('a', () => 'granted'); // and so it watches the first
    await pending(locks, 1);
    await first.tell('close', { directory }); // its process lives on
    assert.equal(await waits, 'granted');
    await second.tell('hold', { directory, name: 'b' });
    const waitsForSecond = locks.request('b', () => 'granted');
    await pending(locks, 1);
    await second.kill();
    assert.equal(await waitsForSecond, 'granted');
  });

  it('50 buckets are open in two processes', async () => {
    const directory = freshDirectory();
    const members = await Member.several(2);
    const fill = (member) => member.tell('fill', { directory, count: 50, names: 3 });
    await Promise.all(members.map(fill));
    assert.equal(fs.readdirSync(directory).length, 50);
  });

  it('the file grows while several processes have it open', async () => {
    const directory = freshDirectory();
    const members = await Member.several(2);
    const file = () => path.join(directory, fs.readdirSync(directory)[0], 'bucket');
    await members[0].tell('hold', { directory, name: 'b' });
    const before = fs.statSync(file()).size;
    const crowd = await members[0].tell('crowd', { directory, count: 3000 });
    assert.equal(crowd, 3000);
    assert.ok(fs.statSync(file()).size > 4 * before);
    assert.equal(await members[1].tell('crowd', { directory, count: 100 }), 100);
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
  afterEach(() => Member.killAll());

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

  it('who has a bucket open makes the file peers anew when it is moved, and can be woken', async () => {
    const directory = freshDirectory();
    const other = await Member.start();
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
      await other.tell('query', { directory });
      await locks.query(); // when it has an answer nobody is at these files
      const lives = [0, 1].map((member) => fs.readFileSync(peers).readBigUInt64LE(32 * member));
      assert.ok(lives.every((life) => life !== 0n));
    });
  });
});
