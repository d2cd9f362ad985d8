'use strict';

/**
 * Joins the events of several runs of `node:test` into those of one run, with common numbers, and
 * names at its end what has failed: who sees only the end of a log needs no more.
 */

const path = require('node:path');
const { Readable } = require('node:stream');
const { inspect } = require('node:util');

const COUNTS = ['tests', 'suites', 'pass', 'fail', 'cancelled', 'skipped', 'todo'];
const ENDS = new RegExp(`^(${COUNTS.join('|')}|duration_ms) ([\\d.]+)$`);
/** So many lines of what a test has failed with are said again. */
const LINES = 20;

class Numbers extends Readable {
  #counts = Object.fromEntries(COUNTS.map((name) => [name, 0]));
  #topLevel = 0;
  /** What has failed, and why. @type {string[]} */
  #failures = [];
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
    if (type === 'test:fail') this.#fails(data);
    if ((type === 'test:pass' || type === 'test:fail') && isTop) data.testNumber = ++this.#topLevel;
    this.push({ type, data });
  }

  #fails({ details, file = '', name, todo }) {
    const { cause = '', failureType } = details.error;
    // Those within it are named themselves.
    if (failureType === 'subtestsFailed' || (todo !== undefined && todo !== false)) return;
    const why = inspect(cause, { colors: false }).split('\n').slice(0, LINES);
    const where = path.relative(process.cwd(), file);
    this.#failures.push(`failed: ${where}: ${name}: ${why.join('\n')}`);
  }

  /** Adds the events that end a run. */
  end() {
    const push = (type, data) => this.push({ type, data: { nesting: 0, ...data } });
    const duration = Number(process.hrtime.bigint() - this.#start) / 1e6;
    push('test:plan', { count: this.#topLevel });
    for (const failure of this.#failures)
      for (const message of failure.split('\n')) push('test:diagnostic', { message });
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
