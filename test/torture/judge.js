'use strict';

/**
 * Judges a history again:
 *
 *   node test/torture/judge.js /dev/shm/torture-…/history
 */

const { readHistory } = require('./history.js');
const { judge } = require('./judges.js');
const { promisesOf } = require('./round.js');

const events = readHistory(process.argv[2]);
const round = events.find(({ type }) => type === 'round');
if (!round) throw new Error('there is no round.jsonl in this folder, which says what the scope is');
const faults = judge(events, promisesOf(round.plan));
for (const { judge: name, what, events: lines } of faults) {
  console.log(`${name}: ${what}`);
  for (const line of new Set(lines)) console.log(`  ${JSON.stringify(line)}`);
}
console.log(`${events.length} events, ${faults.length} faults`);
process.exitCode = faults.length > 0 ? 1 : 0;
