/**
 * Runs the benches: `npm run bench -- [--only TEXT,…] [--rounds N] [--brief] [--json FILE]`.
 *
 * A bench is a work of works.js, or core (without JavaScript), cluster (PostgreSQL), redis, etcd,
 * or what engines.js measures of those three. `--only` chooses those whose names contain one of the
 * texts; without it all works run, and with `--brief` all benches. `--brief` does almost nothing of
 * each, once, to see that it works. `--json` writes the figures of works and engines; with
 * `--only`, other figures in an existing file stay.
 *
 * Every measurement of a work has a process of its own, so that subjects do not affect one another
 * through the heap and the compiler. Subjects take turns within a round, so that a noisy minute
 * affects all of them. The result is the median of the rounds, and its ratio to the first subject
 * of the work.
 *
 * If a bench fails, the run ends with exit code 1 and prints the reason.
 */

const fs = require('node:fs');
const os = require('node:os');
const { parseArgs } = require('node:util');

const { values: options } = parseArgs({
  options: {
    brief: { type: 'boolean', default: false },
    json: { type: 'string' },
    only: { type: 'string', default: '' },
    rounds: { type: 'string' },
  },
});
// size.js reads it when it is loaded.
if (options.brief) process.env.WEB_LOCKS_BENCH_BRIEF = '1';

const { runCluster } = require('./cluster.js');
const { measureEngine } = require('./engines.js');
const { runCore } = require('./core.js');
const { measure } = require('./measure.js');
const { runRedis } = require('./redis.js');
const { runEtcd } = require('./etcd.js');
const { runAll } = require('./end.js');
const { works } = require('./works.js');

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

/**
 * @returns {{ medians: Record<string, object>, left: Record<string, string> }} for each subject:
 * the median of each number, or the reason why it was left out
 */
function runWork(work) {
  const measured = new Map(work.subjects.map((subject) => [subject, []]));
  const left = {};
  const rounds = options.brief ? 1 : Number(options.rounds ?? work.rounds);
  for (let round = 0; round < rounds; round++) {
    for (const [subject, results] of measured) {
      const result = measure(work.name, subject);
      if (result.missing === undefined) {
        results.push(result);
      } else {
        measured.delete(subject);
        left[subject] = result.missing;
      }
    }
  }
  const medians = {};
  for (const [subject, results] of measured) {
    medians[subject] = {};
    for (const key of Object.keys(results[0])) {
      medians[subject][key] = median(results.map((result) => result[key]));
    }
  }
  return { medians, left };
}

function print(work, { medians, left }) {
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
  for (const [subject, why] of Object.entries(left)) console.log(`  ${subject.padEnd(12)}  ${why}`);
}

const report = {
  node: process.version,
  platform: `${process.platform}-${process.arch}`,
  cpu: `${os.cpus()[0].model}, ${os.cpus().length} cores`,
  works: [],
  engines: {},
};

/** The measurements at an engine, as a bench of their own and as a figure to publish. */
const ofEngine = (name) => ({
  name: `${name} at its engine`,
  async run() {
    const { node, platform, cpu } = report;
    report.engines[name] = { node, platform, cpu, ...(await measureEngine(name)) };
  },
});

const ofWorks = works.map((work) => ({
  name: work.name,
  async run() {
    const results = runWork(work);
    print(work, results);
    report.works.push({ name: work.name, unit: work.unit, medians: results.medians });
  },
}));

const others = [
  { name: 'core', run: runCore },
  { name: 'cluster', run: runCluster },
  { name: 'redis', run: runRedis },
  { name: 'etcd', run: runEtcd },
  ...['cluster', 'redis', 'etcd'].map(ofEngine),
];

const texts = options.only.split(',');
const isChosen = ({ name }) => texts.some((text) => name.includes(text));
const chosen = [...ofWorks, ...(options.only || options.brief ? others : [])].filter(isChosen);

if (chosen.length === 0) {
  console.error(`Of the benches none has '${options.only}' in its name.`);
  process.exit(1);
}
console.log(`Node.js ${report.node}, ${report.cpu}`);
runAll(chosen).then(() => {
  if (options.json) write(options.json);
});

/** @param {string} file */
function write(file) {
  const isPart = options.only !== '' && fs.existsSync(file);
  const all = isPart ? withOthers(JSON.parse(fs.readFileSync(file, 'utf8'))) : report;
  fs.writeFileSync(file, `${JSON.stringify(all, null, 2)}\n`);
}

/** Adds the earlier results of other works and engines. */
function withOthers(before) {
  const { works: measured, engines } = report;
  const others = before.works.filter(({ name }) => !measured.some((work) => work.name === name));
  const machine = measured.length > 0 ? report : before;
  return {
    ...{ node: machine.node, platform: machine.platform, cpu: machine.cpu },
    works: [...others, ...measured],
    engines: { ...before.engines, ...engines },
  };
}
