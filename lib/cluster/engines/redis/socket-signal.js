'use strict';

/**
 * Ends the sockets of a node-redis cluster, including sockets that are still connecting, which the
 * client itself does not end. Node.js adds two listeners to a socket's signal and removes only one
 * when the socket closes. A cluster client makes many short-lived sockets with one signal, so an
 * ordinary signal would collect listeners. This signal refers to its listeners weakly. The listener
 * that destroys a socket is not lost too early: Node.js refers to it until the socket closes, to
 * remove it then.
 */

const { AbortController } = require('../../../platform/realm.js');

/** @typedef {(event?: Event) => void} Listener */

class SocketSignal {
  #controller = new AbortController();
  /** @type {Set<WeakRef<Listener>>} */
  #listeners = new Set();
  /** When there are this many listeners, the garbage-collected ones are removed. */
  #room = 16;

  constructor() {
    const own = { configurable: true, writable: true };
    Object.defineProperties(this.signal, {
      addEventListener: { ...own, value: this.#add.bind(this) },
      removeEventListener: { ...own, value: this.#remove.bind(this) },
    });
  }

  get signal() {
    return this.#controller.signal;
  }

  abort() {
    this.#controller.abort();
    for (const listener of this.#listeners) listener.deref()?.();
    this.#listeners.clear();
  }

  /** @param {string} _type @param {Listener} listener */
  #add(_type, listener) {
    if (this.#listeners.size >= this.#room) this.#removeCollected();
    this.#listeners.add(new WeakRef(listener));
  }

  /** @param {string} _type @param {Listener} listener */
  #remove(_type, listener) {
    this.#removeCollected(listener);
  }

  /** Removes `removed` and all garbage-collected listeners. @param {Listener} [removed] */
  #removeCollected(removed) {
    for (const one of this.#listeners) {
      const listener = one.deref();
      if (listener === undefined || listener === removed) this.#listeners.delete(one);
    }
    this.#room = 2 * this.#listeners.size + 16;
  }
}

module.exports = { SocketSignal };
