'use strict';

/**
 * Agents of the real lock manager, for comparison with the model, in the scope of the test
 * (test/conformance/scopes.js). All kinds have the same functions: `send`, for `request`,
 * `release`, `abort` and `query`, and `end`; each resolves once the command was executed. The
 * agent's events are passed to `tell(id, what)`.
 */

const { fork } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { chosen, scope } = require('../conformance/scopes.js');

const LIB = path.join(__dirname, '..', '..', 'lib');
const BUILD = path.join(__dirname, '..', '..', 'build');

/** Opens each bucket once, and closes them all: in wider scopes an open bucket holds resources. */
class Buckets {
  #opened = new Map();

  open = (name) => {
    const bucket = this.#opened.get(name) ?? scope.openBucket(name);
    this.#opened.set(name, bucket);
    return bucket;
  };

  close() {
    return Promise.all([...this.#opened.values()].map((bucket) => bucket.close()));
  }
}

/** Executes commands on a LockManager of this thread. */
class Executor {
  #requests = new Map();

  constructor(openBucket, tell) {
    this.openBucket = openBucket;
    this.tell = tell;
  }

  /** Resolves when other agents can see the effect of the command. */
  async run(command, data) {
    const answer = await this[command](data);
    if (!scope.lacks.atOnce) return answer;
    const bucket = data.bucket ?? this.#requests.get(data.id).bucket;
    await this.openBucket(bucket).locks.query();
    return answer;
  }

  request({ id, bucket, name, mode, ifAvailable, steal, more }) {
    const controller = new AbortController();
    const entry = { controller, bucket };
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
    if (error.name === 'QuotaExceededError') return 'queue full';
    return error.name === 'AbortError' ? 'stolen' : String(error);
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

/** An agent in this thread: it loads the package and its binary once more. It cannot end. */
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
    return this.executor.run(command, data);
  }

  async end() {}
}

/** An agent in this thread with sessions of its own. */
class SessionAgent {
  #buckets = new Buckets();
  #executor;
  #hasEnded = false;

  static start(tell) {
    return new SessionAgent(tell);
  }

  constructor(tell) {
    this.#executor = new Executor(this.#buckets.open, (...told) => {
      if (!this.#hasEnded) tell(...told);
    });
  }

  async send(command, data) {
    return this.#executor.run(command, data);
  }

  async end() {
    this.#hasEnded = true;
    await this.#buckets.close();
  }
}

/** An agent that is controlled by messages. */
class DistantAgent {
  #answers = [];

  constructor(other, tell) {
    this.other = other;
    other.on('message', ({ answer, id, what, token }) => {
      if (what) tell(id, what, token);
      else this.#answers.shift()(answer);
    });
  }

  send(command, data) {
    this.post({ command, data });
    return new Promise((resolve) => this.#answers.push(resolve));
  }
}

class WorkerAgent extends DistantAgent {
  static async start(tell) {
    const worker = new Worker(__filename, { workerData: 'agent' });
    await once(worker, 'message');
    return new WorkerAgent(worker, tell);
  }

  post(message) {
    this.other.postMessage(message);
  }

  async end() {
    await this.other.terminate();
  }
}

class ProcessAgent extends DistantAgent {
  static async start(tell) {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const child = fork(__filename, ['agent'], { serialization: 'advanced', env });
    await once(child, 'message');
    return new ProcessAgent(child, tell);
  }

  post(message) {
    this.other.send(message);
  }

  async end() {
    this.other.kill('SIGKILL');
    await once(this.other, 'exit');
  }
}

/** Executes the commands of a DistantAgent. @param port gets its messages @param post answers */
function serve(port, post) {
  const openBucket = chosen === 'process' ? scope.openBucket : new Buckets().open;
  const executor = new Executor(openBucket, (id, what, token) => post({ id, what, token }));
  port.on('message', async ({ command, data }) => {
    post({ answer: await executor.run(command, data) });
  });
  post('ready');
}

if (!isMainThread && workerData === 'agent') {
  serve(parentPort, (message) => parentPort.postMessage(message));
} else if (require.main === module) {
  process.on('disconnect', () => process.exit(0));
  serve(process, (message) => process.send(message, () => {}));
}

module.exports = { LocalAgent, ProcessAgent, SessionAgent, WorkerAgent };
