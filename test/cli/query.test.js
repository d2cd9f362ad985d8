// slow: 16; waits

'use strict';

/** `web-locks query`. */

const assert = require('node:assert/strict');
const { readdirSync, unlinkSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { narrow } = require('../../lib/cli/circles.js');
const { fingerprint, json, table } = require('../../lib/cli/table.js');
const { groupsOf } = require('../../lib/cli/view-model.js');
const { openBucket } = require('../../lib/host.js');
const { hold } = require('../helpers/locks.js');
const { pendingOn } = require('../helpers/process.js');
const { Random } = require('../torture/random.js');
const command = require('./command.js');

const { Command, PROGRAM, check, noTerminal, run, setUp, skip, startInTerminal } = command;

/** The cells of a table, by line. */
const cells = (text) =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/));
/** The fields of a request in a state. */
const ENTRY = {
  ...{ name: 'a', mode: 'shared', label: '', host: 'h', pid: 1, threadId: 0, threadName: '' },
  ...{ token: 1n, held: 0, waited: 0 },
};
const TITLES = ['NAME', 'STATE', 'MODE', 'FOR', 'PID', 'HOST', 'LABEL', 'TOKEN'];
const ask = (locks, name, options = {}) => locks.request(name, options, () => {}).catch(() => {});

