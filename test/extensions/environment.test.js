// slow: 4

'use strict';

/** Environment variables. Each is tested in a process of its own. */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { describe, it } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');

const library = JSON.stringify(require.resolve('../../lib/index.js'));

/** Runs a program with the variable. @returns a promise of its output */
const run = (program, value = 'reject') =>
  new Promise((resolve) => {
    const env = { ...process.env, WEB_LOCKS_DEADLOCK: value };
    const source = `
      const { Mutex, Semaphore, locks, DeadlockError } = require(${library});
      const isDeadlock = (error) => error instanceof DeadlockError;
      const tell = (value) => require('node:fs').writeSync(1, String(value));
      (async () => {${program}})();`;
    execFile(process.execPath, ['-e', source], { env, timeout: 60_000 }, (error, stdout, stderr) =>
      resolve(error ? String(error) : stdout + stderr),
    );
  });

describe('WEB_LOCKS_DEADLOCK=reject', () => {
  it('is for every call from the first one on, also in workers, and prints nothing', async () => {
    const output = await run(`
      await locks.request('a', async () => {
        tell(await locks.request('a', () => {}).catch(isDeadlock));
        tell(await locks.acquire('a').catch(isDeadlock));
        tell(await locks.requestAll(['a', 'b'], () => {}).catch(isDeadlock));
        tell(await new Mutex('a').acquire().catch(isDeadlock));
        try {
          locks.acquireSync('a', { timeout: 1e6 });
        } catch (error) {
          tell(isDeadlock(error));
        }
      });
      const mutex = new Mutex();
      tell(await mutex.runExclusive(() => mutex.acquire()).catch(isDeadlock));
      locks.acquireSync('a', { timeout: 0 }).release();
      const program = \`
        const { locks } = require(${library.replaceAll('"', "'")});
        locks.request('a', () => locks.request('a', () => {})).catch(({ name }) => {
          require('node:worker_threads').parentPort.postMessage(name);
        });\`;
      const { Worker } = require('node:worker_threads');
      new Worker(program, { eval: true }).on('message', tell);`);
    assert.equal(output, `${'true'.repeat(6)}DeadlockError`);
  });

  it('rejects a resize that waits for itself, which has changed nothing then', async () => {
    const output = await run(`
      const semaphore = new Semaphore(2);
      await semaphore.run(async () => {
        tell(await semaphore.resize(1).catch(isDeadlock));
        const { available, pending } = semaphore;
        tell([available, pending]);
        (await semaphore.tryAcquire())();
      });
      const release = await semaphore.acquire({ weight: 2 });
      tell(await semaphore.tryAcquire());
      release();
      await semaphore.resize(3);
      tell(semaphore.available);`);
    assert.equal(output, 'true1,0null3');
  });

  it('without it, both requests have to say it', async () => {
    for (const outer of [{}, { deadlock: 'reject' }]) {
      const output = await run(
        `
        const signal = AbortSignal.timeout(50);
        setTimeout(() => {}, 500);
        const inner = () => locks.request('a', { signal, deadlock: 'reject' }, () => {});
        tell(await locks.request('a', ${JSON.stringify(outer)}, inner).catch(({ name }) => name));`,
        '',
      );
      assert.equal(output, outer.deadlock ? 'DeadlockError' : 'TimeoutError');
    }
  });
});

describe('a wrong value of an environment variable', () => {
  const profile = require.resolve('../../lib/profile.js');
  const cases = [
    ['WEB_LOCKS_DEADLOCK', ['Reject', '1'], "'reject'"],
    ['WEB_LOCKS_WARN_AFTER', ['5s', '-1', ' 5', '1e3'], 'a whole number of milliseconds'],
    ['WEB_LOCKS_PROFILE_SIZE', ['much', '100', '-1'], 'a number of bytes from 65536 to 2^30'],
    ['WEB_LOCKS_PROFILE_SITES', ['no', 'toString'], "'0' or '1'"],
  ];
  for (const [variable, values, expected] of cases) {
    const preloads = variable.includes('PROFILE') ? ['--require', profile] : [];
    // The output is read, because Bun emits warnings of a preload before the program can listen.
    const warningsWith = (value, t) =>
      new Promise((resolve, reject) => {
        const env = { ...process.env, [variable]: value };
        const source = `const { locks } = require(${library});
          locks.request('a', () => locks.query());`;
        const args = [...preloads, '-e', source];
        const options = { env, cwd: freshDirectory(t), timeout: 60_000 };
        execFile(process.execPath, args, options, (error, _stdout, stderr) =>
          error ? reject(error) : resolve(stderr.match(/LockWarning: .*/g) ?? []),
        );
      });

    it(`${variable}: one warning says what is expected, and the program runs`, async (t) => {
      for (const value of values) {
        assert.deepEqual(await warningsWith(value, t), [
          `LockWarning: ${variable} is '${value}'; expected ${expected}. ` +
            'The variable has no effect.',
        ]);
      }
      assert.deepEqual(await warningsWith('', t), []);
    });
  }
});
