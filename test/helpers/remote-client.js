'use strict';

const { deferred } = require('./locks.js');

const EVENTS = ['requested', 'granted', 'lost', 'settled'];

/** Makes another agent execute requests, through test/fixtures/serve.js. */
class RemoteClient {
  #answers = new Map();
  #numbers = 0;
  #post;

  /** @param {(message: any) => void} post sends a message to the agent */
  constructor(post) {
    this.#post = post;
  }

  /** Handles a message of the agent. */
  receive({ number, event, value }) {
    this.#answers.get(number)?.[event].resolve(value);
  }

  /** Sends a command. @returns its number, and promises of the events that answer it */
  send(command, more = {}) {
    const number = ++this.#numbers;
    const answers = EVENTS.map((event) => [event, deferred()]);
    this.#answers.set(number, Object.fromEntries(answers));
    this.#post({ number, command, ...more });
    return {
      number,
      ...Object.fromEntries(answers.map(([event, { promise }]) => [event, promise])),
    };
  }

  /** Sends a command; resolves to its answer. */
  ask(command, more) {
    return this.send(command, more).settled;
  }

  /** Sends a command that gets no answer. */
  tell(command, more) {
    this.#post({ command, ...more });
  }

  /**
   * Makes a request. Resolves, once it is made, to `{ granted, lost, settled, publish, release,
   * abort }`: `granted` resolves to the lock's `{ name, mode }` or null, `lost` to the reason with
   * which its signal was aborted, `settled` to `{ value }` or `{ error }`.
   */
  async request(name, options = {}) {
    const { number: of, requested, ...promises } = this.send('request', { name, options });
    await requested;
    return {
      ...promises,
      publish: (value) => this.ask('publish', { of, value }),
      release: () => this.tell('release', { of }),
      abort: (reason) => this.tell('abort', { of, reason }),
    };
  }

  async hold(name, options) {
    const request = await this.request(name, options);
    await request.granted;
    return request;
  }
}

module.exports = { RemoteClient };
