'use strict';

/**
 * The operations and conditions of etcd's transactions, and the ranges of keys that they concern.
 * Keys are plain text here, and in base64 in what etcd gets.
 */

const { after, base64 } = require('./keys.js');
const { partsOf } = require('./lists.js');

/** @typedef {{ key: string, range_end?: string }} Range */
/** @typedef {{ type?: 'PUT' | 'DELETE', kv: import('./picture.js').KeyValue }} WatchEvent */

/** @param {string} key @returns {Range} */
const only = (key) => ({ key: base64(key) });

/** @param {string} from @param {string} to the first key after the range @returns {Range} */
const range = (from, to) => ({ key: base64(from), range_end: base64(to) });

/** @param {string} prefix */
const allWith = (prefix) => range(prefix, after(prefix));

/** @param {object} found a range, with options */
const read = (found) => ({ request_range: found });

/** @param {string} key @param {string} value in base64 @param {string} [lease] in decimal form */
const put = (key, value, lease) => ({ request_put: { ...only(key), value, lease } });

/** @param {Range} found */
const remove = (found) => ({ request_delete_range: found });

/**
 * A transaction in a transaction. Etcd limits the operations of each of them.
 * @param {object[]} compare @param {object[]} success @param {object[]} [failure]
 */
const nested = (compare, success, failure) => ({ request_txn: { compare, success, failure } });

/** How many operations `nest` puts into a transaction. */
const MOST = 20;

/**
 * Puts operations into nested transactions if they are too many for one.
 * @param {object[]} all @returns {object[]}
 */
const nest = (all) =>
  all.length <= MOST ? all : nest(partsOf(all, MOST).map((some) => nested([], some)));

/**
 * The responses to operations that `nest` may have nested.
 * @param {any[]} responses @param {number} count of the operations @returns {any[]}
 */
const unnest = (responses, count) =>
  count <= MOST
    ? responses
    : unnest(responses, Math.ceil(count / MOST)).flatMap(({ response_txn: one }) => one.responses);

/**
 * What etcd counts against its limit (`--max-txn-ops`): the longest list of a transaction, and that
 * of the transactions in it.
 * @param {any} operation @returns {number}
 */
function depthOf({ request_txn: transaction }) {
  if (!transaction) return 0;
  const { compare, failure = [], success } = transaction;
  const deepest = [...success, ...failure].reduce((most, one) => Math.max(most, depthOf(one)), 0);
  return Math.max(compare.length, success.length, failure.length) + deepest;
}

// In a condition, `target` is VERSION by default, and `result` is EQUAL.

/** The condition that a key exists. @param {string} key */
const exists = (key) => ({
  ...only(key),
  ...{ target: 'CREATE', result: 'GREATER', create_revision: '0' },
});

/** The condition that a key does not exist. @param {string} key */
const isAbsent = (key) => isEmpty(only(key));

/** The condition that no key of a range exists. @param {Range} found */
const isEmpty = (found) => ({
  ...found,
  ...{ target: 'CREATE', create_revision: '0' },
});

/** The condition that a request's key is still the one that was read. */
const isSame = (/** @type {{ key: string, created: number }} */ { key, created }) => ({
  ...only(key),
  ...{ target: 'CREATE', create_revision: String(created) },
});

/**
 * The condition that no key of a range was created after a revision; deletions do not count.
 * @param {Range} found @param {number} revision
 */
const isOlder = (found, revision) => ({
  ...found,
  ...{ target: 'CREATE', result: 'LESS', create_revision: String(revision + 1) },
});

/**
 * The condition that a key was last written at a revision; '0' if it must not exist.
 * @param {string} key @param {string} revision
 */
const isUnchanged = (key, revision) => ({
  ...only(key),
  ...{ target: 'MOD', mod_revision: revision },
});

/** The condition that a key has a version. @param {string} key @param {number} version */
const isVersion = (key, version) => ({ ...only(key), version: String(version) });

module.exports = {
  allWith,
  depthOf,
  exists,
  isAbsent,
  isEmpty,
  isOlder,
  isSame,
  isUnchanged,
  isVersion,
  nest,
  nested,
  only,
  put,
  range,
  read,
  remove,
  unnest,
};
