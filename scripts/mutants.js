'use strict';

/**
 * Plants defects one at a time in a copy of the tree, and says which of them no test notices.
 * test/mutants/*.js has the defects.
 *
 *   npm run mutants                  all of them
 *   npm run mutants -- OPTION…
 *     --list            tells what there is, and runs nothing
 *     --only PATTERN    those whose name, file or reason matches
 *     --file PATH       those of a source file
 *     --sample COUNT    so many, drawn by the commit: others with the next one; none whose tests
 *                       take more than a minute
 *     --minutes COUNT   begins no other one after so many minutes, and judges those that it had
 *     --jobs COUNT      so many at a time, each in a copy of its own; by default one for each core
 *     --least PERCENT   fails if fewer are noticed
 *
 * Before a test is run with its first defect it is run without any: if it fails then, it would notice
 * anything. How long it takes then says when it hangs.
 */

const { execFileSync } = require('node:child_process');
const { createHash } = require('node:crypto');
const os = require('node:os');
const { parseArgs } = require('node:util');
const { Copy } = require('./mutants/copy.js');
const { faultsOf, loadMutants, root } = require('./mutants/data.js');
const { endRunning } = require('./mutants/program.js');

/** @typedef {import('./mutants/data.js').Named} Named */

/**
 * @typedef {object} Result
 * @property {Named} mutant
 * @property {'noticed' | 'hang' | 'survived' | 'invalid'} how
 * @property {string} by the test that noticed, and what it said; or why it is invalid
 * @property {number} seconds
 */

/** Milliseconds for a test that takes no time without a defect, and for how long it takes. */
const LEAST_LIMIT = 20_000;
const LIMIT_FACTOR = 4;
/** Milliseconds for a test without a defect. */
const CLEAN_LIMIT = 1_200_000;

/** Tests that take more than a minute. */
const SLOW = [
  'test/cli/engines.test.js',
  'test/cluster/postgres-adapter.test.js',
  'test/cluster/redis-adapter.test.js',
];

const { values: options } = parseArgs({
  options: {
    list: { type: 'boolean', default: false },
    only: { type: 'string' },
    file: { type: 'string' },
    sample: { type: 'string' },
    minutes: { type: 'string', default: 'Infinity' },
    jobs: { type: 'string' },
    least: { type: 'string', default: '0' },
  },
});

/** @param {Named[]} mutants */
function chosen(mutants) {
  const { file, only, sample } = options;
  const pattern = new RegExp(only ?? '');
  const fitting = mutants.filter(
    (one) => pattern.test(`${one.name}\n${one.file}\n${one.why}`) && (!file || one.file === file),
  );
  if (sample === undefined) return fitting;
  const commit = String(execFileSync('git', ['rev-parse', 'HEAD'], { cwd: root }));
  /** @param {Named} mutant */
  const lot = ({ file, before, after }) =>
    createHash('sha256').update([commit, file, before, after].join('\0')).digest('hex');
  const drawn = fitting
    .filter(({ tests }) => !tests.some((test) => SLOW.includes(test)))
    .map((mutant) => ({ mutant, lot: lot(mutant) }));
  drawn.sort((a, b) => (a.lot < b.lot ? -1 : 1));
  return drawn.slice(0, Number(sample)).map(({ mutant }) => mutant);
}

/**
 * Does all of it, several at a time.
 * @template T
 * @param {Copy[]} copies
 * @param {T[]} things
 * @param {(copy: Copy, thing: T) => Promise<void>} work
 */
async function each(copies, things, work) {
  const rest = [...things];
  const worker = async (/** @type {Copy} */ copy) => {
    for (let thing = rest.shift(); thing !== undefined; thing = rest.shift()) {
      await work(copy, thing);
    }
  };
  await Promise.all(copies.map(worker));
}

/** @typedef {{ time: number, fault: string }} Clean milliseconds, and '' if it passed */

/** @type {Map<string, Promise<Clean>>} by test, how it went without a defect */
const cleanRuns = new Map();

/**
 * @param {Copy} copy without a defect
 * @param {string} test
 * @returns {Promise<Clean>}
 */
function runClean(copy, test) {
  const run = async () => {
    const began = Date.now();
    const { how, output, said } = await copy.run(test, CLEAN_LIMIT);
    const time = Date.now() - began;
    console.log(`${how === 'passed' ? 'ok' : how}  ${seconds(began)} s  ${test}`);
    const isGood = how === 'passed';
    return { time, fault: isGood ? '' : `${test} fails without a defect: ${said}\n${output}` };
  };
  const known = cleanRuns.get(test) ?? run();
  cleanRuns.set(test, known);
  return known;
}

