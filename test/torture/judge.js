'use strict';

/**
 * Judges histories again, without running anything:
 *
 *   node test/torture/judge.js /dev/shm/torture-…/history
 */

const fs = require('node:fs');
const path = require('node:path');
const { readHistory } = require('./history.js');
const { judge } = require('./judges.js');
const { promisesOf } = require('./round.js');

/** The files of a folder, or the file itself. */
const filesOf = (given) =>
  fs.statSync(given).isDirectory()
    ? fs.readdirSync(given).map((file) => path.join(given, file))
    : [given];

const events = readHistory(process.argv.slice(2).flatMap(filesOf));
const round = events.find(({ type }) => type === 'round');
if (!round) throw new Error('there is no round.jsonl among them, which says what the scope is');
const faults = judge(events, promisesOf(round.plan));
for (const { judge: name, what, events: lines } of faults) {
  console.log(`${name}: ${what}`);
  for (const line of new Set(lines)) console.log(`  ${JSON.stringify(line)}`);
}
console.log(`${events.length} events, ${faults.length} faults`);
process.exitCode = faults.length > 0 ? 1 : 0;
