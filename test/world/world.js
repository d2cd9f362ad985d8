'use strict';

/**
 * A world with a time of its own: it goes on when a test says so. Machines in it have clocks that
 * run at rates of their own, can be stopped (SIGSTOP: clocks go on, nothing runs) and put to sleep
 * (the monotonic clock stands still, too), and talk to each other by links. The wall clock can be
 * set; the continuous one counts sleep and is not set.
 */

/** Lets everything run that is due in this process. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

class World {
  now = 0;
  #events = [];
  #numbers = 0;

  /** Calls something in so many milliseconds of the world. */
  after(milliseconds, call) {
    const event = { at: this.now + milliseconds, number: ++this.#numbers, call };
    let i = this.#events.length;
    while (i > 0 && this.#events[i - 1].at > event.at) i--;
    this.#events.splice(i, 0, event);
    return event;
  }

  cancel(event) {
    const i = this.#events.indexOf(event);
    if (i >= 0) this.#events.splice(i, 1);
  }

  async advance(milliseconds) {
    const end = this.now + milliseconds;
    await settle();
    while (this.#events.length > 0 && this.#events[0].at <= end) {
      const event = this.#events.shift();
      this.now = event.at;
      event.call();
      await settle();
    }
    this.now = end;
  }

  /** Goes on until something is so, for so long at most. */
  async until(isSo, milliseconds = 60_000) {
    const end = this.now + milliseconds;
    await settle();
    while (!(await isSo())) {
      const event = this.#events[0];
      if (!event || event.at > end) throw new Error(`it is not so at ${this.now} ms`);
      await this.advance(event.at - this.now);
    }
  }
}

/** The functions of a clock, which are called without it as well. */
const CLOCK = ['monotonic', 'wall', 'continuous', 'setTimeout', 'clearTimeout'].concat(
  ...['setImmediate', 'nextTick', 'ref', 'unref'],
);

/** A machine with one process. Has what lib/cluster/session/clock.js asks for. */
class Machine {
  #world;
  #rate;
  #since = 0;
  #monotonic = 0;
  #continuous = 0;
  #wallOffset = 1_700_000_000_000;
  #isContinuous;
  #isAsleep = false;
  #backlog = [];
  isStopped = false;
  /** Timers that keep the process alive. */
  refs = 0;
  timers = 0;

  /** @param options `isContinuous`: false for a system that has no continuous clock */
  constructor(world, { rate = 1, random = Math.random, isContinuous = true } = {}) {
    this.#world = world;
    this.#rate = rate;
    this.#isContinuous = isContinuous;
    this.random = random;
    for (const name of CLOCK) this[name] = this[name].bind(this);
  }

  #go() {
    const passed = this.#world.now - this.#since;
    this.#since = this.#world.now;
    if (!this.#isAsleep) this.#monotonic += passed * this.#rate;
    this.#continuous += passed * this.#rate;
    this.#wallOffset += passed * this.#rate;
  }

  monotonic() {
    this.#go();
    return this.#monotonic;
  }

  wall() {
    this.#go();
    return this.#wallOffset;
  }

  continuous() {
    this.#go();
    return this.#isContinuous ? this.#continuous : this.#monotonic;
  }

  /** Sets the wall clock. */
  setWallBy(milliseconds) {
    this.#wallOffset += milliseconds;
  }

  setTimeout(callback, milliseconds) {
    const timer = { isRef: true, isOver: false, at: this.monotonic() + milliseconds, callback };
    this.refs++;
    this.timers++;
    this.#arm(timer);
    return timer;
  }

  #arm(timer) {
    const rest = Math.max(timer.at - this.monotonic(), 0) / this.#rate;
    timer.event = this.#world.after(rest, () => {
      this.run(() => {
        if (timer.isOver) return;
        if (timer.at > this.monotonic() + 1e-6) {
          this.#arm(timer);
          return;
        }
        this.#end(timer);
        timer.callback();
      });
    });
  }

  #end(timer) {
    timer.isOver = true;
    this.timers--;
    if (timer.isRef) this.refs--;
  }

  /** Before the world goes on. */
  setImmediate(callback) {
    Promise.resolve().then(callback);
  }

  nextTick(callback) {
    this.setImmediate(callback);
  }

  clearTimeout(timer) {
    if (!timer || timer.isOver) return;
    this.#end(timer);
    this.#world.cancel(timer.event);
  }

  ref(timer) {
    if (!timer.isRef && !timer.isOver) this.refs++;
    timer.isRef = true;
  }

  unref(timer) {
    if (timer.isRef && !timer.isOver) this.refs--;
    timer.isRef = false;
  }

  /** Runs something, or as soon as the process goes on. */
  run(work) {
    if (this.isStopped) this.#backlog.push(work);
    else work();
  }

  stop({ asleep = false } = {}) {
    this.#go();
    this.isStopped = true;
    this.#isAsleep = asleep;
  }

  resume() {
    this.#go();
    this.isStopped = false;
    this.#isAsleep = false;
    const backlog = this.#backlog;
    this.#backlog = [];
    for (const work of backlog) work();
  }

  /** kill -9: nothing runs any more. */
  kill() {
    this.isStopped = true;
    this.#backlog = { push() {} };
  }
}

module.exports = { Machine, World, settle };
