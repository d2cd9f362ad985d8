'use strict';

/**
 * Removes the build time from a program or library for Windows, because its linker has no option
 * for that: `no-timestamp.js FILE`.
 */

const fs = require('node:fs');
const process = require('node:process');

/**
 * Offsets of the address of the COFF header in a PE file, and of the time in that header after the
 * signature.
 */
const [HEADER_AT, TIME] = [0x3c, 8];

const name = process.argv[2];
const file = fs.readFileSync(name);
file.writeUInt32LE(0, file.readUInt32LE(HEADER_AT) + TIME);
fs.writeFileSync(name, file);
