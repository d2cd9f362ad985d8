// slow: 15

'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const { it } = require('node:test');
const { chosen } = require('../conformance/scopes.js');

const PROGRAM = path.join(__dirname, 'programs.js');

/** The number of programs, always the same; programs.js runs others. Servers are slower. */
const RUNS = { process: 600, host: 400, memory: 400 };
const RUNS_ON_A_SERVER = 30;

it('programs of all calls with all options do what is documented', async () => {
  const { NODE_TEST_CONTEXT: _, ...inherited } = process.env;
  const env = { PROGRAMS_RUNS: String(RUNS[chosen] ?? RUNS_ON_A_SERVER), ...inherited };
  const { error, output } = await new Promise((resolve) => {
    execFile(process.execPath, [PROGRAM], { env, maxBuffer: 2 ** 26 }, (error, stdout, stderr) =>
      resolve({ error, output: stdout + stderr }),
    );
  });
  assert.ok(!error, `${error?.signal ?? error?.code}\n${output}`);
  if (RUNS[chosen] && !inherited.PROGRAMS_RUNS) assert.match(output, /, missing: none$/m);
});
