'use strict';

/** Members of a Requester that say what happened: lib/backend/contract.js. */
const MEMBERS = [
  'granted',
  'unavailable',
  'stolen',
  'lost',
  'markLost',
  'otherLimit',
  'queueFull',
  'deadlocked',
  'failed',
];

module.exports = { MEMBERS };
