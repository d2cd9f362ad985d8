'use strict';

/** `--publish` of `web-locks run`, `once` and `elect`, and `web-locks publish`. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { PROGRAM, check, setUp, skip } = require('./command.js');

/** `web-locks publish` in a script of a shell, whose arguments follow. */
const PUBLISH = `"${process.execPath}" "${PROGRAM}" publish`;

/** What a query tells as data, once it is what is awaited: a command publishes when it has time. */
async function untilData(locks, isWanted) {
  for (;;) {
    const { held } = await locks.query({ name: 'a', details: true });
    if (held[0] && isWanted(held[0].data)) return held[0].data;
  }
}

const unless = process.platform === 'win32' ? 'sh has no descriptor 3 on Windows' : skip;

describe('web-locks run --publish', { skip: unless }, () => {
  const sh = (script) => ['--', 'sh', '-c', script];

  for (const command of ['run a --publish', 'once a -k 1h --publish', 'elect a --publish']) {
    it(`${command} publishes what its command writes to descriptor 3`, async (t) => {
      const { locks, start } = setUp(t);
      const script = 'echo {\\"at\\": 1} >&3; echo ready; read line';
      const running = start(command, ...sh(script));
      assert.deepEqual(await untilData(locks, (data) => data !== undefined), { at: 1 });
      running.child.stdin.end('\n');
      check(await running.ended, { code: 0, stdout: 'ready\n', stderr: '' });
    });
  }

  it('replaces it line by line, and an empty line removes it', async (t) => {
    const { locks, start } = setUp(t);
    const running = start('run a --publish', ...sh('while read line; do echo "$line" >&3; done'));
    for (const value of [1, 'two', [3], null]) {
      running.child.stdin.write(`${JSON.stringify(value)}\n`);
      const is = (data) => JSON.stringify(data) === JSON.stringify(value);
      await untilData(locks, is);
    }
    running.child.stdin.write('\n');
    await untilData(locks, (data) => data === undefined);
    running.child.stdin.end();
    check(await running.ended, { code: 0, stderr: '' });
  });

  it('says of a line that it is not JSON, or too long, and goes on', async (t) => {
    const { run } = setUp(t);
    const long = `printf '"%05000d"\\n' 0 >&3`;
    const longest = `printf '%070000d\\n' 0 >&3`;
    const ending = await run('run a --publish', ...sh(`echo a b >&3; ${long}; ${longest}; exit 3`));
    assert.equal(ending.code, 3);
    const lines = ending.stderr.split('\n');
    assert.equal(
      lines[0],
      'web-locks: the line "a b" to publish is not JSON; nothing was published.',
    );
    assert.match(ending.stderr, /has 5002 bytes; at most 4096 are allowed/);
    assert.match(ending.stderr, /has more than 65536 characters; nothing was published/);
  });

  it('does not tell all of many lines that cannot be published', async (t) => {
    const { run } = setUp(t);
    const { code, stderr } = await run('run a --publish', ...sh('yes bad | head -n 50000 >&3'));
    assert.equal(code, 0);
    const lines = stderr.trimEnd().split('\n');
    assert.equal(lines.length, 11);
    assert.equal(lines[10], 'web-locks: further lines that cannot be published are not told.');
  });

  it('reads what a command wrote just before it ended, and ends though others still write', async (t) => {
    const { run } = setUp(t);
    const script = `(while :; do echo 1 >&3 || exit; done) >/dev/null 2>&1 & printf 'bad\\n' >&3`;
    const { code, stderr } = await run('run a --publish', ...sh(script));
    assert.equal(code, 0);
    assert.match(stderr, /the line "bad" to publish is not JSON/);
  });

  it('tells the command the descriptor; without it there is none', async (t) => {
    const { run } = setUp(t);
    const show = sh(`echo "$WEB_LOCKS_PUBLISH_FD"; (echo 1 >&3) 2>/dev/null && echo open; true`);
    check(await run('run a --publish', ...show), { code: 0, stdout: '3\nopen\n' });
    check(await run('run a', ...show), { code: 0, stdout: '\n' });
  });

  it('does not pass the descriptor on to what another web-locks command runs', async (t) => {
    const { at, run } = setUp(t);
    const place = at.map((word) => `'${word}'`).join(' ');
    const inner = `"${process.execPath}" "${PROGRAM}" run b ${place} -c 'echo "<$WEB_LOCKS_PUBLISH_FD>"'`;
    check(await run('run a --publish', ...sh(inner)), { code: 0, stdout: '<>\n' });
  });

  it('ends with the command, though another process has the pipe open', async (t) => {
    const { run } = setUp(t);
    const ending = await run('run a --publish', ...sh('sleep 60 >/dev/null 2>&1 & echo $!'));
    process.kill(Number(ending.stdout));
    check(ending, { code: 0, stderr: '' });
  });
});

