'use strict';

/**
 * Prints answers on stdout. The program ends without an error if the reader (such as `head`) has
 * gone or the terminal was closed. Nothing may use `process.stdout` before the first output:
 * Node.js could make the open file non-blocking, and the command of `run` shares that file.
 */

const { STATUS, say } = require('./status.js');

let isUsed = false;

/** Returns stdout; a failed write ends the program. */
function useStdout() {
  if (!isUsed) process.stdout.on('error', endOnError);
  isUsed = true;
  return process.stdout;
}

/**
 * Ends the program, with success if only the reader has gone.
 * @param {NodeJS.ErrnoException} error
 */
function endOnError({ code, message }) {
  if (code === 'EPIPE' || code === 'EIO') process.exit(STATUS.ok);
  say(`the output cannot be written: ${message}`);
  process.exit(STATUS.file);
}

/** @param {string} text @returns {Promise<void>} resolves when the text is written */
const print = (text) => new Promise((resolve) => useStdout().write(text, () => resolve()));

/** The number of characters that are written at once. */
const PIECE = 65_536;

/** Prints an output that may be too long for one string. @param {Iterable<string>} parts */
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

/** Resolves when all output is written. */
function flush() {
  const streams = isUsed ? [process.stdout, process.stderr] : [process.stderr];
  return Promise.all(streams.map(flushStream));
}

/** @param {NodeJS.WriteStream} stream */
async function flushStream(stream) {
  // If there is nothing to write, this must not wait, because the reader may be gone.
  if (stream.writableLength > 0) await new Promise((resolve) => stream.write('', resolve));
}

module.exports = { flush, useStdout, print, printAll };
