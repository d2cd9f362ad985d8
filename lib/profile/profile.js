'use strict';

/**
 * A profile of contention: each thread that takes part records into a ring of its own; the thread
 * that began it, usually the main thread, knows all rings and writes the file.
 *
 * A thread announces its ring, and the end of each worker that it started, in a BroadcastChannel:
 * what is sent there is with the receiver at once, whatever becomes of the sender. Nothing of it
 * keeps a thread alive.
 */

const { hostname } = require('node:os');
const path = require('node:path');
const process = require('node:process');
const workerThreads = require('node:worker_threads');
const { Recorder } = require('./recorder.js');
const { requestsOf } = require('./requests.js');
const { LEAST, START, Ring, entriesOf, isSize } = require('./ring.js');
const { folder } = require('./site.js');
const { writeTrace } = require('./trace.js');
const { describe } = require('../platform/errors.js');
const { threadsNow: clock } = require('../platform/intrinsics.js');
const { threadId, threadName } = require('../platform/thread.js');
const { takeOnly } = require('../standard/webidl.js');

const { BroadcastChannel, getEnvironmentData, receiveMessageOnPort } = workerThreads;
const { setEnvironmentData } = workerThreads;

/** The channel; and, in the environment data that workers inherit, how they are to record. */
const CHANNEL = 'web-locks-profile';

/** Bytes for each thread. */
const DEFAULT_SIZE = 2 ** 23;

/** Of the threads that have ended so many times the size of a ring is kept. */
const ENDED = 4;

/** @typedef {{ size: number, sites: boolean }} Manner how to record */
/** @typedef {{ id: number, name?: string }} Thread */
/** @typedef {{ file: string, requests: number, dropped: number }} Summary */

/** The most characters of the command that are kept. */
const LONGEST_COMMAND = 500;

/** @returns {string} what was run, without the folders of the runtime, and that it was run in */
function commandLine() {
  const [runtime = '', ...words] = process.argv;
  const text = [path.basename(runtime), ...words].join(' ');
  return text.replaceAll(folder, '').slice(0, LONGEST_COMMAND);
}

/** @returns {Thread} this one */
const thisThread = () => ({
  id: threadId,
  name: threadName || undefined,
});

/** A thread's part of a profile: it records, and adds what it knows of other threads. */
class Part {
  #recorder;
  /** @param {any} message for whoever collects */
  #tell;

