'use strict';

/**
 * A picture of a name: its locks and the first waiters, as they were at a revision. A step is
 * planned from pictures (plan.js), and its transaction has conditions that fail if a picture is not
 * true any more. So a picture may be old, or a guess, and may come from another session.
 */

const { isCompacted } = require('./errors.js');
const { decode, encode, levelOf, tailOf, textOf, valueOf } = require('./keys.js');
const { allWith } = require('./operations.js');

/** @import { RequestOp } from '../../adapter.js' */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */

/**
 * A key as the gateway sends it: bytes are in base64, and numbers are strings.
 * @typedef {{ key: string, value: string, mod_revision: string, create_revision: string,
 *   version: string, lease: string }} KeyValue
 */

/**
 * The value of a request's key. `asked` and `granted`: by the wall clocks of the sessions that made
 * the request and granted it. `name` is there only if the name is too long for keys. `thief` is
 * there only in thefts: the client id of the thief, for the sessions that it steals from.
 * @typedef {{ ref: number, kind?: 'pass', mode?: 'shared', limit?: number, weight?: number,
 *   label?: string, asked: number, priority?: number, granted?: number, thief?: string,
 *   name?: string, data?: string }} RequestValue
 */

/**
 * @typedef {object} QueuedRequest an entry of the queue: a lock or a waiter
 * @property {string} tail the end of its keys
 * @property {string} level of the queue; for locks, that of their request, or '' if unknown
 * @property {number} created the revision that created its key; 0 if it is not in etcd yet
 * @property {boolean} isHeld
 * @property {RequestValue} value
 */

/**
 * @typedef {object} Picture
 * @property {QueuedRequest[]} holders
 * @property {QueuedRequest[]} waiters the first ones, in the order of the queue
 * @property {boolean} isComplete whether these are all waiters
 * @property {number} count how many requests wait
 * @property {number | undefined} limit of the name's shared requests
 * @property {number} shares how many shared requests there are
 * @property {number} holdersAt the revision at which `holders` were all
 * @property {number} queueAt the revision at which `waiters` were the first ones
 */

/** How many keys of a name the first read gets. */
const FEW = 40;
/** How many waiters of a long queue are read. */
const FIRST = 16;

const { now: dateNow } = Date;

/** @type {Readonly<Picture>} */
const NOTHING = Object.freeze({
  ...{ holders: [], waiters: [], isComplete: true, count: 0, limit: undefined, shares: 0 },
  ...{ holdersAt: 0, queueAt: 0 },
});

/** @param {RequestOp} op @param {string} clientId @returns {RequestValue} */
function requestValue({ kind, limit, mode, name, label, priority, ref, weight }, clientId) {
  return {
    ...{ ref, asked: dateNow() },
    ...(limit !== 0 && { limit, weight }),
    ...(label !== '' && { label }),
    ...(priority !== 0 && { priority }),
    ...(kind === 'pass' && { kind }),
    ...(mode === 'shared' && { mode }),
    ...(kind === 'steal' && { thief: clientId }),
    ...(encode(name)[0] === '#' && { name }),
  };
}

/**
 * The entry of a request that is not in etcd yet.
 * @param {RequestOp} op @param {string} lease of the session @param {number} slot
 * @param {string} clientId @returns {QueuedRequest}
 */
const newEntry = (op, lease, slot, clientId) => ({
  ...{ tail: tailOf(lease, slot), level: levelOf(op), created: 0, isHeld: false },
  value: requestValue(op, clientId),
});

const isShared = (/** @type {QueuedRequest} */ { value }) => value.mode === 'shared';

/** The session of a request, as in keys. @param {{ tail: string }} entry */
const leaseOf = ({ tail }) => tail.slice(0, tail.indexOf('-'));

/**
 * The order of a queue; of thieves, the latest is the first.
 * @param {QueuedRequest} a @param {QueuedRequest} b
 */
function compareWaiters(a, b) {
  if (a.level !== b.level) return a.level < b.level ? -1 : 1;
  const order = a.created - b.created || (a.tail < b.tail ? -1 : 1);
  return a.value.thief === undefined ? order : -order;
}

/**
 * The requests and the limits in keys of one name.
 * @param {KeyValue[]} kvs @param {BucketKeys} keys
 */
