'use strict';

/**
 * Whether this etcd has lost something that clients have seen: it was made anew, or restored from a
 * snapshot. It cannot know that itself, but they do. A bucket has a *life*: the id of the cluster,
 * and a number that the first client to open the bucket writes into a key that stays. A client that
 * comes with another life, or with a token greater than any of this one, ends it: in one
 * transaction all sessions of the bucket go, a new life begins with greater tokens, and a key is
 * written that is bound to a lease of the longest `ttl` among those sessions and that client. As
 * long as it is there nobody is granted anything (the quarantine): meanwhile those who held
 * something have lost it by their own clocks.
 *
 * A token is a revision and the life's *offset*. That of a new life leaps: others may have been
 * granted more tokens than those who come have heard of. Lives that are known to be over are kept
 * in the key, so that all who come from the same one begin but one new life.
 */

const { randomUUID } = require('node:crypto');

const { bucketError } = require('./errors.js');
const { allWith, base64, base64Json, range, valueOf } = require('./keys.js');

/** @typedef {import('../../adapter.js').Seen} Seen */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */

/** How many lives that are over are known. */
const KNOWN = 16;

/**
 * So far behind the last revision is nobody who has a lease: etcd writes less in the longest one.
 */
const LEAP = 1_000_000_000n;

/**
 * Of the keys and what they mean. Version 1 had no such field, and its thieves told nobody; in 2
 * the `ref` of a request was in its key.
 */
const LAYOUT = 3;

/**
 * @typedef {object} Life
 * @property {string} name as the session has it
 * @property {bigint} offset
 * @property {string[]} known those that came before
 * @property {string} revision of the key
 */

/** Of a client that was just started. @type {Seen} */
const NOTHING_SEEN = Object.freeze({ life: '', token: 0n });

/** @param {BucketKeys} keys */
const readLife = (keys) => ({ request_range: { key: base64(keys.life) } });

/**
 * @param {BucketKeys} keys
 * @param {bigint} [offset]
 * @param {string[]} [known]
 */
const putLife = (keys, offset = 0n, known = []) => ({
  request_put: {
    key: base64(keys.life),
    // Version 1 fails at a life without an `offset`, and so refuses the bucket.
    value: base64Json({ layout: LAYOUT, id: randomUUID(), added: String(offset), known }),
  },
});

/**
 * @param {any} header of an answer
 * @param {any} response to `readLife`
 * @returns {Life | undefined} undefined: there is none, so somebody has emptied this etcd
 * @throws if the bucket is of another version of this library
 */
function lifeOf({ cluster_id: cluster }, response) {
  const [found] = response.response_range.kvs ?? [];
  if (!found) return undefined;
  const { added, id, known, layout = 1 } = valueOf(found.value);
  if (layout !== LAYOUT) throw bucketError(layout, LAYOUT);
  const name = `${cluster}/${id}`;
  return { name, offset: BigInt(added), known, revision: found.mod_revision };
}

/**
 * @param {Life} life
 * @param {number | string} revision of etcd
 * @param {Seen} seen
 * @returns {boolean} whether that client has seen what this etcd does not know
 */
function isBehind({ known, name, offset }, revision, { life, token }) {
  if (token > BigInt(revision) + offset) return true;
  return life !== '' && life !== name && !known.includes(life);
}

/**
 * @param {BucketKeys} keys
 * @param {Life} life that ends
 * @param {number | string} revision of etcd
 * @param {Seen} seen
 * @param {string} lease of the quarantine
 * @returns {{ compare: object[], success: object[] }} a transaction that nobody has done before
 */
function rebirth(keys, { name, known, offset, revision: mod }, revision, seen, lease) {
  const told = seen.token - BigInt(revision);
  const next = (told > offset ? told : offset) + LEAP;
  const over = [seen.life, name, ...known].filter((one, i, all) => one && all.indexOf(one) === i);
  return {
    compare: [{ key: base64(keys.life), target: 'MOD', result: 'EQUAL', mod_revision: mod }],
    success: [
      // All sessions, with all they have.
      { request_delete_range: range(keys.all.key, keys.quarantine) },
      { request_delete_range: allWith(keys.stepPrefix) },
      putLife(keys, next, over.slice(0, KNOWN)),
      { request_put: { key: base64(keys.quarantine), value: '', lease } },
    ],
  };
}

module.exports = { NOTHING_SEEN, isBehind, lifeOf, putLife, readLife, rebirth };
