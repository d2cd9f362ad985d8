'use strict';

/** Whatever happens to clients, their connections and the server: the rules hold. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const fc = require('fast-check');
const { run } = require('./trial.js');
const { TTL } = require('./setup.js');

const RUNS = Number(process.env.WEB_LOCKS_CLUSTER_RUNS ?? 200);

const mode = fc.constantFrom('exclusive', 'exclusive', 'shared');
const what = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.constantFrom('request', 'request', 'limited', 'ifAvailable', 'once'),
  },
  { weight: 5, arbitrary: fc.constantFrom('abort', 'steal', 'all', 'all', 'refused') },
  {
    weight: 5,
    arbitrary: fc.constantFrom('cut', 'drop', 'away', 'delay', 'twice', 'heal', 'stop', 'wall'),
  },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      ...['restart', 'failOver', 'stopServer', 'kill', 'guard', 'backup', 'failBack'],
    ),
  },
);
const action = fc.record({
  what,
  i: fc.nat({ max: 2 }),
  name: fc.constantFrom('a', 'b'),
  ms: fc.nat({ max: 2 * TTL }),
  mode,
  flag: fc.boolean(),
  pause: fc.oneof(fc.nat({ max: 20 }), fc.nat({ max: TTL })),
});
// A second of one is that of another to less than 10 %.
const rate = fc.constantFrom(0.96, 1, 1.04);
const rates = fc.tuple(rate, rate, rate, rate);

test('the rules hold, whatever happens', async () => {
  const property = fc.asyncProperty(
    rates,
    fc.array(action, { maxLength: 40 }),
    async (clocks, actions) => {
      assert.deepEqual(await run(clocks, actions), []);
    },
  );
  await fc.assert(property, { numRuns: RUNS, includeErrorInReport: true });
});
