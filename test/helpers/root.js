'use strict';

/**
 * The parent of all directories that tests make: in memory, if possible. Except on Windows it is
 * not os.tmpdir(), whose path on macOS is too long for the address of a socket.
 */

const { existsSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');

const standard = process.platform === 'win32' ? tmpdir() : '/tmp';

const root = path.resolve(existsSync('/dev/shm') ? '/dev/shm' : standard);

module.exports = { root };
