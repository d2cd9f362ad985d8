'use strict';

/**
 * Decides what the end of a session means for a request: the session is lost and the next one
 * opens, or it is closed for good. A theft that was sent and not answered fails, because nobody
 * knows whether the server did it: a repetition could rob a second holder (R1).
 */

const { ALLOTTED, ASKED, ENDING, HELD, WAITING } = require('./place.js');

/** @typedef {InstanceType<typeof import('./place.js').Place>} Place */

/**
 * @typedef {'again' | 'lost' | 'failed' | 'over' | 'kept'} Fate
 * - `again`: the next session requests it again
 * - `lost`: its lock is lost, or the mark that its end was to set
 * - `failed`: its request fails
 * - `over`: it was given up already, and is gone now
 * - `kept`: its end may still be answered while the session closes
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
 * @param {'lost' | 'closed'} end of the session
 * @param {boolean} isSent whether its operation was sent and not answered
 * @returns {Fate}
 */
function fateOf({ op, state, keep }, end, isSent) {
  if (state === ASKED && isSent && op.kind === 'steal') return 'failed';
  // Nobody knows whether the server has set the mark.
  if (state === ENDING && keep > 0) return 'lost';
  return FATES[end][state];
}

module.exports = { fateOf };
