'use strict';

/** Joins the events of several runs of `node:test` into those of one run, with common numbers. */

const { Readable } = require('node:stream');

const COUNTS = ['tests', 'suites', 'pass', 'fail', 'cancelled', 'skipped', 'todo'];
const ENDS = new RegExp(`^(${COUNTS.join('|')}|duration_ms) ([\\d.]+)$`);

class Numbers extends Readable {
  #counts = Object.fromEntries(COUNTS.map((name) => [name, 0]));
  #topLevel = 0;
  #start = process.hrtime.bigint();

  constructor() {
    super({ objectMode: true, read() {} });
  }

  /** Whether tests ran, and none failed. */
  get isGood() {
    const { cancelled, fail, tests } = this.#counts;
    return tests > 0 && fail === 0 && cancelled === 0;
  }

  /** @param {any[]} events all events of one run */
  add(events) {
    for (const event of events) this.#take(event);
  }

  #take({ type, data }) {
    const isTop = data?.nesting === 0;
    if (type === 'test:summary' || (type === 'test:plan' && isTop)) return;
    const [, name, number] = (type === 'test:diagnostic' && isTop && ENDS.exec(data.message)) || [];
    if (name) {
      if (name in this.#counts) this.#counts[name] += Number(number);
      return;
    }
    if ((type === 'test:pass' || type === 'test:fail') && isTop) data.testNumber = ++this.#topLevel;
    this.push({ type, data });
  }

  /** Adds the events that end a run. */
  end() {
    const push = (type, data) => this.push({ type, data: { nesting: 0, ...data } });
    const duration = Number(process.hrtime.bigint() - this.#start) / 1e6;
    push('test:plan', { count: this.#topLevel });
    for (const name of COUNTS)
      push('test:diagnostic', { message: `${name} ${this.#counts[name]}` });
    push('test:diagnostic', { message: `duration_ms ${duration}` });
    const counts = { ...this.#counts, topLevel: this.#topLevel, passed: this.#counts.pass };
    this.push({
      type: 'test:summary',
      data: { success: this.isGood, counts, duration_ms: duration },
    });
    this.push(null);
  }
}

module.exports = { Numbers };
