'use strict';

/**
 * Profiles contention. Each thread records into its own ring; the thread that began the profile,
 * usually the main thread, knows all rings and writes the file. Each other thread announces its
 * ring, and the exit of each worker that it started, through a BroadcastChannel, which delivers a
 * message even if its sender ends immediately. Nothing here keeps a thread alive.
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
const { rejectUnknownOptions } = require('../standard/webidl.js');

const { BroadcastChannel, getEnvironmentData, receiveMessageOnPort } = workerThreads;
const { setEnvironmentData } = workerThreads;

/** The name of the channel, and the key of the environment data that says how to record. */
const CHANNEL = 'web-locks-profile';

/** The default size of a thread's ring in bytes. */
const DEFAULT_SIZE = 2 ** 23;

/** The records of ended threads may take this many times the size of a ring. */
const ENDED = 4;

/** @typedef {{ size: number, sites: boolean }} Manner how to record */
/** @typedef {{ id: number, name?: string }} Thread */
/** @typedef {{ file: string, requests: number, dropped: number }} Summary */

/** The command is truncated to this many UTF-16 code units. */
const LONGEST_COMMAND = 500;

/** Leaves out the directory of the runtime and the current directory, which can be private. */
function commandLine() {
  const [runtime = '', ...words] = process.argv;
  const text = [path.basename(runtime), ...words].join(' ');
  return text.replaceAll(folder, '').slice(0, LONGEST_COMMAND);
}

const thisThread = () => ({
  id: threadId,
  name: threadName || undefined,
});

/** Records the requests of one thread, and reports when one of its workers exits. */
class Part {
  #recorder;
  /** Sends a message to the thread that began the profile. @type {(message: any) => void} */
  #send;

  /**
   * Begins to record, and announces the ring.
   * @param {Manner} manner @param {(message: any) => void} tell
   */
  constructor({ size, sites }, tell) {
    this.#send = tell;
    this.ring = Ring.create(size);
    this.#recorder = new Recorder(this.ring, sites);
    tell({ begun: thisThread(), shared: this.ring.shared });
    process.on('worker', this.#handleWorker);
  }

  /** Reports the exit, when it comes. @param {import('node:worker_threads').Worker} worker */
  #handleWorker = (worker) => {
    const ended = worker.threadId;
    worker.once('exit', () => this.#send({ ended, at: clock() }));
  };

  stop() {
    this.ring.stop();
    this.#recorder.stop();
    process.off('worker', this.#handleWorker);
  }
}

/** The profile of this thread and of the threads that it started. */
class Profile {
  #file;
  #size;
  #part;
  #zero = clock();
  #began = new Date().toISOString();
  #channel = new BroadcastChannel(CHANNEL);
  /** @type {Map<number, { thread: Thread, ring: InstanceType<typeof Ring> }>} */
  #rings = new Map();
  /** @type {{ thread: Thread, words: Float64Array, dropped: number, end: number }[]} */
  #ended = [];
  #endedBytes = 0;
  #dropped = 0;
  /** @type {Summary | undefined} */
  #summary;

  /** @param {string} file @param {Manner} manner */
  constructor(file, manner) {
    this.#file = file;
    this.#size = manner.size;
    this.#channel.onmessage = ({ data }) => this.#handleMessage(data);
    /** @type {any} */ (this.#channel).unref();
    setEnvironmentData(CHANNEL, manner);
    this.#part = new Part(manner, (message) => this.#handleMessage(message));
    process.on('exit', this.end);
  }

  /** Calls `stop` at the end of the process, and reports errors on stderr. */
  end = () => {
    try {
      this.stop();
    } catch (/** @type {any} */ error) {
      const why = error?.message ?? error;
      process.stderr.write(`web-locks: no profile was written to ${this.#file}: ${why}\n`);
    }
  };

  /** @param {any} message */
  #handleMessage({ begun, shared, ended, at }) {
    if (begun) this.#rings.set(begun.id, { thread: begun, ring: new Ring(shared) });
    else this.#takeRecord(ended, at);
  }

  /** Copies the record of an ended thread. @param {number} id @param {number} end when it ended */
  #takeRecord(id, end) {
    const part = this.#rings.get(id);
    if (!part) return;
    this.#rings.delete(id);
    part.ring.stop();
    const { words, dropped } = part.ring.read();
    this.#dropped += dropped;
    this.#ended.push({ thread: part.thread, words, dropped, end });
    this.#endedBytes += words.byteLength;
    while (this.#endedBytes > ENDED * this.#size && this.#ended.length > 1) this.#dropOldest();
  }

  /** Drops the record of the thread that ended first, and counts its requests as dropped. */
  #dropOldest() {
    const [{ words }] = this.#ended.splice(0, 1);
    this.#endedBytes -= words.byteLength;
    for (const { kind } of entriesOf(words)) if (kind === START) this.#dropped++;
  }

  /**
   * Ends the profile in all threads, and writes the file. A repeated call only returns the summary.
   * @throws {Error} if the file cannot be written
   */
  stop() {
    if (this.#summary) return this.#summary;
    process.off('exit', this.end);
    setEnvironmentData(CHANNEL);
    this.#part.stop();
    if (current === this) current = undefined;
    // Messages of threads that have just begun or ended may still be in the channel.
    for (let next = this.#receiveMessage(); next; next = this.#receiveMessage())
      this.#handleMessage(next.message);
    this.#channel.close();
    const end = clock();
    // All rings stop at the same time, before any is read.
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
      // All processes of a machine share this clock.
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

  /** Returns undefined if no message has arrived. */
  #receiveMessage() {
    return receiveMessageOnPort(/** @type {any} */ (this.#channel));
  }
}

/** The part of a thread that has joined the profile of the thread that started it. */
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

  /** Ends the recording of this thread alone. */
  stop() {
    this.#part.stop();
    if (current === this) current = undefined;
  }

  end = () => this.stop();
}

/** @param {number} size */
const roundedToWords = (size) => Math.ceil(size / 8) * 8;
/** @param {number} size */
const isProfileSize = (size) => typeof size === 'number' && isSize(roundedToWords(size));
const SIZES = `a number of bytes from ${LEAST} to 2^30`;

/** The profile or the part that runs in this thread. @type {Profile | Joined | undefined} */
let current;

/**
 * Begins a profile, or joins the profile of the thread that started this thread. Returns the
 * current profile if this thread already has one.
 * @param {{ file?: string, size?: number, sites?: boolean }} [options] the file to write, the bytes
 *   for each thread, and whether to record call sites, which cost the most
 */
function startProfile(options = {}) {
  rejectUnknownOptions(options, ['file', 'size', 'sites'], "'startProfile'");
  const { file, size = DEFAULT_SIZE, sites = true } = options;
  if (current) return current;
  if (file !== undefined && typeof file !== 'string') {
    throw new TypeError(`'file' is ${describe(file)}; expected the path of a file.`);
  }
  if (!isProfileSize(size)) throw new RangeError(`'size' is ${describe(size)}; expected ${SIZES}.`);
  const inherited = /** @type {any} */ (getEnvironmentData(CHANNEL));
  if (inherited) current = new Joined(inherited);
  else
    current = new Profile(file ?? defaultFile(), {
      size: roundedToWords(size),
      sites: Boolean(sites),
    });
  return current;
}

const defaultFile = () =>
  `web-locks-profile-${process.pid}${threadId === 0 ? '' : `-${threadId}`}.json`;

module.exports = { SIZES, isProfileSize, startProfile };
