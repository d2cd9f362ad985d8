'use strict';

/**
 * Counts how many stories it takes until the judge notices that a rule is missing:
 *
 *   node test/world/without.js [RULE…] [--runs N] [--seed N]
 */

const fc = require('fast-check');
const { parseArgs } = require('node:util');
const { story } = require('./actions.js');
const { RULES, without } = require('./rules.js');
const { run } = require('./trial.js');

/** @returns what is wrong with a story without the rule; nothing if it is also wrong with it */
async function missed(rule, [clocks, actions]) {
  const wrong = await without(rule, (options) => run(clocks, actions, options));
  if (wrong.length === 0) return [];
  const { patience } = RULES[rule];
  return (await run(clocks, actions, { patience })).length === 0 ? wrong : [];
}

async function notice(rule, { runs, seed }) {
  let wrong = [];
  const property = fc.asyncProperty(story, async (one) => {
    const found = await missed(rule, one);
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
