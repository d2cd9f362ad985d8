// slow: 37; long; waits

'use strict';

/**
 * A test that hangs is ended and reported, and the other files go on; what fails is named at the end:
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
      // Without the marks of what a file printed.
      const output = stdout.replaceAll(/^ *\| ?/gm, '');
      resolve({ code: error?.code ?? 0, output, stderr });
    });
  });

/** What is reported at the end of a file that hangs, and that the one after it ran. */
async function reportOf(name) {
  const { code, output } = await run(fixture(name), fixture('good'));
  assert.equal(code, 1);
  assert.match(output, /^✔ fixtures\/limit\/good /m);
  assert.match(output, /^[1-9]\d* passed, /m);
  const end = output.slice(output.indexOf('What failed:')).replaceAll(/^ {4}/gm, '');
  const report = end.match(/^=== (.|\n)*?^===$/m)?.[0];
  assert.ok(report, `nothing was reported:\n${output}`);
  assert.ok(report.includes(`fixtures/limit/${name}.test.js: nothing has ended for 3 s`), report);
  return report;
}

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

describe('a test that hangs', { concurrency: 2 }, () => {
  it('is named, with the locks of all buckets that are held and waited for', async () => {
    const report = await reportOf('waits');
    assert.match(report, /^the test: (outer > )?waits$/m);
    assert.match(report, /^its thread waits, for one of:$/m);
    const [, held, pending, inBucket] = report.split(/held:|pending:/);
    assert.match(held, /"name":"left held","label":"the leak"/);
    assert.match(pending, /"name":"left held","label":"",.*"blockedBy":/);
    assert.match(inBucket, /"mode":"shared","name":"in a bucket"/);
  });

  it('in an endless loop is named with its stack and its locks', async () => {
    const report = await reportOf('loops');
    assert.match(report, /^the test: loops$/m);
    assert.match(report, /blocked:\n +at endless \(\S+loops\.test\.js:9:\d+\)/);
    assert.match(report, /"name":"held by who loops"/);
  });

  it('in Atomics.wait is named with its stack and its locks', async () => {
    const report = await reportOf('blocks');
    assert.match(report, /^the test: sleeps$/m);
    assert.match(report, /blocked:\n +at \S+ \(\S+blocks\.test\.js:\d+:\d+\)/);
    assert.match(report, /"name":"held by who sleeps"/);
  });

  it('in native code is named with the locks of the process, and what it has started', async () => {
    const report = await reportOf('native');
    assert.match(report, /^the test: asks for what its own process holds$/m);
    assert.match(report, /its thread is in native code/);
    assert.match(report, /name: 'held',\n +label: 'by itself'/);
    assert.match(report, /\d+ S \(sleeping\): sleep 1000/);
  });

  it('beside a worker that is blocked is named with the stack of the worker', async () => {
    const report = await reportOf('worker');
    assert.match(report, /^the test: waits for a worker$/m);
    assert.match(report, /a worker, \S*worker\.test\.js:\n +at loops \(/);
  });

  it('after all tests have ended is reported, too', async () => {
    const report = await reportOf('stays');
    assert.match(report, /^the test: none, the last that ended is 'leaves a timer'$/m);
    assert.match(report, /Timeout/);
  });
});

describe('a run', () => {
  it('passes, and counts all tests of all files', async () => {
    const { code, output } = await run(fixture('good'), fixture('good-too'));
    assert.equal(code, 0);
    assert.match(output, /^2 passed, 0 failed, 1 skipped$/m);
  });

  it('says what was skipped, and how to get what a file needs', async () => {
    const { output } = await run(fixture('good-too'), fixture('needs'), { PATH: '/' });
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
