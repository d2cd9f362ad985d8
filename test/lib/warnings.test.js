// slow: 2

'use strict';

/** When the library warns about a lock, and what it says if the others are unknown. */

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { describe, it } = require('node:test');
const { openBucket } = require('../../lib/index.js');
const { NativeBackend } = require('../../lib/backend/native.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const { startBeside } = require('../helpers/beside.js');
const { freshName } = require('../helpers/locks.js');
const { run } = require('../helpers/program.js');

/** @returns {Promise<string>} the next warning; nothing else keeps the process alive */
async function warning() {
  const alive = setInterval(() => {}, 1000);
  const [{ code, message }] = await once(process, 'warning');
  clearInterval(alive);
  assert.equal(code, 'WEB_LOCKS_SLOW');
  return message;
}

/** @returns what a program prints that holds a lock for long, by each call that has one */
function warningsOf(env) {
  const program = `
    const { Mutex, locks } = require(${JSON.stringify(path.join(__dirname, '../../lib/index.js'))});
    setInterval(() => {}, 1000);
    const calls = {
      forgets: () => locks.acquire('forgotten'),
      lingers: () => locks.request('request', () => new Promise(() => {})),
      keeps: () => new Mutex('mutex').acquire(),
    };
    const warnings = [];
    process.on('warning', ({ code, message }) => {
      if (warnings.push({ code, message }) < 3) return;
      console.log(JSON.stringify(warnings));
      process.exit();
    });
    globalThis.kept = Object.values(calls).map((call) => call());`;
  const options = { env: { ...process.env, ...env }, encoding: 'utf8' };
  return JSON.parse(execFileSync(process.execPath, ['--no-warnings', '-e', program], options));
}

function setUpNative(t) {
  const backend = new NativeBackend(freshName());
  t.after(() => backend.close());
  return { backend, locks: createLockManager(backend) };
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
  it('says that the waiters are unknown if the query for them fails', async (t) => {
    const { backend, locks } = setUpNative(t);
    t.mock.method(backend, 'details', async () => {
      throw new Error('no');
    });
    const handle = await locks.acquire('a', { warnAfter: 1 });
    assert.match(await warning(), /waiters unknown/);
    handle.release();
  });

  it('says that the lock was held if it is released before the waiters are known', async (t) => {
    const { backend, locks } = setUpNative(t);
    const handle = await locks.acquire('a', { warnAfter: 1 });
    const { details } = backend;
    t.mock.method(backend, 'details', (name) => {
      handle.release();
      return details.call(backend, name);
    });
    const held = /^Held lock "a" for [\d.]+ m?s \(no waiters\)\. It was requested:\n {4}at /;
    assert.match(await warning(), held);
  });
});

describe('warnAfter of a request that waits', () => {
  it('says that the request waited if it is granted before the holders are known', async (t) => {
    const { backend, locks } = setUpNative(t);
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

  it('names the holder and the wait of acquireSync(), even if it comes late', async (t) => {
    const name = freshName();
    const { locks } = openBucket(name);
    const source = `
      const handle = await require(library).openBucket(name).locks.acquire('a');
      say(1);
      waitWhile(1);`;
    startBeside(t, source, { name }).waitWhile(0);
    const start = performance.now();
    assert.throws(() => locks.acquireSync('a', { timeout: 100, warnAfter: 5 }), /Timed out/);
    const took = performance.now() - start;
    while (performance.now() - start < 2 * took);
    const held = /^Waited for lock "a" for (\d+) ms \(held by thread \d+ of this process, for /;
    const [, ms] = held.exec(await warning());
    assert.ok(Number(ms) >= 100 && Number(ms) <= took, `${ms} of ${took} ms`);
  });

  it('warns after more than a timer can count, and not before', async () => {
    const before = `
      const { mock } = require('node:test');
      mock.timers.enable({ apis: ['setTimeout'] });`;
    const program = `
      const held = await hold(locks, 'x');
      // Two and a half of the longest timer: what passes of real time meanwhile is much less.
      const request = locks.request('x', { warnAfter: 2.5 * 2 ** 31 }, () => {});
      await turn();
      const counts = [];
      for (let i = 0; i < 3; i++) {
        mock.timers.tick(2 ** 31 - 1);
        await turn();
        counts.push(report.warnings.length);
      }
      await held.release();
      await request;
      mock.timers.reset();
      return counts;`;
    assert.deepEqual((await run(program, { before })).value, [0, 0, 1]);
  });
});
