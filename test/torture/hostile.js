'use strict';

/**
 * Makes a user hostile: whenever the library runs its code, it makes requests, aborts, takes locks
 * synchronously, throws, or recurses until the stack overflows. Only users in workers are hostile,
 * so that their exceptions end no other thread.
 */

const { subscribe } = require('node:diagnostics_channel');

class HostileError extends Error {
  name = 'HostileError';
}

const isOverflow = (error) => error instanceof RangeError && /call stack/.test(error.message);
const CHANNELS = ['start', 'grant', 'miss', 'end', 'abort', 'steal', 'lost', 'timeout'];
const DEEDS = ['ask', 'ask', 'takeSync', 'takeSync', 'block', 'abort', 'fail', 'recurse'];
const DEEPEST = 3;
const CALLS = 20;

class Hostile {
  #user;
  #depth = 0;

  /** @param {any} user a User */
  constructor(user) {
    this.#user = user;
    for (const it of CHANNELS) subscribe(`locks.request.${it}`, () => this.enter());
    process.on('uncaughtException', (error) => {
      // Any other exception ends the thread, as it does without this listener.
      if (!(error instanceof HostileError || isOverflow(error))) throw error;
    });
  }

  /** Called wherever the library runs users' code. */
  enter() {
    const user = this.#user;
    if (this.#depth >= DEEPEST || user.stopped || !user.chance(0.08)) return;
    this.#depth++;
    try {
      this[user.pick(DEEDS)]();
    } finally {
      this.#depth--;
    }
  }

  /** @returns the same object with getters, which run users' code */
  disguise(object) {
    const given = {};
    for (const [key, value] of Object.entries(object)) {
      const get = () => {
        this.enter();
        return value;
      };
      Object.defineProperty(given, key, { get, enumerable: true });
    }
    return given;
  }

  /** @returns the same name or names, by a conversion that runs users' code */
  rename(name) {
    if (Array.isArray(name)) return name.map((one) => this.#entry(one));
    const convert = () => {
      this.enter();
      return name;
    };
    return { toString: convert };
  }

  #entry(one) {
    const { name, ...rest } = typeof one === 'string' ? { name: one } : one;
    return this.disguise({ name: this.rename(name), ...rest });
  }

  ask() {
    this.#user.askAnywhere('request');
  }

  takeSync() {
    this.#user.askAnywhere('tryAcquireSync');
  }

  block() {
    this.#user.askAnywhere('acquireSync');
  }

  abort() {
    this.#user.abortSome();
  }

  fail() {
    throw new HostileError('of a hostile user');
  }

  /** Nothing can be recorded when the stack overflows: its own name must be free at the end. */
  recurse() {
    const { id, stage } = this.#user;
    const [{ locks }] = stage.places;
    const [name, options, callback] = [`own ${id}`, { mode: 'shared' }, () => {}];
    const got = Array(CALLS).fill(undefined);
    let calls = 0;
    const depth = this.#depth;
    this.#depth = DEEPEST;
    const deeper = () => {
      try {
        deeper();
      } catch {
        // The stack overflowed.
      }
      if (calls === CALLS) return;
      const i = calls++;
      try {
        if (i % 2) got[i] = locks.request(name, options, callback);
        else got[i] = locks.tryAcquireSync(name, options);
      } catch {
        // The stack overflowed again.
      }
    };
    deeper();
    this.#depth = depth;
    // An overflow can leave Node.js in the middle of ending this thread. Then its event loop goes
    // on without ticks, and the thread would keep its locks for ever.
    if (process._exiting) stage.end('threadExit');
    for (const it of got) {
      if (it instanceof Promise) it.catch(() => {});
      else it?.release();
    }
  }
}

module.exports = { Hostile };
