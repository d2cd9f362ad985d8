'use strict';

/**
 * Runs random stories of several sessions, step by step, on an engine and on the reference engine
 * (memory.js). After each step, both must agree: on the answers, on the locks and requests of each
 * session, and on what `query` shows of each name. Time passes as the story says, and both sides
 * use the test's clock.
 */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const fc = require('fast-check');
const { setTimeout } = require('node:timers/promises');
const { valuesOf } = require('../helpers/locks.js');
const { clientOf } = require('./contract.js');
const { MemoryServer } = require('./memory.js');

/** The length of a lease in milliseconds. A story is far shorter, so only its actions end one. */
const TTL = 600_000;
/** Time passes in steps of so many milliseconds: three of them end a lease, two do not. */
const PASS = 0.35 * TTL;
/** A user sets the server's clock by so many milliseconds. */
const JUMP = 7_200_000;
const SESSIONS = 3;
const RUNS = Number(process.env.STORY_RUNS ?? 24);
/**
 * The seed is fixed, so each run has the same stories. `STORY_SEED=7 STORY_RUNS=200` runs others,
 * and `STORY_PATH=11:6:4` repeats the one that a failure prints.
 */
const SEED = Number(process.env.STORY_SEED ?? 20261126);
const { STORY_PATH } = process.env;
/** So many stories run at the same time, as they mostly wait. */
const LANES = 3;
/** After so many milliseconds, no shorter failing story is looked for; with 0, none is at all. */
const LIMIT = Number(process.env.STORY_LIMIT ?? 120_000);
/** A hint that is later than this fails the story. This is far longer than a hint takes. */
const PATIENCE = Number(process.env.STORY_PATIENCE ?? 20_000);

/** The labels of requests that pass begin with this. */
const PASSES = 'passes ';

let stories = 0;
let lives = 0;

/** A request of a session of another bucket. */
const PLAIN = {
  ...{ mode: 'exclusive', limit: 0, weight: 0, maxPending: -1, priority: 0, group: 0 },
  label: 'elsewhere',
};
const KEEP = 1e9;

/** More tokens than a server gives in a story. */
const FAR = 1_000_000_000_000n;
/** An engine skips so many tokens, as others may have been granted more than a client saw (R5). */
const LEAP = 999_999n;
const NOTHING_SEEN = { life: '', token: 0n };
/** The least and the greatest priority; the latter is also the largest limit. */
const LEAST = -(2 ** 31);
const MOST = 2 ** 31 - 1;

/** Requests whose answers differ if dead sessions count. */
const PROBES = [
  { kind: 'request', mode: 'exclusive', weight: 0, maxPending: 1, priority: 0, other: 0 },
  { kind: 'request', mode: 'exclusive', weight: 0, maxPending: 2, priority: 0, other: 0 },
  { kind: 'ifAvailable', mode: 'shared', weight: 3, maxPending: -1, priority: 0, other: 0 },
  { kind: 'ifAvailable', mode: 'shared', weight: 1, maxPending: -1, priority: 0, other: MOST },
  { kind: 'ifAvailable', mode: 'shared', weight: 2, maxPending: -1, priority: 0, other: 0 },
];

/** A request that must not wait. */
const ATTEMPT = { kind: 'ifAvailable', mode: 'exclusive', weight: 0, maxPending: -1, priority: 0 };

const WAITER = { ...ATTEMPT, kind: 'request' };

/** Labels that users may give. */
const LABELS = ['', 'a b', 'two\nlines', '\ud800 \0', '1|2 x 3'];

/** The names of a story are its own, are prefixes of one another, and are hard to tell apart. */
function namesOf(story) {
  const long = `${story} ${'x'.repeat(600)}`;
  return [`${story}`, `${long}\ud83d`, `${long}\ufffd`, `${story} \0\ud800/*{}`];
}

/** The texts that are published. */
const text = fc.constantFrom('1', '"\u2028 \ud83d\ude00 é \\n"', `"${'x'.repeat(4094)}"`, '');

/** @param {any} can the abilities of the engine, and the names of the operations */
function operation({ groups, keeps, names, data = false }) {
  const name = fc.constantFrom(...names);
  const asked = fc.record({
    kind: fc.constantFrom(
      ...new Array(5).fill('request'),
      ...['ifAvailable', 'ifAvailable', 'steal', 'pass', 'passIfAvailable'],
    ),
    name,
    mode: fc.constantFrom('exclusive', 'shared', 'shared'),
    weight: fc.constantFrom(1, 2, 2, 3),
    // A limit that may differ from that of the name.
    other: fc.constantFrom(...new Array(10).fill(0), 3, MOST),
    maxPending: fc.constantFrom(-1, -1, -1, 0, 1, 2),
    priority: fc.constantFrom(0, 0, 0, 1, -1, MOST, LEAST),
  });
  const ended = fc.record({
    kind: fc.constant('end'),
    pick: fc.nat(1000),
    markFor: fc.constantFrom(0, 0, 0, ...keeps),
    isNamed: fc.constantFrom(true, true, true, true, false),
  });
  const group = fc.record({
    kind: fc.constant('group'),
    of: fc.constantFrom('request', 'request', 'ifAvailable', 'steal'),
    names: fc.uniqueArray(fc.constantFrom(0, 1, 2, 3), { minLength: 2, maxLength: 3 }),
    mode: fc.constantFrom('exclusive', 'shared'),
    weight: fc.constantFrom(1, 2),
    maxPending: fc.constantFrom(-1, -1, 0, 1),
  });
  const published = fc.record({ kind: fc.constant('publish'), pick: fc.nat(1000), text });
  return fc.oneof(
    { weight: 10, arbitrary: asked },
    { weight: 3, arbitrary: asked.map(behind) },
    { weight: 6, arbitrary: ended },
    { weight: data ? 2 : 0, arbitrary: published },
    { weight: groups ? 3 : 0, arbitrary: group },
  );
}

/** @returns a story of few or more names: the actions, each with its session */
const storyOf = (can) =>
  fc.oneof(
    { weight: 3, arbitrary: NAMES.chain((names) => actionsOf({ ...can, names })) },
    { weight: 1, arbitrary: storyOfTurns(can) },
  );

const NAMES = fc.constantFrom([0], [3], [0, 3], [0, 0, 0, 0, 1, 2, 3, 3]);

/**
 * A holder hands its lock to the next waiter, or a waiter gives up. Queues get long, because an
 * engine may read only the first waiters.
 */
const turnOf = ({ keeps }, modes) =>
  fc.record({
    by: fc.nat(SESSIONS - 1),
    isEnd: fc.boolean(),
    givesUp: fc.constantFrom(false, false, true),
    markFor: fc.constantFrom(0, ...keeps.slice(0, 1)),
    mode: fc.constantFrom(...modes),
    weight: fc.constantFrom(1, 2),
    priority: fc.constantFrom(0, 0, 1, 2, -1),
    isMany: fc.constantFrom(false, false, true),
    isTheft: fc.constantFrom(...new Array(9).fill(false), true),
  });
const MODES = fc.constantFrom(
  ['exclusive', 'exclusive', 'shared'],
  ['exclusive', 'shared', 'shared', 'shared'],
);
const turnsOf = (can) => (modes) =>
  fc.record({
    kind: fc.constant('turns'),
    name: fc.constantFrom(0, 3),
    turns: fc.array(turnOf(can, modes), { minLength: 1, maxLength: 40, size: 'max' }),
    isDeadly: fc.boolean(),
  });
const storyOfTurns = (can) =>
  fc.array(MODES.chain(turnsOf(can)), { minLength: 1, maxLength: 6, size: 'max' });

