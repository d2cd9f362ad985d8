'use strict';

/**
 * Queries of a bucket. They read etcd, because no session follows all names. The keys show the
 * holders, but not when a lock was granted, and the token of a lock is the revision of its grant. A
 * request that never waited was granted when it was created. At each renewal, each session writes
 * the tokens of its requests that waited into its sync key. If a lock was granted after the last
 * renewal, a search through etcd's past revisions finds its token.
 */

const { now } = require('../../../platform/intrinsics.js');
const { isCompacted } = require('./errors.js');
const { base64, textOf, valueOf } = require('./keys.js');
const { groupBy } = require('./lists.js');
const { allWith, only, range } = require('./operations.js');
const { queueAsOf } = require('./queue.js');

const { now: dateNow } = Date;

/** @import { Entry as AdapterEntry, SessionInfo } from '../../adapter.js' */
/** @import { Entry, KeyValue } from './queue.js' */
/** @typedef {InstanceType<typeof import('./keys.js').Keys>} BucketKeys */
/** @typedef {InstanceType<typeof import('./queue-cache.js').QueueCache>} Cache */
/** @typedef {InstanceType<typeof import('./gateway.js').EtcdLink>} Link */

/**
 * The value of a session's sync key. `known`: the revision of the last step that it covers.
 * `late`: the token of each request that waited ('0' while it waits) and the time of its grant by
 * the session's wall clock, by `ref`.
 * @typedef {{ known: number, late: Record<number, [token: string, granted: number | null]> }}
 *   SyncValue
 */

const PAGE = 5_000;
const MOST_QUEUES = 100;
/** Each holder takes two of the 128 operations that a transaction may have by default. */
const MOST_HOLDERS = 50;
/** In longer queues, a query of the holders does not search etcd's past for unknown grants. */
const SHORT_QUEUE = 100;

/** @param {Cache} queueCache @param {string} logged the revision of the session's last step */
function syncValue(queueCache, logged) {
  /** @type {SyncValue} */
  const value = { known: Number(logged), late: {} };
  const [time, date] = [now(), dateNow()];
  for (const [ref, { created, granted, token }] of queueCache.mine) {
    if (token === queueCache.tokenOf(created)) continue;
    value.late[ref] = [String(token), token ? date - (time - granted) : null];
  }
  return value;
}

/** @param {string} lease @param {number} ref */
const dataKey = (lease, ref) => `${lease} ${ref}`;

/** The revision that created a key. @param {{ kvs?: KeyValue[] }} found */
const createdOf = ({ kvs = [] }) => Number(kvs[0]?.create_revision);

class Query {
  #keys;
  #queueCache;
  #link;
  /** @type {Map<string, SessionInfo>} */
  #sessions = new Map();
  /** @type {Map<string, SyncValue>} */
  #syncValues = new Map();
  /** The data of locks, by `dataKey`. @type {Map<string, string>} */
  #data = new Map();
  /** The revision of the first read, which all further reads use. */
  #revision = 0;

  /** @param {BucketKeys} keys @param {Cache} queueCache @param {Link} link */
  constructor(keys, queueCache, link) {
    this.#keys = keys;
    this.#queueCache = queueCache;
    this.#link = link;
  }

