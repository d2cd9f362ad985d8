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
const KINDS = ['request', 'ifAvailable', 'once', 'pass', 'limited', 'few', 'refused', 'steal'];

test('the rules hold, whatever happens', async () => {
  const property = fc.asyncProperty(story, async ([clocks, actions]) => {
    assert.deepEqual(await run(clocks, actions), []);
  });
  const seed = SEED === undefined ? {} : { seed: Number(SEED) };
  await fc.assert(property, { numRuns: RUNS, includeErrorInReport: true, ...seed });
});

test('an open session keeps no request that has ended', async () => {
  const more = { name: 'a', mode: 'exclusive', priority: 0, flag: false, pause: 5 };
  const actions = KINDS.flatMap((what) => [
    { ...more, what: 'request', i: 0, ms: 50 },
    { ...more, what: 'publish', i: 0, ms: 1 },
    { ...more, what, i: 1, ms: 50 },
    { ...more, what, i: 1, ms: 0, pause: 200 },
  ]);
  const kept = new Kept(TrackedRequest);
  assert.deepEqual(await run([1, 1, 1, 1], actions, { kept }), []);
});
