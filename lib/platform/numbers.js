'use strict';

/**
 * @param {number} low 32 bits, signed or not
 * @param {number} high
 * @returns {bigint} the token of a lock
 */
const tokenOf = (low, high) => (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);

module.exports = { tokenOf };