describe('web-locks query', { skip }, () => {
  it('lists holders, and waiters in queue order, with mode, units and priority', async (t) => {
    const { locks, run } = setUp(t);
    const { lock } = await hold(locks, 'b', { label: 'first', priority: 1 });
    await hold(locks, 'a', { mode: 'shared', limit: 4, weight: 2 });
    for (const [label, priority] of Object.entries({ third: 0, last: -3, second: 7 }))
      ask(locks, 'b', { label, priority });
    const { code, stdout, stderr } = await run('query');
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    const [titles, ...rows] = cells(stdout);
    assert.deepEqual(titles, TITLES);
    assert.ok(rows.every((row) => row[4] === String(process.pid)));
    const seen = rows.map(([name, state, mode, , , , label, token]) =>
      [name, state, mode, label, token].join('|'),
    );
    assert.match(seen.shift(), /^a\|held\|shared 2\/4\|query.test.js\|\d+$/);
    assert.deepEqual(seen, [
      `b|held|exclusive, priority 1|first|${lock.token}`,
      'b|waits|exclusive, priority 7|second|-',
      'b|waits|exclusive|third|-',
      'b|waits|exclusive, priority -3|last|-',
    ]);
    const { pending } = JSON.parse((await run('query --json')).stdout);
    assert.equal(pending.map(({ priority }) => priority).join(), '7,0,-3');
  });

  it('says that no locks are held, and where it looked', async (t) => {
    const { run, bucket, directory } = setUp(t);
    const stdout =
      `No locks are held, and nobody waits in bucket "${bucket}" of ${directory}.\n` +
      "Locks of require('web-locks') are not listed: only their own process can see them.\n";
    check(await run('query'), { code: 0, stdout });
  });

  it('names the other buckets that are in use, and --all shows them', async (t) => {
    // The bucket's name is as long as that of a lock can be.
    const { locks, bucket, directory } = setUp(t, 'n'.repeat(32_768));
    const inDefault = async (...words) =>
      (await run(t, ['query', '--directory', directory, ...words])).stdout;
    await hold(locks, 'a', { label: 'mine' });
    ask(locks, 'a');
    await pendingOn(locks, 'a');
    const stdout = await inDefault();
    assert.match(stdout, /^No locks are held, and nobody waits in the default bucket of /);
    assert.match(stdout, / {2}bucket "n+…?[^"]*" \(1 held, 1 waiting\)\n$/);
    const { others, ...told } = JSON.parse(await inDefault('--json'));
    assert.deepEqual(others, [{ bucket, held: 1, pending: 1 }]);
    assert.deepEqual([told.bucket, told.directory], [null, directory]);
    const all = cells(await inDefault('--all'));
    assert.deepEqual(all[0], ['BUCKET', ...TITLES]);
    assert.deepEqual(all[1].slice(1, 3), ['a', 'held']);
    const { held } = JSON.parse(await inDefault('-aj'));
    assert.deepEqual([held[0].bucket, held[0].label], [bucket, 'mine']);
  });

  it('rejects a name file that does not match its bucket', async (t) => {
    const { locks, run, directory } = setUp(t);
    await hold(locks, 'a');
    const [folder] = readdirSync(directory);
    const file = path.join(directory, folder, 'name');
    const told =
      `the bucket in ${folder} cannot be queried: its file 'name' is missing or does not ` +
      'match the directory; if nothing uses the directory, delete the directory';
    for (const text of ['bucket:x', '', undefined]) {
      if (text === undefined) unlinkSync(file);
      else writeFileSync(file, Buffer.from(text, 'utf16le'));
      const { stdout } = await run('query --bucket other');
      assert.ok(stdout.includes(told), stdout);
    }
  });

  it('--json prints one line, however long it is, and --name selects', async (t) => {
    const { locks, run } = setUp(t);
    const before = Date.now();
    const { lock } = await hold(locks, 'a\n"', { label: 'x' });
    await hold(locks, '');
    for (const name of ['a\n"', '']) ask(locks, name);
    const { stdout } = await run('query --json --name', 'a\n"');
    assert.match(stdout, /^[^\n]*\n$/);
    const { held, pending } = JSON.parse(stdout);
    assert.equal(held.length, 1);
    const [{ name, label, pid, token, since, mode }] = held;
    const expected = ['a\n"', 'x', process.pid, String(lock.token), 'exclusive'];
    assert.deepEqual([name, label, pid, token, mode], expected);
    // Both clocks are exact to some milliseconds.
    assert.ok(Math.abs(Date.parse(since) - before) < 60_000);
    const waits = pending.map((request) => [request.name, request.ahead, request.token]);
    assert.deepEqual(waits, [['a\n"', 0, null]]);
    const ofEmpty = cells((await run('query --name', '')).stdout).map(([shown]) => shown);
    assert.deepEqual(ofEmpty, ['NAME', '""', '""']);
    const long = 'x'.repeat(10_000);
    for (let i = 0; i < 100; i++) await hold(locks, `n${i}`, { label: long });
    assert.equal(JSON.parse((await run('query --json')).stdout).held.length, 102);
  });

  it('escapes what a terminal would obey, and shows an unknown time as a question mark', () => {
    const label = 'a\nb\r\t\x1b[31m\x07\u202e\x9b "q" \\ \ud800';
    const held = [{ ...ENTRY, name: '\x1b[2J', label, held: Number.NaN }];
    const [, row] = table({ held, pending: [] }, {});
    const shown = '"a\\nb\\r\\t\\u{1b}[31m\\u{7}\\u{202e}\\u{9b} \\"q\\" \\\\ \\u{d800}"';
    assert.ok(row.includes(shown), row);
    assert.match(row, /^"\\u\{1b\}\[2J" +held +shared +\? /);
    const [one] = JSON.parse([...json({ held, pending: [] }, 0)].join('')).held;
    assert.deepEqual([one.held, one.since], [null, null]);
  });

  // `top` is another name for it.
  for (const command of ['query --watch', 'top']) {
    it(`${command} prints a table after each change, in a pipe between empty lines`, async (t) => {
      const { locks, start } = setUp(t);
      const watcher = start(command);
      await watcher.says(/^No locks are held, and nobody waits in bucket "bucket" of .*\n/);
      const lock = await hold(locks, 'a');
      await watcher.says(/\n\nNAME .*\na +held .*\n/);
      await lock.release();
      await watcher.says(/\n\nNo locks/);
      assert.equal(watcher.stdout.split('\n\n').length, 3);
      assert.ok(!watcher.stdout.includes('\x1b'));
      watcher.kill('SIGTERM');
      assert.equal((await watcher.ended).signal, 'SIGTERM');
    });
  }

  it('--watch --json prints a line after each change until its output is closed', async (t) => {
    const { locks, start } = setUp(t);
    const watcher = start('query --watch --json');
    await watcher.says(/^.*\n/);
    await hold(locks, 'a');
    await watcher.says(/^.*\n.*\n/);
    const given = new AbortController();
    ask(locks, 'a', { priority: 1, signal: given.signal });
    await watcher.says(/"priority":1\b/);
    given.abort();
    ask(locks, 'a', { priority: 2 });
    await watcher.says(/"priority":2\b/);
    const states = watcher.stdout.trimEnd().split('\n').map(JSON.parse);
    assert.match(states.map(({ held }) => held.length).join(''), /^011+$/);
    // It ends quietly once no process reads its output.
    watcher.child.stdout.destroy();
    await hold(locks, 'b');
    check(await watcher.ended, { code: 0, stderr: '' });
  });
});

