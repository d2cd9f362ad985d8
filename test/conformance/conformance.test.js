// slow: 26

'use strict';

/**
 * Runs the conformance suite in short form, in all scopes that need no server: one process for all
 * files, and few runs of the model test. run.js runs all of it.
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

/** So many runs of the model test take a second or two. */
const RUNS = process.env.MODEL_RUNS ?? '60';

/** The suite's limit ends before that of this test, because the suite can report more. */
const LIMIT_S = '200';

/** The time limit of one comparison with the model. */
const MODEL_LIMIT_MS = '100000';

function startSuite(scope) {
  const { NODE_TEST_CONTEXT: _, ...env } = process.env; // it would report to this test's parent
  Object.assign(env, { WEB_LOCKS_TEST_SCOPE: scope, MODEL_RUNS: RUNS, MODEL_LIMIT_MS });
  Object.assign(env, { NODE_NO_WARNINGS: '1', WEB_LOCKS_TEST_LIMIT: LIMIT_S });
  const limit = ['--require', path.join(__dirname, '..', 'helpers', 'limit.js')];
  const args = [...limit, '--test-reporter=tap', path.join(__dirname, 'files.js'), ...files];
  return spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
}

/** The failed tests, with their reports. */
const failures = (output) => output.match(/^ *not ok[\s\S]*?\.\.\.$/gm)?.join('\n') ?? '';

describe('the conformance suite', () => {
  for (const scope of SCOPES) {
    it(`passes in the scope ${scope}`, async (t) => {
      const child = startSuite(scope);
      const exited = once(child, 'exit');
      let output = '';
      for await (const line of createInterface({ input: child.stdout })) {
        output += `${line}\n`;
        // The time limit (helpers/limit.js) then applies to each test of the suite.
        const [, title] = /^ *(?:not )?ok \d+ - (.*)/.exec(line) ?? [];
        if (title) await t.test(title, () => {});
      }
      assert.equal(failures(output), '');
      const [code, signal] = await exited;
      assert.equal(code, 0, `${signal ?? code}\n${output.slice(-5000)}`);
      assert.match(output, /^# fail 0$/m);
      const [, passed] = /^# pass (\d+)$/m.exec(output);
      assert.ok(Number(passed) > 200, passed);
    });
  }
});
