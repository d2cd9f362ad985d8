'use strict';

/** A snapshot as a table: one line a lock or request, cut to the columns that there are. */

const { describePause } = require('../extensions/holders.js');
const { duration } = require('../page/duration.js');
const { capitalized } = require('../platform/errors.js');
const { shown } = require('./people.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {(entry: LockDetails, isHeld: boolean) => string} text
 * @property {boolean} [isNumber] to the right
 * @property {boolean} [isElastic] may be cut
 */

const GAP = '  ';
/** A column is not cut to less. */
const LEAST = 8;

/**
 * @param {LockDetails} entry
 * @returns {string} with the units of a limit, and a priority that is not the usual one
 */
function modeOf({ mode, limit, weight, priority }) {
  const units = limit > 0 ? `shared ${weight}/${limit}` : mode;
  return priority ? `${units}, priority ${priority}` : units;
}

/** @type {Column[]} */
const COLUMNS = [
  { title: 'NAME', text: ({ name }) => shown(name), isElastic: true },
  { title: 'STATE', text: (_, isHeld) => (isHeld ? 'held' : 'waits') },
  { title: 'MODE', text: modeOf },
  {
    title: 'FOR',
    text: ({ held, waited }, isHeld) => duration(isHeld ? held : waited),
    isNumber: true,
  },
  { title: 'PID', text: ({ pid }) => String(pid), isNumber: true },
  { title: 'HOST', text: ({ host }) => shown(host), isElastic: true },
  { title: 'LABEL', text: ({ label }) => (label === '' ? '-' : shown(label)), isElastic: true },
  { title: 'TOKEN', text: ({ token }) => (token ? String(token) : '-'), isNumber: true },
];

const EMPTY = 'No locks are held, and nobody waits.';

const NONE = /\p{M}/u;
const HANGUL = '\\u1100-\\u115f\\ua960-\\ua97c\\uac00-\\ud7a3';
const IDEOGRAPHS = '\\u2e80-\\ua4cf\\uf900-\\ufaff\\u{20000}-\\u{3fffd}';
const FULL_FORMS = '\\ufe30-\\ufe6f\\uff00-\\uff60\\uffe0-\\uffe6';
const WIDE = new RegExp(`[${HANGUL}${IDEOGRAPHS}${FULL_FORMS}]|\\p{Emoji_Presentation}`, 'u');

/**
 * @param {string} character
 * @returns {number} of columns, as terminals count
 */
function columnsOf(character) {
  if (character < '\x7f') return 1;
  if (NONE.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** @param {string} text */
const widthOf = (text) => [...text].reduce((sum, character) => sum + columnsOf(character), 0);

/**
 * @param {string} text
 * @param {number} width
 * @returns {string} no wider than that
 */
function cut(text, width) {
  if (widthOf(text) <= width) return text;
  let left = width - 1;
  let result = '';
  for (const character of text) {
    left -= columnsOf(character);
    if (left < 0) break;
    result += character;
  }
  return width > 0 ? `${result}…` : '';
}

/**
 * @param {string} text
 * @param {number} width
 * @param {boolean} [isNumber]
 */
function padded(text, width, isNumber) {
  const space = ' '.repeat(Math.max(0, width - widthOf(text)));
  return isNumber ? space + text : text + space;
}

/**
 * Makes the widest of the elastic columns narrower until all fit, or can be no narrower.
 * @param {number[]} widths
 * @param {number} columns
 */
function squeeze(widths, columns) {
  const total = () => widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length);
  while (total() > columns) {
    const elastic = COLUMNS.flatMap(({ isElastic }, i) => (isElastic ? [i] : []));
    const widest = elastic.reduce((a, b) => (widths[b] > widths[a] ? b : a));
    if (widths[widest] <= LEAST) return;
    widths[widest]--;
  }
}

/**
 * @param {DetailedSnapshot} state
 * @returns {{ entry: LockDetails, isHeld: boolean }[]} by name; first who holds, then the queue
 */
function rowsOf({ held, pending }) {
  const rows = [
    ...held.map((entry) => ({ entry, isHeld: true })),
    ...pending.map((entry) => ({ entry, isHeld: false })),
  ];
  return rows.sort((a, b) => {
    if (a.entry.name !== b.entry.name) return a.entry.name < b.entry.name ? -1 : 1;
    return Number(b.isHeld) - Number(a.isHeld);
  });
}

const BOLD = '\x1b[1m';
const YELLOW = '\x1b[33m';
const PLAIN = '\x1b[0m';

/**
 * @param {DetailedSnapshot} state
 * @param {object} how
 * @param {number} [how.columns] of the terminal; any number if not given
 * @param {boolean} [how.color]
 * @returns {string[]} lines
 */
function table(state, { columns = Number.POSITIVE_INFINITY, color = false }) {
  const rows = rowsOf(state);
  const paused = pauseOf(state).map((text) => cut(text, columns));
  if (rows.length === 0) return [cut(EMPTY, columns), ...paused];
  const cells = rows.map(({ entry, isHeld }) => COLUMNS.map(({ text }) => text(entry, isHeld)));
  const titles = COLUMNS.map(({ title }) => title);
  const widths = titles.map((title, i) =>
    Math.max(widthOf(title), ...cells.map((row) => widthOf(row[i]))),
  );
  squeeze(widths, columns);
  /** @param {string[]} row */
  const line = (row) => {
    const parts = row.map((text, i) =>
      padded(cut(text, widths[i]), widths[i], COLUMNS[i].isNumber),
    );
    return cut(parts.join(GAP).trimEnd(), columns);
  };
  /**
   * @param {string} style
   * @param {string} text
   */
  const styled = (style, text) => (color && style ? style + text + PLAIN : text);
  return [
    styled(BOLD, line(titles)),
    ...cells.map((row, i) => styled(rows[i].isHeld ? '' : YELLOW, line(row))),
    ...paused,
  ];
}

/**
 * @param {DetailedSnapshot} state
 * @returns {string[]} a line that says for how long nothing is granted, if that is so
 */
const pauseOf = ({ grantsIn }) => (grantsIn ? [`${capitalized(describePause(grantsIn))}.`] : []);

/**
 * @param {DetailedSnapshot} state
 * @param {number} now milliseconds since 1970
 * @returns {string} one line of JSON; tokens are strings
 */
function json(state, now) {
  const rows = rowsOf(state);
  /** @param {boolean} wanted */
  const of = (wanted) =>
    rows.filter(({ isHeld }) => isHeld === wanted).map(({ entry }) => toJson(entry, wanted, now));
  return JSON.stringify({ held: of(true), pending: of(false), grantsIn: state.grantsIn });
}

/**
 * @param {any} entry
 * @param {boolean} isHeld
 * @param {number} now
 */
function toJson({ blockedBy, token, ...entry }, isHeld, now) {
  const past = isHeld ? entry.held : entry.waited;
  const since = Number.isNaN(past) ? null : new Date(now - past).toISOString();
  return { ...entry, since, token: isHeld ? String(token) : null };
}

/**
 * @param {DetailedSnapshot} state
 * @returns {string} the same as long as nobody comes, is granted or goes
 */
const identity = (state) =>
  JSON.stringify(
    rowsOf(state).map(({ entry, isHeld }) => [
      entry.name,
      isHeld,
      entry.clientId,
      modeOf(entry),
      entry.label,
      String(entry.token),
    ]),
  );

module.exports = { identity, json, modeOf, rowsOf, table, widthOf };