  /**
   * § 4.5 "snapshot the lock state":
   * https://www.w3.org/TR/2023/WD-web-locks-20230105/#snapshot-the-lock-state.
   * @param {string} [name] @param {'held'} [which] @returns {Promise<AdapterEntry[]>}
   */
  async run(name, which) {
    const held = which === 'held' && name !== undefined ? await this.#holdersOf(name) : undefined;
    return held ?? (await this.#readQueues(name, which));
  }

  /**
   * Takes the holders from the queue that this session follows, and reads only their keys and
   * sessions. This is correct because a holder holds the name until its key is deleted. The result
   * is undefined if this session does not follow the queue, or if the queue has no holder, or more
   * than `MOST_HOLDERS`.
   * @param {string} name @returns {Promise<AdapterEntry[] | undefined>}
   */
  async #holdersOf(name) {
    for (;;) {
      const queue = this.#queueCache.queue(name);
      const holders = queue?.holders.map((entry) => ({ ...entry })) ?? [];
      if (!queue || holders.length === 0 || holders.length > MOST_HOLDERS) return undefined;
      const { header, found } = await this.#readHolders(holders);
      const i = holders.findIndex(({ created }, at) => createdOf(found[2 * at]) !== created);
      if (i < 0) {
        this.#revision = Number(header.revision);
        await this.#completeHolders(holders, found, queue.entries.size);
        return holders.map((entry) => this.#toAdapterEntry(entry));
      }
      await this.#queueCache.waitForEnd(holders[i]);
    }
  }

  /**
   * Reads the key of each holder and the keys of its session, in turn.
   * @param {Entry[]} holders @param {number} [at] the revision; by default the present one
   * @returns {ReturnType<Link['read']>}
   */
  #readHolders(holders, at = 0) {
    const ranges = holders.flatMap(({ key, lease }) => {
      const session = this.#keys.ownRange(lease);
      return [only(key), range(session.key, session.end)];
    });
    return this.#link.read(ranges.map((one) => ({ ...one, revision: String(at) })));
  }

  /**
   * @param {Entry[]} holders @param {any[]} found by `#readHolders` @param {number} length of the
   *   queue
   */
  async #completeHolders(holders, found, length) {
    for (const { kvs = [] } of found.filter((_, at) => at % 2 === 1))
      for (const kv of kvs) this.#addSessionKey(kv);
    const unknown = holders.filter((entry) => !this.#fillInGrant(entry));
    if (length <= SHORT_QUEUE) await this.#searchGrants(unknown);
  }

