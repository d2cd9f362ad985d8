'use strict';

/** Formats durations in terminals and pages. Pages contain this file, so it requires no other. */

/**
 * Each row is for times below a limit: the limit in milliseconds, the unit, the length of the unit,
 * and the next smaller unit.
 * @type {[number, string, number, string][]}
 */
const UNITS = [
  [3_600_000, 'm', 60_000, 's'],
  [86_400_000, 'h', 3_600_000, 'm'],
  [Infinity, 'd', 86_400_000, 'h'],
];
const LENGTHS = { s: 1000, m: 60_000, h: 3_600_000 };

/** @param {number} milliseconds NaN if unknown @returns {string} such as 0.3s, 12s, 3m 5s, 2h 0m */
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

module.exports = { duration };