const actionsOf = (can) => {
  const session = fc.nat(SESSIONS - 1);
  const action = (kind, more = {}) => fc.record({ kind: fc.constant(kind), session, ...more });
  const ops = fc.array(operation({ ...can, data: true }), { minLength: 1, maxLength: 4 });
  const isSwept = fc.constantFrom(false, false, true);
  const all = [
    [20, action('step', { ops, renews: fc.constantFrom('', '', 'before', 'behind') })],
    [8, action('crowd', { ops })],
    [3, action('again', { isCut: fc.boolean() })],
    [1, action('hello')],
    [
      6,
      action('expire', {
        ...{ isSwept, name: fc.constantFrom(0, 1, 2, 3, 3) },
        ...{ isAwaited: fc.boolean(), isFirst: fc.boolean() },
        ...{ isPlain: fc.boolean(), isCut: fc.boolean() },
      }),
    ],
    [1, action('close', { by: session, isReopened: fc.boolean() })],
    [can.keeper ? 2 : 0, action('extend', { seen: fc.constantFrom('now', 'first', 'ahead') })],
    [1, action('sweep')],
    [2, action('marked', { name: fc.nat(3) })],
    [3, action('publish', { pick: fc.nat(1000), text })],
  ];
  if (can.time || can.calm)
    all.push(
      [
        1,
        action('rebirth', {
          isAhead: fc.boolean(),
          how: fc.constantFrom('hello', 'open', 'other', ''),
        }),
      ],
      [2, action('retell', { pick: fc.nat(1000) })],
    );
  if (can.time)
    all.push(
      [3, action('pass', { isSwept })],
      [3, action('doze')],
      [1, action('jump', { isBack: fc.boolean(), name: fc.nat(3) })],
      [1, action('leap')],
      [2, action('outage')],
    );
  if (can.spoil) all.push([2, action('spoil')]);
  if (can.several) all.push([2, action('burst', { steps: fc.tuple(ops, ops) })]);
  if (can.meet) {
    const op = operation(can);
    const more = { op, other: op, by: session };
    const [first, second] = ['request', 'steal'].map((kind) =>
      fc.oneof(op, fc.constant({ ...ATTEMPT, kind, name: 1 })),
    );
    if (can.calm) all.push([2, action('calm', { op: first, isMet: fc.boolean() })]);
    const flags = (...names) => Object.fromEntries(names.map((one) => [one, fc.boolean()]));
    const lost = { lostAt: fc.nat(6), more: fc.option(second, { freq: 2 }) };
    const ofLoss = flags('forgets', 'isBehind', 'isDone', 'isLate');
    const ofMeeting = flags('isBefore', 'isHeard', 'isSecond', 'isTheft', 'isTurn');
    all.push(
      [3, action('lose', { ...more, op: first, ...ofLoss, ...lost })],
      [3, action('refuse', { op, other: op, ...flags('isTheft', 'isOver'), refusesAt: fc.nat(1) })],
      [6, action('meet', { ...more, op: operation({ ...can, data: true }), ...ofMeeting })],
    );
  }
  const [step, ...others] = all.map(([weight, arbitrary]) => ({ weight, arbitrary }));
  const length = { minLength: 1, maxLength: 30, size: 'max' };
  // Each story uses some kinds of actions, which therefore meet one another more often.
  return fc
    .subarray(others, { minLength: 4 })
    .chain((some) => fc.array(fc.oneof(step, ...some), length));
};

const HOLD = { kind: 'request', name: 0, mode: 'exclusive', weight: 1, other: 0 };
const hold = (session, ...all) => {
  const ops = all.map((op) => ({ ...HOLD, maxPending: -1, priority: 0, ...op }));
  return { kind: 'step', session, ops };
};
const asked = hold(0, {});
const markedFor = (markFor) => {
  return { kind: 'step', session: 0, ops: [{ kind: 'end', pick: 0, markFor, isNamed: true }] };
};
const looked = { kind: 'marked', session: 0, name: 0 };

const units = (other, options = {}) => ({ mode: 'shared', other, ...options });

const share = (weight = 1) => ({ name: 3, mode: 'shared', weight });
const reads = { mode: 'shared' };
const theft = { kind: 'steal' };
const ends = { kind: 'end', pick: 0, markFor: 0, isNamed: true };
const behind = (asked) => ({ kind: 'behind', asked });
const endOf = (session, pick) => ({ kind: 'step', session, ops: [{ ...ends, pick }] });

const reborn = { kind: 'rebirth', session: 0, isAhead: false };

/** Stories that once found a difference. */
const OLD_STORIES = [
  // A session gives back some of its units.
  [hold(0, share(2), share(1)), hold(1, share(2)), endOf(0, 0)],
  // A request is behind a renewal that finds none, and is granted later.
  [hold(1, {}), { ...hold(0, {}), renews: 'before' }, endOf(1, 0)],
  // A request waits with a priority between those of two holders.
  [hold(0, reads), hold(1, { ...reads, priority: 2 }), hold(2, { priority: 1 })],
  // Refused requests do not count as waiting.
  [hold(0, {}), hold(1, { maxPending: 0 }, { maxPending: 1 }, { maxPending: 1 })],
  // Units of another limit are in the step that steals their name from units.
  [hold(0, units(3)), hold(1, { kind: 'steal' }, units(MOST))],
  // A dead session waits behind a living one.
  [hold(0, {}), hold(1, {}), hold(2, {}), { kind: 'expire', session: 2, isSwept: false }],
  // A shared request waits behind one that is refused because others wait.
  [hold(0, units(0)), hold(1, { maxPending: 0 }, units(0), units(0))],
  // A dead session's units go to a session that has some, and that waits behind it for more.
  [{ kind: 'expire', session: 0, isSwept: true, name: 3, isAwaited: true }],
  // A dead session got its units before a living one.
  [{ kind: 'expire', session: 0, isSwept: false, name: 3, isFirst: true }],
  // A session that waits has just connected again when the lease of the holder ends.
  [{ kind: 'expire', session: 0, name: 1, isAwaited: true, isPlain: true, isCut: true }],
  // A session opens after its client has seen another server; a server is replaced.
  ...[[{ ...reborn, how: 'open' }], [{ ...reborn, how: 'other' }]],
  // The data of a lock ends with it.
  [hold(0, {}), { kind: 'publish', session: 0, pick: 0, text: '1' }, endOf(0, 0)],
  // A refused request is withdrawn again when another one has its key.
  [
    ...[hold(0, share(2)), hold(1, { ...share(2), kind: 'ifAvailable' })],
    ...[hold(1, share(2)), hold(1, { name: 1 })],
  ],
  // A request waits for the session's own lock, which ends later in its step.
  ...['request', 'pass'].map((kind) => [hold(0, {}), hold(0, behind(hold(0, { kind }).ops[0]))]),
  // In a long queue, requests of one step are behind others.
  [
    ...[hold(0, {}), hold(2, {}, {}, {}, {}), hold(1, ...new Array(45).fill({}))],
    { kind: 'turns', name: 0, turns: new Array(12).fill({ isEnd: true }) },
  ],
  // More requests, each of a step of its own, are granted at once than fit into a transaction.
  [
    hold(0, {}),
    { kind: 'turns', name: 0, turns: new Array(150).fill({ by: 1, ...reads }) },
    endOf(0, 0),
  ],
  // `maxPending` counts the requests that wait now, not those that waited at the grant.
  [
    ...[hold(0, {}), hold(1, {}), hold(2, {}, {}, {}), endOf(0, 0), endOf(2, 0)],
    { ...endOf(1, 0), ops: [ends, { ...HOLD, maxPending: 2, priority: 0 }] },
  ],
  // A refusal names the name's limit, whichever limit is greater, even in a quarantine.
  [reborn, hold(0, units(MOST)), hold(1, units(3, { kind: 'ifAvailable' }))],
  [hold(0, units(MOST), units(3, { name: 1 })), hold(1, units(3), units(MOST, { name: 1 }))],
];

const meet = (session, op, by, other, more = { isBefore: true }) => {
  const [whole, others] = hold(0, op, other).ops;
  return { kind: 'meet', session, op: whole, by, other: others, ...more };
};
const lose = (...given) => ({ ...meet(...given, { isDone: true }), kind: 'lose' });
const late = (...given) => meet(...given, {});
const second = { isBefore: true, isSecond: true };
const refusedTheft = { isTheft: true, isOver: true, refusesAt: 1 };

