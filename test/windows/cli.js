'use strict';

/**
 * `web-locks run` on Windows (`node test/windows/cli.js`), or under Wine by run.js.
 * WEB_LOCKS_TEST_CONSOLE is the program made from console.c.
 */

const assert = require('node:assert/strict');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Command, PROGRAM, check, root, setUp } = require('../cli/command.js');
const { hold } = require('../helpers/locks.js');
const { pendingOn } = require('../helpers/process.js');

const CONSOLE = process.env.WEB_LOCKS_TEST_CONSOLE;
/** The limit for tests that could hang; they need far less. */
const LIMIT = { timeout: 60_000 };
/** The exit code of a program that a console event ends. */
const CONTROL_C_EXIT = 0xc000013a;

/** A command that prints its process id, and then runs until it is ended. */
const LIVES = [
  process.execPath,
  '-e',
  "setInterval(() => {}, 1e6); console.log('runs', process.pid)",
];
/** The same command as in a batch file. */
const LIVES_IN_CMD = ['cmd', '/c', ...LIVES];

/** A command that prints the signals it receives, and ends once it has the lock "work". */
const worksIn = ({ bucket, directory }) => [
  process.execPath,
  '-e',
  `const { openBucket } = require(${JSON.stringify(path.join(root, 'lib', 'host.js'))});
  const { locks } = openBucket('${bucket}', ${JSON.stringify({ directory })});
  for (const signal of ['SIGINT', 'SIGBREAK', 'SIGHUP']) {
    process.on(signal, async () => {
      console.log('told', signal);
      await locks.request('work', () => {});
      console.log('done');
      process.exit(9);
    });
  }
  setInterval(() => {}, 1e6);
  console.log('runs', process.pid);`,
];

const lives = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/** Waits until the command of `web-locks` runs. @returns {Promise<number>} its process id */
const pidOf = async (command) => Number((await command.says(/runs (\d+)\s/))[1]);

describe('web-locks run', () => {
  it('runs a command with the lock, and ends as it', async (t) => {
    const script = 'console.log(process.env.WEB_LOCKS_NAME); process.exit(7)';
    const ending = await setUp(t).run('run', 'ä b', '--', process.execPath, '-e', script);
    check(ending, { code: 7, stdout: 'ä b\n' });
  });

  it('does not run it while another process has the lock', async (t) => {
    const { locks, run } = setUp(t);
    await hold(locks, 'a');
    const stderr = /lock "a" is not available/;
    check(await run('run --if-available a -- cmd /c'), { code: 1, stderr });
  });

  it('frees the lock when it is killed, as taskkill /F does', async (t) => {
    const { locks, start } = setUp(t);
    const holder = start('run a --', ...LIVES);
    const pid = await pidOf(holder);
    const waits = locks.request('a', () => 'granted');
    holder.kill('SIGKILL');
    assert.equal(await waits, 'granted');
    if (lives(pid)) process.kill(pid, 'SIGKILL');
  });

  it('ends all that the command has started when it is killed', async (t) => {
    const holder = setUp(t).start('run a --', ...LIVES_IN_CMD);
    const pid = await pidOf(holder);
    holder.kill('SIGKILL');
    await holder.ended; // the output ends when all of them have ended
    assert.ok(!lives(pid));
  });

  for (const [title, words] of Object.entries({ node: LIVES, cmd: LIVES_IN_CMD })) {
    it(`ends the command and all that it started when the lock is stolen: ${title}`, async (t) => {
      const { locks, start } = setUp(t);
      const holder = start('run a --', ...words);
      const pid = await pidOf(holder);
      await locks.request('a', { steal: true }, () => {});
      check(await holder.ended, { code: 75, stderr: /The command gets SIGTERM/ });
      assert.ok(!lives(pid));
    });
  }

  it('does not lead again before all that the command has started has ended', async (t) => {
    const { locks, start } = setUp(t);
    const leader = start('elect a --', ...LIVES_IN_CMD);
    const first = await pidOf(leader);
    await locks.request('a', { steal: true }, () => {});
    const [, second] = await leader.says(/runs \d+\s+runs (\d+)\s/);
    assert.ok(!lives(first));
    leader.kill('SIGKILL');
    await leader.ended;
    assert.ok(!lives(Number(second)));
  });

  it('does not end a process that the command leaves behind', async (t) => {
    const script = `
      const words = ['-e', 'setInterval(() => {}, 1e6)'];
      const options = { detached: true, stdio: 'ignore' };
      const left = require('node:child_process').spawn(process.execPath, words, options);
      console.log(left.pid);
      left.unref();`;
    const { code, stdout } = await setUp(t).run('run a --', process.execPath, '-e', script);
    assert.equal(code, 0);
    assert.ok(lives(Number(stdout)));
    process.kill(Number(stdout), 'SIGKILL');
  });

  it('says how a batch file is started', async (t) => {
    const stderr = /was not found\. If it is a batch file, use cmd: -- cmd \/c/;
    check(await setUp(t).run('run a -- no-such-program'), { code: 127, stderr });
  });
});

for (const { event, key, signal } of [
  { event: 'Ctrl-C', key: 'c', signal: 'SIGINT' },
  { event: 'Ctrl-Break', key: 'b', signal: 'SIGBREAK' },
  { event: 'the end of the console', key: 'x', signal: 'SIGHUP' },
]) {
  describe(`${event} of a web-locks run`, { skip: !CONSOLE && 'needs console.c' }, () => {
    const inConsole = (t, ...words) => new Command(t, CONSOLE, words);
    const runInConsole = (t, at, words) =>
      inConsole(t, process.execPath, PROGRAM, 'run', 'a', ...at, '--', ...words);

    it('goes to the command, until whose end the lock is held', LIMIT, async (t) => {
      const place = setUp(t);
      const { at, locks } = place;
      const work = await hold(locks, 'work');
      const runs = runInConsole(t, at, worksIn(place));
      const pid = await pidOf(runs);
      const waits = locks.request('a', () => 'granted');
      runs.type(key);
      await runs.says(new RegExp(`told ${signal}`));
      assert.equal((await locks.query({ name: 'a' })).held.length, 1);
      await work.release();
      check(await runs.ended, { code: 9, stdout: /done/ });
      assert.equal(await waits, 'granted');
      assert.ok(!lives(pid));
    });

    it('ends a command that has no handler for it, and web-locks alike', LIMIT, async (t) => {
      const { at, locks } = setUp(t);
      const alone = inConsole(t, ...LIVES);
      await pidOf(alone);
      alone.type(key);
      const { code } = await alone.ended;
      const runs = runInConsole(t, at, LIVES);
      const pid = await pidOf(runs);
      runs.type(key);
      check(await runs.ended, { code });
      assert.ok(!lives(pid));
      assert.equal(await locks.request('a', () => 'granted'), 'granted');
    });

    it('ends one that waits, and its place in the queue', LIMIT, async (t) => {
      const { at, locks } = setUp(t);
      await hold(locks, 'a');
      const waits = runInConsole(t, at, LIVES);
      await pendingOn(locks, 'a');
      waits.type(key);
      check(await waits.ended, { code: CONTROL_C_EXIT, stdout: '', stderr: '' });
      assert.deepEqual((await locks.query({ name: 'a' })).pending, []);
    });
  });
}
