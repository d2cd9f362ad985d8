'use strict';

/**
 * Section 4 of the specification as plainly as possible: one lock manager for any number of agents,
 * single-threaded, with one function for each algorithm, named and ordered as there. It is slow; it
 * exists for comparisons.
 *
 * Where the specification invokes a callback or settles a promise, the model calls `tell(agent,
 * request id, what)` with 'granted', 'unavailable', 'stolen' or 'aborted'.
 *
 * Beyond the specification there are `more`, with `limit` and `weight` of a shared request and
 * `maxPending` and `priority` of any; tokens; and the answers 'other limit' and 'queue full'.
 */
class LockManagerModel {
  /** The granted lock requests. */
  heldLockSet = new Set();
  /** From resource names to arrays of lock requests. */
  lockRequestQueueMap = new Map();
  /** The limits of names that were shared since they were last free; 0 for none. */
  limits = new Map();
  /** Whether a name keeps its limit while only exclusive requests are left. */
  keepsLimits = true;
  /** The token of the last lock. */
  token = 0;

  constructor(tell) {
    this.tell = tell;
  }

  // 2.5

  getTheLockRequestQueue(name) {
    if (!this.lockRequestQueueMap.has(name)) this.lockRequestQueueMap.set(name, []);
    return this.lockRequestQueueMap.get(name);
  }

  /** The index of a request in its queue: behind all of the same or a higher priority. */
  placeOf(request) {
    const queue = this.getTheLockRequestQueue(request.name);
    if (queue.includes(request)) return queue.indexOf(request);
    const { priority = 0 } = request;
    return queue.filter((other) => (other.priority ?? 0) >= priority).length;
  }

  isGrantable(request) {
    if (this.placeOf(request) > 0) return false;
    const held = [...this.heldLockSet].filter((lock) => lock.name === request.name);
    if (request.mode === 'exclusive') return held.length === 0;
    if (held.some((lock) => lock.mode === 'exclusive')) return false;
    const units = held.reduce((sum, lock) => sum + lock.weight, request.weight);
    return units === 0 || units <= request.limit;
  }

  isUsed(name) {
    const holds = [...this.heldLockSet].some((lock) => lock.name === name);
    return holds || this.getTheLockRequestQueue(name).length > 0;
  }

  isShared(name) {
    const all = [...this.heldLockSet, ...this.getTheLockRequestQueue(name)];
    return all.some((one) => one.name === name && one.mode === 'shared');
  }

  /** Whether a shared request has the same limit as the others. */
  agreesOnTheLimit({ name, mode, limit }) {
    return mode === 'exclusive' || (this.limits.get(name) ?? limit) === limit;
  }

  // 2.6

  terminateRemainingLocksAndRequests(agent) {
    for (const queue of this.lockRequestQueueMap.values()) {
      for (const request of queue.filter((one) => one.agent === agent))
        this.abortTheRequest(request);
    }
    for (const lock of [...this.heldLockSet].filter((one) => one.agent === agent)) {
      this.releaseTheLock(lock);
    }
  }

  // 4.1

  requestALock(agent, id, name, mode, ifAvailable, steal, more = {}) {
    const { limit = 0, weight = limit && 1, maxPending = Number.POSITIVE_INFINITY } = more;
    const { priority = 0 } = more;
    const request = { agent, id, name, mode, limit, weight, priority };
    const queue = this.getTheLockRequestQueue(name);
    const isLimited = this.keepsLimits ? this.isUsed(name) : this.isShared(name);
    if (!isLimited) this.limits.delete(name);
    if (steal) {
      for (const lock of this.heldLockSet) {
        if (lock.name !== name) continue;
        this.heldLockSet.delete(lock);
        this.tell(lock.agent, lock.id, 'stolen');
      }
      queue.unshift(request);
    } else {
      const refusal = this.whyRefused(request, ifAvailable, maxPending);
      if (refusal) {
        this.tell(agent, id, refusal);
        return request;
      }
      queue.splice(this.placeOf(request), 0, request);
      if (mode === 'shared') this.limits.set(name, request.limit);
    }
    this.processTheLockRequestQueue(queue);
    return request;
  }

