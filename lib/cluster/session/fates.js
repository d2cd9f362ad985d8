'use strict';

/**
 * What becomes of a place when its session is over: `lost`, and the next one begins, or `closed`,
 * for good.
 *
 * Whether a theft is done that was sent and not answered nobody knows: it is not asked for again,
 * or it would rob twice (R1).
 */

const { ALLOTTED, ASKED, ENDING, HELD, WAITING } = require('./place.js');

/** @typedef {InstanceType<typeof import('./place.js').Place>} Place */

/**
 * @typedef {'again' | 'lost' | 'failed' | 'over' | 'kept'} Fate
 * - `again`: it is asked for in the next session
 * - `lost`: its lock is lost, or what its end was to mark
 * - `failed`: its request is not made any more
 * - `over`: that it was given up comes true by this
 * - `kept`: its end is waited for until the session is given back
 */

/** @type {Record<'lost' | 'closed', Record<number, Fate>>} */
const FATES = {
  lost: {
    [ASKED]: 'again',
    [WAITING]: 'again',
    [ALLOTTED]: 'again',
    [HELD]: 'lost',
    [ENDING]: 'over',
  },
  closed: {
    [ASKED]: 'failed',
    [WAITING]: 'failed',
    [ALLOTTED]: 'failed',
    [HELD]: 'lost',
    [ENDING]: 'kept',
  },
};

/**
 * @param {Place} place
 * @param {'lost' | 'closed'} end of its session
 * @param {boolean} isSent whether what it asked for is sent, and not answered
 * @returns {Fate}
 */
function fateOf({ op, state, keep }, end, isSent) {
  if (state === ASKED && isSent && op.kind === 'steal') return 'failed';
  // Nobody knows whether its name is marked.
  if (state === ENDING && keep > 0) return 'lost';
  return FATES[end][state];
}

module.exports = { fateOf };
