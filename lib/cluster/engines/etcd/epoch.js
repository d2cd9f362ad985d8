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

const { versionError } = require('../errors.js');
const { noEpochError } = require('./errors.js');
const { base64Json, valueOf } = require('./keys.js');
const { allWith, exists, isEmpty, isUnchanged, nested } = require('./operations.js');
const { only, put, range, remove } = require('./operations.js');

/** @import { Seen } from '../../adapter.js' */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */

/** How many ended epochs the key lists. */
const KNOWN = 16;

/** How far tokens leap in a new epoch. Etcd creates fewer revisions during the longest lease. */
const LEAP = 1_000_000_000n;

/**
 * The version of keys and values. Version 1 had no field `layout`, and its thieves notified nobody.
 * Version 2 had the `ref` of a request in the request's key. Version 3 had no requests that pass,
 * so its sessions would mistake such a request for a holder. Version 4 did not write grants.
 */
const LAYOUT = 5;

/**
 * @typedef {object} Epoch
 * @property {string} name the `life` of the epoch
 * @property {bigint} offset
 * @property {string[]} known epochs that ended
 * @property {string} revision the revision of the epoch's key
 */

/** @type {Epoch} */
const NO_EPOCH = { name: '', offset: 0n, known: [], revision: '0' };

/**
 * Whether a client has seen something that this etcd does not know.
 * @param {Epoch} life @param {number | string} revision of etcd @param {Seen} seen
 */
function isBehind({ known, name, offset }, revision, { life, token }) {
  if (token > BigInt(revision) + offset) return true;
  return life !== '' && life !== name && !known.includes(life);
}

class Epochs {
  #keys;

  /** @param {BucketKeys} keys */
  constructor(keys) {
    this.#keys = keys;
    this.range = only(keys.life);
  }

  /**
   * The epoch; undefined if somebody emptied this etcd. Throws if the bucket has another version.
   * @param {any} header @param {any} found in `range` @returns {Epoch | undefined}
   */
  parse({ cluster_id: cluster }, { kvs: [found] = [] }) {
    if (!found) return undefined;
    const { added, id, known, layout = 1 } = valueOf(found.value);
    if (layout !== LAYOUT) throw versionError(layout, LAYOUT);
    const name = `${cluster}/${id}`;
    return { name, offset: BigInt(added), known, revision: found.mod_revision };
  }

  /**
   * Makes changes in the current epoch; if there is none, it begins the first epoch. It throws if
   * the bucket has keys but no epoch: an old version of this library, which would not notice
   * thefts, may have written them.
   * @param {object[]} changes @param {Link} link
   * @returns {Promise<{ header: any, responses: any[] }>}
   */
  async change(changes, link) {
    const { life, prefix } = this.#keys;
    const first = nested([isEmpty(allWith(prefix))], [this.#put(), ...changes]);
    const answer = await link.transact([exists(life)], changes, [first]);
    if (answer.succeeded) return answer;
    const { responses, succeeded } = answer.responses[0].response_txn;
    if (!succeeded) throw noEpochError(prefix);
    return { header: answer.header, responses };
  }

  /** The operation that writes an epoch with a new random id. @param {string[]} [known] */
  #put(offset = 0n, known = []) {
    // There is deliberately no field `offset`: version 1 requires one, so it refuses this bucket.
    const value = { layout: LAYOUT, id: randomUUID(), added: String(offset), known };
    return put(this.#keys.life, base64Json(value));
  }

  /**
   * Begins a new epoch, which ends all sessions, unless another client has done so.
   * @param {Seen} seen @param {Epoch} life the epoch that ends
   * @param {{ revision: string }} header of etcd's answer @param {number} ttl @param {Link} link
   */
  async begin(seen, { name, known, offset, revision: mod }, { revision }, ttl, link) {
    const { all, life, quarantine, stepPrefix } = this.#keys;
    const { conditions, longest } = await this.#planQuarantine(ttl, link);
    const { ID } = await link.grantLease(longest);
    const seenOffset = seen.token - BigInt(revision);
    const next = (seenOffset > offset ? seenOffset : offset) + LEAP;
    const over = [seen.life, name, ...known].filter(
      (one, i, them) => one && them.indexOf(one) === i,
    );
    const { succeeded } = await link.transact(
      [isUnchanged(life, mod), ...conditions],
      [
        // Deletes all sessions with their locks and requests.
        remove(range(all.key, quarantine)),
        remove(allWith(stepPrefix)),
        this.#put(next, over.slice(0, KNOWN)),
        put(quarantine, '', String(ID)),
      ],
    );
    // The ended sessions may have renewed until now, so the quarantine's lease starts again now.
    if (succeeded) await link.call('lease/keepalive', { ID });
    // Another client has already begun the new epoch.
    else await link.call('lease/revoke', { ID }).catch(() => {});
  }

  /**
   * Returns how many milliseconds a quarantine must last: the longest of `ttl`, the leases of all
   * sessions, and the rest of the current quarantine. The conditions hold only if no key of a
   * session was created since the read, and the quarantine's key has not changed.
   * @param {number} ttl @param {Link} link
   * @returns {Promise<{ conditions: object[], longest: number }>}
   */
  async #planQuarantine(ttl, link) {
    const { quarantine } = this.#keys;
    const sessions = allWith(this.#keys.session(''));
    const { header, found } = await link.read([sessions, only(quarantine)]);
    let longest = ttl;
    for (const { value } of found[0].kvs ?? [])
      longest = Math.max(longest, valueOf(value).ttl ?? 0);
    const [old] = found[1].kvs ?? [];
    const next = String(Number(header.revision) + 1);
    const areOlder = { ...sessions, target: 'CREATE', result: 'LESS', create_revision: next };
    return {
      conditions: [areOlder, isUnchanged(quarantine, old?.mod_revision ?? '0')],
      longest: Math.max(longest, old ? await link.leaseLeft(old.lease) : 0),
    };
  }
}

module.exports = { Epochs, NO_EPOCH, isBehind };
