'use strict';

/**
 * Decides what the end of a session means for a request: the session is lost and the next one
 * opens, or it is closed for good. A theft that was sent and not answered fails, because nobody
 * knows whether the server did it: a repetition could rob a second holder (R1).
 */

const { GRANTED_PARTIAL, ASKED, ENDING, HELD, WAITING } = require('./tracked-request.js');

/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */

/**
 * @typedef {'again' | 'lost' | 'failed' | 'over' | 'kept'} Outcome
 * - `again`: the next session requests it again
 * - `lost`: its lock is lost, or the mark that its end was to set
 * - `failed`: its request fails
 * - `over`: it was given up already, and is gone now
 * - `kept`: its end may still be answered while the session closes
 */

/** @type {Record<'lost' | 'closed', Record<number, Outcome>>} */
const OUTCOMES = {
  lost: {
    [ASKED]: 'again',
    [WAITING]: 'again',
    [GRANTED_PARTIAL]: 'again',
    [HELD]: 'lost',
    [ENDING]: 'over',
  },
  closed: {
    [ASKED]: 'failed',
    [WAITING]: 'failed',
    [GRANTED_PARTIAL]: 'failed',
    [HELD]: 'lost',
    [ENDING]: 'kept',
  },
};

/**
 * @param {TrackedRequest} tracked
 * @param {'lost' | 'closed'} end of the session
 * @param {boolean} isSent whether its operation was sent and not answered
 * @returns {Outcome}
 */
function outcomeOnSessionEnd({ op, state, keep }, end, isSent) {
  if (state === ASKED && isSent && op.kind === 'steal') return 'failed';
  // Nobody knows whether the server has set the mark.
  if (state === ENDING && keep > 0) return 'lost';
  return OUTCOMES[end][state];
}

module.exports = { outcomeOnSessionEnd };
