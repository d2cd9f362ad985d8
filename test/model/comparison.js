'use strict';

/** Compares real agents with the model: random steps, and after each all that can be seen. */

const assert = require('node:assert/strict');
const { randomUUID } = require('node:crypto');
const fc = require('fast-check');
const { chosen, scope } = require('../conformance/scopes.js');
const { LockManagerModel } = require('./model.js');

/** More runs by hand: `MODEL_RUNS=100000 MODEL_SEED=1 node --test test/model/model.test.js`. */
const RUNS = Number(process.env.MODEL_RUNS ?? 400);
const SEED = process.env.MODEL_SEED === undefined ? undefined : Number(process.env.MODEL_SEED);

/** Milliseconds for one comparison; half of it for finding a failure and its shortest form. */
const LIMIT_MS = Number(process.env.MODEL_LIMIT_MS ?? 600_000);
/** Milliseconds after which an event that did not come is a difference, where one is expected. */
const FIRST_MS = 5000;

/** Most steps are on one name of one bucket, so that queues become long. */
const NAMES = ['a', 'a', 'a', 'a', 'b', 'c', 'c', 'c'];
const BUCKET = [...new Array(9).fill(0), 1];

const BUCKETS = 2;
const REFUSALS = ['other limit', 'queue full'];

/** What a request says beyond the specification. Names 'c' have limits, mostly the same one; others mostly none. */
const more = fc.record({
  limit: fc.constantFrom(3, 3, 3, 3, 3, 2),
  weight: fc.constantFrom(undefined, 1, 2),
  deviates: fc.constantFrom(...new Array(9).fill(false), true),
  maxPending: fc.constantFrom(undefined, undefined, undefined, 0, 1, 2),
  priority: scope.lacks.priority
    ? fc.constant(undefined)
    : fc.constantFrom(undefined, undefined, undefined, undefined, 0, 1, 1, 2, -1, -2),
});

/** One step. `pick` chooses among the requests it can apply to, so that every step of every sequence means something. */
const step = (agents) =>
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        command: fc.constant('request'),
        agent: fc.nat(agents - 1),
        bucket: fc.constantFrom(...BUCKET),
        name: fc.constantFrom(...NAMES),
        mode: fc.constantFrom('exclusive', 'shared', 'shared'),
        disposition: fc.constantFrom(...new Array(8).fill('wait'), 'ifAvailable', 'steal'),
        more,
      }),
    },
    { weight: 3, arbitrary: fc.record({ command: fc.constant('release'), pick: fc.nat() }) },
    { weight: 2, arbitrary: fc.record({ command: fc.constant('abort'), pick: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ command: fc.constant('end'), agent: fc.nat(agents - 1) }) },
  );

/** Runs one sequence of steps on the model and on real agents, and compares all that can be seen. */
class Comparison {
  #prefix;
  #Model;
  #run = randomUUID();
  #ids = 0;
  /** By id, what the model told and what the agent told. */
  expected = new Map();
  actual = new Map();
  /** By id, the tokens of locks. */
  tokens = new Map();
  /** By id, the bucket's number and the name. */
  places = new Map();
  /** By agent, what has an order: from `#order` to ids in the order in which they were granted. */
  expectedGrants;
  actualGrants;
  #changed = () => {};

  /**
   * @param agents
   * @param prefix of the names of buckets in which nobody has anything
   * @param Model a class
   */
  constructor(agents, prefix, Model) {
    this.#prefix = prefix;
    this.#Model = Model;
    this.agents = agents;
    this.expectedGrants = agents.map(() => new Map());
    this.actualGrants = agents.map(() => new Map());
    this.clients = agents.map(() => this.#noClients());
    this.models = Array.from({ length: BUCKETS }, () => this.#model());
    this.requests = new Map();
  }

  /** The client ids of an agent, by bucket. */
  #noClients() {
    if (scope.lacks.oneClient) return Array.from({ length: BUCKETS }, () => new Set());
    return new Array(BUCKETS).fill(new Set());
  }

  /**
   * Within what the grants of an agent have an order. Where it is another client in each bucket, each
   * hears by itself of the death of somebody who held locks in both.
   */
  #order(id) {
    const { bucket, name } = this.places.get(id);
    // An agent that ends releases its locks of several buckets in an order that nobody promises.
    if (scope.lacks.orderOfNames || this.restart) return `${bucket} ${name}`;
    return scope.lacks.oneClient ? `${bucket}` : 'all';
  }

