'use strict';

/**
 * Finds holders that wait for each other. A thread may hold one lock and wait for another in
 * independent parts of a program, so a circle is only a hint of a deadlock, not a proof. A request
 * that is older than every lock of its thread was not made under one of them, so it is left out. A
 * request for a lock that its own thread holds is left out, too, because independent parts of a
 * busy program wait for each other all the time.
 */

const { describeAgent } = require('../extensions/errors/descriptions.js');
const { describeBucket, quoted } = require('./format.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/**
 * A lock or a request. Only a state of several buckets sets `bucket`, to null for the default one.
 * @typedef {import('../backend/contract.js').LockDetails & { bucket?: string | null }} Entry
 */
/** @typedef {{ holder: Entry, waitsFor: Entry }} Link one holder of a circle, and the next one */
/** @typedef {DetailedSnapshot & { circles?: Link[][] }} State `narrow` sets `circles` */
/** @typedef {{ lock: Entry, by: string }} Step the client `by` waits for the lock */

/** The search stops after this many circles. */
const MOST = 3;
/** At most this many holders of a circle are described. */
const FEW = 10;

/** @param {Entry} entry */
const clientOf = ({ bucket, clientId, host, pid, threadId }) =>
  // A thread has a different client id in each bucket.
  bucket === undefined ? clientId : `${pid} ${threadId} ${host}`;

/** @param {Entry} entry */
const keyOf = ({ bucket, name }) => (bucket === undefined ? name : JSON.stringify([bucket, name]));

/** @param {State} state */
const circlesOf = (state) => state.circles ?? findCircles(state);

/**
 * Keeps only the entries of the name. The circles are found before, because a circle through the
 * name also contains locks with other names.
 * @param {DetailedSnapshot} state @param {string} name @returns {State}
 */
function narrow(state, name) {
  const isWanted = (/** @type {Entry} */ entry) => entry.name === name;
  const circles = findCircles(state, name);
  const { held, pending } = state;
  return { ...state, held: held.filter(isWanted), pending: pending.filter(isWanted), circles };
}

/** @param {DetailedSnapshot} state @param {string} [name] must occur in each circle */
function findCircles({ held, pending }, name) {
  const graph = new Graph(held, name);
  for (const request of pending) graph.addIfNested(request);
  return graph.circles();
}

class Graph {
  /** @type {string | undefined} */
  #through;
  /** Locks by key. @type {Map<string, Entry[]>} */
  #byKey = new Map();
  /** For how long each client has held the oldest of its locks. @type {Map<string, number>} */
  #oldest = new Map();
  /** The keys of the locks that each client waits for. @type {Map<string, Set<string>>} */
  #wants = new Map();
  /** Locks by client. @type {Map<string, Entry[]>} */
  #byClient = new Map();

  /** @param {Entry[]} held @param {string} [through] */
  constructor(held, through) {
    this.#through = through;
    for (const lock of held) {
      const client = clientOf(lock);
      listOf(this.#byKey, keyOf(lock)).push(lock);
      listOf(this.#byClient, client).push(lock);
      const age = Number.isNaN(lock.held) ? Number.POSITIVE_INFINITY : lock.held;
      this.#oldest.set(client, Math.max(age, this.#oldest.get(client) ?? 0));
    }
  }

  /** @param {Entry} request ignored if it is older than all locks of its client */
  addIfNested(request) {
    const client = clientOf(request);
    if (!(request.waited <= (this.#oldest.get(client) ?? -1))) return;
    const wants = this.#wants.get(client) ?? new Set();
    this.#wants.set(client, wants.add(keyOf(request)));
  }

  /** Returns at most MOST circles, each with a client that is in none before it. */
  circles() {
    this.#leaveBlocked();
    /** @type {Link[][]} */
    const found = [];
    const seen = new Set();
    for (const client of this.#wants.keys()) {
      if (found.length === MOST) break;
      if (seen.has(client)) continue;
      const circle = this.#circleOf(client);
      if (circle) found.push(circle);
      // A client that is in no circle is removed, so that no other search goes beyond it.
      else if (this.#through === undefined) this.#wants.delete(client);
      for (const { holder } of circle ?? []) seen.add(clientOf(holder));
    }
    return found;
  }

  /** Leaves only clients that each wait for another one of them: that takes linear time. */
  #leaveBlocked() {
    /** The clients that hold each lock. @type {Map<string, Set<string>>} */
    const holders = new Map();
    for (const [key, locks] of this.#byKey) holders.set(key, new Set(locks.map(clientOf)));
    /** @type {Map<string, string[]>} */
    const waiters = new Map();
    for (const [client, keys] of this.#wants)
      for (const key of keys) listOf(waiters, key).push(client);
    const clients = [...this.#byClient.keys(), ...this.#wants.keys()];
    // The loop also visits the clients that it adds.
    for (const client of clients) {
      const isBlocking = (/** @type {string} */ key) => {
        const all = holders.get(key);
        return all !== undefined && all.size > Number(all.has(client));
      };
      if ([...(this.#wants.get(client) ?? [])].some(isBlocking)) continue;
      this.#wants.delete(client);
      for (const lock of this.#byClient.get(client) ?? []) {
        const all = holders.get(keyOf(lock));
        if (all?.delete(client) && all.size <= 1)
          for (const waiter of listOf(waiters, keyOf(lock))) clients.push(waiter);
      }
    }
  }

  /**
   * Returns the shortest circle in which a client waits for a wanted lock of `first`; undefined if
   * there is none.
   * @param {string} first
   */
  #circleOf(first) {
    const isWanted = (/** @type {Entry} */ { name }) => name === (this.#through ?? name);
    const wanted = (this.#byClient.get(first) ?? []).filter(isWanted);
    if (wanted.length === 0) return undefined;
    const own = new Map(wanted.map((lock) => [keyOf(lock), lock]));
    /** For which lock of each client which other client waits. @type {Map<string, Step>} */
    const steps = new Map();
    const clients = new Set([first]);
    const keys = new Set();
    // These loops also visit what they add.
    for (const client of clients) {
      for (const key of this.#wants.get(client) ?? []) {
        const last = client === first ? undefined : own.get(key);
        if (last) return circleOf(last, client, steps);
        const holders = keys.has(key) ? [] : listOf(this.#byKey, key);
        keys.add(key);
        for (const lock of holders) {
          const holder = clientOf(lock);
          if (!clients.has(holder)) steps.set(holder, { lock, by: client });
          clients.add(holder);
        }
      }
    }
    return undefined;
  }
}

/**
 * @param {Entry} last the lock that closes the circle @param {string} client waits for it
 * @param {Map<string, Step>} steps @returns {Link[]}
 */
function circleOf(last, client, steps) {
  const way = [last];
  for (let step = steps.get(client); step; step = steps.get(step.by)) way.push(step.lock);
  way.reverse();
  return way.map((holder, i) => ({ holder, waitsFor: way[(i + 1) % way.length] }));
}

/**
 * Adds an empty list if there is none.
 * @template Item @param {Map<string, Item[]>} map @param {string} key
 */
function listOf(map, key) {
  const list = map.get(key) ?? [];
  map.set(key, list);
  return list;
}

/** @param {Entry} lock */
const describeLock = ({ bucket, name }) =>
  bucket === undefined ? quoted(name) : `${quoted(name)} in ${describeBucket(bucket)}`;

/** @param {State} state @returns {string[]} a few lines, even for a long circle */
function describeCircles(state) {
  return circlesOf(state).flatMap((circle) => [
    'These holders wait for each other, perhaps in a deadlock:',
    ...circle.slice(0, FEW).map(({ holder, waitsFor }) => {
      const who = describeAgent(holder, quoted);
      return `  ${who} holds ${describeLock(holder)} and waits for ${describeLock(waitsFor)}`;
    }),
    ...(circle.length > FEW ? [`  … and ${circle.length - FEW} more`] : []),
  ]);
}

module.exports = { circlesOf, describeCircles, narrow };