/**
 * @param {Copy} copy
 * @param {Named} mutant
 * @param {string} test
 * @param {number} limit milliseconds
 */
async function runPlanted(copy, mutant, test, limit) {
  copy.plant(mutant);
  try {
    return await copy.run(test, limit);
  } finally {
    copy.heal(mutant);
  }
}

/**
 * @param {Copy} copy
 * @param {Named} mutant
 * @returns {Promise<Result>}
 */
async function runMutant(copy, mutant) {
  let began = Date.now();
  /** @type {(how: Result['how'], by: string) => Result} */
  const result = (how, by) => ({ mutant, how, by, seconds: seconds(began) });
  for (const test of mutant.tests) {
    const { time, fault } = await runClean(copy, test);
    if (fault) return result('invalid', fault);
    if (test === mutant.tests[0]) began = Date.now();
    const limit = LEAST_LIMIT + LIMIT_FACTOR * time;
    const { how, isBuilt, output, said } = await runPlanted(copy, mutant, test, limit);
    if (!isBuilt) return result('invalid', output);
    if (how === 'failed') return result('noticed', `${test}: ${said}`);
    if (how === 'hung') return result('hang', `${test}: it hangs`);
  }
  return result('survived', '');
}

/** @param {number} began */
const seconds = (began) => Math.round((Date.now() - began) / 1000);

/** @param {Named} mutant */
const describe = ({ name, file, why }) => `${name}  ${file}: ${why}`;

/** @param {Result[]} results @returns {number} percent */
function score(results) {
  const count = results.filter(({ how }) => how === 'noticed' || how === 'hang').length;
  return (100 * count) / results.length;
}

/** @param {Result[]} results */
function report(results) {
  const { length } = results;
  const areas = new Set(results.map(({ mutant }) => mutant.area));
  console.log('');
  for (const area of areas) {
    const own = results.filter(({ mutant }) => mutant.area === area);
    console.log(`${area}: ${own.length}, ${score(own).toFixed(0)} % noticed`);
  }
  /** @type {(how: Result['how']) => Result[]} */
  const those = (how) => results.filter((result) => result.how === how);
  for (const { mutant, by } of those('invalid')) {
    console.log(`\ninvalid: ${describe(mutant)}\n${by.slice(-2000)}`);
  }
  for (const { mutant } of those('survived')) {
    console.log(`\nsurvived: ${describe(mutant)}\n- ${mutant.before}\n+ ${mutant.after}`);
  }
  const hangs = those('hang').length;
  console.log(`\n${score(results).toFixed(1)} % of ${length} noticed, ${hangs} by a hang`);
}

/** @param {Named[]} mutants */
async function run(mutants) {
  const began = Date.now();
  const jobs = Number(options.jobs ?? os.availableParallelism());
  const copies = Array.from({ length: Math.min(jobs, mutants.length) }, () => new Copy());
  process.on('exit', () => {
    endRunning();
    for (const copy of copies) copy.remove();
  });
  const end = began + 60_000 * Number(options.minutes);
  /** @type {Result[]} */
  const results = [];
  await each(copies, mutants, async (copy, mutant) => {
    if (Date.now() > end) return;
    const result = await runMutant(copy, mutant);
    results.push(result);
    const count = `${results.length}/${mutants.length}`;
    console.log(`${count}  ${result.how}  ${result.seconds} s  ${describe(mutant)}`);
    if (result.by) console.log(`    ${result.by.split('\n')[0]}`);
  });
  report(results);
  const left = mutants.length - results.length;
  if (left > 0) console.log(`${left} were not begun`);
  console.log(`${seconds(began)} s, ${jobs} at a time`);
  const isGood = score(results) >= Number(options.least);
  process.exitCode = isGood && results.every(({ how }) => how !== 'invalid') ? 0 : 1;
}

async function main() {
  const mutants = chosen(loadMutants());
  if (options.list) {
    for (const mutant of mutants) console.log(describe(mutant));
    console.log(`${mutants.length} defects`);
    return;
  }
  const faults = mutants.flatMap((one) => faultsOf(one).map((fault) => `${one.name}: ${fault}`));
  if (mutants.length === 0) faults.push('no defect matches');
  if (faults.length > 0) throw new Error(faults.join('\n'));
  await run(mutants);
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => process.exit(1));
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 2;
});
