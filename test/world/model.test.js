// slow: 8

'use strict';

/**
 * The rules hold whatever happens to clients, their connections and the server.
 * WEB_LOCKS_CLUSTER_RUNS=100000 runs more stories, WEB_LOCKS_CLUSTER_SEED always the same ones.
 */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const fc = require('fast-check');
const { TrackedRequest } = require('../../lib/cluster/session/tracked-request.js');
const { Kept } = require('../helpers/kept.js');
const { story } = require('./actions.js');
const { run } = require('./trial.js');

const RUNS = Number(process.env.WEB_LOCKS_CLUSTER_RUNS ?? 1000);
const SEED = process.env.WEB_LOCKS_CLUSTER_SEED;
/** To count objects takes much longer than a run. */
const RUNS_PER_COUNT = 50;

test('the rules hold, whatever happens', async () => {
  let runs = 0;
  const property = fc.asyncProperty(story, async ([clocks, actions]) => {
    const options = runs++ % RUNS_PER_COUNT === 0 ? { kept: new Kept(TrackedRequest) } : {};
    assert.deepEqual(await run(clocks, actions, options), []);
  });
  const seed = SEED === undefined ? {} : { seed: Number(SEED) };
  await fc.assert(property, { numRuns: RUNS, includeErrorInReport: true, ...seed });
});
