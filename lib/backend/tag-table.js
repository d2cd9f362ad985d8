'use strict';

/**
 * The requests of a thread that the core or the host scope knows, by their tags. Tags are small
 * numbers that are reused. After a burst of requests, most of the table can be free for a long
 * time, so a walk skips the blocks that have no requests.
 */

const { NO_TAG } = require('./contract.js');
const { setImmediate, uncurry } = require('../platform/intrinsics.js');

/** @import { Backend, Requester } from './contract.js' */

/** @type {(map: any, key: any) => any} */
const getFrom = uncurry(Map.prototype.get);
const setIn = uncurry(Map.prototype.set);
const addTo = uncurry(Set.prototype.add);
const removeFrom = uncurry(Set.prototype.delete);
const forEachOf = uncurry(Set.prototype.forEach);

const BLOCK_BITS = 8;
/** The number of tags in a block. */
const BLOCK = 2 ** BLOCK_BITS;

/** Emptying a shorter table would save too little memory to be worth the work. */
const LEAST_TO_DROP = 1024;

/** Requests by bucket and name. */
class NameIndex {
  /** The first key is the id of a backend. @type {Map<string, Map<string, Set<Requester>>>} */
  #buckets = new Map();

  /** @param {Requester} request */
  add(request) {
    const { backend, name } = request;
    const names = getOrMake(this.#buckets, backend.id, () => new Map());
    addTo(
      getOrMake(names, name, () => new Set()),
      request,
    );
  }

  /** @param {Requester} request */
  remove(request) {
    const { backend, name } = request;
    const names = getFrom(this.#buckets, backend.id);
    const requests = names && getFrom(names, name);
    if (requests) removeFrom(requests, request);
  }

  /** @param {Backend} backend @param {string} name */
  requestsOn({ id }, name) {
    /** @type {Requester[]} */
    const all = [];
    const names = getFrom(this.#buckets, id);
    const requests = names && getFrom(names, name);
    if (!requests) return all;
    forEachOf(requests, (/** @type {Requester} */ request) => {
      // If the stack overflowed in a call, the index may contain a request that has no tag.
      if (request.tag !== NO_TAG) all[all.length] = request;
    });
    return all;
  }
}

/** @param {Map<any, any>} map @param {any} key @param {() => any} make */
function getOrMake(map, key, make) {
  const known = getFrom(map, key);
  if (known) return known;
  const made = make();
  setIn(map, key, made);
  return made;
}

class TagTable {
  /** The request of each tag; a free tag has the next free tag instead. */
  #requests;
  #firstFree = 0;
  #live = 0;
  /** The number of requests in each block. @type {number[]} */
  #liveIn = [];
  /** Dropped after the turn of the event loop that made it. @type {NameIndex | undefined} */
  #index;

  /** @param {(Requester | number)[]} requests given only by tests, which observe how it is read */
  constructor(requests = []) {
    this.#requests = requests;
  }

  /** Gives the request a tag of its own. @param {Requester} request */
  add(request) {
    // This call can overflow the stack, so it comes first.
    if (this.#index !== undefined) this.#index.add(request);
    const tag = this.#firstFree;
    const block = tag >>> BLOCK_BITS;
    const next = this.#requests[tag];
    if (block === this.#liveIn.length) this.#liveIn[block] = 0;
    this.#firstFree = next === undefined ? tag + 1 : /** @type {number} */ (next);
    this.#requests[tag] = request;
    this.#live++;
    this.#liveIn[block]++;
    request.tag = tag;
  }

  /** Takes the tag back, if the request has one. @param {Requester} request */
  remove(request) {
    const { tag } = request;
    if (tag === NO_TAG || this.#requests[tag] !== request) return;
    request.tag = NO_TAG;
    this.#requests[tag] = this.#firstFree;
    this.#firstFree = tag;
    this.#liveIn[tag >>> BLOCK_BITS]--;
    if (--this.#live === 0 && this.#requests.length >= LEAST_TO_DROP) {
      this.#requests = [];
      this.#liveIn = [];
      this.#firstFree = 0;
    }
    if (this.#index !== undefined) this.#index.remove(request);
  }

  /** @param {number} tag @returns {Requester | undefined} */
  requestWith(tag) {
    const request = this.#requests[tag];
    return typeof request === 'object' ? request : undefined;
  }

  /** @param {unknown} backend */
  requestsOf(backend) {
    /** @type {Requester[]} */
    const all = [];
    this.#forEach((request) => {
      if (request.backend === backend) all[all.length] = request;
    });
    return all;
  }

  /**
   * The requests for a name, through any handle of the bucket. Thousands of requests for different
   * names may reach their time limits together, so one index serves a whole turn of the event loop.
   * @param {Backend} backend @param {string} name
   */
  requestsOn(backend, name) {
    if (this.#index === undefined) this.#makeIndex();
    return /** @type {NameIndex} */ (this.#index).requestsOn(backend, name);
  }

  /** The index is dropped after this turn of the event loop. */
  #makeIndex() {
    const index = new NameIndex();
    this.#forEach((request) => index.add(request));
    setImmediate(() => {
      this.#index = undefined;
    });
    this.#index = index;
  }

  /** @param {(request: Requester) => void} what must not add or remove requests */
  #forEach(what) {
    for (let block = 0; block < this.#liveIn.length; block++) {
      const first = block * BLOCK;
      for (let i = 0, left = this.#liveIn[block]; i < BLOCK && left > 0; i++) {
        const request = this.#requests[first + i];
        if (typeof request !== 'object') continue;
        left--;
        what(request);
      }
    }
  }
}

module.exports = { TagTable };
