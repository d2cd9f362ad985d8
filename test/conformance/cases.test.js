'use strict';

/**
 * Runs the cases of test/fixtures/cases.json. A step is a call, a colon and its effect: the answer,
 * then all events that it causes, those of agent A first.
 *
 *   A 1 shared limit 3: granted   agent A makes request 1, for the name `a` unless it says `of`
 *   C 3: waits                    or `unavailable`, `full`, or `limit` and the name's limit
 *   release 1: done, 3 granted    the same for `abort`
 *   terminate A: done, 2 granted
 *   state b: 1 2 | 3              the holders of the name, by grant, and its waiters
 *
 * Each case runs twice: with calls that return at once, and with calls that block until they have
 * the answer. Each of the latter follows queries, so that the host scope defers it.
 */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { scope } = require('./scopes.js');
const { LockStolenError } = scope.library();
const cases = require('../fixtures/cases.json');
const { freshName } = require('../helpers/locks.js');

/** The option that a word of a request, and the word after it, stands for. */
const WORDS = {
  shared: () => ({ mode: 'shared' }),
  ifAvailable: () => ({ ifAvailable: true }),
  steal: () => ({ steal: true }),
  limit: (value) => ({ limit: Number(value) }),
  weight: (value) => ({ weight: Number(value) }),
  priority: (value) => ({ priority: Number(value) }),
  maxPending: (value) => ({ maxPending: Number(value) }),
};

/** The word for the error of a request; undefined for errors that the test itself caused. */
function wordFor(error, words) {
  if (error instanceof LockStolenError) return 'stolen';
  if (error.name === 'QuotaExceededError') return 'full';
  if (error.name !== 'TypeError') return undefined;
  const own = words.includes('limit')
    ? `the limit ${words[words.indexOf('limit') + 1]}`
    : 'no limit';
  const [, asked, limit] =
    /has (.*), but .* have (?:the limit (\d+)|no limit)\.$/.exec(error) ?? [];
  return asked === own ? `limit ${limit ?? 0}` : error.message;
}

class Play {
  /** @param {boolean} blocks whether calls block, unless their answer is that they wait */
  constructor(blocks) {
    this.blocks = blocks;
  }

  #bucket = freshName();
  #observer = scope.openBucket(this.#bucket);
  /** The agents, by letter. @type {Map<string, any>} */
  #agents = new Map();
  /** The requests, by id. @type {Map<string, any>} */
  #requests = new Map();
  /** The requests that had events in this step. */
  #told = [];
  /** The greatest token of each name before this step. */
  #tokens = new Map();

  #agent(letter) {
    if (!this.#agents.has(letter)) this.#agents.set(letter, scope.openBucket(this.#bucket));
    return this.#agents.get(letter);
  }

