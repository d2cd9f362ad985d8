// slow: 34

'use strict';

/** `web-locks run`. */

const assert = require('node:assert/strict');
const { readdirSync, readFileSync, writeFileSync } = require('node:fs');
const { constants } = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { nameOfCommand } = require('../../lib/cli/command-name.js');
const { CAUGHT } = require('../../lib/cli/signals.js');
const { hold } = require('../helpers/locks.js');
const { freshBucket, pendingOn } = require('../helpers/process.js');
const {
  Command,
  PROGRAM,
  noTerminal,
  run,
  signalAfterEnd,
  skip,
  start,
  startInTerminal,
} = require('./command.js');

/** Of struct wlh_header, see src/host/segment/segment.h. */
const TOKEN_AT = 88;

/** Has the tokens of all buckets of a directory, which nobody uses, go on from another one. */
function writeLastToken(directory, token) {
  const files = readdirSync(directory).map((bucket) => path.join(directory, bucket, 'bucket'));
  for (const file of files) {
    const bytes = readFileSync(file);
    bytes.writeBigUInt64LE(token, TOKEN_AT);
    writeFileSync(file, bytes);
  }
}

/** Those that do not end a process, or that Node.js ignores. */
const LEAVING =
  'SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGWINCH SIGPIPE SIGXFSZ'.split(' ');
/** Node.js has no name for it. */
const REAL_TIME = 40;
/** Those that dump a core: `web-locks` ends with a status instead. */
const CORES = ['SIGQUIT', 'SIGABRT', 'SIGXCPU'];

/** A command that says that it runs, and ends when it is told to by a line. */
const UNTIL_LINE = ['--', 'sh', '-c', 'echo runs; read line; echo ends'];

/** A fresh bucket, and the options that name it. */
function setUp(t) {
  const { locks, where } = freshBucket(t);
  return { locks, where, at: ['--directory', where.directory, '--bucket', where.bucket] };
}

