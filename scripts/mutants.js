'use strict';

/**
 * Changes source files in one place at a time, and lists the changes that no test about the file
 * notices: JavaScript by StrykerJS, C by clang's syntax tree (mutants/c.js). What survives is a
 * place to look: either a test is missing, or the change makes no difference.
 *
 *   npm run mutants                 files of lib, src/core and src/host changed since the last tag
 *   npm run mutants -- FILE…        these files
 *     --since REVISION              those that changed since then
 *     --list                        lists the mutants of C files and runs nothing
 *     --count N                     so many mutants of each C file, drawn by --seed (default 1)
 *     --jobs N                      so many at a time; by default one for each core
 *
 * Which tests are about a file is in mutants/about.js. Needs clang, and the npm registry for
 * StrykerJS.
 */

const { execFileSync, spawnSync } = require('node:child_process');
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { root, testsAbout } = require('./mutants/about.js');
const { mutantsOf } = require('./mutants/c.js');
const { Copy } = require('./mutants/copy.js');
const { endRunning } = require('./mutants/program.js');

/** @typedef {import('./mutants/c.js').Mutant} Mutant */

/** The newest version that runs in Node.js 20. */
const STRYKER = '@stryker-mutator/core@9';

/**
 * A mutant's time limit: a fixed part in milliseconds, and a multiple of the time without a defect.
 */
const LEAST_LIMIT = 20_000;
const LIMIT_FACTOR = 4;
/** The time limit of a program without a defect, in milliseconds. */
const CLEAN_LIMIT = 1_200_000;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    count: { type: 'string', default: 'Infinity' },
    jobs: { type: 'string', default: String(os.availableParallelism()) },
    list: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
    since: { type: 'string' },
  },
});

/** @param {...string} args */
const git = (...args) => String(execFileSync('git', args, { cwd: root })).trim();

/** @returns {string[]} paths from the root */
function chosenFiles() {
  if (positionals.length > 0)
    return positionals.map((file) => path.relative(root, path.resolve(file)));
  const since = options.since ?? git('describe', '--tags', '--abbrev=0');
  const changed = git('diff', '--name-only', '--diff-filter=d', since, '--', 'lib', 'src').split(
    '\n',
  );
  return changed.filter((file) => /\.(js|c)$/.test(file) && testsAbout(file).length > 0);
}

/** @param {Mutant[]} mutants @returns {Mutant[]} at most `--count` of them */
function drawMutants(mutants) {
  /** @param {Mutant} mutant */
  const lot = ({ name, text }) =>
    createHash('sha256').update(`${options.seed}\0${name}\0${text}`).digest('hex');
  const lots = mutants.map((mutant) => ({ mutant, lot: lot(mutant) }));
  lots.sort((a, b) => (a.lot < b.lot ? -1 : 1));
  return lots.slice(0, Number(options.count)).map(({ mutant }) => mutant);
}

/** @param {number} began */
const seconds = (began) => Math.round((Date.now() - began) / 1000);

/**
 * For each program, the milliseconds that it takes without a defect.
 * @type {Map<string, Promise<number>>}
 */
const cleanTimes = new Map();

/** @param {Copy} copy @param {string} test */
function cleanTimeOf(copy, test) {
  const run = async () => {
    const began = Date.now();
    const { how, output } = await copy.run(test, CLEAN_LIMIT);
    if (how !== 'passed') throw new Error(`${test} fails without a defect:\n${output}`);
    return Date.now() - began;
  };
  const known = cleanTimes.get(test) ?? run();
  cleanTimes.set(test, known);
  return known;
}

/**
 * @param {Copy} copy @param {Mutant} mutant
 * @returns {Promise<string>} the test that noticed it; '' if it survived
 */
async function noticedBy(copy, mutant) {
  for (const test of testsAbout(mutant.file)) {
    const limit = LEAST_LIMIT + LIMIT_FACTOR * (await cleanTimeOf(copy, test));
    copy.plant(mutant);
    const { how, isBuilt, said } = await copy.run(test, limit).finally(() => copy.heal(mutant));
    if (!isBuilt) return 'the compiler';
    if (how !== 'passed') return `${test}: ${how === 'hung' ? 'it hangs' : said}`;
  }
  return '';
}

/** @param {string[]} files of C */
async function runC(files) {
  const mutants = files.flatMap((file) => drawMutants(mutantsOf(file)));
  if (options.list) {
    for (const { name, text } of mutants) console.log(`${name}  →  ${text}`);
    return;
  }
  const copies = Array.from(
    { length: Math.min(Number(options.jobs), mutants.length) },
    () => new Copy(),
  );
  process.on('exit', () => {
    endRunning();
    for (const copy of copies) copy.remove();
  });
  const rest = [...mutants];
  /** @type {Mutant[]} */
  const survivors = [];
  await Promise.all(
    copies.map(async (copy) => {
      for (let mutant = rest.shift(); mutant; mutant = rest.shift()) {
        const began = Date.now();
        const by = await noticedBy(copy, mutant);
        if (by === '') survivors.push(mutant);
        console.log(`${by ? 'noticed' : 'SURVIVED'}  ${seconds(began)} s  ${mutant.name}`);
        if (by) console.log(`    by ${by}`);
      }
    }),
  );
  const noticed = mutants.length - survivors.length;
  console.log(`\nC: ${noticed} of ${mutants.length} noticed; survivors:`);
  for (const { name, text } of survivors) console.log(`  ${name}  →  ${text}`);
}

/**
 * Runs StrykerJS once for the files that have the same tests.
 * @param {string[]} files @param {string[]} tests
 */
function runStryker(files, tests) {
  const config = {
    mutate: files,
    testRunner: 'command',
    commandRunner: { command: ['node', '--test', ...tests].join(' ') },
    concurrency: Number(options.jobs),
    reporters: ['clear-text', 'progress-append-only'],
    clearTextReporter: { allowColor: false, reportTests: false },
    ignorePatterns: ['bench', 'prebuilds', 'build', '!build/Release'],
    tempDirName: path.join(os.tmpdir(), `web-locks-stryker-${process.pid}`),
    checkers: [],
  };
  const file = path.join(root, 'build', 'stryker.json');
  fs.writeFileSync(file, JSON.stringify(config));
  spawnSync('npx', ['--yes', STRYKER, 'run', file], { cwd: root, stdio: 'inherit' });
}

/** @param {string[]} files of JavaScript */
function runJs(files) {
  /** @type {Map<string, string[]>} */
  const byTests = new Map();
  for (const file of files) {
    const key = testsAbout(file).join(' ');
    byTests.set(key, [...(byTests.get(key) ?? []), file]);
  }
  for (const [tests, some] of byTests) runStryker(some, tests.split(' '));
}

async function main() {
  const files = chosenFiles();
  const unknown = files.filter((file) => testsAbout(file).length === 0);
  if (unknown.length > 0)
    throw new Error(`no tests are about ${unknown.join(', ')}: see mutants/about.js`);
  const js = files.filter((file) => file.endsWith('.js'));
  if (js.length > 0 && !options.list) runJs(js);
  await runC(files.filter((file) => file.endsWith('.c')));
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => process.exit(1));
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 2;
});
