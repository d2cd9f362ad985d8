'use strict';

/** A program that ends while it holds a lock of a cluster: its locks are given back, and that is all. */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const { test } = require('node:test');

const HERE = JSON.stringify(path.join(__dirname, 'here.js'));

/** Runs a program that has `bucket`, of `server`, and says how it ends. */
function run(program) {
  const whole = `
    const { newServer, openBucket } = require(${HERE});
    const server = newServer();
    const { bucket, network } = openBucket(server);
    process.on('exit', () => console.log('left', JSON.stringify(server.left)));
    ${program}
  `;
  return new Promise((resolve) => {
    execFile(process.execPath, ['-e', whole], (error, stdout, stderr) => {
      resolve({ code: error ? error.code : 0, stdout: stdout.split('\n'), stderr });
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