describe('web-locks run', { skip }, () => {
  const onLinux = { skip: process.platform !== 'linux' && 'only Linux has what this is about' };

  it('ends with the status of the command, whose output is its own', async (t) => {
    const { at } = setUp(t);
    const script = 'echo out; echo err >&2; exit 7';
    const { code, stdout, stderr } = await run(t, ['run', 'a', ...at, '--', 'sh', '-c', script]);
    assert.deepEqual({ code, stdout, stderr }, { code: 7, stdout: 'out\n', stderr: 'err\n' });
  });

  it('gives the command its arguments as they are, and the standard input', async (t) => {
    const { at } = setUp(t);
    const script = 'process.stdin.pipe(process.stdout); console.log(process.argv.slice(1));';
    const args = ['--', process.execPath, '-e', script, '--', 'a b', '\'"$HOME\n', '', '--shared'];
    const command = start(t, ['run', 'a', ...at, ...args]);
    command.child.stdin.end('input');
    const { stdout } = await command.ended;
    assert.equal(stdout, `[ 'a b', \`'"$HOME\\n\`, '', '--shared' ]\ninput`);
  });

  for (const name of ['', 'a\nb', `'"\\ $x`, 'ä€𝄞', ' ']) {
    it(`locks the name ${JSON.stringify(name)}`, async (t) => {
      const { locks, at } = setUp(t);
      const script = 'printf %s "$WEB_LOCKS_NAME"; read line';
      const command = start(t, ['run', name, ...at, '--', 'sh', '-c', script]);
      if (name === '') await pendingOnHolder(locks, name);
      else await command.says(/[\s\S]/);
      const { held } = await locks.query();
      assert.deepEqual(
        held.map((lock) => lock.name),
        [name],
      );
      command.child.stdin.end();
      assert.equal((await command.ended).stdout, name);
    });
  }

  it('gives the command no other open file', onLinux, async (t) => {
    const { at } = setUp(t);
    const script = 'for f in 9 200; do [ -e /proc/self/fd/$f ] && echo $f; done; echo looked';
    const args = [process.execPath, PROGRAM, 'run', 'a', ...at, '--', 'sh', '-c', script];
    const open = ['-c', 'exec 9</dev/null 200</dev/null; exec "$@"', 'bash', ...args];
    const command = new Command(t, 'bash', open);
    assert.equal((await command.ended).stdout, 'looked\n');
  });

  it('leaves the settings of programs to the command', async (t) => {
    const { at } = setUp(t);
    const env = { WEB_LOCKS_DEADLOCK: 'reject', WEB_LOCKS_WARN_AFTER: 'x' };
    const script = 'echo $WEB_LOCKS_DEADLOCK $WEB_LOCKS_WARN_AFTER';
    const args = ['run', 'a', ...at, '--', 'sh', '-c', script];
    const { stdout, stderr } = await run(t, args, { env });
    assert.deepEqual({ stdout, stderr }, { stdout: 'reject x\n', stderr: '' });
  });

  it('tells the command the token of the lock, which grows', async (t) => {
    const { locks, at } = setUp(t);
    const args = ['run', 'a', ...at, '--', 'sh', '-c', 'echo $WEB_LOCKS_TOKEN'];
    const before = await locks.request('a', ({ token }) => token);
    const token = BigInt((await run(t, args)).stdout);
    assert.ok(token > before);
    assert.ok(BigInt((await run(t, args)).stdout) > token);
  });

  it('tells the command all digits of the token', async (t) => {
    const { at } = setUp(t);
    const args = ['run', 'a', ...at, '--', 'sh', '-c', 'echo $WEB_LOCKS_TOKEN'];
    await run(t, args);
    const last = 1n << 60n; // a double has none of those that follow
    writeLastToken(at[1], last);
    assert.equal(BigInt((await run(t, args)).stdout), last + 1n);
    assert.equal(BigInt((await run(t, args)).stdout), last + 2n);
  });

  it('locks in the given directory also where the environment names a server', async (t) => {
    const { at } = setUp(t);
    const env = { WEB_LOCKS_AT: 'redis://localhost:1' };
    const { code, stderr } = await run(t, ['run', 'a', ...at, '--', 'true'], { env });
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  });

  it('waits until another one has ended', async (t) => {
    const { locks, at } = setUp(t);
    const first = start(t, ['run', 'a', ...at, ...UNTIL_LINE]);
    await first.says(/runs/);
    const second = start(t, ['run', 'a', ...at, ...UNTIL_LINE]);
    await pendingOn(locks, 'a');
    assert.equal(second.stdout, '');
    first.type('\n');
    await second.says(/runs/);
    assert.match(first.stdout, /ends/);
    second.type('\n');
    assert.equal((await second.ended).code, 0);
    assert.equal((await first.ended).code, 0);
  });

  it('excludes programs that use the default bucket of the same directory', async (t) => {
    const { at } = setUp(t);
    const directory = at[1];
    const entry = require.resolve('../../lib/host.js');
    const script = `require(${JSON.stringify(entry)}).locks.query().then(({ held }) =>
      console.log(held.length, held[0].name))`;
    const env = { WEB_LOCKS_DIRECTORY: directory };
    const args = ['run', 'a', '--directory', directory, '--', process.execPath, '-e', script];
    assert.equal((await run(t, args, { env })).stdout, '1 a\n');
  });

  it('is labelled by its command, or as it says', async (t) => {
    const { locks, at } = setUp(t);
    for (const [more, label] of [
      [[], UNTIL_LINE.at(-1)],
      [['--label', 'nightly'], 'nightly'],
    ]) {
      const command = start(t, ['run', 'a', ...at, ...more, ...UNTIL_LINE]);
      await command.says(/runs/);
      assert.equal((await locks.leader('a')).label, label);
      command.type('\n');
      await command.ended;
    }
  });

  it('shows of a command what it runs, not what it is run by', () => {
    for (const [words, name] of [
      [['/usr/bin/rsync', '-a', 'b'], 'rsync'],
      [['sh', '-ec', 'one; two', 'x'], 'one; two'],
      [['/bin/bash', '--norc', '-o', 'pipefail', '-c', '-e', 'one'], 'one'],
      [['sh', '/opt/nightly.sh', '-c'], 'nightly.sh'],
      [['sh'], 'sh'],
      [['node', '/opt/import.mjs', 'x'], 'import.mjs'],
      [['bash', '--rcfile', '/dev/null', '-c', 'one'], 'one'],
      [['bash', '-O', 'extglob', 'nightly.sh'], 'nightly.sh'],
      [['zsh', '--emulate', 'sh', '-c', 'one'], 'one'],
      [['sh', '-s', 'secret'], 'sh'],
      [['sh', '-'], 'sh'],
      [['fish', '-c', 'one'], 'one'],
      [['fish', '-C', 'secret', '-c', 'one'], 'fish'],
      [['node', '--enable-source-maps', '--max-old-space-size=9', __filename], 'run.test.js'],
      [['node', '--import', __filename, 'secret'], 'node'],
      [['node', '--title', 'secret', 'x'], 'node'],
      [['python3', '-u', __filename, 'x'], 'run.test.js'],
      [['perl', '-ne', 'secret', __filename], 'perl'],
      [['php', '-f', __filename], 'run.test.js'],
      [['bun', 'run', 'job.ts'], 'job.ts'],
      [['deno', 'run', '-A', __filename], 'run.test.js'],
      [['python3.12', '-m', 'http.server'], 'python3.12'],
      [['sh', '-c', 'x'.repeat(201)], `${'x'.repeat(199)}…`],
    ]) {
      assert.equal(nameOfCommand(words), name, words.join(' '));
    }
  });

  it('--priority waits ahead of requests that have less of it', async (t) => {
    const { locks, at } = setUp(t);
    const { release } = await hold(locks, 'a');
    const last = start(t, ['run', 'a', '--priority=-1', ...at, ...UNTIL_LINE]);
    await pendingOn(locks, 'a', 1);
    const first = start(t, ['run', 'a', '-p', '5', ...at, ...UNTIL_LINE]);
    await pendingOn(locks, 'a', 2);
    const { pending } = await locks.query({ details: true });
    assert.deepEqual(
      pending.map(({ priority }) => priority),
      [5, -1],
    );
    await release();
    await first.says(/runs/);
    assert.equal(last.stdout, '');
    first.type('\n');
    await last.says(/runs/);
    last.type('\n');
    assert.deepEqual([(await first.ended).code, (await last.ended).code], [0, 0]);
  });

  it('--shared runs together with other shared ones, not with an exclusive one', async (t) => {
    const { locks, at } = setUp(t);
    const both = [1, 2].map(() => start(t, ['run', 'a', '--shared', ...at, ...UNTIL_LINE]));
    for (const command of both) await command.says(/runs/);
    const writer = start(t, ['run', 'a', ...at, ...UNTIL_LINE]);
    await pendingOn(locks, 'a');
    for (const command of both) command.type('\n');
    await writer.says(/runs/);
    writer.type('\n');
    assert.equal((await writer.ended).code, 0);
  });

  it('--limit lets so many units run at a time', async (t) => {
    const { locks, at } = setUp(t);
    const options = ['--limit', '3', ...at];
    const heavy = start(t, ['run', 'a', '--weight', '2', ...options, ...UNTIL_LINE]);
    await heavy.says(/runs/);
    const light = start(t, ['run', 'a', ...options, ...UNTIL_LINE]);
    await light.says(/runs/);
    const third = start(t, ['run', 'a', ...options, ...UNTIL_LINE]);
    await pendingOn(locks, 'a');
    light.type('\n');
    await third.says(/runs/);
    assert.equal(heavy.hasClosed, false);
  });

  it('--limit says so if the name has another limit', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a', { mode: 'shared', limit: 2 });
    const { code, stderr } = await run(t, ['run', 'a', '--limit', '3', ...at, '--', 'true']);
    assert.equal(code, 64);
    assert.match(stderr, /limit/);
  });

  it('--timeout ends the wait, with a status of its own and who holds the lock', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a', { label: 'the\ntest' });
    const { code, stdout, stderr } = await run(t, [
      'run',
      'a',
      '--timeout',
      '0.05',
      ...at,
      '--',
      'echo',
      'runs',
    ]);
    assert.equal(code, 1);
    assert.equal(stdout, '');
    assert.match(
      stderr,
      /^web-locks: timed out after 0\.05 s waiting for lock "a" \(held by process /,
    );
    assert.ok(stderr.includes(`${process.pid} ("the\\ntest"), for `), stderr);
    assert.equal((await locks.query()).pending.length, 0);
  });

  it('--if-available does not wait', async (t) => {
    const { locks, at } = setUp(t);
    const lock = await hold(locks, 'a');
    const args = ['run', 'a', '-n', ...at, '--', 'echo', 'runs'];
    const refused = await run(t, args);
    assert.equal(refused.code, 1);
    assert.equal(refused.stdout, '');
    assert.match(refused.stderr, /^web-locks: lock "a" is not available \(held by /);
    await lock.release();
    assert.deepEqual(await run(t, args), { code: 0, signal: null, stdout: 'runs\n', stderr: '' });
  });

  it('-c is a command for the shell of the user, as with flock', async (t) => {
    const { locks, at } = setUp(t);
    const line = 'echo one | tr o O; read line; exit 7';
    const command = start(t, ['run', 'a', ...at, '-c', line], { env: { SHELL: '' } });
    await command.says(/^One/);
    assert.equal((await locks.leader('a')).label, line);
    command.type('\n');
    assert.equal((await command.ended).code, 7);
    const env = { SHELL: '/bin/echo' };
    assert.equal((await run(t, ['run', 'a', ...at, '-c', 'x  y'], { env })).stdout, '-c x  y\n');
  });

  it('-v says for whom it waits, and that it has the lock', async (t) => {
    const { locks, at } = setUp(t);
    const holder = await hold(locks, 'a', { label: 'the\ntest' });
    const before = start(t, ['run', 'a', ...at, '--', 'true']);
    await pendingOn(locks, 'a');
    const command = start(t, ['run', 'a', '-v', ...at, '--', 'true']);
    const told =
      /^web-locks: waiting for lock "a" \(held by process (\d+) \("the\\ntest"\), for .*; 1 ahead\)\.\n/;
    const [, pid] = await command.says(told, 'stderr');
    assert.equal(Number(pid), process.pid);
    await holder.release();
    await command.says(/^web-locks: acquired lock "a" \(token \d+\)\.$/m, 'stderr');
    assert.equal((await command.ended).code, 0);
    assert.equal((await before.ended).stderr, '');
  });

  it('the environment of a web-locks that has ended stands in the way of nobody', async (t) => {
    const { locks, at } = setUp(t);
    const WEB_LOCKS_OUTER = `${process.pid}:1`;
    const holder = await hold(locks, 'a');
    const command = start(t, ['run', 'a', ...at, ...UNTIL_LINE], { env: { WEB_LOCKS_OUTER } });
    await pendingOn(locks, 'a');
    await holder.release();
    await command.says(/runs/);
  });

  it('inside of itself is refused, where one waits that waits for the outer one', async (t) => {
    const { locks, at } = setUp(t);
    const holder = await hold(locks, 'a', { mode: 'shared' });
    const [{ token }] = (await locks.query({ name: 'a', details: true })).held;
    const env = { WEB_LOCKS_OUTER: `${process.pid}:${token}` };
    const writer = locks.request('a', () => {});
    await pendingOn(locks, 'a');
    const inner = start(t, ['run', 'a', '-s', ...at, '--', 'true'], { env });
    assert.equal((await inner.ended).code, 64);
    const ahead = start(t, ['run', 'a', '-s', '-p', '1', ...at, '--', 'true'], { env });
    assert.equal((await ahead.ended).code, 0);
    await holder.release();
    await writer;
  });

  /** `web-locks run`s in one another; the innermost says that it runs. */
  function nested(t, ...levels) {
    const words = levels.flatMap((level) => [process.execPath, PROGRAM, 'run', ...level, '--']);
    return run(t, [...words.slice(2), 'echo', 'runs']);
  }

  it('inside of itself is refused, where it would wait for ever', async (t) => {
    const { at } = setUp(t);
    const other = ['--directory', at[1], '--bucket', 'other'];
    for (const [levels, outcome] of [
      [
        [
          ['a', ...at],
          ['a', ...at],
        ],
        64,
      ],
      [
        [
          ['a', ...at],
          ['b', ...at],
          ['a', ...at],
        ],
        64,
      ],
      [
        [
          ['a', '-s', ...at],
          ['a', ...at],
        ],
        64,
      ],
      [
        [
          ['a', ...at],
          ['a', '-s', ...at],
        ],
        64,
      ],
      [
        [
          ['a', '--limit', '2', ...at],
          ['a', '--limit', '2', '--weight', '2', ...at],
        ],
        64,
      ],
      [
        [
          ['a', '--limit', '2', ...at],
          ['a', '--limit', '2', ...at],
        ],
        0,
      ],
      [
        [
          ['a', '-s', ...at],
          ['a', '-s', ...at],
        ],
        0,
      ],
      [
        [
          ['a', ...at],
          ['b', ...at],
        ],
        0,
      ],
      [
        [
          ['a', ...at],
          ['a', ...other],
        ],
        0,
      ],
      [
        [
          ['a', ...at],
          ['a', '-n', '-q', ...at],
        ],
        1,
      ],
    ]) {
      const { code, stdout, stderr } = await nested(t, ...levels);
      const names = levels.map((level) => level.filter((word) => !at.includes(word)).join(' '));
      assert.deepEqual(
        { code, stdout },
        { code: outcome, stdout: outcome ? '' : 'runs\n' },
        names.join(),
      );
      if (outcome === 64)
        assert.match(stderr, /^web-locks: an enclosing web-locks command already holds lock "a"/);
    }
  });

  it('a name that is too long is a wrong usage', async (t) => {
    const { at } = setUp(t);
    const name = 'n'.repeat(32_769);
    for (const args of [
      ['run', name, ...at, '--', 'echo', 'runs'],
      ['steal', name, '--yes', ...at],
    ]) {
      const { code, stdout, stderr } = await run(t, args);
      assert.deepEqual({ code, stdout }, { code: 64, stdout: '' });
      assert.match(
        stderr,
        /^web-locks: the name of the lock has 32769 characters .* 32768 are allowed\.\nSee: /,
      );
    }
  });

  it('-E is the status if it did not get the lock, and -q says nothing of it', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a');
    for (const how of [['-n'], ['-w', '0'], ['-n', '-w', '0']]) {
      const args = ['run', 'a', ...how, '-q', '-E', '42', ...at, '--', 'true'];
      const { code, stdout, stderr } = await run(t, args);
      assert.deepEqual({ code, stdout, stderr }, { code: 42, stdout: '', stderr: '' });
    }
  });

  it('-E 0 is for whom did not get the lock, and for nobody else', async (t) => {
    const { locks, at } = setUp(t);
    const args = ['run', 'a', '-n', '-q', '-E', '0', ...at, '--', 'sh', '-c'];
    assert.equal((await run(t, [...args, 'exit 7'])).code, 7);
    assert.equal((await run(t, [...args, 'kill -TERM $$'])).signal, 'SIGTERM');
    const holder = await hold(locks, 'a');
    assert.equal((await run(t, [...args, 'exit 7'])).code, 0);
    await holder.release();
    const loser = start(t, [...args, 'echo runs; while :; do read line; done']);
    await loser.says(/runs/);
    await locks.request('a', { steal: true }, () => {});
    assert.equal((await loser.ended).code, 75);
  });

  it('--steal takes the lock; who had it is told to end, and says that it was lost', async (t) => {
    const { at } = setUp(t);
    const script = "trap 'echo told; exit 0' TERM; echo runs; while :; do read line; done";
    const first = start(t, ['run', 'a', ...at, '--', 'sh', '-c', script]);
    await first.says(/runs/);
    const second = start(t, ['run', 'a', '--steal', ...at, ...UNTIL_LINE]);
    await second.says(/runs/);
    await first.says(/told/);
    const { code, stderr } = await first.ended;
    assert.equal(code, 75);
    const thief = `(process ${second.pid}, client `;
    assert.match(stderr, /Lock "a" was stolen .* The command gets SIGTERM\./);
    assert.ok(stderr.includes(thief), stderr);
    second.type('\n');
    assert.equal((await second.ended).code, 0);
  });

  it('a command that does not end when its lock is lost is killed', async (t) => {
    const { locks, at } = setUp(t);
    const script = "trap '' TERM; echo runs; while :; do read line; done";
    const args = ['run', 'a', '--kill-after', '0.05', ...at, '--', 'sh', '-c', script];
    const command = start(t, args);
    await command.says(/runs/);
    await locks.request('a', { steal: true }, () => {});
    assert.equal((await command.ended).code, 75);
  });

  it('a lost lock ends the command though nobody reads why', async (t) => {
    const { locks, at } = setUp(t);
    const command = start(t, ['run', 'a', ...at, '--', 'sh', '-c', 'echo runs; exec sleep 1000']);
    await command.says(/runs/);
    command.child.stderr.destroy();
    await locks.request('a', { steal: true }, () => {});
    assert.equal((await command.ended).code, 75);
  });

  it('forwards signals to the command', async (t) => {
    const { at } = setUp(t);
    const script = `
      for (const signal of ${JSON.stringify(CAUGHT)}) process.on(signal, console.log);
      process.stdin.resume().on('end', () => process.exit(9));
      console.log('runs');`;
    const command = start(t, ['run', 'a', ...at, '--', process.execPath, '-e', script]);
    await command.says(/runs/);
    for (const signal of CAUGHT) {
      command.kill(signal);
      await command.says(new RegExp(`${signal} `));
    }
    command.child.stdin.end();
    assert.equal((await command.ended).code, 9);
  });

  it('ends by the signal that ended the command', async (t) => {
    const { locks, at } = setUp(t);
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGUSR1', 'SIGKILL', 'SIGALRM']) {
      const script = `kill -${signal.slice(3)} $$`;
      const ending = await run(t, ['run', 'a', ...at, '--', 'sh', '-c', script]);
      assert.deepEqual([ending.signal, ending.code], [signal, null]);
    }
    assert.equal((await locks.query()).held.length, 0);
  });

  it('a signal after the command has ended does not change how it ends', async (t) => {
    const { at, where } = setUp(t);
    const env = signalAfterEnd(where.directory);
    const { code } = await run(t, ['run', 'a', ...at, '--', 'sh', '-c', 'exit 7'], { env });
    assert.equal(code, 7);
  });

  it('ends with 128 and the number of a signal that leaves a core', async (t) => {
    const { at } = setUp(t);
    const script = 'ulimit -c 0; kill -SEGV $$';
    const { code } = await run(t, ['run', 'a', ...at, '--', 'sh', '-c', script]);
    assert.equal(code, 139);
  });

  it('ends with 128 and the number of a signal without a name', onLinux, async (t) => {
    const { at } = setUp(t);
    for (const [signal, status] of [
      [34, 162],
      [REAL_TIME, 168],
      [64, 192],
    ]) {
      const script = `kill -${signal} $$`;
      const { code } = await run(t, ['run', 'a', ...at, '--', 'sh', '-c', script]);
      assert.equal(code, status);
    }
  });

  it('a signal while it waits ends it, and its place in the queue', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a');
    for (const signal of CAUGHT.filter((one) => !CORES.includes(one))) {
      const command = start(t, ['run', 'a', ...at, '--', 'echo', 'runs']);
      await pendingOn(locks, 'a');
      command.kill(signal);
      const ending = await command.ended;
      assert.deepEqual([ending.signal, ending.stdout, ending.stderr], [signal, '', '']);
      assert.equal((await locks.query()).pending.length, 0);
    }
  });

  it('no signal ends it and leaves the command without the lock', onLinux, async (t) => {
    const { locks, at } = setUp(t);
    const names = Object.keys(constants.signals).filter((name) => !LEAVING.includes(name));
    const script = "trap '' PIPE; ulimit -c 0; echo runs; read line; echo still here";
    for (const signal of [...names, REAL_TIME]) {
      const command = start(t, ['run', 'a', ...at, '--', 'sh', '-c', script]);
      await command.says(/runs/);
      process.kill(command.pid, signal);
      // The pipe is closed when the command has ended, too.
      assert.equal((await command.ended).stdout, 'runs\n', String(signal));
      await locks.request('a', () => {});
    }
  });

  it('a command that is not there, or cannot be executed, has a status of its own', async (t) => {
    const { locks, at } = setUp(t);
    const missing = await run(t, ['run', 'a', ...at, '--', './no such\x1b']);
    assert.equal(missing.code, 127);
    assert.equal(missing.stderr, 'web-locks: the command "./no such\\u{1b}" was not found.\n');
    const empty = await run(t, ['run', 'a', ...at, '--', '']);
    assert.equal(empty.code, 127);
    assert.equal(empty.stderr, 'web-locks: the command "" was not found.\n');
    const text = await run(t, ['run', 'a', ...at, '--', __filename]);
    assert.equal(text.code, 126);
    assert.match(text.stderr, /cannot be executed \(EACCES\)/);
    assert.equal((await locks.query()).held.length, 0);
  });

  it('says why there are no locks', async (t) => {
    const args = ['run', 'a', '--directory', '/proc', '--', 'echo', 'runs'];
    const { code, stdout, stderr } = await run(t, args);
    assert.deepEqual({ code, stdout }, { code: 69, stdout: '' });
    assert.match(stderr, /^web-locks: opening a storage bucket failed: /);
  });
});

