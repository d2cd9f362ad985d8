'use strict';

/**
 * Makes a page from the profiles of one or several processes: one file that loads nothing. Texts of
 * users (names, labels, call sites) are data in the page, never markup: JSON without a `<`, which
 * the page's script puts into text nodes.
 */

const fs = require('node:fs');
const path = require('node:path');
const { getSystemErrorMap } = require('node:util');
const { assemble } = require('../page/assemble.js');
const { isLocalToProcess, merge } = require('./merge.js');

/** Thrown if a profile cannot be read or has the wrong format, or if the page cannot be written. */
class ReportError extends Error {}

/**
 * @template T
 * @param {string} what the failed operation, for the message
 * @param {() => T} call uses the file system
 * @returns {T}
 */
function callFileSystem(what, call) {
  try {
    return call();
  } catch (cause) {
    const { errno = 0, message } = /** @type {NodeJS.ErrnoException} */ (cause);
    throw new ReportError(`${what}: ${getSystemErrorMap().get(errno)?.[1] ?? message}.`, { cause });
  }
}

/** The files of the page. */
const PAGE = {
  folder: path.join(__dirname, 'page'),
  template: 'page.template',
  style: 'page.css',
  common: ['elements.js'],
  scripts: ['model.js', 'show.js', 'locks.js', 'timeline.js', 'requests.js', 'main.js'],
};

/**
 * @param {string[]} files at least one profile
 * @param {string} output the path of the page
 * @returns {{ requests: number, dropped: number }} how many requests the page has, and how many
 *   were dropped during recording
 * @throws {ReportError}
 */
function report(files, output) {
  const data = dataOf(files, files.map(read));
  callFileSystem(`${output} cannot be written`, () => fs.writeFileSync(output, pageOf(data)));
  const dropped = data.processes.reduce((sum, { about }) => sum + about.dropped, 0);
  return { requests: data.asked.length, dropped };
}

/** @param {string} file @returns {any} the profile; its fields are not checked, except for two */
function read(file) {
  const text = callFileSystem(`${file} cannot be read`, () => fs.readFileSync(file, 'utf8'));
  let trace;
  try {
    trace = JSON.parse(text);
  } catch (cause) {
    throw new ReportError(`${file} ${describeFault(text)}.`, { cause });
  }
  if (trace?.otherData?.producer === 'web-locks' && Array.isArray(trace.traceEvents)) return trace;
  throw new ReportError(`${file} is not a profile of web-locks.`);
}

/** @param {string} text invalid JSON */
function describeFault(text) {
  if (text.trim() === '') return 'is empty';
  // If the end is missing, the program was probably killed while it wrote the file.
  const isCut = /^\s*\{/.test(text) && !/\]\s*\}\s*$/.test(text.slice(-100));
  return isCut ? 'is not JSON: it ends too early' : 'is not JSON';
}

/** A table that gives each distinct value a number. */
class Table {
  /** @type {Map<string, number>} */
  #numbers = new Map();
  /** @type {any[]} */
  values = [];

  /** @param {any} value @param {string} [key] equal for equal values */
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
 * @typedef {object} Process
 * @property {string} file the name of its profile
 * @property {any} about the profile's data about the process
 * @property {import('./merge.js').Offset} offset of its clock
 */

/**
 * @param {string[]} files @param {import('./merge.js').Trace[]} traces
 * @returns {{ processes: Process[], asked: number[], [column: string]: any }} the input of the
 *   page's script: columns with an entry for each request; times are microseconds since the first
 *   request
 */
function dataOf(files, traces) {
  const names = new Table();
  const texts = new Table();
  const outcomes = new Table();
  const { requests, offsets } = merge(traces);
  const indexOf = new Map(requests.map((request, index) => [request, index]));
  const first = requests[0]?.asked ?? 0;
  const micro = (/** @type {number} */ milliseconds) => Math.round(milliseconds * 1e3);
  /** @param {(request: import('./merge.js').Merged) => any} value */
  const column = (value) => requests.map(value);
  // If a lock is local to a process, the same name in another process is another lock.
  const keyOf = (/** @type {import('./merge.js').Merged} */ { args, process }) =>
    `${isLocalToProcess(args) ? process : ''}\n${args.manager}\n${args.lock}`;
  return {
    processes: traces.map(({ otherData }, index) => ({
      file: path.basename(files[index]),
      about: otherData,
      offset: offsets[index],
    })),
    first: first - Number(traces[0].otherData.zero ?? 0),
    name: column((request) => names.numberOf(request.title, keyOf(request))),
    process: column(({ process }) => process),
    // A missing label is -1.
    label: column(({ args: { label } }) => (label === undefined ? -1 : texts.numberOf(label))),
    site: column(({ args }) => texts.numberOf(args.site ?? '')),
    error: column(({ args: { error } }) => (error === undefined ? -1 : texts.numberOf(error))),
    thread: column(({ args }) => args.thread),
    outcome: column(({ args }) => outcomes.numberOf(args.outcome)),
    shared: column(({ args }) => Number(args.mode === 'shared')),
    contended: column(({ args }) => Number(args.contended)),
    asked: column(({ asked }) => micro(asked - first)),
    waited: column(({ args }) => micro(args.waited)),
    held: column(({ args }) => micro(args.held)),
    blockers: column(({ blockers }) => blockers.map((blocker) => indexOf.get(blocker))),
    names: names.values,
    texts: texts.values,
    outcomes: outcomes.values,
  };
}

/** @param {object} data */
function pageOf(data) {
  const more = { data: JSON.stringify(data).replaceAll('<', '\\u003c') };
  return assemble({ ...PAGE, more }).html;
}

module.exports = { ReportError, report };