describe('a state of more requests than a call may have arguments', () => {
  const MANY = 150_000;
  const all = Array.from({ length: MANY }, () => ({ ...ENTRY }));

  for (const [which, state] of Object.entries({
    locks: { held: all, pending: [] },
    waiters: { held: [], pending: all },
  })) {
    it(`is printed in parts, and cut to the lines of a screen: ${which}`, () => {
      let lines = 0;
      for (const line of table(state, {})) lines += Number(line.startsWith('a'));
      assert.equal(lines, MANY);
      const screen = [...table({ ...state, grantsIn: 1000 }, { lines: 24 })];
      assert.equal(screen.length, 24);
      assert.equal(screen.at(-2), `… and ${MANY - 21} more`);
      assert.match(screen.at(-1), /grants nothing/);
      let length = 0;
      for (const part of json(state, 0)) length = Math.max(length, part.length);
      assert.ok(length < 1000);
      const other = { ...state, held: [...state.held, { ...ENTRY, name: 'b' }] };
      assert.notEqual(fingerprint(state), fingerprint(other));
      assert.equal(groupsOf(state)[0].rows.length, 10_000);
    });
  }
});

describe('holders that wait for each other', { skip }, () => {
  const entry = (clientId, name, age, bucket) => ({
    ...{ ...ENTRY, clientId, name, mode: 'exclusive', label: `job ${clientId}`, pid: 7 },
    ...{ held: age, waited: age },
    // A thread has another client id in each bucket.
    ...(bucket !== undefined && { bucket, clientId: `${clientId} ${bucket}`, threadId: clientId }),
  });
  const notes = (held, pending) =>
    [...table({ held, pending }, {})].slice(1 + held.length + pending.length);
  /** Whether clients wait in a cycle, maybe through a name, computed plainly. */
  function areInACircle(held, pending, through) {
    const isNested = ({ label, waited }) =>
      held.some((lock) => lock.label === label && !(lock.held < waited));
    const steps = pending.filter(isNested).flatMap(({ bucket, label, name }) => {
      const isIt = (lock) => lock.name === name && lock.bucket === bucket && lock.label !== label;
      return held.filter(isIt).map((holder) => [label, holder.label, name]);
    });
    const reached = (from, known = new Set()) => {
      for (const [one, other] of steps) {
        if (one === from && !known.has(other)) reached(other, known.add(other));
      }
      return known;
    };
    return steps.some(
      ([one, other, name]) => reached(other).has(one) && name === (through ?? name),
    );
  }

  /** Whether each holder of a circle waits for the next one. */
  const isCircle = (circle, pending) =>
    circle.every(({ holder, waitsFor }, i) => {
      const isIt = ({ bucket, label, name }) =>
        label === holder.label && name === waitsFor.name && bucket === waitsFor.bucket;
      return circle[(i + 1) % circle.length].holder === waitsFor && pending.some(isIt);
    });

  it('are found if there are any, and only then, also through a name', () => {
    const random = new Random('circles');
    const draw = (most, ages, buckets) =>
      Array.from({ length: 1 + random.below(most) }, () =>
        entry(...[['A', 'B', 'C'], ['a', 'b', 'c'], ages, buckets].map((all) => random.pick(all))),
      );
    const found = [0, 0];
    for (let i = 0; i < 1000; i++) {
      // How long a lock has been held may be unknown.
      const buckets = random.pick([[undefined], [null, 'x']]);
      const ages = [0, 1, 2, 3];
      const [held, pending] = [draw(5, [...ages, Number.NaN], buckets), draw(5, ages, buckets)];
      const isFound = notes(held, pending).length > 0;
      const shown = [...table({ held, pending }, {})].join('\n');
      assert.equal(isFound, areInACircle(held, pending), shown);
      for (const name of ['a', 'b', 'c']) {
        const state = narrow({ held, pending }, name);
        assert.equal(state.circles.length > 0, areInACircle(held, pending, name), shown);
        assert.ok(
          state.circles.every((circle) => isCircle(circle, pending)),
          shown,
        );
      }
      found[Number(isFound)]++;
    }
    assert.ok(Math.min(...found) > 20, `${found}`);
  });

  it('are counted after the tenth', () => {
    const names = Array.from({ length: 1000 }, (_, i) => `n${i}`);
    const told = notes(
      names.map((name) => entry(name, name, 9)),
      names.map((name, i) => entry(name, names[(i + 1) % names.length], 1)),
    );
    assert.deepEqual([told.length, told[11]], [12, '  … and 990 more']);
  });

  it('are found across several buckets with --all', async (t) => {
    const { locks, directory } = setUp(t);
    const script = `
      const { openBucket } = require(${JSON.stringify(require.resolve('../../lib/host.js'))});
      const [near, far] = ['bucket', 'far'].map((name) =>
        openBucket(name, ${JSON.stringify({ directory })}).locks);
      far.request('b', () => {
        near.request('a', () => {});
        console.log('holds');
        return new Promise(() => {});
      });
      setInterval(() => {}, 1e6);`;
    await hold(locks, 'a', { label: 'mine' });
    await new Command(t, process.execPath, ['-e', script]).says(/holds/);
    await pendingOn(locks, 'a');
    const far = openBucket('far', { directory });
    t.after(() => far.close());
    ask(far.locks, 'b');
    await pendingOn(far.locks, 'b');
    const all = ['query', '--directory', directory, '--all'];
    const waits = 'holds "a" in bucket "bucket" and waits for "b" in bucket "far"';
    // On a busy machine, the other bucket may answer too late for a query.
    let [shown, circles] = [''];
    while (!shown.includes(`${process.pid} ("mine") ${waits}\n`))
      shown = (await run(t, [...all, '--name', 'b'])).stdout;
    while (!circles) ({ circles } = JSON.parse((await run(t, [...all, '--json'])).stdout));
    const seen = circles[0].map(({ bucket, holds, waitsFor }) => `${bucket} ${holds} ${waitsFor}`);
    assert.deepEqual(seen.sort(), ['bucket a b', 'far b a']);
  });
});

