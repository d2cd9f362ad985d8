'use strict';

/**
 * The history of a round: what each actor asked for and was told, one JSON object a line, in a file
 * of each actor's own. Written at once, so that a killed actor has told all it knew.
 *
 *   asked     { id, call, bucket, kind, names, options, facts, expected } before the call
 *   made      { id } the call has returned
 *   granted   { id, k, name, mode, token, held, inner } users' code got the k-th lock; `inner`: the
 *             request whose lock serves it
 *   told      { id, k, reason } the signal of the lock was aborted
 *   ended     { id, k, last, threw } users' code is done with it; `last`: when `held` was last true
 *   released  { id } what was released by a handle is given back
 *   missed    { id } null instead of a lock
 *   aborted   { id } its signal was aborted
 *   settled   { id, error, grantsIn, holders, ran } its promise has settled; `holders`: how many an
 *             error lists, of how many, and whether that is frozen
 *   snapshot  { began, bucket, name, held, pending, grantsIn } what a query with details told
 *   fault     { judge, what } something that the actor itself saw to be wrong
 *   doomed    {} it is about to end, or to be killed: nothing is expected of it any more
 *   gone      { bucket } it closed a bucket of its own, with all that was asked there
 *
 * All have `type`, `actor` and `at`, milliseconds of a clock that all actors have in common.
 */

const fs = require('node:fs');

/** Milliseconds of CLOCK_MONOTONIC, the same for all threads and processes of a machine. */
const now = () => {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
};

class Recorder {
  #file;
  #now;
  /** How many events there were. */
  count = 0;

  constructor(path, actor, clock = now) {
    this.actor = actor;
    this.#file = fs.openSync(path, 'a');
    this.#now = clock;
  }

  record(type, more = undefined) {
    // A beat of its heart is no progress.
    if (type !== 'beat') this.count++;
    const event = { type, actor: this.actor, at: this.#now(), ...more };
    fs.writeSync(this.#file, `${JSON.stringify(event)}\n`);
    return event.at;
  }

  close() {
    fs.closeSync(this.#file);
  }
}

/** @returns {any[]} the events of files, in the order of their times */
function readHistory(paths) {
  const events = [];
  for (const path of paths) {
    for (const line of fs.readFileSync(path, 'utf8').split('\n')) {
      // The last line of an actor that was killed may be half of one.
      if (!line.endsWith('}')) continue;
      events.push(JSON.parse(line));
    }
  }
  // The sort is stable: events of an actor at the same time stay in their order.
  return events.sort((one, other) => one.at - other.at);
}

module.exports = { Recorder, now, readHistory };
