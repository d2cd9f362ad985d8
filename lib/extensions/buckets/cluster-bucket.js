'use strict';

/** Implements `openBucket` for all engines. */

const path = require('node:path');
const { isMainThread } = require('node:worker_threads');
const { TTL } = require('../../cluster/adapter.js');
const { ClusterBackend } = require('../../cluster/backend.js');
const { keeperOf } = require('../../cluster/keeper/keeper.js');
const { Event, EventTarget, asyncDispose } = require('../../platform/realm.js');
const { Bucket, OPEN_BUCKET } = require('./bucket.js');
const { describe, notSupportedError, typeError } = require('../../platform/errors.js');
const { isSignal } = require('../../platform/signals.js');
const { requireArguments, rejectUnknownOptions, toDOMString } = require('../../standard/webidl.js');

const { assign } = Object;

/** @import { Adapter } from '../../cluster/adapter.js' */
/** @import { Keeper } from '../../cluster/session/lease-keeper.js' */
/** @typedef {InstanceType<typeof ClusterBucket>} ClusterBucketType */

const OF_ALL = ['ttl', 'label', 'releaseOnSignal'];

const TOLD = ['suspect', 'refused', 'lost', 'open'];

/**
 * A storage bucket on a server, which also reports the state of its session. Its events:
 *
 * - `suspect`: the server does not answer; `event.cause` says why. Locks are held until their lease
 *   ends.
 * - `refused`: the server answers, but does not serve this client; `event.cause` says why. Requests
 *   fail at once with that error. Locks are held until their lease ends.
 * - `lost`: all locks were lost; `event.reason` (see LockLostError) and `event.cause` say why.
 *   Waiting requests are sent again as soon as there is a new session.
 * - `open`: a session was opened, or is renewed again.
 */
class ClusterBucket extends EventTarget {
  #bucket;
  #backend;

  /**
   * @param {string} name @param {Adapter} adapter must belong to this bucket alone
   * @param {{ ttl: number, label?: string, signals?: readonly NodeJS.Signals[], keeper?: Keeper }}
   *   options `ttl` is in milliseconds; `signals` end the process only after its locks are released
   */
  constructor(name, adapter, { ttl, label, signals, keeper }) {
    super();
    this.#backend = new ClusterBackend(adapter, {
      ttl,
      label,
      signals,
      keeper,
      onChange: ({ state, reason, cause }) => {
        if (!TOLD.includes(state)) return;
        this.dispatchEvent(assign(new Event(state), { reason, cause }));
      },
    });
    this.#bucket = new Bucket(name, this.#backend);
  }

  get name() {
    return this.#bucket.name;
  }

  get locks() {
    return this.#bucket.locks;
  }

  /** Also rejects if the bucket was not open within a `ttl`. @returns {Promise<void>} see Bucket */
  get ready() {
    return this.#backend.ready;
  }

  /** @returns {import('../../cluster/session/session.js').State} */
  get state() {
    return this.#backend.state;
  }

  close() {
    return this.#bucket.close();
  }

  [asyncDispose]() {
    return this.close();
  }
}

/**
 * @param {number} count of arguments @param {any} givenName @param {any} givenOptions
 * @param {readonly string[]} names the engine's own options, besides those of all engines
 * @param {(name: string, options: any) => Adapter} adapterOf
 * @param {EngineForKeeper} [engine] without it, there is no option `keeper`
 * @throws {TypeError} if an option is invalid
 */
function openClusterBucket(count, givenName, givenOptions, names, adapterOf, engine) {
  requireArguments(count, 2, OPEN_BUCKET);
  const name = toDOMString(givenName, OPEN_BUCKET, 'The name');
  const known = [...names, ...OF_ALL, ...(engine ? ['keeper'] : [])];
  rejectUnknownOptions(givenOptions, known, OPEN_BUCKET);
  const options = Object(givenOptions);
  const { ttl = TTL.usual, label, releaseOnSignal } = options;
  if (typeof ttl !== 'number' || !(ttl >= TTL.least && ttl <= TTL.most)) {
    throw typeError(
      OPEN_BUCKET,
      `'ttl' is ${describe(ttl)}; expected ${TTL.least} to ${TTL.most} milliseconds.`,
    );
  }
  const adapter = adapterOf(name, options);
  return new ClusterBucket(name, adapter, {
    keeper: engine && toKeeper(name, options, engine),
    ttl,
    label: label === undefined ? undefined : toDOMString(label, OPEN_BUCKET, "The 'label' option"),
    signals: toSignals(releaseOnSignal),
  });
}

