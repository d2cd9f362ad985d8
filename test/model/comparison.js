'use strict';

/** Compares real agents with the model: random steps, and after each everything visible. */

const assert = require('node:assert/strict');
const { randomUUID } = require('node:crypto');
const fc = require('fast-check');
const { chosen, scope } = require('../conformance/scopes.js');
const { LockManagerModel } = require('./model.js');

/** `MODEL_RUNS=100000 MODEL_SEED=1 node --test test/model/model.test.js` makes more runs. */
const RUNS = Number(process.env.MODEL_RUNS ?? 400);
const SEED = process.env.MODEL_SEED === undefined ? undefined : Number(process.env.MODEL_SEED);

/** Milliseconds for one comparison; it may take half of them to find and shrink a failure. */
const LIMIT_MS = Number(process.env.MODEL_LIMIT_MS ?? 600_000);
/** After so many milliseconds a missing event counts as a difference, if one is expected. */
const FIRST_MS = 5000;

/** Most steps use one name of one bucket, so that queues become long. */
const NAMES = ['a', 'a', 'a', 'a', '', 'c', 'c', 'c'];
const BUCKET = [...new Array(9).fill(0), 1];

const BUCKETS = 2;
const REFUSALS = ['other limit', 'queue full'];

/** Options beyond the specification. Names 'c' mostly have the same limit; others have none. */
const more = fc.record({
  limit: fc.constantFrom(3, 3, 3, 3, 3, 2),
  weight: fc.constantFrom(undefined, 1, 2),
  deviates: fc.constantFrom(...new Array(9).fill(false), true),
  maxPending: fc.constantFrom(undefined, undefined, undefined, 0, 1, 2),
  priority: scope.lacks.priority
    ? fc.constant(undefined)
    : fc.constantFrom(undefined, undefined, undefined, undefined, 0, 1, 1, 2, -1, -2),
});

/**
 * An arbitrary of one step. `pick` chooses among the requests that it applies to, so that no step
 * of a sequence is void.
 */
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

/** Runs one sequence of steps on the model and on real agents, and compares everything visible. */
class Comparison {
  #prefix;
  #Model;
  #run = randomUUID();
  #ids = 0;
  /** The events of the model and of the agents, by request id. */
  expected = new Map();
  actual = new Map();
  /** The tokens of locks, by request id. */
  tokens = new Map();
  /** The bucket's number and the name, by request id. */
  places = new Map();
  /** The ordered grants of each agent: from `#order` to ids in the order of the grants. */
  expectedGrants;
  actualGrants;
  #changed = () => {};

  /**
   * @param agents
   * @param prefix of the names of unused buckets
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
   * @returns the scope within which the grants of an agent are ordered. If an agent is another
   * client in each bucket, each client learns separately that a holder of locks in both has died.
   */
  #order(id) {
    const { bucket, name } = this.places.get(id);
    // An agent that ends releases its locks of several buckets in no defined order.
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

  /** Called with the events of an agent. */
  tell(agent, id, what, token) {
    if (!this.actual.has(id)) return; // from an earlier run
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

  /** The options that are compatible. */
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

  /** Notes that a request's callback ended: its promise settles, unless a theft settled it. */
  #finish(id, stolen = false) {
    this.requests.get(id).done = true;
    if (!stolen) this.expected.get(id).push('settled');
  }

  async abort({ pick }) {
    const candidates = this.#candidates('abort');
    if (candidates.length === 0) return false;
    const entry = candidates[pick % candidates.length];
    entry.signal = false; // a signal aborts only once
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
    // Events of an agent's last moments are not compared.
    for (const { id } of this.#of(agent)) this.actual.set(id, [...this.expected.get(id)]);
    this.actualGrants[agent] = new Map(this.expectedGrants[agent]);
    this.clients[agent] = this.#noClients();
    this.agents[agent] = await this.restart(agent);
    return true;
  }

  /**
   * Sends a command to an agent. The command may have to wait for other agents, but takes effect
   * before the agent's next query is answered; the next command waits for that.
   */
  async #send(agent, bucket, kind, command) {
    await this.agents[agent].send(kind, command);
    if (chosen === 'process') return;
    await this.agents[agent].send('query', { bucket: this.bucket(bucket) });
  }

  #of(agent) {
    return [...this.requests.values()].filter((entry) => entry.agent === agent);
  }

  /** Waits until agents had all events of the model. A lost event exceeds the time limit. */
  async #settle() {
    const told = () =>
      [...this.expected].every(([id, what]) => this.actual.get(id).length >= what.length);
    while (!told()) {
      await new Promise((resolve) => {
        this.#changed = resolve;
      });
    }
    for (const [id, what] of this.expected) {
      // The rejection of a stolen promise and the call of its callback have no order.
      assert.deepEqual([...this.actual.get(id)].sort(), [...what].sort());
    }
    assert.deepEqual(this.actualGrants, this.expectedGrants);
    this.#compareTokens();
    for (const [index, model] of this.models.entries()) await this.#compareSnapshot(index, model);
  }

  /**
   * Checks that the tokens of a name grow in the model's order of grants. In some scopes those of
   * shared locks may be equal.
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
    for (const name of new Set(NAMES)) {
      const of = (infos) => infos.filter((info) => info.name === name);
      assert.deepEqual(of(pending).map(key), of(expected.pending).map(key));
      for (const [i, { agent }] of of(expected.pending).entries()) {
        const clients = this.clients[agent][index];
        clients.add(of(pending)[i].clientId);
        assert.equal(clients.size, 1, 'one client id for each agent');
      }
    }
  }

  /** Ends all requests that the sequence left. */
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
 * Checks a property over real agents of one kind, which are reused from run to run. Rejects with
 * the shortest sequence of steps that shows a difference; with `first`, with the first one as
 * found.
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
      // Buckets of the process cost nothing; others are reused while runs leave nothing behind.
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
  // A held lock does not keep the event loop alive until another agent of the thread steals it.
  const alive = setInterval(() => {}, 1e6);
  try {
    await fc.assert(property, {
      numRuns: runs,
      seed,
      endOnFailure: first,
      // A sequence that hangs is reported; there need only be time for a few of them.
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