  /**
   * @param {Manner} manner
   * @param {(message: any) => void} tell
   */
  constructor({ size, sites }, tell) {
    this.#tell = tell;
    this.ring = Ring.create(size);
    this.#recorder = new Recorder(this.ring, sites);
    tell({ begun: thisThread(), shared: this.ring.shared });
    process.on('worker', this.#follow);
  }

  /** @param {import('node:worker_threads').Worker} worker */
  #follow = (worker) => {
    const ended = worker.threadId;
    worker.once('exit', () => this.#tell({ ended, at: clock() }));
  };

  stop() {
    this.ring.stop();
    this.#recorder.stop();
    process.off('worker', this.#follow);
  }
}

/** The profile of the threads that the one which makes this started, and of itself. */
class Profile {
  #file;
  #size;
  #part;
  #zero = clock();
  #began = new Date().toISOString();
  #channel = new BroadcastChannel(CHANNEL);
  /**
   * Of the threads that go on.
   * @type {Map<number, { thread: Thread, ring: InstanceType<typeof Ring> }>}
   */
  #rings = new Map();
  /** @type {{ thread: Thread, words: Float64Array, dropped: number, end: number }[]} */
  #ended = [];
  #endedBytes = 0;
  #dropped = 0;
  /** @type {Summary | undefined} */
  #summary;

  /**
   * @param {string} file
   * @param {Manner} manner
   */
  constructor(file, manner) {
    this.#file = file;
    this.#size = manner.size;
    this.#channel.onmessage = ({ data }) => this.#hear(data);
    /** @type {any} */ (this.#channel).unref();
    setEnvironmentData(CHANNEL, manner);
    this.#part = new Part(manner, (message) => this.#hear(message));
    process.on('exit', this.end);
  }

  /** At the end of the process: as `stop`, but says on stderr if the file cannot be written. */
  end = () => {
    try {
      this.stop();
    } catch (/** @type {any} */ error) {
      const why = error?.message ?? error;
      process.stderr.write(`web-locks: no profile was written to ${this.#file}: ${why}\n`);
    }
  };

  /** @param {any} message of a Part */
  #hear({ begun, shared, ended, at }) {
    if (begun) this.#rings.set(begun.id, { thread: begun, ring: new Ring(shared) });
    else this.#takeOver(ended, at);
  }

  /**
   * Copies what a thread recorded, and lets its ring go.
   * @param {number} id
   * @param {number} end when it ended
   */
  #takeOver(id, end) {
    const part = this.#rings.get(id);
    if (!part) return;
    this.#rings.delete(id);
    part.ring.stop();
    const { words, dropped } = part.ring.read();
    this.#dropped += dropped;
    this.#ended.push({ thread: part.thread, words, dropped, end });
    this.#endedBytes += words.byteLength;
    while (this.#endedBytes > ENDED * this.#size && this.#ended.length > 1) this.#forget();
  }

  /** Drops the thread that ended first. */
  #forget() {
    const [{ words }] = this.#ended.splice(0, 1);
    this.#endedBytes -= words.byteLength;
    for (const { kind } of entriesOf(words)) if (kind === START) this.#dropped++;
  }

  /**
   * Ends the profile in all threads, and writes the file. Later calls return the same.
   * @returns {Summary}
   * @throws {Error} if the file cannot be written
   */
  stop() {
    if (this.#summary) return this.#summary;
    process.off('exit', this.end);
    setEnvironmentData(CHANNEL);
    this.#part.stop();
    if (current === this) current = undefined;
    // Those that began and ended just now.
    for (let next = this.#receive(); next; next = this.#receive()) this.#hear(next.message);
    this.#channel.close();
    const end = clock();
    // All are stopped at the same time, then read.
    for (const { ring } of this.#rings.values()) ring.stop();
    const parts = this.#ended;
    for (const { thread, ring } of this.#rings.values()) {
      const { words, dropped } = ring.read();
      this.#dropped += dropped;
      parts.push({ thread, words, dropped, end });
    }
    const requests = requestsOf(parts);
    const about = {
      producer: 'web-locks',
      version: 1,
      began: this.#began,
      // Of the monotonic clock that all processes of a machine have in common.
      zero: this.#zero,
      host: hostname(),
      pid: process.pid,
      command: commandLine(),
      node: process.version,
      seconds: (end - this.#zero) / 1e3,
      requests: requests.length,
      dropped: this.#dropped,
      threads: parts.map(({ thread, dropped }) => ({ ...thread, dropped })),
    };
    this.#ended = [];
    this.#rings.clear();
    this.#summary = { file: this.#file, requests: requests.length, dropped: this.#dropped };
    writeTrace(this.#file, requests, about, this.#zero);
    return this.#summary;
  }

  #receive() {
    return receiveMessageOnPort(/** @type {any} */ (this.#channel));
  }
}

/** What a thread that takes part in the profile of another one has. */
class Joined {
  #part;

  /** @param {Manner} manner */
  constructor(manner) {
    this.#part = new Part(manner, (message) => {
      const channel = new BroadcastChannel(CHANNEL);
      channel.postMessage(message);
      channel.close();
    });
  }

  /** Ends the recording in this thread. */
  stop() {
    this.#part.stop();
    if (current === this) current = undefined;
  }

  end = () => this.stop();
}

/** @param {number} size */
const inWords = (size) => Math.ceil(size / 8) * 8;
/** @param {number} size @returns {boolean} whether a ring can be made of so many bytes */
const isProfileSize = (size) => isSize(inWords(size));
const SIZES = `a number of bytes from ${LEAST} to 2^30`;

/** The one that goes on in this thread. @type {Profile | Joined | undefined} */
let current;

/**
 * Begins a profile, or joins that of the thread which started this one, or returns the one that
 * goes on in this thread.
 * @param {{ file?: string, size?: number, sites?: boolean }} [options] the file to write, bytes for
 *   each thread, and whether to find out where requests are made, which costs the most
 * @returns {Profile | Joined}
 */
function startProfile(options = {}) {
  takeOnly(options, ['file', 'size', 'sites'], "'startProfile'");
  const { file, size = DEFAULT_SIZE, sites = true } = options;
  if (current) return current;
  if (file !== undefined && typeof file !== 'string') {
    throw new TypeError(`'file' is ${describe(file)}; expected the path of a file.`);
  }
  if (!isProfileSize(size)) throw new RangeError(`'size' is ${describe(size)}; expected ${SIZES}.`);
  const inherited = /** @type {any} */ (getEnvironmentData(CHANNEL));
  if (inherited) current = new Joined(inherited);
  else current = new Profile(file ?? defaultFile(), { size: inWords(size), sites: Boolean(sites) });
  return current;
}

const defaultFile = () =>
  `web-locks-profile-${process.pid}${threadId === 0 ? '' : `-${threadId}`}.json`;

module.exports = { SIZES, isProfileSize, startProfile };
