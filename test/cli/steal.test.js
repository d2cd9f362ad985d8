// slow: 10

'use strict';

/** `web-locks steal`. */

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const { describe, it } = require('node:test');
const { hold } = require('../helpers/locks.js');
const { freshBucket } = require('../helpers/process.js');
const { PROGRAM, noTerminal, run, skip, startInTerminal } = require('./command.js');

/** A fresh bucket, and the options that name it. */
function setUp(t) {
  const { locks, where } = freshBucket(t);
  return { locks, at: ['--directory', where.directory, '--bucket', where.bucket] };
}

describe('web-locks steal', { skip }, () => {
  it('takes the lock from all who hold it, names them, and gives it to the next', async (t) => {
    const { locks, at } = setUp(t);
    const robbed = [];
    for (const label of ['one', 'two']) {
      robbed.push(await hold(locks, 'a', { mode: 'shared', label }));
    }
    const next = locks.request('a', () => 'granted');
    const { code, stdout, stderr } = await run(t, ['steal', 'a', '--yes', ...at]);
    assert.equal(code, 0);
    assert.match(stderr, /^web-locks: lock "a" is held by:\n/);
    const [, pid] =
      /Waiting requests: 1\.\nweb-locks: process (\d+) took lock "a" from them\.\n$/.exec(stderr);
    const { message } = await robbed[0].released.catch((error) => error);
    assert.ok(message.includes(`(process ${pid}, client `), message);
    assert.match(
      stdout,
      new RegExp(`^stolen from process ${process.pid} \\("one"\\), for .*\nstolen from .*two`),
    );
    for (const { lock } of robbed) assert.equal(lock.held, false);
    assert.equal(await next, 'granted');
  });

  it('says all, to a reader who is slow', async (t) => {
    const { locks, at } = setUp(t);
    const label = 'x'.repeat(4000);
    for (let i = 0; i < 100; i++) await hold(locks, 'a', { mode: 'shared', label });
    const script = '"$@" 2>&1 >/dev/null | { read first; while read -r line; do echo line; done; }';
    const { status, stdout } = spawnSync(
      'sh',
      ['-c', script, 'sh', process.execPath, PROGRAM, 'steal', 'a', '--yes', ...at],
      { encoding: 'utf8' },
    );
    assert.equal(status, 0);
    // The last one says who took it.
    assert.equal(stdout.split('\n').length - 1, 101);
  });

  it('does nothing if nobody holds it, and says where it looked and who has the name', async (t) => {
    const { locks, at } = setUp(t);
    const [, directory, , bucket] = at;
    const nobody = 'web-locks: nobody holds lock "a" in';
    const one = await run(t, ['steal', 'a', '-y', ...at]);
    assert.deepEqual(
      [one.code, one.stdout, one.stderr],
      [0, '', `${nobody} bucket "${bucket}" of ${directory}.\n`],
    );
    await hold(locks, 'a');
    await hold(locks, 'b');
    const { code, stderr } = await run(t, ['steal', 'a', '-y', '-d', directory]);
    assert.equal(code, 0);
    assert.equal(
      stderr,
      `${nobody} the default bucket of ${directory}.\n` +
        'Other buckets with locks or requests of this name (--bucket NAME chooses one):\n' +
        `  bucket "${bucket}" (1 held, 0 waiting)\n`,
    );
  });

  it('refuses without a terminal and without --yes', async (t) => {
    const { locks, at } = setUp(t);
    const { lock } = await hold(locks, 'a');
    const { code, stderr } = await run(t, ['steal', 'a', ...at]);
    assert.equal(code, 64);
    assert.match(
      stderr,
      /standard input is not a terminal\.\nUse --yes to take the lock without asking\.\n$/,
    );
    assert.equal(lock.held, true);
  });
});

describe('web-locks steal, in a terminal', { skip: noTerminal }, () => {
  it('asks, and steals if the answer is yes', async (t) => {
    const { locks, at } = setUp(t);
    const { lock } = await hold(locks, 'a', { label: 'whom' });
    const thief = startInTerminal(t, ['steal', 'a', ...at]);
    await thief.says(/\("whom"\)[\s\S]*Steal it from them\? \[y\/N\] $/);
    assert.equal(lock.held, true);
    thief.type('y\r');
    const { code, stdout } = await thief.ended;
    assert.equal(code, 0);
    assert.match(stdout, /stolen from process/);
    assert.equal(lock.held, false);
  });

  for (const [title, keys] of [
    ['no', 'n\r'],
    ['an empty line', '\r'],
    ['the end of the input', '\x04'],
  ]) {
    it(`does not steal if the answer is ${title}`, async (t) => {
      const { locks, at } = setUp(t);
      const { lock } = await hold(locks, 'a');
      const thief = startInTerminal(t, ['steal', 'a', ...at]);
      await thief.says(/\[y\/N\] $/);
      thief.type(keys);
      assert.equal((await thief.ended).code, 1);
      assert.equal(lock.held, true);
    });
  }

  it('asks again if somebody else holds it by then', async (t) => {
    const { locks, at } = setUp(t);
    const first = await hold(locks, 'a');
    const thief = startInTerminal(t, ['steal', 'a', ...at]);
    await thief.says(/\[y\/N\] $/);
    await first.release();
    const { lock } = await hold(locks, 'a', { label: 'another' });
    thief.type('y\r');
    await thief.says(/have changed in the meantime[\s\S]*another[\s\S]*\[y\/N\] $/);
    assert.equal(lock.held, true);
    thief.type('n\r');
    assert.equal((await thief.ended).code, 1);
    assert.equal(lock.held, true);
  });
});
