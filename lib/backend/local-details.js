'use strict';

const { dataOf } = require('./details.js');

/** @import { CycleEntry, Requester } from './contract.js' */

/**
 * See `Backend.entryOf` in contract.js. Without a query, `waited` and `held` are 0.
 * @param {{ clientId: string, host: string, pid: number, threadId: number, threadName: string }}
 *   who
 * @param {Requester} request @param {string} label if the request has none @param {boolean} isHeld
 * @returns {CycleEntry}
 */
function entryOf(who, request, label, isHeld) {
  const { clientId, host, pid, threadId, threadName } = who;
  const { name, mode, limit = 0, weight = 1, priority = 0 } = request;
  const { token = 0n } = /** @type {Requester & { token?: bigint }} */ (request);
  return {
    clientId,
    host,
    pid,
    threadId,
    threadName,
    name,
    mode,
    label: request.label || label,
    waited: 0,
    held: 0,
    limit,
    weight: limit > 0 ? weight : 0,
    priority,
    token: isHeld ? token : 0n,
    site: '',
    data: isHeld ? dataOf(request.published) : undefined,
    isHeld,
  };
}

module.exports = { entryOf };
