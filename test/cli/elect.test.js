// slow: 6

'use strict';

/** `web-locks elect`, and `web-locks once` without a server. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { requestLock } = require('../../lib/cli/elect.js');
const { hold } = require('../helpers/locks.js');
const { freshBucket, pendingOn } = require('../helpers/process.js');
const { run, skip, start } = require('./command.js');

const LEADS = 'echo leads; while :; do read line || exit 3; [ "$line" ] && exit "$line"; done';

/** Starts one that stands for election; its command ends with the status that is typed. */
function stand(t, at, ...more) {
  return start(t, ['elect', 'a', ...more, ...at, '--', 'sh', '-c', LEADS]);
}

/** A fresh bucket, and the options that name it. */
function setUp(t) {
  const { locks, where } = freshBucket(t);
  return { locks, at: ['--directory', where.directory, '--bucket', where.bucket] };
}

const steal = (locks) => locks.request('a', { steal: true }, () => {});

describe('web-locks elect', { skip }, () => {
  it('one of those who stand runs its command; the next one when that has ended', async (t) => {
    const { locks, at } = setUp(t);
    const first = stand(t, at, '--label', 'first');
    await first.says(/leads/);
    const second = stand(t, at, '--label', 'second');
    await pendingOn(locks, 'a');
    assert.equal((await locks.leader('a')).label, 'first');
    assert.equal(second.stdout, '');
    first.type('7\n');
    assert.equal((await first.ended).code, 7);
    await second.says(/leads/);
    assert.equal((await locks.leader('a')).label, 'second');
    second.type('0\n');
    assert.equal((await second.ended).code, 0);
  });

  it('--priority leads before candidates that have less of it', async (t) => {
    const { locks, at } = setUp(t);
    const { release } = await hold(locks, 'a');
    stand(t, at);
    await pendingOn(locks, 'a', 1);
    const first = stand(t, at, '--priority', '1', '--label', 'first');
    await pendingOn(locks, 'a', 2);
    await release();
    await first.says(/leads/);
    assert.equal((await locks.leader('a')).label, 'first');
  });

  it('who loses the lock ends its command, and starts it again when it leads again', async (t) => {
    const { locks, at } = setUp(t);
    const command = stand(t, at, '-v');
    await command.says(/leads/);
    await steal(locks);
    await command.says(/leads\nleads/);
    assert.match(command.stderr, /Lock "a" was stolen .* The command gets SIGTERM\./);
    assert.equal(command.stderr.match(/acquired lock "a"/g).length, 2);
    command.type('5\n');
    assert.equal((await command.ended).code, 5);
  });

  it('a command that has ended by itself is not started again, if the lock is lost then', async (t) => {
    const { locks } = setUp(t);
    let terms = 0;
    const hold = async () => {
      terms++;
      await steal(locks);
    };
    await requestLock({
      runCommand: hold,
      isLost: false,
      label: 'test',
      locks,
      name: 'a',
      values: {},
    });
    assert.equal(terms, 1);
  });

  it('a signal goes to the command, and ends the election with it', async (t) => {
    const { locks, at } = setUp(t);
    const command = stand(t, at);
    await command.says(/leads/);
    command.kill('SIGTERM');
    assert.equal((await command.ended).signal, 'SIGTERM');
    assert.equal(await locks.leader('a'), null);
  });

  it('a signal while the command of a lost term ends is not forgotten', async (t) => {
    const { locks, at } = setUp(t);
    const script = 'trap \'echo told\' TERM; echo leads; until [ "$line" ]; do read line; done';
    const command = start(t, ['elect', 'a', ...at, '--', 'bash', '-c', script]);
    await command.says(/leads/);
    await steal(locks);
    await command.says(/told/);
    command.kill('SIGTERM');
    await command.says(/told\ntold/);
    command.type('end\n');
    assert.equal((await command.ended).signal, 'SIGTERM');
    assert.equal(command.stdout, 'leads\ntold\ntold\n');
  });

  it('a signal while it waits ends it, and its place in the queue', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a');
    const command = stand(t, at);
    await pendingOn(locks, 'a');
    command.kill('SIGINT');
    assert.equal((await command.ended).signal, 'SIGINT');
    assert.equal((await locks.query()).pending.length, 0);
  });

  it('a command that cannot be started ends the election', async (t) => {
    const { at } = setUp(t);
    assert.equal((await run(t, ['elect', 'a', ...at, '--', '/none'])).code, 127);
  });
});

describe('web-locks once', { skip }, () => {
  it('runs the command once on the machine, also when nobody has the bucket open', async (t) => {
    const { at } = setUp(t);
    const once = (...words) => run(t, ['once', 'a', '--keep', 'forever', ...at, '--', ...words]);
    const killed = start(t, [
      'once',
      'a',
      '--keep',
      '1h',
      ...at,
      '--',
      'sh',
      '-c',
      'echo runs; cat',
    ]);
    await killed.says(/runs/);
    killed.kill('SIGKILL');
    await killed.ended;
    assert.equal((await once('sh', '-c', 'echo fails; exit 7')).code, 7);
    assert.equal((await once('echo', 'runs')).stdout, 'runs\n');
    assert.deepEqual(await once('echo', 'skipped'), {
      code: 0,
      signal: null,
      stdout: '',
      stderr: '',
    });
  });
});
