'use strict';

/**
 * Makes a page from the profiles of one or more processes. User texts (names, labels, call sites)
 * never become markup: they are JSON without a `<`, and the page's script puts them in text nodes.
 */

const fs = require('node:fs');
const path = require('node:path');
const { getSystemErrorMap } = require('node:util');
const { assemble } = require('../page/assemble.js');
const { isLocalToProcess, merge } = require('./merge.js');

/** Thrown if a profile cannot be read or has the wrong format, or if the page cannot be written. */
class ReportError extends Error {}

/**
 * Turns an error of the call into a ReportError.
 * @template T
 * @param {string} what begins the error message @param {() => T} call @returns {T}
 */
function callFileSystem(what, call) {
  try {
    return call();
  } catch (cause) {
    const { errno = 0, message } = /** @type {NodeJS.ErrnoException} */ (cause);
    throw new ReportError(`${what}: ${getSystemErrorMap().get(errno)?.[1] ?? message}.`, { cause });
  }
}

const PAGE = {
  folder: path.join(__dirname, 'page'),
  template: 'page.template',
  style: 'page.css',
  common: ['elements.js'],
  scripts: ['model.js', 'show.js', 'locks.js', 'timeline.js', 'requests.js', 'main.js'],
};

/**
 * Writes the page to `output`. Returns how many requests it has, and how many were dropped during
 * the recording.
 * @param {string[]} files at least one profile @param {string} output @throws {ReportError}
 */
function report(files, output) {
  const data = dataOf(files, files.map(read));
  callFileSystem(`${output} cannot be written`, () => fs.writeFileSync(output, pageOf(data)));
  const dropped = data.processes.reduce((sum, { about }) => sum + about.dropped, 0);
  return { requests: data.asked.length, dropped };
}

/** @param {string} file @returns {any} a profile, of which only two fields are checked */
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

/** @typedef {{ file: string, about: any, offset: import('./merge.js').Offset }} Process */

/**
 * Makes the input of the page's script: columns with an entry for each request, in which times are
 * in microseconds, and `asked` is 0 for the first request.
 * @param {string[]} files @param {import('./merge.js').Trace[]} traces
 * @returns {{ processes: Process[], asked: number[], [column: string]: any }}
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
    // A missing label or error is -1.
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
