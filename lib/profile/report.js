'use strict';

/**
 * Makes a page of a profile: one file that needs nothing else, and loads nothing.
 *
 * All that users chose (names, labels, call sites) is data in the page, never markup: it is JSON
 * without a `<`, which the page's script puts into text nodes. The page's own policy lets no other
 * script and no other style be.
 */

const { createHash } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { getSystemErrorMap } = require('node:util');

/** The profile cannot be read, or is none, or the page cannot be written. */
class Unusable extends Error {}

/**
 * @template T
 * @param {string} what cannot be done
 * @param {() => T} call of the file system
 * @returns {T}
 */
function attempt(what, call) {
  try {
    return call();
  } catch (cause) {
    const { errno = 0, message } = /** @type {NodeJS.ErrnoException} */ (cause);
    throw new Unusable(`${what}: ${getSystemErrorMap().get(errno)?.[1] ?? message}.`, { cause });
  }
}

/**
 * @param {string} name
 * @returns {string} a part of the page
 */
const part = (name) => fs.readFileSync(path.join(__dirname, 'page', name), 'utf8');

/**
 * @param {string} file a profile
 * @param {string} output where to write the page
 * @returns {{ requests: number, dropped: number }} what is in it
 * @throws {Unusable}
 */
function report(file, output) {
  const data = dataOf(file, read(file));
  attempt(`${output} cannot be written`, () => fs.writeFileSync(output, pageOf(data)));
  return { requests: data.asked.length, dropped: data.about.dropped };
}

/** @param {string} file @returns {any} a profile, with all that dataOf reads of it */
function read(file) {
  const text = attempt(`${file} cannot be read`, () => fs.readFileSync(file, 'utf8'));
  let trace;
  try {
    trace = JSON.parse(text);
  } catch (cause) {
    throw new Unusable(`${file} ${whatIsWrong(text)}.`, { cause });
  }
  if (trace?.otherData?.producer === 'web-locks' && Array.isArray(trace.traceEvents)) return trace;
  throw new Unusable(`${file} is not a profile of web-locks.`);
}

/** @param {string} text that is not JSON */
function whatIsWrong(text) {
  if (text.trim() === '') return 'is empty';
  // Its program was killed while it wrote it.
  const isCut = /^\s*\{/.test(text) && !/\]\s*\}\s*$/.test(text.slice(-100));
  return isCut ? 'is not JSON: it ends too early' : 'is not JSON';
}

/** Gives each value a number. */
class Table {
  /** @type {Map<string, number>} */
  #numbers = new Map();
  /** @type {any[]} */
  values = [];

  /**
   * @param {any} value
   * @param {string} [key] what the same values have in common
   */
  numberOf(value, key = String(value)) {
    let number = this.#numbers.get(key);
    if (number === undefined) {
      number = this.values.push(value) - 1;
      this.#numbers.set(key, number);
    }
    return number;
  }
}

/**
 * @param {string} file
 * @param {{ otherData: any, traceEvents: any[] }} trace
 * @returns {any} what page.js reads: columns, an entry for each request;
 *   times in microseconds
 */
function dataOf(file, { otherData, traceEvents }) {
  const names = new Table();
  const texts = new Table();
  const outcomes = new Table();
  const requests = traceEvents.filter(({ cat, ph }) => cat === 'request' && ph === 'X');
  requests.sort((a, b) => a.ts - b.ts);
  const indexOf = new Map(requests.map(({ args }, index) => [args.id, index]));
  /** @param {(request: any) => any} value */
  const column = (value) => requests.map(value);
  const micro = (/** @type {number} */ milliseconds) => Math.round(milliseconds * 1e3);
  return {
    about: { ...otherData, file: path.basename(file) },
    name: column(({ name, args }) => names.numberOf(name, `${args.manager}\n${args.lock}`)),
    label: column(({ args }) => texts.numberOf(args.label ?? '')),
    site: column(({ args }) => texts.numberOf(args.site)),
    thread: column(({ args }) => args.thread),
    outcome: column(({ args }) => outcomes.numberOf(args.outcome)),
    shared: column(({ args }) => Number(args.mode === 'shared')),
    contended: column(({ args }) => Number(args.contended)),
    asked: column(({ ts }) => Math.round(ts)),
    waited: column(({ args }) => micro(args.waited)),
    held: column(({ args }) => micro(args.held)),
    blockers: column(({ args }) =>
      args.blockers
        .map((/** @type {any} */ { id }) => indexOf.get(id))
        .filter((/** @type {any} */ index) => index !== undefined),
    ),
    names: names.values,
    texts: texts.values,
    outcomes: outcomes.values,
  };
}

/** @param {object} data @returns {string} HTML */
function pageOf(data) {
  const style = part('page.css');
  const script = part('page.js');
  const hash = (/** @type {string} */ text) =>
    `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  const policy = `default-src 'none'; style-src ${hash(style)}; script-src ${hash(script)}`;
  /** @type {Record<string, string>} */
  const parts = { policy, style, script, data: JSON.stringify(data).replaceAll('<', '\\u003c') };
  return part('page.template').replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
}

module.exports = { Unusable, report };