  #granted(lists, id) {
    const key = this.#order(id);
    lists.set(key, [...(lists.get(key) ?? []), id]);
  }

  #model() {
    const model = new this.#Model((agent, id, what) => {
      this.expected.get(id).push(what);
      if (what === 'granted') this.#granted(this.expectedGrants[agent], id);
    });
    model.keepsLimits = !scope.lacks.keptLimit;
    return model;
  }

  /** What an agent calls. */
  tell(agent, id, what, token) {
    if (!this.actual.has(id)) return; // of an earlier run
    this.actual.get(id).push(what);
    if (token !== undefined) this.tokens.set(id, token);
    if (what === 'granted') this.#granted(this.actualGrants[agent], id);
    this.#changed();
  }

  bucket(index) {
    return `${this.#prefix} ${index}`;
  }

  #candidates(command) {
    return [...this.requests.values()].filter(({ id, done, signal, ended }) => {
      const told = this.expected.get(id);
      if (done || ended) return false;
      return command === 'release' ? told.includes('granted') : signal;
    });
  }

  async run(one) {
    const done = await this[one.command](one);
    if (done !== false) await this.#settle();
  }

  /** The options that make sense together. */
  #more({ limit, weight, deviates, maxPending, priority }, { name, mode, steal }) {
    const weighs = mode === 'shared' && (name === 'c') !== deviates;
    return { maxPending, ...(weighs ? { limit, weight } : {}), ...(steal ? {} : { priority }) };
  }

  async request({ agent, bucket, name, mode, disposition, more }) {
    const id = `${this.#run} ${++this.#ids}`;
    const steal = disposition === 'steal';
    const ifAvailable = disposition === 'ifAvailable';
    const finalMode = steal ? 'exclusive' : mode;
    this.expected.set(id, []);
    this.actual.set(id, []);
    this.places.set(id, { bucket, name });
    const model = this.models[bucket];
    const options = this.#more(more, { name, mode: finalMode, steal });
    const request = model.requestALock(agent, id, name, finalMode, ifAvailable, steal, options);
    this.requests.set(id, { id, agent, bucket, request, signal: disposition === 'wait' });
    const [answer] = this.expected.get(id);
    if (answer === 'unavailable') this.#finish(id);
    if (REFUSALS.includes(answer)) this.requests.get(id).done = true;
    const command = {
      ...{ id, bucket: this.bucket(bucket), name, mode: finalMode, ifAvailable, steal },
      more: options,
    };
    await this.#send(agent, bucket, 'request', command);
  }

  async release({ pick }) {
    const candidates = this.#candidates('release');
    if (candidates.length === 0) return false;
    const { id, agent, bucket, request } = candidates[pick % candidates.length];
    const model = this.models[bucket];
    const stolen = this.expected.get(id).includes('stolen');
    if (!stolen) model.releaseTheLock(request);
    this.#finish(id, stolen);
    await this.#send(agent, bucket, 'release', { id });
    return true;
  }

  /** The callback of a request ended: its promise settles, unless a steal did that before. */
  #finish(id, stolen = false) {
    this.requests.get(id).done = true;
    if (!stolen) this.expected.get(id).push('settled');
  }

  async abort({ pick }) {
    const candidates = this.#candidates('abort');
    if (candidates.length === 0) return false;
    const entry = candidates[pick % candidates.length];
    entry.signal = false; // a signal aborts once
    this.models[entry.bucket].signalToAbortTheRequest(entry.request);
    entry.done = this.expected.get(entry.id).includes('aborted');
    await this.#send(entry.agent, entry.bucket, 'abort', { id: entry.id });
    return true;
  }

  async end({ agent }) {
    if (!this.restart) return false;
    for (const entry of this.requests.values()) if (entry.agent === agent) entry.ended = true;
    for (const model of this.models) model.terminateRemainingLocksAndRequests(agent);
    await this.agents[agent].end();
    // What it was told in its last moments, while it ended, is nobody's to compare.
    for (const { id } of this.#of(agent)) this.actual.set(id, [...this.expected.get(id)]);
    this.actualGrants[agent] = new Map(this.expectedGrants[agent]);
    this.clients[agent] = this.#noClients();
    this.agents[agent] = await this.restart(agent);
    return true;
  }

  /**
   * Has an agent do something. Where that may have to wait until others are out of the way, it is
   * done before the agent's next question is answered: the next command comes after that.
   */
  async #send(agent, bucket, kind, command) {
    await this.agents[agent].send(kind, command);
    if (chosen === 'process') return;
    await this.agents[agent].send('query', { bucket: this.bucket(bucket) });
  }

  #of(agent) {
    return [...this.requests.values()].filter((entry) => entry.agent === agent);
  }

  /** Waits until every agent was told what the model told it; a lost event fails, by the time limit of the test. */
  async #settle() {
    const told = () =>
      [...this.expected].every(([id, what]) => this.actual.get(id).length >= what.length);
    while (!told()) {
      await new Promise((resolve) => {
        this.#changed = resolve;
      });
    }
    for (const [id, what] of this.expected) {
      // The rejection of a stolen promise and the call of its callback are not ordered.
      assert.deepEqual([...this.actual.get(id)].sort(), [...what].sort());
    }
    assert.deepEqual(this.actualGrants, this.expectedGrants);
    this.#compareTokens();
    for (const [index, model] of this.models.entries()) await this.#compareSnapshot(index, model);
  }

  /**
   * Of what was granted on a name of a bucket, in the model's order: the tokens grow. Where the
   * scope says so, those of shared locks may be equal.
   */
  #compareTokens() {
    const last = new Map();
    const granted = [...this.requests.values()]
      .filter(({ id }) => this.tokens.has(id))
      .sort((one, other) => one.request.token - other.request.token);
    for (const { id, bucket, request } of granted) {
      const key = `${bucket} ${request.name}`;
      const token = this.tokens.get(id);
      const before = last.get(key);
      const canBeEqual =
        scope.lacks.tokenOfEach && request.mode === 'shared' && before?.mode === 'shared';
      const grows = !before || token > before.token || (canBeEqual && token === before.token);
      assert.ok(grows, `token ${token} after ${before?.token}`);
      last.set(key, { token, mode: request.mode });
    }
  }

  async #compareSnapshot(index, model) {
    const { held, pending } = await this.agents[0].send('query', { bucket: this.bucket(index) });
    const expected = model.snapshotTheLockState();
    const key = ({ name, mode, limit, weight, priority }) =>
      `${name} ${mode} ${weight} of ${limit}, ${priority}`;
    assert.deepEqual(held.map(key).sort(), expected.held.map(key).sort());
    for (const name of ['a', 'b', 'c']) {
      const of = (infos) => infos.filter((info) => info.name === name);
      assert.deepEqual(of(pending).map(key), of(expected.pending).map(key));
      for (const [i, { agent }] of of(expected.pending).entries()) {
        const clients = this.clients[agent][index];
        clients.add(of(pending)[i].clientId);
        assert.equal(clients.size, 1, 'one client id for each agent');
      }
    }
  }

  /** Ends what the sequence left. */
  async finish() {
    for (let left = true; left; ) {
      left = false;
      for (const command of ['abort', 'release']) {
        while (this.#candidates(command).length > 0) {
          await this.run({ command, pick: 0 });
          left = true;
        }
      }
    }
    for (const model of this.models) assert.equal(model.heldLockSet.size, 0);
  }
}

