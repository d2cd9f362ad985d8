'use strict';

/**
 * The description of a lock or a request: the entries of `query({ details: true })`, of errors and
 * of
 * cycles. All of them are made here, and have the fields that types/shared.d.ts declares.
 */

const { defineProperty } = Object;

/** @typedef {import('../../types/shared.js').LockDetails} LockDetails */
/** @typedef {import('../../types/shared.js').PendingDetails} PendingDetails */

/**
 * @param {Omit<LockDetails, 'site'> & { site?: string }} source may have more fields. Only the
 *   thread of a lock can know its `site`: lib/extensions/sites.js
 * @returns {LockDetails}
 */
const lockDetails = (source) =>
  printable({
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
  });

/**
 * @param {LockDetails} details of a request that waits
 * @param {LockDetails[]} blockedBy the locks that are held on its name
 * @param {number} ahead how many requests are ahead of it in the queue
 * @returns {PendingDetails}
 */
const pendingDetails = (details, blockedBy, ahead) => printable({ ...details, blockedBy, ahead });

/**
 * Lets JSON.stringify take it, and what uses that: `process.send`, loggers. Not by a class: it
 * stays a plain object, for comparisons and for `structuredClone`, which leaves out what is not
 * enumerable.
 * @template {LockDetails} T
 * @param {T} details
 * @returns {T}
 */
const printable = (details) => defineProperty(details, 'toJSON', TO_JSON);

/** @type {PropertyDescriptor} */
const TO_JSON = {
  // @ts-expect-error: with nothing that somebody put into Object.prototype
  __proto__: null,
  /** @this {LockDetails} */
  value: function toJSON() {
    return { ...this, token: `${this.token}` };
  },
  configurable: true,
  writable: true,
};

module.exports = { lockDetails, pendingDetails };
