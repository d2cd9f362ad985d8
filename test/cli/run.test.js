// slow: 20

'use strict';

/** `web-locks run`. */

const assert = require('node:assert/strict');
const { readdirSync, readFileSync, writeFileSync } = require('node:fs');
const { constants } = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { labelOfCommand } = require('../../lib/cli/command-name.js');
const { wouldWaitFor } = require('../../lib/cli/nesting.js');
const { CAUGHT } = require('../../lib/cli/signals.js');
const { hold } = require('../helpers/locks.js');
const { pendingOn } = require('../helpers/process.js');
const command = require('./command.js');

const { Command, PROGRAM, UNTIL_LINE, check, noTerminal, setUp, afterEnd, skip } = command;

/** The offset in struct wlh_header, see src/host/segment/segment.h. */
const TOKEN_AT = 88;

/** Signals that do not end a process, or that Node.js ignores. */
const LEAVING =
  'SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGWINCH SIGPIPE SIGXFSZ'.split(' ');
/** A signal for which Node.js has no name. */
const REAL_TIME = 40;
/** Signals that dump core: `web-locks` ends with a status instead. */
const CORES = 'QUIT ILL TRAP ABRT BUS FPE SEGV XCPU XFSZ SYS'.split(' ').map((it) => `SIG${it}`);

const onLinux = { skip: process.platform !== 'linux' && 'only Linux has what this needs' };
const steal = (locks) => locks.request('a', { steal: true }, () => {});

