// slow: 26

'use strict';

/** `web-locks query`. */

const assert = require('node:assert/strict');
const { readdirSync, unlinkSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { openBucket } = require('../../lib/host.js');
const { hold } = require('../helpers/locks.js');
const { RemoteProcess, freshBucket, pendingOn } = require('../helpers/process.js');
const { Command, PROGRAM, noTerminal, run, skip, start, startInTerminal } = require('./command.js');

/** A fresh bucket, and the options that name it. */
function setUp(t, name) {
  const { locks, where } = freshBucket(t, name);
  return { locks, where, at: ['--directory', where.directory, '--bucket', where.bucket] };
}

/** The cells of a table, by lines. */
const cells = (text) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/));
const TITLES = ['NAME', 'STATE', 'MODE', 'FOR', 'PID', 'HOST', 'LABEL', 'TOKEN'];

describe('web-locks query', { skip }, () => {
  it('shows who holds and who waits, in the order of the queue', async (t) => {
    const { locks, at } = setUp(t);
    const { lock } = await hold(locks, 'b', { label: 'first' });
    await hold(locks, 'a', { mode: 'shared', limit: 4, weight: 2 });
    for (const label of ['second', 'third']) {
      locks.request('b', { label }, () => {}).catch(() => {});
    }
    const { code, stdout, stderr } = await run(t, ['query', ...at]);
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    const [titles, ...rows] = cells(stdout);
    assert.deepEqual(titles, TITLES);
    const pid = String(process.pid);
    const seen = rows.map(([name, state, mode, , whose, , label, token]) => {
      assert.equal(whose, pid);
      return [name, state, mode, label, token];
    });
    assert.deepEqual(seen, [
      ['a', 'held', 'shared 2/4', 'query.test.js', seen[0][4]],
      ['b', 'held', 'exclusive', 'first', String(lock.token)],
      ['b', 'waits', 'exclusive', 'second', '-'],
      ['b', 'waits', 'exclusive', 'third', '-'],
    ]);
  });

  it('shows a priority that is not 0, of holders too', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a', { mode: 'shared', limit: 1, priority: 1 });
    for (const priority of [0, -3, 7]) locks.request('a', { priority }, () => {}).catch(() => {});
    const { stdout } = await run(t, ['query', ...at]);
    assert.deepEqual(
      cells(stdout).map(([, , mode]) => mode),
      [
        'MODE',
        'shared 1/1, priority 1',
        'exclusive, priority 7',
        'exclusive',
        'exclusive, priority -3',
      ],
    );
    const { pending } = JSON.parse((await run(t, ['query', '--json', ...at])).stdout);
    assert.deepEqual(
      pending.map(({ priority }) => priority),
      [7, 0, -3],
    );
  });

  it('says so if there is nothing', async (t) => {
    const { at } = setUp(t);
    const { code, stdout } = await run(t, ['query', ...at]);
    const [, directory, , bucket] = at;
    assert.equal(code, 0);
    assert.equal(
      stdout,
      `No locks are held, and nobody waits in bucket "${bucket}" of ${directory}.\n` +
        "Locks of require('web-locks') are not listed: only their own process can see them.\n",
    );
  });

  it('names the other buckets that are in use, and --all shows them', async (t) => {
    const { locks, at } = setUp(t);
    const other = ['--directory', at[1]];
    await hold(locks, 'a', { label: 'mine' });
    locks.request('a', () => {}).catch(() => {});
    await pendingOn(locks, 'a');
    const bucket = at[3];
    const { stdout } = await run(t, ['query', ...other]);
    assert.match(stdout, /^No locks are held, and nobody waits in the default bucket of /);
    assert.ok(stdout.endsWith(`  bucket "${bucket}" (1 held, 1 waiting)\n`), stdout);
    const { others, ...told } = JSON.parse((await run(t, ['query', '--json', ...other])).stdout);
    assert.deepEqual(others, [{ bucket, held: 1, pending: 1 }]);
    assert.deepEqual([told.bucket, told.directory], [null, at[1]]);
    const all = cells((await run(t, ['query', '--all', ...other])).stdout);
    assert.deepEqual(all[0], ['BUCKET', ...TITLES]);
    assert.deepEqual(all[1].slice(0, 3), [bucket, 'a', 'held']);
    const { held } = JSON.parse((await run(t, ['query', '-aj', ...other])).stdout);
    assert.deepEqual([held[0].bucket, held[0].label], [bucket, 'mine']);
  });

  it('names a bucket whose name is as long as that of a lock can be', async (t) => {
    const { locks, at } = setUp(t, 'n'.repeat(32_768));
    await hold(locks, 'a');
    const { stdout } = await run(t, ['query', '--json', '--directory', at[1]]);
    assert.deepEqual(JSON.parse(stdout).others, [{ bucket: at[3], held: 1, pending: 0 }]);
  });

  it('does not believe a name that a bucket does not have', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a');
    const [folder] = readdirSync(at[1]);
    const file = path.join(at[1], folder, 'name');
    for (const text of ['bucket:x', '', undefined]) {
      if (text === undefined) unlinkSync(file);
      else writeFileSync(file, Buffer.from(text, 'utf16le'));
      const { stdout } = await run(t, ['query', '--directory', at[1]]);
      assert.ok(
        stdout.includes(
          `the bucket in ${folder} cannot be queried: its file 'name' is missing or does not ` +
            'match the directory. If nothing uses the directory, delete it',
        ),
        stdout,
      );
    }
  });

  it('--name shows one name', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a');
    await hold(locks, '');
    const { stdout } = await run(t, ['query', '--name', '', ...at]);
    assert.deepEqual(
      cells(stdout).map(([name]) => name),
      ['NAME', '""'],
    );
  });

  it('--json prints a line of JSON with everything', async (t) => {
    const { locks, at } = setUp(t);
    const before = Date.now();
    const { lock } = await hold(locks, 'a\n"', { label: 'x' });
    locks.request('a\n"', () => {}).catch(() => {});
    const { stdout } = await run(t, ['query', '--json', ...at]);
    assert.match(stdout, /^[^\n]*\n$/);
    const { held, pending } = JSON.parse(stdout);
    assert.equal(held.length, 1);
    const [{ name, label, pid, token, since, mode }] = held;
    assert.deepEqual(
      { name, label, pid, token, mode },
      {
        name: 'a\n"',
        label: 'x',
        pid: process.pid,
        token: String(lock.token),
        mode: 'exclusive',
      },
    );
    // Both clocks are as exact as some milliseconds.
    assert.ok(Math.abs(Date.parse(since) - before) < 60_000);
    assert.deepEqual(
      pending.map((request) => [request.name, request.ahead, request.token]),
      [['a\n"', 0, null]],
    );
  });

  it('prints more than a pipe takes at once before it ends', async (t) => {
    const { locks, at } = setUp(t);
    const label = 'x'.repeat(10_000);
    for (let i = 0; i < 100; i++) await hold(locks, `n${i}`, { label });
    const { code, stdout } = await run(t, ['query', '--json', ...at]);
    assert.equal(code, 0);
    assert.equal(JSON.parse(stdout).held.length, 100);
  });

  it('shows nothing that a terminal would obey, and no line that is not one', async (t) => {
    const { locks, at } = setUp(t);
    const label = 'a\nb\r\t\x1b[31m\x07\u202e\x9b "q" \\ \ud800';
    await hold(locks, 'a', { label });
    const { stdout } = await run(t, ['query', ...at]);
    assert.equal(cells(stdout).length, 2);
    const expected = '"a\\nb\\r\\t\\u{1b}[31m\\u{7}\\u{202e}\\u{9b} \\"q\\" \\\\ \\u{d800}"';
    assert.ok(stdout.includes(expected), stdout);
    await hold(locks, '\x1b[2J');
    const { stdout: more } = await run(t, ['query', '--name', '\x1b[2J', ...at]);
    assert.match(more, /^"\\u\{1b\}\[2J" /m);
  });

  it('--watch prints the table after each change in a pipe, between empty lines', async (t) => {
    const { locks, at } = setUp(t);
    const watcher = start(t, ['query', '--watch', ...at]);
    await watcher.says(/^No locks are held, and nobody waits in .*\n/);
    const lock = await hold(locks, 'a');
    await watcher.says(/\n\nNAME .*\na +held .*\n/);
    await lock.release();
    await watcher.says(/\n\nNo locks/);
    assert.equal(watcher.stdout.split('\n\n').length, 3);
    assert.ok(!watcher.stdout.includes('\x1b'));
    watcher.kill('SIGTERM');
    assert.equal((await watcher.ended).signal, 'SIGTERM');
  });

  it('--watch --json prints a line after each change', async (t) => {
    const { locks, at } = setUp(t);
    const watcher = start(t, ['query', '--watch', '--json', ...at]);
    await watcher.says(/^.*\n/);
    await hold(locks, 'a');
    await watcher.says(/^.*\n.*\n/);
    const states = watcher.stdout.trimEnd().split('\n').map(JSON.parse);
    assert.deepEqual(
      states.map(({ held }) => held.length),
      [0, 1],
    );
  });

  it('--watch prints a change of nothing but a priority', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a');
    const ask = (priority) => {
      const given = new AbortController();
      locks.request('a', { priority, signal: given.signal }, () => {}).catch(() => {});
      return given;
    };
    const first = ask(1);
    const watcher = start(t, ['query', '--watch', ...at]);
    await watcher.says(/priority 1/);
    first.abort();
    ask(2);
    await watcher.says(/priority 2/);
  });

  it('--watch ends quietly when nobody reads any more', async (t) => {
    const { locks, at } = setUp(t);
    const watcher = start(t, ['query', '--watch', ...at]);
    await watcher.says(/No locks/);
    watcher.child.stdout.destroy();
    await hold(locks, 'a');
    const { code, stderr } = await watcher.ended;
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
  });
});

