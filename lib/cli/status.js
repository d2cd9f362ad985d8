'use strict';

/** The exit statuses. They follow flock(1), and for cases that flock does not have, sysexits.h. */

const STATUS = {
  ok: 0,
  /** The lock was not acquired, or was not stolen because the user refused. */
  conflict: 1,
  usage: 64,
  /** A file cannot be read or written, or has the wrong contents. */
  file: 66,
  unavailable: 69,
  internal: 70,
  /** The lock was lost while the command ran. */
  lost: 75,
  notExecutable: 126,
  notFound: 127,
};

/** @typedef {{ status: number, signal?: undefined } | { signal: NodeJS.Signals }} Ending */

/** Ends the program with a message and an exit status. */
class Failure extends Error {
  /** @param {number} status @param {string} message @param {string} [hint] a further line */
  constructor(status, message, hint) {
    super(message);
    this.status = status;
    this.hint = hint;
  }
}

/** Prints a line on stderr. @param {string} line */
function say(line) {
  process.stderr.write(`web-locks: ${line}\n`);
}

module.exports = { Failure, STATUS, say };
