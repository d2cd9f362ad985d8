'use strict';

/**
 * The scope `late`: the locks of the process, by a backend that does everything it is asked for in
 * a later turn of the event loop, in order. It shows what takes for granted that answers come
 * during the call.
 */

const { NativeBackend, agent } = require('../../lib/backend/native.js');
const { NO_TAG } = require('../../lib/backend/contract.js');
const { entryOf } = require('../../lib/backend/local-details.js');
const { Bucket } = require('../../lib/extensions/buckets/bucket.js');
const { bucketClosedError } = require('../../lib/platform/errors.js');
const { hostname } = require('../../lib/platform/machine.js');
const { threadId, threadName } = require('../../lib/platform/thread.js');
const { MEMBERS } = require('../helpers/members.js');

/** Stands for a request at the native backend; nothing is told of it any more once it is over. */
class LateRequest {
  isAsked = false;
  isOver = false;
  isAnswered = false;

  constructor(owner, backend) {
    this.owner = owner;
    this.backend = backend;
    const { name, mode, disposition, label, limit, weight, maxPending, priority } = owner;
    Object.assign(this, { name, mode, disposition, label, limit, weight, maxPending, priority });
    this.hasExtensions =
      priority !== 0 || [label, limit, maxPending].some((value) => value !== undefined);
    this.tag = NO_TAG;
  }

  announceAnswer() {
    if (!this.isOver) this.owner.announceAnswer();
  }
  announceLoss() {
    if (!this.isOver) this.owner.announceLoss(true);
  }
  get isDelivered() {
    return this.owner.isDelivered;
  }
  finish() {
    this.owner.finish();
  }
}

for (const member of MEMBERS) {
  LateRequest.prototype[member] = function say(...args) {
    if (this.isOver) return;
    this.isAnswered = true;
    this.owner[member](...args);
  };
}

class LateBackend {
  findsDeadlocks = false;
  #native;
  #closed;
  #proxies = new Map();

  constructor(name) {
    this.#native = new NativeBackend(`late:${name}`);
    this.id = `late ${name}`;
    this.unfinished = this.#native.unfinished;
    this.ready = new Promise((resolve) => setImmediate(resolve));
  }

  get closed() {
    return this.#closed;
  }

  request(owner) {
    if (this.#closed) {
      owner.failed(() => this.#closed);
      return;
    }
    const proxy = new LateRequest(owner, this.#native);
    this.#proxies.set(owner, proxy);
    setImmediate(() => {
      if (proxy.isOver) return;
      proxy.isAsked = true;
      this.#native.request(proxy);
      // Who was robbed hears of it before the thief.
      if (proxy.disposition === 'steal') this.#native.announce();
      if (proxy.isAnswered) proxy.announceAnswer();
      this.#native.announce();
    });
  }

  withdraw(owner) {
    const proxy = this.#proxies.get(owner);
    if (!proxy) return undefined;
    proxy.isOver = true;
    return this.#end(owner, proxy, () => this.#native.withdraw(proxy));
  }

  release(owner) {
    const proxy = this.#proxies.get(owner);
    if (proxy) proxy.keep = owner.keep;
    return proxy && this.#end(owner, proxy, () => this.#native.release(proxy));
  }

  #end(owner, proxy, how) {
    this.#proxies.delete(owner);
    return new Promise((resolve) => {
      setImmediate(() => {
        if (proxy.isAsked) how();
        resolve();
        this.#native.announce();
      });
    });
  }

  marked(owner) {
    return this.#later(() => this.#native.marked(this.#proxies.get(owner)));
  }

  publish(owner, text) {
    return this.#later(() => {
      const proxy = this.#proxies.get(owner);
      const isPublished = proxy !== undefined && this.#native.publish(proxy, text);
      this.#native.announce();
      return isPublished;
    });
  }

  announce() {}

  undo = () => this.#native.undo(NO_TAG);

  query = (name) => this.#later(() => this.#native.query(name));
  details = (name) => this.#later(() => this.#native.details(name));
  askHolders = (name) => this.#later(() => this.#native.holders(name));

  entryOf(request, isHeld) {
    const who = {
      clientId: agent.clientId,
      host: hostname(),
      pid: process.pid,
      threadId,
      threadName,
    };
    return entryOf(who, request, '', isHeld);
  }

  async #later(ask) {
    await new Promise((resolve) => setImmediate(resolve));
    return ask();
  }

  async close() {
    if (this.#closed) return;
    this.#closed = bucketClosedError();
    for (const proxy of this.#proxies.values()) {
      if (proxy.isAsked) continue;
      proxy.failed(() => this.#closed);
      proxy.announceAnswer();
      proxy.isOver = true;
    }
    await this.#native.close();
  }
}

const openBucket = (name) => new Bucket(name, new LateBackend(name));

module.exports = { LateBackend, openBucket };
