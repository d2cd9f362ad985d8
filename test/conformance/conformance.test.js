// slow: 26

'use strict';

/**
 * The conformance suite in short form, in all scopes that need no server: one process for all
 * files, few runs of the model test. In full: run.js.
 */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const { describe, it } = require('node:test');
const { files } = require('./files.js');
const { lacksHost } = require('../helpers/host-scope.js');

const SCOPES = ['memory', ...(lacksHost ? [] : ['host'])];

/** Of the model test, as many as take a second or two. */
const RUNS = process.env.MODEL_RUNS ?? '60';

/** What ends a suite that waits for ever; far more than one needs. */
const LIMIT_MS = 300_000;

/** What ends one comparison with the model, so that there is time left to say what failed. */
const MODEL_LIMIT_MS = String(LIMIT_MS / 3);

function suite(scope) {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env; // it would print for its parent, not for us
  Object.assign(env, { WEB_LOCKS_TEST_SCOPE: scope, MODEL_RUNS: RUNS, MODEL_LIMIT_MS });
  env.NODE_NO_WARNINGS = '1';
  const args = ['--test-reporter=tap', path.join(__dirname, 'files.js'), ...files];
  const limits = { env, timeout: LIMIT_MS, killSignal: 'SIGKILL', maxBuffer: 2 ** 26 };
  return new Promise((resolve) => {
    execFile(process.execPath, args, limits, (error, stdout, stderr) =>
      resolve({ error, output: stdout + stderr }),
    );
  });
}

/** The tests that failed, with what is said about them. */
const failures = (output) => output.match(/^ *not ok[\s\S]*?\.\.\.$/gm)?.join('\n') ?? '';

describe('the conformance suite', () => {
  for (const scope of SCOPES) {
    it(`passes in the scope ${scope}`, async () => {
      const { error, output } = await suite(scope);
      assert.equal(failures(output), '');
      assert.ok(!error, `${error}\n${output.slice(-5000)}`);
      assert.match(output, /^# fail 0$/m);
      const [, passed] = /^# pass (\d+)$/m.exec(output);
      assert.ok(Number(passed) > 200, passed);
    });
  }
});
