'use strict';

/**
 * What `web-locks run` does about Ctrl-C, Ctrl-Break and the end of its console, on Windows. Run there
 * by `node test/windows/signals.js`, or under Wine by run.js. WEB_LOCKS_TEST_CONSOLE is the program
 * that console.c makes.
 */

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { EventEmitter, once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const host = require('../../lib/host.js');
const { deferred } = require('../helpers/locks.js');
const { pendingOn } = require('../helpers/process.js');

process.env.WEB_LOCKS_DIRECTORY = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-'));
const { locks } = host;
const CONSOLE = process.env.WEB_LOCKS_TEST_CONSOLE;
const WEB_LOCKS = [process.execPath, path.join(__dirname, '..', '..', 'bin', 'web-locks.js')];

const EVENTS = [
  { event: 'Ctrl-C', key: 'c', signal: 'SIGINT' },
  { event: 'Ctrl-Break', key: 'b', signal: 'SIGBREAK' },
  { event: 'the end of the console', key: 'x', signal: 'SIGHUP' },
];
/** What does not end fails; far more than one needs. */
const LIMIT = { timeout: 60_000 };
/** The status of a program that such an event ends. */
const CONTROL_C_EXIT = 0xc000013a;

/**
 * Starts a program in a console of its own. `ended` has its status and what it said, and resolves when
 * no process has its output any more.
 */
function start(t, ...words) {
  const child = spawn(CONSOLE, words);
  t.after(() => child.stdin.end());
  let said = '';
  const news = new EventEmitter();
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      said += chunk;
      news.emit('said');
    });
  }
  const ended = once(child, 'close').then(([status]) => ({ status, said }));
  const says = (pattern) =>
    new Promise((resolve, reject) => {
      const look = () => {
        const match = pattern.exec(said);
        if (match) resolve(match);
      };
      news.on('said', look);
      look();
      ended.then(() => reject(new Error(`it has not said ${pattern} but ${said}`)), reject);
    });
  return { press: (key) => child.stdin.write(key), says, ended };
}

/** A command that says what it is told, and has work to do then, until it gets lock "work". */
const WORKS = `
  const { locks } = require(${JSON.stringify(path.join(__dirname, '..', '..', 'lib', 'host.js'))});
  for (const signal of ['SIGINT', 'SIGBREAK', 'SIGHUP']) {
    process.on(signal, async () => {
      console.log('told', signal);
      await locks.request('work', () => {});
      console.log('done');
      process.exit(9);
    });
  }
  setInterval(() => {}, 1e6);
  console.log('runs', process.pid);`;
/** A command that knows nothing of signals. */
const LIVES = "setInterval(() => {}, 1e6); console.log('runs', process.pid)";

const lives = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/** Holds a lock until it is released, or the test ends. */
async function hold(t, name) {
  const held = deferred();
  const done = deferred();
  locks.request(name, () => {
    held.resolve();
    return done.promise;
  });
  t.after(done.resolve);
  await held.promise;
  return done.resolve;
}

for (const { event, key, signal } of EVENTS) {
  describe(`${event} of a web-locks run`, { skip: !CONSOLE && 'needs console.c' }, () => {
    it('is told to the command, and the lock is held until that has ended', LIMIT, async (t) => {
      const release = await hold(t, 'work');
      const runs = start(t, ...WEB_LOCKS, 'run', 'a', '--', process.execPath, '-e', WORKS);
      const [, pid] = await runs.says(/runs (\d+)/);
      const waits = locks.request('a', () => 'granted');
      runs.press(key);
      await runs.says(new RegExp(`told ${signal}`));
      const { held } = await locks.query({ name: 'a' });
      assert.equal(held.length, 1);
      release();
      const { status, said } = await runs.ended;
      assert.equal(status, 9);
      assert.match(said, /done/);
      assert.equal(await waits, 'granted');
      assert.ok(!lives(Number(pid)));
    });

    it('ends a command that does not know it, and web-locks alike', LIMIT, async (t) => {
      const alone = start(t, process.execPath, '-e', LIVES);
      await alone.says(/runs/);
      alone.press(key);
      const expected = (await alone.ended).status;
      const runs = start(t, ...WEB_LOCKS, 'run', 'a', '--', process.execPath, '-e', LIVES);
      const [, pid] = await runs.says(/runs (\d+)/);
      runs.press(key);
      assert.equal((await runs.ended).status, expected);
      assert.ok(!lives(Number(pid)));
      assert.equal(await locks.request('a', () => 'granted'), 'granted');
    });

    it('ends one that waits, and its place in the queue', LIMIT, async (t) => {
      await hold(t, 'a');
      const waits = start(t, ...WEB_LOCKS, 'run', 'a', '--', process.execPath, '-e', LIVES);
      await pendingOn(locks, 'a');
      waits.press(key);
      const { status, said } = await waits.ended;
      assert.deepEqual([status, said], [CONTROL_C_EXIT, '']);
      assert.deepEqual((await locks.query({ name: 'a' })).pending, []);
    });
  });
}
