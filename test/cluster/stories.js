'use strict';

/**
 * Random stories of several sessions, told to an engine and to the reference engine (memory.js) step
 * by step. After each step both must say the same: the answers, what each session has, and what
 * `query` shows of each name.
 */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const fc = require('fast-check');
const { setTimeout } = require('node:timers/promises');
const { MemoryServer } = require('./memory.js');

/** Of a lease, milliseconds: each step renews all, so that only the story ends one. */
const TTL = 60_000;
const SESSIONS = 3;
const RUNS = Number(process.env.STORY_RUNS ?? 15);
/** The same stories each time; others by hand: `STORY_SEED=7 STORY_RUNS=200`. */
const SEED = Number(process.env.STORY_SEED ?? 20261126);
/** Milliseconds after which no shorter story is looked for. */
const LIMIT = 120_000;
/** Milliseconds in which a hint has to come; what is late fails, so it is far more than it takes. */
const PATIENCE = Number(process.env.STORY_PATIENCE ?? 20_000);

/** What the label of a request begins with that passes. */
const PASSES = 'passes ';

let stories = 0;

/** The names of a story: nobody else's, prefixes of one another, and hard to tell apart. */
function namesOf(story) {
  const long = `${story} ${'x'.repeat(600)}`;
  return [`${story}`, `${long}\ud83d\ude00`, `${long}\ud83d`, `${story} \0\ud800/*{}`];
}

/** @param {{ priorities: boolean, otherLimits: boolean, keeps: number[] }} can */
function operation({ priorities, otherLimits, keeps }) {
  const name = fc.constantFrom(0, 0, 0, 0, 1, 2, 3);
  const asked = fc.record({
    kind: fc.constantFrom(
      ...new Array(7).fill('request'),
      ...['ifAvailable', 'ifAvailable', 'steal', 'pass', 'passIfAvailable'],
    ),
    name,
    mode: fc.constantFrom('exclusive', 'shared', 'shared'),
    weight: fc.constantFrom(1, 1, 2, 3),
    isOther: fc.constantFrom(...new Array(9).fill(false), otherLimits),
    maxPending: fc.constantFrom(-1, -1, -1, 0, 1, 2),
    priority: priorities ? fc.constantFrom(0, 0, 0, 1, -1, 7, -7) : fc.constant(0),
  });
  const ended = fc.record({
    kind: fc.constant('end'),
    pick: fc.nat(1000),
    keep: fc.constantFrom(0, 0, 0, ...keeps),
    isNamed: fc.constantFrom(true, true, true, true, false),
  });
  const group = fc.record({
    kind: fc.constant('group'),
    of: fc.constantFrom('request', 'ifAvailable', 'steal'),
    names: fc.uniqueArray(fc.constantFrom(0, 1, 2), { minLength: 2, maxLength: 3 }),
    mode: fc.constantFrom('exclusive', 'shared'),
  });
  return fc.oneof(
    { weight: 10, arbitrary: asked },
    { weight: 6, arbitrary: ended },
    { weight: 1, arbitrary: group },
  );
}

/** @returns a story: the actions, each of a session */
const storyOf = (can) => {
  const session = fc.nat(SESSIONS - 1);
  const plain = (kind) => fc.record({ kind: fc.constant(kind), session });
  const step = fc.record({
    kind: fc.constant('step'),
    session,
    ops: fc.array(operation(can), { minLength: 1, maxLength: 4 }),
  });
  const action = fc.oneof(
    { weight: 24, arbitrary: step },
    { weight: 2, arbitrary: plain('again') },
    { weight: 1, arbitrary: plain('hello') },
    { weight: 2, arbitrary: plain('expire') },
    { weight: 1, arbitrary: plain('close') },
    { weight: 1, arbitrary: plain('sweep') },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('marked'), name: fc.nat(3) }) },
  );
  return fc.array(action, { minLength: 1, maxLength: 24, size: 'max' });
};

/** The reference engine, with a clock that stands still. */
class Reference {
  #server = new MemoryServer({ monotonic: () => 1e6, run: (work) => work() });
  #told = new Map();

  async open(info) {
    const hints = [];
    const link = { push: (hint) => hints.push(hint), cut() {} };
    const { session } = this.#server.open(info, TTL, { life: '', token: 0n }, link);
    return { session, hints, link, connection: 1 };
  }