/** What is written to a terminal at the beginning and the end of `--watch`. */
const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';

describe('web-locks query, in a terminal', { skip: noTerminal }, () => {
  it('colours its titles without NO_COLOR, and cuts nothing if the size is unknown', async (t) => {
    const { locks, inTerminal } = setUp(t);
    await hold(locks, 'n'.repeat(100));
    const size = { columns: 0, rows: 0 };
    const { stdout } = await inTerminal('query', size).ended;
    assert.ok(stdout.startsWith('\x1b[1mNAME'), stdout);
    assert.match(stdout, /n{100} {2}held/);
    const watching = inTerminal('query --watch', size);
    await watching.says(/n{9}.*held/);
    watching.type('q');
    assert.equal((await watching.ended).code, 0);
  });

  it('is as narrow and as short as the terminal', async (t) => {
    const { locks, inTerminal } = setUp(t);
    await hold(locks, 'n'.repeat(100), { label: '名'.repeat(100) });
    const env = { NO_COLOR: '1' };
    const wide = await inTerminal('query', { columns: 90, env }).ended;
    assert.ok(!wide.stdout.includes('\x1b'), wide.stdout);
    const [titles, row] = cells(wide.stdout);
    assert.deepEqual(titles.at(-1).trim(), 'TOKEN');
    assert.match(row[0], /^n+…$/);
    assert.match(row.join(' '), /名+…/u);
    const narrow = await inTerminal('query', { columns: 20, env }).ended;
    for (const line of narrow.stdout.trimEnd().split('\r\n')) assert.ok(line.length <= 20, line);
    for (let i = 0; i < 9; i++) await hold(locks, `n${i}`);
    const watcher = inTerminal('query --watch', { rows: 5 });
    await watcher.says(/… and 7 more/);
  });

  for (const [title, script, status, end] of [
    ['q', '"$@"', 0, (watcher) => watcher.type('q')],
    ['Ctrl-C', '"$@"', 0, (watcher) => watcher.type('\x03')],
    [
      'a signal',
      '"$@" & echo "pid $!."; wait $!',
      143,
      async (watcher) => process.kill(Number((await watcher.says(/pid (\d+)\./))[1]), 'SIGTERM'),
    ],
  ]) {
    it(`--watch paints after changes, and gives the terminal back at ${title}`, async (t) => {
      const { locks, at } = setUp(t);
      // The shell prints the settings of the terminal before and after it.
      const words = ['sh', '-c', `stty -g; ${script}; echo "ended $?"; stty -g`, 'sh'];
      const program = [...words, process.execPath, PROGRAM, 'query', '--watch', ...at];
      const watcher = startInTerminal(t, [], { program });
      await watcher.says(/No locks/);
      const lock = await hold(locks, 'a', { label: 'painted' });
      await watcher.says(/painted/);
      ask(locks, 'a', { label: 'queue' });
      await watcher.says(/waits.*queue/);
      await lock.release();
      await watcher.says(/queue[\s\S]*No locks/);
      await end(watcher);
      const { stdout } = await watcher.ended;
      assert.ok(stdout.includes(ENTER));
      assert.match(stdout.slice(stdout.indexOf(LEAVE)), new RegExp(`ended ${status}\r`));
      const lines = stdout.trimEnd().split('\r\n');
      assert.equal(lines.at(-1), lines[0]);
    });
  }
});
