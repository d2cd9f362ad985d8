// slow: 5

'use strict';

// Small things in corners where options, forms and contexts meet.

const assert = require('node:assert/strict');
const { readFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');
const { describe, it } = require('node:test');
const vm = require('node:vm');
const { LockTimeoutError, Mutex, RWLock, locks } = require('../../lib/index.js');
const install = require('../../lib/install.js');
const { FREE, rejectionOf, freshName, hold, nothing, stateOf } = require('../helpers/locks.js');
const { run } = require('../helpers/program.js');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');

const lib = path.join(__dirname, '..', '..', 'lib');

describe('warnAfter', () => {
  it('does not warn of a wait after a miss', async () => {
    const { warnings } = await run(`
      const held = await hold(locks, 'x');
      await locks.request('x', { ifAvailable: true, warnAfter: 5 }, (lock) =>
        // This timer is later than that of the warning.
        new Promise((resolve) => setTimeout(resolve, 20)),
      );
      await locks.acquire('x', { ifAvailable: true, warnAfter: 5 });
      await new Promise((resolve) => setTimeout(resolve, 20));
      held.release();
      await held.released;
    `);
    assert.deepEqual(warnings, []);
  });

  /** A worker that holds the lock 'x' until that many milliseconds after another one waits. */
  const heldByWorker = (ms) => `
    const worker = new Worker(
      \`const { parentPort } = require('node:worker_threads');
       const { setImmediate, setTimeout } = require('node:timers/promises');
       const { locks } = require(\${JSON.stringify(entry)});
       locks.request('x', async () => {
         parentPort.postMessage('held');
         while ((await locks.query()).pending.length === 0) await setImmediate();
         await setTimeout(${ms});
       });\`,
      { eval: true },
    );
    await once(worker, 'message');
  `;

  it('warns of a wait of acquireSync() that took longer', async () => {
    const { warnings } = await run(`
      ${heldByWorker(1_000)}
      locks.acquireSync('x', { timeout: 60_000, warnAfter: 5 }).release();
      await once(worker, 'exit');
    `);
    assert.equal(warnings.length, 1);
    assert.equal(warnings[0].code, 'WEB_LOCKS_SLOW');
    assert.match(
      warnings[0].message,
      /^Waited for lock "x" for [\d.]+ m?s \(held by thread \d+ of this process, for [\d.]+ m?s\)\.$/,
    );
  });

  it('warns of such a wait, and not of the lock, if it sees only the grant', async () => {
    const { warnings } = await run(`
      ${heldByWorker(10)}
      locks.acquireSync('x', { timeout: 60_000, warnAfter: 5 }).release();
      await once(worker, 'exit');
    `);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0].message, /^Waited for lock "x" for [\d.]+ m?s/);
  });

  it('tells how long acquireSync() has waited, whenever the thread returns', async () => {
    const { value, warnings } = await run(`
      ${heldByWorker(60_000)}
      const start = performance.now();
      assert.throws(() => locks.acquireSync('x', { timeout: 100, warnAfter: 5 }), /Timed out/);
      const took = performance.now() - start;
      while (performance.now() - start < 2 * took);
      await worker.terminate();
      return took;
    `);
    assert.equal(warnings.length, 1);
    const [, ms] = /^Waited for lock "x" for (\d+) ms \(held by/.exec(warnings[0].message);
    assert.ok(Number(ms) >= 100 && Number(ms) <= value, `${ms} of ${value} ms`);
  });

  it('of more than a timer can count does not warn early, but then', async () => {
    const { value } = await run(
      `
      const held = await hold(locks, 'x');
      // Two and a half of the longest timer: what passes of real time meanwhile is much less.
      const request = locks.request('x', { warnAfter: 2.5 * 2 ** 31 }, () => {});
      await turn();
      const counts = [];
      for (const ms of [2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1]) {
        mock.timers.tick(ms);
        await turn();
        counts.push(report.warnings.length);
      }
      await held.release();
      await request;
      mock.timers.reset();
      return counts;
      `,
      {
        before: `
          const { mock } = require('node:test');
          mock.timers.enable({ apis: ['setTimeout'] });`,
      },
    );
    assert.deepEqual(value, [0, 0, 1]);
  });
});

it('.end is told of a miss', () =>
  run(`
    const held = await hold(locks, 'x');
    const told = [];
    subscribe('locks.request.end', ({ ifAvailable, error }) => told.push({ ifAvailable, error }));
    const options = { ifAvailable: true };
    assert.equal(await locks.request('x', options, (lock) => lock), null);
    assert.equal(await locks.acquire('x', options), null);
    assert.equal(locks.tryAcquireSync('x'), null);
    await turn();
    assert.deepEqual(told, Array(3).fill({ ifAvailable: true, error: undefined }));
    await held.release();
  `));

describe('install() twice, undone in the other order', () => {
  it('in the end there is what was there before', () => {
    const target = { navigator: { locks: 'theirs' }, Lock: 'theirs' };
    const [first, second] = [install(target), install(target)];
    first();
    second();
    assert.deepEqual(target, { navigator: { locks: 'theirs' }, Lock: 'theirs' });
  });
});