describe('web-locks run', { skip }, () => {
  it('passes arguments, streams and settings to the command, and its status back', async (t) => {
    const script = `process.stdin.pipe(process.stdout); console.error('err');
      const { WEB_LOCKS_DEADLOCK, WEB_LOCKS_WARN_AFTER } = process.env;
      console.log(process.argv.slice(1), WEB_LOCKS_DEADLOCK, WEB_LOCKS_WARN_AFTER);
      process.exitCode = 7;`;
    // The options locate the lock, not this URL.
    const at = { WEB_LOCKS_AT: 'redis://localhost:1' };
    const env = { WEB_LOCKS_DEADLOCK: 'reject', WEB_LOCKS_WARN_AFTER: 'x', ...at };
    const args = ['--', process.execPath, '-e', script, '--', 'a b', '\'"$HOME\n', '', '--shared'];
    const echo = setUp(t).start('run a', ...args, { env });
    echo.child.stdin.end('input');
    const stdout = `[ 'a b', \`'"$HOME\\n\`, '', '--shared' ] reject x\ninput`;
    check(await echo.ended, { code: 7, stdout, stderr: 'err\n' });
  });

  it('locks any name, which the command gets', async (t) => {
    const { locks, start } = setUp(t);
    for (const name of ['', `a\nb '"\\ $x ä€𝄞 `]) {
      const script = 'printf "<%s>" "$WEB_LOCKS_NAME"; read line';
      const printer = start('run', name, '--', 'sh', '-c', script);
      await printer.says(/>/);
      assert.equal(printer.stdout, `<${name}>`);
      assert.equal((await locks.query({ name })).held.length, 1);
      printer.child.stdin.end();
      await printer.ended;
    }
  });

  it('gives the command no other open file', onLinux, async (t) => {
    const script = 'for f in 9 200; do [ -e /proc/self/fd/$f ] && echo $f; done; echo looked';
    const args = ['run', 'a', ...setUp(t).at, '--', 'sh', '-c', script];
    const open = 'exec 9</dev/null 200</dev/null; exec "$@"';
    const bash = new Command(t, 'bash', ['-c', open, 'bash', process.execPath, PROGRAM, ...args]);
    assert.equal((await bash.ended).stdout, 'looked\n');
  });

  it('gives the command all digits of the token', async (t) => {
    const { run, directory } = setUp(t);
    const token = async () => BigInt((await run('run a -- sh -c', 'echo $WEB_LOCKS_TOKEN')).stdout);
    assert.ok((await token()) > 0n);
    const file = path.join(directory, readdirSync(directory)[0], 'bucket');
    const bytes = readFileSync(file);
    const last = 1n << 60n; // the next integers have no exact double
    bytes.writeBigUInt64LE(last, TOKEN_AT);
    writeFileSync(file, bytes);
    assert.equal(await token(), last + 1n);
  });

  it('excludes programs that use the default bucket of the same directory', async (t) => {
    const { directory } = setUp(t);
    const entry = require.resolve('../../lib/host.js');
    const script = `require(${JSON.stringify(entry)}).locks.query().then(({ held }) =>
      console.log(held.length, held[0].name))`;
    const env = { WEB_LOCKS_DIRECTORY: directory };
    const args = ['run', 'a', '--directory', directory, '--', process.execPath, '-e', script];
    assert.equal((await command.run(t, args, { env })).stdout, '1 a\n');
  });

  it('waits until another one has ended; its label is its command or --label', async (t) => {
    const { locks, start } = setUp(t);
    const first = start('run a', ...UNTIL_LINE);
    await first.says(/runs/);
    assert.equal((await locks.leader('a')).label, UNTIL_LINE.at(-1));
    const second = start('run a --label nightly', ...UNTIL_LINE);
    await pendingOn(locks, 'a');
    assert.equal(second.stdout, '');
    await first.endsAfter('');
    await second.says(/runs/);
    assert.match(first.stdout, /ends/);
    assert.equal((await locks.leader('a')).label, 'nightly');
    await second.endsAfter('');
  });

  it('labels a command by the script that it runs, and by no word that may be a secret', () => {
    for (const [words, name] of [
      [['/usr/bin/rsync', '-a', 'b'], 'rsync'],
      [['/bin/bash', '--norc', '-o', 'pipefail', '-c', '-e', 'one; two', 'x'], 'one; two'],
      [['sh', '/opt/nightly.sh', '-c'], 'nightly.sh'],
      [['sh'], 'sh'],
      [['node', '/opt/import.mjs', 'x'], 'import.mjs'],
      [['bash', '--rcfile', '/dev/null', '-c', 'one'], 'one'],
      [['bash', '-O', 'extglob', 'nightly.sh'], 'nightly.sh'],
      [['sh', '-s', 'secret'], 'sh'],
      [['sh', '-'], 'sh'],
      [['fish', '-c', 'one'], 'one'],
      [['fish', '-C', 'secret', '-c', 'one'], 'fish'],
      [['node', '--enable-source-maps', '--max-old-space-size=9', __filename], 'run.test.js'],
      [['node', '--import', __filename, 'secret'], 'node'],
      [['node', '--title', 'secret', 'x'], 'node'],
      [['perl', '-ne', 'secret', __filename], 'perl'],
      [['bun', 'run', 'job.ts'], 'job.ts'],
      [['python3.12', '-m', 'http.server'], 'python3.12'],
      [['sh', '-c', 'x'.repeat(201)], `${'x'.repeat(199)}…`],
    ])
      assert.equal(labelOfCommand(words), name, words.join(' '));
  });

  it('waits ahead of requests that have less --priority', async (t) => {
    const { locks, start } = setUp(t);
    const { release } = await hold(locks, 'a');
    const last = start('run a --priority=-1', ...UNTIL_LINE);
    await pendingOn(locks, 'a', 1);
    const first = start('run a -p 5', ...UNTIL_LINE);
    await pendingOn(locks, 'a', 2);
    await release();
    await first.says(/runs/);
    assert.equal(last.stdout, '');
    await first.endsAfter('');
    await last.says(/runs/);
  });

  it('runs beside others with --shared, but not beside an exclusive one', async (t) => {
    const { locks, start } = setUp(t);
    const both = [1, 2].map(() => start('run a --shared', ...UNTIL_LINE));
    for (const one of both) await one.says(/runs/);
    const writer = start('run a', ...UNTIL_LINE);
    await pendingOn(locks, 'a');
    for (const one of both) one.type('\n');
    await writer.says(/runs/);
  });

  it('--limit lets so many units run at a time, unless the name has another limit', async (t) => {
    const { locks, run, start } = setUp(t);
    const heavy = start('run a --limit 3 --weight 2', ...UNTIL_LINE);
    await heavy.says(/runs/);
    const light = start('run a --limit 3', ...UNTIL_LINE);
    await light.says(/runs/);
    const third = start('run a --limit 3', ...UNTIL_LINE);
    await pendingOn(locks, 'a');
    check(await run('run a --limit 2 -- true'), { code: 64, stderr: /limit/ });
    light.type('\n');
    await third.says(/runs/);
    assert.equal(heavy.hasClosed, false);
  });

  it('has its own status and says why if it does not get the lock in time', async (t) => {
    const { locks, run } = setUp(t);
    const lock = await hold(locks, 'a', { label: 'the\ntest' });
    const holder = `\\(held by process ${process.pid} \\("the\\\\ntest"\\), for `;
    for (const [words, code, stderr] of [
      ['--timeout 0.05', 1, `timed out after 0\\.05 s waiting for lock "a" ${holder}`],
      ['-n', 1, `lock "a" is not available ${holder}`],
      ['-w 0 -q -E 42', 42, undefined],
      ['-n -w 0 -q -E 0', 0, undefined],
    ]) {
      const told = stderr ? new RegExp(`^web-locks: ${stderr}`) : '';
      const ending = await run(`run a ${words} -- echo runs`);
      check(ending, { code, stdout: '', stderr: told }, words);
    }
    assert.equal((await locks.query()).pending.length, 0);
    await lock.release();
    check(await run('run a -n -- echo runs'), { code: 0, stdout: 'runs\n', stderr: '' });
  });

  it('-E does not change how a command ends that got the lock, even if it lost it', async (t) => {
    const { locks, run, start } = setUp(t);
    const words = 'run a -n -q -E 0 -- sh -c';
    assert.equal((await run(words, 'exit 7')).code, 7);
    assert.equal((await run(words, 'kill -TERM $$')).signal, 'SIGTERM');
    const loser = start(words, 'echo runs; while :; do read line; done');
    await loser.says(/runs/);
    await steal(locks);
    assert.equal((await loser.ended).code, 75);
  });

  it('-c passes a line to the shell of the user, as flock does', async (t) => {
    const { locks, run, start } = setUp(t);
    const line = 'echo one | tr o O; read line; exit 7';
    const shell = start('run a -c', line, { env: { SHELL: '' } });
    await shell.says(/^One/);
    assert.equal((await locks.leader('a')).label, line);
    await shell.endsAfter('', 7);
    const echo = await run('run a -c', 'x  y', { env: { SHELL: '/bin/echo' } });
    assert.equal(echo.stdout, '-c x  y\n');
  });

  it('-v names the holder that it waits for, and says when it has the lock', async (t) => {
    const { locks, start } = setUp(t);
    const holder = await hold(locks, 'a', { label: 'the\ntest' });
    const before = start('run a -- true');
    await pendingOn(locks, 'a');
    const verbose = start('run a -v -- true');
    const told =
      /^web-locks: waiting for lock "a" \(held by process (\d+) \("the\\ntest"\), for .*; 1 ahead\)\.\n/;
    const [, pid] = await verbose.says(told, 'stderr');
    assert.equal(Number(pid), process.pid);
    await holder.release();
    await verbose.says(/^web-locks: acquired lock "a" \(token \d+\)\.$/m, 'stderr');
    assert.equal((await verbose.ended).code, 0);
    assert.equal((await before.ended).stderr, '');
  });

  describe('inside of another one', () => {
    it('would wait for it, or for a request that waits for it', () => {
      const exclusive = { mode: 'exclusive' };
      const shared = { mode: 'shared' };
      const units = (weight) => ({ mode: 'shared', limit: 2, weight });
      for (const [isSo, holders, pending, wanted] of [
        [true, [exclusive], [], exclusive],
        [true, [exclusive], [], shared],
        [true, [shared], [], exclusive],
        [false, [shared], [], shared],
        [false, [], [exclusive], exclusive],
        [true, [units(1)], [], units(2)],
        [false, [units(1)], [], units(1)],
        [true, [shared], [exclusive], shared],
        [false, [shared], [exclusive], { ...shared, priority: 1 }],
        [true, [shared], [{ ...exclusive, priority: 2 }], { ...shared, priority: 1 }],
      ])
        assert.equal(wouldWaitFor(holders, pending, wanted), isSo, JSON.stringify(wanted));
    });

    for (const [what, code, ...levels] of [
      ['is refused where it would wait for ever', 64, 'a', 'b', 'a'],
      [
        'runs with units that are left, or another name or bucket',
        0,
        'a --limit 2',
        'a --limit 2',
        'b',
        'a --bucket other',
      ],
      ['gives up where it does not wait', 1, 'a', 'a -n -q'],
    ]) {
      it(what, async (t) => {
        const { at } = setUp(t);
        const words = levels.flatMap((level) => {
          return [process.execPath, PROGRAM, 'run', ...at, ...level.split(' '), '--'];
        });
        const ending = await command.run(t, [...words.slice(2), 'echo', 'runs']);
        check(ending, { code, stdout: code ? '' : 'runs\n' });
        const told = /^web-locks: an enclosing web-locks command already holds lock "a"/;
        if (code === 64) assert.match(ending.stderr, told);
      });
    }

    it('waits if the outer one has ended, and another process has its number', async (t) => {
      const { locks, start } = setUp(t);
      const holder = await hold(locks, 'a');
      const WEB_LOCKS_OUTER = `${process.pid}:${holder.lock.token - 1n}`;
      const inner = start('run a', ...UNTIL_LINE, { env: { WEB_LOCKS_OUTER } });
      await pendingOn(locks, 'a');
      await holder.release();
      await inner.says(/runs/);
    });
  });

  it('refuses a name that is too long, as steal does', async (t) => {
    const { run } = setUp(t);
    const name = 'n'.repeat(32_769);
    const stderr =
      /^web-locks: the name of the lock has 32769 characters .* 32768 are allowed\.\nSee: /;
    for (const words of [`run ${name} -- echo runs`, `steal ${name} --yes`])
      check(await run(words), { code: 64, stdout: '', stderr });
  });

  it('--steal takes the lock; the holder ends its command and reports the loss', async (t) => {
    const { start } = setUp(t);
    const script = "trap 'echo told; exit 0' TERM; echo runs; while :; do read line; done";
    const first = start('run a -- sh -c', script);
    await first.says(/runs/);
    const second = start('run a --steal', ...UNTIL_LINE);
    await second.says(/runs/);
    const { code, stderr, stdout } = await first.ended;
    assert.deepEqual([code, stdout], [75, 'runs\ntold\n']);
    assert.match(stderr, /Lock "a" was stolen .* The command gets SIGTERM\./);
    assert.ok(stderr.includes(`(process ${second.pid}, client `), stderr);
    await second.endsAfter('');
  });

  it('kills a command that survives the loss of its lock, even if nobody reads why', async (t) => {
    const { locks, start } = setUp(t);
    const script = "trap '' TERM; echo runs; while :; do read line; done";
    const stubborn = start('run a --kill-after 0.05 -- sh -c', script);
    await stubborn.says(/runs/);
    stubborn.child.stderr.destroy();
    await steal(locks);
    assert.equal((await stubborn.ended).code, 75);
  });

  it('forwards signals to the command', async (t) => {
    const script = `
      for (const signal of ${JSON.stringify(CAUGHT)}) process.on(signal, console.log);
      process.stdin.resume().on('end', () => process.exit(9));
      console.log('runs');`;
    const receiver = setUp(t).start('run a --', process.execPath, '-e', script);
    await receiver.says(/runs/);
    for (const signal of CAUGHT) {
      receiver.kill(signal);
      await receiver.says(new RegExp(`${signal} `));
    }
    receiver.child.stdin.end();
    assert.equal((await receiver.ended).code, 9);
  });

  it('ends by the signal that ended the command, or with 128 and its number', async (t) => {
    const { locks, run } = setUp(t);
    const script = 'ulimit -c 0; kill -$0 $$';
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGKILL'])
      check(await run('run a -- sh -c', script, signal.slice(3)), { signal, code: null });
    const numbers = CORES.map((name) => constants.signals[name]);
    if (!onLinux.skip) numbers.push(REAL_TIME);
    const ended = async (number) =>
      check(await run(`run ${number} -- sh -c`, script, `${number}`), { code: 128 + number });
    await Promise.all(numbers.map(ended));
    assert.equal((await locks.query()).held.length, 0);
  });

  it('knows the signal although another child ended before the command', onLinux, async (t) => {
    const isOver = (pid) => /\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
    const args = ['run', 'a', ...setUp(t).at, '--', 'sh', '-c', 'echo $$; read line'];
    const script = 'sleep 1000 & echo $!; exec "$@"';
    const both = new Command(t, 'sh', ['-c', script, 'sh', process.execPath, PROGRAM, ...args]);
    const [, other, pid] = await both.says(/^(\d+)\s(\d+)\s/);
    // While it is stopped, the second end adds nothing to the signal of the first.
    both.kill('SIGSTOP');
    for (const [child, signal] of [
      [other, 'SIGKILL'],
      [pid, REAL_TIME],
    ]) {
      process.kill(Number(child), signal);
      while (!isOver(child)) await new Promise(setImmediate);
    }
    both.kill('SIGCONT');
    check(await both.ended, { signal: null, code: 128 + REAL_TIME });
  });

  it('ends as its command has ended, though a signal comes after that', async (t) => {
    const { run, directory } = setUp(t);
    const env = afterEnd(directory);
    assert.equal((await run('run a -- sh -c', 'exit 7', { env })).code, 7);
  });

  it('says that the lock was lost, as once does, also if the release finds that out', async (t) => {
    const { at, run, directory } = setUp(t);
    const words = JSON.stringify([PROGRAM, 'steal', 'a', '--yes', ...at]);
    const env = afterEnd(directory, `spawnSync(process.execPath, ${words}, { env: {} })`);
    for (const what of ['run a', 'once a --keep 1h'])
      check(await run(what, '--', 'true', { env }), { code: 75, stderr: /"a" was stolen by/ });
  });

  const ends = CAUGHT.filter((one) => !CORES.includes(one)).map((signal) => ['run', signal]);
  for (const [name, signal] of [...ends, ['elect', 'SIGINT']]) {
    it(`${signal} ends a ${name} that waits, and its place in the queue`, async (t) => {
      const { locks, start } = setUp(t);
      await hold(locks, 'a');
      const waiter = start(`${name} a -- echo runs`);
      await pendingOn(locks, 'a');
      waiter.kill(signal);
      check(await waiter.ended, { signal, stdout: '', stderr: '' });
      assert.equal((await locks.query()).pending.length, 0);
    });
  }

  const signals = Object.keys(constants.signals).filter((name) => !LEAVING.includes(name));
  for (const signal of [...signals, REAL_TIME]) {
    it(`${signal} ends no web-locks whose command goes on without the lock`, onLinux, async (t) => {
      const { locks, start } = setUp(t);
      const script = "trap '' PIPE; ulimit -c 0; echo runs; read line; echo still here";
      const victim = start('run a -- sh -c', script);
      await victim.says(/runs/);
      process.kill(victim.pid, signal);
      // The pipe is closed only when the command has ended, too.
      assert.equal((await victim.ended).stdout, 'runs\n');
      await locks.request('a', () => {});
    });
  }

  it('ends with 127 or 126 if the command is not there or cannot be executed', async (t) => {
    const { locks, run } = setUp(t);
    for (const [word, code, stderr] of [
      ['./no such\x1b', 127, 'web-locks: the command "./no such\\u{1b}" was not found.\n'],
      ['', 127, 'web-locks: the command "" was not found.\n'],
      [__filename, 126, /cannot be executed \(EACCES\)/],
    ])
      check(await run('run a --', word), { code, stderr });
    assert.equal((await locks.query()).held.length, 0);
  });

  it('says why there are no locks', async (t) => {
    const ending = await command.run(t, ['run', 'a', '--directory', '/proc', '--', 'echo', 'runs']);
    const stderr = /^web-locks: opening a storage bucket failed: /;
    check(ending, { code: 69, stdout: '', stderr });
  });
});

