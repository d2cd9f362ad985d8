// slow: 3

'use strict';

/** `navigator.locks` after `node --import web-locks/register` and `web-locks/host/register`. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { freshBucket } = require('../helpers/process.js');
const { Command, root, run, skip } = require('../cli/command.js');

/** A library for browsers elects a leader, as broadcast-channel does, until it reads a line. */
const ELECTION = `
  navigator.locks.request('leader', { ifAvailable: true }, (lock) => {
    console.log(lock ? 'leads' : 'does not lead');
    return lock && new Promise((resolve) => process.stdin.once('data', resolve));
  }).then(() => process.exit());`;

/** Starts a process that takes part in the election, with `--import` or `--require` of a module. */
function stand(t, flag, module, directory) {
  const env = { WEB_LOCKS_DIRECTORY: directory };
  return new Command(t, process.execPath, [flag, module, '-e', ELECTION], { cwd: root, env });
}

describe('navigator.locks of two processes', { skip }, () => {
  for (const flag of ['--import', '--require']) {
    it(`are the same with ${flag} web-locks/host/register: they lead in turn`, async (t) => {
      const { directory } = freshBucket(t).where;
      const first = stand(t, flag, 'web-locks/host/register', directory);
      await first.says(/^leads/);
      const second = stand(t, flag, 'web-locks/host/register', directory);
      assert.equal((await second.ended).stdout, 'does not lead\n');
      first.type('\n');
      assert.equal((await first.ended).code, 0);
      const third = stand(t, flag, 'web-locks/host/register', directory);
      await third.says(/^leads/);
    });

    it(`are not the same with ${flag} web-locks/register: each process leads`, async (t) => {
      const { directory } = freshBucket(t).where;
      for (const one of [1, 2].map(() => stand(t, flag, 'web-locks/register', directory)))
        await one.says(/^leads/);
    });
  }

  it('are the same in a worker', async (t) => {
    const { directory } = freshBucket(t).where;
    const hold = `setInterval(() => {}, 1e9);
      navigator.locks.request('w', () => { console.log('holds'); return new Promise(() => {}); });`;
    const url = JSON.stringify(`data:text/javascript,${encodeURIComponent(hold)}`);
    const script = `new (require('node:worker_threads').Worker)(new URL(${url}));`;
    const args = ['--import', 'web-locks/host/register', '-e', script];
    const env = { WEB_LOCKS_DIRECTORY: directory };
    const command = new Command(t, process.execPath, args, { cwd: root, env });
    await command.says(/holds/);
    const { code, stderr } = await run(t, ['run', 'w', '-n', '-d', directory, '--', 'true']);
    assert.equal(code, 1);
    assert.match(stderr, new RegExp(`held by process ${command.pid}, thread 1`));
  });
});
