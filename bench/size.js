/**
 * How much a measurement does: all of it, or, for `--brief`, just enough to see that it works. The
 * environment tells, so that processes and workers of a measurement do the same.
 */

const isBrief = process.env.WEB_LOCKS_BENCH_BRIEF === '1';

/** How many requests, names, times. */
const size = (count) => (isBrief ? Math.max(2, Math.ceil(count / 1000)) : count);

/** For how many milliseconds something is done over and over. */
const duration = (milliseconds) => (isBrief ? milliseconds / 20 : milliseconds);

module.exports = { duration, isBrief, size };
