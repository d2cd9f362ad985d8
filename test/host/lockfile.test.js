// slow: 3

'use strict';

/** `web-locks/lockfile` behaves like proper-lockfile, except that it has no lock files. */

const assert = require('node:assert/strict');
const { fork, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { inspect } = require('node:util');
const fc = require('fast-check');
const proper = require('proper-lockfile');
const { endWith } = require('../helpers/ending.js');
const { deferred, nothing, turn } = require('../helpers/locks.js');
const { root: directories } = require('../helpers/root.js');

const root = fs.realpathSync(fs.mkdtempSync(path.join(directories, 'web-locks-lockfile-')));
process.env.WEB_LOCKS_DIRECTORY = path.join(root, 'locks');
after(() => fs.rmSync(root, { recursive: true, force: true }));

const lockfile = require('../../lib/lockfile.js');
const { LockStolenError, LockTimeoutError, openBucket } = require('../../lib/host.js');
const { toOptions } = require('../../lib/lockfile/options.js');
const { pendingOn } = require('../helpers/process.js');
const { lock, unlock, check, lockSync, unlockSync, checkSync } = lockfile;
const { locks } = openBucket('web-locks/lockfile');

const ENTRY = path.join(__dirname, '../../lib/lockfile.js');
const HOST = path.join(__dirname, '../../lib/host.js');
const FIXTURE = path.join(__dirname, '../fixtures/lockfile.js');

let files = 0;

/** @returns a file that no other test uses, and that is there */
function freshFile() {
  const file = path.join(root, `file ${++files}`);
  fs.writeFileSync(file, '');
  return file;
}

/** `node:fs` whose `realpath` fails. */
const broken = {
  ...fs,
  realpath: (_, callback) => callback(new Error('broken')),
  realpathSync: () => {
    throw new Error('broken');
  },
};

const LOCKED = { code: 'ELOCKED', message: /already being held/ };
const NOT_ACQUIRED = { code: 'ENOTACQUIRED', message: /not acquired\/owned by you/ };
const RELEASED = { code: 'ERELEASED', message: 'Lock is already released' };

/** Both forms of the function. */
const forms = {
  promises: { lock, fails: assert.rejects },
  Sync: { lock: lockSync, fails: assert.throws },
};

it('the module is `lock`, and the entry of ESM has the same functions', async () => {
  assert.equal(lockfile, lockfile.lock);
  const { default: main, ...named } = await import('../../lib/lockfile.mjs');
  assert.equal(main, lockfile);
  assert.deepEqual(named, { ...lockfile });
});

for (const [form, { lock, fails }] of Object.entries(forms)) {
  describe(`${form}: lock`, () => {
    it('checks its path and its options', async () => {
      const file = freshFile();
      const error = { name: 'TypeError' };
      await fails(() => lock(file, { onCompromised: 'x' }), error);
      await fails(() => lock(file, { retries: { minTimeout: 'x' } }), error);
      await fails(() => lock(file, { retries: { minTimeout: 5, maxTimeout: 4 } }), error);
      await fails(() => lock(file, { retries: [100, '100'] }), error);
      await fails(() => lock(7, { realpath: false }), error);
    });
  });
}

describe('any calls, in any order and form,', () => {
  const FILES = ['file', 'link', 'missing', 'no directory/missing'];
  /** Two pairs of ways to a lock, with what `lockfilePath` says. */
  const WAYS = { other: '', 'folder/other': '', third: 'x', fourth: 'folder/x' };
  const call = fc.record({
    method: fc.constantFrom('lock', 'lock', 'unlock', 'check', 'release', 'release'),
    name: fc.constantFrom(...FILES, 'file', 'link', ...Object.keys(WAYS)),
    isRelative: fc.boolean(),
    realpath: fc.constantFrom(true, true, false),
    isSync: fc.boolean(),
    isBroken: fc.constantFrom(...new Array(19).fill(false), true),
    which: fc.nat(5),
  });

  /** Makes the calls of a package in a folder of its own. @returns the answers */
  async function answersOf(module, calls) {
    const folder = path.join(root, `folder ${++files}`);
    fs.mkdirSync(folder);
    for (const name of ['file', 'other', 'third', 'fourth'])
      fs.writeFileSync(path.join(folder, name), '');
    fs.symlinkSync(path.join(folder, 'file'), path.join(folder, 'link'));
    fs.symlinkSync(folder, path.join(folder, 'folder'));
    const releases = [];
    const answer = async ({ method: drawn, name, isRelative, realpath, which, ...how }) => {
      const from = isRelative ? path.relative('.', folder) : folder;
      const at = (its) => path.join(from, its);
      const options = { realpath, stale: 3_600_000, update: 1, retries: 0 };
      if (WAYS[name]) options.lockfilePath = at(WAYS[name]);
      // Without `realpath`, the package looks up no path.
      if (how.isBroken && realpath) options.fs = broken;
      // The package cannot unlock by another way than the one by which it has locked.
      const method = drawn === 'unlock' && name in WAYS ? 'check' : drawn;
      try {
        if (method === 'release') return String(await releases[which]?.());
        const value = await module[how.isSync ? `${method}Sync` : method](at(name), options);
        if (method !== 'lock') return String(value);
        releases.push(value);
        return 'locked';
      } catch ({ code, message, file: its }) {
        const where = code === 'ELOCKED' && path.relative(folder, its);
        return code === 'ENOENT' ? code : [code, message, where];
      }
    };
    const answers = [];
    for (const one of calls) answers.push(await answer(one));
    for (const release of releases)
      await Promise.resolve(release)
        .then((end) => end())
        .catch(nothing);
    return answers;
  }

  it('have the answers of proper-lockfile', async () => {
    const property = fc.asyncProperty(fc.array(call, { maxLength: 30 }), async (calls) => {
      assert.deepEqual(await answersOf(lockfile, calls), await answersOf(proper, calls));
    });
    await fc.assert(property, { numRuns: 100, seed: 1 });
  });

  it('make no lock file, and name the file in each error', async () => {
    const file = freshFile();
    await assert.rejects(unlock(file), { ...NOT_ACQUIRED, file });
    const release = await lock(file);
    assert.equal(fs.existsSync(`${file}.lock`), false);
    await unlock(file);
    await assert.rejects(release(), { ...RELEASED, file });
  });
});

describe('retries', () => {
  it('wait for the lock, first come, first served', async () => {
    const file = freshFile();
    const release = await lock(file);
    const order = [];
    const waiting = [];
    for (const number of [1, 2, 3]) {
      const waits = async () => {
        const next = await lock(file, { retries: { retries: 3, minTimeout: 1e6 } });
        order.push(number);
        await next();
      };
      waiting.push(waits());
      // The order of the requests is fixed: each waits for its real path first, and those can
      // arrive in any order.
      await pendingOn(locks, `${file}.lock`, number);
    }
    await release();
    await Promise.all(waiting);
    assert.deepEqual(order, [1, 2, 3]);
  });

  it('wait for as long as the retries of proper-lockfile would take', () => {
    for (const [retries, milliseconds] of [
      [2, 3000],
      [{ retries: 3, minTimeout: 100 }, 700],
      [{ retries: 3, minTimeout: 100, maxTimeout: 150 }, 400],
      [{ retries: 1000, minTimeout: 5, factor: 1 }, 5000],
      [{ retries: 1e9, minTimeout: 5, factor: 0.5 }, 10],
      [{ minTimeout: 1 }, 1023],
      [{ retries: 3, minTimeout: 100, maxRetryTime: 250 }, 250],
      [[10, 20, 30], 60],
      [{ retries: 1, minTimeout: 0, factor: 3 }, 1],
      [Infinity, Infinity],
      [{ retries: Infinity }, Infinity],
      [{ forever: true }, Infinity],
      [{ retries: 2000 }, Infinity],
    ]) {
      assert.equal(toOptions({ retries }).wait, milliseconds, inspect(retries));
    }
  });

  it('end with ELOCKED', async () => {
    const file = freshFile();
    const release = await lock(file);
    const error = await lock(file, { retries: [1] }).then(assert.fail, (reason) => reason);
    assert.deepEqual([error.code, error.file], ['ELOCKED', file]);
    assert.ok(error.cause instanceof LockTimeoutError);
    await release();
  });

  it('are refused by the Sync form', () => {
    const file = freshFile();
    const error = { code: 'ESYNC', message: /Cannot use retries/ };
    for (const retries of [10, { retries: 10 }, { forever: true }, {}]) {
      assert.throws(() => lockSync(file, { retries }), error);
    }
    for (const retries of [0, { retries: 0 }, undefined, null]) lockSync(file, { retries })();
  });
});

describe('a lock that is lost', () => {
  /** Steals the lock of a file. @returns the stolen lock */
  const steal = (file) => locks.acquire(`${file}.lock`, { steal: true });
  const stealing = (file) => `
    const { locks } = require(${JSON.stringify(HOST)}).openBucket('web-locks/lockfile');
    locks.acquire(${JSON.stringify(`${file}.lock`)}, { steal: true });`;
  const spawnNode = (program) => spawnSync(process.execPath, ['-e', program], { encoding: 'utf8' });

  it('calls onCompromised, which can lock the file again', async () => {
    const file = freshFile();
    const reported = deferred();
    /** The handler's calls for the file, of which it no longer has the lock. */
    const inside = [];
    const onCompromised = (error) => {
      assert.throws(() => unlockSync(file), NOT_ACQUIRED);
      assert.throws(() => lockSync(file), LOCKED);
      inside.push(assert.rejects(release(), RELEASED), assert.rejects(unlock(file), NOT_ACQUIRED));
      reported.resolve(error);
    };
    const release = await lock(file, { onCompromised });
    const thief = await steal(file);
    const error = await reported.promise;
    await Promise.all(inside);
    assert.deepEqual([error.code, error.file], ['ECOMPROMISED', file]);
    assert.ok(error.cause instanceof LockStolenError);
    await assert.rejects(unlock(file), NOT_ACQUIRED);
    const again = lock(file, { retries: { forever: true } });
    thief.release();
    await (await again)();
  });

  it('fails in the function that releases it, if that is what finds out', async () => {
    const file = freshFile();
    const options = { onCompromised: assert.fail };
    const release = await lock(file, options);
    assert.equal(spawnNode(stealing(file)).status, 0);
    await assert.rejects(release(), { code: 'ECOMPROMISED', file });
    const releaseSync = lockSync(file, options);
    assert.equal(spawnNode(stealing(file)).status, 0);
    assert.throws(releaseSync, { code: 'ECOMPROMISED', file });
  });

  it('is reported once, however soon after its grant it is stolen', async () => {
    const seen = new Set();
    for (let turns = 0; turns < 12; turns++) {
      const file = freshFile();
      const theft = deferred();
      const realpath = (its, done) =>
        fs.realpath(its, async (...found) => {
          done(...found);
          for (let i = 0; i < turns; i++) await undefined;
          theft.resolve(steal(file));
        });
      const reported = [];
      const options = { fs: { ...fs, realpath }, onCompromised: ({ code }) => reported.push(code) };
      const outcome = await lock(file, options).then(
        () => 'locked',
        ({ code }) => code,
      );
      (await theft.promise).release();
      await turn();
      seen.add([outcome, ...reported].join());
    }
    assert.deepEqual([...seen].sort(), ['ECOMPROMISED', 'ELOCKED', 'locked,ECOMPROMISED']);
  });

  it('is an uncaught exception without onCompromised', () => {
    const file = freshFile();
    const { status, stderr } = spawnNode(`
      setInterval(() => {}, 1e6);
      require(${JSON.stringify(ENTRY)}).lock(${JSON.stringify(file)}).then(() => {
        ${stealing(file)}
      });`);
    assert.equal(status, 1);
    assert.match(stderr, /ECOMPROMISED/);
  });
});

/** Starts a process that locks files; its `ask` resolves to the answer, or an error's code. */
async function startLocker(t) {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const child = fork(FIXTURE, { env });
  endWith(t, child);
  await once(child, 'message');
  return {
    async ask(method, file) {
      child.send({ method, file });
      return (await once(child, 'message'))[0];
    },
    async kill() {
      child.kill('SIGKILL');
      await once(child, 'exit');
    },
  };
}

describe('between processes', () => {
  it('a file that another process locked is locked, and only that one can unlock it', async (t) => {
    const file = freshFile();
    const other = await startLocker(t);
    assert.equal(await other.ask('lock', file), 'locked');
    await assert.rejects(lock(file), LOCKED);
    assert.throws(() => lockSync(file), LOCKED);
    assert.deepEqual([await check(file), checkSync(file)], [true, true]);
    await assert.rejects(unlock(file), NOT_ACQUIRED);
    const waiting = lock(file, { retries: { forever: true } });
    await other.ask('release', file);
    await (await waiting)();
    assert.deepEqual([await other.ask('check', file), checkSync(file)], [false, false]);
  });

  it('checkSync takes no lock, so another process can lock meanwhile', async (t) => {
    const file = freshFile();
    const other = await startLocker(t);
    const answers = new Set();
    let isOver = false;
    const locking = (async () => {
      for (let i = 0; i < 100; i++) {
        answers.add(await other.ask('lock', file));
        await other.ask('release', file);
      }
      isOver = true;
    })();
    while (!isOver) {
      checkSync(file);
      await turn();
    }
    await locking;
    assert.deepEqual([...answers], ['locked']);
  });
});