/** Old stories for engines whose steps may meet others. */
const OLD_STORIES_OF_MEETING = [
  // A theft meets a change of the holder, a writer that goes, returned units, or a new reader.
  [hold(0, {}), hold(1, {}), meet(2, theft, 0, ends)],
  [hold(0, reads, {}), hold(1, reads), meet(2, theft, 0, ends)],
  [hold(0, share(), share(2)), hold(1, share(2)), meet(2, { ...share(), ...theft }, 0, ends)],
  [hold(0, reads), meet(2, theft, 1, reads)],
  // A session publishes with a lock, or marks its name, just after another session stole it.
  [hold(0, {}), meet(0, { kind: 'publish', pick: 0, text: '1' }, 1, theft)],
  [hold(0, {}), meet(0, { ...ends, markFor: KEEP }, 1, theft)],
  // A session steals from itself just after another session stole from it.
  [hold(0, theft), meet(0, theft, 1, theft, { isBefore: true, isHeard: true })],
  // A session returns units before another one waits for them.
  [hold(0, share()), hold(1, share()), meet(2, share(2), 1, ends, second)],
  // Another session takes the units first, or two sessions set limits at the same time.
  [hold(0, share()), meet(1, { ...share(2), kind: 'ifAvailable' }, 2, share(2))],
  [meet(0, units(3), 1, units(MOST))],
  // Another session takes the last place in the queue first.
  [hold(2, {}), meet(0, { maxPending: 1 }, 1, {}, second)],
  // A lock is stolen before its request is answered, or from a session that had its key before.
  [late(0, {}, 1, theft), late(0, { kind: 'ifAvailable' }, 1, theft), late(0, theft, 1, theft)],
  [hold(0, {}), lose(0, { name: 1 }, 1, { ...theft, name: 1 }), hold(1, theft)],
  [{ ...lose(0, {}, 1, theft), forgets: true, isLate: true }],
  // A request passes before its answer comes, and leaves no key behind.
  [hold(1, {}), { ...late(0, { kind: 'pass' }, 1, ends), isHeard: true }, hold(0, {}, {})],
  // The lost answer of a refusal comes again, although the request would fit by now.
  [hold(0, units(3)), lose(1, units(MOST), 0, ends)],
  [hold(0, units(3)), lose(1, { kind: 'group', of: 'request', names: [1, 0], ...reads }, 0, ends)],
  // A theft is refused behind the request for its victim, which was executed.
  [{ ...meet(0, {}, 0, {}), kind: 'refuse', ...refusedTheft }, hold(0, { name: 1 })],
  // A waiting request is granted before its answer is looked for, or before its answer comes.
  [hold(1, {}), lose(0, {}, 1, ends)],
  [reborn, { kind: 'calm', session: 1, op: hold(1, {}).ops[0], isMet: true }],
  // Another session waits for a lock when its holder releases it and requests it again.
  [{ ...meet(0, {}, 1, {}), isTurn: true }],
  // The connection is lost again while the answer is looked for, or between two transactions.
  [{ ...lose(0, {}, 0, ends), lostAt: 3 }],
  [{ ...lose(0, {}, 0, ends), more: hold(0, theft).ops[0], lostAt: 6 }],
];

const [passed, unswept] = [true, false].map((isSwept) => ({ kind: 'pass', session: 0, isSwept }));

/** Old stories for engines whose clock is the test's. */
const OLD_STORIES_OF_TIME = [
  // Tokens get ahead of those that others may have been granted.
  [asked, { ...reborn, isAhead: true }, hold(1, { name: 1 }), passed, passed, passed],
  // A mark ends, and then the clock is set back.
  [asked, markedFor(0.25), { kind: 'jump', session: 0, isBack: true, name: 1 }, looked],
  // A short mark is set in a quarantine.
  [asked, reborn, markedFor(0.25), looked],
  // The clock is set back to before the end of a quarantine.
  [reborn, passed, passed, passed, { kind: 'jump', session: 0, isBack: true, name: 0 }],
  // The only session that does not doze dies, and the clock is set ahead later.
  [
    ...[1, 2].map((session) => ({ kind: 'doze', session })),
    ...[{ kind: 'expire', session: 0, isSwept: true }, passed, passed],
    { kind: 'jump', session: 1, isBack: false, name: 1 },
  ],
  // Requests pass after a quarantine, ahead of one that sets a limit.
  [reborn, hold(1, { kind: 'pass' }, { kind: 'pass', name: 3 }), ...new Array(3).fill(unswept)],
];

/** The reference engine, with clocks that only a story moves. */
class Reference {
  now = 1e6;
  /** Marks last by this clock, in milliseconds, which a story may set. */
  wall = 1e9;
  #server;

  /** @param {import('./contract.js').Engine} engine whose rules the reference follows */
  constructor({ keepsNoLimit = false, epochsEndSessions = false }) {
    const clock = { monotonic: () => this.now, wall: () => this.wall, run: (work) => work() };
    this.#server = new MemoryServer(clock, { limits: !keepsNoLimit, survives: !epochsEndSessions });
  }

  /** Makes a client like that of the contract, as far as stories need it, which keeps its hints. */
  client(clientId, before) {
    const server = this.#server;
    const hints = [];
    const link = { push: (hint) => hints.push(hint), cut() {} };
    const seen = { ...before };
    const { session, life } = server.open({ clientId }, TTL, seen, link);
    seen.life = life;
    let connection = 1;
    let known = [];
    const adapter = {
      async hello(others) {
        connection = server.hello(session, others, link);
      },
      async renew(others) {
        const renewal = server.renew(session, connection, others, known);
        known = [...(renewal.stolen?.keys() ?? [])];
        return renewal;
      },
      close: async (id) => server.close(id),
      sweep: async () => server.sweep(),
      query: async (...asked) => server.query(...asked),
      marked: async (name) => server.marked(name),
      classify(error) {
        if (!error.code) throw new Error('a defect of the reference', { cause: error });
        return error.code === 'ERR_WEB_LOCKS_SESSION_DEAD' ? 'dead' : 'retry';
      },
    };
    const step = async (ops, number, before = 0) =>
      server.step(session, connection, ops, number, before);
    const extend = async (others) => server.extend(session, others);
    return { adapter, extend, hints, seen, session, step, told: [] };
  }

  expire = async (session) => this.#server.expire(session);
  endQuarantine = async () => this.#server.endQuarantine();
  replace = async () => this.#server.failOver(() => false);

  /** Moves the wall clock. A mark that is over stays over, even if the clock is set back. */
  async shift(milliseconds) {
    this.#server.marked('');
    this.wall += milliseconds;
  }
}

/** Runs one story on both engines at the same time. */
class Telling {
  #engine;
  #reference;
  #names = namesOf(++stories);
  /** The sessions: the clients of both sides, the requests, the last step, whether it is alive. */
  #sessions = [];
  #stranger;
  #used = [];
  #looks = 0;
  /** The entries of the last query, by side. */
  #shown = [[], []];
  /** Until dead sessions are swept, requests behind them may be granted already, or not. */
  #hasDead = false;
  /** Whether only time has passed since the last comparison. */
  #hasPassed = false;
  /** The end of the quarantine by the wall clock; it begins anew if that clock is set back. */
  #carefulUntil = 0;
  /** The epochs and tokens of other servers that clients have reported, by side. */
  #seen = [];
  /** The greatest token by name, and as '' the one that a client reported, by side. */
  #greatest = [new Map(), new Map()];
  /** New tokens exceed these, by side: others may have been granted more than clients report. */
  #least = [0n, 0n];

  constructor(engine) {
    this.#engine = engine;
    this.#reference = new Reference(engine);
  }

  get #sides() {
    return [this.#reference, this.#engine];
  }