  #note(request, state, isAnswer = false) {
    request.state = state;
    if (state && !isAnswer) this.#told.push(request);
  }

  #ask(letter, id, words, blocks) {
    const name = words.includes('of') ? words[words.indexOf('of') + 1] : 'a';
    const options = words.map((word, i) => WORDS[word]?.(words[i + 1]));
    const controller = new AbortController();
    const request = { id, letter, name, words, controller, state: 'asked', end: () => {} };
    const signal = words.some((word) => word === 'steal' || word === 'ifAvailable')
      ? {}
      : { signal: controller.signal };
    this.#requests.set(id, request);
    const { locks } = this.#agent(letter);
    if (blocks) {
      for (let i = 0; i < 8; i++) locks.query();
      const { ifAvailable, ...more } = Object.assign({ label: id }, ...options);
      this.#block(request, () =>
        ifAvailable
          ? locks.tryAcquireSync(name, more)
          : locks.acquireSync(name, { ...more, timeout: 60_000 }),
      );
      return;
    }
    request.settled = locks
      .request(name, Object.assign({ label: id, ...signal }, ...options), (lock) => {
        this.#note(request, lock ? 'granted' : 'unavailable');
        request.token = lock?.token;
        return lock && new Promise((resolve) => (request.end = resolve));
      })
      .catch((error) => this.#note(request, wordFor(error, words)));
  }

  #block(request, acquire) {
    const note = (error) => this.#note(request, wordFor(error, request.words));
    try {
      const handle = acquire();
      this.#note(request, handle ? 'granted' : 'unavailable');
      if (!handle) return;
      request.token = handle.token;
      request.end = () => handle.release();
      handle.signal.addEventListener('abort', () => note(handle.signal.reason));
    } catch (error) {
      note(error);
    }
  }

  /** Waits until the events agree with the state. Resolves to the state of all names. */
  async #settle() {
    for (;;) {
      const { held, pending } = await this.#observer.locks.query({ details: true });
      const labels = (entries) =>
        entries
          .map(({ label }) => label)
          .sort()
          .join();
      const ids = (states) =>
        [...this.#requests.values()]
          .filter(({ state }) => states.includes(state))
          .map(({ id }) => id)
          .sort()
          .join();
      const isTold = labels(held) === ids(['granted']);
      if (isTold && labels(pending) === ids(['asked', 'waits'])) return { held, pending };
      await new Promise(setImmediate);
    }
  }

  async #terminate(letter) {
    const bucket = this.#agent(letter);
    for (const request of this.#requests.values()) {
      if (request.letter === letter) request.state = undefined;
    }
    await bucket.close();
  }

  /** @returns {Promise<string>} the answer to a call, without events; undefined for a request */
  async #act(verb, id, words, expected) {
    const request = this.#requests.get(id);
    switch (verb) {
      case 'state': {
        const { held, pending } = await this.#settle();
        const of = (entries) =>
          entries.filter(({ name }) => name === (id ?? 'a')).map(({ label }) => `${label} `);
        return `${of(held).join('')}| ${of(pending).join('')}`.trim();
      }
      case 'release':
        request.state = undefined;
        request.end();
        return 'done';
      case 'abort':
        request.controller.abort();
        if (request.state === 'granted') return 'granted';
        await request.settled;
        return 'done';
      case 'terminate':
        await this.#terminate(id);
        return 'done';
      default:
        this.#ask(
          ...[verb, id, words],
          this.blocks && !words.includes('steal') && !expected.startsWith('waits'),
        );
    }
  }

  #checkTokens() {
    const greatest = new Map(this.#tokens);
    for (const { name, state, token } of this.#told) {
      if (state !== 'granted') continue;
      assert.ok(token > (this.#tokens.get(name) ?? 0n), `token ${token}`);
      if (token > (greatest.get(name) ?? 0n)) greatest.set(name, token);
    }
    this.#tokens = greatest;
  }

  /** Takes a step. Resolves to the step with its effect. */
  async take(step) {
    const [call, expected] = step.split(': ');
    const [verb, id, ...words] = call.split(' ');
    this.#told = [];
    const answer = await this.#act(verb, id, words, expected);
    // The agent's query is answered after its request.
    if (answer === undefined) await this.#agent(verb).locks.query();
    await this.#settle();
    this.#checkTokens();
    const asked = answer === undefined ? this.#requests.get(id) : undefined;
    if (asked?.state === 'asked') asked.state = 'waits';
    const told = this.#told
      .filter((request) => request !== asked && request.state !== undefined)
      .sort((a, b) => (a.letter < b.letter ? -1 : a.letter > b.letter ? 1 : 0))
      .map((request) => `, ${request.id} ${request.state}`);
    return `${call}: ${answer ?? asked.state}${told.join('')}`;
  }

  async end() {
    for (const letter of this.#agents.keys()) await this.#terminate(letter);
    await this.#observer.close();
  }
}

describe('a case', () => {
  for (const { title, needs, steps } of cases) {
    const skip = needs !== undefined && scope.lacks[needs];
    it(title, { skip }, async () => {
      for (const blocks of scope.lacks.sync ? [false] : [false, true]) {
        const play = new Play(blocks);
        try {
          for (const step of steps.flatMap((several) => several.split('; '))) {
            assert.equal(await play.take(step), step);
          }
        } finally {
          await play.end();
        }
      }
    });
  }
});
