'use strict';

/** How names, times and holders are shown to people, whatever others have put into them. */

const holders = require('../extensions/holders.js');

/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/** What a terminal would obey, or would not show: controls, formats, surrogates, odd spaces. */
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/gu;
const AMBIGUOUS = /^$|^[\s"]|\s$|\\/u;

/** @param {string} character */
const escaped = (character) =>
  ({ '\n': '\\n', '\r': '\\r', '\t': '\\t' })[character] ??
  `\\u{${/** @type {number} */ (character.codePointAt(0)).toString(16)}}`;

/**
 * @param {string} text
 * @returns {string} on one line, quoted if it could be mistaken otherwise
 */
function shown(text) {
  const safe = text.replace(UNSEEN, '');
  if (safe === text && !AMBIGUOUS.test(text)) return text;
  return quoted(text);
}

/**
 * @param {string} text
 * @returns {string} on one line, in quotation marks
 */
const quoted = (text) => `"${text.replace(/["\\]/g, '\\$&').replace(UNSEEN, escaped)}"`;

/**
 * Up to so many milliseconds: the unit, its length, the unit below it.
 * @type {[number, string, number, string][]}
 */
const UNITS = [
  [3_600_000, 'm', 60_000, 's'],
  [86_400_000, 'h', 3_600_000, 'm'],
  [Infinity, 'd', 86_400_000, 'h'],
];
const LENGTHS = { s: 1000, m: 60_000, h: 3_600_000 };

/**
 * @param {number} milliseconds NaN: not known
 * @returns {string} such as 0.3s, 12s, 3m 5s, 2h 0m, 4d 7h
 */
function duration(milliseconds) {
  if (Number.isNaN(milliseconds)) return '?';
  if (milliseconds < 9950) return `${(milliseconds / 1000).toFixed(1)}s`;
  if (milliseconds < 60_000) return `${Math.floor(milliseconds / 1000)}s`;
  const [, big, length, small] = /** @type {(typeof UNITS)[0]} */ (
    UNITS.find(([limit]) => milliseconds < limit)
  );
  const rest = Math.floor((milliseconds % length) / LENGTHS[/** @type {'s'} */ (small)]);
  return `${Math.floor(milliseconds / length)}${big} ${rest}${small}`;
}

/**
 * @param {LockDetails} details of a lock
 * @returns {string} such as: process 4702 ("nightly run"), for 3.2 s
 */
const describeHolder = (details) => holders.describeHolder(details, quoted);

/**
 * @param {LockDetails[] | undefined} all undefined: not known
 * @returns {string} for parentheses
 */
const describeHolders = (all) => holders.describeHolders(all, quoted);

module.exports = { describeHolder, describeHolders, duration, quoted, shown };