  get #alive() {
    return this.#sessions.filter(({ isAlive }) => isAlive);
  }

  get #isCareful() {
    return this.#reference.wall < this.#carefulUntil;
  }

  async begin() {
    for (let i = 0; i < SESSIONS; i++) await this.#open(i);
    const stranger = await this.#engine.client({ bucket: 'elsewhere' }, TTL);
    this.#stranger = stranger;
    for (const [kind, first] of [
      ['request', 1],
      ['end', 1],
      ['request', 5],
    ])
      await stranger.step(
        this.#names.map((name, i) => ({ ...PLAIN, kind, ref: first + i, name, markFor: KEEP })),
      );
  }

  /** Checks that all names of another bucket are still marked and held there. */
  async #checkStranger() {
    const { adapter, renew } = this.#stranger;
    const { alive, mine } = await renew();
    assert.ok(alive);
    assert.deepEqual([...mine.keys()].sort(), [5, 6, 7, 8]);
    for (const name of this.#names) {
      assert.equal(await adapter.marked(name), true);
      assert.deepEqual(valuesOf(await adapter.query(name), 'label'), ['elsewhere']);
    }
  }

  async #open(index, before, [seenThere, seen] = [NOTHING_SEEN, NOTHING_SEEN]) {
    const client = before
      ? { ...before, ...(await clientOf(before.adapter, TTL, seen)) }
      : await this.#engine.client({}, TTL);
    const extend = async (seen) => {
      const keeper = this.#engine.keeper();
      try {
        return await keeper.extend(client.adapter.keeperTicket(), seen);
      } finally {
        await keeper.dispose();
      }
    };
    this.#used.push(Object.assign(client, { extend }));
    const clients = [this.#reference.client(client.clientId, seenThere), client];
    const perSide = () => [new Map(), new Map()];
    this.#sessions[index] = {
      ...{ clients, number: 0, firm: 0, last: [], isAlive: true, isDozing: false },
      ...{ refs: this.#sessions[index]?.refs ?? 0, renewed: this.#reference.now, asked: [] },
      ...{ ended: new Set(), marking: new Set(), passing: new Set(), thefts: new Set() },
      ...{ held: perSide(), said: perSide(), heldFor: perSide() },
    };
  }

  async tell(action) {
    await this[action.kind](action, this.#sessions[action.session]);
    await this.#engine.verify?.();
    // A hint may be missing if an earlier renewal says the same.
    await this.#hear();
    await this.#compare();
  }

  /** Calls both sides, and compares what `shown` selects of their answers. */
  async #both(session, call, shown = (answer) => answer) {
    const said = session.clients.map(async (client) => {
      try {
        return shown(await call(client), client);
      } catch (error) {
        if (error.code === 'ERR_ASSERTION') throw error;
        // A session may be dead in some shards only.
        const isKnown = session.isAlive || !this.#engine.countsApart;
        return isKnown && client.adapter.classify(error) !== 'dead' ? 'retry' : 'dead';
      }
    });
    const [expected, actual] = await Promise.all(said);
    assert.deepEqual(actual, expected);
    return expected;
  }

  /** Sends a step, maybe with a renewal before or behind it, if the engine keeps that order. */
  async step({ ops, renews = '' }, session) {
    const { countsApart, meets } = this.#engine;
    const isAlone = countsApart || meets || ops.some(({ kind }) => kind === 'publish');
    const calls = [() => this.#steps([ops], session)];
    if (renews && session.isAlive && !isAlone) calls.push(() => this.#renew(session));
    if (renews === 'before') calls.reverse();
    await Promise.all(calls.map((call) => call()));
  }

  /** Publishes with a lock, or with a request that waits, ended, was refused, or is another's. */
  async publish({ pick, text }, session) {
    const { isAlive } = session;
    const isOwn = ({ ref }) => session.asked.some((op) => op.ref === ref);
    const others = this.#sessions[pick % SESSIONS].asked.filter((op) => !isOwn(op));
    const asked = pick % 4 || others.length === 0 ? session.asked : others;
    // A request behind a dead session may be granted already, or not.
    if (asked.length === 0 || !isAlive || this.#hasDead) return;
    const { name, ref } = asked[pick % asked.length];
    const made = [{ kind: 'publish', ref, name, data: text }];
    session.last = [{ made, number: ++session.number }];
    session.firm = session.number;
    await this.#say(session, session.last);
  }

  /** All sessions run the same step with the same refs, one after the other. */
  async crowd({ ops, session: first }) {
    const refs = Math.max(...this.#sessions.map((session) => session.refs));
    for (const i of this.#sessions.keys()) {
      const session = this.#sessions[(first + i) % SESSIONS];
      session.refs = refs;
      await this.#steps([ops], session);
    }
  }

  /**
   * A session that holds a name ends its locks, while others request the name. At the end, the
   * lease of a session with many requests may run out.
   */
  async turns({ name, turns, isDeadly }) {
    const { adapter } = this.#sessions[0].clients[0];
    for (const { by, givesUp, isEnd, isMany, isTheft, markFor = 0, ...turn } of turns) {
      const held = await adapter.query(this.#names[name], 'held');
      const isHolder = ({ clients }) => clients[1].clientId === held[0]?.clientId;
      const holder = isEnd && this.#sessions.find(isHolder);
      const last = isEnd && givesUp && this.#sessions[by].asked.at(-1);
      const asked = { ...ATTEMPT, kind: isTheft ? 'steal' : 'request', name, ...turn };
      const endOf = ({ ref: of }) => ({ kind: 'end', of, markFor, isNamed: true });
      const ops = last
        ? [endOf(last)]
        : holder
          ? held.filter(({ clientId }) => clientId === held[0].clientId).map(endOf)
          : new Array(isMany && !isTheft && turn.mode === 'shared' ? 70 : 1).fill(asked);
      await this.#steps([ops], (!last && holder) || this.#sessions[by]);
      await this.#hear();
    }
    const most = this.#alive.at(-1);
    if (!isDeadly || !most) return;
    const crowd = new Array(60).fill({ ...WAITER, name, mode: 'shared', weight: 1 });
    for (let i = 0; i < 2; i++) await this.#steps([crowd], most);
    await this.expire({ isSwept: this.#engine.tellsOfDead === true }, most);
  }

  /** Runs several steps at once. */
  async burst({ steps }, session) {
    await this.#steps(steps, session);
  }

  async #steps(steps, session) {
    session.known = session.refs;
    let group = 0;
    const all = steps.map((ops) => ops.flatMap((op) => this.#opsOf(op, session, ++group)));
    // An end by a dead session may be answered, or not.
    const isOfUse = (made) => session.isAlive || made.some(({ kind }) => kind !== 'end');
    const made = all.filter((step) => step.length > 0 && isOfUse(step));
    if (made.length === 0) return;
    session.last = made.map((step) => ({ made: step, number: ++session.number }));
    for (const { made: ops, number } of session.last) {
      if (ops.some((op) => !isEnd(op) || op.markFor > 0)) session.firm = number;
    }
    await this.#say(session, session.last);
    await this.#letMarksEnd(session, made.flat());
  }

  /** Sends steps; with `isAgain`, their answers may be older than what has happened since. */
  async #say(session, steps, isAgain = false) {
    // If a later end grants a request, its answer says so, or a hint does.
    const isOpen = isAgain || steps.some(({ made }) => made.some(isEnd));
    const tokens = [];
    const calls = steps.map(({ made, number }, i) =>
      this.#both(
        session,
        (client) => client.step(made, number, i > 0 ? number - 1 : 0),
        (answers, client) => {
          client.told.push(...grantsOf(answers, made));
          const said = session.said[session.clients.indexOf(client)];
          for (const [j, { token }] of answers.entries())
            if (token > 0n) said.set(made[j].ref, token);
          tokens.push(answers.map(({ token }) => token));
          return answers.map((answer, j) => answerOf(answer, made[j], isOpen));
        },
      ),
    );
    const [answers] = await Promise.all(calls);
    const isOne = steps.length === 1 && !this.#engine.countsApart;
    if (!Array.isArray(answers) || !isOne) return;
    if (!isOpen) this.#grow(tokens);
    const [expected, actual] = tokens;
    const isForgotten = (token, i) => token > 0n && actual[i] === 0n;
    assert.ok(
      !steps[0].made.every(isRequest) || !expected.some(isForgotten),
      'a grant is forgotten',
    );
  }

  /** Sends a step again, maybe over another connection, because its answer was lost. */
  async again({ isCut }, session) {
    if (isCut) await this.hello({}, session);
    // An end by a dead session may be answered, or not.
    const isOfUse = session.last.some(({ made }) => !made.every(isEnd));
    if (session.isAlive || isOfUse) await this.#say(session, session.last, true);
  }

  /**
   * A step or its answer gets lost with the connection, another session acts, and the server may
   * forget the step. With `isLate`, the other session acts while the server is asked for the state.
   * With `lostAt`, the connection is lost once more after so many calls.
   */
  async lose(action, session) {
    const { op, other, by, forgets, isBehind, isDone, isLate, lostAt = 0, more = null } = action;
    const another = this.#sessions[by];
    const { name } = op;
    if (isBehind && another !== session && name !== undefined)
      await this.#steps([[{ ...WAITER, name }]], another);
    const made = op.kind !== 'end' && this.#oneStep(more ? [op, more] : [op], session);
    if (!made) return;
    const [reference, real] = session.clients;
    const [{ number }] = session.last;
    if (isDone) await reference.step(made, number);
    real.meets({ isBefore: !isDone, isLost: true });
    await real.step(made, number).catch(() => {});
    real.meets();
    const their = other.kind === 'end' ? this.#lastOf(another, name, other) : other;
    // An engine may use several transactions for several operations; no session acts in between.
    let meeting = another === session || made.length > 1 ? Promise.resolve() : undefined;
    const meet = () => {
      meeting ??= this.#steps([[their]], another);
      return meeting;
    };
    if (!isLate) await meet();
    if (forgets) await this.#engine.forget();
    await this.hello({}, session);
    if (lostAt > 0) {
      real.meets({ lostAt, isDone });
      await real.step(made, number).catch(() => {});
      real.meets();
      await this.hello({}, session);
    }
    if (isLate) session.clients[1].meets({ meetAtRead: meet });
    await this.#say(session, session.last, true);
    session.clients[1].meets();
    await meet();
  }

  /** Another session acts just before a step or its second attempt runs, or before its answer. */
  async meet({ op: drawn, other, by, isBefore, isHeard, isSecond, isTheft, isTurn }, session) {
    const another = this.#sessions[by];
    if (another === session || !another.isAlive || this.#hasDead) return;
    const isRequest = !['behind', 'end', 'group', 'publish'].includes(drawn.kind);
    const op = isTheft && isRequest ? { ...drawn, kind: 'steal' } : drawn;
    // The step may release the session's lock of the name in the same transaction.
    const isOne = isRequest && op.kind !== 'steal';
    if (isTurn && isOne) await this.#steps([[{ ...WAITER, name: op.name }]], session);
    const turn = isTurn && isOne ? [this.#lastOf(session, op.name, ends)] : [];
    const made = this.#oneStep([...turn.filter(({ of }) => of), op], session);
    // Both steps use one name.
    const index = made && !op.asked ? this.#names.indexOf(made[0].name) : -1;
    const name = op.name ?? op.asked?.name ?? (index < 0 ? other.name : index);
    const isRobbed = isTheft && ['end', 'publish'].includes(op.kind);
    const their = isRobbed
      ? { ...ATTEMPT, ...theft, name }
      : other.kind === 'end'
        ? this.#lastOf(another, name, other)
        : { ...other, name };
    if (!made || !this.#oneStep([their], another)) return;
    const answers = [new Map(), new Map()];
    const say = async (i, one) => {
      const [step] = one.last;
      answers[i].set(one, await one.clients[i].step(step.made, step.number));
    };
    let isMet = false;
    const meet = async () => {
      isMet = true;
      if (!isBefore) await say(0, session);
      await say(0, another);
      await say(1, another);
      // A session is notified of a theft even before its step is answered.
      if (!isBefore || isHeard) await this.#hearOf(session, ({ thief }) => thief);
      // By a renewal, it also learns that its request has passed.
      if (!isBefore && isHeard) await this.#renew(session);
    };
    session.clients[1].meets({ meet, isBefore, isSecond: isBefore && isSecond });
    await say(1, session);
    const attempts = session.clients[1].meets();
    assert.ok(attempts <= (isSecond ? 3 : 2), `${attempts} attempts`);
    if (isMet && isBefore) await say(0, session);
    if (!isMet) for (const one of [session, another]) await say(0, one);
    if (!isMet) await say(1, another);
    const first = isMet && isBefore ? another : session;
    for (const one of [session, another]) {
      const [{ made: ops }] = one.last;
      const [expected, actual] = answers.map((all) => all.get(one));
      one.clients[1].told.push(...grantsOf(actual, ops));
      // The answer may include later effects of the other session, or of an end in the step.
      const isOpen = one === first || ops.some(isEnd);
      const shown = (all) => all.map((answer, i) => answerOf(answer, ops[i], isOpen));
      assert.deepEqual(shown(actual), shown(expected));
    }
  }

  /** Sets `of` to the last request of a name that has not ended, if there is one. */
  #lastOf({ asked, ended }, name, end) {
    const isIt = ({ ref, ...op }) => op.name === this.#names[name] && !ended.has(ref);
    return { ...end, of: asked.findLast(isIt)?.ref };
  }

  /** Makes operations the next step of a session, if there are any. */
  #oneStep(ops, session) {
    session.known = session.refs;
    if (!session.isAlive) return undefined;
    const made = ops.flatMap((op) => this.#opsOf(op, session, 1));
    return made.length > 0 ? this.#nextStep(made, session) : undefined;
  }

  #nextStep(made, session) {
    session.last = [{ made, number: ++session.number }];
    if (!made.every(isEnd)) session.firm = session.number;
    return made;
  }

  /**
   * The server refuses a step, maybe halfway, so its operations come again, each in a step. A theft
   * may come no more, as it is what was refused.
   */
  async refuse({ op, other, isTheft, isOver, refusesAt }, session) {
    const then = isTheft && op.name !== undefined ? { ...ATTEMPT, ...theft, name: op.name } : other;
    session.known = session.refs;
    const parts = [op, then].map((one, i) => this.#opsOf(one, session, i + 1));
    if (!session.isAlive || parts.flat().length === 0) return;
    const made = this.#nextStep(parts.flat(), session);
    const [, real] = session.clients;
    real.meets({ refusesAt: refusesAt + 1 });
    const meaning = await real.step(made, session.number).catch(real.adapter.classify);
    real.meets();
    // A query that waits for the step must not be refused with it.
    await real.adapter.query(this.#names[0]);
    if (meaning !== 'refused') return this.#say(session, session.last, true);
    const again = then !== other && isOver ? parts.slice(0, 1) : parts;
    for (const part of again.filter(({ length }) => length > 0)) {
      this.#nextStep(part, session);
      await this.#say(session, session.last, true);
    }
  }

  async hello(_, session) {
    if (session.isAlive) await this.#connect(session);
  }

  #connect(session) {
    return this.#both(
      session,
      ({ adapter, seen }) => adapter.hello(seen),
      () => 'replaced',
    );
  }

  /** Ends a lease, maybe of a session that shares a name; the next request or a sweep notices. */
  async expire({ isSwept, name, isAwaited, isFirst, isPlain, isCut }, session) {
    if (!session.isAlive) return;
    const plain = { ...WAITER, name };
    const shared = { ...plain, mode: 'shared', weight: 2, other: 0 };
    // Another session gets units later; or before, and waits behind the dead one for its units.
    const other = (isAwaited || isFirst) && this.#alive.findLast((one) => one !== session);
    if (other && !isFirst && !isPlain) await this.#steps([[{ ...shared, weight: 1 }]], other);
    if (name !== undefined) await this.#steps([[shared]], session);
    if (other && isFirst) await this.#steps([[{ ...shared, weight: 1 }]], other);
    if (other && !isFirst) await this.#steps([isPlain ? [plain] : [shared, plain]], other);
    if (other && isCut) await this.hello({}, other);
    await this.#each(session, ({ session: id }, i) => this.#sides[i].expire(id));
    // A session that is notified of the end of a lease grants what it can a moment later.
    const isTold = other && this.#engine.tellsOfDead === true;
    await this.#loses(session, isSwept || isTold, name, isTold ? 1 : 2);
  }

  async #loses(session, isSwept, shared, sides) {
    session.isAlive = false;
    this.#hasDead = true;
    this.#keepOneAwake();
    // A waiter behind it may be granted by now, or by the sweep.
    await this.#showAll(refsOf);
    if (isSwept) await this.#sweep(sides);
    else await this.#probe(shared);
  }

  /** Requests each name and gives up, to check that dead sessions block no request. */
  async #probe(shared = -1) {
    const [session] = this.#alive;
    if (!session) return;
    for (const name of this.#names.keys()) {
      const { length } = session.asked;
      const ordered = this.#looks++ % 2 && name !== shared ? PROBES : PROBES.toReversed();
      const all = ordered.map((op) => ({ ...op, name }));
      await this.#steps([all], session);
      const ends = session.asked
        .slice(length)
        .map(({ ref }) => ({ kind: 'end', of: ref, markFor: 0 }));
      await this.#steps([ends.map((op) => ({ ...op, isNamed: true }))], session);
    }
  }

  /**
   * Closes a session, maybe over the connection of another one, or of its successor from the same
   * adapter. The successor begins with the same step numbers.
   */
  async close({ by, isReopened }, session) {
    await this.#sweep();
    const { clients } = this.#sessions[by];
    const close = () => this.#each(session, ({ session: id }, i) => clients[i].adapter.close(id));
    if (!isReopened) await close();
    await this.#open(this.#sessions.indexOf(session), isReopened ? session.clients[1] : undefined);
    if (isReopened) await close();
  }

  /** A keeper extends a lease, unless its session has not seen the epoch. */
  async extend({ seen }, session) {
    const isAhead = seen === 'ahead' && !this.#engine.countsApart;
    const isExtended = await this.#both(session, ({ extend, life = '', seen: first }) =>
      extend(seen === 'first' ? first : { life, token: isAhead ? 2n ** 53n - 1n : 0n }),
    );
    if (isExtended === true) session.renewed = this.#reference.now;
  }

  async sweep() {
    await this.#sweep();
    for (const name of this.#names) {
      await this.#both(
        this.#sessions[0],
        ({ adapter }) => adapter.query(name, 'held'),
        (entries) => entries.map(entryOf).sort(),
      );
    }
  }

  async marked({ name }) {
    await this.#both(this.#sessions[0], ({ adapter }) => adapter.marked(this.#names[name]));
  }

  /** Deletes what the server can make again, except thefts that wait in a quarantine. */
  async spoil() {
    if (this.#isCareful) return;
    await this.#engine.spoil();
    await this.#probe();
  }

  /** Lets time pass, in which all sessions renew except those that doze. */
  async pass({ isSwept }) {
    const wasCareful = this.#isCareful;
    this.#hasPassed = true;
    for (const session of this.#alive) if (!session.isDozing) session.renewed = this.#reference.now;
    await this.#shift(PASS);
    this.#reference.now += PASS;
    const isLost = ({ renewed }) => this.#reference.now >= renewed + TTL;
    const lost = this.#alive.filter(isLost);
    for (const session of lost) await this.#loses(session, false);
    // A request may be the first to arrive after a quarantine.
    if (wasCareful && !this.#isCareful && !isSwept) await this.#probe();
    if (isSwept || wasCareful) await this.#sweep();
  }

  async #shift(milliseconds) {
    for (const side of this.#sides) await side.shift(milliseconds);
    await this.#stranger.renew();
  }

  /** A session stops renewing, or begins again. */
  async doze(_, session) {
    session.isDozing = !session.isDozing;
    this.#keepOneAwake();
  }

  /** If no session renewed, a server would take that for a fault of its own. */
  #keepOneAwake() {
    const [first] = this.#alive;
    if (this.#alive.every(({ isDozing }) => isDozing) && first) first.isDozing = false;
  }

  async #wakeAll() {
    await this.#sweep();
    for (const session of this.#sessions) session.isDozing = false;
  }

  /** The server is replaced, or a client has seen another one or a token: a quarantine begins. */
  async rebirth({ isAhead, how }, session) {
    if (!session.isAlive) return;
    lives++;
    await this.#wakeAll();
    const greatest = this.#greatest.map((all) => [...all.values()].reduce(greater, 0n));
    const {
      countsApart,
      epochsEndSessions,
      livesOf = (one) => one,
      replace,
      window,
    } = this.#engine;
    const isOther = how === 'other' && replace !== undefined;
    if (isOther) for (const side of this.#sides) await side.replace();
    // An engine with several steps under way notices the replacement in a step.
    if (isOther && window > 1) await this.#steps([[{ ...ATTEMPT, name: 0 }]], session);
    const isOfToken = isAhead && !isOther && !countsApart && greatest.every((token) => token > 0n);
    // A server may have leapt to the time.
    const time = BigInt(Date.now()) * 1_000n;
    const seen = greatest.map((token) =>
      isOfToken
        ? { life: '', token: greater(token, time) + FAR }
        : { life: isOther ? '' : livesOf(`life-${process.pid}-${lives}`), token: 0n },
    );
    for (const [i, { token }] of seen.entries()) this.#greatest[i].set('', token);
    const index = this.#sessions.indexOf(session);
    const hello = ({ adapter }, i) => (how ? adapter.hello(seen[i]) : adapter.renew(seen[i]));
    const isOpened = how === 'open';
    // The end of the session may grant a request before the leap.
    if (!countsApart && (!isOpened || epochsEndSessions))
      this.#least = greatest.map((last, i) => greater(last, seen[i].token) + LEAP);
    if (isOpened) {
      await this.#each(session, ({ adapter, session: id }) => adapter.close(id));
      await this.#open(index, session.clients[1], seen);
    } else if (how || epochsEndSessions) await Promise.allSettled(session.clients.map(hello));
    if (epochsEndSessions)
      for (const [i, { clients }] of this.#sessions.entries())
        if (!isOpened || i !== index) await this.#open(i, isAhead ? clients[1] : undefined);
    for (const { grantsIn } of await this.#renew(this.#sessions[index], isOpened ? [] : seen))
      assert.ok(grantsIn > 2 * PASS, `${grantsIn} ms`);
    this.#carefulUntil = this.#reference.wall + TTL;
    this.#seen.push(seen);
  }

  /** The quarantine ends early, maybe before a step in it is answered. */
  async calm({ op, isMet }, session) {
    const made = isMet && this.#isCareful && op.kind !== 'end' && this.#oneStep([op], session);
    const meet = async () => {
      for (const side of this.#sides) await side.endQuarantine();
      this.#carefulUntil = 0;
      await this.#sweep();
    };
    if (!made) return meet();
    const [{ number }] = session.last;
    const [reference, real] = session.clients;
    await reference.step(made, number);
    real.meets({ meet, isBefore: false });
    await real.step(made, number);
    real.meets();
    await this.#say(session, session.last, true);
  }

  /** A client reports an epoch that was reported before, which begins no other one. */
  async retell({ pick }, session) {
    if (!session.isAlive || this.#seen.length === 0) return;
    const seen = this.#seen[pick % this.#seen.length];
    const livesOf = (renewals) => renewals.map(({ life }) => life);
    const before = livesOf(await this.#renew(session));
    assert.deepEqual(livesOf(await this.#renew(session, seen)), before);
  }

  /** A user sets the server's clock: no session loses a lock by that, nor gets one too early. */
  async jump({ isBack, name }) {
    const [session] = this.#alive;
    const wasCareful = this.#isCareful;
    // A clock that is set ahead ends a quarantine.
    if (!session || (!isBack && wasCareful)) return;
    await this.#wakeAll();
    await this.#shift(isBack ? -JUMP : JUMP);
    if (this.#isCareful && !wasCareful) await this.rebirth({ isAhead: false }, session);
    await this.again({}, session);
    await this.#steps([[{ ...ATTEMPT, name }]], session);
    for (const one of this.#alive) {
      for (const { alive, grantsIn } of await this.#renew(one)) {
        assert.ok(alive && grantsIn <= TTL, `${grantsIn} ms of a quarantine`);
      }
    }
    // The quarantine may have begun anew on one side only, so both begin another one.
    if (this.#isCareful) await this.rebirth({ isAhead: false }, session);
  }

  /** The clock is set ahead twice: a session that has not renewed in between is dead. */
  async leap(_, session) {
    if (!session.isAlive || this.#isCareful) return;
    await this.#wakeAll();
    for (let time = 0; time < 2; time++) {
      await this.#shift(JUMP);
      await this.#renew(session);
    }
    const lost = this.#alive.filter((one) => one !== session);
    for (const one of lost) {
      one.isAlive = false;
      await this.#reference.expire(one.clients[0].session);
    }
    for (const one of lost) await this.#loses(one, false);
  }

  /** No session reaches the server for most of a lease, which ends none, even an older one. */
  async outage(_, session) {
    if (!session.isAlive || this.#isCareful) return;
    await this.#wakeAll();
    for (const one of this.#alive) await this.#renew(one);
    await this.#shift(PASS);
    for (const one of this.#alive) if (one !== session) await this.#renew(one);
    for (const side of this.#sides) await side.shift(2 * PASS);
    await this.hello({}, session);
    for (const one of this.#alive)
      for (const { alive } of await this.#renew(one)) assert.ok(alive, 'the outage ended a lease');
    await this.#stranger.renew();
  }

  async #renew(session, seen = []) {
    const renewals = await this.#each(session, ({ adapter, seen: own }, i) =>
      adapter.renew(seen[i] ?? own),
    );
    const thefts = renewals.map(({ stolen = new Map() }) => theftsOf(stolen));
    this.#compareThefts(session, ...thefts);
    return renewals;
  }

  #each({ clients }, call) {
    return Promise.all(clients.map(call));
  }

  /** All sessions sweep: after a quarantine, each sweep grants the requests of its own session. */
  async #sweep(sides = 2) {
    for (const { clients } of this.#alive)
      await Promise.all(clients.slice(0, sides).map(({ adapter }) => adapter.sweep()));
    if (this.#alive.length > 0) this.#hasDead = false;
  }

  /** Translates an operation of a story to those of an engine. */
  #opsOf(op, session, group) {
    if (op.kind === 'end') return this.#endOf(op, session);
    if (op.kind === 'publish') return this.#publicationOf(op, session);
    if (op.kind === 'behind') return this.#requestBehind(op, session);
    if (op.kind !== 'group') return [this.#requestOf(op, session)];
    const { mode, names, of } = op;
    const common = { kind: of, mode: of === 'steal' ? 'exclusive' : mode, priority: 0, other: 0 };
    return names.map((name) => ({
      ...this.#requestOf({ ...op, ...common, name }, session),
      group,
    }));
  }

  /** Requests a name, and then ends the session's lock of that name. */
  #requestBehind({ asked }, session) {
    const { asked: all, ended, held } = session;
    const isIt = ({ name, ref }) => name === this.#names[asked.name] && !ended.has(ref);
    const lock = all.findLast((op) => isIt(op) && held[0].has(op.ref));
    const request = this.#requestOf(asked, session);
    return lock ? [request, ...this.#endOf({ ...ends, of: lock.ref }, session)] : [request];
  }

  /** Requests for names 3 have a limit; others rarely do. */
  #requestOf({ kind, name, mode, weight, other, maxPending, priority }, session) {
    const isAlone = kind === 'steal' || kind.startsWith('pass');
    const limit = name === 3 ? [3, 0][Math.sign(other)] : other;
    const isLimited = !isAlone && mode === 'shared' && limit > 0 && weight > 0;
    const request = {
      kind,
      ref: ++session.refs,
      name: this.#names[name],
      mode: isAlone ? 'exclusive' : mode,
      limit: isLimited ? limit : 0,
      weight: isLimited ? weight : 0,
      maxPending: kind === 'request' || kind === 'pass' ? maxPending : -1,
      // A request behind dead sessions may be granted already, so no new one may come before it.
      priority: kind === 'steal' ? 0 : this.#hasDead ? LEAST : priority,
      label: `${kind.startsWith('pass') ? PASSES : ''}${LABELS[session.refs % LABELS.length]}`,
      group: 0,
    };
    session.asked.push(request);
    if (kind.startsWith('pass')) session.passing.add(request.ref);
    return request;
  }

  #endOf({ of, pick, markFor, isNamed }, session) {
    if (session.asked.length === 0) return [];
    // Most ends are of requests that have not ended before.
    const open = session.asked.filter((op) => !session.ended.has(op.ref));
    const all = pick % 5 > 0 && open.length > 0 ? open : session.asked;
    // Small numbers, which are drawn more often, stand for the last requests.
    const picked = all.at(-1 - (pick % all.length));
    const { mode, name, ref } = session.asked.find((op) => op.ref === of) ?? picked;
    session.ended.add(ref);
    // A request behind a dead session may be held already, or not. An engine may remember the end
    // that has set a mark for longer than the mark lasts, but no session sends such an end twice.
    const marks = mode === 'exclusive' && !this.#hasDead && !session.marking.has(ref) ? markFor : 0;
    if (marks > 0) session.marking.add(ref);
    // A session lacks only the names of requests that the server had before the step.
    const isUnnamed = !isNamed && marks === 0 && ref <= session.known;
    return [{ kind: 'end', ref, name: isUnnamed ? undefined : name, markFor: marks }];
  }

  /** A session publishes with a lock that it believes to hold, though others may have stolen it. */
  #publicationOf({ pick, text }, { asked, held }) {
    const known = asked.filter(({ ref }) => held[0].has(ref));
    if (known.length === 0 || this.#hasDead) return [];
    const { name, ref } = known.at(-1 - (pick % known.length));
    return [{ kind: 'publish', ref, name, data: text }];
  }

  /** Waits for marks of less than a millisecond to end, by the clock of the server. */
  async #letMarksEnd(session, ops) {
    const short = ops.filter(({ kind, markFor }) => kind === 'end' && markFor > 0 && markFor < 1);
    if (short.length > 0) this.#reference.wall += 1;
    const [reference, real] = session.clients.map(({ adapter }) => adapter);
    for (const { name } of short) {
      if (await reference.marked(name)) continue;
      const end = performance.now() + PATIENCE;
      while (await real.marked(name)) {
        assert.ok(performance.now() < end, 'a mark is not over');
      }
    }
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

  /** Waits until each session has the hints that the reference sent. */
  async #hear() {
    for (const session of this.#sessions) {
      if (session.isAlive) await this.#hearOf(session, () => true);
      session.clients[0].hints.length = 0;
    }
  }

  /** @param {any} session @param {(hint: any) => unknown} isIt selects hints of the reference */
  async #hearOf({ clients: [{ hints }, { told }], ended }, isIt) {
    // A step may end what it grants, which needs no hint.
    const wanted = hints.filter(isIt).filter(({ ref }) => !ended.has(ref));
    const isTold = ({ ref }) => told.some((event) => event.granted === ref || event.stolen === ref);
    const end = performance.now() + PATIENCE;
    while (!wanted.every(isTold)) {
      const missing = wanted.filter((hint) => !isTold(hint)).map(({ ref }) => ref);
      assert.ok(performance.now() < end, `nothing was told of ${missing}`);
      await setTimeout(1);
    }
  }

  async #compare() {
    await this.#showAll(this.#hasDead ? refsOf : pictureOf);
    const held = [];
    for (const session of this.#sessions) {
      if (session.isDozing && session.isAlive) {
        session.isLate = true;
        continue;
      }
      const told = [];
      const locks = [];
      const expiries = [];
      await this.#both(
        session,
        ({ adapter, seen }) => adapter.renew(seen),
        ({ alive, grantsIn, life, mine, nextExpiryIn, step, stolen = new Map() }, client) => {
          if (!alive) return 'dead';
          client.life = life;
          told.push(theftsOf(stolen));
          locks.push(mine);
          expiries.push(nextExpiryIn);
          const passes = Math.ceil(grantsIn / PASS);
          const all = [...mine].filter(([ref]) => !this.#hasDead || !session.passing.has(ref));
          // Steps of ends need not be recorded, as they may run again.
          const isKnown =
            this.#engine.tellsNoStep || (step >= session.firm && step <= session.number);
          return [
            `${passes} to go`,
            isKnown || step,
            ...all.map((one) => this.#shownOf(one)).sort(),
          ];
        },
      );
      if (session.isAlive) session.renewed = this.#reference.now;
      this.#compareThefts(session, ...told);
      const [expected, actual] = expiries;
      assert.ok(
        !this.#hasPassed ||
          this.#hasDead ||
          this.#engine.tellsOfDead ||
          !(actual > expected + PASS / 2),
        'a lease that ends earlier is not told of',
      );
      const { isLate } = session;
      session.isLate = false;
      held.push(...locks.map((mine, side) => ({ session, mine, side, isLate })));
    }
    this.#compareTokens(held);
    this.#hasPassed = false;
  }

  /** Shows a lock or a request of a session. One that waited behind dead sessions may be either. */
  #shownOf([ref, token]) {
    return this.#hasDead ? `${ref}` : `${ref} ${token > 0n ? 'held' : 'waits'}`;
  }

  /** Grants since the last comparison have no smaller tokens than those before. */
  #compareTokens(renewals) {
    const before = this.#greatest.map((all) => new Map(all));
    for (const { session, mine, side, isLate } of renewals) {
      const { clientId } = session.clients[1];
      for (const { ref, token, held, waited, ...entry } of this.#shown[side]) {
        assert.ok(held >= 0 && waited >= 0, `held for ${held}, waited for ${waited} ms`);
        if (token === 0n || entry.clientId !== clientId) continue;
        assert.equal(mine.get(ref) ?? token, token);
        assert.ok(held >= (session.heldFor[side].get(ref) ?? 0), 'it is held for less');
        session.heldFor[side].set(ref, held);
      }
      for (const [ref, token] of mine) {
        if (token > 0n) assert.equal(session.said[side].get(ref) ?? token, token);
        if (token === 0n || session.held[side].get(ref) === token) continue;
        assert.equal(session.held[side].get(ref), undefined, `another token of ${ref}`);
        const { name } = session.asked.find((op) => op.ref === ref);
        const last = before[side].get(name) ?? 0n;
        // Other sessions may have seen grants while this one dozed.
        const least = this.#least[side];
        assert.ok(isLate || (token >= last && token > least), `the token ${token} after ${last}`);
        this.#greatest[side].set(name, greater(this.#greatest[side].get(name) ?? 0n, token));
        session.held[side].set(ref, token);
      }
    }
  }

  /** A theft is reported at least until a renewal was answered. */
  #compareThefts(session, expected = [], actual = []) {
    for (const theft of expected) session.thefts.add(theft);
    // At some engines, the answer of a step may have reported that a request has passed.
    const mayMiss = (theft) => this.#engine.meets && theft.endsWith(' ');
    const missing = expected.filter((theft) => !mayMiss(theft) && !actual.includes(theft));
    const wrong = actual.filter((theft) => !session.thefts.has(theft) && !theft.endsWith(' '));
    assert.deepEqual({ missing, wrong }, { missing: [], wrong: [] });
  }

  /** Compares queries of each name, or of all at once. */
  async #showAll(shown) {
    const [session] = this.#sessions;
    const names = this.#looks++ % 2 ? this.#names : [undefined];
    this.#shown = [[], []];
    const all = names.map((asked) =>
      this.#both(
        session,
        ({ adapter }) => adapter.query(asked),
        (entries, client) => {
          const side = session.clients.indexOf(client);
          this.#shown[side].push(...entries);
          return this.#names.map((name) => shown(entries.filter((one) => one.name === name)));
        },
      ),
    );
    await Promise.all(all);
  }

  async finish() {
    for (const session of this.#sessions) {
      // A dead session stays dead, although its connection is replaced.
      if (!session.isAlive) assert.equal(await this.#connect(session), 'dead');
      await this.#each(session, ({ adapter, session: id }) => adapter.close(id));
    }
    await this.#checkStranger();
    await this.#stranger.adapter.close(this.#stranger.session);
    for (const { adapter } of [...this.#used, this.#stranger]) await adapter.dispose();
    await this.#engine.verify?.();
  }

  async leavesNothing() {
    for (const { session } of this.#used)
      assert.equal(await this.#engine.left(session), 0, 'something is left of a session');
  }
}

/** @type {(a: bigint, b: bigint) => bigint} */
function greater(a, b) {
  if (a < b) return b;
  return a;
}

const isEnd = ({ kind }) => kind === 'end';
const isRequest = ({ kind }) => kind !== 'end' && kind !== 'publish';
const theftsOf = (stolen) => [...stolen].map(([ref, by]) => `${ref} ${by}`);

function answerOf({ code, limit, token, error }, { group, kind }, isOpen) {
  if (code === 'failed') return `failed: ${error.message}`;
  if (isOpen && ['granted', 'passed', 'queued'].includes(code)) return 'made';
  if (token > 0n) return `${code} by a token`;
  // Several requests of a group may be refused, and the engines need not name the same one.
  if (group > 0 && kind === 'ifAvailable') return 'refused';
  return code === 'otherLimit' ? `${code} ${limit}` : code;
}

const entryOf = ({ ref, name, mode, token, clientId, label, limit, weight, ...more }) =>
  `${ref} ${JSON.stringify(name.slice(-8))} ${token > 0n ? 'held' : 'waits'} ${mode} ` +
  `of ${clientId} (${JSON.stringify(label)}) ${weight} of ${limit}, ${more.priority ?? 0}, ` +
  `data ${more.data || ''}`;

/** Lists the entries that exist whether dead sessions are swept yet or not. */
const refsOf = (entries) =>
  entries
    .filter(({ label }) => !label.startsWith(PASSES))
    .map(({ clientId, ref }) => `${ref} of ${clientId}`)
    .sort();

/** Returns the grants of answers as hints. */
const grantsOf = (answers, made) =>
  answers.flatMap(({ code, token }, i) =>
    token > 0n || code === 'passed' ? [{ granted: made[i].ref }] : [],
  );

/** Shows the holders of a name, in no order, and its waiters in theirs. */
function pictureOf(entries) {
  const isHeld = ({ token }) => token > 0n;
  const waiting = entries.filter((entry) => !isHeld(entry));
  return [...entries.filter(isHeld).map(entryOf).sort(), ...waiting.map(entryOf)];
}

/**
 * @param {import('./contract.js').Engine} engine
 * @param {{ lane?: number, share?: number }} [options] `lane`: each has other stories; `share` of
 *   the stories
 * @returns {Promise<void>} rejects with the shortest story that finds a difference
 */
function check(engine, { lane = 0, share = 1 } = {}) {
  const { hasNoGroups, meets, shift, shortestKeep = 1e-3, window = 1 } = engine;
  const can = {
    groups: !hasNoGroups,
    several: window > 1,
    spoil: engine.spoil !== undefined,
    time: shift !== undefined,
    meet: meets === true,
    keeper: engine.keeper !== undefined,
    calm: engine.epochsEndSessions === true,
    keeps: [3_600_000, ...(shortestKeep < 1000 ? [0.25, PASS / 2, 1.5 * PASS + 0.5] : [])],
  };
  const property = fc.asyncProperty(storyOf(can), async (story) => {
    const telling = new Telling(engine);
    await telling.begin();
    await engine.endQuarantine?.();
    try {
      for (const action of story) await telling.tell(action);
    } finally {
      await telling.finish();
      await engine.endQuarantine?.();
    }
    await telling.leavesNothing();
  });
  const old = [
    ...OLD_STORIES,
    ...(can.meet ? OLD_STORIES_OF_MEETING : []),
    ...(can.time ? OLD_STORIES_OF_TIME : []),
  ];
  const examples = lane === 0 ? old.map((story) => [story]) : [];
  return fc.assert(property, {
    examples,
    numRuns: examples.length + Math.ceil(RUNS * share),
    seed: SEED + lane,
    path: STORY_PATH,
    endOnFailure: LIMIT === 0,
    interruptAfterTimeLimit: LIMIT || undefined,
    includeErrorInReport: true,
  });
}

/**
 * Defines the test, beside `contract` in a `describe`. Some stories run at the same time, each with
 * buckets of its own.
 * @param {(lane: number) => import('./contract.js').Engine} engineOf
 * @param {number} [share] of the stories that are told
 */
function tellStories(engineOf, share = 1) {
  const lanes = Array.from({ length: STORY_PATH ? 1 : LANES }, (_, lane) => lane);
  test('does in random stories what the reference engine does', () =>
    Promise.all(lanes.map((lane) => check(engineOf(lane), { lane, share: share / lanes.length }))));
}

module.exports = { tellStories };
