'use strict';

/**
 * Runs test files, each in a process of its own, several at a time: `npm test [-- FILE…]`.
 *
 *   --quick       skips the files that take long
 *   --not REGEXP  skips the files whose paths (from this folder) match
 *
 * WEB_LOCKS_TEST_CORES: how many cores to use; by default all.
 *
 * Each test has a time limit (helpers/limit.js). The results of a file are printed when it has
 * ended, by the reporter of Node.js, and the numbers of all files at the end. The exit code is 1
 * if a test failed or if no test ran.
 */

const { readdirSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { run } = require('node:test');
const { spec, tap } = require('node:test/reporters');
const { parseArgs } = require('node:util');
const { Numbers } = require('./helpers/numbers.js');

/**
 * Files that mostly wait, for servers and leases, the longest first. They run beside the others.
 */
const WAIT = [
  'cluster/redis',
  'cluster/etcd',
  'cluster/postgres',
  'cluster/redis-adapter',
  'cli/engines',
  'cluster/postgres-adapter',
  'cluster/etcd-adapter',
  'cluster/transport',
  'documents/documents',
  'limit/limit',
  'documents/finding-out',
  'documents/migrating',
];

/** Other files that take more than a few seconds, the longest first. */
const LONG = [
  'threads/termination',
  'conformance/conformance',
  'hostile/stack',
  'model/model',
  'stress/endurance',
  'stress/torture',
  'torture/torture',
  'cli/run',
  'profile/report',
  'cli/page',
  'hostile/globals',
  'hostile/giving-up',
  'cli/usage',
  'host/processes',
  'host/lockfile',
  'cli/query',
  'cli/top',
  'threads/runtime',
  'profile/profile',
  'package/loading',
  'package/examples',
  'package/memory',
  'model/hostile',
  'stress/extensions',
  'hostile/events',
  'threads/exclusion',
  'hostile/collected',
  'bench/bench',
  'core/layout',
  'threads/spec-in-a-worker',
  'hostile/thefts',
  'cli/steal',
  'lib/options',
];

const ENDING = '.test.js';
/** @param {string} name such as `cluster/redis` */
const fileOf = (name) => path.join(__dirname, `${name}${ENDING}`);

/** @returns {string[]} all test files, in the folders of this one */
const allFiles = () =>
  readdirSync(__dirname, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name }) => readdirSync(path.join(__dirname, name)).map((file) => `${name}/${file}`))
    .filter((file) => file.endsWith(ENDING))
    .sort()
    .map((file) => path.join(__dirname, file));

/** @returns {string[][]} the files that wait, and the files that compute; the longest first */
function plan(files) {
  const ofList = (names) => names.map(fileOf).filter((file) => files.includes(file));
  const [wait, long] = [WAIT, LONG].map(ofList);
  return [wait, [...long, ...files.filter((file) => ![...wait, ...long].includes(file))]];
}

/** Runs a file, and reports its events when it has ended. */
async function runFile(file, numbers) {
  const events = [];
  for await (const event of run({ files: [file], concurrency: 1 })) events.push(event);
  numbers.add(events);
}

/**
 * Runs the files that wait, one more at a time than there are cores, and beside them the files
 * that compute, one less at a time than there are cores. When no more files wait, the files that
 * compute get all cores.
 */
async function runAll([wait, compute], numbers) {
  const cores = Number(process.env.WEB_LOCKS_TEST_CORES ?? os.availableParallelism());
  const drain = async (list) => {
    while (list.length > 0) await runFile(list.shift(), numbers);
  };
  const lanes = (count, list) => Array.from({ length: count }, () => drain(list));
  const waiting = Promise.all(lanes(wait.length > 0 ? cores + 1 : 0, wait));
  await Promise.all([
    ...lanes(Math.max(1, cores - 1), compute),
    waiting.then(() => Promise.all(lanes(cores > 1 ? 1 : 0, compute))),
  ]);
}

/** The default one of this version of Node.js. */
const reporter = () => {
  const isNew = Number(process.versions.node.split('.')[0]) >= 23;
  return process.stdout.isTTY || isNew ? new spec() : tap;
};

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { not: { type: 'string' }, quick: { type: 'boolean', default: false } },
  });
  const given = positionals.map((file) => path.resolve(file));
  const isLeftOut = (file) =>
    (values.not !== undefined && new RegExp(values.not).test(path.relative(__dirname, file))) ||
    (values.quick && [...WAIT, ...LONG].map(fileOf).includes(file));
  const files = (given.length > 0 ? given : allFiles()).filter((file) => !isLeftOut(file));
  // The processes of the test files inherit the arguments of this one.
  process.execArgv.push('--require', path.join(__dirname, 'helpers', 'limit.js'));

  const numbers = new Numbers();
  numbers.compose(reporter()).pipe(process.stdout);
  await runAll(plan(files), numbers);
  numbers.end();
  process.exitCode = numbers.isGood ? 0 : 1;
}

main();
