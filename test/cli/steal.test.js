// slow: 6

'use strict';

/** `web-locks steal`. */

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { hold } = require('../helpers/locks.js');
const { PROGRAM, check, noTerminal, setUp, skip } = require('./command.js');

describe('web-locks steal', { skip }, () => {
  it('takes the lock from all holders, names them, and gives it to the next waiter', async (t) => {
    const { locks, run } = setUp(t);
    const robbed = [];
    for (const label of ['one', 'two'])
      robbed.push(await hold(locks, 'a', { mode: 'shared', label }));
    const next = locks.request('a', () => 'granted');
    const { code, stdout, stderr } = await run('steal a --yes');
    assert.equal(code, 0);
    assert.match(stderr, /^web-locks: lock "a" is held by:\n/);
    const [, pid] =
      /Waiting requests: 1\.\nweb-locks: process (\d+) took lock "a" from them\.\n$/.exec(stderr);
    const { message } = await robbed[0].released.catch((error) => error);
    assert.ok(message.includes(`(process ${pid}, client `), message);
    const who = `^stolen from process ${process.pid} \\("one"\\), for .*\nstolen from .*two`;
    assert.match(stdout, new RegExp(who));
    for (const { lock } of robbed) assert.equal(lock.held, false);
    assert.equal(await next, 'granted');
  });

  it('names every holder to a slow reader', async (t) => {
    const { locks, at } = setUp(t);
    const label = 'x'.repeat(4000);
    for (let i = 0; i < 100; i++) await hold(locks, 'a', { mode: 'shared', label });
    const script = '"$@" 2>&1 >/dev/null | { read first; while read -r line; do echo line; done; }';
    const words = ['-c', script, 'sh', process.execPath, PROGRAM, 'steal', 'a', '--yes', ...at];
    const { status, stdout } = spawnSync('sh', words, { encoding: 'utf8' });
    assert.deepEqual([status, stdout.split('\n').length - 1], [0, 101]);
  });

  it('takes nothing if the lock is free, and says where it looked, and who holds it', async (t) => {
    const { locks, run, bucket, directory } = setUp(t);
    const nobody = 'web-locks: nobody holds lock "a" in';
    const stderr = `${nobody} bucket "${bucket}" of ${directory}.\n`;
    check(await run('steal a -y'), { code: 0, stdout: '', stderr });
    await hold(locks, 'a');
    await hold(locks, 'b');
    check(await run('steal a -y --bucket other'), {
      code: 0,
      stderr:
        `${nobody} bucket "other" of ${directory}.\n` +
        'Other buckets with locks or requests of this name (--bucket NAME chooses one):\n' +
        `  bucket "${bucket}" (1 held, 0 waiting)\n`,
    });
  });

  it('refuses without a terminal and without --yes', async (t) => {
    const { locks, run } = setUp(t);
    const { lock } = await hold(locks, 'a');
    const stderr =
      /standard input is not a terminal\.\nUse --yes to take the lock without asking\.\n$/;
    check(await run('steal a'), { code: 64, stderr });
    assert.equal(lock.held, true);
  });
});

describe('web-locks steal, in a terminal', { skip: noTerminal }, () => {
  for (const [answer, keys, code] of [
    ['yes', 'y\r', 0],
    ['no', 'n\r', 1],
    ['nothing', '\r', 1],
    ['the end of the input', '\x04', 1],
  ]) {
    it(`asks, and ends with ${code} if the answer is ${answer}`, async (t) => {
      const { locks, inTerminal } = setUp(t);
      const { lock } = await hold(locks, 'a', { label: 'whom' });
      const thief = inTerminal('steal a');
      await thief.says(/\("whom"\)[\s\S]*Steal it from them\? \[y\/N\] $/);
      assert.equal(lock.held, true);
      thief.type(keys);
      check(await thief.ended, { code, stdout: code === 0 ? /stolen from process/ : /N\]/ });
      assert.equal(lock.held, code !== 0);
    });
  }

  it('asks again if another request holds the lock by then', async (t) => {
    const { locks, inTerminal } = setUp(t);
    const first = await hold(locks, 'a');
    const thief = inTerminal('steal a');
    await thief.says(/\[y\/N\] $/);
    await first.release();
    const { lock } = await hold(locks, 'a', { label: 'another' });
    thief.type('y\r');
    await thief.says(/have changed in the meantime[\s\S]*another[\s\S]*\[y\/N\] $/);
    thief.type('n\r');
    assert.equal((await thief.ended).code, 1);
    assert.equal(lock.held, true);
  });
});
