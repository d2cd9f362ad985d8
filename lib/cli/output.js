'use strict';

/**
 * Prints answers on stdout. A reader that has gone, as `head` does, ends the program, and
 * is no error; nor is a terminal that was closed.
 *
 * A caller that prints nothing does not touch stdout: it is also that of the command of `run`, too,
 * which would
 * find it in another mode.
 */

const { STATUS, say } = require('./status.js');

let isUsed = false;

/** @returns {NodeJS.WriteStream} stdout; what cannot be written to it ends the program */
function output() {
  if (!isUsed) process.stdout.on('error', end);
  isUsed = true;
  return process.stdout;
}

/** @param {NodeJS.ErrnoException} error */
function end({ code, message }) {
  if (code === 'EPIPE' || code === 'EIO') process.exit(STATUS.ok);
  say(`the output cannot be written: ${message}`);
  process.exit(STATUS.file);
}

/**
 * @param {string} text
 * @returns {Promise<void>} resolves when it is written
 */
const print = (text) => new Promise((resolve) => output().write(text, () => resolve()));

/** So many characters are written at once. */
const PIECE = 65_536;

/**
 * Prints what is too long for one string, and keeps no more of it in memory than a piece.
 * @param {Iterable<string>} parts
 */
async function printAll(parts) {
  let piece = '';
  for (const part of parts) {
    piece += part;
    if (piece.length < PIECE) continue;
    await print(piece);
    piece = '';
  }
  await print(piece);
}

/** @returns {Promise<unknown>} resolves when all that was said and printed is written */
function allIsWritten() {
  const streams = isUsed ? [process.stdout, process.stderr] : [process.stderr];
  return Promise.all(streams.map(written));
}

/** @param {NodeJS.WriteStream} stream */
async function written(stream) {
  // Not if there is nothing: nobody may read it any more, which is no matter then.
  if (stream.writableLength > 0) await new Promise((resolve) => stream.write('', resolve));
}

module.exports = { allIsWritten, output, print, printAll };