describe('a state of more requests than a call may have arguments', { skip }, () => {
  const { groupsOf } = require('../../lib/cli/view-model.js');
  const { fingerprint, json, table } = require('../../lib/cli/table.js');
  const MANY = 150_000;
  const entry = { name: 'a', mode: 'shared', label: '', host: 'h', pid: 1, threadId: 0, token: 1n };
  const all = Array.from({ length: MANY }, () => ({ ...entry, held: 0, waited: 0 }));

  for (const state of [
    { held: all, pending: [] },
    { held: [], pending: all },
  ]) {
    const which = state.held.length > 0 ? 'locks' : 'waiters';

    it(`of ${which} is printed line by line, and is no more than a screen on a screen`, () => {
      let lines = 0;
      for (const line of table(state, {})) lines += Number(line.startsWith('a'));
      assert.equal(lines, MANY);
      const screen = [...table({ ...state, grantsIn: 1000 }, { lines: 24 })];
      assert.equal(screen.length, 24);
      assert.equal(screen.at(-2), `… and ${MANY - 21} more`);
      assert.match(screen.at(-1), /grants nothing/);
    });

    it(`of ${which} is JSON in parts, has an identity, and fits on a page`, () => {
      let length = 0;
      for (const part of json(state, 0)) length = Math.max(length, part.length);
      assert.ok(length < 1000);
      const other = { ...state, held: [...state.held, { ...entry, name: 'b' }] };
      assert.notEqual(fingerprint(state), fingerprint(other));
      assert.equal(groupsOf(state)[0].rows.length, 10_000);
    });
  }
});

