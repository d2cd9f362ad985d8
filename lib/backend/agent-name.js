'use strict';

/**
 * Packs the names of an agent's program and thread into the one text that the shared tables of the
 * host scope store for them, separated by a NUL.
 */

/** Equals WLH_THREAD_NAME_UNITS; the shared tables truncate longer texts. */
const MOST = 64;
const LEAST = MOST / 2 - 1;

/**
 * If both names are long, each gets half of the text: this function truncates the program's name,
 * and the shared tables truncate the thread's name.
 * @param {string} program without a NUL @param {string} threadName
 */
function agentName(program, threadName) {
  const room = Math.max(LEAST, MOST - 1 - threadName.length);
  return `${program.slice(0, room)}\0${threadName}`;
}

/** Older versions wrote the name of the thread only. @param {string} name */
function partsOf(name) {
  const end = name.indexOf('\0');
  return { program: name.slice(0, Math.max(end, 0)), threadName: name.slice(end + 1) };
}

module.exports = { agentName, partsOf };
