'use strict';

/**
 * Makes the `openBucket` of all engines. The bucket also reports the state of its session, by
 * `state` and by the events `suspect`, `refused`, `lost` and `open`.
 */

const { ClusterBackend } = require('../../cluster/backend.js');
const { TTL } = require('../../cluster/ttl.js');
const { Event, EventTarget, asyncDispose } = require('../../platform/realm.js');
const { Bucket } = require('./bucket.js');
const { describe, typeError } = require('../../platform/errors.js');
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
   * @param {{ ttl: number, label?: string }} options `ttl` is the length of a lease in
   *   milliseconds, `label` the label of requests without one
   */
  constructor(name, adapter, { ttl, label }) {
    super();
    this.#backend = new ClusterBackend(adapter, {
      ttl,
      label,
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
 * @param {readonly string[]} names the engine's own options, besides `ttl` and `label`
 * @param {(name: string, options: any) => Adapter} adapterOf
 * @throws {TypeError} if an option is invalid
 */
function openClusterBucket(count, givenName, givenOptions, names, adapterOf) {
  requireArguments(count, 2, OPEN_BUCKET);
  const name = toDOMString(givenName, OPEN_BUCKET, 'The name');
  rejectUnknownOptions(givenOptions, [...names, 'ttl', 'label'], OPEN_BUCKET);
  const options = Object(givenOptions);
  const { ttl = TTL.usual, label } = options;
  if (typeof ttl !== 'number' || !(ttl >= TTL.least && ttl <= TTL.most)) {
    throw typeError(
      OPEN_BUCKET,
      `'ttl' is ${describe(ttl)}; expected ${TTL.least} to ${TTL.most} milliseconds.`,
    );
  }
  return new ClusterBucket(name, adapterOf(name, options), {
    ttl,
    label: label === undefined ? undefined : toDOMString(label, OPEN_BUCKET, "The 'label' option"),
  });
}

module.exports = { ClusterBucket, OPEN_BUCKET, openClusterBucket };
