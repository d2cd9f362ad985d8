'use strict';

/**
 * Starts and controls the keeper's thread. All sessions of a thread that have the option `keeper`
 * share one keeper's thread. It ends with the last of these sessions, and does not keep the process
 * alive. If it fails, the sessions continue without a keeper until their next renewal, which starts
 * another keeper's thread.
 */

const { existsSync } = require('node:fs');
const path = require('node:path');
const process = require('node:process');
const { Worker } = require('node:worker_threads');
const { notSupportedError, plainError } = require('../../platform/errors.js');
const { Promise, now, threadsNow } = require('../../platform/intrinsics.js');

/** @import { Seen } from '../adapter.js' */
/** @import { Keeper, Keeping, KeptLease } from '../session/lease-keeper.js' */
/** @typedef {InstanceType<typeof import('../session/lease-cells.js').LeaseCells>} LeaseCells */

/**
 * @typedef {object} Plan how the thread makes the adapters of a bucket; can be sent to the thread
 * @property {string} engine its folder in `lib/cluster/engines` @property {string} bucket
 * @property {any} options of the adapter
 * @property {any} [client] how to make the client
 * @property {string} [module] the user's file that makes the client
 */

/**
 * @typedef {{ what: 'keep', id: number, plan: Plan, keeping: Keeping, memory: SharedArrayBuffer,
 *   origin: number } | { what: 'update', id: number, seen: Seen } | { what: 'stop', id: number }}
 *   ToThread
 * @typedef {{ what: 'stopped', id: number, error?: string } |
 *   { what: 'trouble', id: number, error: string }}
 *   FromThread
 */

const PROGRAM = path.join(__dirname, 'thread.js');

/** @param {string} message @param {unknown} cause */
function warn(message, cause) {
  const warning = plainError(message, 'ERR_WEB_LOCKS_KEEPER', { cause });
  warning.name = 'LockWarning';
  process.emitWarning(warning);
}

class KeeperThread {
  #worker;
  #onEnd;
  /**
   * Functions that resolve the calls of `stop`, by session.
   * @type {Map<number, (error?: string) => void>}
   */
  #stopping = new Map();
  /** Functions that report trouble, by session. @type {Map<number, (why: string) => void>} */
  #kept = new Map();
  #isOver = false;

  /** @param {() => void} onEnd called when no session is left, and when the thread has ended */
  constructor(onEnd) {
    this.#onEnd = onEnd;
    // Inherited options such as `--require` would load the program's modules in this thread, too.
    this.#worker = new Worker(PROGRAM, { name: 'web-locks keeper', execArgv: [] });
    this.#worker.on('message', (message) => this.#handleMessage(message));
    this.#worker.on('error', (error) => {
      warn(`The keeper's thread has failed: ${error?.message ?? error}`, error);
    });
    this.#worker.on('exit', () => this.#handleExit());
    // This comes last: a message listener that is added later would keep the process alive again.
    this.#worker.unref();
  }

  get isOver() {
    return this.#isOver;
  }

  /** @param {ToThread & { what: 'keep' }} message @param {(why: string) => void} onTrouble */
  keep(message, onTrouble) {
    this.#kept.set(message.id, onTrouble);
    this.#worker.postMessage(message);
  }

  /** @param {number} id @param {Seen} seen */
  update(id, seen) {
    this.#worker.postMessage({ what: 'update', id, seen });
  }

  /** Ends the thread after its last session. @param {number} id */
  async stop(id) {
    if (this.#isOver) return;
    const onTrouble = this.#kept.get(id);
    this.#kept.delete(id);
    const isLast = this.#kept.size === 0;
    // The next session gets another thread.
    if (isLast) this.#onEnd();
    await new Promise((resolve) => {
      this.#stopping.set(id, (error) => {
        if (error !== undefined) onTrouble?.(error);
        resolve(undefined);
      });
      this.#worker.postMessage({ what: 'stop', id });
    });
    if (isLast) await this.#worker.terminate();
  }

  /** @param {FromThread} message */
  #handleMessage(message) {
    if (message.what === 'trouble') this.#kept.get(message.id)?.(message.error);
    else this.#resolveStop(message.id, message.error);
  }

  /** @param {number} id @param {string} [error] */
  #resolveStop(id, error) {
    const resolve = this.#stopping.get(id);
    this.#stopping.delete(id);
    resolve?.(error);
  }

  #handleExit() {
    this.#isOver = true;
    this.#onEnd();
    for (const id of this.#stopping.keys()) this.#resolveStop(id);
  }
}

/** The keeper's thread for new sessions. @type {KeeperThread | undefined} */
let thread;

/** Starts the thread if there is none. @throws {unknown} if Node.js cannot start a thread */
function currentThread() {
  if (thread === undefined) {
    const started = new KeeperThread(() => {
      if (thread === started) thread = undefined;
    });
    thread = started;
  }
  return thread;
}

let lastId = 0;

/** @implements {KeptLease} */
class RemoteLease {
  #plan;
  #keeping;
  #cells;
  #id = ++lastId;
  /** @type {KeeperThread | undefined} */
  #thread;

  /** @param {Plan} plan @param {Keeping} keeping @param {LeaseCells} cells */
  constructor(plan, keeping, cells) {
    this.#plan = plan;
    this.#keeping = keeping;
    this.#cells = cells;
    this.#start();
  }

  /** Warns if Node.js cannot start a thread; the next `update` tries again. */
  #start() {
    const { memory } = this.#cells;
    const id = this.#id;
    try {
      const current = currentThread();
      const origin = threadsNow() - now();
      current.keep(
        { what: 'keep', id, plan: this.#plan, keeping: this.#keeping, memory, origin },
        (why) => this.#warn(why, undefined),
      );
      this.#thread = current;
    } catch (error) {
      this.#warn(String(/** @type {any} */ (error)?.message ?? error), error);
    }
  }

  /** @param {string} why @param {unknown} cause */
  #warn(why, cause) {
    const { bucket } = this.#plan;
    warn(`The keeper of the bucket '${bucket}' cannot extend its lease: ${why}`, cause);
  }

  /** If the thread has ended, this starts another one. @param {Seen} seen */
  update(seen) {
    this.#keeping = { ...this.#keeping, seen };
    if (this.#thread === undefined || this.#thread.isOver) this.#start();
    else this.#thread.update(this.#id, seen);
  }

  async stop() {
    await this.#thread?.stop(this.#id);
  }
}

/** Throws in a bundle. @param {Plan} plan @param {number} maxBlocked @returns {Keeper} */
function keeperOf(plan, maxBlocked) {
  if (!existsSync(PROGRAM)) {
    throw notSupportedError(
      `'keeper' needs the file ${PROGRAM}, which a bundle lacks. Keep web-locks out of the bundle.`,
    );
  }
  return { maxBlocked, keep: (keeping, cells) => new RemoteLease(plan, keeping, cells) };
}

module.exports = { keeperOf };
