// slow: 8

'use strict';

/** `--publish` of `web-locks run`, `once` and `elect`, and `web-locks publish`. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { PassThrough } = require('node:stream');
const fc = require('fast-check');
const { Publisher } = require('../../lib/cli/publishing.js');
const { PROGRAM, check, setUp, skip } = require('./command.js');

/** Runs `web-locks publish` in a shell script; arguments follow. */
const PUBLISH = `"${process.execPath}" "${PROGRAM}" publish`;
const sh = (script) => ['--', 'sh', '-c', script];

/** Queries until the lock has the data: a command publishes when it has time. */
async function untilData(locks, data) {
  for (;;) {
    const { held } = await locks.query({ name: 'a', details: true });
    if (held[0] && JSON.stringify(held[0].data) === JSON.stringify(data)) return;
  }
}

const unless = process.platform === 'win32' ? 'sh has no descriptor 3 on Windows' : skip;

describe('--publish', { skip: unless }, () => {
  for (const command of ['run a --publish', 'once a -k 1h --publish', 'elect a --publish']) {
    it(`${command} publishes the last line at descriptor 3; an empty one removes it`, async (t) => {
      const { locks, start } = setUp(t);
      const running = start(command, ...sh('while read line; do echo "$line" >&3; done'));
      for (const value of [{ at: 1 }, 'two', null, undefined]) {
        running.type(`${JSON.stringify(value) ?? ''}\n`);
        await untilData(locks, value);
      }
      running.child.stdin.end();
      check(await running.ended, { code: 0, stdout: '', stderr: '' });
    });
  }

  it('names a line that is not JSON or too long, up to ten, and goes on', async (t) => {
    const { run } = setUp(t);
    const long = `printf '"%05000d"\\n' 0 >&3`;
    const longest = `printf '%070000d\\n' 0 >&3`;
    const script = `echo a b >&3; ${long}; ${longest}; yes bad | head -n 50000 >&3; exit 3`;
    const { code, stderr } = await run('run a --publish', ...sh(script));
    assert.equal(code, 3);
    const lines = stderr.trimEnd().split('\n');
    assert.equal(
      lines[0],
      'web-locks: the line "a b" to publish is not JSON; nothing was published.',
    );
    assert.match(stderr, /has 5002 bytes; at most 4096 are allowed/);
    assert.match(stderr, /has more than 65536 characters; nothing was published/);
    assert.equal(lines.length, 11);
    assert.equal(lines[10], 'web-locks: further lines that cannot be published are not told.');
  });

  it('reads what a command wrote at its end, and ends though another still writes', async (t) => {
    const { run } = setUp(t);
    const script = `(while :; do echo 1 >&3 || exit; done) >/dev/null 2>&1 & printf 'bad\\n' >&3`;
    const { code, stderr } = await run('run a --publish', ...sh(script));
    assert.equal(code, 0);
    assert.match(stderr, /the line "bad" to publish is not JSON/);
    const silent = await run('run a --publish', ...sh('sleep 60 >/dev/null 2>&1 & echo $!'));
    process.kill(Number(silent.stdout));
    check(silent, { code: 0, stderr: '' });
  });

  it('passes the descriptor to its command, but not to that of a web-locks inside', async (t) => {
    const { at, run } = setUp(t);
    const show = `echo "<$WEB_LOCKS_PUBLISH_FD>"; (echo 1 >&3) 2>/dev/null && echo open; true`;
    const place = at.map((word) => `'${word}'`).join(' ');
    const echo = `'echo "<$WEB_LOCKS_PUBLISH_FD>"'`;
    const inner = `"${process.execPath}" "${PROGRAM}" run b ${place} -c ${echo}`;
    const ending = await run('run a --publish', ...sh(`${show}; ${inner}`));
    check(ending, { code: 0, stdout: '<3>\nopen\n<>\n' });
    check(await run('run a', ...sh(show)), { code: 0, stdout: '<>\n' });
  });
});

it('the last line is published, wherever the bytes are cut, after whatever lines', async (t) => {
  t.mock.method(process.stderr, 'write', () => true);
  const many = [99, 100, 101, 102, 103, 104, 1000].map((count) => '1\n'.repeat(count));
  const before = fc.constantFrom('1\n', '\n', 'bad\n', '"é"\n', `${'x'.repeat(70_000)}\n`, ...many);
  const property = fc.asyncProperty(
    fc.array(before, { maxLength: 6 }),
    fc.constantFrom('"last é"\n', '"last é"\n"a beginn', '"last é"\n7'),
    fc.array(fc.nat(), { maxLength: 3 }),
    fc.boolean(),
    async (lines, last, places, isRefused) => {
      const published = [];
      const publish = async (value) => {
        if (isRefused && value !== 'last é') throw new Error('It is refused.');
        published.push(value);
      };
      const bytes = Buffer.from(lines.join('') + last);
      const cuts = places.map((place) => place % bytes.length).sort((a, b) => a - b);
      const stream = new PassThrough();
      const publisher = new Publisher(stream, { publish });
      [0, ...cuts].forEach((from, i) => {
        stream.write(bytes.subarray(from, cuts[i]));
      });
      await publisher.close();
      assert.equal(published.at(-1), 'last é');
    },
  );
  await fc.assert(property, { numRuns: 300, seed: 1 });
});

describe('web-locks publish', { skip: unless }, () => {
  it('publishes its value for the command that encloses it', async (t) => {
    const { locks, start } = setUp(t);
    const script = `${PUBLISH} '{"text": "a b",\n"n": [1]}' && echo done; read line`;
    const running = start('run a --publish', ...sh(script));
    await untilData(locks, { text: 'a b', n: [1] });
    await running.endsAfter('');
    check(await running.ended, { stdout: 'done\n', stderr: '' });
  });

  for (const [what, value, stderr, ...publish] of [
    ['its value is no JSON', `'a text'`, /^web-locks: the value is "a text", .*\nQuote a text/],
    ['its value is too long', `"$(printf '"%05000d"' 0)"`, /has 5002 bytes of JSON; at most 4096/],
    ['its value is missing', '', /the value is missing/],
    ['its descriptor is closed', '1 3>&-', /no lock can publish: descriptor 3 .* is not a pipe/],
    [
      'it is not enclosed',
      '1',
      /^web-locks: no lock can publish: WEB_LOCKS_PUBLISH_FD is .*\n/,
      '',
    ],
  ]) {
    it(`ends with 64 if ${what}`, async (t) => {
      const [option = ' --publish'] = publish;
      const ending = await setUp(t).run(`run a${option}`, ...sh(`${PUBLISH} ${value}`));
      check(ending, { code: 64, stdout: '', stderr });
    });
  }

  it('refuses a pipe at its descriptor that is not of web-locks', async (t) => {
    const script = `{ ${PUBLISH} 1 3>&1; echo $? >&2; } | cat`;
    const stderr = /no lock can publish: descriptor 3 (.*\n)+64\n$/;
    const ending = await setUp(t).run('run a --publish', ...sh(script));
    check(ending, { code: 0, stdout: '', stderr });
  });
});

it('query shows what is published, in the table and as JSON', { skip }, async (t) => {
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
