'use strict';

/** Turns a snapshot into the data of the page of `top --web`. */

const { createHash } = require('node:crypto');
const { describeCircles } = require('./circles.js');
const { quotedIfNeeded } = require('./format.js');
const { modeOf, rowsOf } = require('./table.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */

/** Names, labels and data are truncated to this many UTF-16 code units. */
const LONGEST = 1000;
/** The page gets at most this many locks and requests; the rest is only counted. */
const MOST = 10_000;

/**
 * A lock or a request. `age` is how long it has been held or has waited, in milliseconds; null if
 * unknown.
 * @typedef {{ isHeld: boolean, age: number | null, label: string, pid: number, host: string,
 *   thread: string, mode: string, token: string, data: string }} Row
 */

/**
 * The rows of a name: the holders, then the queue. `id` identifies a name that was truncated. The
 * last group may stand for all names that did not fit; `names` is their number. `limit` is 0 for
 * none.
 * @typedef {{ id?: string, names?: number, name: string, held: number, pending: number,
 *   limit: number, units: number, rows: Row[] }} Group
 */

/** @param {string} text @returns {string} one line */
function brief(text) {
  if (text.length <= LONGEST) return quotedIfNeeded(text);
  const head = text.slice(0, LONGEST).replace(/[\ud800-\udbff]$/, '');
  return `${quotedIfNeeded(head)}… (${text.length} characters)`;
}

/** @param {string} name */
const emptyGroup = (name) => ({
  ...(name.length > LONGEST && {
    // The encoding is UTF-16, because UTF-8 would make all lone surrogates equal.
    id: createHash('sha256').update(name, 'utf16le').digest('base64'),
  }),
  name: brief(name),
  held: 0,
  pending: 0,
  limit: 0,
  units: 0,
  rows: [],
});

/** @param {import('../backend/contract.js').LockDetails} entry @param {boolean} isHeld */
function rowOf(entry, isHeld) {
  const { threadId, threadName } = entry;
  const age = isHeld ? entry.held : entry.waited;
  return {
    isHeld,
    age: Number.isNaN(age) ? null : age,
    label: entry.label === '' ? '' : brief(entry.label),
    pid: entry.pid,
    host: brief(entry.host),
    thread: `${threadId || 'main'}${threadName ? ` ${brief(threadName)}` : ''}`,
    mode: modeOf(entry),
    token: isHeld && entry.token ? String(entry.token) : '',
    data: entry.data === undefined ? '' : brief(JSON.stringify(entry.data)),
  };
}

/** @param {DetailedSnapshot} state @returns {Group[]} sorted by name */
function groupsOf(state) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  const rest = { ...emptyGroup(''), id: '', names: 0 };
  /** The name of the previous row that is left out. @type {string | undefined} */
  let before;
  rowsOf(state).forEach(({ entry, isHeld }, i) => {
    if (i < MOST && !groups.has(entry.name)) groups.set(entry.name, emptyGroup(entry.name));
    const group = groups.get(entry.name) ?? rest;
    group[isHeld ? 'held' : 'pending']++;
    if (group === rest) {
      if (entry.name !== before) rest.names++;
      before = entry.name;
      return;
    }
    if (isHeld && entry.limit > 0) {
      group.limit = entry.limit;
      group.units += entry.weight;
    }
    if (i < MOST) group.rows.push(rowOf(entry, isHeld));
  });
  const all = [...groups.values()];
  if (rest.names > 0)
    all.push({ ...rest, name: `… and ${rest.names} more ${rest.names === 1 ? 'name' : 'names'}` });
  return all;
}

/** The notes describe the circles. @param {DetailedSnapshot} state */
const notesOf = (state) => describeCircles(state).map((line) => line.slice(0, LONGEST));

module.exports = { groupsOf, notesOf };
