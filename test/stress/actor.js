'use strict';

/**
 * What one thread of a torture does: several loops that request locks, with all options, hold them
 * for a while and end in all ways. All decisions come from the seed. The main thread runs one, too;
 * it does not end.
 */

const { isMainThread, parentPort, workerData } = require('node:worker_threads');
const { Board } = require('./board.js');
const { Hostile } = require('./hostile.js');

const tests = { immediate: () => new Promise(setImmediate), microtask: () => Promise.resolve() };
/** The units of a semaphore. */
const LIMIT = 4;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** mulberry32: a small seeded generator; returns numbers in [0, 1). */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The lock managers to torture, one a bucket. */
function managersOf(subject, buckets) {
  if (subject === 'node') return [require('node:worker_threads').locks];
  const { locks, openBucket } = require('../../lib/index.js');
  const others = Array.from({ length: buckets - 1 }, (_, i) => openBucket(`torture ${i}`).locks);
  return [locks, ...others];
}

class Actor {
  #random;

  constructor(board, { slot, seed, subject, buckets, names, steal, waiting, ends, hostile }) {
    this.board = board;
    this.slot = slot;
    this.steal = steal;
    this.waiting = waiting;
    this.ends = ends;
    this.managers = managersOf(subject, buckets);
    this.namesEach = names / this.managers.length;
    this.#random = generator(seed);
    this.semaphores = subject !== 'node';
    if (hostile) this.hostile = new Hostile(this);
  }

  chance(probability) {
    return this.#random() < probability;
  }

  below(limit) {
    return Math.floor(this.#random() * limit);
  }

  /** Low numbers more often, so that there is contention with many names, too. */
  pickName() {
    const bucket = this.below(this.managers.length);
    const name = Math.floor(this.#random() ** 3 * this.namesEach);
    return { manager: this.managers[bucket], name: bucket * this.namesEach + name };
  }

  async run(loops) {
    const beat = setInterval(() => Atomics.add(this.board.heartbeat, this.slot, 1), 5);
    await Promise.all(Array.from({ length: loops }, () => this.#loop()));
    clearInterval(beat);
  }

  async #loop() {
    while (!this.board.stopped) {
      await this.once();
      if (this.chance(0.1)) await tests.immediate();
      if (this.ends && this.chance(0.00005)) this.#endThread();
    }
  }

  #options(stealable) {
    if (!this.waiting) return { mode: 'exclusive', ifAvailable: true };
    if (stealable && this.chance(0.05)) return { steal: true };
    const mode = this.chance(0.35) ? 'shared' : 'exclusive';
    if (this.chance(0.1)) return { mode, ifAvailable: true };
    if (this.chance(0.15)) return { mode, signal: this.#abortSoon() };
    return { mode };
  }

  #abortSoon() {
    const controller = new AbortController();
    this.hostile?.keep(controller);
    const abort = () => controller.abort('aborted');
    const when = this.below(5);
    if (when === 0) queueMicrotask(abort);
    else if (when === 1) setImmediate(abort);
    else setTimeout(abort, this.below(4)).unref();
    return controller.signal;
  }

  /** One name in four is for stealing: there, who holds and in which order cannot be checked. */
  isStealable(name) {
    return this.steal && name % 4 === 3;
  }

  /** One name in eight is a semaphore: its shared locks have a limit and a weight. */
  withUnits(options, name) {
    if (!this.semaphores || name % 8 !== 2 || options.mode !== 'shared') return options;
    return { ...options, limit: LIMIT, weight: 1 + this.below(LIMIT) };
  }

  async once() {
    const { manager, name } = this.pickName();
    const stealable = this.isStealable(name);
    const options = this.withUnits(this.#options(stealable), name);
    const times = { begun: this.board.tick(), made: 0 };
    this.board.count('requests');
    const title = `name ${name}`;
    const given = this.hostile?.disguise(options, title) ?? { options, name: title };
    const released = manager.request(given.name, given.options, (lock) =>
      this.#inside(lock, name, options, times, stealable),
    );
    times.made = this.board.tick();
    await released.catch((error) => this.#rejected(error));
  }

  #rejected(error) {
    if (error === 'aborted') this.board.count('aborts');
    else if (error === 'thrown' || Hostile.threw(error)) return;
    else if (error?.name === 'AbortError') this.board.count('robbed');
    else throw error;
  }

  #inside(lock, name, options, { begun, made }, stealable) {
    if (lock === null) return this.board.count('misses');
    if (options.steal) this.board.count('steals');
    if (stealable) {
      this.board.count('grants');
      return this.#work(() => {});
    }
    this.board.enter(this.slot, name, options);
    this.board.checkOrder(name, lock.mode, begun, made);
    return this.#work(() => this.board.leave(this.slot, name, options));
  }

  /** Holds the lock for a while; `leave` is called at the end. */
  #work(leave) {
    const how = this.below(100);
    if (how < 40) {
      leave();
      if (how < 5) throw 'thrown';
      return undefined;
    }
    if (how < 70) return tests.microtask().then(leave);
    if (how < 90) return tests.immediate().then(leave);
    if (how === 99 && this.ends && this.chance(0.02)) return this.#hang();
    return sleep(this.below(3)).then(() => {
      leave();
      if (how < 93) throw 'thrown';
    });
  }

  /** Never lets go: until the main thread kills this one. */
  #hang() {
    this.board.doom(this.slot);
    parentPort.postMessage('hangs');
    return new Promise(() => {});
  }

  /** Ends the thread, whatever it holds and waits for. */
  #endThread() {
    this.board.doom(this.slot);
    this.board.count('ends');
    if (this.chance(0.5)) process.exit(0);
    throw new Error('the end of an actor');
  }
}

if (!isMainThread && workerData?.actor) {
  const board = new Board(workerData.board);
  new Actor(board, workerData.actor).run(workerData.loops);
  parentPort.postMessage('started');
}

module.exports = { Actor, generator };
