'use strict';

/** Errors of the host scope: what happened, as the addon tells it, and what to do about it. */

const { addon } = require('./addon.js');
const { bucketClosedError, closedError, noMemoryError, plainError } =
  require('../platform/errors.js');

const { CLOSED, WLH_CLOSED, WLH_FULL, WLH_LOST, WLH_NO_MEMORY, WLH_UNSUPPORTED, WLH_VERSION } =
  addon;

/**
 * By status: the end of the code, and what to do if the addon does not know better.
 * @type {Map<number, [string, string]>}
 */
const kinds = new Map([
  [
    WLH_UNSUPPORTED,
    [
      'UNSUPPORTED',
      "Give a directory of yours on a local file system with the option 'directory' or in " +
        'WEB_LOCKS_DIRECTORY, or use the locks of one process: ' +
        "require('web-locks').",
    ],
  ],
  [
    WLH_VERSION,
    [
      'VERSION',
      'Let all programs that share these locks use the same version of web-locks, or end the one ' +
        'that has it open.',
    ],
  ],
  [
    WLH_FULL,
    [
      'FULL',
      'Give more of what is short, or use less: make room on the file system, close buckets that ' +
        'are not in use, allow the process more open files, or request fewer locks at a time ' +
        'with shorter names.',
    ],
  ],
  [
    WLH_LOST,
    [
      'LOST',
      'Nothing may delete, move or change files in the directory of web-locks while they are in ' +
        'use. The next request tries to open them again.',
    ],
  ],
]);

/** Of a lock, in UTF-16 code units: 64 KiB. */
const LONGEST_NAME = 32_768;

/**
 * @param {string} name longer than that
 * @param {string} doing for the message
 */
function nameTooLongError(name, doing) {
  const why = `the name is too long, it has ${name.length} UTF-16 code units`;
  const advice = `Use one of at most ${LONGEST_NAME} (64 KiB), for example a hash of the long one.`;
  return plainError(`web-locks: ${doing} failed: ${why}. ${advice}`, 'ERR_WEB_LOCKS_SCOPE_FULL');
}

/**
 * @param {number} status of the addon
 * @param {string} what happened: a sentence of the addon, or ''; with a full stop it says what to
 *   do
 * @param {string} doing for the message
 * @returns {Error}
 */
function hostError(status, what, doing) {
  if (status === CLOSED) return closedError();
  if (status === WLH_CLOSED) return bucketClosedError();
  if (status === WLH_NO_MEMORY) return noMemoryError(doing);
  const kind = kinds.get(status);
  if (!kind) return plainError(`web-locks: ${doing} failed (${status}).`, 'ERR_WEB_LOCKS_HOST');
  const [code, advice] = kind;
  const why = what === '' ? '' : `: ${what}`;
  const rest = what.endsWith('.') ? '' : `. ${advice}`;
  return plainError(`web-locks: ${doing} failed${why}${rest}`, `ERR_WEB_LOCKS_SCOPE_${code}`);
}

module.exports = { LONGEST_NAME, hostError, nameTooLongError };