  /** @param {string | undefined} name @param {'held'} [which] @returns {Promise<AdapterEntry[]>} */
  async #readQueues(name, which) {
    const { key, end } = this.#keys.all;
    const sessions = this.#keys.session('');
    const requests = await (name === undefined
      ? this.#readAll(range(key, sessions))
      : this.#readAll(allWith(this.#keys.queue(name))));
    const all = this.#queuesOf(requests).flat();
    const entries = which === 'held' ? all.filter(({ token }) => token > 0n) : all;
    if (entries.length === 0) return [];
    if (which === 'held' && name !== undefined && entries.length <= MOST_HOLDERS) {
      const { found } = await this.#readHolders(entries, this.#revision);
      await this.#completeHolders(entries, found, all.length);
    } else {
      for (const kv of await this.#readAll(range(sessions, end))) this.#addSessionKey(kv);
      await this.#searchGrants(entries);
    }
    return entries.map((entry) => this.#toAdapterEntry(entry));
  }

  /**
   * Reads a range in pages. The first read of the query sets the revision of all others.
   * @param {import('./operations.js').Range} all @returns {Promise<KeyValue[]>}
   */
  async #readAll(all) {
    /** @type {KeyValue[]} */
    const found = [];
    for (let { key } = all; ; ) {
      const range = { ...all, key, limit: String(PAGE), revision: String(this.#revision) };
      const { header, found: pages } = await this.#link.read([range]);
      const [page] = pages;
      if (this.#revision === 0) this.#revision = Number(header.revision);
      const { kvs = [] } = page;
      for (const kv of kvs) found.push(kv);
      if (!page.more) return found;
      key = base64(`${textOf(kvs.at(-1).key)}\0`);
    }
  }

  /** Stores the info of a session, or the value of its sync key. @param {KeyValue} kv */
  #addSessionKey({ key, value }) {
    const { lease, ref = 0, what } = this.#keys.parse(textOf(key));
    if (what === undefined) this.#sessions.set(lease, valueOf(String(value)));
    if (what === 'mark') this.#syncValues.set(lease, valueOf(String(value)));
    if (what === 'data')
      this.#data.set(dataKey(lease, ref), Buffer.from(String(value), 'base64').toString());
  }

  /** The requests of each name in the order of its queue. @param {KeyValue[]} kvs */
  #queuesOf(kvs) {
    const byName = groupBy(kvs, ({ key }) => this.#keys.parse(textOf(key)).queue);
    return [...byName.values()].map((some) => [...this.#queueOf(some).entries.values()]);
  }

  /** @param {KeyValue[]} kvs of one name */
  #queueOf(kvs) {
    const token = this.#queueCache.tokenOf(this.#revision);
    return queueAsOf(kvs, this.#keys, token, this.#queueCache.isQuarantined);
  }

  /** Fills in the grants of held entries, partly from past revisions. @param {Entry[]} entries */
  async #searchGrants(entries) {
    const searches = entries
      .filter(({ token }) => token > 0n)
      .filter((entry) => !this.#fillInGrant(entry))
      .map((entry) => ({ entry, at: entry.created, from: entry.created, to: this.#revision }));
    for (let open = searches; open.length > 0; open = open.filter(({ from, to }) => from < to)) {
      // All requests of a queue share one read of it.
      const some = [...new Map(open.map((one) => [`${one.at} ${one.entry.name}`, one])).values()]
        .slice(0, MOST_QUEUES)
        .map(({ at, entry: { name } }) => ({ at, name }));
      const queues = await this.#queuesAt(some);
      some.forEach(({ at, name }, k) => {
        for (const search of open) {
          if (search.entry.name !== name || at < search.from || at >= search.to) continue;
          if (queues[k]?.entries.get(search.entry.key)?.token) search.to = at;
          else search.from = at + 1;
        }
      });
      for (const search of open) search.at = Math.floor((search.from + search.to) / 2);
    }
    for (const { entry, to } of searches) this.#setGrant(entry, to, Number.NaN);
  }

  /**
   * Reads queues, each at a revision; undefined stands for a revision that etcd has compacted.
   * @param {{ name: string, at: number }[]} some
   * @returns {Promise<(InstanceType<typeof import('./queue.js').Queue> | undefined)[]>}
   */
  async #queuesAt(some) {
    const ranges = some.map(({ at, name }) => ({
      ...allWith(this.#keys.queue(name)),
      revision: String(at),
    }));
    try {
      const { found } = await this.#link.read(ranges);
      return found.map(({ kvs = [] }) => this.#queueOf(kvs));
    } catch (error) {
      if (!isCompacted(error)) throw error;
      if (some.length === 1) return [undefined];
      const half = Math.ceil(some.length / 2);
      const first = await this.#queuesAt(some.slice(0, half));
      return [...first, ...(await this.#queuesAt(some.slice(half)))];
    }
  }

  /** Returns false if neither this session nor a sync key knows the grant. @param {Entry} entry */
  #fillInGrant(entry) {
    const { created, key, lease, name, ref } = entry;
    const own = this.#queueCache.mine.get(ref);
    const seen = own?.key === key ? own : this.#queueCache.queue(name)?.entries.get(key);
    if (seen?.created === created && seen.granted > 0) {
      entry.token = seen.token;
      entry.granted = dateNow() - (now() - seen.granted);
      return true;
    }
    const { known = 0, late = {} } = this.#syncValues.get(lease) ?? {};
    const [token = '0', granted] = late[ref] ?? [];
    if (token !== '0') {
      entry.token = BigInt(token);
      entry.granted = granted ?? Number.NaN;
    } else if (created <= known && !late[ref]) this.#setGrant(entry, created, entry.asked);
    else return false;
    return true;
  }

  /** @param {Entry} entry @param {number} revision of the grant @param {number} time wall clock */
  #setGrant(entry, revision, time) {
    entry.token = this.#queueCache.tokenOf(revision);
    entry.granted = revision === entry.created ? entry.asked : time;
  }

  /** @param {Entry} entry @returns {AdapterEntry} */
  #toAdapterEntry({ asked, granted, kind, label, lease, limit, name, ref, token, weight }) {
    const { clientId = '', host = '', pid = 0 } = this.#sessions.get(lease) ?? {};
    const { threadId = 0, threadName = '', program = '' } = this.#sessions.get(lease) ?? {};
    const isHeld = token > 0n;
    const date = dateNow();
    return {
      ...{ ref, name, token, clientId, host, pid, threadId, threadName, program, label },
      ...{ limit, weight, data: isHeld ? this.#data.get(dataKey(lease, ref)) : undefined },
      mode: kind === 'c' ? 'shared' : 'exclusive',
      waited: isHeld ? 0 : Math.max(date - asked, 0),
      held: isHeld ? Math.max(date - granted, 0) : 0,
    };
  }
}

module.exports = { Query, syncValue };
