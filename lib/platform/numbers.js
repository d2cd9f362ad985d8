'use strict';

/** @param {number} low 32 bits, signed or not @param {number} high 32 bits */
const tokenOf = (low, high) => (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);

module.exports = { tokenOf };
