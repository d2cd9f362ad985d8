'use strict';

/**
 * Drives another agent as if it were here: one in a worker, one in a process (test/fixtures/agent.js
 * in both), or a session of its own in this thread, as the scope of the test has it
 * (test/conformance/scopes.js).
 */

const { fork } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { Worker, threadId } = require('node:worker_threads');
const { PROCESS, SESSION, WORKER, agents, scope } = require('../conformance/scopes.js');
const { deferred } = require('./locks.js');
const { serve } = require('./serve.js');

const FIXTURE = path.join(__dirname, '..', 'fixtures', 'agent.js');

/**
 * What each kind of agent is made of: `post` sends it a message, `end` ends it; `exited` and
 * `failed` are promises; `pid`, `threadId`.
 */
const starters = {
  async [WORKER](receive, { entry, bucket, ...options }) {
    const worker = new Worker(FIXTURE, { workerData: { entry, bucket }, ...options });
    // Not by `once`: that rejects if there is an error before.
    const exited = new Promise((resolve) => worker.once('exit', resolve));
    const failed = new Promise((resolve) => worker.once('error', resolve));
    await once(worker, 'message');
    worker.on('message', receive);
    return {
      worker,
      exited,
      failed,
      pid: process.pid,
      threadId: worker.threadId,
      post: (message) => worker.postMessage(message),
      end: () => worker.terminate(),
    };
  },

  async [PROCESS](receive) {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const child = fork(FIXTURE, { serialization: 'advanced', env });
    const exited = once(child, 'exit');
    await once(child, 'message');
    child.on('message', receive);
    return {
      exited,
      failed: new Promise(() => {}),
      pid: child.pid,
      threadId: 0,
      // It may have died, which is what its tests are about.
      post: (message) => child.send(message, () => {}),
      end: () => child.kill('SIGKILL'),
    };
  },

  async [SESSION](receive) {
    const bucket = scope.openBucket(process.env.WEB_LOCKS_TEST_BUCKET);
    await bucket.ready;
    const commands = serve(bucket.locks, receive);
    const exited = deferred();
    const end = () => bucket.close().then(exited.resolve);
    return {
      exited: exited.promise,
      failed: new Promise(() => {}),
      pid: process.pid,
      threadId,
      post: (message) => commands[message.command](message),
      end,
    };
  },
};

class RemoteAgent {
  #answers = new Map();
  #numbers = 0;
  #port;

  /**
   * Starts an agent and waits until it has loaded the package.
   * @param t the test at whose end it ends
   * @param options those of a worker; `bucket`: its name, `entry`: another copy of the package to
   *   load, in the scope `process`
   */
  static async start(t, options = {}) {
    const agent = new RemoteAgent();
    const port = await starters[agents]((message) => agent.#receive(message), options);
    t?.after(() => port.end());
    agent.#port = port;
    const { worker, exited, failed, pid, threadId } = port;
    return Object.assign(agent, { worker, exited, failed, pid, threadId });
  }

  #receive({ number, event, value }) {
    this.#answers.get(number)[event].resolve(value);
  }

  #send(command) {
    const number = ++this.#numbers;
    const answers = { requested: deferred(), granted: deferred(), settled: deferred() };
    this.#answers.set(number, answers);
    this.#port.post({ number, ...command });
    return { number, answers };
  }

  /**
   * Makes a request. Resolves, once it is made, to `{ granted, settled, publish, release, abort }`:
   * `granted` resolves to the lock's `{ name, mode }` or null, `settled` to `{ value }` or `{
   * error: { name, message } }`.
   */
  async request(name, options = {}) {
    const { number, answers } = this.#send({ command: 'request', name, options });
    await answers.requested.promise;
    return {
      granted: answers.granted.promise,
      settled: answers.settled.promise,
      publish: (value) =>
        this.#send({ command: 'publish', of: number, value }).answers.settled.promise,
      release: () => this.#port.post({ command: 'release', number }),
      abort: (reason) => this.#port.post({ command: 'abort', number, reason }),
    };
  }

  /** Makes a request and waits until it is granted. */
  async hold(name, options) {
    const request = await this.request(name, options);
    await request.granted;
    return request;
  }

  /** Waits for the unlock of a name. Resolves, once it does, to `{ settled }`. */
  async waitForUnlock(name) {
    const { answers } = this.#send({ command: 'waitForUnlock', name });
    await answers.requested.promise;
    return { settled: answers.settled.promise };
  }

  async query() {
    return this.#send({ command: 'query' }).answers.settled.promise;
  }

  /**
   * How the agent ends: 'process.exit', 'throw', 'finish' or 'terminate'. Resolves when it has.
   */
  async end(how) {
    if (how === 'terminate') this.#port.end();
    else this.#port.post({ command: how });
    await this.exited;
  }
}

module.exports = { RemoteAgent };
