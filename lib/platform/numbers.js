'use strict';

/**
 * Joins the two halves of a lock's token.
 * @param {number} low 32 bits, signed or not @param {number} high
 */
const tokenOf = (low, high) => (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);

module.exports = { tokenOf };
