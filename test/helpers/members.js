'use strict';

/** The methods of a Requester that apply events: lib/backend/contract.js. */
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
