'use strict';

/**
 * Writes the history of a round in Jepsen's format, for independent checkers. Each line is the
 * beginning of an operation (`:invoke`) or its end: `:ok`, or `:info` if the end is unknown.
 *
 *   {:process 0, :type :invoke, :f :acquire, :key "torture 7 1 / plain 001", :value nil}
 *
 * - `acquire` and `release` are exclusive locks, for Knossos's model of a mutex. A release begins
 *   when the lock was last seen held, so that the end of a lease counts as one, too.
 * - `append` and `get` are the sets behind a fence (set.js), for porcupine's model of a key-value
 *   store. Writes that the fence refused are left out.
 */

const fs = require('node:fs');
const { writesIn } = require('./set.js');

/** The end of an operation whose end was not seen. */
const NEVER = Number.MAX_VALUE;

/** Yields the operations of each exclusive lock. */
function* locksOf(history) {
  for (const [key, holds] of history.places) {
    for (const hold of holds) {
      const { at, held, inner, mode, number, request } = hold;
      const end = history.endOf(hold);
      if (mode !== 'exclusive' || inner || !held || end < at) continue;
      yield [
        { f: 'acquire', key, number, from: request.asked, to: at },
        { f: 'release', key, number, from: end, to: request.settled?.at ?? NEVER },
      ];
    }
  }
}

/** Yields the operations on each set, and finally one that reads it. */
function* appendsOf(history) {
  const updated = history.events.filter(({ type }) => type === 'updated');
  const ends = new Map(updated.map(({ at, element }) => [element, at]));
  const values = new Map();
  for (const { line, isTaken } of writesIn(history.lines)) {
    if (!isTaken) continue;
    const { element, fenced, place: key } = line;
    const [id, k] = element.split(' ');
    const { at: from, number } = history.requests.get(id).holds.get(Number(k));
    const value = `${element};`;
    yield [{ f: 'append', key, number, from, to: ends.get(element) ?? NEVER, value }];
    const before = values.get(key)?.get(fenced) ?? '';
    values.set(key, (values.get(key) ?? new Map()).set(element, before + value));
  }
  const { at } = history.events.at(-1);
  for (const [key, all] of values)
    yield [{ f: 'get', key, number: 0, from: at, to: at, result: [...all.values()].at(-1) }];
}

/** @returns the lines of a history (judges.js), in order */
function jepsenLines(history) {
  const spans = [...locksOf(history), ...appendsOf(history)];
  spans.sort(([one], [other]) => one.from - other.from);
  /** When the last operation of each process ended. */
  const ends = [];
  const lines = [];
  for (const span of spans) {
    let process = ends.findIndex((end) => end < span[0].from);
    if (process < 0) process = ends.length;
    ends[process] = span.at(-1).to;
    for (const { f, from, key, number, result, to, value } of span) {
      const add = (at, rank, type, given) => {
        const shown = given === undefined ? 'nil' : JSON.stringify(given);
        const fields = `:process ${process}, :type :${type}, :f :${f}, :key "${key}"`;
        lines.push({ at, rank, number, text: `{${fields}, :value ${shown}}` });
      };
      // In simulated time a lock can be granted, end, and be granted again at the same `at`.
      add(from, f === 'release' ? 1 : 0, 'invoke', value);
      add(to, f === 'acquire' ? 1 : 2, to === NEVER ? 'info' : 'ok', result ?? value);
    }
  }
  lines.sort((a, b) => a.at - b.at || a.rank - b.rank || a.number - b.number);
  return lines.map(({ text }) => text);
}

/** @param {string} file */
function writeJepsen(file, history) {
  fs.writeFileSync(file, jepsenLines(history).join('\n').concat('\n'));
}

module.exports = { writeJepsen };