/**
 * The functions turn a client and the adapter's options into data for the keeper's thread.
 * @typedef {{ name: string, clientPlanOf: (options: any) => any,
 *   adapterOptionsOf: (options: any) => any }} EngineForKeeper `name` is the engine's folder
 */

/** Milliseconds after which a keeper gives up the locks of a blocked event loop (`maxBlocked`). */
const MAX_BLOCKED = Object.freeze({ least: 1_000, most: 3_600_000, usual: 60_000 });

/**
 * @param {string} bucket @param {any} options of `openBucket` @param {EngineForKeeper} engine
 * @returns {Keeper | undefined}
 */
function toKeeper(bucket, options, engine) {
  const { keeper = false } = options;
  if (keeper === false) return undefined;
  if (keeper !== true && (typeof keeper !== 'object' || keeper === null)) {
    throw typeError(
      OPEN_BUCKET,
      `'keeper' is ${describe(keeper)}; expected true or { maxBlocked, module }.`,
    );
  }
  rejectUnknownOptions(keeper, ['maxBlocked', 'module'], `${OPEN_BUCKET} with 'keeper'`);
  const { maxBlocked = MAX_BLOCKED.usual, module } = keeper;
  const { least, most } = MAX_BLOCKED;
  if (typeof maxBlocked !== 'number' || !(maxBlocked >= least && maxBlocked <= most)) {
    throw typeError(
      OPEN_BUCKET,
      `'keeper.maxBlocked' is ${describe(maxBlocked)}; expected ${least} to ${most} milliseconds.`,
    );
  }
  const file = toFile(module);
  const client = file === undefined ? engine.clientPlanOf(options) : undefined;
  const plan = { engine: engine.name, bucket, options: engine.adapterOptionsOf(options) };
  return keeperOf({ ...plan, client, module: file }, maxBlocked);
}

/**
 * Throws unless the module is undefined, an absolute path or a file URL.
 * @param {any} module of the option `keeper`
 */
function toFile(module) {
  if (module === undefined) return undefined;
  const file = String(module);
  if (path.isAbsolute(file) || file.startsWith('file:')) return file;
  throw typeError(
    OPEN_BUCKET,
    `'keeper.module' is ${describe(module)}; expected an absolute path or a file: URL.`,
  );
}

/** The signals by which programs are usually asked to end. @type {NodeJS.Signals[]} */
const USUAL_SIGNALS = ['SIGINT', 'SIGTERM'];

/**
 * Throws in a worker, unless the value is false.
 * @param {any} value of the option `releaseOnSignal` @returns {NodeJS.Signals[]}
 */
function toSignals(value = false) {
  if (value === false) return [];
  const signals = value === true ? USUAL_SIGNALS : value;
  if (!Array.isArray(signals)) {
    throw typeError(
      OPEN_BUCKET,
      `'releaseOnSignal' is ${describe(value)}; expected true or an array of signals.`,
    );
  }
  for (const signal of signals) {
    if (isSignal(signal)) continue;
    throw typeError(
      OPEN_BUCKET,
      `'releaseOnSignal' has ${describe(signal)}; expected names of signals that a process can ` +
        "handle, such as 'SIGTERM'.",
    );
  }
  if (!isMainThread) {
    throw notSupportedError(
      "The 'releaseOnSignal' option cannot be used in a worker, because signals reach only the " +
        'main thread. Close the bucket before the worker ends.',
    );
  }
  return [...new Set(signals)];
}

module.exports = { ClusterBucket, openClusterBucket };
