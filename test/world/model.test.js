// slow: 8

'use strict';

/**
 * The rules hold whatever happens to clients, their connections and the server.
 * WEB_LOCKS_CLUSTER_RUNS=100000 runs more stories, WEB_LOCKS_CLUSTER_SEED always the same ones.
 */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const fc = require('fast-check');
const { story } = require('./actions.js');
const { run } = require('./trial.js');

const RUNS = Number(process.env.WEB_LOCKS_CLUSTER_RUNS ?? 1000);
const SEED = process.env.WEB_LOCKS_CLUSTER_SEED;

test('the rules hold, whatever happens', async () => {
  const property = fc.asyncProperty(story, async ([clocks, actions]) => {
    assert.deepEqual(await run(clocks, actions), []);
  });
  const seed = SEED === undefined ? {} : { seed: Number(SEED) };
  await fc.assert(property, { numRuns: RUNS, includeErrorInReport: true, ...seed });
});
