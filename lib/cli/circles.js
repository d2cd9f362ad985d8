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
  /** Keys whose holders the search has visited or is visiting. @type {Set<string>} */
  #entered = new Set();
  /** Locks of the clients on the current path, by key. @type {Map<string, Entry[]>} */
  #passed = new Map();
  /** The locks on the current path. @type {Entry[]} */
  #way = [];
  /** @type {Set<string>} */
  #onWay = new Set();
  /** @type {Set<string>} */
  #done = new Set();
  /** @type {Link[][]} */
  #found = [];

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

  /** Returns at most MOST circles. */
  circles() {
    for (const client of this.#starts()) this.#search(client);
    return this.#found;
  }

  /**
   * The search visits each client only once. It begins with the holders of the wanted name, so that
   * it finds the circles through that name.
   */
  *#starts() {
    for (const [client, own] of this.#through === undefined ? [] : this.#byClient) {
      if (own.some(({ name }) => name === this.#through)) yield client;
    }
    yield* this.#wants.keys();
  }

  /** @param {string} first */
  #search(first) {
    const steps = [this.#visit(first)];
    while (steps.length > 0 && this.#found.length < MOST) {
      const { done, value } = steps[steps.length - 1].next();
      if (done) steps.pop();
      else if (value) steps.push(this.#visit(value));
    }
  }

  /** Yields the clients that the search visits next. @param {string} client */
  *#visit(client) {
    if (this.#done.has(client)) return;
    this.#done.add(client);
    this.#onWay.add(client);
    const own = this.#byClient.get(client) ?? [];
    for (const lock of own) listOf(this.#passed, keyOf(lock)).push(lock);
    for (const key of this.#wants.get(client) ?? []) {
      // If the search was at this key before, it has seen the holders, and only a holder on the
      // current path can close a circle.
      const holders = [...listOf(this.#entered.has(key) ? this.#passed : this.#byKey, key)];
      this.#entered.add(key);
      const seen = new Set([client]);
      for (const lock of holders) {
        const holder = clientOf(lock);
        if (seen.has(holder) || !this.#wants.has(holder)) continue;
        seen.add(holder);
        this.#way.push(lock);
        if (this.#onWay.has(holder)) this.#recordCircle(holder);
        else yield holder;
        this.#way.pop();
      }
    }
    this.#onWay.delete(client);
    for (const lock of own) this.#passed.get(keyOf(lock))?.pop();
  }

  /**
   * Leaves out a circle without the wanted name.
   * @param {string} client closes the path to a circle
   */
  #recordCircle(client) {
    const way = this.#way;
    let start = way.length - 1;
    while (start > 0 && clientOf(way[start - 1]) !== client) start--;
    const part = way.slice(start);
    const through = this.#through;
    if (through !== undefined && !part.some(({ name }) => name === through)) return;
    this.#found.push(part.map((holder, i) => ({ holder, waitsFor: part[(i + 1) % part.length] })));
  }
}

/** Adds an empty list if there is none. @param {Map<string, Entry[]>} map @param {string} key */
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
