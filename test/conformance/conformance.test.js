// slow: 26

'use strict';

/**
 * The conformance suite in short form, in all scopes that need no server: one process for all
 * files, few runs of the model test. In full: run.js.
 */

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { createInterface } = require('node:readline');
const { describe, it } = require('node:test');
const { files } = require('./files.js');
const { lacksHost } = require('../helpers/host-scope.js');

const SCOPES = ['memory', ...(lacksHost ? [] : ['host'])];

/** Of the model test, as many as take a second or two. */
const RUNS = process.env.MODEL_RUNS ?? '60';

/** What ends one comparison with the model. */
const MODEL_LIMIT_MS = '100000';

/** Starts a process that runs all files in a scope. */
function startSuite(scope) {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env; // it would print for its parent, not for us
  Object.assign(env, { WEB_LOCKS_TEST_SCOPE: scope, MODEL_RUNS: RUNS, MODEL_LIMIT_MS });
  env.NODE_NO_WARNINGS = '1';
  const args = ['--test-reporter=tap', path.join(__dirname, 'files.js'), ...files];
  return spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
}

/** The tests that failed, with what is said about them. */
const failures = (output) => output.match(/^ *not ok[\s\S]*?\.\.\.$/gm)?.join('\n') ?? '';

describe('the conformance suite', () => {
  for (const scope of SCOPES) {
    it(`passes in the scope ${scope}`, async (t) => {
      const child = startSuite(scope);
      const exited = once(child, 'exit');
      let output = '';
      for await (const line of createInterface({ input: child.stdout })) {
        output += `${line}\n`;
        // So the time limit (helpers/limit.js) is that of each test of the suite.
        const [, title] = /^ *(?:not )?ok \d+ - (.*)/.exec(line) ?? [];
        if (title) await t.test(title, () => {});
      }
      assert.equal(failures(output), '');
      assert.deepEqual(await exited, [0, null], output.slice(-5000));
      assert.match(output, /^# fail 0$/m);
      const [, passed] = /^# pass (\d+)$/m.exec(output);
      assert.ok(Number(passed) > 200, passed);
    });
  }
});
