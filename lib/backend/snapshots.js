'use strict';

/** Reads the snapshots of the lock state that the addon makes. */

const process = require('node:process');
const { addon } = require('./addon.js');
const { partsOf } = require('./agent-name.js');
const { dataOf, lockDetails, pendingDetails } = require('./details.js');
const { hostname } = require('../platform/machine.js');
const { tokenOf } = require('../platform/numbers.js');

/** @import { Snapshot } from './addon.js' */
/** @import { CycleEntry, LockDetails, LockInfo } from './contract.js' */
/** @import { LockManagerSnapshot, LockMode } from './contract.js' */

const {
  SHARED,
  // The offsets in an entry of a snapshot (struct wlk_lock_info), in 32-bit numbers.
  INFO_NAME: NAME,
  INFO_CLIENT: CLIENT,
  INFO_MODE: LOCK_MODE,
  INFO_HELD: HELD,
  INFO_LABEL: LABEL,
  INFO_DATA: DATA,
  INFO_LIMIT: LOCK_LIMIT,
  INFO_WEIGHT: LOCK_WEIGHT,
  /** The priority is signed. */
  INFO_PRIORITY: PRIORITY,
  /** The age and the token have two halves each, the lower one first. */
  INFO_AGE: AGE,
  INFO_TOKEN: LOCK_TOKEN,
  INFO_SIZE,
} = addon;
/** Equals WLK_NO_TEXT. */
const NO_TEXT = 2 ** 32 - 1;

/** @param {number} mode @returns {LockMode} */
const modeOf = (mode) => (mode === SHARED ? 'shared' : 'exclusive');

/** All locks and requests in one list, each with `isHeld`. @param {Snapshot} snapshot */
function detailsWithState({ names, clientIds, threadIds, threadNames, locks, pids }) {
  const numbers = new Uint32Array(locks);
  /** @type {{ program: string, threadName: string }[]} */
  const agents = [];
  for (let i = 0; i < threadNames.length; i++) {
    const threadName = threadNames[i];
    agents[i] = pids ? partsOf(threadName) : { program: '', threadName };
  }
  /** @type {CycleEntry[]} */
  const all = [];
  for (let i = 0; i < numbers.length; i += INFO_SIZE) {
    const client = numbers[i + CLIENT];
    const label = numbers[i + LABEL];
    const data = numbers[i + DATA];
    const isHeld = numbers[i + HELD] === 1;
    const age = numbers[i + AGE] + numbers[i + AGE + 1] * 2 ** 32;
    all[all.length] = {
      clientId: clientIds[client],
      mode: modeOf(numbers[i + LOCK_MODE]),
      name: names[numbers[i + NAME]],
      label: (label !== NO_TEXT && names[label]) || agents[client].program,
      host: hostname(),
      pid: pids ? pids[client] : process.pid,
      threadId: threadIds[client],
      threadName: agents[client].threadName,
      waited: isHeld ? 0 : age,
      held: isHeld ? age : 0,
      limit: numbers[i + LOCK_LIMIT],
      weight: numbers[i + LOCK_WEIGHT],
      priority: numbers[i + PRIORITY] | 0,
      token: tokenOf(numbers[i + LOCK_TOKEN], numbers[i + LOCK_TOKEN + 1]),
      site: '',
      data: data === NO_TEXT ? undefined : dataOf(names[data]),
      isHeld,
    };
  }
  return all;
}

/** All locks and requests in one list, as users see them. @param {Snapshot} snapshot */
function detailsOf(snapshot) {
  const entries = detailsWithState(snapshot);
  /** @type {LockDetails[]} */
  const all = [];
  for (let i = 0; i < entries.length; i++) all[i] = lockDetails(entries[i]);
  return all;
}

/** @param {Snapshot} snapshot @returns {LockManagerSnapshot} */
function stateOf({ names, clientIds, locks }) {
  const numbers = new Uint32Array(locks);
  /** @type {LockManagerSnapshot} */
  const state = { held: [], pending: [] };
  for (let i = 0; i < numbers.length; i += INFO_SIZE) {
    /** @type {LockInfo} */
    const info = {
      clientId: clientIds[numbers[i + CLIENT]],
      mode: modeOf(numbers[i + LOCK_MODE]),
      name: names[numbers[i + NAME]],
    };
    (numbers[i + HELD] ? state.held : state.pending).push(info);
  }
  return state;
}

/** @param {Snapshot} snapshot @returns {import('./contract.js').DetailedSnapshot} */
function detailedStateOf(snapshot) {
  /** @type {Map<string, LockDetails[]>} */
  const held = new Map();
  /** @type {Map<string, number>} */
  const ahead = new Map();
  /** @type {import('./contract.js').DetailedSnapshot} */
  const state = { held: [], pending: [] };
  // The holders of a name precede its queue in a snapshot.
  for (const entry of detailsWithState(snapshot)) {
    const { name: on } = entry;
    const info = lockDetails(entry);
    if (entry.isHeld) {
      const locks = held.get(on);
      if (locks) locks.push(info);
      else held.set(on, [info]);
      state.held.push(info);
    } else {
      const before = ahead.get(on) ?? 0;
      ahead.set(on, before + 1);
      state.pending.push(pendingDetails(info, held.get(on) ?? [], before));
    }
  }
  return state;
}

module.exports = { detailedStateOf, detailsOf, detailsWithState, stateOf };
