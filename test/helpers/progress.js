'use strict';

/**
 * Prints a run of test files: each file as it ends, and files that run for long; at the end the
 * failures with the commands that repeat them, what was skipped and why, the counts and the time.
 * On a terminal the bottom line shows the state of the run.
 */

const path = require('node:path');
const { inspect } = require('node:util');

/** Milliseconds between two updates of the line at the bottom of a terminal. */
const REFRESH_MS = 200;
/** Without a terminal, the running files are named after so many milliseconds without a line. */
const SILENCE_MS = 30_000;
/** How many lines of an error are printed, and of the output of a file whose process failed. */
const [ERROR_LINES, OUTPUT_LINES] = [30, 60];

/** The reason with which Node.js skips tests that do not match `--name`. */
const OTHER_NAME = 'test name does not match pattern';

/** @param {number} ms */
function durationOf(ms) {
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  return s < 120 ? `${Math.floor(s)} s` : `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
}

/** @param {string} word for the shell */
const quoted = (word) => (/^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/** @param {string} text for a regular expression */
const escaped = (text) => text.replaceAll(/[.*+?^${}()|[\]\\/]/g, '\\$&');

/** @param {unknown} error of `node:test` @returns {string} the reason why the test failed */
function reasonOf(error) {
  const { cause = error } = /** @type {any} */ (error);
  const lines = inspect(cause, { colors: false }).split('\n');
  const rest = lines.length - ERROR_LINES;
  return [...lines.slice(0, ERROR_LINES), ...(rest > 0 ? [`… ${rest} more lines`] : [])].join('\n');
}

/**
 * @param {Running} running
 * @param {any} error
 * @returns {string} the reason why its process failed
 */
function reasonOfFile({ output }, error) {
  const { exitCode, signal } = error;
  const how = signal ? `was killed by ${signal}` : `ended with ${exitCode}`;
  const lines = output.trim().split('\n').slice(-OUTPUT_LINES);
  return [`${reasonOf(error)}: its process ${how} and printed:`, ...lines].join('\n');
}

/** @param {string} text @param {string} prefix of each line */
const indented = (text, prefix) => prefix + text.replaceAll('\n', `\n${prefix}`);

/** A test file while it runs. */
class Running {
  tests = 0;
  failed = 0;
  begin = performance.now();
  /** The output of the file itself. */
  output = '';

  /** @param {string} name */
  constructor(name) {
    this.name = name;
  }

  get time() {
    return durationOf(performance.now() - this.begin);
  }
}

class Progress {
  #begin = performance.now();
  #ended = 0;
  #total;
  #out;
  #counts = { pass: 0, fail: 0, skipped: 0 };
  /** @type {Set<Running>} */
  #running = new Set();
  /** @type {string[]} */
  #failures = [];
  /** The files of which all or some tests were skipped, by reason. @type {Map<string, string[]>} */
  #skips = new Map();
  #lastLine = performance.now();
  /** Whether the last line on the terminal shows the state. */
  #hasStatus = false;
  #timer;

  /** @param {number} total how many files will run @param {NodeJS.WriteStream} out */
  constructor(total, out = process.stdout) {
    this.#total = total;
    this.#out = out;
    this.#timer = setInterval(() => this.#update(), out.isTTY ? REFRESH_MS : SILENCE_MS / 10);
  }

  /** Whether tests ran and none failed. */
  get isGood() {
    return this.#counts.pass > 0 && this.#counts.fail === 0;
  }

  /** Notes a file that is skipped. @param {string} name @param {string} reason */
  skip(name, reason) {
    this.#addSkip(reason, name);
  }

  /** @param {string} name of a file that starts */
  start(name) {
    const running = new Running(name);
    this.#running.add(running);
    return running;
  }

  /** @param {Running} running @param {any} event of `node:test` */
  take(running, { type, data }) {
    if (type === 'test:stdout' || type === 'test:stderr') running.output += data.message;
    if (type === 'test:pass' || type === 'test:fail') this.#takeResult(running, type, data);
  }

  #takeResult(running, type, data) {
    const { details, skip, todo } = data;
    if (skip === OTHER_NAME) return;
    const error = details.error;
    // The tests of a suite are counted individually.
    if (error?.failureType === 'subtestsFailed' || details.type === 'suite') {
      if (error && error.failureType !== 'subtestsFailed') this.#addFailure(running, data);
      else if (skip !== undefined && skip !== false) this.#addSkip(reasonFor(skip), running.name);
      return;
    }
    running.tests++;
    if (skip !== undefined && skip !== false) {
      this.#counts.skipped++;
      this.#addSkip(reasonFor(skip), running.name);
    } else if (type === 'test:pass' || (todo !== undefined && todo !== false)) this.#counts.pass++;
    else this.#addFailure(running, data);
  }

  #addFailure(running, { details, name, file }) {
    running.failed++;
    this.#counts.fail++;
    const isWholeFile = path.basename(name) === path.basename(file ?? '') && path.isAbsolute(name);
    const again = ['npm test --', quoted(`test/${running.name}.test.js`)];
    if (!isWholeFile) again.push('--name', quoted(escaped(name)));
    const what = isWholeFile ? 'the file itself' : name;
    const reason = isWholeFile ? reasonOfFile(running, details.error) : reasonOf(details.error);
    const failure = [
      `✖ test/${running.name}.test.js: ${what}`,
      indented(reason, '    '),
      `  again: ${again.join(' ')}`,
    ].join('\n');
    this.#failures.push(failure);
    this.#print(failure);
  }

  #addSkip(reason, name) {
    this.#skips.set(reason, [...(this.#skips.get(reason) ?? []), name]);
  }

  /** @param {Running} running a file that has ended */
  end(running) {
    this.#running.delete(running);
    this.#ended++;
    const { failed, name, output, tests, time } = running;
    const result = failed === 0 ? `✔ ${name}` : `✖ ${name}: ${failed} failed`;
    const head = `${result} (${tests} ${tests === 1 ? 'test' : 'tests'}, ${time})`;
    this.#print(output === '' ? head : `${head}\n${indented(output.trimEnd(), '  | ')}`);
  }

  finish() {
    clearInterval(this.#timer);
    this.#clearStatus();
    const { fail, pass, skipped } = this.#counts;
    const lines = [''];
    if (fail > 0) lines.push('What failed:', '', ...this.#failures.map((text) => `${text}\n`));
    if (this.#skips.size > 0) lines.push(`skipped: ${this.#skipped()}`);
    lines.push(`${this.#ended} files in ${durationOf(performance.now() - this.#begin)}`);
    lines.push(`${pass} passed, ${fail} failed, ${skipped} skipped`, '');
    this.#out.write(lines.join('\n'));
  }

  /** @returns {string} one line: how many tests and files were skipped, and why */
  #skipped() {
    const rows = [...this.#skips].sort(([, a], [, b]) => b.length - a.length);
    return rows.map(([reason, names]) => `${names.length} (${reason})`).join('; ');
  }

  #print(text) {
    this.#clearStatus();
    this.#out.write(`${text}\n`);
    this.#lastLine = performance.now();
  }

  #clearStatus() {
    if (this.#hasStatus) this.#out.write('\r\x1b[K');
    this.#hasStatus = false;
  }

  #state() {
    const { fail, pass } = this.#counts;
    const longest = [...this.#running].sort((a, b) => a.begin - b.begin);
    const names = longest.map(({ name, tests, time }) => `${name} (${tests} tests, ${time})`);
    const counts = `${this.#ended}/${this.#total} files, ${pass} passed, ${fail} failed`;
    const time = durationOf(performance.now() - this.#begin);
    return `${time}: ${counts}; running: ${names.join(', ')}`;
  }

  #update() {
    if (this.#out.isTTY) {
      this.#clearStatus();
      this.#out.write(this.#state().slice(0, this.#out.columns - 1));
      this.#hasStatus = true;
    } else if (performance.now() - this.#lastLine >= SILENCE_MS) this.#print(this.#state());
  }
}

/** @param {unknown} skip of an event */
const reasonFor = (skip) => (typeof skip === 'string' && skip !== '' ? skip : 'not for this run');

module.exports = { Progress };
