'use strict';

/** A bucket of the host scope: opens it, in which directory, and makes its errors. */

const { addon } = require('./addon.js');
const { exchange, threadName } = require('./agent.js');
const { agentName } = require('./agent-name.js');
const { LONGEST_NAME, hostError, nameTooLongError } = require('./host-errors.js');
const { programName } = require('../platform/program.js');
const fs = require('node:fs');
const path = require('node:path');
const process = require('node:process');
const { threadId } = require('node:worker_threads');
const { version } = require('../../package.json');

/** @import { ManagerHandle } from './addon.js' */
/** @import { AddonBucket } from './addon-backend.js' */
/** @import { Thief } from './contract.js' */

const { FULL } = addon;

/** Other processes see this many characters of the version of this package. */
const VERSION_LENGTH = 15;

/** Bun has functions of libuv, which end the process when they are called. */
const HAS_LIBUV = process.versions.bun === undefined;

/** The bucket is opened at the first use. @implements {AddonBucket} */
class HostBucket {
  #bucket;
  #directory;
  /** @type {ManagerHandle | undefined} */
  handle = undefined;
  /** Keeps the addon's last failure after the bucket is closed. @type {string | undefined} */
  #failure;
  /** @type {string | undefined} */
  #id;

  /**
   * @param {string} bucket its id
   * @param {string} directory an absolute path; '' for WEB_LOCKS_DIRECTORY, or else the default
   */
  constructor(bucket, directory) {
    this.#bucket = bucket;
    this.#directory = directory;
  }

  /** Returns the handle, which the first call opens; throws if the bucket cannot be opened. */
  open() {
    if (this.handle) return this.handle;
    const shown = version.slice(0, VERSION_LENGTH);
    const directory = this.#directory || directoryOfEnvironment();
    const name = agentName(programName(), threadName);
    const opened = addon.hostOpen(this.#bucket, shown, threadId, name, directory, HAS_LIBUV);
    if (typeof opened === 'number') throw this.errorOf(opened, 'opening a storage bucket');
    this.#id = this.#idAt(realPathOf(path.dirname(String(addon.hostPlace(opened)))));
    this.handle = opened;
    return opened;
  }

  /** Equal for all handles of a bucket, once they are open. */
  get id() {
    return this.#id ?? this.#idAt(this.#directory);
  }

  /** @param {string} directory */
  #idAt(directory) {
    return `host ${directory}\n${this.#bucket}`;
  }

  /** Call this before the bucket is closed. */
  keepFailure() {
    this.#failure = addon.hostFailure(this.handle);
  }

  /** @param {number} status @param {string} doing @param {string} [name] of a request */
  errorOf(status, doing, name = '') {
    if (status === FULL && name.length > LONGEST_NAME) return nameTooLongError(name, doing);
    return hostError(status, this.#failure ?? addon.hostFailure(this.handle), doing);
  }

  /**
   * The client id has the form that wlh_agent_client_id gives to client ids.
   * @param {number} at @returns {Thief}
   */
  thiefAt(at) {
    const member = exchange[at].toString(16).padStart(8, '0');
    return { clientId: `${member}-${exchange[at + 1]}`, pid: exchange[at + 2] };
  }
}

/**
 * Reads the environment of this thread, because a worker can have its own. On Windows, an absolute
 * path is resolved here, as `openBucket` resolves its option: the addon puts `\\?\` before it, and
 * Windows takes `..` in such a path for a name. A path without a drive stays as it is, and the
 * addon refuses it, because it can mean another directory in each process.
 * @returns {string} '' if the environment names none
 */
function directoryOfEnvironment() {
  const { WEB_LOCKS_DIRECTORY: directory = '' } = process.env;
  const isResolved = process.platform === 'win32' && path.parse(directory).root.length > 2;
  return isResolved ? path.resolve(directory) : directory;
}

/**
 * The last part of the path is not resolved, because the addon refuses a link there.
 * @param {string} directory may not exist yet
 * @returns the path as given if its parent does not exist
 */
function realPathOf(directory) {
  try {
    return path.join(fs.realpathSync(path.dirname(directory)), path.basename(directory));
  } catch {
    return directory;
  }
}

module.exports = { HostBucket };
