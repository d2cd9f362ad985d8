'use strict';

/** The shortest, the longest and the default lease, in milliseconds. */
const TTL = Object.freeze({ least: 2_000, most: 3_600_000, usual: 10_000 });

module.exports = { TTL };
