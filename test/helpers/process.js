'use strict';

/** Drives an agent in another process (test/fixtures/process.js) as if it were here. */

const { fork } = require('node:child_process');
const { once } = require('node:events');
const { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { openBucket } = require('../../lib/host.js');
const { endAll, endWith } = require('./ending.js');
const { deferred } = require('./locks.js');
const { root: directories } = require('./root.js');

const ROOT = path.join(__dirname, '..', '..');
const FIXTURE = path.join('test', 'fixtures', 'process.js');

class RemoteProcess {
  #answers = new Map();
  #numbers = 0;

  /**
   * Starts a process and waits until it has loaded the package.
   * @param {any} t the test, which kills it at its end
   * @param {{ bucket?: string, directory?: string, options?: object, root?: string }} [where] `root`:
   *   of another copy of the package
   */
  static async start(t, { options, root = ROOT, ...where } = {}) {
    const child = fork(path.join(root, FIXTURE), [JSON.stringify(where)], {
      stdio: 'inherit',
      ...options,
    });
    const remote = new RemoteProcess(child);
    endWith(t, child);
    await once(child, 'message');
    child.on('message', (message) => remote.#receive(message));
    return remote;
  }

  constructor(child) {
    this.child = child;
    this.pid = child.pid;
    /** Resolves to `{ code, signal }`. */
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => resolve({ code, signal }));
    });
  }

  #receive(message) {
    if (message === 'ready') return;
    this.#answers.get(message.number)[message.event].resolve(message.value);
  }

  #send(command) {
    const number = ++this.#numbers;
    const events = ['requested', 'granted', 'lost', 'settled'];
    const answers = Object.fromEntries(events.map((event) => [event, deferred()]));
    this.#answers.set(number, answers);
    this.child.send({ number, ...command });
    return { number, answers };
  }

  /**
   * Makes a request. Resolves, once it is made, to `{ granted, lost, settled, release, abort }`;
   * `lost` resolves to why its signal was aborted.
   */
  async request(name, options = {}) {
    const { number, answers } = this.#send({ command: 'request', name, options });
    await answers.requested.promise;
    return {
      granted: answers.granted.promise,
      lost: answers.lost.promise,
      settled: answers.settled.promise,
      release: () => this.child.send({ command: 'release', of: number }),
      abort: (reason) => this.child.send({ command: 'abort', of: number, reason }),
    };
  }

  /** Makes a request and waits until it is granted. */
  async hold(name, options) {
    const request = await this.request(name, options);
    request.lock = await request.granted;
    return request;
  }

  /** Sends any other command; resolves to its answer. */
  ask(command, more = {}) {
    return this.#send({ command, ...more }).answers.settled.promise;
  }

  /** Sends a command that is not answered. */
  tell(command) {
    this.child.send({ command });
  }

  kill(signal = 'SIGKILL') {
    this.child.kill(signal);
  }
}

/** A directory that goes when the test and its processes end; in memory, as the default one. */
function freshDirectory(t) {
  const directory = mkdtempSync(path.join(directories, 'web-locks-test-'));
  t.after(async () => {
    await endAll(t);
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

/**
 * A bucket of this test alone: here, and for `start(t, where)`.
 * @returns {{ bucket: any, locks: any, where: { bucket: string, directory: string } }}
 */
function freshBucket(t, name = 'bucket') {
  // Closed before its directory goes: hooks are called in their order.
  let bucket;
  t.after(() => bucket.close());
  const where = { bucket: name, directory: freshDirectory(t) };
  bucket = openBucket(name, { directory: where.directory });
  return { bucket, locks: bucket.locks, where };
}

/** A copy of the package that says it is of another version. @returns {string} its root */
function copyOfVersion(t, version) {
  const root = freshDirectory(t);
  for (const part of ['lib', FIXTURE]) {
    cpSync(path.join(ROOT, part), path.join(root, part), { recursive: true });
  }
  for (const binaries of ['build', 'prebuilds']) {
    symlinkSync(path.join(ROOT, binaries), path.join(root, binaries));
  }
  const manifest = { ...require('../../package.json'), version };
  writeFileSync(path.join(root, 'package.json'), JSON.stringify(manifest));
  return root;
}

/**
 * Queries a name until something is so. It pauses in between, as other processes need the processor
 * to make it so.
 */
async function untilQuery(locks, name, isSo) {
  for (;;) {
    const found = await locks.query({ name });
    if (isSo(found)) return found;
    await sleep(2);
  }
}

/** Waits until `locks` has so many requests pending on a name, or more. */
const pendingOn = async (locks, name, count = 1) =>
  (await untilQuery(locks, name, ({ pending }) => pending.length >= count)).pending;

/** Waits until `locks` has just so many requests pending on a name. */
const pendingIs = (locks, name, count) =>
  untilQuery(locks, name, ({ pending }) => pending.length === count);

module.exports = { RemoteProcess, copyOfVersion, freshBucket, freshDirectory };
Object.assign(module.exports, { pendingIs, pendingOn, untilQuery });
