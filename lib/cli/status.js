'use strict';

/** Exit statuses: those of flock(1), and for others those of sysexits.h. */

const STATUS = {
  ok: 0,
  /** The lock was not acquired, or not stolen because the answer was no. */
  conflict: 1,
  usage: 64,
  /** A file cannot be read or written, or has the wrong contents. */
  file: 66,
  /** The locks cannot be reached. */
  unavailable: 69,
  /** This program has a fault. */
  internal: 70,
  /** The lock was lost while the command ran. */
  lost: 75,
  notExecutable: 126,
  notFound: 127,
};

/**
 * How a process ends: with a status, or by a signal.
 * @typedef {{ status: number, signal?: undefined } | { signal: NodeJS.Signals }} Ending how a
 *   process ends
 */

/** Ends the program with a message and an exit status. */
class Failure extends Error {
  /** @param {number} status @param {string} message @param {string} [hint] a further line */
  constructor(status, message, hint) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

/** Prints a line for people on stderr. @param {string} line */
function say(line) {
  process.stderr.write(`web-locks: ${line}\n`);
}

module.exports = { Failure, STATUS, say };