function parseKeys(kvs, keys) {
  /** @type {{ holders: QueuedRequest[], waiters: QueuedRequest[], limits: number[] }} */
  const found = { holders: [], waiters: [], limits: [] };
  for (const { key, create_revision: created, value } of kvs) {
    const { kind, of, tail } = keys.parse(textOf(key));
    const isHeld = kind === 'h';
    if (kind === 'u') found.limits.push(Number(of));
    else
      found[isHeld ? 'holders' : 'waiters'].push({
        ...{ tail, level: isHeld ? '' : of, created: Number(created), isHeld },
        value: valueOf(value),
      });
  }
  found.holders.sort((a, b) => a.created - b.created);
  found.waiters.sort(compareWaiters);
  return found;
}

/** The first keys of a name: all, if it has few. @param {BucketKeys} keys @param {string} name */
const firstRange = (keys, name) => ({ ...allWith(keys.name(name)), limit: String(FEW) });

/**
 * The picture in `firstRange`; undefined if the name has more keys than it read.
 * @param {BucketKeys} keys @param {any} range what it found @param {string} revision
 * @returns {Picture | undefined}
 */
function pictureOf(keys, { kvs = [], more }, revision) {
  if (more) return undefined;
  // A plan of it has one condition, and etcd limits these.
  if (kvs.length === 0) return NOTHING;
  const { holders, limits, waiters } = parseKeys(kvs, keys);
  const at = Number(revision);
  return {
    ...{ holders, waiters, isComplete: true, count: waiters.length },
    ...{ limit: limits[0], shares: limits.length, holdersAt: at, queueAt: at },
  };
}

/**
 * Reads a picture.
 * @param {BucketKeys} keys @param {string} name @param {Link} link
 * @param {number} [most] how many waiters of a long queue are read @returns {Promise<Picture>}
 */
async function readPicture(keys, name, link, most) {
  const { header, found } = await link.read([firstRange(keys, name)]);
  return (
    pictureOf(keys, found[0], header.revision) ??
    (await readLongPicture(keys, name, header.revision, link, most)) ??
    readPicture(keys, name, link, most)
  );
}

/**
 * The picture of a name with many keys; undefined if etcd has compacted the revision.
 * @param {BucketKeys} keys @param {string} name @param {string} revision @param {Link} link
 * @param {number} [most] how many waiters are read @returns {Promise<Picture | undefined>}
 */
async function readLongPicture(keys, name, revision, link, most = FIRST) {
  const queue = allWith(keys.queue(name));
  try {
    const { found } = await link.read(
      [
        allWith(keys.holders(name)),
        { ...queue, limit: '1', keys_only: true },
        { ...allWith(keys.limits(name)), limit: '1', keys_only: true },
      ].map((one) => ({ ...one, revision })),
    );
    const [holders, first, limits] = found;
    const level = first.kvs && keys.parse(textOf(first.kvs[0].key)).of;
    const waiters = level
      ? await readLevel(keys, keys.queue(name, level), revision, link, most)
      : [];
    const parsed = parseKeys([...(holders.kvs ?? []), ...(limits.kvs ?? [])], keys);
    const at = Number(revision);
    const count = Number(first.count ?? 0);
    return {
      ...{ holders: parsed.holders, waiters, isComplete: waiters.length === count, count },
      ...{ limit: parsed.limits[0], shares: Number(limits.count ?? 0) },
      ...{ holdersAt: at, queueAt: at },
    };
  } catch (error) {
    if (!isCompacted(error)) throw error;
    return undefined;
  }
}

/**
 * The first requests of a level in the order of the queue.
 * @param {BucketKeys} keys @param {string} prefix of the level @param {string} revision
 * @param {Link} link @param {number} most @returns {Promise<QueuedRequest[]>}
 */
async function readLevel(keys, prefix, revision, link, most) {
  const order = prefix.endsWith('!/') ? 'DESCEND' : 'ASCEND';
  const sorted = { ...allWith(prefix), sort_target: 'CREATE', sort_order: order, revision };
  const { found } = await link.read([{ ...sorted, limit: String(most) }]);
  const { waiters } = parseKeys(found[0].kvs, keys);
  if (!found[0].more) return waiters;
  // Requests of one step have the same revision. Where the read has ended, some may be missing.
  const last = waiters[waiters.length - 1].created;
  const sure = waiters.filter(({ created }) => created !== last);
  if (sure.length > 0) return sure;
  const all = await link.read([{ ...sorted, max_create_revision: String(last) }]);
  return parseKeys(all.found[0].kvs, keys).waiters;
}

/** @param {string} part of a key, the name @param {RequestValue} value */
const nameOf = (part, { name }) => name ?? decode(part);

module.exports = {
  NOTHING,
  compareWaiters,
  firstRange,
  isShared,
  leaseOf,
  nameOf,
  newEntry,
  parseKeys,
  pictureOf,
  readLongPicture,
  readPicture,
};
