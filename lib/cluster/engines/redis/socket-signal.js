'use strict';

/**
 * The signal that ends the sockets of a node-redis cluster, including those that connect just then,
 * which the client does not end itself.
 *
 * Node.js adds two listeners to the signal of a socket and removes only one of them when the socket
 * closes. A client of a cluster makes many short-lived sockets with one signal, so each of them
 * would stay in memory, and after ten of them Node.js would print a warning. This signal therefore
 * refers to its listeners weakly. The listener that destroys a socket lives as long as the socket
 * does, because the socket needs it to remove it.
 */

const { AbortController } = require('../../../platform/realm.js');

/** @typedef {(event?: Event) => void} Listener */

class SocketSignal {
  #controller = new AbortController();
  /** @type {Set<WeakRef<Listener>>} */
  #listeners = new Set();
  /** How many listeners there may be until those that are gone are looked for. */
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

  /**
   * @param {string} _type
   * @param {Listener} listener
   */
  #add(_type, listener) {
    if (this.#listeners.size >= this.#room) this.#sweep();
    this.#listeners.add(new WeakRef(listener));
  }

  /**
   * @param {string} _type
   * @param {Listener} listener
   */
  #remove(_type, listener) {
    this.#sweep(listener);
  }

  /** @param {Listener} [removed] */
  #sweep(removed) {
    for (const one of this.#listeners) {
      const listener = one.deref();
      if (listener === undefined || listener === removed) this.#listeners.delete(one);
    }
    this.#room = 2 * this.#listeners.size + 16;
  }
}

module.exports = { SocketSignal };
