'use strict';

/**
 * Formats a snapshot as a table, with one line for each lock or request, or as JSON. A bucket can
 * have a million requests, so the output is made piece by piece.
 */

const { createHash } = require('node:crypto');
const { describePause } = require('../extensions/errors/descriptions.js');
const { duration } = require('../page/duration.js');
const { capitalize } = require('../platform/errors.js');
const { describeCircles } = require('./circles.js');
const { quotedIfNeeded } = require('./format.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/** @typedef {LockDetails & { bucket?: string | null }} Entry null for the default bucket */

/**
 * A column of numbers is aligned to the right; the texts of an elastic column may be truncated.
 * @typedef {{ title: string, text: (entry: Entry, isHeld: boolean) => string, isNumber?: boolean,
 *   isElastic?: boolean }} Column
 */

const GAP = '  ';
/** Text is hashed in pieces of about this many characters. */
const PIECE = 65_536;
/** No column is narrowed to fewer characters. */
const LEAST = 8;

/** The mode, with units and priority if there are any. @param {LockDetails} entry */
function modeOf({ mode, limit, weight, priority }) {
  const units = limit > 0 ? `shared ${weight}/${limit}` : mode;
  return priority ? `${units}, priority ${priority}` : units;
}

/** @type {Column} */
const BUCKET = {
  title: 'BUCKET',
  text: ({ bucket }) => (bucket === null ? '-' : quotedIfNeeded(String(bucket))),
  isElastic: true,
};

/** @type {Column[]} */
const COLUMNS = [
  { title: 'NAME', text: ({ name }) => quotedIfNeeded(name), isElastic: true },
  { title: 'STATE', text: (_, isHeld) => (isHeld ? 'held' : 'waits') },
  { title: 'MODE', text: modeOf },
  {
    title: 'FOR',
    text: ({ held, waited }, isHeld) => duration(isHeld ? held : waited),
    isNumber: true,
  },
  { title: 'PID', text: ({ pid }) => String(pid), isNumber: true },
  { title: 'HOST', text: ({ host }) => quotedIfNeeded(host), isElastic: true },
  {
    title: 'LABEL',
    text: ({ label }) => (label === '' ? '-' : quotedIfNeeded(label)),
    isElastic: true,
  },
  { title: 'TOKEN', text: ({ token }) => (token ? String(token) : '-'), isNumber: true },
];

/** This column is shown if a lock has published something. @type {Column} */
const DATA = {
  title: 'DATA',
  text: ({ data }) => (data === undefined ? '-' : quotedIfNeeded(JSON.stringify(data))),
  isElastic: true,
};

const EMPTY = 'No locks are held, and nobody waits';

const NONE = /\p{M}/u;
const HANGUL = '\\u1100-\\u115f\\ua960-\\ua97c\\uac00-\\ud7a3';
const IDEOGRAPHS = '\\u2e80-\\ua4cf\\uf900-\\ufaff\\u{20000}-\\u{3fffd}';
const FULL_FORMS = '\\ufe30-\\ufe6f\\uff00-\\uff60\\uffe0-\\uffe6';
const WIDE = new RegExp(`[${HANGUL}${IDEOGRAPHS}${FULL_FORMS}]|\\p{Emoji_Presentation}`, 'u');

/** @param {string} character @returns {number} the columns that it takes in a terminal */
function columnsOf(character) {
  if (character < '\x7f') return 1;
  if (NONE.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** @param {string} text */
const widthOf = (text) => [...text].reduce((sum, character) => sum + columnsOf(character), 0);

/** @param {string} text @param {number} width */
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

/** @param {string} text @param {number} width @param {boolean} [isNumber] */
function padded(text, width, isNumber) {
  const space = ' '.repeat(Math.max(0, width - widthOf(text)));
  return isNumber ? space + text : text + space;
}

/**
 * Reduces `widths` until they fit, or until no elastic column is wider than LEAST.
 * @param {Column[]} shape @param {number[]} widths @param {number} columns of the terminal
 */
function narrowColumns(shape, widths, columns) {
  const total = () => widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length);
  while (total() > columns) {
    const elastic = shape.flatMap(({ isElastic }, i) => (isElastic ? [i] : []));
    const widest = elastic.reduce((a, b) => (widths[b] > widths[a] ? b : a));
    if (widths[widest] <= LEAST) return;
    widths[widest]--;
  }
}

/** @typedef {{ entry: Entry, isHeld: boolean }} Row */

/** Sorts by bucket and name, with holders before waiters. @param {DetailedSnapshot} state */
function rowsOf({ held, pending }) {
  /** @type {Row[]} */
  const rows = [];
  for (const entry of held) rows.push({ entry, isHeld: true });
  for (const entry of pending) rows.push({ entry, isHeld: false });
  return rows.sort((a, b) => {
    const [one, other] = [a.entry.bucket ?? '', b.entry.bucket ?? ''];
    if (one !== other) return one < other ? -1 : 1;
    if (a.entry.name !== b.entry.name) return a.entry.name < b.entry.name ? -1 : 1;
    return Number(b.isHeld) - Number(a.isHeld);
  });
}

const BOLD = '\x1b[1m';
const YELLOW = '\x1b[33m';
const PLAIN = '\x1b[0m';

/**
 * Yields the lines one by one, because all lines together can exceed the longest possible string.
 * `columns` and `lines` are the size of the terminal. `about` says where the locks are (` in …`).
 * `notes` are printed below the table. `isAll` adds a column for the bucket.
 * @param {DetailedSnapshot} state
 * @param {{ columns?: number, lines?: number, color?: boolean, about?: string, notes?: string[],
 *   isAll?: boolean }} how
 */
function* table(state, { columns = Infinity, lines = Infinity, color = false, ...more }) {
  const { about = '', notes: others = [], isAll = false } = more;
  const all = rowsOf(state);
  const notes = [...pauseLines(state), ...describeCircles(state), ...others];
  if (all.length === 0) notes.unshift(`${EMPTY}${about}.`);
  // The titles and the notes are always shown.
  const room = Math.max(1, lines - 1 - notes.length);
  const rows = all.length > room ? all.slice(0, room - 1) : all;
  const hasData = rows.some(({ entry }) => entry.data !== undefined);
  const shape = [...(isAll ? [BUCKET] : []), ...COLUMNS, ...(hasData ? [DATA] : [])];
  if (all.length > 0) yield* rowLines(shape, rows, columns, color);
  if (rows.length < all.length) yield cut(`… and ${all.length - rows.length} more`, columns);
  for (const note of notes) yield cut(note, columns);
}

/** @param {Column[]} shape @param {Row[]} rows @param {number} columns @param {boolean} color */
function* rowLines(shape, rows, columns, color) {
  const titles = shape.map(({ title }) => title);
  const widths = titles.map(widthOf);
  for (const row of rows) {
    shape.forEach(({ text }, i) => {
      widths[i] = Math.max(widths[i], widthOf(text(row.entry, row.isHeld)));
    });
  }
  narrowColumns(shape, widths, columns);
  /** @param {string[]} texts */
  const line = (texts) => {
    const parts = texts.map((text, i) =>
      padded(cut(text, widths[i]), widths[i], shape[i].isNumber),
    );
    return cut(parts.join(GAP).trimEnd(), columns);
  };
  /** @param {string} style @param {string} text */
  const styled = (style, text) => (color && style ? style + text + PLAIN : text);
  yield styled(BOLD, line(titles));
  for (const { entry, isHeld } of rows) {
    const texts = shape.map(({ text }) => text(entry, isHeld));
    yield styled(isHeld ? '' : YELLOW, line(texts));
  }
}

/** A line that says for how long nothing is granted. @param {DetailedSnapshot} state */
const pauseLines = ({ grantsIn }) => (grantsIn ? [`${capitalize(describePause(grantsIn))}.`] : []);

/**
 * Yields the parts of one line of JSON, in which tokens are strings.
 * @param {DetailedSnapshot} state @param {number} now milliseconds since 1970
 * @param {Record<string, unknown>} [more] further members
 */
function* json(state, now, more) {
  const rows = rowsOf(state);
  yield '{"held":[';
  yield* jsonRows(rows, true, now);
  yield '],"pending":[';
  yield* jsonRows(rows, false, now);
  yield ']';
  for (const [key, value] of Object.entries({ grantsIn: state.grantsIn, ...more })) {
    if (value !== undefined) yield `,${JSON.stringify(key)}:${JSON.stringify(value)}`;
  }
  yield '}';
}

/** @param {Row[]} rows @param {boolean} wanted true for locks @param {number} now */
function* jsonRows(rows, wanted, now) {
  let separator = '';
  for (const { entry, isHeld } of rows) {
    if (isHeld !== wanted) continue;
    yield separator + JSON.stringify(toJson(entry, isHeld, now));
    separator = ',';
  }
}

/** @param {any} entry @param {boolean} isHeld @param {number} now */
function toJson({ blockedBy, site, token, ...entry }, isHeld, now) {
  const past = isHeld ? entry.held : entry.waited;
  const since = Number.isNaN(past) ? null : new Date(now - past).toISOString();
  return { ...entry, since, token: isHeld ? String(token) : null };
}

/**
 * @param {import('./circles.js').State} state
 * @returns {string} a text that changes with each grant, request and release, and with what locks
 *   publish
 */
function fingerprint(state) {
  const hash = createHash('sha256');
  let piece = '';
  for (const { entry, isHeld } of rowsOf(state)) {
    const { bucket, clientId, data, label, name, token } = entry;
    const row = [bucket, name, isHeld, clientId, modeOf(entry), label, String(token), data];
    piece += JSON.stringify(row);
    if (piece.length < PIECE) continue;
    hash.update(piece);
    piece = '';
  }
  const circles = state.circles?.map((circle) => circle.map(({ holder }) => holder.clientId));
  return hash
    .update(piece)
    .update(JSON.stringify(circles ?? []))
    .digest('base64');
}

module.exports = { fingerprint, json, modeOf, rowsOf, table, widthOf };
