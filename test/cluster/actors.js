'use strict';

/** The parent's side of actor.js: processes that share locks, may be killed and stopped. */

const { fork } = require('node:child_process');
const { EventEmitter, once } = require('node:events');
const path = require('node:path');

const now = () => Number(process.hrtime.bigint()) / 1e6;

/** A few processes, and the history of what they did. */
class Stage {
  events = [];
  actors = [];
  #numbers = 0;

  constructor(options) {
    this.options = options;
  }

  /** Notes something that is no request's. */
  note(type, more = {}) {
    this.events.push({ type, time: now(), ...more });
  }

  fault() {
    this.note('fault');
  }

  /** Starts a process whose bucket is open. */
  async actor(options = {}) {
    const name = `actor ${this.actors.length + 1}`;
    const actor = new Actor(this, { name, ...this.options, ...options });
    this.actors.push(actor);
    actor.say('ready');
    await actor.until(() => actor.isReady);
    return actor;
  }

  get nextNumber() {
    return ++this.#numbers;
  }

  /** Closes what still runs. */
  async close() {
    for (const actor of this.actors) {
      if (!actor.isEnded) actor.say('close');
    }
    await Promise.all(this.actors.map((actor) => actor.isEnded || once(actor, 'exit')));
  }

  /** For an `after` hook. */
  kill() {
    for (const { child } of this.actors) child.kill('SIGKILL');
  }
}

class Actor extends EventEmitter {
  isReady = false;
  isEnded = false;
  states = [];
  /** What is known of requests, by number. */
  #requests = new Map();

  constructor(stage, options) {
    super();
    this.stage = stage;
    this.name = options.name;
    this.child = fork(path.join(__dirname, 'actor.js'), [JSON.stringify(options)], {
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.child.on('message', (message) => this.#hear(message));
    this.child.on('exit', () => {
      this.isEnded = true;
      this.emit('news');
      this.emit('exit');
    });
    this.child.on('error', () => {});
  }

  #hear({ event, number, ready, state, ...more }) {
    if (event) this.stage.events.push(event);
    if (ready) this.isReady = true;
    if (state) this.states.push({ state, time: now(), ...more });
    if (number) Object.assign(this.#requests.get(number), more);
    this.emit('news');
  }

  say(what, more = {}) {
    this.child.send({ do: what, ...more });
  }

  async until(condition) {
    while (!condition()) {
      if (this.isEnded) throw new Error(`${this.name} has ended`);
      await once(this, 'news');
    }
  }

  /** Requests a lock. It is held for `duration`, or until `release`. */
  request(what, options = {}, duration = undefined) {
    const number = this.stage.nextNumber;
    const known = { granted: undefined, settled: false, asked: false };
    this.#requests.set(number, known);
    this.say('request', { number, what, options, duration });
    return {
      known,
      /** Until it has come to the server. */
      asked: () => {
        this.say('asked', { number, what });
        return this.until(() => known.asked);
      },
      granted: () => this.until(() => known.granted !== undefined),
      settled: () => this.until(() => known.settled),
      release: () => this.say('release', { number }),
      abort: () => this.say('abort', { number }),
    };
  }

  /** SIGSTOP or SIGCONT. */
  stop() {
    this.stage.fault();
    this.stage.note('stopped', { client: this.name });
    this.child.kill('SIGSTOP');
  }

  resume() {
    // What it sees first of its locks is what its user would see.
    this.child.kill('SIGCONT');
    this.say('look');
    this.stage.fault();
  }

  async kill() {
    const exited = once(this, 'exit');
    this.stage.fault();
    this.stage.note('killed', { client: this.name });
    this.child.kill('SIGKILL');
    await exited;
  }
}

module.exports = { Stage, now };
