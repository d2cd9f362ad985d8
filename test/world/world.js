'use strict';

/**
 * A world with simulated time, which passes when a test advances it. Its machines have clocks with
 * rates of their own, can be stopped (SIGSTOP: clocks run, code does not) and put to sleep (the
 * monotonic clock stops, too), and are connected by links. The wall clock can be set; the
 * continuous one includes sleep and cannot be set.
 */

/** Lets all code run that is due in this process. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

class World {
  now = 0;
  #events = [];
  #numbers = 0;

  /** Calls `call` after so many milliseconds of the world. */
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

  /** Advances the world until a condition holds, at most for so long. */
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

/** The functions of a clock, which are also called as plain functions. */
const CLOCK = ['monotonic', 'wall', 'continuous', 'setTimeout', 'clearTimeout'].concat(
  ...['setImmediate', 'nextTick', 'ref', 'unref'],
);

/** A machine with one process. It implements the clock of lib/cluster/session/clock.js. */
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
  /** How many timers keep the process alive. */
  refs = 0;
  timers = 0;

  /** @param options `isContinuous`: false for a system without a continuous clock */
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

  /** Runs the callback before the world advances. */
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

  /** Runs `work` now, or as soon as the process continues. */
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

  /** Kills the process (SIGKILL): its code never runs again. */
  kill() {
    this.isStopped = true;
    this.#backlog = { push() {} };
  }
}

module.exports = { Machine, World, settle };