describe('web-locks run, in a terminal', { skip: noTerminal }, () => {
  it('gives the command the terminal, and what is typed', async (t) => {
    const script = `trap 'echo interrupted; exit 5' INT; test -t 0 && test -t 1 && tty;
      echo runs; while :; do read line; done`;
    const reader = setUp(t).inTerminal('run a -- sh -c', script);
    await reader.says(/^\/dev\/pts\/[\s\S]*runs/);
    reader.type('\x03');
    await reader.says(/interrupted/);
    assert.equal((await reader.ended).code, 5);
  });

  it('does not forward the signal of a key, which the terminal sends to the command', async (t) => {
    const script = `
      process.on('SIGINT', () => console.log('interrupted'));
      process.on('SIGUSR2', () => console.log('came later'));
      process.on('SIGTERM', () => process.exit(0));
      setInterval(() => {}, 1e6);
      console.log('runs ' + process.ppid + '.');`;
    // In a session of its own, it gets nothing from the terminal.
    const words = ['run a -- setsid', process.execPath, '-e', script];
    const deaf = setUp(t).inTerminal(...words);
    const [, pid] = await deaf.says(/runs (\d+)\./);
    deaf.type('\x03');
    // The terminal shows it after it has sent the signal.
    await deaf.says(/\^C/);
    // This is forwarded after the interrupt: once it arrives, the interrupt has arrived, or will
    // before SIGTERM.
    process.kill(Number(pid), 'SIGUSR2');
    await deaf.says(/came later/);
    process.kill(Number(pid), 'SIGTERM');
    const { code, stdout } = await deaf.ended;
    assert.equal(code, 0);
    assert.doesNotMatch(stdout, /interrupted/);
  });

  it('names the holder that it waits for, and ends by Ctrl-C', async (t) => {
    const { locks, inTerminal } = setUp(t);
    await hold(locks, 'a');
    const waiter = inTerminal('run a -- echo runs');
    await waiter.says(/waiting for lock "a" \(held by process /);
    waiter.type('\x03');
    assert.equal((await waiter.ended).code, 130);
  });
});
