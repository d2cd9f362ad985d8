// slow: 5

'use strict';

/** `web-locks elect`, and `web-locks once` without a server. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { requestLock } = require('../../lib/cli/elect.js');
const { pendingOn } = require('../helpers/process.js');
const { check, setUp: setUpBucket, skip } = require('./command.js');

const LEADS = 'echo leads; while :; do read line || exit 3; [ "$line" ] && exit "$line"; done';

/** `stand` starts a candidate whose command ends with the status that is typed. */
function setUp(t) {
  const { locks, run, start } = setUpBucket(t);
  const stand = (...more) => start('elect a', ...more, '--', 'sh', '-c', LEADS);
  const steal = () => locks.request('a', { steal: true }, () => {});
  return { locks, run, start, stand, steal };
}

describe('web-locks elect', { skip }, () => {
  it('one candidate leads, and the next by --priority when its command has ended', async (t) => {
    const { locks, stand } = setUp(t);
    const first = stand('--label', 'first');
    await first.says(/leads/);
    const third = stand();
    await pendingOn(locks, 'a', 1);
    const second = stand('--label', 'second', '--priority', '1');
    await pendingOn(locks, 'a', 2);
    assert.equal((await locks.leader('a')).label, 'first');
    await first.endsAfter('7', 7);
    await Promise.race([second, third].map((one) => one.says(/leads/)));
    assert.equal((await locks.leader('a')).label, 'second');
    await second.endsAfter('0');
  });

  it('a leader that loses the lock ends its command until it leads again', async (t) => {
    const { stand, steal } = setUp(t);
    const command = stand('-v');
    await command.says(/leads/);
    await steal();
    await command.says(/leads\nleads/);
    assert.match(command.stderr, /Lock "a" was stolen .* The command gets SIGTERM\./);
    assert.equal(command.stderr.match(/acquired lock "a"/g).length, 2);
    await command.endsAfter('5', 5);
  });

  it('does not start a command again that ended before the lock was lost', async (t) => {
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

  it('ends by a signal after its command, also while that of a lost term ends', async (t) => {
    const { locks, stand, start, steal } = setUp(t);
    const leader = stand();
    await leader.says(/leads/);
    leader.kill('SIGTERM');
    assert.equal((await leader.ended).signal, 'SIGTERM');
    assert.equal(await locks.leader('a'), null);
    const script = 'trap \'echo told\' TERM; echo leads; until [ "$line" ]; do read line; done';
    const loser = start('elect a -- bash -c', script);
    await loser.says(/leads/);
    await steal();
    await loser.says(/told/);
    loser.kill('SIGTERM');
    await loser.says(/told\ntold/);
    loser.type('end\n');
    check(await loser.ended, { signal: 'SIGTERM', stdout: 'leads\ntold\ntold\n' });
  });

  it('ends if its command cannot be started', async (t) => {
    assert.equal((await setUp(t).run('elect a -- /none')).code, 127);
  });
});

it('web-locks once runs its command until it succeeds, and then skips it, without an open bucket', {
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
