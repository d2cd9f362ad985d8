'use strict';

/**
 * The specification's section 4 as plainly as possible: one lock manager for any number of agents, single-threaded, one
 * function for each algorithm, named and ordered as there. It is slow and allocates freely; it is for comparing with.
 *
 * Where the specification invokes a callback or settles a promise, the model tells the request's agent:
 * `tell(agent, request id, what)` with 'granted', 'unavailable', 'stolen' or 'aborted'.
 */
class LockManagerModel {
  /** Of lock requests that were granted. */
  heldLockSet = new Set();
  /** From resource names to arrays of lock requests. */
  lockRequestQueueMap = new Map();

  constructor(tell) {
    this.tell = tell;
  }

  // 2.5

  getTheLockRequestQueue(name) {
    if (!this.lockRequestQueueMap.has(name)) this.lockRequestQueueMap.set(name, []);
    return this.lockRequestQueueMap.get(name);
  }

  isGrantable(request) {
    const queue = this.getTheLockRequestQueue(request.name);
    if (queue.length > 0 && queue[0] !== request) return false;
    const held = [...this.heldLockSet].filter((lock) => lock.name === request.name);
    if (request.mode === 'exclusive') return held.length === 0;
    return !held.some((lock) => lock.mode === 'exclusive');
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

  requestALock(agent, id, name, mode, ifAvailable, steal) {
    const request = { agent, id, name, mode };
    const queue = this.getTheLockRequestQueue(name);
    if (steal) {
      for (const lock of this.heldLockSet) {
        if (lock.name !== name) continue;
        this.heldLockSet.delete(lock);
        this.tell(lock.agent, lock.id, 'stolen');
      }
      queue.unshift(request);
    } else {
      if (ifAvailable && !this.isGrantable(request)) {
        this.tell(agent, id, 'unavailable');
        return request;
      }
      queue.push(request);
    }
    this.processTheLockRequestQueue(queue);
    return request;
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
    if (this.heldLockSet.has(request)) return; // its callback has begun: the signal is ignored
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
      this.tell(request.agent, request.id, 'granted');
    }
  }

  // 4.5

  /** Each entry with its agent in place of the client id. */
  snapshotTheLockState() {
    const entry = ({ name, mode, agent }) => ({ name, mode, agent });
    const pending = [...this.lockRequestQueueMap.values()].flatMap((queue) => queue.map(entry));
    const held = [...this.heldLockSet].map(entry);
    return { held, pending };
  }
}

module.exports = { LockManagerModel };