describe('web-locks publish', { skip: unless }, () => {
  it('publishes its value below web-locks run --publish', async (t) => {
    const { locks, start } = setUp(t);
    const script = `${PUBLISH} '{"text": "a b",\n"n": [1]}' && echo done; read line`;
    const running = start('run a --publish', '--', 'sh', '-c', script);
    assert.deepEqual(await untilData(locks, (data) => data !== undefined), { text: 'a b', n: [1] });
    running.child.stdin.end('\n');
    check(await running.ended, { code: 0, stdout: 'done\n', stderr: '' });
  });

  for (const [what, value, stderr] of [
    ['no JSON', `'a text'`, /^web-locks: the value is "a text", which is not JSON.\nQuote a text/],
    ['too long', `"$(printf '"%05000d"' 0)"`, /the value has 5002 bytes of JSON; at most 4096/],
    ['missing', '', /the value is missing/],
  ]) {
    it(`ends with 64 if its value is ${what}`, async (t) => {
      const script = `${PUBLISH} ${value}`;
      check(await setUp(t).run('run a --publish', '--', 'sh', '-c', script), { code: 64, stderr });
    });
  }

  it('ends with 64 where no lock can publish', async (t) => {
    const { run } = setUp(t);
    const none = /^web-locks: no lock can publish: WEB_LOCKS_PUBLISH_FD is not set.\nStart the/;
    check(await run('run a', '--', 'sh', '-c', `${PUBLISH} 1`), { code: 64, stderr: none });
    const closed = `${PUBLISH} 1 3>&-`;
    const stderr = /no lock can publish: descriptor 3 .* is not a pipe of web-locks/;
    check(await run('run a --publish', '--', 'sh', '-c', closed), { code: 64, stderr });
    const other = `{ ${PUBLISH} 1 3>&1; echo $? >&2; } | cat`;
    const shown = /no lock can publish: descriptor 3 (.*\n)+64\n$/;
    check(await run('run a --publish', '--', 'sh', '-c', other), {
      code: 0,
      stdout: '',
      stderr: shown,
    });
  });
});

describe('what is published', { skip }, () => {
  it('is shown by query, in the table and as JSON', async (t) => {
    const { locks, run } = setUp(t);
    const handle = await locks.acquire('a');
    const other = await locks.acquire('b');
    const { stdout: before } = await run('query');
    assert.doesNotMatch(before, /DATA/);
    await handle.publish({ at: 'http://a:1', text: '\x1b[31m' });
    const { stdout } = await run('query');
    const [title, ofA, ofB] = stdout.split('\n');
    assert.match(title, /TOKEN +DATA$/);
    assert.match(ofA, / "?\{.*at.*http:\/\/a:1.*u001b/);
    assert.match(ofB, / -$/);
    assert.ok(!stdout.includes('\x1b'));
    const { held } = JSON.parse((await run('query --json')).stdout);
    assert.deepEqual(
      held.map(({ data }) => data),
      [{ at: 'http://a:1', text: '\x1b[31m' }, undefined],
    );
    await other.release();
    await handle.release();
  });
});
