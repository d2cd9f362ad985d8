'use strict';

/** `web-locks`: locks that all threads of the process share. */

const { locks, openBucket } = require('./extensions/buckets/buckets.js');
const shared = require('./common.js');

module.exports = { ...shared, locks, openBucket };