describe('holders that wait for each other', { skip }, () => {
  const { table } = require('../../lib/cli/table.js');
  const entry = (clientId, name, age) => ({
    ...{ clientId, name, mode: 'exclusive', label: `job ${clientId}`, host: 'h', pid: 7 },
    ...{ threadId: 0, threadName: '', token: 1n, held: age, waited: age },
  });
  const notes = (held, pending) =>
    [...table({ held, pending }, {})].slice(1 + held.length + pending.length);
  const line = (client, has, wants) =>
    `  process 7 on host "h" ("job ${client}") holds "${has}" and waits for "${wants}"`;

  it('are named, with what they have and want', () => {
    const held = [entry('A', 'a', 9), entry('B', 'b', 9), entry('C', 'c', 9), entry('D', 'd', 9)];
    const pending = [
      entry('D', 'a', 1),
      entry('A', 'b', 1),
      entry('B', 'c', 1),
      entry('C', 'a', 1),
    ];
    const told = notes(held, pending);
    assert.equal(told.length, 4);
    assert.match(told[0], /^These holders wait for each other, perhaps in a deadlock:$/);
    assert.deepEqual(told.slice(1).sort(), [
      line('A', 'a', 'b'),
      line('B', 'b', 'c'),
      line('C', 'c', 'a'),
    ]);
  });

  it('are counted after the tenth', () => {
    const names = Array.from({ length: 1000 }, (_, i) => `n${i}`);
    const told = notes(
      names.map((name) => entry(name, name, 9)),
      names.map((name, i) => entry(name, names[(i + 1) % names.length], 1)),
    );
    assert.equal(told.length, 12);
    assert.equal(told[11], '  … and 990 more');
  });

  it('are found whoever else waits for the same', () => {
    const held = [entry('A', 'a', 9), entry('B', 'b', 9)];
    const pending = [
      entry('A', 'a', 1),
      entry('B', 'b', 1),
      entry('A', 'b', 1),
      entry('B', 'a', 1),
    ];
    assert.equal(notes(held, pending).length, 3);
  });

  it('are not those who wait for themselves, nor since before they held anything', () => {
    const held = [entry('A', 'a', 9), entry('B', 'b', 2)];
    assert.deepEqual(notes(held, [entry('A', 'a', 1), entry('B', 'b', 1)]), []);
    assert.deepEqual(notes(held, [entry('A', 'b', 1), entry('B', 'a', 3)]), []);
  });

  it('are found by the name of one of their locks', async (t) => {
    const { locks, at, where } = setUp(t);
    const other = await RemoteProcess.start(t, where);
    await hold(locks, 'a', { label: 'mine' });
    await hold(locks, 'c');
    await other.hold('b');
    await other.request('a');
    for (const name of ['b', 'c']) locks.request(name, () => {}).catch(() => {});
    await pendingOn(locks, 'c');
    const mine = `process ${process.pid} ("mine") holds "a" and waits for "b"\n`;
    for (const [name, isFound] of [
      ['a', true],
      ['b', true],
      ['c', false],
    ]) {
      for (const more of [[...at], [...at.slice(0, 2), '--all']]) {
        const { stdout } = await run(t, ['query', '--name', name, ...more]);
        const lines = stdout.replaceAll(' in bucket "bucket"', '');
        assert.equal(lines.includes(mine), isFound, stdout);
        assert.equal((stdout.match(/ (held|waits) {2}/g) ?? []).length, 2, stdout);
      }
    }
  });

  it('are found if their locks are of several buckets', async (t) => {
    const { locks, at, where } = setUp(t);
    const script = `
      const { openBucket } = require(${JSON.stringify(require.resolve('../../lib/host.js'))});
      const { locks } = openBucket('far', ${JSON.stringify({ directory: where.directory })});
      const { locks: near } = openBucket('bucket', ${JSON.stringify({ directory: where.directory })});
      locks.request('b', () => {
        near.request('a', () => {});
        locks.request('b', () => {});
        console.log('holds');
        return new Promise(() => {});
      });
      setInterval(() => {}, 1e6);`;
    await hold(locks, 'a', { label: 'mine' });
    const other = new Command(t, process.execPath, ['-e', script]);
    await other.says(/holds/);
    await pendingOn(locks, 'a');
    const far = openBucket('far', { directory: where.directory });
    t.after(() => far.close());
    far.locks.request('b', () => {}).catch(() => {});
    await pendingOn(far.locks, 'b', 2);
    const all = ['query', ...at.slice(0, 2), '--all'];
    const { stdout } = await run(t, all);
    const mine = `${process.pid} ("mine") holds "a" in bucket "bucket" and waits for "b" in bucket "far"\n`;
    assert.ok(stdout.includes(mine), stdout);
    const { circles } = JSON.parse((await run(t, [...all, '--json'])).stdout);
    assert.deepEqual(
      circles[0].map(({ bucket, holds, waitsFor }) => [bucket, holds, waitsFor]).sort(),
      [
        ['bucket', 'a', 'b'],
        ['far', 'b', 'a'],
      ],
    );
  });

  it('are told as JSON', async (t) => {
    const { locks, at, where } = setUp(t);
    const other = await RemoteProcess.start(t, where);
    await hold(locks, 'a', { label: 'mine' });
    await other.hold('b');
    await other.request('a');
    locks.request('b', () => {}).catch(() => {});
    await pendingOn(locks, 'b');
    const { circles } = JSON.parse((await run(t, ['query', '--json', ...at])).stdout);
    const mine = circles[0].find(({ pid }) => pid === process.pid);
    assert.deepEqual([circles.length, circles[0].length], [1, 2]);
    assert.deepEqual([mine.label, mine.holds, mine.waitsFor], ['mine', 'a', 'b']);
  });
});

