'use strict';

/** Opens the bucket that the options name, on this machine or on a server, and queries it. */

const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { DEFAULT_BUCKET, idOfBucket } = require('../backend/bucket-ids.js');
const { HostBackend } = require('../backend/host.js');
const { LONGEST_NAME } = require('../backend/host-errors.js');
const { Bucket } = require('../extensions/buckets/bucket.js');
const { TTL } = require('../cluster/adapter.js');
// Adds the extensions of locks, such as `lock.signal`.
require('../common.js');
const { openOtherBuckets } = require('./buckets.js');
const { narrow } = require('./circles.js');
const { openEngine, serverOf } = require('./engines.js');
const { Failure, STATUS } = require('./status.js');

/** The longest time that a query of another bucket may take. */
const LOOK_MS = 1000;
/** The longest time that the program waits for a server when it ends. */
const CLOSING_MS = 3000;

/** The name of the bucket on a server if the options name none. */
const USUAL_BUCKET = 'default';

/** Replaces the library's message for ERR_WEB_LOCKS_NO_NOTIFY, which advises programmers. */
const POOLER =
  'a pooler such as pgbouncer, in transaction or statement mode, is between web-locks and ' +
  'PostgreSQL. It drops the notifications that a waiter needs.';

const LATE = Symbol('late');

/** An open bucket. Its methods reject with a Failure if the locks cannot be reached. */
class OpenBucket {
  #bucket;
  #end;
  #wasReached = false;
  #ttl;
  /** Set only in the host scope. @type {InstanceType<typeof HostBackend> | undefined} */
  #host;
  #values;
  /** @type {Promise<void> | undefined} */
  #closed;

  /** @param {import('./arguments.js').Values} values */
  constructor(values) {
    const { bucket, end, host } = open(values);
    this.#bucket = bucket;
    this.#host = host;
    this.#values = values;
    this.#end = end;
    this.#ttl = values.ttl ?? TTL.usual;
    /** @type {any} */
    this.locks = bucket.locks;
  }

