'use strict';

/**
 * Finds out whether etcd lost what clients have seen, because it was set up anew or restored from a
 * snapshot (R5). Etcd cannot know that, so clients compare the bucket's *epoch*: the id of the
 * cluster, and a random id in the epoch's key. If a client has seen another epoch, or a greater
 * token than this epoch can have granted, the client begins a new epoch. One transaction deletes
 * all sessions, raises the tokens, and writes the quarantine's key. While this key exists, nothing
 * is granted: its lease lasts at least as long as the former holders' locks by their own clocks. A
 * token is a revision plus the epoch's *offset*. A new offset is much greater than the last one,
 * since other clients may have been granted greater tokens than this client has seen. The epoch's
 * key lists the epochs that ended, so that all clients of a lost epoch cause only one new epoch.
 */

const { randomUUID } = require('node:crypto');

const { bucketError } = require('./errors.js');
const { allWith, base64, base64Json, range, valueOf } = require('./keys.js');

/** @import { Seen } from '../../adapter.js' */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */

/** How many ended epochs the key lists. */
const KNOWN = 16;

/** How far tokens leap in a new epoch. Etcd creates fewer revisions during the longest lease. */
const LEAP = 1_000_000_000n;

/**
 * The version of keys and values. Version 1 had no field `layout`, and its thieves notified nobody.
 * Version 2 had the `ref` of a request in the request's key. Version 3 had no requests that pass,
 * so its sessions would mistake such a request for a holder.
 */
const LAYOUT = 4;

/**
 * @typedef {object} Epoch
 * @property {string} name the `life` of the epoch
 * @property {bigint} offset
 * @property {string[]} known epochs that ended
 * @property {string} revision the revision of the epoch's key
 */

/** A new client has seen nothing. @type {Seen} */
const NOTHING_SEEN = Object.freeze({ life: '', token: 0n });

/** @param {BucketKeys} keys */
const epochRead = (keys) => ({ request_range: { key: base64(keys.life) } });

/**
 * The operation that writes the key of an epoch with a new random id.
 * @param {BucketKeys} keys @param {bigint} [offset] @param {string[]} [known]
 */
const epochPut = (keys, offset = 0n, known = []) => ({
  request_put: {
    key: base64(keys.life),
    // There is deliberately no field `offset`: version 1 requires one, so it refuses this bucket.
    value: base64Json({ layout: LAYOUT, id: randomUUID(), added: String(offset), known }),
  },
});

/**
 * The epoch; undefined if somebody emptied this etcd. Throws if the bucket has another version.
 * @param {any} header @param {any} response to `epochRead` @returns {Epoch | undefined}
 */
function parseEpoch({ cluster_id: cluster }, response) {
  const [found] = response.response_range.kvs ?? [];
  if (!found) return undefined;
  const { added, id, known, layout = 1 } = valueOf(found.value);
  if (layout !== LAYOUT) throw bucketError(layout, LAYOUT);
  const name = `${cluster}/${id}`;
  return { name, offset: BigInt(added), known, revision: found.mod_revision };
}

/**
 * Whether a client has seen something that this etcd does not know.
 * @param {Epoch} life @param {number | string} revision of etcd @param {Seen} seen
 */
function isBehind({ known, name, offset }, revision, { life, token }) {
  if (token > BigInt(revision) + offset) return true;
  return life !== '' && life !== name && !known.includes(life);
}

/**
 * The transaction that begins an epoch, unless another client has done so.
 * @param {BucketKeys} keys @param {Epoch} life the epoch that ends
 * @param {number | string} revision of etcd @param {Seen} seen @param {string} lease
 * @returns {{ compare: object[], success: object[] }}
 */
function beginEpochTransaction(
  keys,
  { name, known, offset, revision: mod },
  revision,
  seen,
  lease,
) {
  const told = seen.token - BigInt(revision);
  const next = (told > offset ? told : offset) + LEAP;
  const over = [seen.life, name, ...known].filter((one, i, all) => one && all.indexOf(one) === i);
  return {
    compare: [{ key: base64(keys.life), target: 'MOD', result: 'EQUAL', mod_revision: mod }],
    success: [
      // Deletes all sessions with their locks and requests.
      { request_delete_range: range(keys.all.key, keys.quarantine) },
      { request_delete_range: allWith(keys.stepPrefix) },
      epochPut(keys, next, over.slice(0, KNOWN)),
      { request_put: { key: base64(keys.quarantine), value: '', lease } },
    ],
  };
}

module.exports = { NOTHING_SEEN, isBehind, parseEpoch, epochPut, epochRead, beginEpochTransaction };
