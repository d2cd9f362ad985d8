'use strict';

/**
 * How many stories it takes until the judge notices that a rule is not kept:
 *
 *   node test/cluster/without.js [RULE…] [--runs N] [--seed N]
 */

const fc = require('fast-check');
const { parseArgs } = require('node:util');
const { story } = require('./actions.js');
const { MemoryAdapter } = require('./memory.js');
const { run } = require('./trial.js');
const { TTL } = require('./setup.js');

/** R3: what the server refuses is as a network that fails. */
const refusesNothing = (adapter) =>
  Object.assign(adapter, {
    classify(error) {
      const kind = MemoryAdapter.prototype.classify.call(adapter, error);
      return kind === 'refused' ? 'retry' : kind;
    },
  });

/** R3: which step was the last that the server has done is not known. */
function missesNothing(adapter) {
  const renew = adapter.renew.bind(adapter);
  return Object.assign(adapter, {
    renew: async (seen) => ({ ...(await renew(seen)), step: undefined }),
  });
}

/** Options of a Trial that take a rule away. */
const RULES = {
  margin: { rules: { margin: 1.1 } },
  clock: { clock: { isContinuous: false } },
  compares: { rules: { compares: false } },
  quarantine: { server: { quarantine: false } },
  // A step that was replaced is old by its number, too.
  connections: { server: { connections: false, records: false } },
  records: { server: { records: false } },
  record: { server: { records: 1 }, patience: 10 * TTL },
  orders: { server: { orders: false }, patience: 10 * TTL },
  refuses: { wrap: refusesNothing, patience: 100 * TTL },
  misses: { wrap: missesNothing, patience: 100 * TTL },
  listens: { server: { listens: false } },
};

async function notice(rule, { runs, seed }) {
  let wrong = [];
  const property = fc.asyncProperty(story, async ([clocks, actions]) => {
    const found = await run(clocks, actions, RULES[rule]);
    if (found.length > 0) wrong = found;
    return found.length === 0;
  });
  const { failed, numRuns } = await fc.check(property, { numRuns: runs, seed, endOnFailure: true });
  return failed ? `noticed after ${numRuns}: ${wrong[0]}` : `not noticed in ${numRuns}`;
}

async function main() {
  const options = { runs: { type: 'string' }, seed: { type: 'string' } };
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const { runs = 10_000, seed = Date.now() % 2 ** 31 } = values;
  const rules = positionals.length > 0 ? positionals : Object.keys(RULES);
  for (const rule of rules) {
    const found = await notice(rule, { runs: Number(runs), seed: Number(seed) });
    process.stdout.write(`${rule}: ${found} (seed ${seed})\n`);
  }
}

main();
