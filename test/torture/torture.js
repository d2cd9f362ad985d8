'use strict';

/**
 * Tortures the locks of a scope, and judges the history (docs/internals/reliability.md).
 *
 *   npm run torture -- --scope host --minutes 30
 *
 * Options: --scope (threads, host, memory, postgres, postgres-standby, pgbouncer, redis,
 * redis-replica, redis-strict, etcd, etcd-members, or `all`); --minutes or --seconds of each;
 * --seed; --round (the first one); --rounds (at most so many); --actors (processes);
 * --threads (of each); --names; --loops; --pace; --buckets; --slowness; --faults a,b (none: '');
 * --harms a,b; --only option,… (only these are drawn); --hostile (each round has hostile users);
 * --without judge,… (these are ignored); --keep (histories are not removed);
 * --history FILE (the last round in Jepsen's format: jepsen.js).
 *
 * A torture consists of rounds. The seed and the number of the round fix what each actor draws, but
 * not how actors interleave. A round that fails is printed with the lines of the history that show
 * why, and with the command that repeats it; `node test/torture/judge.js FOLDER` judges it again.
 */

const path = require('node:path');
const { parseArgs } = require('node:util');
const { Random } = require('./random.js');
const { stopAll } = require('../cluster/servers.js');
const { writeJepsen } = require('./jepsen.js');
const { History } = require('./judges.js');
const { promisesOf } = require('./round.js');
const { scopes } = require('./scopes.js');

const ROUND_SECONDS = 6;
/** How many faults are printed, and how many lines of each. */
const [MOST_FAULTS, MOST_LINES] = [8, 12];
/** How often the totals are printed. */
const REPORT_SECONDS = 10;

const TEXTS = ['scope', 'minutes', 'seconds', 'seed', 'history'];
const NUMBERS = ['actors', 'threads', 'names', 'loops', 'round', 'rounds', 'pace', 'buckets'];
NUMBERS.push('slowness');
const LISTS = ['faults', 'harms', 'only', 'without'];
const FLAGS = ['hostile', 'keep'];

const count = (events, type) => events.filter((event) => event.type === type).length;

/** Whether files are harmed in a round. */
function isHarmed({ scope, seed, faults, harms }, round) {
  if (harms || faults || !scopes[scope].harms) return (harms ?? []).length > 0;
  return new Random(seed, round, 'harm').chance(0.2);
}

/** The length of a round; in simulated time it is fixed, so that a seed repeats rounds exactly. */
function secondsOf({ rounds, scope, seconds }, left) {
  if (rounds === 1) return seconds;
  return scopes[scope].isWorld ? ROUND_SECONDS : Math.max(Math.min(ROUND_SECONDS, left), 1);
}

/**
 * @param {any} plan `scope`, `seconds`, `seed`, and further options
 * @param {(sums: any) => void} tell called after each round
 * @returns {Promise<any>} the totals, and the `faults` of the first round that failed
 */
async function torture(plan, tell = () => {}) {
  const { scope, seconds, round: first = 1, rounds = Number.POSITIVE_INFINITY, keep } = plan;
  const { Round } = require(scopes[scope].isWorld ? './memory.js' : './round.js');
  const begin = performance.now();
  const passed = () => (performance.now() - begin) / 1000;
  const sums = { rounds: 0, asked: 0, granted: 0, notified: 0, doomed: 0, snapshots: 0 };
  Object.assign(sums, { updated: 0, lost: { plain: 0, fenced: 0, refused: 0 } });
  for (let number = first; number < first + rounds; number++) {
    const left = seconds - passed();
    if (left <= 0 && sums.rounds > 0) break;
    const round = new Round({
      ...plan,
      round: number,
      seconds: secondsOf(plan, left),
      isHarmed: plan.isHarmed ?? isHarmed(plan, number),
    });
    const { events, faults: all } = await round.run();
    const faults = all.filter(({ judge }) => !plan.without?.includes(judge));
    sums.rounds++;
    for (const type of ['asked', 'granted', 'notified', 'doomed', 'updated'])
      sums[type] += count(events, type);
    sums.snapshots += count(events, 'snapshot');
    const history = new History(events, promisesOf(round.plan));
    for (const { how, isSafe } of history.losses())
      if (isSafe || how === 'fenced') sums.lost[how]++;
    if (plan.history) writeJepsen(plan.history, history);
    tell({ number, seconds: passed(), ...sums });
    if (faults.length > 0) {
      const { folder } = round;
      return { ...sums, number, faults, folder, lasted: round.plan.seconds, took: passed() };
    }
    if (!keep) round.remove();
  }
  return { ...sums, faults: [] };
}

