'use strict';

/** `web-locks`: locks of all threads of the process. */

const { locks, openBucket } = require('./extensions/buckets.js');
const shared = require('./common.js');

module.exports = { ...shared, locks, openBucket };
