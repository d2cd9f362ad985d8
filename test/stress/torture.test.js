'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { torture } = require('./torture.js');

/**
 * The short form of `npm run torture`; see docs/RELIABILITY.md. The seed is printed by a failing
 * test.
 */
const seed = Number(process.env.TORTURE_SEED ?? Math.floor(Math.random() * 2 ** 31));

const shapes = {
  '2 workers on 1 name, without steals': { workers: 2, names: 1, buckets: 1, steal: false },
  '4 workers on 20 names in 2 buckets': { workers: 4, names: 20, buckets: 2 },
  '16 workers on 400 names in 8 buckets': { workers: 16, names: 400, buckets: 8 },
  '4 workers, two of them hostile, on 20 names': { workers: 4, names: 20, hostile: true },
};

describe('torture: workers request, abort, steal, throw, hang and are killed', () => {
  for (const [title, shape] of Object.entries(shapes)) {
    it(title, async () => {
      const { failures, ...report } = await torture({ ...shape, seconds: 4, seed });
      const { exclusion, units, fifo, lost, crash, leak } = report;
      const faults = { exclusion, units, fifo, lost, crash, leak, failures };
      const none = { exclusion: 0, units: 0, fifo: 0, lost: 0, crash: 0, leak: 0, failures: [] };
      assert.deepEqual(faults, none, `seed ${seed}: ${JSON.stringify(report)}`);
      assert.ok(report.grants > 100 && report.kills > 0, JSON.stringify(report));
    });
  }
});
