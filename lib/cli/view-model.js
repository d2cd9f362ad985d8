'use strict';

/** Turns a snapshot into the data of the page of `top --web`. */

const { createHash } = require('node:crypto');
const { describeCircles } = require('./circles.js');
const { quotedIfNeeded } = require('./format.js');
const { modeOf, rowsOf } = require('./table.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/** The most characters (UTF-16 code units) of a name or label. */
const LONGEST = 1000;
/**
 * The page gets at most this many locks and requests, and this many names; the rest is only
 * counted.
 */
const MOST = 10_000;

/**
 * @typedef {object} Row
 * @property {boolean} isHeld
 * @property {number | null} age the length of the hold or the wait in milliseconds; null if unknown
 * @property {string} label
 * @property {number} pid
 * @property {string} host
 * @property {string} thread
 * @property {string} mode
 * @property {string} token
 * @typedef {object} Group
 * @property {string} [id] identifies a name that was truncated
 * @property {number} [names] the number of names that the group stands for, if not one
 * @property {string} name
 * @property {number} held
 * @property {number} pending
 * @property {number} limit 0 for no limit
 * @property {number} units of the limit that are held
 * @property {Row[]} rows the holders, then the queue
 */

/** @param {string} text @returns {string} one line */
function brief(text) {
  if (text.length <= LONGEST) return quotedIfNeeded(text);
  const head = text.slice(0, LONGEST).replace(/[\ud800-\udbff]$/, '');
  return `${quotedIfNeeded(head)}… (${text.length} characters)`;
}

/** @param {string} name */
const groupOf = (name) => ({
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

/** @param {LockDetails} entry @param {boolean} isHeld */
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
  };
}

/** @param {DetailedSnapshot} state @returns {Group[]} sorted by name */
function groupsOf(state) {
  /** @type {Map<string, Group>} */
  const groups = new Map();
  const rest = { ...groupOf(''), id: '', names: 0 };
  /** The name of the previous row that is left out. @type {string | undefined} */
  let before;
  rowsOf(state).forEach(({ entry, isHeld }, i) => {
    if (i < MOST && !groups.has(entry.name)) groups.set(entry.name, groupOf(entry.name));
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

/** Describes holders that wait for each other. @param {DetailedSnapshot} state */
const notesOf = (state) => describeCircles(state).map((line) => line.slice(0, LONGEST));

module.exports = { groupsOf, notesOf };
