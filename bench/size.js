/**
 * How much a measurement does: all of it or, for `--brief`, just enough to see that it works. It is
 * in an environment variable, so that processes and workers of a measurement do the same.
 */

const isBrief = process.env.WEB_LOCKS_BENCH_BRIEF === '1';

/** A number of requests, names or times. */
const size = (count) => (isBrief ? Math.max(2, Math.ceil(count / 1000)) : count);

/** The time in milliseconds for which something is repeated. */
const duration = (milliseconds) => (isBrief ? milliseconds / 20 : milliseconds);

module.exports = { duration, isBrief, size };
