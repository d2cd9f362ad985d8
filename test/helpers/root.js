'use strict';

/**
 * Where tests make their directories: in memory, where there is such a place. Not os.tmpdir(), but
 * on Windows: on macOS its path leaves too little of a socket's address.
 */

const { existsSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');

const standard = process.platform === 'win32' ? tmpdir() : '/tmp';

/** An absolute path. */
const root = path.resolve(existsSync('/dev/shm') ? '/dev/shm' : standard);

module.exports = { root };
