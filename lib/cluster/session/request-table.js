'use strict';

/** The session's live requests, keyed and ordered by `ref`. Only this class changes their state. */

const { ASKED, GONE, HELD, WAITING } = require('./tracked-request.js');

/** @typedef {InstanceType<typeof import('./tracked-request.js').TrackedRequest>} TrackedRequest */

class RequestTable {
  /** @type {Map<number, TrackedRequest>} */
  #requests = new Map();
  /** The members of each group. @type {Map<number, Set<TrackedRequest>>} */
  #groups = new Map();
  #refs = 0;
  /** How many requests are not held. They keep the event loop alive. */
  unheld = 0;
  /** How many requests wait in a queue, as far as this session knows. */
  waiting = 0;
  /** Counts the changes; the `lastChange` of a request is the count at that time. */
  changes = 0;

  /** @param {number} ref */
  get(ref) {
    return this.#requests.get(ref);
  }

  all() {
    return [...this.#requests.values()];
  }

  /** The members of a request's group, or the request alone. @param {TrackedRequest} tracked */
  groupOf(tracked) {
    const group = this.#groups.get(tracked.op.group);
    return group ? [...group] : [tracked];
  }

  /** Gives the request a new `ref` and adds it. @param {TrackedRequest} tracked */
  enter(tracked) {
    tracked.state = ASKED;
    tracked.op.ref = ++this.#refs;
    this.#requests.set(tracked.op.ref, tracked);
    this.#enterGroup(tracked, tracked.op.group);
    this.unheld++;
  }

  /** @param {TrackedRequest} tracked @param {number} group 0 for none */
  #enterGroup(tracked, group) {
    if (group === 0) return;
    const requests = this.#groups.get(group) ?? new Set();
    this.#groups.set(group, requests.add(tracked));
  }

  /** @param {TrackedRequest} tracked @param {1 | 2 | 3 | 4} state */
  move(tracked, state) {
    if (tracked.state === WAITING) this.waiting--;
    if (state === WAITING) this.waiting++;
    if (tracked.state === HELD) this.unheld++;
    if (state === HELD) this.unheld--;
    tracked.state = state;
    tracked.lastChange = ++this.changes;
  }

  /** Removes the request and resolves its `ended`. @param {TrackedRequest} tracked */
  leave(tracked) {
    if (tracked.state === WAITING) this.waiting--;
    if (tracked.state !== HELD) this.unheld--;
    this.#requests.delete(tracked.op.ref);
    const group = this.#groups.get(tracked.op.group);
    group?.delete(tracked);
    if (group?.size === 0) this.#groups.delete(tracked.op.group);
    tracked.state = GONE;
    tracked.resolveEnded();
  }
}

module.exports = { RequestTable };
