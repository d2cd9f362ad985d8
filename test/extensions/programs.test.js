// slow: 12

'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const { describe, it } = require('node:test');

const PROGRAM = path.join(__dirname, 'programs.js');

/** Always the same programs; others by hand: programs.js. */
const RUNS = { process: 600, host: 400, memory: 400 };

describe('programs of all calls with all options do what is documented', { concurrency: 2 }, () => {
  for (const [scope, runs] of Object.entries(RUNS)) {
    it(`in the scope ${scope}`, async () => {
      const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
      const env = { PROGRAMS_RUNS: String(runs), ...inherited, WEB_LOCKS_TEST_SCOPE: scope };
      const { error, output } = await new Promise((resolve) => {
        execFile(
          process.execPath,
          [PROGRAM],
          { env, maxBuffer: 2 ** 26 },
          (error, stdout, stderr) => resolve({ error, output: stdout + stderr }),
        );
      });
      assert.ok(!error, output);
    });
  }
});
