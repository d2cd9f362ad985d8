/**
 * Runs the works: `npm run bench -- [--json FILE] [--only TEXT] [--rounds N]`.
 *
 * Every measurement is a process of its own, so that no subject profits or suffers from what
 * another one did to the heap and the compiler. Subjects take turns within a round, so that a noisy
 * minute hits all of them. What counts is the median of the rounds, and of that the ratio to the
 * first subject of the work. `--only cluster` runs cluster.js instead, `--only redis` redis.js, `--only
 * etcd` etcd.js.
 */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { runCluster } = require('./cluster.js');
const { runRedis } = require('./redis.js');
const { runEtcd } = require('./etcd.js');
const { works } = require('./works.js');

/** A subject that needs longer for one measurement is left out of the rest of the work. */
const LIMIT_MS = 4_000;

const { values: options } = parseArgs({
  options: {
    json: { type: 'string' },
    only: { type: 'string', default: '' },
    rounds: { type: 'string' },
  },
});

/** @returns {object | undefined} undefined where the subject cannot do it, or not in time */
function measure(work, subject) {
  try {
    const args = ['--expose-gc', path.join(__dirname, 'works.js'), work.name, subject];
    const output = execFileSync(process.execPath, args, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: LIMIT_MS,
    });
    return JSON.parse(output);
  } catch {
    return undefined;
  }
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

/** @returns {Record<string, object>} by subject: the median of each number */
function runWork(work) {
  const measured = new Map(work.subjects.map((subject) => [subject, []]));
  const rounds = Number(options.rounds ?? work.rounds);
  for (let round = 0; round < rounds; round++) {
    for (const [subject, results] of measured) {
      const result = measure(work, subject);
      if (result) results.push(result);
      else measured.delete(subject);
    }
  }
  const medians = {};
  for (const [subject, results] of measured) {
    medians[subject] = {};
    for (const key of Object.keys(results[0])) {
      medians[subject][key] = median(results.map((result) => result[key]));
    }
  }
  return medians;
}

function print(work, medians) {
  console.log(`\n${work.name} (${work.unit})`);
  const first = Object.values(medians)[0];
  for (const [subject, { value, ...others }] of Object.entries(medians)) {
    const ratio = value / first.value;
    const rest = Object.entries(others).map(([key, number]) => `${key} ${number.toFixed(0)}`);
    console.log(
      `  ${subject.padEnd(12)} ${value.toFixed(value < 100 ? 2 : 0).padStart(9)}` +
        `  ${ratio.toFixed(2).padStart(7)} ×  ${rest.join(', ')}`,
    );
  }
  for (const subject of work.subjects) {
    if (!medians[subject]) console.log(`  ${subject.padEnd(12)}  not able, or not in time`);
  }
}

async function main() {
  if (options.only === 'redis') {
    await runRedis();
    return;
  }
  if (options.only === 'cluster') {
    await runCluster();
    return;
  }
  if (options.only === 'etcd') {
    await runEtcd();
    return;
  }
  const report = {
    node: process.version,
    platform: `${process.platform}-${process.arch}`,
    cpu: `${os.cpus()[0].model}, ${os.cpus().length} cores`,
    works: [],
  };
  console.log(`Node.js ${report.node}, ${report.cpu}`);
  for (const work of works.filter(({ name }) => name.includes(options.only))) {
    const medians = runWork(work);
    print(work, medians);
    report.works.push({ name: work.name, unit: work.unit, medians });
  }
  if (options.json) fs.writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
}

main();
