// slow: 19; long

'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const { it } = require('node:test');

const PROGRAM = path.join(__dirname, 'hostile.js');

/** The sequences are always the same; HOSTILE_RUNS and HOSTILE_SEED of hostile.js change them. */
it('a hostile user gets no lock that was not granted to it, and leaves nothing', async () => {
  const { error, output } = await new Promise((resolve) => {
    const limits = { timeout: 600_000, killSignal: 'SIGKILL', maxBuffer: 2 ** 26 };
    const args = ['--disable-warning=LockWarning', PROGRAM];
    const env = { HOSTILE_SEED: '20261122', ...process.env };
    execFile(process.execPath, args, { ...limits, env }, (error, stdout, stderr) =>
      resolve({ error, output: stdout + (error ? stderr.slice(-2000) : '') }),
    );
  });
  assert.ok(!error, output);
});