/** What a terminal does at the beginning and at the end of `--watch`. */
const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';

describe('web-locks query, in a terminal', { skip: noTerminal }, () => {
  it('is coloured, but not with NO_COLOR', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'a');
    const colored = await startInTerminal(t, ['query', ...at]).ended;
    assert.ok(colored.stdout.startsWith('\x1b[1mNAME'), colored.stdout);
    const plain = await startInTerminal(t, ['query', ...at], { env: { NO_COLOR: '1' } }).ended;
    assert.ok(plain.stdout.startsWith('NAME'), plain.stdout);
    assert.ok(!plain.stdout.includes('\x1b'), plain.stdout);
  });

  it('is whole where the terminal does not know its size', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'n'.repeat(100));
    const size = { columns: 0, rows: 0 };
    const { stdout } = await startInTerminal(t, ['query', ...at], size).ended;
    assert.match(stdout, /n{100} {2}held/);
    const watching = startInTerminal(t, ['query', '--watch', ...at], size);
    await watching.says(/n{9}.*held/);
    watching.type('q');
    assert.equal((await watching.ended).code, 0);
  });

  it('is as narrow as the terminal', async (t) => {
    const { locks, at } = setUp(t);
    await hold(locks, 'n'.repeat(100), { label: '名'.repeat(100) });
    const env = { NO_COLOR: '1' };
    const wide = await startInTerminal(t, ['query', ...at], { columns: 90, env }).ended;
    const [titles, row] = cells(wide.stdout);
    assert.deepEqual(titles.at(-1).trim(), 'TOKEN');
    assert.match(row[0], /^n+…$/);
    assert.match(row.join(' '), /名+…/u);
    const narrow = await startInTerminal(t, ['query', ...at], { columns: 20, env }).ended;
    for (const line of narrow.stdout.trimEnd().split('\r\n')) assert.ok(line.length <= 20, line);
  });

  for (const [title, keys] of [
    ['q', 'q'],
    ['Ctrl-C', '\x03'],
  ]) {
    it(`--watch is painted after changes, and ${title} gives the terminal back`, async (t) => {
      const { locks, at } = setUp(t);
      const script = 'stty -g; "$@"; echo "ended $?"; stty -g';
      const program = ['sh', '-c', script, 'sh', process.execPath, PROGRAM, 'query', '--watch'];
      const watcher = startInTerminal(t, [], { program: [...program, ...at] });
      await watcher.says(/No locks/);
      const lock = await hold(locks, 'a', { label: 'painted' });
      await watcher.says(/painted/);
      locks.request('a', { label: 'queue' }, () => {}).catch(() => {});
      await pendingOn(locks, 'a');
      await watcher.says(/waits.*queue/);
      await lock.release();
      await watcher.says(/queue[\s\S]*No locks/);
      watcher.type(keys);
      const { stdout } = await watcher.ended;
      assert.ok(stdout.includes(ENTER));
      assert.ok(stdout.includes(`${LEAVE}ended 0`), JSON.stringify(stdout));
      const lines = stdout.trimEnd().split('\r\n');
      assert.equal(lines.at(-1), lines[0]);
    });
  }

  it('--watch gives the terminal back when it is ended by a signal', async (t) => {
    const { at } = setUp(t);
    const script = 'stty -g; "$@" & echo "pid $!."; wait $!; echo "ended $?"; stty -g';
    const program = ['sh', '-c', script, 'sh', process.execPath, PROGRAM, 'query', '--watch'];
    const watcher = startInTerminal(t, [], { program: [...program, ...at] });
    const [, pid] = await watcher.says(/pid (\d+)\./);
    await watcher.says(/No locks/);
    process.kill(Number(pid), 'SIGTERM');
    const { stdout } = await watcher.ended;
    assert.match(stdout, /ended 143/);
    assert.ok(stdout.includes(LEAVE));
    const lines = stdout.trimEnd().split('\r\n');
    assert.equal(lines.at(-1), lines[0]);
  });

  it('--watch says how many lines it has no room for', async (t) => {
    const { locks, at } = setUp(t);
    for (let i = 0; i < 10; i++) await hold(locks, `n${i}`);
    const watcher = startInTerminal(t, ['query', '--watch', ...at], { rows: 5 });
    await watcher.says(/… and 7 more/);
    watcher.type('q');
    assert.equal((await watcher.ended).code, 0);
  });
});
