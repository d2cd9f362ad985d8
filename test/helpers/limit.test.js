// slow: 37; long; waits

'use strict';

/**
 * A test that hangs is ended and reported, and the other files run; failures are named at the end:
 * helpers/limit.js, helpers/progress.js, run.js.
 */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const { describe, it } = require('node:test');

const TEST = path.join(__dirname, '..');
const fixture = (name) => path.join(TEST, 'fixtures', 'limit', `${name}.test.js`);

/** Runs test files with a limit of three seconds; an object changes the environment. */
const run = (...given) =>
  new Promise((resolve) => {
    const limits = { WEB_LOCKS_TEST_LIMIT: '3', NODE_TEST_CONTEXT: undefined };
    const env = Object.assign(
      {},
      process.env,
      limits,
      ...given.filter((one) => typeof one === 'object'),
    );
    const files = given.filter((one) => typeof one === 'string');
    const args = [path.join(TEST, 'run.js'), ...files];
    execFile(process.execPath, args, { env }, (error, stdout, stderr) => {
      // Removes the prefix of a file's own output.
      const output = stdout.replaceAll(/^ *\| ?/gm, '');
      resolve({ code: error?.code ?? 0, output, stderr });
    });
  });

describe('a test that fails', () => {
  it('is named at the end, with its file, its cause and the command that repeats it', async () => {
    const { code, output } = await run(fixture('fails'), fixture('good'));
    assert.equal(code, 1);
    const end = output.slice(output.indexOf('What failed:'));
    assert.match(end, /^✖ test\/fixtures\/limit\/fails\.test\.js: fails\n +Error: the cause$/m);
    assert.match(
      end,
      /^ +again: npm test -- test\/fixtures\/limit\/fails\.test\.js --name fails$/m,
    );
    assert.doesNotMatch(end, /outer/);
  });

  it('fails again by that command, and alone', async () => {
    const { code, output } = await run(fixture('fails'), '--name', 'fails');
    assert.equal(code, 1);
    assert.match(output, /^0 passed, 1 failed, 0 skipped$/m);
  });
});

const AT_ENDLESS = /at endless \(/;
const HELD = /"name":"held","label":"the leak"/;

/** Parts of the report of a test that hangs, for each way to hang. */
const REPORTS = {
  waits: [
    /^its thread waits, for one of:$/m,
    HELD,
    /pending:\s+.*"name":"held","label":"",.*"blockedBy":/,
    /"mode":"shared","name":"in a bucket"/,
  ],
  loops: [/blocked:\n/, AT_ENDLESS, HELD],
  blocks: [/blocked:\n +at \S+ \(\S+hangs\.test\.js:\d+:\d+\)/, HELD],
  native: [
    /its thread is in native code/,
    /name: 'held',\n +label: 'the leak'/,
    /\d+ S \(sleeping\): sleep 1000/,
  ],
  worker: [/a worker, \S*hangs\.test\.js:\n/, AT_ENDLESS],
  stays: [/^the test: none, the last that ended is '(outer > )?hangs'$/m, /Timeout/],
};

describe('a test that hangs is ended and reported, and the files behind it run', {
  concurrency: 2,
}, () => {
  for (const [way, texts] of Object.entries(REPORTS)) {
    it(way, async () => {
      const how = { WEB_LOCKS_HANGS: way };
      const { code, output } = await run(fixture('hangs'), fixture('good'), how);
      assert.equal(code, 1);
      assert.match(output, /^✔ fixtures\/limit\/good /m);
      assert.match(output, /^[1-9]\d* passed, /m);
      const end = output.slice(output.indexOf('What failed:')).replaceAll(/^ {4}/gm, '');
      const report = end.match(/^=== (.|\n)*?^===$/m)?.[0] ?? assert.fail(output);
      assert.match(report, /fixtures\/limit\/hangs\.test\.js: nothing has ended for 3 s/);
      if (way !== 'stays') assert.match(report, /^the test: (outer > )?hangs$/m);
      for (const text of texts) assert.match(report, text);
    });
  }
});

describe('a run', () => {
  it('counts all tests of all files, and says what was skipped and what a file needs', async () => {
    const { code, output } = await run(fixture('good'), fixture('needs'), { PATH: '/' });
    assert.equal(code, 0);
    assert.match(output, /^1 passed, 0 failed, [12] skipped$/m);
    assert.match(output, /^skipped: .*1 \(Chromium is not installed \(Debian: chromium\)\)/m);
  });

  it('refuses a first line that it does not know', async () => {
    const { code, stderr } = await run(fixture('wrong-facts'));
    assert.equal(code, 1);
    assert.match(stderr, /wrong-facts: the first line has 'needs'/);
  });

  it('fails if no test ran', async () => {
    const { code } = await run('--not', 'good', fixture('good'));
    assert.equal(code, 1);
  });
});
