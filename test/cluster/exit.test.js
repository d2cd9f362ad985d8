// slow: 3; waits

'use strict';

/** Tests that a program which ends while it holds cluster locks releases them, and just ends. */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { once } = require('node:events');
const { existsSync, mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { inspect } = require('node:util');
const { Worker } = require('node:worker_threads');
const etcd = require('../../lib/etcd.js');

const HERE = JSON.stringify(path.join(__dirname, 'here.js'));
const NOTHING_LEFT = 'left {"sessions":0,"rows":0}';

/**
 * Runs a program with `open`, which opens buckets of `server`, and prints what is left there.
 * @param {string} program
 * @param {string[]} options of Node.js
 */
function run(program, options = []) {
  const whole = `
    const { newServer, openBucket } = require(${HERE});
    const server = newServer();
    const open = (options) => openBucket(server, 'a', options);
    process.on('exit', () => console.log('left', JSON.stringify(server.left)));
    ${program}
  `;
  return new Promise((resolve) => {
    execFile(process.execPath, [...options, '-e', whole], (error, stdout, stderr) => {
      const { code, signal } = error ?? { code: 0, signal: null };
      resolve({ code, signal, stdout: stdout.trim().split('\n'), stderr });
    });
  });
}

describe('a program that ends while it holds locks', () => {
  for (const [what, program, printed] of [
    [
      'gives them back, however long that takes',
      `const { bucket: { locks }, network } = open();
      locks.request('a', () => new Promise(() => {}));
      locks.request('b', { mode: 'shared' }, () => {
        // This is longer than it takes to find out that the program goes on.
        network.delay = 600;
        return new Promise(() => {});
      });`,
      [NOTHING_LEFT],
    ],
    [
      'learns that it has lost them if it goes on, and can open its bucket again',
      `const { bucket } = open();
      const ask = ({ locks }) => locks.request('b', () => 'granted').catch(({ name }) => name);
      let lock;
      bucket.locks.request('a', (got) => {
        lock = got;
        return new Promise(() => {});
      }).catch(({ reason }) => console.log('lost', reason));
      process.once('beforeExit', async () => {
        console.log('held', lock.held);
        console.log(await ask(bucket));
        console.log(await ask(open().bucket));
      });`,
      ['held false', 'lost closed', 'InvalidStateError', 'granted', NOTHING_LEFT],
    ],
  ]) {
    it(what, async () => {
      const { code, stderr, stdout } = await run(program);
      const expected = { code: 0, stderr: '', stdout: printed };
      assert.deepEqual({ code, stderr, stdout: stdout.slice(0, printed.length) }, expected);
    });
  }
});

describe('releaseOnSignal', {
  skip: process.platform === 'win32' && 'signals end a process at once',
}, () => {
  /** Runs a program with a bucket, which prints when the server has closed its session. */
  const withBucket = (program, options) =>
    run(
      `const { bucket } = open({
        signals: ['SIGTERM'],
        change(adapter) {
          const close = adapter.close.bind(adapter);
          adapter.close = async (session) => {
            await close(session);
            console.log('closed', server.left.rows);
          };
        },
      });
      const signal = () => process.kill(process.pid, 'SIGTERM');
      const goOn = setInterval(() => {}, 1_000);
      bucket.locks.acquire('a').then((lock) => {
        ${program}
      });`,
      options,
    );

  for (const [what, program] of [
    ['a signal gives the locks back, and then ends the process', 'signal();'],
    [
      'a request that runs or waits reports no loss, as the process ends',
      `bucket.locks.request('a', () => {});
      bucket.locks.request('b', () => {
        signal();
        return new Promise(() => {});
      });`,
    ],
  ]) {
    it(what, async () => {
      const { signal, stderr, stdout } = await withBucket(program);
      const expected = { signal: 'SIGTERM', stderr: '', stdout: ['closed 0'] };
      assert.deepEqual({ signal, stderr, stdout }, expected);
    });
  }

  it('the program handles the signal as well, and goes on if it likes', async () => {
    const { code, stdout } = await withBucket(`
      process.once('SIGTERM', () => console.log('handled', lock.held));
      lock.signal.addEventListener('abort', () => {
        console.log('lost', lock.signal.reason.reason);
        process.exit(3);
      });
      signal();
    `);
    assert.equal(code, 3);
    assert.deepEqual(stdout.slice(0, 3), ['handled false', 'closed 0', 'lost closed']);
  });

  it('a server that does not answer keeps no process alive', async () => {
    const { signal } = await run(`
      const change = (adapter) => { adapter.close = () => new Promise(() => {}); };
      const { locks } = open({ signals: ['SIGTERM'], change }).bucket;
      setInterval(() => {}, 1_000);
      locks.acquire('a').then(() => process.kill(process.pid, 'SIGTERM'));
    `);
    assert.equal(signal, 'SIGTERM');
  });

  it('a closed bucket leaves the signal alone', async () => {
    const program = `bucket.close().then(() => process.exit(process.listenerCount('SIGTERM')));`;
    const { code } = await withBucket(program);
    assert.equal(code, 0);
  });

  it('the profile of a program does not take it for a handler of the program', async (t) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'web-locks-'));
    t.after(() => rmSync(folder, { recursive: true }));
    const file = path.join(folder, 'profile.json');
    const profile = path.join(__dirname, '..', '..', 'lib', 'profile.js');
    process.env.WEB_LOCKS_PROFILE = file;
    const { signal, stdout } = await withBucket('signal();', ['-r', profile]);
    delete process.env.WEB_LOCKS_PROFILE;
    assert.deepEqual([signal, stdout[0], existsSync(file)], ['SIGTERM', 'closed 0', true]);
  });

  it('takes true and names of signals that can be handled', () => {
    const withOption = (releaseOnSignal) =>
      etcd.openBucket('a', { endpoints: ['http://127.0.0.1:9'], releaseOnSignal });
    for (const wrong of ['SIGTERM', 1, null, {}, ['SIGNOTHING'], ['toString'], [1]]) {
      assert.throws(() => withOption(wrong), TypeError, inspect(wrong));
    }
    assert.throws(() => withOption(['SIGKILL']), /'releaseOnSignal' has 'SIGKILL'; expected names/);
  });

  it('is refused in a worker, which no signal reaches', async () => {
    const entry = JSON.stringify(require.resolve('../../lib/etcd.js'));
    const worker = new Worker(
      `const { openBucket } = require(${entry});
       const options = { endpoints: ['http://127.0.0.1:9'], releaseOnSignal: true };
       try { openBucket('a', options); } catch ({ name }) {
         require('node:worker_threads').parentPort.postMessage(name);
       }`,
      { eval: true },
    );
    assert.deepEqual(await once(worker, 'message'), ['NotSupportedError']);
  });
});