  /**
   * Closes the bucket if it is not ready in time.
   * @param {number} [patience] milliseconds; unlimited by default
   */
  async ready(patience) {
    try {
      const answer = await within(this.#bucket.ready, patience);
      if (answer === LATE) throw await this.#timeoutFailure(Number(patience));
      this.#wasReached = true;
    } catch (/** @type {any} */ error) {
      if (isLate(error)) throw noAnswerFailure(this.#ttl, error.cause);
      throw toFailure(error);
    }
  }

  /** Closes the bucket, to learn why the server was not reached. @param {number} patience */
  async #timeoutFailure(patience) {
    const { ready } = this.#bucket;
    this.close();
    // `close` makes `ready` reject. The cause of that error says why the server was not reached.
    const closed = await within(
      ready.catch((/** @type {any} */ error) => error),
      CLOSING_MS,
    );
    return noAnswerFailure(patience, closed === LATE ? undefined : closed?.cause);
  }

  /** @param {string} [name] limits the result @returns {Promise<import('./circles.js').State>} */
  async look(name) {
    try {
      const state = await this.locks.query({ details: true, name });
      const { held, pending } = state;
      if (name === undefined || held.length === 0 || pending.length === 0) return state;
      // The holders may wait for other names, and so be part of a circle. To find it, all names are
      // queried.
      return narrow(await this.locks.query({ details: true }), name);
    } catch (error) {
      throw toFailure(error);
    }
  }

  /** The bucket's location, without a password. `bucket` is null for the default bucket. */
  get where() {
    const { at, bucket } = this.#values;
    if (at) return { bucket: bucket ?? USUAL_BUCKET, at: serverOf(at) };
    const directory = path.dirname(String(this.#host?.place));
    return { bucket: bucket ?? null, directory };
  }

  /** Queries the other open buckets of the directory. @param {string} [name] limits the result */
  async lookAtOtherBuckets(name) {
    const others = this.#host ? openOtherBuckets(this.#host) : [];
    /** @type {Look[]} */
    const looks = [];
    // A bucket takes file descriptors from its first query until it is closed, so the other buckets
    // are queried one after the other.
    for (const other of others) looks.push(await lookAtOther(other, name));
    return looks;
  }

  close() {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** A server or a client that hangs must not keep the program from ending. */
  async #close() {
    const closed = (async () => {
      await this.#bucket.close();
      await this.#end();
    })();
    // A server that was never reached has nothing to release.
    if (this.#wasReached) await within(closed, CLOSING_MS).catch(() => {});
    else closed.catch(() => {});
  }
}

/**
 * @typedef {object} Look the result of a query of a bucket
 * @property {string | null} bucket null for the default bucket or an unknown name
 * @property {import('../backend/contract.js').DetailedSnapshot} [state]
 * @property {string} [failure] why there is no state
 */

/**
 * Queries and closes a bucket. @param {import('./buckets.js').Found} other
 * @param {string | undefined} name @returns {Promise<Look>}
 */
async function lookAtOther({ backend, bucket, folder }, name) {
  if (!backend)
    return {
      bucket: null,
      failure:
        `the bucket in ${folder} cannot be queried: its file 'name' is missing or does not match ` +
        'the directory; if nothing uses the directory, delete the directory',
    };
  try {
    const state = await within(backend.details(name), LOOK_MS);
    if (state !== LATE) return { bucket, state };
    const time = `${LOOK_MS / 1000} s`;
    const failure =
      `no answer within ${time}; a process that uses the bucket may be suspended: resume or end ` +
      'that process';
    return { bucket, failure };
  } catch (error) {
    return { bucket, failure: messageOf(error) };
  } finally {
    backend.close();
  }
}

/**
 * @template T
 * @param {Promise<T>} promise @param {number} [patience] milliseconds; unlimited by default
 * @returns {Promise<T | typeof LATE>} LATE if the promise is still pending after this time
 */
async function within(promise, patience) {
  if (patience === undefined) return promise;
  const over = new AbortController();
  const late = sleep(patience, LATE, { signal: over.signal });
  late.catch(() => {});
  try {
    return await Promise.race([promise, late]);
  } finally {
    over.abort();
  }
}

/**
 * Whether `ready` timed out (`unreachableError` in lib/cluster/session/outage.js). The cause of its
 * error is then the last failure. The error has the code of that failure, or
 * ERR_WEB_LOCKS_UNREACHABLE.
 * @param {any} error @returns {boolean}
 */
const isLate = ({ cause, code }) =>
  code === 'ERR_WEB_LOCKS_UNREACHABLE' || (code !== undefined && code === cause?.code);

/** @param {number} patience @param {unknown} [cause] */
function noAnswerFailure(patience, cause) {
  const time = `within ${patience / 1000} s`;
  const message =
    cause === undefined
      ? `no answer from the lock server ${time}.`
      : `the lock server could not be used ${time}: ${messageOf(cause)}`;
  return new Failure(STATUS.unavailable, message);
}

/**
 * @param {import('./arguments.js').Values} values
 * @returns {{ bucket: any, end: () => unknown, host?: InstanceType<typeof HostBackend> }}
 */
function open({ bucket, directory, at, ...more }) {
  try {
    if (at) {
      const { isAtOfEnvironment, prefix, schema, shards, ttl } = more;
      const settings = { bucket: bucket ?? USUAL_BUCKET, prefix, schema, shards, ttl };
      return openEngine(at, settings, isAtOfEnvironment ? 'WEB_LOCKS_AT' : '--at');
    }
    return { ...openHost(bucket, directory), end() {} };
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw toFailure(error);
  }
}

/** Without a name, opens the default bucket. @param {string} [name] @param {string} [directory] */
function openHost(name, directory) {
  const id = name === undefined ? DEFAULT_BUCKET : idOfBucket(name);
  const host = new HostBackend(id, directory === undefined ? '' : path.resolve(directory));
  return { bucket: new Bucket(name ?? '', host), host };
}

/** @param {unknown} error */
const messageOf = (error) => String(/** @type {any} */ (error)?.message ?? error);

/** A TypeError of the library means that an option was wrong. @param {unknown} error */
function toFailure(error) {
  if (error instanceof Failure) return error;
  if (/** @type {any} */ (error)?.code === 'ERR_WEB_LOCKS_NO_NOTIFY') {
    return new Failure(STATUS.unavailable, POOLER, 'Give --at the URL of PostgreSQL itself.');
  }
  const message = messageOf(error).replace(/^web-locks: /, '');
  const { cause } = /** @type {any} */ (error);
  const reason = cause ? messageOf(cause) || String(cause.code) : '';
  const why = message.includes(reason) ? '' : ` (${reason})`;
  const status = error instanceof TypeError ? STATUS.usage : STATUS.unavailable;
  return new Failure(status, message + why);
}

/**
 * Throws if the directory does not exist: a query of a mistyped path would create the directory.
 * @param {import('./arguments.js').Values} values
 */
function checkDirectory({ directory }) {
  if (directory === undefined || fs.existsSync(directory)) return;
  const message = `--directory is '${directory}', which does not exist: nobody has locks there.`;
  throw new Failure(STATUS.unavailable, message);
}

/**
 * Throws if the name is too long for the host scope.
 * @param {string} name @param {import('./arguments.js').Values} values
 */
function checkName(name, { at }) {
  if (at || name.length <= LONGEST_NAME) return;
  const have = `${name.length} characters (UTF-16 code units)`;
  const message = `the name of the lock has ${have}; at most ${LONGEST_NAME} are allowed.`;
  throw new Failure(STATUS.usage, message);
}

module.exports = {
  CLOSING_MS,
  LATE,
  OpenBucket,
  checkDirectory,
  checkName,
  messageOf,
  noAnswerFailure,
  toFailure,
  within,
};