  async step(client, ops, number) {
    return this.#server.step(client.session, client.connection, ops, number, 0);
  }

  async hello(client) {
    const seen = { life: '', token: 0n };
    client.connection = this.#server.hello(client.session, seen, client.link);
  }

  async renew({ session, connection }) {
    const told = this.#told.get(session) ?? [];
    const seen = { life: '', token: 0n };
    const renewal = this.#server.renew(session, connection, seen, told);
    this.#told.set(session, [...(renewal.stolen?.keys() ?? [])]);
    return renewal;
  }

  async expire({ session }) {
    this.#server.expire(session);
  }

  async close({ session }) {
    this.#server.close(session);
  }

  async sweep() {
    this.#server.sweep();
  }

  async query(name) {
    return this.#server.query(name);
  }

  async marked(name) {
    return this.#server.marked(name);
  }

  classify({ code }) {
    if (code === undefined) throw new Error('a defect of the reference');
    return code === 'DEAD' ? 'dead' : 'retry';
  }
}

/** The engine of a contract. */
class Real {
  #engine;

  constructor(engine) {
    this.#engine = engine;
  }

  open() {
    return this.#engine.client({}, TTL);
  }

  step(client, ops, number) {
    return client.step(ops, number);
  }

  hello(client) {
    return client.hello();
  }

  renew(client) {
    return client.renew();
  }

  expire({ session }) {
    return this.#engine.expire(session);
  }

  close({ adapter, session }) {
    return adapter.close(session);
  }

  sweep({ adapter }) {
    return adapter.sweep();
  }

  query(name, { adapter }) {
    return adapter.query(name);
  }

  marked(name, { adapter }) {
    return adapter.marked(name);
  }

  classify(error, { adapter }) {
    const meaning = adapter.classify(error);
    return meaning === 'dead' ? meaning : 'retry';
  }
}

/** One story, on both engines at the same time. */
class Telling {
  #names;
  #sides;
  /** Whether the engine does the ends of a step before its requests. */
  #endsFirst;
  /** By session: the clients of both sides, its requests, its last step, and whether it lives. */
  #sessions = [];
  #used = [];

  constructor(sides, { endsFirst }) {
    this.#endsFirst = endsFirst;
    this.#names = namesOf(++stories);
    this.#sides = sides;
  }

  async begin() {
    for (let i = 0; i < SESSIONS; i++) await this.#open(i);
  }

