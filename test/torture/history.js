'use strict';

/**
 * The history of a round: what each actor requested and what it saw, one JSON object a line. Each
 * actor appends to a file of its own at once, so that nothing is missing if it is killed.
 *
 *   asked     { id, call, bucket, kind, names, options, facts, inner, expected } before the call;
 *             `inner`: the request whose lock serves it
 *   made      { id } the call has returned
 *   granted   { id, k, name, mode, token, held, inner } users' code got the k-th lock
 *   notified  { id, k, reason } the signal of the lock was aborted
 *   ended     { id, k, last, threw } users' code is done with it; `last`: when `held` was last true
 *   released  { id } the lock of a handle, or of a function that releases, is released
 *   missed    { id } null instead of a lock
 *   aborted   { id } the signal of the request was aborted
 *   settled   { id, error, grantsIn, holders, ran } the promise has settled; `holders`: how many an
 *             error lists, of how many, and whether the list is frozen
 *   publishes, published  { id, k, n, data, done } before and after the n-th publication of a lock
 *   snapshot  { began, bucket, name, held, pending, grantsIn } the result of a query with details
 *   fault     { judge, what } an error that the actor itself detected
 *   updated   { id, element, held } a set has one more element (set.js); `held` as the lock then
 *             reported it
 *   sets      { lines } the sets at the end
 *   doomed    { whom } an actor is about to end or to be killed: nothing is expected of it any more
 *   gone      { bucket } the actor closes a bucket object of its own, with all its requests
 *
 * Each object also has `type`, `actor` and `at`, milliseconds of a clock that all actors share.
 */

const fs = require('node:fs');
const path = require('node:path');

/** Milliseconds of CLOCK_MONOTONIC, the same for all threads and processes of a machine. */
const now = () => {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e3 + nanoseconds / 1e6;
};

class Recorder {
  #file;
  #now;
  /** How many events there were, without beats. */
  count = 0;

  constructor(folder, actor, clock = now) {
    this.actor = actor;
    this.#file = fs.openSync(path.join(folder, 'history', `${actor}.jsonl`), 'a');
    this.#now = clock;
  }

  record(type, more = undefined) {
    if (type !== 'beat') this.count++;
    const event = { type, actor: this.actor, at: this.#now(), ...more };
    fs.writeSync(this.#file, `${JSON.stringify(event)}\n`);
    return event.at;
  }

  close() {
    fs.closeSync(this.#file);
  }
}

/** @returns {any[]} the events of all files of a folder, ordered by time */
function readHistory(folder) {
  const lines = fs
    .readdirSync(folder)
    .flatMap((file) => fs.readFileSync(path.join(folder, file), 'utf8').split('\n'));
  // The last line of a killed actor may be incomplete.
  const events = lines.filter((line) => line.endsWith('}')).map((line) => JSON.parse(line));
  // The sort is stable, so events of an actor at the same time keep their order.
  return events.sort((one, other) => one.at - other.at);
}

module.exports = { Recorder, now, readHistory };