it('`this` in a callback is undefined', async () => {
  const reject = { deadlock: 'reject' };
  const held = await hold(locks, freshName());
  for (const call of [
    (callback) => locks.request(held.lock.name, { ifAvailable: true }, callback),
    (callback) => locks.request(freshName(), reject, callback),
    (callback) => locks.requestAll([freshName()], callback),
    (callback) => locks.requestAll([freshName()], reject, callback),
    (callback) => new Mutex().runExclusive(callback),
  ]) {
    let seen = 'not called';
    await call(function () {
      seen = this;
    });
    assert.equal(seen, undefined, String(call));
  }
  await held.release();
});

describe('in a vm context without the platform’s globals', () => {
  /** Loads a fresh copy of lib into a bare context. */
  function loadBare() {
    const context = vm.createContext({});
    const registry = new Map();
    const load = (file) => {
      if (registry.has(file)) return registry.get(file).exports;
      const module = { exports: {} };
      registry.set(file, module);
      const source = `(function (exports, require, module, __filename, __dirname) {${readFileSync(file)}\n})`;
      const nodeRequire = createRequire(file);
      const localRequire = (id) => {
        const target = nodeRequire.resolve(id);
        return target.startsWith(lib) ? load(target) : nodeRequire(id);
      };
      const evaluate = vm.runInContext(source, context, { filename: file });
      evaluate(module.exports, localRequire, module, file, path.dirname(file));
      return module.exports;
    };
    return load(path.join(lib, 'index.js'));
  }
  it('the library works', async (t) => {
    const bare = loadBare();
    const name = freshName();
    const told = [];
    const listener = (message) => message.name === name && told.push(typeof message.waited);
    subscribe('locks.request.grant', listener);
    t.after(() => unsubscribe('locks.request.grant', listener));
    await bare.locks.request(name, nothing);
    assert.deepEqual(told, ['number']);
    const held = await hold(locks, name);
    for (const timeout of [0, 5]) {
      const late = bare.locks.request(name, { timeout }, nothing);
      await assert.rejects(late, { name: 'TimeoutError' });
    }
    await held.release();
    const handle = await bare.locks.acquire(name, { warnAfter: 1e6 });
    handle.release();
    assert.equal(handle.released, true);
    const names = [name, freshName()];
    assert.equal(await bare.locks.requestAll(names, { timeout: 1e6 }, (all) => all.length), 2);
    (await bare.locks.acquireAll(names)).release();
    const robbed = await hold(bare.locks, name, { deadlock: 'reject' });
    const thief = await hold(bare.locks, name, { steal: true });
    await assert.rejects(robbed.released, { name: 'AbortError' });
    assert.equal(robbed.lock.signal.aborted, true);
    await thief.release();
    assert.equal(await new bare.Mutex(name).runExclusive(() => 7, { timeout: 1000 }), 7);
    bare.locks.acquireSync(name, { timeout: 5 }).release();
    bare.locks.tryAcquireSync(name).release();
    assert.deepEqual(await stateOf(bare.locks, name), FREE);
    assert.ok((await bare.locks.query({ details: true })).held);
  });
});

describe('an error shows the line of the call', () => {
  const forms = {
    request: (name, options) => locks.request(name, options, () => {}),
    acquire: (name, options) => locks.acquire(name, options),
    requestAll: (name, options) => locks.requestAll([name], options, () => {}),
    acquireAll: (name, options) => locks.acquireAll([name], options),
    'Mutex.acquire': (name, options) => new Mutex(name).acquire(options),
    'Mutex.runExclusive': (name, options) => new Mutex(name).runExclusive(() => {}, options),
    'RWLock.acquireShared': (name, options) => new RWLock(name).acquireShared(options),
    'RWLock.runShared': (name, options) => new RWLock(name).runShared(() => {}, options),
  };
  it('of a time limit, by each form', async () => {
    for (const [title, make] of Object.entries(forms)) {
      const name = freshName();
      const held = await hold(locks, name);
      const whoAsked = () => make(name, { timeout: 5 });
      const error = await rejectionOf(whoAsked());
      await held.release();
      assert.ok(error instanceof LockTimeoutError);
      assert.match(error.stack, /^\w+: Timed out/);
      assert.match(error.stack, /at whoAsked /, title);
    }
  });

  it('acquireSync(): the time is over', () =>
    run(`
      const worker = new Worker(
        'const { parentPort } = require("node:worker_threads");' +
        'require(' + JSON.stringify(entry) + ').locks.request("x", () => {' +
        '  parentPort.postMessage("held");' +
        '  return new Promise((resolve) => parentPort.once("message", resolve));' +
        '});',
        { eval: true },
      );
      await once(worker, 'message');
      const whoAsked = () => locks.acquireSync('x', { timeout: 5 });
      assert.throws(whoAsked, (error) => /at whoAsked /.test(error.stack));
      worker.postMessage('end');
      await once(worker, 'exit');
    `));

  it('a deadlock', async () => {
    const name = freshName();
    const options = { deadlock: 'reject' };
    await locks.request(name, options, async () => {
      const whoAsked = () => locks.request(name, options, () => {});
      await assert.rejects(whoAsked(), (error) => /at whoAsked /.test(error.stack));
    });
  });

  it('a theft, of a lock that was asked for with a time limit', async () => {
    const name = freshName();
    let thief;
    const whoAsked = () =>
      locks.request(name, { timeout: 1e6 }, () => {
        thief = hold(locks, name, { steal: true });
        return thief;
      });
    const error = await whoAsked().then(assert.fail, (reason) => reason);
    await (await thief).release();
    assert.equal(error.name, 'AbortError');
    assert.match(error.stack, /at whoAsked /);
  });
});
