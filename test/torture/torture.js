'use strict';

/**
 * Tortures the locks of a scope, and judges what it saw (docs/internals/reliability.md).
 *
 *   npm run torture -- --scope host --minutes 30
 *
 * Options: --scope (threads, host, memory, postgres, redis, etcd, or `all`), --minutes or --seconds
 * of each, --seed, --round (the first one), --rounds (at most so many), --actors (processes),
 * --threads (of each), --names, --loops, --pace, --slowness, --faults a,b (none: ''), --harms a,b, --only
 * option,… (only these are drawn), --hostile (each round has hostile users), --without judge,…
 * (these are not asked), --keep (histories are not removed).
 *
 * A torture is made of rounds. The seed and the number of the round fix what each actor draws, not
 * how they run beside each other. What is wrong is printed with the lines of the history that show
 * it, and the command that repeats it; `node test/torture/judge.js FOLDER` judges it again.
 */

const path = require('node:path');
const { parseArgs } = require('node:util');
const { Random } = require('./random.js');
const { stopAll } = require('../cluster/servers.js');
const { scopes } = require('./scopes.js');

const ROUND_SECONDS = 6;
/** Lines that are printed of a fault, and faults that are printed. */
const [MOST_LINES, MOST_FAULTS] = [12, 8];

const count = (events, type) => events.filter((event) => event.type === type).length;

/** Whether the files of a round are harmed. */
function isHarmed(scope, seed, round, { faults, harms }) {
  if (harms || faults || !scopes[scope].harms) return (harms ?? []).length > 0;
  return new Random(seed, round, 'harm').chance(0.2);
}

/** How long a round is: the same for a seed where the world has its own time. */
const secondsOf = (scope, left) =>
  scopes[scope].isWorld ? ROUND_SECONDS : Math.max(Math.min(ROUND_SECONDS, left), 1);

/**
 * Tortures one scope.
 * @param {any} plan `scope`, `seconds`, `seed`, and what the options say
 * @param {(report: any) => void} tell called after each round
 * @returns {Promise<any>} what was wrong in the first round that failed, and sums
 */
async function torture(plan, tell = () => {}) {
  const { scope, seed, seconds, round: first = 1, rounds = Number.POSITIVE_INFINITY, keep } = plan;
  const { Round } = require(scopes[scope].isWorld ? './memory.js' : './round.js');
  const begin = performance.now();
  const sums = { rounds: 0, asked: 0, granted: 0, told: 0, doomed: 0, snapshots: 0 };
  for (let number = first; number < first + rounds; number++) {
    const left = seconds - (performance.now() - begin) / 1000;
    if (left <= 0 && sums.rounds > 0) break;
    const round = new Round({
      ...plan,
      round: number,
      seconds: plan.rounds === 1 ? seconds : secondsOf(scope, left),
      isHarmed: plan.isHarmed ?? isHarmed(scope, seed, number, plan),
    });
    const found = await round.run();
    const { events } = found;
    const faults = found.faults.filter(({ judge }) => !plan.without?.includes(judge));
    sums.rounds++;
    for (const type of ['asked', 'granted', 'told', 'doomed']) sums[type] += count(events, type);
    sums.snapshots += count(events, 'snapshot');
    tell({ number, seconds: (performance.now() - begin) / 1000, ...sums });
    if (faults.length > 0) {
      return {
        ...sums,
        number,
        faults,
        folder: round.folder,
        lasted: round.plan.seconds,
        took: (performance.now() - begin) / 1000,
      };
    }
    if (!keep) round.remove();
  }
  return { ...sums, faults: [] };
}

/** What is printed of a failed round. */
function describe({ faults, folder, lasted, number }, plan) {
  const lines = [];
  const seen = new Map();
  for (const { judge } of faults) seen.set(judge, (seen.get(judge) ?? 0) + 1);
  lines.push(`FAILED: ${[...seen].map(([judge, times]) => `${judge} ${times}`).join(', ')}`);
  // The first of each judge, and then the others.
  const firsts = [...seen.keys()].map((judge) => faults.find((fault) => fault.judge === judge));
  const others = faults.filter((fault) => !firsts.includes(fault));
  for (const { judge, what, events } of [...firsts, ...others].slice(0, MOST_FAULTS)) {
    lines.push(`\n${judge}: ${what}`);
    const distinct = [...new Set(events)].sort((one, other) => one.at - other.at);
    for (const event of distinct.slice(0, MOST_LINES)) lines.push(`  ${JSON.stringify(event)}`);
  }
  // `--harms` says by itself that the files are harmed; with all of them the same ones are drawn.
  const { harms = plan.isHarmed ? scopes[plan.scope].harms : undefined } = plan;
  const given = Object.entries({ ...plan, harms })
    .filter(
      ([name, value]) =>
        value !== undefined && !['round', 'rounds', 'keep', 'seconds', 'isHarmed'].includes(name),
    )
    .filter(([, value]) => value !== false)
    .map(([name, value]) => {
      if (value === true) return `--${name}`;
      return `--${name} ${String(value) === '' ? "''" : value}`;
    });
  const one = `--round ${number} --rounds 1 --seconds ${lasted}`;
  lines.push(`\nto repeat: npm run torture -- ${given.join(' ')} ${one}`);
  lines.push(`to judge again: node test/torture/judge.js ${path.join(folder, 'history')}`);
  return lines.join('\n');
}

const list = (text) => text?.split(',').filter((part) => part !== '');

function planOf(values) {
  const numbers = [
    'actors',
    'threads',
    'names',
    'loops',
    'round',
    'rounds',
    'pace',
    'buckets',
    'slowness',
  ];
  const { scope, seed, hostile, keep } = values;
  const plan = { scope, seed, hostile, keep };
  for (const name of numbers) if (values[name] !== undefined) plan[name] = Number(values[name]);
  for (const name of ['faults', 'harms', 'only', 'without']) plan[name] = list(values[name]);
  return plan;
}

async function main() {
  const text = { type: 'string' };
  const names = ['scope', 'minutes', 'seconds', 'seed', 'actors', 'threads', 'names', 'loops'];
  const more = [
    'round',
    'rounds',
    'pace',
    'buckets',
    'slowness',
    'faults',
    'harms',
    'only',
    'without',
  ];
  const given = Object.fromEntries([...names, ...more].map((name) => [name, text]));
  const flags = { hostile: { type: 'boolean' }, keep: { type: 'boolean' } };
  const { values } = parseArgs({ options: { ...given, ...flags } });
  const { minutes, seconds = minutes === undefined ? 60 : Number(minutes) * 60 } = values;
  values.seed ??= String(Math.floor(Math.random() * 2 ** 31));
  const all = values.scope === 'all' ? Object.keys(scopes) : [values.scope ?? 'threads'];
  for (const scope of all) {
    if (!scopes[scope]) throw new Error(`no scope ${scope}: ${Object.keys(scopes)}, all`);
    const plan = { ...planOf(values), scope };
    console.log(`${scope}: Node.js ${process.version}, seed ${plan.seed}, ${seconds} s`);
    let printed = 0;
    const report = await torture({ ...plan, seconds: Number(seconds) }, (sums) => {
      if (sums.seconds - printed < 10) return;
      printed = sums.seconds;
      console.log(`  ${JSON.stringify(sums)}`);
    });
    const { faults, folder, lasted, number, ...sums } = report;
    console.log(`  ${JSON.stringify(sums)}`);
    if (faults.length > 0) {
      console.log(describe(report, plan));
      process.exitCode = 1;
    }
  }
  await stopAll();
}

if (require.main === module) main();

module.exports = { describe, torture };