  whyRefused(request, ifAvailable, maxPending) {
    if (!this.agreesOnTheLimit(request)) return 'other limit';
    if (this.isGrantable(request)) return undefined;
    if (ifAvailable) return 'unavailable';
    const { length } = this.getTheLockRequestQueue(request.name);
    return length >= maxPending ? 'queue full' : undefined;
  }

  // 4.2

  releaseTheLock(lock) {
    this.heldLockSet.delete(lock);
    this.processTheLockRequestQueue(this.getTheLockRequestQueue(lock.name));
  }

  // 4.3

  abortTheRequest(request) {
    const queue = this.getTheLockRequestQueue(request.name);
    const index = queue.indexOf(request);
    if (index >= 0) queue.splice(index, 1);
    this.processTheLockRequestQueue(queue);
  }

  signalToAbortTheRequest(request) {
    if (this.heldLockSet.has(request)) return; // the callback has begun, so the signal is ignored
    const pending = this.getTheLockRequestQueue(request.name).includes(request);
    this.abortTheRequest(request);
    if (pending) this.tell(request.agent, request.id, 'aborted');
  }

  // 4.4

  processTheLockRequestQueue(queue) {
    for (const request of [...queue]) {
      if (!this.isGrantable(request)) return;
      queue.shift();
      this.heldLockSet.add(request);
      request.token = ++this.token;
      this.tell(request.agent, request.id, 'granted');
    }
  }

  // 4.5

  /** Each entry has its agent in place of the client id. */
  snapshotTheLockState() {
    const limitOf = ({ name, mode }) => (mode === 'shared' ? this.limits.get(name) : 0);
    const entry = (request) => ({ ...request, limit: limitOf(request) });
    const pending = [...this.lockRequestQueueMap.values()].flatMap((queue) => queue.map(entry));
    const held = [...this.heldLockSet].map(entry);
    return { held, pending };
  }
}

/**
 * Whether following "waits for" from some request leads back to a lock that it was made inside of,
 * with `request` at its place in the queue. A request waits for a lock of its name that leaves it
 * no room, or that a declared request ahead of it waits for. `inside` and `declares` of a request
 * say what it was made inside of, and whether it is declared.
 */
function closesACycle(model, request) {
  const held = [...model.heldLockSet];
  const queues = [...model.lockRequestQueueMap.values()].map((queue) => [...queue]);
  const own = queues.find(([first]) => first?.name === request.name);
  if (own) own.splice(model.placeOf(request), 0, request);
  else queues.push([request]);
  const pending = queues.flat();
  const isTooMuch = (waiting, locks) =>
    waiting.limit > 0 &&
    locks.reduce((sum, { weight }) => sum + weight, waiting.weight) > waiting.limit;
  const waits = (waiting, lock) => {
    if (waiting.name !== lock.name) return false;
    if (waiting.mode === 'exclusive' || lock.mode === 'exclusive') return true;
    if (isTooMuch(waiting, [lock])) return true;
    const inner = waiting.inside.filter(({ name }) => name === waiting.name);
    if (inner.includes(lock) && isTooMuch(waiting, inner)) return true;
    const queue = queues.find((it) => it.includes(waiting));
    const ahead = queue.slice(0, queue.indexOf(waiting));
    return ahead.some((other) => other.declares && waits(other, lock));
  };
  const leadsBack = (start, waiting, seen) => {
    if (seen.has(waiting)) return false;
    seen.add(waiting);
    return held.some(
      (lock) =>
        waits(waiting, lock) &&
        (start.inside.includes(lock) ||
          pending.some(
            (inner) =>
              inner.declares && inner.inside.includes(lock) && leadsBack(start, inner, seen),
          )),
    );
  };
  return pending.some((one) => one.declares && leadsBack(one, one, new Set()));
}

module.exports = { LockManagerModel, closesACycle };