describe('web-locks run, in a terminal', { skip: noTerminal }, () => {
  it('what the keyboard sends comes to the command', async (t) => {
    const { at } = setUp(t);
    const script = "trap 'echo interrupted; exit 5' INT; echo runs; while :; do read line; done";
    const command = startInTerminal(t, ['run', 'a', ...at, '--', 'sh', '-c', script]);
    await command.says(/runs/);
    command.type('\x03');
    await command.says(/interrupted/);
    assert.equal((await command.ended).code, 5);
  });

  it('what the keyboard sends is not forwarded: it would come twice', async (t) => {
    const { at } = setUp(t);
    const script = `
      process.on('SIGINT', () => console.log('interrupted'));
      process.on('SIGUSR2', () => console.log('came later'));
      process.on('SIGTERM', () => process.exit(0));
      setInterval(() => {}, 1e6);
      console.log('runs ' + process.ppid + '.');`;
    // In a session of its own, it has nothing from the terminal.
    const args = ['run', 'a', ...at, '--', 'setsid', process.execPath, '-e', script];
    const command = startInTerminal(t, args);
    const [, pid] = await command.says(/runs (\d+)\./);
    command.type('\x03');
    // The terminal shows it after it has sent the signal.
    await command.says(/\^C/);
    // What is forwarded after the interrupt: when it is heard, that was, too, or is before SIGTERM.
    process.kill(Number(pid), 'SIGUSR2');
    await command.says(/came later/);
    process.kill(Number(pid), 'SIGTERM');
    const { code, stdout } = await command.ended;
    assert.equal(code, 0);
    assert.doesNotMatch(stdout, /interrupted/);
  });

  it('the command has the terminal', async (t) => {
    const { at } = setUp(t);
    const args = ['run', 'a', ...at, '--', 'sh', '-c', 'test -t 0 && test -t 1 && tty'];
    const { code, stdout } = await startInTerminal(t, args).ended;
    assert.equal(code, 0);
    assert.match(stdout, /^\/dev\/pts\//);
  });

  it('who waits in a terminal is told for whom', async (t) => {
    const { locks, at } = setUp(t);
    const holder = await hold(locks, 'a');
    const command = startInTerminal(t, ['run', 'a', ...at, '--', 'echo', 'runs']);
    await command.says(/waiting for lock "a" \(held by process /);
    await holder.release();
    await command.says(/runs/);
  });

  it('Ctrl-C while it waits ends it by that signal', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a');
    const command = startInTerminal(t, ['run', 'a', ...at, '--', 'echo', 'runs']);
    await pendingOn(locks, 'a');
    command.type('\x03');
    assert.equal((await command.ended).code, 130);
  });
});

/** Waits until somebody holds a name: each query is an event. */
async function pendingOnHolder(locks, name) {
  for (;;) {
    const { held } = await locks.query({ name });
    if (held.length > 0) return;
  }
}
