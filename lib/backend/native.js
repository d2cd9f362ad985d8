'use strict';

/** The scope of the process: the locks that its threads share, in the lock core. */

const { addon, errorOf, valueOrThrow } = require('./addon.js');
const { AddonBackend } = require('./addon-backend.js');
const { agent, clientPrefix, exchange } = require('./agent.js');
const { findBlockers } = require('./blockers.js');
const { detailedStateOf, stateOf } = require('./snapshots.js');

/** @import { Backend } from './contract.js' */

/** @param {number} at the offset of the thief in the exchange */
const thiefAt = (at) => clientPrefix(exchange[at]) + exchange[at + 1];

/** The locks of one storage bucket. @implements {Backend} */
class NativeBackend extends AddonBackend {
  #handle;
  /** @override */
  findsDeadlocks = true;

  /** @param {string} bucket its id, see bucket-ids.js */
  constructor(bucket) {
    const handle = valueOrThrow(addon.openManager(bucket), 'opening a storage bucket');
    super({ handle, open: () => handle, thiefAt, errorOf });
    this.id = `process ${bucket}`;
    this.#handle = handle;
  }

  /** @param {string} [name] */
  query(name) {
    return stateOf(this.#snapshot(name));
  }

  /** @param {string} [name] */
  details(name) {
    return detailedStateOf(this.#snapshot(name));
  }

  /** @param {string} [name] */
  #snapshot(name) {
    if (this.closed) throw this.closed;
    const snapshot = addon.snapshot(this.#handle, name);
    return valueOrThrow(snapshot, 'taking a snapshot of the lock state');
  }

  /** @param {string} name @param {boolean} [waits] see contract.js */
  holders(name, waits = false) {
    const holders = this.readHolders(name);
    return holders && waits
      ? findBlockers(holders, agent.clientId, () => agent.tokensOf(this, name))
      : holders;
  }
}

const { liveBlocks } = addon;

module.exports = { NativeBackend, agent, liveBlocks };
