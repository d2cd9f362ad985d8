'use strict';

/**
 * Decides what happens to a request when its session ends, either because the session is lost and
 * the next one opens, or because it is closed for good. A theft without an answer fails, because
 * the server may have executed it: a repetition could rob a second holder (R1).
 */

const { GRANTED_PARTIAL, ASKED, ENDING, HELD, WAITING } = require('./tracked-request.js');

/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */

/**
 * - `again`: the next session requests the lock again
 * - `lost`: the lock is lost, or it is unknown whether the name was marked
 * - `failed`: the request fails
 * - `over`: the user had already given up the request
 * - `kept`: the user had already given up the request, and it ends when the session is closed
 * @typedef {'again' | 'lost' | 'failed' | 'over' | 'kept'} Outcome
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

/** @param {TrackedRequest} tracked @param {'lost' | 'closed'} end @param {boolean} isSent */
function outcomeOnSessionEnd({ op, state, keep }, end, isSent) {
  if (state === ASKED && isSent && op.kind === 'steal') return 'failed';
  if (state === ENDING && keep > 0) return 'lost';
  return OUTCOMES[end][state];
}

module.exports = { outcomeOnSessionEnd };
