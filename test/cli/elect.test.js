// slow: 5

'use strict';

/** `web-locks elect`, and `web-locks once` without a server. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { requestLock } = require('../../lib/cli/elect.js');
const { hold } = require('../helpers/locks.js');
const { pendingOn } = require('../helpers/process.js');
const { check, setUp: setUpBucket, skip } = require('./command.js');

const LEADS = 'echo leads; while :; do read line || exit 3; [ "$line" ] && exit "$line"; done';

/** `stand` starts one that stands for election; its command ends with the status that is typed. */
function setUp(t) {
  const { locks, run, start } = setUpBucket(t);
  const stand = (...more) => start('elect a', ...more, '--', 'sh', '-c', LEADS);
  const steal = () => locks.request('a', { steal: true }, () => {});
  return { locks, run, start, stand, steal };
}

describe('web-locks elect', { skip }, () => {
  it('one of those who stand runs its command; the next one when that has ended', async (t) => {
    const { locks, stand } = setUp(t);
    const first = stand('--label', 'first');
    await first.says(/leads/);
    const second = stand('--label', 'second');
    await pendingOn(locks, 'a');
    assert.equal((await locks.leader('a')).label, 'first');
    assert.equal(second.stdout, '');
    await first.endsAfter('7', 7);
    await second.says(/leads/);
    assert.equal((await locks.leader('a')).label, 'second');
    await second.endsAfter('0');
  });

  it('--priority leads before candidates that have less of it', async (t) => {
    const { locks, stand } = setUp(t);
    const { release } = await hold(locks, 'a');
    stand();
    await pendingOn(locks, 'a', 1);
    const first = stand('--priority', '1', '--label', 'first');
    await pendingOn(locks, 'a', 2);
    await release();
    await first.says(/leads/);
    assert.equal((await locks.leader('a')).label, 'first');
  });

  it('who loses the lock ends its command, and starts it again when it leads again', async (t) => {
    const { stand, steal } = setUp(t);
    const command = stand('-v');
    await command.says(/leads/);
    await steal();
    await command.says(/leads\nleads/);
    assert.match(command.stderr, /Lock "a" was stolen .* The command gets SIGTERM\./);
    assert.equal(command.stderr.match(/acquired lock "a"/g).length, 2);
    await command.endsAfter('5', 5);
  });

  it('a command that has ended by itself is not started again, if the lock is lost then', async (t) => {
    const { locks, steal } = setUp(t);
    let terms = 0;
    const runCommand = async () => {
      terms++;
      await steal();
    };
    const request = { isLost: false, label: 'test', locks, name: 'a', values: {} };
    await requestLock({ runCommand, ...request });
    assert.equal(terms, 1);
  });

  it('a signal goes to the command, and ends the election with it', async (t) => {
    const { locks, stand } = setUp(t);
    const command = stand();
    await command.says(/leads/);
    command.kill('SIGTERM');
    assert.equal((await command.ended).signal, 'SIGTERM');
    assert.equal(await locks.leader('a'), null);
  });

  it('a signal while the command of a lost term ends is not forgotten', async (t) => {
    const { start, steal } = setUp(t);
    const script = 'trap \'echo told\' TERM; echo leads; until [ "$line" ]; do read line; done';
    const command = start('elect a -- bash -c', script);
    await command.says(/leads/);
    await steal();
    await command.says(/told/);
    command.kill('SIGTERM');
    await command.says(/told\ntold/);
    command.type('end\n');
    check(await command.ended, { signal: 'SIGTERM', stdout: 'leads\ntold\ntold\n' });
  });

  it('a command that cannot be started ends the election', async (t) => {
    assert.equal((await setUp(t).run('elect a -- /none')).code, 127);
  });
});

it('web-locks once runs its command once on the machine, also when nobody has the bucket open', {
  skip,
}, async (t) => {
  const { run, start } = setUp(t);
  const once = (...words) => run('once a --keep forever --', ...words);
  const killed = start('once a --keep 1h -- sh -c', 'echo runs; cat');
  await killed.says(/runs/);
  killed.kill('SIGKILL');
  await killed.ended;
  assert.equal((await once('sh', '-c', 'echo fails; exit 7')).code, 7);
  assert.equal((await once('echo', 'runs')).stdout, 'runs\n');
  check(await once('echo', 'skipped'), { code: 0, signal: null, stdout: '', stderr: '' });
});
