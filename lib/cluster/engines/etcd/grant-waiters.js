'use strict';

/**
 * Grants what can be granted to the waiters of a name. A step that ends a lock does that in its own
 * transaction. This module is for locks that ended with their sessions, for the end of a
 * quarantine, and for more waiters than a step has read. Any client can do it, and several at the
 * same time.
 */

const { isAbsent, nest, only, read } = require('./operations.js');
const { readPicture } = require('./picture.js');
const { NamePlan } = require('./plan.js');
const { NameTransaction } = require('./transaction.js');

/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */

/** How many waiters of a long queue are read. Each that is granted has a condition of its own. */
const MANY = 90;

/** @param {BucketKeys} keys @param {string} name @param {Link} link */
async function grantWaiters(keys, name, link) {
  for (;;) {
    const plan = new NamePlan(await readPicture(keys, name, link, MANY), false);
    if (!plan.process()) return;
    const { changes, conditions } = new NameTransaction(keys, name, plan);
    const { responses, succeeded } = await link.transact(
      [isAbsent(keys.quarantine), ...conditions],
      nest(changes),
      [read({ ...only(keys.quarantine), count_only: true })],
    );
    const isOver = succeeded ? !plan.isCut : Number(responses[0].response_range.count ?? 0) > 0;
    if (isOver) return;
  }
}

module.exports = { grantWaiters };
