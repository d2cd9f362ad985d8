'use strict';

/**
 * The scope `host`: `web-locks/host`, in a directory of the test's own. Workers and processes
 * inherit it, and the main thread of the first process removes it at its end.
 */

const fs = require('node:fs');
const path = require('node:path');
const { isMainThread } = require('node:worker_threads');
const host = require('../../lib/host.js');
const { root } = require('../helpers/root.js');

if (isMainThread && process.env.WEB_LOCKS_TEST_DIRECTORY === undefined) {
  const directory = fs.mkdtempSync(path.join(root, 'web-locks-conformance-'));
  process.env.WEB_LOCKS_TEST_DIRECTORY = directory;
  process.on('exit', () => fs.rmSync(directory, { recursive: true, force: true }));
}

const directory = process.env.WEB_LOCKS_TEST_DIRECTORY;
const openBucket = (name) => host.openBucket(name, { directory });

module.exports = { openBucket };
