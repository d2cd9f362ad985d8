// slow: 2

'use strict';

/** Warnings whose question about others is not answered: they harm nobody. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { describe, it } = require('node:test');
const { HostBackend } = require('../../lib/backend/host.js');
const { NativeBackend } = require('../../lib/backend/native.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const { startBeside } = require('../helpers/beside.js');
const { lacksHost: noHost } = require('../helpers/host-scope.js');
const { freshName } = require('../helpers/locks.js');
const { freshDirectory } = require('../helpers/process.js');

/** @returns {Promise<string>} the message of the next warning, for which nothing else goes on */
async function warning() {
  const alive = setInterval(() => {}, 1000);
  const [{ code, message }] = await once(process, 'warning');
  clearInterval(alive);
  assert.equal(code, 'WEB_LOCKS_SLOW');
  return message;
}

/** Another thread that holds the lock `a` of a backend, while this one is blocked. */
function startHolder(t, where, mode = 'exclusive') {
  const source = `
    const { createLockManager } = require(lib + '/extensions/manager/lock-manager.js');
    const backend = new (require(lib + file)[of])(...given);
    const handle = await createLockManager(backend).acquire('a', { mode });
    say(1);
    waitWhile(1);
    await handle.release();
    say(3);`;
  const lib = path.join(__dirname, '../../lib');
  const holder = startBeside(t, source, { ...where, lib, mode });
  holder.waitWhile(0);
  return {
    release() {
      holder.say(2);
      holder.waitWhile(2);
    },
  };
}

const scopes = {
  process: {
    open: () => ({ file: '/backend/native.js', of: 'NativeBackend', given: [freshName()] }),
    make: (given) => new NativeBackend(...given),
    question: 'holders',
  },
  host: {
    skip: noHost,
    open: (t) => ({
      file: '/backend/host.js',
      of: 'HostBackend',
      given: ['bucket', freshDirectory(t)],
    }),
    make: (given) => new HostBackend(...given),
    question: 'seenHolders',
  },
};

/** Nobody is named. */
const NOBODY =
  /^(Waited for|Still waiting for) lock "a" (for|after) [\d.]+ m?s( \(holder unknown\))?\.$/;

/** What a program prints that holds a lock for long, by each call that has one. */
function warningsOf(env) {
  const program = `
    const { Mutex, locks } = require(${JSON.stringify(path.join(__dirname, '../../lib/index.js'))});
    const alive = setInterval(() => {}, 1000);
    const calls = {
      forgets: () => locks.acquire('forgotten'),
      lingers: () => locks.request('request', () => new Promise(() => {})),
      keeps: () => new Mutex('mutex').acquire(),
    };
    process.on('warning', ({ code, message }) => {
      console.log(JSON.stringify({ code, message }));
      if (++count === 3) setImmediate(() => process.exit());
    });
    let count = 0;
    globalThis.kept = Object.entries(calls).map(([name, call]) => call());`;
  const options = { env: { ...process.env, ...env }, encoding: 'utf8' };
  const output = execFileSync(process.execPath, ['--no-warnings', '-e', program], options);
  return output.trim().split('\n').map(JSON.parse);
}

describe('WEB_LOCKS_WARN_AFTER', () => {
  it('warns as the option, and says where the lock was requested', () => {
    const warnings = warningsOf({ WEB_LOCKS_WARN_AFTER: '1' });
    for (const [i, place] of ['forgets', 'lingers', 'keeps'].entries()) {
      const { code, message } = warnings[i];
      assert.equal(code, 'WEB_LOCKS_SLOW');
      assert.match(message, /^Still holding lock "\w+" after .* It was requested:\n {4}at /);
      assert.match(message.split('\n')[1], new RegExp(`at (Object\\.)?${place} \\(\\[eval\\]`));
    }
  });
});

describe('warnAfter of a lock that is held', () => {
  it('says that it is not known who waits, where that question fails', async (t) => {
    const backend = new NativeBackend(freshName());
    t.after(() => backend.close());
    const locks = createLockManager(backend);
    t.mock.method(backend, 'details', async () => {
      throw new Error('no');
    });
    const handle = await locks.acquire('a', { warnAfter: 1 });
    assert.match(await warning(), /waiters unknown/);
    handle.release();
  });

  it('says that it was held, if that is over when it is known who waits', async (t) => {
    const backend = new NativeBackend(freshName());
    t.after(() => backend.close());
    const handle = await createLockManager(backend).acquire('a', { warnAfter: 1 });
    const { details } = backend;
    t.mock.method(backend, 'details', (name) => {
      handle.release();
      return details.call(backend, name);
    });
    assert.match(
      await warning(),
      /^Held lock "a" for [\d.]+ m?s \(no waiters\)\. It was requested:\n {4}at /,
    );
  });
});

describe('warnAfter of a request that waits', () => {
  it('says that it has waited, if that is over when it is known who holds', async (t) => {
    const backend = new NativeBackend(freshName());
    t.after(() => backend.close());
    const locks = createLockManager(backend);
    const handle = await locks.acquire('a');
    const request = locks.request('a', { warnAfter: 1 }, () => {});
    // As in a scope that has to ask.
    backend.holders = undefined;
    backend.askHolders = async () => {
      handle.release();
      await request;
      return [];
    };
    assert.match(await warning(), /^Waited for lock "a" for [\d.]+ m?s\.$/);
  });
});

for (const [scope, { skip, open, make, question }] of Object.entries(scopes)) {
  const what = `warnAfter of a request that is granted when it is asked who holds, ${scope}`;
  describe(what, { skip }, () => {
    /** The lock is given to the request before the question, and this thread hears of it after. */
    async function setUp(t) {
      const where = open(t);
      const backend = make(where.given);
      t.after(() => backend.close());
      await backend.ready;
      const holder = startHolder(t, where);
      const ask = backend[question];
      const releaseAndAsk = (...given) => {
        holder.release();
        return ask.apply(backend, given);
      };
      t.mock.method(backend, question, releaseAndAsk, { times: 1 });
      return createLockManager(backend);
    }

    it('does not say that its thread holds the lock', async (t) => {
      const locks = await setUp(t);
      const granted = locks.request('a', { warnAfter: 1 }, () => {});
      assert.match(await warning(), NOBODY);
      await granted;
    });

    it('does not say so where the thread is blocked', async (t) => {
      const locks = await setUp(t);
      locks.acquireSync('a', { timeout: 60_000, warnAfter: 1 }).release();
      assert.match(await warning(), NOBODY);
    });
  });
}
