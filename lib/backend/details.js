'use strict';

/** Makes the descriptions of locks and requests that users get; see types/shared.d.ts. */

const { defineProperty } = Object;
const { parse } = JSON;

/** @import { LockDetails, PendingDetails } from '../../types/shared.js' */

/**
 * @param {Omit<LockDetails, 'site'> & { site?: string }} source may have more fields. Only the
 *   thread of a lock can know its `site` (lib/extensions/sites/sites.js)
 * @returns {LockDetails}
 */
const lockDetails = (source) =>
  withToJSON({
    clientId: source.clientId,
    mode: source.mode,
    name: source.name,
    label: source.label,
    host: source.host,
    pid: source.pid,
    threadId: source.threadId,
    threadName: source.threadName,
    waited: source.waited,
    held: source.held,
    limit: source.limit,
    weight: source.weight,
    priority: source.priority,
    token: source.token,
    site: source.site ?? '',
    ...(source.data === undefined ? undefined : { data: source.data }),
  });

/**
 * Parses the text that a lock has published.
 * @param {string | undefined} text @returns {unknown} undefined if it is not JSON
 */
function dataOf(text) {
  if (!text) return undefined;
  try {
    return parse(text);
  } catch {
    return undefined;
  }
}

/**
 * @param {LockDetails} details @param {LockDetails[]} blockedBy @param {number} ahead
 * @returns {PendingDetails}
 */
const pendingDetails = (details, blockedBy, ahead) => withToJSON({ ...details, blockedBy, ahead });

/**
 * Makes JSON.stringify, and so loggers and `process.send`, accept the token. `toJSON` is not
 * enumerable, so that the object can be compared, and cloned by `structuredClone`.
 * @template {LockDetails} T @param {T} details @returns {T}
 */
const withToJSON = (details) => defineProperty(details, 'toJSON', TO_JSON);

/** @type {PropertyDescriptor} */
const TO_JSON = {
  // @ts-expect-error: the descriptor inherits nothing that users put on Object.prototype
  __proto__: null,
  /** @this {LockDetails} */
  value: function toJSON() {
    return { ...this, token: `${this.token}` };
  },
  configurable: true,
  writable: true,
};

module.exports = { dataOf, lockDetails, pendingDetails };
