'use strict';

/** Formats names and holders for a terminal, whatever characters other programs put into them. */

const holders = require('../extensions/holders.js');

/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/** Characters that a terminal obeys or hides: controls, formats, surrogates, odd spaces. */
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
 * @param {LockDetails} details of a lock
 * @returns {string} such as: process 4702 ("nightly run"), for 3.2 s
 */
const describeHolder = (details) => holders.describeHolder(details, quoted);

/**
 * @param {LockDetails[] | undefined} all undefined: not known
 * @param {number} [grantsIn] milliseconds for which nothing is granted to anybody
 * @param {unknown} [outage] why they are not known
 * @returns {string} for parentheses
 */
const describeHolders = (all, grantsIn, outage) =>
  !all && outage !== undefined
    ? holders.describeOutage(outage)
    : holders.describeHolders(all, grantsIn, quoted);

module.exports = { describeHolder, describeHolders, quoted, shown };
