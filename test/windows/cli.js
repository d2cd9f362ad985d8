'use strict';

/** `web-locks run` on Windows. Run there by `node test/windows/cli.js`, or under Wine by run.js. */

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const host = require('../../lib/host.js');

const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-'));
const program = path.join(__dirname, '..', '..', 'bin', 'web-locks.js');
process.env.WEB_LOCKS_DIRECTORY = directory;
const { locks } = host;
// What this process has open goes with it.

/** Starts the command line; `ended` has its status and what it said. */
function start(...words) {
  const child = spawn(process.execPath, [program, ...words], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk) => {
      said += chunk;
    });
  }
  const ended = once(child, 'close').then(([status]) => ({ status, said }));
  return { child, ended, said: () => said };
}

/** A command that says which process it is, and then lives until it is ended. */
const LIVES = [
  '--',
  process.execPath,
  '-e',
  'console.log(process.pid); setInterval(() => {}, 1e6)',
];

/** The same as a batch file has it. */
const LIVES_IN_CMD = ['--', 'cmd', '/c', ...LIVES.slice(1)];

async function startHolder(words = LIVES) {
  const holder = start('run', 'a', ...words);
  await once(holder.child.stdout, 'data');
  return { ...holder, pid: Number(/\d+/.exec(holder.said())[0]) };
}

const lives = (pid) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

describe('web-locks run', () => {
  it('runs a command with the lock, and ends as it', async () => {
    const script = 'console.log(process.env.WEB_LOCKS_NAME); process.exit(7)';
    const { status, said } = await start('run', 'ä b', '--', process.execPath, '-e', script).ended;
    assert.equal(status, 7);
    assert.equal(said, 'ä b\n');
  });

  it('does not run it while another process has the lock', async () => {
    await locks.request('a', async () => {
      const { status, said } = await start('run', '--if-available', 'a', '--', 'cmd', '/c').ended;
      assert.equal(status, 1);
      assert.match(said, /lock "a" is not available/);
    });
  });

  it('frees the lock when it is killed, as taskkill /F does', async () => {
    const holder = await startHolder();
    const waits = locks.request('a', () => 'granted');
    holder.child.kill('SIGKILL');
    assert.equal(await waits, 'granted');
    if (lives(holder.pid)) process.kill(holder.pid, 'SIGKILL');
  });

  it('takes with it what the command has started when it is killed', async () => {
    const holder = await startHolder(LIVES_IN_CMD);
    holder.child.kill('SIGKILL');
    await holder.ended; // of the output, which is that of all of them
    assert.ok(!lives(holder.pid));
  });

  it('ends the command when the lock is stolen', async () => {
    const holder = await startHolder();
    await locks.request('a', { steal: true }, () => {});
    const { status, said } = await holder.ended;
    assert.equal(status, 75);
    assert.match(said, /The command gets SIGTERM/);
    assert.ok(!lives(holder.pid));
  });

  it('ends what the command has started when the lock is stolen', async () => {
    const holder = await startHolder(LIVES_IN_CMD);
    await locks.request('a', { steal: true }, () => {});
    const { status } = await holder.ended;
    assert.equal(status, 75);
    assert.ok(!lives(holder.pid));
  });

  it('does not lead again before all that the command has started has ended', async () => {
    const { child, ended, said } = start('elect', 'a', ...LIVES_IN_CMD);
    await once(child.stdout, 'data');
    const first = Number(said());
    const again = once(child.stdout, 'data');
    await locks.request('a', { steal: true }, () => {});
    const [second] = await again;
    assert.ok(!lives(first));
    child.kill('SIGKILL');
    await ended;
    assert.ok(!lives(Number(second)));
  });

  it('lets that live which the command leaves behind', async () => {
    const script = `
      const words = ['-e', 'setInterval(() => {}, 1e6)'];
      const options = { detached: true, stdio: 'ignore' };
      const left = require('node:child_process').spawn(process.execPath, words, options);
      console.log(left.pid);
      left.unref();`;
    const { status, said } = await start('run', 'a', '--', process.execPath, '-e', script).ended;
    assert.equal(status, 0);
    assert.ok(lives(Number(said)));
    process.kill(Number(said), 'SIGKILL');
  });

  it('says how a batch file is started', async () => {
    const { status, said } = await start('run', 'a', '--', 'no-such-program').ended;
    assert.equal(status, 127);
    assert.match(said, /was not found\. If it is a batch file, use cmd: -- cmd \/c/);
  });
});
