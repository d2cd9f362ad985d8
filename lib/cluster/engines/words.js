'use strict';

/**
 * The words that servers with scripts say, those of PostgreSQL and of Redis: numbers for answers,
 * and a line for each hint.
 */

const {
  ENDED,
  NOT_MARKED,
  PASSED,
  QUEUED,
  QUEUE_FULL,
  UNAVAILABLE,
  granted,
  otherLimit,
} = require('../adapter.js');

/** @typedef {import('../adapter.js').AdapterEvents} AdapterEvents */
/** @typedef {import('../adapter.js').Answer} Answer */

/**
 * Instead of an answer to a step: the session is not there; a newer connection, or a later step,
 * has replaced it; the step that it comes after is not done.
 */
const DEAD = '-2';
const STALE = '-5';
const EARLY = '-8';

/**
 * @param {string} code a token; '0': it waits; -1: not available; -3: the queue is full; -4: ended;
 *   -6: not marked; -9: passed; -10 - n: the limit of the name is n
 * @returns {Answer}
 */
function answerOf(code) {
  if (code[0] !== '-') return code === '0' ? QUEUED : granted(BigInt(code));
  if (code === '-4') return ENDED;
  if (code === '-6') return NOT_MARKED;
  if (code === '-9') return PASSED;
  if (code === '-1') return UNAVAILABLE;
  if (code === '-3') return QUEUE_FULL;
  return otherLimit(-10 - Number(code));
}

/**
 * Tells what a server has said of its own accord.
 * @param {AdapterEvents} events
 * @param {string} line `g ref token` of a grant; `s ref thief` of a theft, or `s ref ` of a request
 *   that has passed
 */
function tell(events, line) {
  const space = line.indexOf(' ', 2);
  const ref = Number(line.slice(2, space));
  const what = line.slice(space + 1);
  if (line[0] === 'g') events.granted(ref, BigInt(what));
  else if (line[0] === 's') events.stolen(ref, what);
}

module.exports = { DEAD, EARLY, STALE, answerOf, tell };
