'use strict';

/**
 * Agents of the real lock manager, for comparing with the model. Both kinds have the same functions: `request`, `release`,
 * `abort`, `query` and `end`; each resolves when it has been carried out. What the agent is told comes by `tell(id, what)`.
 */

const { once } = require('node:events');
const path = require('node:path');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

const LIB = path.join(__dirname, '..', '..', 'lib');
const BUILD = path.join(__dirname, '..', '..', 'build');

/** Carries commands out on a LockManager of this thread. */
class Executor {
  #requests = new Map();

  constructor(openBucket, tell) {
    this.openBucket = openBucket;
    this.tell = tell;
  }

  request({ id, bucket, name, mode, ifAvailable, steal, more }) {
    const controller = new AbortController();
    const entry = { controller };
    this.#requests.set(id, entry);
    const signal = ifAvailable || steal ? undefined : controller.signal;
    this.openBucket(bucket)
      .locks.request(name, { mode, ifAvailable, steal, signal, ...more }, (lock) => {
        this.tell(id, lock ? 'granted' : 'unavailable', lock?.token);
        if (!lock) return undefined;
        return new Promise((resolve) => {
          entry.release = resolve;
        });
      })
      .then(
        () => this.tell(id, 'settled'),
        (error) => this.tell(id, this.#whatOf(error)),
      );
  }

  #whatOf(error) {
    if (error === 'the reason') return 'aborted';
    if (error instanceof TypeError) return 'other limit';
    return error.name === 'QuotaExceededError' ? 'queue full' : 'stolen';
  }

  release({ id }) {
    this.#requests.get(id).release();
  }

  abort({ id }) {
    this.#requests.get(id).controller.abort('the reason');
  }

  query({ bucket }) {
    return this.openBucket(bucket).locks.query({ details: true });
  }
}

/** An agent of its own in this thread: another load of the package and its binary. It cannot end. */
class LocalAgent {
  static start(tell) {
    for (const key of Object.keys(require.cache)) {
      if (key.startsWith(LIB) || key.startsWith(BUILD)) delete require.cache[key];
    }
    const { openBucket } = require('../../lib/index.js');
    return new LocalAgent(new Executor(openBucket, tell));
  }

  constructor(executor) {
    this.executor = executor;
  }

  async send(command, data) {
    return this.executor[command](data);
  }

  async end() {}
}

/** An agent in a worker. */
class WorkerAgent {
  #answers = [];

  static async start(tell) {
    const worker = new Worker(__filename, { workerData: 'agent' });
    await once(worker, 'message');
    return new WorkerAgent(worker, tell);
  }

  constructor(worker, tell) {
    this.worker = worker;
    worker.on('message', ({ answer, id, what, token }) => {
      if (what) tell(id, what, token);
      else this.#answers.shift()(answer);
    });
  }

  send(command, data) {
    this.worker.postMessage({ command, data });
    return new Promise((resolve) => this.#answers.push(resolve));
  }

  async end() {
    await this.worker.terminate();
  }
}

if (!isMainThread && workerData === 'agent') {
  const { openBucket } = require('../../lib/index.js');
  const executor = new Executor(openBucket, (id, what, token) =>
    parentPort.postMessage({ id, what, token }),
  );
  parentPort.on('message', async ({ command, data }) => {
    parentPort.postMessage({ answer: await executor[command](data) });
  });
  parentPort.postMessage('ready');
}

module.exports = { LocalAgent, WorkerAgent };
