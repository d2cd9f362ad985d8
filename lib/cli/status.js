'use strict';

/**
 * How the command line ends: exit statuses, and errors that have one. Codes that flock(1) does not
 * have are those of sysexits.h.
 */

/** By what it means. */
const STATUS = {
  ok: 0,
  /** Not acquired, or not stolen because somebody said no. */
  conflict: 1,
  usage: 64,
  /** A file cannot be read or written, or is not what it has to be. */
  file: 66,
  /** The locks cannot be reached. */
  unavailable: 69,
  /** An error of this program. */
  internal: 70,
  /** The lock was lost while the command ran. */
  lost: 75,
  notExecutable: 126,
  notFound: 127,
};

/**
 * How a process ends: with a status, or by a signal.
 * @typedef {{ status: number, signal?: undefined } | { signal: NodeJS.Signals }} Ending
 */

/** Ends the program with a message and a status. */
class Failure extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {string} [hint] a line below the message
   */
  constructor(status, message, hint) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

/** @param {string} line for people, on stderr */
function say(line) {
  process.stderr.write(`web-locks: ${line}\n`);
}

module.exports = { Failure, STATUS, say };
