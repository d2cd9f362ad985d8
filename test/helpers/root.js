'use strict';

/**
 * Tests make their directories here: in memory, if there is such a place. Except on Windows it is not
 * os.tmpdir(), whose path on macOS leaves too little room for the address of a socket.
 */

const { existsSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');

const standard = process.platform === 'win32' ? tmpdir() : '/tmp';

const root = path.resolve(existsSync('/dev/shm') ? '/dev/shm' : standard);

module.exports = { root };
