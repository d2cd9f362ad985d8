'use strict';

/**
 * Finds holders that wait for each other. A thread may hold one lock and wait for another in
 * independent parts of a program, so a circle is only a hint of a deadlock, not a proof. A request
 * that is older than every lock of its thread cannot have been made while the thread held a lock,
 * so it is left out.
 */

const { describeAgent } = require('../extensions/errors/descriptions.js');
const { quoted } = require('./format.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/** @typedef {import('../backend/contract.js').LockDetails} LockDetails */

/** @typedef {{ holder: LockDetails, waitsFor: string }} Link one holder of a circle */

/** The search stops after this many circles. */
const MOST = 3;
/** At most this many holders of a circle are described. */
const FEW = 10;

/**
 * @param {DetailedSnapshot} state of one bucket
 * @returns {Link[][]} each holder waits for the lock of the next holder, and the last one for the
 *   lock of the first
 */
function findCircles({ held, pending }) {
  const graph = new Graph(held);
  for (const request of pending) graph.add(request);
  return graph.circles();
}

class Graph {
  /** Locks by name. @type {Map<string, LockDetails[]>} */
  #byName = new Map();
  /** For how long each client has held the oldest of its locks. @type {Map<string, number>} */
  #oldest = new Map();
  /** The names that each client waits for. @type {Map<string, Set<string>>} */
  #wants = new Map();
  /** Locks by client. @type {Map<string, LockDetails[]>} */
  #byClient = new Map();
  /** Names whose holders the search has visited or is visiting. @type {Set<string>} */
  #entered = new Set();
  /** Locks of the clients on the current path, by name. @type {Map<string, LockDetails[]>} */
  #passed = new Map();
  /** The locks on the current path. @type {LockDetails[]} */
  #way = [];
  /** @type {Set<string>} */
  #onWay = new Set();
  /** @type {Set<string>} */
  #done = new Set();
  /** @type {Link[][]} */
  #found = [];

  /** @param {LockDetails[]} held */
  constructor(held) {
    for (const lock of held) {
      listOf(this.#byName, lock.name).push(lock);
      listOf(this.#byClient, lock.clientId).push(lock);
      const age = Number.isNaN(lock.held) ? Number.POSITIVE_INFINITY : lock.held;
      this.#oldest.set(lock.clientId, Math.max(age, this.#oldest.get(lock.clientId) ?? 0));
    }
  }

  /** @param {LockDetails} request */
  add({ clientId, name, waited }) {
    if (!(waited <= (this.#oldest.get(clientId) ?? -1))) return;
    const wants = this.#wants.get(clientId) ?? new Set();
    this.#wants.set(clientId, wants.add(name));
  }

  circles() {
    for (const client of this.#wants.keys()) this.#search(client);
    return this.#found;
  }

  /** @param {string} first the client at which the search starts */
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
    for (const lock of own) listOf(this.#passed, lock.name).push(lock);
    for (const name of this.#wants.get(client) ?? []) {
      // When the search visits a name again, only a holder on the current path can close a circle.
      const holders = [...listOf(this.#entered.has(name) ? this.#passed : this.#byName, name)];
      this.#entered.add(name);
      const seen = new Set([client]);
      for (const lock of holders) {
        const { clientId } = lock;
        if (seen.has(clientId) || !this.#wants.has(clientId)) continue;
        seen.add(clientId);
        this.#way.push(lock);
        if (this.#onWay.has(clientId)) this.#recordCircle(clientId);
        else yield clientId;
        this.#way.pop();
      }
    }
    this.#onWay.delete(client);
    for (const { name } of own) this.#passed.get(name)?.pop();
  }

  /** @param {string} client the client that closes the path to a circle */
  #recordCircle(client) {
    const way = this.#way;
    let start = way.length - 1;
    while (start > 0 && way[start - 1].clientId !== client) start--;
    const part = way.slice(start);
    this.#found.push(
      part.map((holder, i) => ({ holder, waitsFor: part[(i + 1) % part.length].name })),
    );
  }
}

/** @param {Map<string, LockDetails[]>} map @param {string} key */
function listOf(map, key) {
  const list = map.get(key) ?? [];
  map.set(key, list);
  return list;
}

/** @param {DetailedSnapshot} state @returns {string[]} a few lines, even for a long circle */
function describeCircles(state) {
  return findCircles(state).flatMap((circle) => [
    'These holders wait for each other, perhaps in a deadlock:',
    ...circle.slice(0, FEW).map(({ holder, waitsFor }) => {
      const who = describeAgent(holder, quoted);
      return `  ${who} holds ${quoted(holder.name)} and waits for ${quoted(waitsFor)}`;
    }),
    ...(circle.length > FEW ? [`  … and ${circle.length - FEW} more`] : []),
  ]);
}

module.exports = { findCircles, describeCircles };