  async #open(index) {
    const [reference, real] = this.#sides;
    const client = await real.open();
    this.#used.push(client);
    const clients = [await reference.open({ clientId: client.clientId }), client];
    const isNew = this.#sessions[index] === undefined;
    const refs = isNew ? 0 : this.#sessions[index].refs;
    const state = { number: 0, last: undefined, isAlive: true };
    this.#sessions[index] = { clients, asked: [], thefts: new Set(), refs, ...state };
  }

  async tell(action) {
    await this[action.kind](action, this.#sessions[action.session]);
    // What a renewal tells first need not be told by a hint.
    await this.#hear();
    await this.#compare();
  }

  /** What a session says to both, and what they answer, as far as it must be the same. */
  async #both(session, call, shown = (answer) => answer) {
    const said = this.#sides.map(async (side, i) => {
      try {
        return shown(await call(side, session.clients[i]), session.clients[i]);
      } catch (error) {
        if (error.code === 'ERR_ASSERTION') throw error;
        return side.classify(error, session.clients[i]);
      }
    });
    const [expected, actual] = await Promise.all(said);
    assert.deepEqual(actual, expected);
    return expected;
  }

  async step({ ops }, session) {
    session.known = session.refs;
    const made = ops.flatMap((op, i) => this.#opsOf(op, session, i + 1));
    if (this.#endsFirst) made.sort((a, b) => (b.kind === 'end') - (a.kind === 'end'));
    // Ends of a session that is dead may be answered, or not.
    if (made.length === 0 || (!session.isAlive && made.every(({ kind }) => kind === 'end'))) return;
    const number = ++session.number;
    session.last = { made, number };
    // What is granted by an end behind it in the step is answered so, or told by a hint.
    const isOpen = made.some(({ kind }) => kind === 'end');
    const tokens = [];
    const answers = await this.#both(
      session,
      (side, client) => side.step(client, made, number),
      (all, client) => {
        if (client.told) client.told.push(...grantsOf(all, made));
        tokens.push(all.map(({ token }) => token));
        return all.map((answer, i) => answerOf(answer, made[i], isOpen));
      },
    );
    if (Array.isArray(answers) && !isOpen) this.#grow(tokens);
  }

  async again(_, session) {
    if (!session.last || !session.isAlive) return;
    const { made, number } = session.last;
    await this.#both(
      session,
      (side, client) => side.step(client, made, number),
      (all) => all.map((answer, i) => answerOf(answer, made[i], true)),
    );
  }

  async hello(_, session) {
    if (!session.isAlive) return;
    await this.#both(
      session,
      (side, client) => side.hello(client),
      () => 'replaced',
    );
  }

  /** Its lease ends; the next look at a name, or a sweep, has to notice. */
  async expire(_, session) {
    if (!session.isAlive) return;
    await this.#each(session, (side, client) => side.expire(client));
    session.isAlive = false;
    // What waited for it may be granted by now, or by the sweep.
    await this.#showAll(refsOf);
    await this.#sweep();
  }

  async close(_, session) {
    await this.#each(session, (side, client) => side.close(client));
    // The next one begins with the same numbers of steps.
    await this.#open(this.#sessions.indexOf(session));
  }

  async sweep() {
    await this.#sweep();
  }

  async marked({ name }) {
    await this.#both(this.#sessions[0], (side, client) => side.marked(this.#names[name], client));
  }

  #each({ clients }, call) {
    return Promise.all(this.#sides.map((side, i) => call(side, clients[i])));
  }

  async #sweep() {
    const session = this.#sessions.find(({ isAlive }) => isAlive);
    if (session) await this.#each(session, (side, client) => side.sweep(client));
  }

  /** The operations of an engine that an operation of a story stands for. */
  #opsOf(op, session, group) {
    if (op.kind === 'end') return this.#endOf(op, session);
    if (op.kind !== 'group') return [this.#requestOf(op, session)];
    const { mode, names, of } = op;
    const common = { kind: of, mode: of === 'steal' ? 'exclusive' : mode, maxPending: -1 };
    return names.map((name) => ({
      ...this.#requestOf({ ...op, ...common, name, weight: 0, priority: 0 }, session),
      group,
    }));
  }

  /** Names 3 have a limit; others rarely do. */
  #requestOf({ kind, name, mode, weight, isOther, maxPending, priority }, session) {
    const isAlone = kind === 'steal' || kind.startsWith('pass');
    const isLimited = !isAlone && mode === 'shared' && (name === 3) !== isOther && weight > 0;
    const request = {
      kind,
      ref: ++session.refs,
      name: this.#names[name],
      mode: isAlone ? 'exclusive' : mode,
      limit: isLimited ? 3 : 0,
      weight: isLimited ? weight : 0,
      maxPending: kind === 'request' || kind === 'pass' ? maxPending : -1,
      priority: kind === 'steal' ? 0 : priority,
      label: `${kind.startsWith('pass') ? PASSES : ''}${session.refs}`,
      group: 0,
    };
    session.asked.push(request);
    return request;
  }

  #endOf({ pick, keep, isNamed }, session) {
    if (session.asked.length === 0) return [];
    const { mode, name, ref } = session.asked[pick % session.asked.length];
    const marks = mode === 'exclusive' ? keep : 0;
    // Only of what the server had before the step can a session lack the name.
    const isUnnamed = !isNamed && marks === 0 && ref <= session.known;
    return [{ kind: 'end', ref, name: isUnnamed ? undefined : name, keep: marks }];
  }

  /** Both sides grant in the same order, so their tokens are in the same order. */
  #grow([expected = [], actual = []]) {
    const order = (tokens) =>
      tokens
        .map((token, i) => ({ token, i }))
        .filter(({ token }) => token > 0n)
        .sort((a, b) => (a.token < b.token ? -1 : a.token > b.token ? 1 : a.i - b.i))
        .map(({ i }) => i);
    assert.deepEqual(order(actual), order(expected));
  }

  /** Each session is told of what the reference tells it of. */
  async #hear() {
    for (const { clients, isAlive } of this.#sessions) {
      if (!isAlive) continue;
      const [reference, { told }] = clients;
      const wanted = reference.hints.splice(0).map(({ ref }) => ref);
      const isTold = (ref) => told.some(({ granted, stolen }) => granted === ref || stolen === ref);
      const end = performance.now() + PATIENCE;
      while (!wanted.every(isTold)) {
        assert.ok(
          performance.now() < end,
          `nothing was told of ${wanted.filter((r) => !isTold(r))}`,
        );
        await setTimeout(1);
      }
    }
  }

  async #compare() {
    await this.#showAll();
    for (const session of this.#sessions) {
      const told = [];
      await this.#both(
        session,
        (side, client) => side.renew(client),
        ({ alive, mine, stolen = new Map() }) => {
          if (!alive) return 'dead';
          told.push([...stolen].map(([ref, by]) => `${ref} ${by}`));
          return [...mine].map(([ref, token]) => `${ref} ${token > 0n ? 'held' : 'waits'}`).sort();
        },
      );
      this.#compareThefts(session, ...told);
    }
  }

  /** A theft is told until a renewal was answered, or longer. */
  #compareThefts(session, expected = [], actual = []) {
    for (const theft of expected) session.thefts.add(theft);
    // What has passed may have been told by the answer.
    const missing = expected.filter((theft) => !theft.endsWith(' ') && !actual.includes(theft));
    const wrong = actual.filter((theft) => !session.thefts.has(theft) && !theft.endsWith(' '));
    assert.deepEqual({ missing, wrong }, { missing: [], wrong: [] });
  }

  async #showAll(shown = pictureOf) {
    for (const name of this.#names) {
      await this.#both(this.#sessions[0], (side, client) => side.query(name, client), shown);
    }
  }

  async finish() {
    for (const { clients } of this.#sessions) {
      await this.#each({ clients }, (side, client) => side.close(client));
    }
    for (const { adapter } of this.#used) await adapter.dispose();
  }
}

