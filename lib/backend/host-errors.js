'use strict';

/** Makes the errors of the host scope: what happened, and what to do about it. */

const { addon } = require('./addon.js');
const { bucketClosedError, closedError, noMemoryError, plainError } =
  require('../platform/errors.js');

const { CLOSED, BUCKET_CLOSED, FULL, LOST, NO_MEMORY, UNSUPPORTED, VERSION } = addon;

/** The end of the error code, and advice for when the addon gives none. */
/** @type {Map<number, [string, string]>} */
const kinds = new Map([
  [
    UNSUPPORTED,
    [
      'UNSUPPORTED',
      "Use a directory of your own on a local file system (option 'directory' or " +
        "WEB_LOCKS_DIRECTORY), or the locks of one process: require('web-locks').",
    ],
  ],
  [
    VERSION,
    [
      'VERSION',
      'Use the same version of web-locks in all programs that share these locks, or end the ' +
        'other process.',
    ],
  ],
  [
    FULL,
    [
      'FULL',
      'Free space on the file system, close unused buckets, raise the limit of open files, ' +
        'request fewer locks at a time, or use shorter names.',
    ],
  ],
  [
    LOST,
    [
      'LOST',
      'Do not delete, move or change files in the directory of web-locks while they are in use. ' +
        'The next request tries to open the bucket again.',
    ],
  ],
]);

/** The longest name of a lock in UTF-16 code units, 64 KiB. */
const LONGEST_NAME = 32_768;

/** @param {string} name @param {string} doing */
function nameTooLongError(name, doing) {
  const have = `${name.length} UTF-16 code units`;
  const why = `the name has ${have}; at most ${LONGEST_NAME} (64 KiB) are allowed`;
  const advice = 'Use a shorter name, for example a hash of this one.';
  return plainError(`web-locks: ${doing} failed: ${why}. ${advice}`, 'ERR_WEB_LOCKS_SCOPE_FULL');
}

/**
 * @param {number} status
 * @param {string} what the addon's message, or ''; a final full stop says that it contains advice
 * @param {string} doing
 */
function hostError(status, what, doing) {
  if (status === CLOSED) return closedError();
  if (status === BUCKET_CLOSED) return bucketClosedError();
  if (status === NO_MEMORY) return noMemoryError(doing);
  const kind = kinds.get(status);
  if (!kind)
    return plainError(
      `web-locks: ${doing} failed with the unknown status ${status}. This is a bug in web-locks; ` +
        'please report it.',
      'ERR_WEB_LOCKS_HOST',
    );
  const [code, advice] = kind;
  const why = what === '' ? '' : `: ${what}`;
  const rest = what.endsWith('.') ? '' : `. ${advice}`;
  return plainError(`web-locks: ${doing} failed${why}${rest}`, `ERR_WEB_LOCKS_SCOPE_${code}`);
}

/** Errors and warnings show this instead of the holders if the bucket is not open yet. */
const notOpenError = () =>
  plainError('The storage bucket was not open yet.', 'ERR_WEB_LOCKS_SCOPE_NOT_OPEN');

module.exports = { LONGEST_NAME, hostError, nameTooLongError, notOpenError };
