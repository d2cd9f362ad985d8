'use strict';

/**
 * Takes the time of the build out of a program or library for Windows, where its linker cannot be told
 * to leave it out: `no-timestamp.js FILE`.
 */

const fs = require('node:fs');
const process = require('node:process');

/** Where the COFF header is, in a PE file; and where the time is in that, behind the signature. */
const [HEADER_AT, TIME] = [0x3c, 8];

const name = process.argv[2];
const file = fs.readFileSync(name);
file.writeUInt32LE(0, file.readUInt32LE(HEADER_AT) + TIME);
fs.writeFileSync(name, file);
