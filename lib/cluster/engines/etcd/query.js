'use strict';

/** Queries of a bucket. They read etcd, because no session follows all names. */

const { whoOf } = require('../../adapter.js');
const { compareWaiters, isShared, leaseOf, nameOf, parseKeys } = require('./picture.js');
const { base64, textOf, valueOf } = require('./keys.js');
const { groupBy, partsOf } = require('./lists.js');
const { allWith, only } = require('./operations.js');

const { now: dateNow } = Date;

/** @import { Entry, SessionInfo } from '../../adapter.js' */
/** @import { KeyValue, QueuedRequest } from './picture.js' */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */

const PAGE = 5_000;
/** From this number of sessions on, all are read instead of single ones. */
const MANY = 500;
const MOST_READS = 100;
/** For a session whose key was not found. @type {SessionInfo} */
const NOBODY = {
  ...{ clientId: '', host: '', pid: 0, threadId: 0, threadName: '', program: '', version: '' },
};

class Query {
  #keys;
  #link;
  #tokenOf;
  /** @type {Map<string, SessionInfo>} */
  #sessions = new Map();
  /** The revision of the first read, which all further reads use. */
  #revision = 0;
  #fix = () => {};
  /** Resolves when the revision is known. @type {Promise<void>} */
  isFixed = new Promise((resolve) => {
    this.#fix = resolve;
  });

  /**
   * @param {BucketKeys} keys @param {Link} link
   * @param {(revision: number) => bigint} tokenOf the token of a grant
   */
  constructor(keys, link, tokenOf) {
    this.#keys = keys;
    this.#link = link;
    this.#tokenOf = tokenOf;
  }

  /**
   * § 4.5 "snapshot the lock state":
   * https://www.w3.org/TR/2023/WD-web-locks-20230105/#snapshot-the-lock-state.
   * @param {string} [name] @param {'held'} [which] @returns {Promise<Entry[]>}
   */
  async run(name, which) {
    const keys = this.#keys;
    const one = (/** @type {string} */ of) => (which ? keys.holders(of) : keys.name(of));
    const found = await this.#readAll(name === undefined ? keys.names : one(name));
    const byName = groupBy(found, ({ key }) => keys.parse(textOf(key)).name);
    const queues = [...byName].map(([part, some]) => {
      const { holders, waiters } = parseKeys(some, keys);
      return { part, entries: which ? holders : [...holders, ...waiters.sort(compareWaiters)] };
    });
    await this.#readSessions(queues.flatMap(({ entries }) => entries.map(leaseOf)));
    return queues.flatMap(({ part, entries }) =>
      entries.map((entry) => this.#toAdapterEntry(part, entry)),
    );
  }

  /**
   * Reads all keys with a prefix, in pages. The first read of the query sets the revision of all
   * others.
   * @param {string} prefix @returns {Promise<KeyValue[]>}
   */
  async #readAll(prefix) {
    /** @type {KeyValue[]} */
    const found = [];
    const all = allWith(prefix);
    for (let { key } = all; ; ) {
      const range = { ...all, key, limit: String(PAGE), revision: String(this.#revision) };
      const { header, found: pages } = await this.#link.read([range]);
      const [page] = pages;
      if (this.#revision === 0) this.#revision = Number(header.revision);
      this.#fix();
      const { kvs = [] } = page;
      for (const kv of kvs) found.push(kv);
      if (!page.more) return found;
      key = base64(`${textOf(kvs.at(-1).key)}\0`);
    }
  }

  /** @param {string[]} leases */
  async #readSessions(leases) {
    const all = [...new Set(leases)];
    const revision = String(this.#revision);
    const parts = all.length > MANY ? [] : partsOf(all, MOST_READS);
    const found = all.length > MANY ? await this.#readAll(this.#keys.session('')) : [];
    for (const some of parts) {
      const ranges = some.map((lease) => ({ ...only(this.#keys.session(lease)), revision }));
      const answer = await this.#link.read(ranges);
      found.push(...answer.found.flatMap(({ kvs = [] }) => kvs));
    }
    const prefix = this.#keys.session('');
    for (const { key, value } of found)
      this.#sessions.set(textOf(key).slice(prefix.length), valueOf(value));
  }

  /** @param {string} part the name as in keys @param {QueuedRequest} entry @returns {Entry} */
  #toAdapterEntry(part, entry) {
    const { created, isHeld, value } = entry;
    const { asked, data, granted = Number.NaN, label = '', ref } = value;
    const { limit = 0, priority = 0, weight = 0 } = value;
    const date = dateNow();
    return {
      ...whoOf({ ...NOBODY, ...this.#sessions.get(leaseOf(entry)) }),
      ...{ ref, label, data, limit, weight, priority },
      name: nameOf(part, value),
      token: isHeld ? this.#tokenOf(created) : 0n,
      mode: isShared(entry) ? 'shared' : 'exclusive',
      waited: Math.max((isHeld ? granted : date) - asked, 0),
      held: isHeld ? Math.max(date - granted, 0) : 0,
    };
  }
}

module.exports = { Query };
