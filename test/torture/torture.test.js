// slow: 35; long

'use strict';

/**
 * The short form of `npm run torture`; see docs/internals/reliability.md. A failing test prints its
 * seed: TORTURE_SEED repeats it, and TORTURE_SECONDS makes the test longer.
 */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { describe: tell, torture } = require('./torture.js');
const { lacksHost } = require('../helpers/host-scope.js');

const seed = process.env.TORTURE_SEED ?? String(Math.floor(Math.random() * 2 ** 31));
const seconds = Number(process.env.TORTURE_SECONDS ?? 5);

const scopes = {
  'threads of a process': { scope: 'threads' },
  'threads and processes of a machine': { scope: 'host', rounds: 1, isHarmed: false },
  'processes whose files are harmed': { scope: 'host', rounds: 1, isHarmed: true },
  // Its rounds are always the same: see .ci/step.
  'a cluster in a world with its own time': { scope: 'memory', rounds: 3, seed: '20261122' },
};

describe('every call gets what is promised, or an error', () => {
  for (const [title, plan] of Object.entries(scopes)) {
    const skip = plan.scope === 'host' && lacksHost;
    it(title, { skip, timeout: 120_000 + seconds * 2000 }, async () => {
      const report = await torture({ seed, seconds, ...plan });
      assert.ok(
        report.faults.length === 0,
        report.faults.length > 0 ? tell(report, { seed, ...plan }) : '',
      );
      assert.ok(report.granted > 50, JSON.stringify(report));
    });
  }
});
