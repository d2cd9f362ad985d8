'use strict';

/**
 * The marks that ends set (`locks.once`). A mark has a lease of its own, which is granted before
 * the transaction of the end.
 */

const { ENDED, NOT_MARKED } = require('../../adapter.js');
const { doneLease, valueOf } = require('./keys.js');
const { only } = require('./operations.js');

/** @import { EndOp, Op } from '../../adapter.js' */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */

/** The value of a mark names the request that set it. @param {string} lease @param {number} ref */
const setterOf = (lease, ref) => `${lease}-${ref}`;

/** @param {Op} op @returns {op is EndOp} */
const isMarking = (op) => op.kind === 'end' && op.markFor > 0;

/** @param {EndOp} op @param {string} lease of the session @param {Link} link */
async function grantMarkLease({ markFor, ref }, lease, link) {
  const ID = doneLease(lease, ref);
  try {
    await link.grantLease(markFor, ID);
  } catch (/** @type {any} */ error) {
    if (!/lease already exists/.test(error?.message)) throw error;
    // An earlier attempt granted this lease, maybe long ago.
    await link.call('lease/keepalive', { ID });
  }
}

/**
 * The answer to an end that marks; if it set no mark, this revokes the mark's lease.
 * @param {Op} op @param {string} key of the mark @param {string} lease @param {Link} link
 */
async function answerToMark({ ref }, key, lease, link) {
  const { found: ranges } = await link.read([only(key)]);
  const [found] = ranges[0].kvs ?? [];
  if (found && valueOf(found.value) === setterOf(lease, ref)) return ENDED;
  // The mark was not set, so nothing uses its lease, which would otherwise last for `markFor`.
  await link.call('lease/revoke', { ID: doneLease(lease, ref) }).catch(() => {});
  return NOT_MARKED;
}

module.exports = { answerToMark, grantMarkLease, isMarking, setterOf };
