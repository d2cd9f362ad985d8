/**
 * Replaces the native core by queues in JavaScript. What remains is the cost of our JavaScript; the
 * difference is the cost of locks that other threads can see. It supports only exclusive requests
 * that wait, in this thread.
 */

const { NativeBackend, agent } = require('../lib/backend/native.js');

/** @import { Requester } from '../lib/backend/contract.js' */

/**
 * The waiters of each held lock, by name, first come first.
 * @type {Map<string, { waiting: (Requester | undefined)[], first: number, end: number }>}
 */
const queues = new Map();

Object.assign(NativeBackend.prototype, {
  /** @param {Requester} request */
  request(request) {
    agent.add(request);
    const queue = queues.get(request.name);
    if (queue) {
      queue.waiting[queue.end++] = request;
      return;
    }
    queues.set(request.name, { waiting: [], first: 0, end: 0 });
    request.granted(1, 0);
  },

  /** @param {Requester} lock */
  release(lock) {
    const queue = /** @type {any} */ (queues.get(lock.name));
    if (queue.first === queue.end) {
      queues.delete(lock.name);
    } else {
      const next = queue.waiting[queue.first];
      queue.waiting[queue.first++] = undefined;
      next.granted(1, 0);
      agent.announcer.addAnswer(next);
    }
    agent.remove(lock);
  },
});

module.exports = require('..');
