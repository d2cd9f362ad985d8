'use strict';

/** Describes where a command looked for locks, and which other buckets have locks or requests. */

const { describeBucket } = require('./format.js');

/** @typedef {import('./bucket.js').Look} Look */
/** @typedef {InstanceType<typeof import('./bucket.js').OpenBucket>} OpenBucket */

/** The most buckets that are listed. */
const FEW = 10;

/** @param {OpenBucket} opened @param {string | undefined} name limits the result */
const lookAtOthersInUse = async (opened, name) =>
  (await opened.lookAtOtherBuckets(name)).filter(isInUse);

/** A bucket whose state is unknown counts as in use. @param {Look} look */
const isInUse = ({ state }) => !state || state.held.length + state.pending.length > 0;

/** @param {OpenBucket['where']} where */
const describePlace = ({ at, bucket, directory }) =>
  `in ${describeBucket(bucket)} ${at ? `at ${at}` : `of ${directory}`}`;

/** @param {Look} look */
function describeLook({ bucket, failure, state }) {
  if (failure) return bucket === null ? failure : `${describeBucket(bucket)} (${failure})`;
  return `${describeBucket(bucket)} (${state?.held.length} held, ${state?.pending.length} waiting)`;
}

/** @param {Look[]} looks @param {string} title @returns {string[]} lines */
function listOthers(looks, title) {
  if (looks.length === 0) return [];
  const more = looks.length > FEW ? [`  … and ${looks.length - FEW} more`] : [];
  return [title, ...looks.slice(0, FEW).map((look) => `  ${describeLook(look)}`), ...more];
}

module.exports = { describeLook, describePlace, listOthers, lookAtOthersInUse };
