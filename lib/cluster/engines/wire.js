'use strict';

/** Parses what the scripts of PostgreSQL and Redis send: a code per answer, a line per hint. */

const {
  ENDED,
  NOT_HELD,
  NOT_MARKED,
  PASSED,
  PUBLISHED,
  QUEUED,
  QUEUE_FULL,
  UNAVAILABLE,
  granted,
  otherLimit,
  whoOf,
} = require('../adapter.js');

/** @import { AdapterEvents, Answer, Entry, Op } from '../adapter.js' */

/**
 * The codes with which a script refuses a whole step. DEAD: the session does not exist. STALE: a
 * newer connection has replaced the caller's, or the step was executed so long ago that the server
 * no longer keeps its answers. EARLY: the server has not executed the previous step.
 */
const DEAD = '-2';
const STALE = '-5';
const EARLY = '-8';

/**
 * Parses the code of one answer. A positive code is the token of a grant, and 0 means QUEUED. The
 * negative codes are -1 UNAVAILABLE, -3 QUEUE_FULL, -4 ENDED, -6 NOT_MARKED, -9 PASSED, and
 * -10 - n OTHER_LIMIT, where n is the name's limit. For a publication, -4 means PUBLISHED, and -6
 * NOT_HELD.
 * @param {string} code @param {Op} op @returns {Answer}
 */
function answerOf(code, { kind }) {
  if (kind === 'publish') return code === '-4' ? PUBLISHED : NOT_HELD;
  if (code[0] !== '-') return code === '0' ? QUEUED : granted(BigInt(code));
  if (code === '-4') return ENDED;
  if (code === '-6') return NOT_MARKED;
  if (code === '-9') return PASSED;
  if (code === '-1') return UNAVAILABLE;
  if (code === '-3') return QUEUE_FULL;
  return otherLimit(-10 - Number(code));
}

/**
 * @param {AdapterEvents} events
 * @param {string} line `g ref token` for a grant, `s ref thief` for a theft, or `s ref ` (without
 *   a thief) for a request that has passed
 */
function emitHint(events, line) {
  const space = line.indexOf(' ', 2);
  const ref = Number(line.slice(2, space));
  const what = line.slice(space + 1);
  if (line[0] === 'g') events.granted(ref, BigInt(what));
  else if (line[0] === 's') events.stolen(ref, what);
}

/**
 * @param {{ ref: string, name: string, isShared: boolean, token: string, info: string,
 *   limit: string, weight: string, label: string, priority: string, waited: number, held: number,
 *   data: string }} row numbers are text; `info` is the session's, in JSON
 * @returns {Entry}
 */
function toEntry({ info, isShared, ref, token, weight, priority, ...row }) {
  const limit = isShared ? Number(row.limit) : 0;
  return {
    ...row,
    ...whoOf(JSON.parse(info)),
    limit,
    ref: Number(ref),
    mode: isShared ? 'shared' : 'exclusive',
    token: BigInt(token),
    weight: limit > 0 ? Number(weight) : 0,
    priority: Number(priority),
  };
}

module.exports = { DEAD, EARLY, STALE, answerOf, emitHint, toEntry };
