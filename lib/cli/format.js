'use strict';

/** Formats names and holders for a terminal. Other programs can have put any text into them. */

const holders = require('../extensions/errors/descriptions.js');

/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/** Characters that a terminal obeys or may not show, such as control and unassigned characters. */
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}]/gu;
const AMBIGUOUS = /^$|^[\s"]|\s$|\\/u;

/** @param {string} character */
const escaped = (character) =>
  ({ '\n': '\\n', '\r': '\\r', '\t': '\\t' })[character] ??
  `\\u{${/** @type {number} */ (character.codePointAt(0)).toString(16)}}`;

/** @param {string} text @returns {string} one line, quoted if the text could be misread */
function quotedIfNeeded(text) {
  const safe = text.replace(UNSEEN, '');
  if (safe === text && !AMBIGUOUS.test(text)) return text;
  return quoted(text);
}

/** @param {string} text @returns {string} one line in quotation marks */
const quoted = (text) => `"${text.replace(/["\\]/g, '\\$&').replace(UNSEEN, escaped)}"`;

/** @param {string | null} bucket null for the default bucket */
const describeBucket = (bucket) =>
  bucket === null ? 'the default bucket' : `bucket ${quoted(bucket)}`;

/** @param {LockDetails} details @returns {string} process 4702 ("nightly run"), for 3.2 s */
const describeHolder = (details) => holders.describeHolder(details, quoted);

/**
 * @param {LockDetails[] | undefined} all undefined if the holders are unknown
 * @param {number} [grantsIn] milliseconds during which nothing is granted
 * @param {unknown} [outage] why the holders are unknown
 */
const describeHolders = (all, grantsIn, outage) =>
  !all && outage !== undefined
    ? holders.describeOutage(outage)
    : holders.describeHolders(all, grantsIn, quoted);

module.exports = { describeBucket, describeHolder, describeHolders, quoted, quotedIfNeeded };
