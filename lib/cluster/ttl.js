'use strict';

/** The allowed lengths of leases in milliseconds. */
const TTL = Object.freeze({ least: 2_000, most: 3_600_000, usual: 10_000 });

module.exports = { TTL };
