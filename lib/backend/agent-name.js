'use strict';

/**
 * The shared tables of the host scope have one text for each agent: the name of its program, a NUL,
 * and the name of its thread.
 */

/** WLH_THREAD_NAME_UNITS: what is longer is cut. */
const MOST = 64;
const LEAST = MOST / 2 - 1;

/**
 * @param {string} program without a NUL
 * @param {string} threadName
 * @returns {string} both, each cut only if it takes more than its half
 */
function agentName(program, threadName) {
  const room = Math.max(LEAST, MOST - 1 - threadName.length);
  return `${program.slice(0, room)}\0${threadName}`;
}

/**
 * @param {string} name of an agent; one of an older version is that of its thread
 * @returns {{ program: string, threadName: string }}
 */
function partsOf(name) {
  const end = name.indexOf('\0');
  return { program: name.slice(0, Math.max(end, 0)), threadName: name.slice(end + 1) };
}

module.exports = { agentName, partsOf };