/** @returns the options of the command that repeats a round */
function optionsOf({ harms, isHarmed: isForced, ...plan }) {
  // `--harms` alone enables harms; with all harms listed, the same ones are drawn.
  const given = { ...plan, harms: harms ?? (isForced ? scopes[plan.scope].harms : undefined) };
  for (const name of ['round', 'rounds', 'keep', 'history', 'seconds']) delete given[name];
  return Object.entries(given)
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([name, value]) => (value === true ? `--${name}` : `--${name} ${`${value}` || "''"}`))
    .join(' ');
}

/** @returns what is printed about a failed round */
function describe({ faults, folder, lasted, number }, plan) {
  const seen = new Map();
  for (const { judge } of faults) seen.set(judge, (seen.get(judge) ?? 0) + 1);
  const lines = [`FAILED: ${[...seen].map(([judge, times]) => `${judge} ${times}`).join(', ')}`];
  // The first fault of each judge comes first.
  const firsts = [...seen.keys()].map((judge) => faults.find((fault) => fault.judge === judge));
  for (const { judge, what, events } of [...new Set([...firsts, ...faults])].slice(
    0,
    MOST_FAULTS,
  )) {
    lines.push(`\n${judge}: ${what}`);
    const distinct = [...new Set(events)].sort((one, other) => one.at - other.at);
    for (const event of distinct.slice(0, MOST_LINES)) lines.push(`  ${JSON.stringify(event)}`);
  }
  const one = `--round ${number} --rounds 1 --seconds ${lasted}`;
  lines.push(`\nto repeat: npm run torture -- ${optionsOf(plan)} ${one}`);
  lines.push(`to judge again: node test/torture/judge.js ${path.join(folder, 'history')}`);
  return lines.join('\n');
}

function planOf(values) {
  const { scope, seed, hostile, history, keep } = values;
  const plan = { scope, seed, hostile, history, keep };
  for (const name of NUMBERS) if (values[name] !== undefined) plan[name] = Number(values[name]);
  for (const name of LISTS) plan[name] = values[name]?.split(',').filter((part) => part !== '');
  return plan;
}

async function main() {
  const typed = (names, type) => names.map((name) => [name, { type }]);
  const { values } = parseArgs({
    options: Object.fromEntries([
      ...typed([...TEXTS, ...NUMBERS, ...LISTS], 'string'),
      ...typed(FLAGS, 'boolean'),
    ]),
  });
  const { minutes, seconds = minutes === undefined ? 60 : Number(minutes) * 60 } = values;
  values.seed ??= String(Math.floor(Math.random() * 2 ** 31));
  const all = values.scope === 'all' ? Object.keys(scopes) : [values.scope ?? 'threads'];
  for (const scope of all) {
    if (!scopes[scope]) throw new Error(`no scope ${scope}: ${Object.keys(scopes)}, all`);
    const plan = { ...planOf(values), scope };
    console.log(`${scope}: Node.js ${process.version}, seed ${plan.seed}, ${seconds} s`);
    let printed = 0;
    const report = await torture({ ...plan, seconds: Number(seconds) }, (sums) => {
      if (sums.seconds - printed < REPORT_SECONDS) return;
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
