'use strict';

/**
 * What makes an actor of a torture a hostile user: whenever the library lets users' code run, that
 * requests, aborts, steals, takes synchronously, throws, or recurses until the stack ends. Only in
 * workers: what users' code throws there ends no test.
 */

const { subscribe } = require('node:diagnostics_channel');

class HostileError extends Error {}

const isOverflow = (error) => error instanceof RangeError && /call stack/.test(error.message);
const CHANNELS = ['start', 'grant', 'miss', 'end', 'abort', 'steal', 'timeout'];
const DEEDS = ['request', 'request', 'takeSync', 'takeSync', 'block', 'abort', 'fail', 'recurse'];
const DEEPEST = 3;
const CALLS = 20;

class Hostile {
  #actor;
  #depth = 0;
  #controllers = [];

  constructor(actor) {
    this.#actor = actor;
    for (const it of CHANNELS) subscribe(`locks.request.${it}`, () => this.enter());
    process.on('uncaughtException', (error) => {
      if (Hostile.threw(error)) return;
      // Anything else is what it is without us: the end of the thread.
      process.removeAllListeners('uncaughtException');
      queueMicrotask(() => {
        throw error;
      });
    });
  }

  /** Whether an exception is users' code's, or of a stack that it let overflow. */
  static threw(error) {
    return error instanceof HostileError || isOverflow(error);
  }

  /** Users' code runs. */
  enter() {
    const actor = this.#actor;
    if (this.#depth >= DEEPEST || actor.board.stopped || !actor.chance(0.1)) return;
    this.#depth++;
    try {
      this[DEEDS[actor.below(DEEDS.length)]]();
    } finally {
      this.#depth--;
    }
  }

  /** The same options and name, with getters and a toString that are users' code. */
  disguise(options, name) {
    const given = {};
    for (const [key, value] of Object.entries(options)) {
      const get = () => {
        this.enter();
        return value;
      };
      Object.defineProperty(given, key, { get, enumerable: true });
    }
    const convert = () => {
      this.enter();
      return name;
    };
    return { options: given, name: { toString: convert } };
  }

  /** A controller of a request, which somebody else may abort. */
  keep(controller) {
    this.#controllers.push(controller);
    if (this.#controllers.length > 10) this.#controllers.shift();
    controller.signal.addEventListener('abort', () => this.enter());
  }

  request() {
    this.#actor.once();
  }

  takeSync() {
    const { manager, name } = this.#actor.pickName();
    this.#use(name, (title, options) => manager.tryAcquireSync(title, options));
  }

  block() {
    const { manager, name } = this.#actor.pickName();
    this.#use(name, (title, options) => manager.acquireSync(title, { ...options, timeout: 1 }));
  }

  #use(name, take) {
    const actor = this.#actor;
    const mode = actor.chance(0.3) ? 'shared' : 'exclusive';
    const options = actor.withUnits({ mode }, name);
    const begun = actor.board.tick();
    let handle;
    try {
      handle = take(`name ${name}`, options);
    } catch (error) {
      if (['TimeoutError', 'DeadlockError', 'AbortError'].includes(error?.name)) return;
      throw error;
    }
    if (!handle) return;
    if (!actor.isStealable(name) && !handle.released) {
      actor.board.enter(actor.slot, name, options);
      actor.board.checkOrder(name, mode, begun, actor.board.tick());
      actor.board.leave(actor.slot, name, options);
    }
    handle.release();
  }

  abort() {
    this.#controllers.pop()?.abort('aborted');
  }

  fail() {
    throw new HostileError('of a hostile user');
  }

  /** Where the stack ends nothing can be noted: names of its own, which must be free in the end. */
  recurse() {
    const { managers, slot } = this.#actor;
    const [manager] = managers;
    const [name, options, callback] = [`own ${slot}`, { mode: 'shared' }, () => {}];
    const got = Array(CALLS).fill(undefined);
    let calls = 0;
    const depth = this.#depth;
    this.#depth = DEEPEST;
    const deeper = () => {
      try {
        deeper();
      } catch {
        // The end of the stack.
      }
      if (calls === CALLS) return;
      const i = calls++;
      try {
        if (i % 2) got[i] = manager.request(name, options, callback);
        else got[i] = manager.tryAcquireSync(name, options);
      } catch {
        // As well.
      }
    };
    deeper();
    this.#depth = depth;
    for (const it of got) {
      if (it instanceof Promise) it.catch(() => {});
      else it?.release();
    }
  }
}

module.exports = { Hostile };
