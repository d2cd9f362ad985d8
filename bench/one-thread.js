/**
 * Puts queues in JavaScript where the native core is: what is left is what our JavaScript costs,
 * the rest is what it costs to have a lock that other threads see. Exclusive requests that wait
 * only, and none but this thread knows of them.
 */

const { NativeBackend, agent } = require('../lib/backend/native.js');

/** @import { Requester } from '../lib/backend/contract.js' */

/**
 * By the name of a held lock: its waiters, first come first.
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
