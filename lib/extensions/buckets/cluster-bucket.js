'use strict';

/**
 * Makes the `openBucket` of all engines. The bucket also reports the state of its session, by
 * `state` and by the events `suspect`, `refused`, `lost` and `open`.
 */

const { isMainThread } = require('node:worker_threads');
const { ClusterBackend } = require('../../cluster/backend.js');
const { TTL } = require('../../cluster/ttl.js');
const { Event, EventTarget, asyncDispose } = require('../../platform/realm.js');
const { Bucket } = require('./bucket.js');
const { describe, notSupportedError, typeError } = require('../../platform/errors.js');
const { isSignal } = require('../../platform/signals.js');
const { requireArguments, rejectUnknownOptions, toDOMString } = require('../../standard/webidl.js');

const { assign } = Object;

/** @import { Adapter } from '../../cluster/adapter.js' */
/** @typedef {InstanceType<typeof ClusterBucket>} ClusterBucketType */

const OPEN_BUCKET = "'openBucket'";

const TOLD = ['suspect', 'refused', 'lost', 'open'];

/**
 * A storage bucket on an engine.
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
   * @param {{ ttl: number, label?: string, signals?: readonly NodeJS.Signals[] }} options `ttl` is
   *   the length of a lease in milliseconds, `label` the label of requests without one, `signals`
   *   the signals that end the process only after its locks are released
   */
  constructor(name, adapter, { ttl, label, signals }) {
    super();
    this.#backend = new ClusterBackend(adapter, {
      ttl,
      label,
      signals,
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

  /**
   * Like `ready` of Bucket; it also rejects if the bucket was not open within a `ttl`.
   * @returns {Promise<void>}
   */
  get ready() {
    return this.#backend.ready;
  }

  /** The state of the session. @returns {import('../../cluster/session/session.js').State} */
  get state() {
    return this.#backend.state;
  }

  /** @returns {Promise<void>} see Bucket */
  close() {
    return this.#bucket.close();
  }

  [asyncDispose]() {
    return this.close();
  }
}

/**
 * Reads the arguments of `openBucket(name, options)` of an engine.
 * @param {number} count of arguments @param {any} givenName @param {any} givenOptions
 * @param {readonly string[]} names the engine's own options, besides those of all engines
 * @param {(name: string, options: any) => Adapter} adapterOf
 * @throws {TypeError} if an option is invalid
 */
function openClusterBucket(count, givenName, givenOptions, names, adapterOf) {
  requireArguments(count, 2, OPEN_BUCKET);
  const name = toDOMString(givenName, OPEN_BUCKET, 'The name');
  rejectUnknownOptions(givenOptions, [...names, 'ttl', 'label', 'releaseOnSignal'], OPEN_BUCKET);
  const options = Object(givenOptions);
  const { ttl = TTL.usual, label, releaseOnSignal } = options;
  if (typeof ttl !== 'number' || !(ttl >= TTL.least && ttl <= TTL.most)) {
    throw typeError(
      OPEN_BUCKET,
      `'ttl' is ${describe(ttl)}; expected ${TTL.least} to ${TTL.most} milliseconds.`,
    );
  }
  return new ClusterBucket(name, adapterOf(name, options), {
    ttl,
    label: label === undefined ? undefined : toDOMString(label, OPEN_BUCKET, "The 'label' option"),
    signals: toSignals(releaseOnSignal),
  });
}

/** The signals by which programs are usually asked to end. @type {NodeJS.Signals[]} */
const USUAL_SIGNALS = ['SIGINT', 'SIGTERM'];

/** @param {any} value of the option `releaseOnSignal` @returns {NodeJS.Signals[]} */
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

module.exports = { ClusterBucket, OPEN_BUCKET, openClusterBucket };