function answerOf({ code, limit, token }, { group, kind }, isOpen) {
  if (isOpen && ['granted', 'passed', 'queued'].includes(code)) return 'made';
  if (token > 0n) return `${code} by a token`;
  // One of a group says why it cannot be had, and it need not be the same one.
  if (group > 0 && kind === 'ifAvailable') return 'refused';
  return code === 'otherLimit' ? `${code} ${limit}` : code;
}

const entryOf = ({ ref, name, mode, token, clientId, label, limit, weight, priority = 0 }) =>
  `${ref} ${JSON.stringify(name.slice(-8))} ${token > 0n ? 'held' : 'waits'} ${mode} of ${clientId} ` +
  `(${label}) ${weight} of ${limit}, ${priority}`;

/** Those that are there whether the dead are swept yet or not: what passes may be gone by now. */
const refsOf = (entries) =>
  entries
    .filter(({ label }) => !label.startsWith(PASSES))
    .map(({ clientId, ref }) => `${ref} of ${clientId}`)
    .sort();

/** What the answers tell as a hint would. */
const grantsOf = (answers, made) =>
  answers.flatMap(({ code, token }, i) =>
    token > 0n || code === 'passed' ? [{ granted: made[i].ref }] : [],
  );

/** Who holds a name, in no order, and who waits for it. */
function pictureOf(entries) {
  const isHeld = ({ token }) => token > 0n;
  const waiting = entries.filter((entry) => !isHeld(entry));
  return [...entries.filter(isHeld).map(entryOf).sort(), ...waiting.map(entryOf)];
}

/**
 * @param {import('./contract.js').Engine} engine
 * @returns {Promise<void>} rejects with the shortest story that tells a difference
 */
function check(engine) {
  const { knowsNoPriorities, keepsNoLimit, shortestKeep = 1e-3 } = engine;
  const can = {
    priorities: !knowsNoPriorities,
    otherLimits: !keepsNoLimit,
    keeps: shortestKeep < 1000 ? [3_600_000, 3_600_000.5] : [],
  };
  const property = fc.asyncProperty(storyOf(can), async (story) => {
    const telling = new Telling([new Reference(), new Real(engine)], engine);
    await telling.begin();
    try {
      for (const action of story) await telling.tell(action);
    } finally {
      await telling.finish();
    }
  });
  return fc.assert(property, {
    numRuns: RUNS,
    seed: SEED,
    interruptAfterTimeLimit: LIMIT,
    includeErrorInReport: true,
  });
}

/**
 * The test; to be called in a `describe`, beside `contract`.
 * @param {import('./contract.js').Engine} engine
 */
function tellStories(engine) {
  test('does in random stories what the reference engine does', () => check(engine));
}

module.exports = { check, tellStories };