/**
 * A property over real agents of one kind, kept alive from run to run. Rejects with the shortest
 * sequence of steps that tells a difference; `first`: with the first one, as it was found.
 */
async function compare(
  kind,
  count,
  runs,
  { canEnd, Model = LockManagerModel, first = false, seed = SEED },
) {
  let comparison;
  const start = (agent) =>
    kind.start((id, what, token) => comparison?.tell(agent, id, what, token));
  const agents = await Promise.all(Array.from({ length: count }, (_, agent) => start(agent)));
  let prefix = randomUUID();
  let compared = 0;
  const property = fc.asyncProperty(
    fc.array(step(count), { minLength: 1, maxLength: 40, size: 'max' }),
    async (steps) => {
      // Buckets of the process cost nothing; others are used anew while runs leave nothing behind.
      const isUsedAgain = chosen !== 'process';
      const mine = prefix;
      prefix = randomUUID();
      comparison = new Comparison(agents, mine, Model);
      if (canEnd) comparison.restart = start;
      for (const one of steps) await comparison.run(one);
      await comparison.finish();
      if (isUsedAgain) prefix = mine;
      compared++;
    },
  );
  // A held lock does not keep the event loop alive to hear of a steal by another agent of the thread.
  const alive = setInterval(() => {}, 1e6);
  try {
    await fc.assert(property, {
      numRuns: runs,
      seed,
      endOnFailure: first,
      // A sequence that hangs is told; that there is time for a few of them only is no fault.
      timeout: first ? FIRST_MS : LIMIT_MS / 4,
      interruptAfterTimeLimit: LIMIT_MS / 2,
      includeErrorInReport: true,
    });
    assert.ok(compared > 0, 'there was no time for a single sequence');
  } finally {
    clearInterval(alive);
    for (const agent of agents) await agent.end();
  }
}

module.exports = { LIMIT_MS, RUNS, compare };
