'use strict';

/**
 * Controls another agent as if it were here. The scope of the test (test/conformance/scopes.js)
 * determines whether it is a worker, a process (both run test/fixtures/agent.js), or a session of
 * its own in this thread.
 */

const { fork } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { Worker, threadId } = require('node:worker_threads');
const { PROCESS, SESSION, WORKER, agents, chosen, scope } = require('../conformance/scopes.js');
const { serve } = require('../fixtures/serve.js');
const { RemoteClient } = require('./remote-client.js');
const { deferred } = require('./locks.js');

const FIXTURE = path.join(__dirname, '..', 'fixtures', 'agent.js');

/** Start each kind of agent. `post` sends it a message; `exited` and `failed` are promises. */
const starters = {
  async [WORKER](receive, { entry, bucket, ...options }) {
    const worker = new Worker(FIXTURE, { workerData: { entry, bucket }, ...options });
    // `once` of node:events would reject after an error.
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
      // A dead agent is no error here: some tests end it.
      post: (message) => child.send(message, () => {}),
      end: () => child.kill('SIGKILL'),
    };
  },

  async [SESSION](receive) {
    const bucket = scope.openBucket(process.env.WEB_LOCKS_TEST_BUCKET);
    await bucket.ready;
    const commands = serve(bucket.locks, receive, {
      Mutex: scope.library().Mutex,
      isLate: chosen !== 'process',
    });
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

class RemoteAgent extends RemoteClient {
  #port;

  /**
   * Starts an agent and waits until it has loaded the package.
   * @param t the test at whose end it ends
   * @param options those of a worker; `bucket`: its name, `entry`: another copy of the package to
   * load, in the scope `process`
   */
  static async start(t, options = {}) {
    const agent = new RemoteAgent((message) => agent.#port.post(message));
    const port = await starters[agents]((message) => agent.receive(message), options);
    t?.after(() => port.end());
    agent.#port = port;
    const { worker, exited, failed, pid, threadId } = port;
    return Object.assign(agent, { worker, exited, failed, pid, threadId });
  }

  /** Makes the agent wait for the unlock of a name. Resolves, once it waits, to `{ settled }`. */
  async waitForUnlock(name) {
    const { requested, settled } = this.send('waitForUnlock', { name });
    await requested;
    return { settled };
  }

  query() {
    return this.ask('query');
  }

  /** Ends the agent by 'process.exit', 'throw', 'finish' or 'terminate', and waits for its end. */
  async end(how) {
    if (how === 'terminate') this.#port.end();
    else this.tell(how);
    await this.exited;
  }
}

module.exports = { RemoteAgent };
