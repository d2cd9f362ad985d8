'use strict';

/** Drives an agent in another thread (test/fixtures/agent.js) as if it were here. */

const { once } = require('node:events');
const path = require('node:path');
const { Worker } = require('node:worker_threads');
const { deferred } = require('./locks.js');

const FIXTURE = path.join(__dirname, '..', 'fixtures', 'agent.js');

class RemoteAgent {
  #answers = new Map();
  #numbers = 0;

  /** Starts a worker and waits until it has loaded the package. */
  static async start(t, { entry, bucket, ...options } = {}) {
    const worker = new Worker(FIXTURE, { workerData: { entry, bucket }, ...options });
    const agent = new RemoteAgent(worker);
    t?.after(() => worker.terminate());
    await once(worker, 'message');
    worker.on('message', (message) => agent.#receive(message));
    return agent;
  }

  constructor(worker) {
    this.worker = worker;
    this.exited = new Promise((resolve) => worker.once('exit', resolve));
    this.failed = new Promise((resolve) => worker.once('error', resolve));
  }

  #receive({ number, event, value }) {
    this.#answers.get(number)[event].resolve(value);
  }

  #send(command) {
    const number = ++this.#numbers;
    const answers = { requested: deferred(), granted: deferred(), settled: deferred() };
    this.#answers.set(number, answers);
    this.worker.postMessage({ number, ...command });
    return { number, answers };
  }

  /**
   * Makes a request. Resolves, once it is made, to `{ granted, settled, release, abort }`:
   * `granted` resolves to the lock's `{ name, mode }` or null, `settled` to `{ value }` or `{
   * error: { name, message } }`.
   */
  async request(name, options = {}) {
    const { number, answers } = this.#send({ command: 'request', name, options });
    await answers.requested.promise;
    return {
      granted: answers.granted.promise,
      settled: answers.settled.promise,
      release: () => this.worker.postMessage({ command: 'release', number }),
      abort: (reason) => this.worker.postMessage({ command: 'abort', number, reason }),
    };
  }

  /** Makes a request and waits until it is granted. */
  async hold(name, options) {
    const request = await this.request(name, options);
    await request.granted;
    return request;
  }

  async query() {
    return this.#send({ command: 'query' }).answers.settled.promise;
  }

  /**
   * How the worker ends: 'process.exit', 'throw', 'finish' or 'terminate'. Resolves when it has.
   */
  async end(how) {
    if (how === 'terminate') this.worker.terminate();
    else this.worker.postMessage({ command: how });
    await this.exited;
  }
}

module.exports = { RemoteAgent };
