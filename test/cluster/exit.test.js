// slow: 3

'use strict';

/** A program that ends while it holds a lock of a cluster: its locks are given back, and that is all. */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { once } = require('node:events');
const { existsSync, mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { describe, it, test } = require('node:test');
const { inspect } = require('node:util');
const { Worker } = require('node:worker_threads');
const etcd = require('../../lib/etcd.js');

const HERE = JSON.stringify(path.join(__dirname, 'here.js'));

/** Runs a program that has `bucket`, of `server`, and says how it ends. @param {string[]} options of Node.js */
function run(program, options = []) {
  const whole = `
    const { newServer, openBucket } = require(${HERE});
    const server = newServer();
    const { bucket, network } = openBucket(server);
    process.on('exit', () => console.log('left', JSON.stringify(server.left)));
    ${program}
  `;
  return new Promise((resolve) => {
    execFile(process.execPath, [...options, '-e', whole], (error, stdout, stderr) => {
      const { code, signal } = error ?? { code: 0, signal: null };
      resolve({ code, signal, stdout: stdout.split('\n'), stderr });
    });
  });
}

const NOTHING = 'left {"sessions":0,"rows":0}';

test('a program that ends while it holds locks ends well, and gives them back', async () => {
  const { code, stderr, stdout } = await run(`
    bucket.locks.request('a', () => new Promise(() => {}));
    bucket.locks.request('b', { mode: 'shared' }, () => {
      // Giving back takes its time, longer than it takes to know who goes on.
      network.delay = 600;
      return new Promise(() => {});
    });
  `);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  assert.equal(stdout[0], NOTHING);
});

test('who goes on after all is told that he has lost his lock, and does not hold it before', async () => {
  const { code, stderr, stdout } = await run(`
    let lock;
    bucket.locks.request('a', (got) => {
      lock = got;
      return new Promise(() => {});
    }).catch(({ reason }) => console.log('told', reason));
    process.once('beforeExit', () => {
      console.log('held', lock.held);
      setTimeout(() => {}, 5_000);
    });
  `);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  assert.deepEqual(stdout.slice(0, 3), ['held false', 'told closed', NOTHING]);
});

test('who goes on after all finds the bucket closed, and can open it again', async () => {
  const { code, stderr, stdout } = await run(`
    const ask = ({ locks }) => locks.request('a', () => 'granted').catch(({ name }) => name);
    process.once('beforeExit', async () => {
      console.log(await ask(bucket));
      console.log(await ask(openBucket(server).bucket));
    });
    ask(bucket);
  `);
  assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  assert.deepEqual(stdout.slice(0, 3), ['InvalidStateError', 'granted', NOTHING]);
});

describe('releaseOnSignal', {
  skip: process.platform === 'win32' && 'signals end a process at once',
}, () => {
  /** A program with a bucket, `released`, that says when the server has closed its session. */
  const withBucket = (program, options) =>
    run(
      `
      const { bucket: released } = openBucket(server, 'released', {
        signals: ['SIGTERM'],
        change(adapter) {
          const close = adapter.close.bind(adapter);
          adapter.close = async (session) => {
            await close(session);
            console.log('closed', server.left.rows);
          };
        },
      });
      const goOn = setInterval(() => {}, 1_000);
      (async () => {
        const lock = await released.locks.acquire('a');
        ${program}
      })();
    `,
      options,
    );

  it('a signal gives the locks back, and then ends the process', async () => {
    const { signal, stderr, stdout } = await withBucket(`process.kill(process.pid, 'SIGTERM');`);
    assert.deepEqual(
      { signal, stderr, stdout },
      { signal: 'SIGTERM', stderr: '', stdout: ['closed 0', ''] },
    );
  });

  it('a request that runs or waits tells nothing, as the process ends', async () => {
    const { signal, stderr } = await withBucket(`
      released.locks.request('a', () => {});
      released.locks.request('b', () => {
        process.kill(process.pid, 'SIGTERM');
        return new Promise(() => {});
      });
    `);
    assert.deepEqual({ signal, stderr }, { signal: 'SIGTERM', stderr: '' });
  });

  it('the program handles the signal as well, and goes on if it likes', async () => {
    const { code, stdout } = await withBucket(`
      process.once('SIGTERM', () => console.log('handled', lock.held));
      lock.signal.addEventListener('abort', () => {
        console.log('told', lock.signal.reason.reason);
        process.exit(3);
      });
      process.kill(process.pid, 'SIGTERM');
    `);
    assert.equal(code, 3);
    assert.deepEqual(stdout.slice(0, 3), ['handled false', 'closed 0', 'told closed']);
  });

  it('a server that does not answer does not keep the process alive', async () => {
    const { signal } = await run(`
      const { bucket: stuck } = openBucket(server, 'stuck', {
        signals: ['SIGTERM'],
        change: (adapter) => { adapter.close = () => new Promise(() => {}); },
      });
      setInterval(() => {}, 1_000);
      stuck.locks.acquire('a').then(() => process.kill(process.pid, 'SIGTERM'));
    `);
    assert.equal(signal, 'SIGTERM');
  });

  it('a closed bucket leaves the signal alone', async () => {
    const { code } = await withBucket(`
      await released.close();
      process.exit(process.listenerCount('SIGTERM'));
    `);
    assert.equal(code, 0);
  });

  it('the profile of a program does not take it for a handler of the program', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'web-locks-'));
    process.env.WEB_LOCKS_PROFILE = path.join(folder, 'profile.json');
    const profile = path.join(__dirname, '..', '..', 'lib', 'profile.js');
    const { signal, stdout } = await withBucket(`process.kill(process.pid, 'SIGTERM');`, [
      '-r',
      profile,
    ]);
    assert.deepEqual({ signal, closed: stdout[0] }, { signal: 'SIGTERM', closed: 'closed 0' });
    assert.ok(existsSync(process.env.WEB_LOCKS_PROFILE));
    delete process.env.WEB_LOCKS_PROFILE;
    rmSync(folder, { recursive: true });
  });

  it('takes true and names of signals that can be handled', () => {
    const open = (releaseOnSignal) =>
      etcd.openBucket('a', { endpoints: ['http://127.0.0.1:9'], releaseOnSignal });
    for (const wrong of ['SIGTERM', 1, null, {}, ['SIGKILL'], ['SIGNOTHING'], ['toString'], [1]]) {
      assert.throws(() => open(wrong), TypeError, inspect(wrong));
    }
    assert.throws(() => open(['SIGKILL']), /'releaseOnSignal' has 'SIGKILL'; expected names/);
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
