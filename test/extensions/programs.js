'use strict';

/**
 * Runs random programs of the whole API in one thread and one scope, and compares them with the
 * judge (judge.js) after each step. The comparison covers the outcome of each call, the holders and
 * waiters, the order of grants, and the warnings. The users' code of a program holds, returns,
 * fails with every error of the package, steals from itself and aborts. Time is the test's
 * (test/helpers/clock.js).
 *
 * programs.test.js runs this file once for each scope:
 * WEB_LOCKS_TEST_SCOPE=memory PROGRAMS_RUNS=10000 PROGRAMS_SEED=7 node test/extensions/programs.js
 */

const { clock } = require('../helpers/clock.js');
const { lacksProc } = require('../helpers/host-scope.js');
const { Kept } = require('../helpers/kept.js');
const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { randomUUID } = require('node:crypto');
const { subscribe } = require('node:diagnostics_channel');
const { readdirSync } = require('node:fs');
const { threadId } = require('node:worker_threads');
const fc = require('fast-check');
const { chosen, scope } = require('../conformance/scopes.js');
const { OPTIONS } = require('../../lib/extensions/options.js');
const { Bucket } = require('../../lib/extensions/buckets/bucket.js');
const { countSites } = require('../../lib/extensions/sites/sites.js');
const { LockRequest } = require('../../lib/standard/lock-request.js');
const { TrackedRequest } = require('../../lib/cluster/session/tracked-request.js');
const { TTL, openAt } = require('../conformance/memory.js');
const { KINDS, VALUES, make, objectOf } = require('./calls.js');
const { Judge, isRefused } = require('./judge.js');

const { PROGRAMS_RUNS = 300, PROGRAMS_SEED = 3, PROGRAMS_PATH } = process.env;

/** An event that is missing for so many milliseconds fails the program; fewer while it shrinks. */
const PATIENCE_MS = 60_000;
const IMPATIENCE_MS = 500;
const STEP_MS = 1;
const SIGNALS = 3;
const OPENINGS = 2;

const PUBLISHED = [
  ...[undefined, null, 0, -1.5, false, '', 'text', '\ud800', '\0', [], {}, 'ü€😀'],
  ...[{ url: 'http://a:1', done: [1, null, 'é'] }, 'x'.repeat(4_000)],
];

const ENDINGS = [
  ...[
    'return',
    'return',
    'loss',
    'loss',
    'AbortError',
    'AbortError',
    'AbortError',
    'null',
    'Error',
  ],
  ...['LockStolenError', 'LockTimeoutError', 'DeadlockError', 'LockQueueFullError'],
  ...['InvalidStateError', 'TypeError'],
];

/**
 * Whether the step follows a query that is still unanswered, so that the host scope defers the
 * step. A call that blocks the thread never follows one, because the test's time passes before the
 * answer.
 */
const isBehind = fc.constantFrom(false, false, false, true);

/** A program draws few kinds and few options, so that its calls meet each other. */
const callOf = (kinds, options) =>
  fc.record({
    does: fc.constant('call'),
    kind: fc.constantFrom(...kinds, ...kinds, 'request'),
    opening: fc.constantFrom(0, 0, 0, 1),
    names: fc.array(fc.constantFrom('a', 'a', 'a', 'b', 'b', 'c'), { minLength: 1, maxLength: 3 }),
    modes: fc.array(fc.constantFrom(undefined, undefined, undefined, 'shared', 'exclusive'), {
      minLength: 3,
    }),
    drawn: fc.array(
      fc
        .constantFrom(...options)
        .chain((name) => fc.tuple(fc.constant(name), fc.constantFrom(...VALUES[name]))),
      { maxLength: 5 },
    ),
    /** Most calls leave out the options that they would refuse. A number takes one option away. */
    slip: fc.oneof(
      { weight: 17, arbitrary: fc.constant('none') },
      { weight: 1, arbitrary: fc.constant('any') },
      { weight: 2, arbitrary: fc.nat(9) },
    ),
    isInherited: fc.boolean(),
    isBehind,
    work: fc.constantFrom(...Array(8).fill('hold'), ...ENDINGS),
    inside: fc.option(fc.nat(), { freq: 3 }),
  });

const ASK = { does: 'call', kind: 'request', opening: 0, modes: [], slip: 'none', work: 'hold' };

const does = (what, weight, more = {}) => ({
  weight,
  arbitrary: fc.record({ does: fc.constant(what), isBehind, ...more }),
});
const pick = fc.nat();
const isTogether = scope.lacks.oneByOne !== undefined;

const stepOf = (kinds, options) =>
  fc.oneof(
    { weight: 60, arbitrary: callOf(kinds, options) },
    does('release', 35, { pick, ending: fc.constantFrom(...ENDINGS) }),
    does('steal', 8, { pick, inside: fc.option(fc.nat()) }),
    does('cancel', 3, { pick, reason: fc.option(fc.nat(SIGNALS - 1), { nil: undefined }) }),
    does('abort', 10, { signal: fc.nat(SIGNALS - 1) }),
    does('pass', 30, { ms: fc.constantFrom(100, 200, 400) }),
    does('publish', 10, { pick, value: fc.constantFrom(...PUBLISHED) }),
    does('close', 3),
  );

/** A call that holds, and calls inside it that share its names and options. */
const nestOf = (kinds, options) =>
  fc
    .tuple(
      callOf(kinds, options),
      fc.array(callOf(kinds, options), { minLength: 1, maxLength: 3, size: 'max' }),
    )
    .map(([outer, calls]) => [
      { ...outer, work: 'hold' },
      ...calls.map((inner) => {
        const drawn = [...outer.drawn, ...inner.drawn];
        return { ...inner, names: outer.names, drawn, inside: 0 };
      }),
    ]);

/**
 * A cycle that a call inside of no lock closes. A reader waits, inside a lock that another reader
 * waits for, behind a writer. Deadlock detection ignores that writer, as it does not reject
 * deadlocks.
 */
const ring = fc
  .tuple(fc.shuffledSubarray(['a', 'b', 'c'], { minLength: 2 }), fc.constantFrom(0, 1, -1))
  .map(([[a, b], priority]) => {
    const reject = ['deadlock', 'reject'];
    const ask = (name, mode, inside, ...more) => {
      const drawn = [['mode', mode], ...more];
      return { ...ASK, names: [name], drawn, inside };
    };
    return [
      ask(a, 'shared', null, reject),
      ask(b, 'exclusive', null, reject),
      ask(a, 'exclusive', null),
      ask(a, 'shared', 0, reject),
      ask(b, 'shared', 1, reject),
      ask(a, 'exclusive', null, reject, ['priority', priority]),
    ];
  });

/**
 * A cycle through the first lock of a call for several, which waits for its next one. A request for
 * the first lock is then made inside that next one.
 */
const ringOfSeveral = fc
  .tuple(
    fc.subarray(['a', 'b', 'c'], { minLength: 2, maxLength: 2 }),
    fc.constantFrom('requestAll', 'acquireAll'),
    fc.boolean(),
  )
  .map(([[first, next], kind, isNested]) => {
    const given = { drawn: [['deadlock', 'reject']], inside: null };
    return [
      { ...ASK, ...given, names: [next] },
      { ...ASK, ...given, kind, names: [first, next] },
      { ...ASK, ...given, names: [first], inside: isNested ? 0 : null },
    ];
  });

/**
 * Two requests wait one behind the other, and end together, though the end of the first one alone
 * would grant the second: their object cancels them, a signal that they share aborts, or their
 * bucket is closed. They may be turned round, by a priority of the later one, while a third request
 * blocks both.
 */
const crowd = fc
  .tuple(
    fc.constantFrom(
      [
        ['RWLock.runShared', {}],
        ['RWLock.acquireExclusive', {}],
        ['RWLock.runShared', {}],
      ],
      [
        ['RWLock.acquireShared', {}],
        ['RWLock.runExclusive', {}],
        ['RWLock.acquireShared', {}],
      ],
      [
        ['Semaphore.run', { weight: 2 }],
        ['Semaphore.acquire', { weight: 2 }],
        ['Semaphore.run', {}],
      ],
      [
        ['request', { mode: 'shared' }],
        ['acquire', { signal: 0 }],
        ['acquire', { mode: 'shared', signal: 0 }],
      ],
    ),
    fc.boolean(),
    fc.constantFrom({ does: 'cancel', pick: 0 }, { does: 'abort', signal: 0 }, { does: 'close' }),
  )
  .map(([[first, ...others], isTurned, end]) => {
    const ask = ([kind, options], opening) => ({
      ...{ ...ASK, kind, names: ['c'], opening, drawn: Object.entries(options), inside: null },
    });
    const opening = end.does === 'close' ? 1 : 0;
    const waiting = others.map((one) => ask(one, opening));
    if (!isTurned) return [ask(first, 0), ...waiting, end];
    waiting.reverse()[1].drawn.push(['priority', 1]);
    const blocker = ask(['acquire', { signal: 1 }], 0);
    return [ask(first, 0), blocker, ...waiting, { does: 'abort', signal: 1 }, end];
  });

/** A leader loses its lock, its term ends, and a signal aborts in the pause that follows. */
const dethroned = fc.constantFrom('loss', 'AbortError').map((ending) => {
  const ask = { ...ASK, names: ['c'], inside: null };
  return [
    { ...ask, kind: 'elect', drawn: [['signal', 0]] },
    { ...ask, drawn: [['steal', true]], work: 'return' },
    { does: 'release', pick: 0, ending },
    { does: 'abort', signal: 0 },
  ];
});

/** A call for several gets its first lock within its time limit, and waits for the next one. */
const lateForNext = fc
  .tuple(
    fc.constantFrom('requestAll', 'acquireAll'),
    fc.constantFrom(['timeout', 300], ['maxTotal', 400], ['timeout', 200]),
  )
  .map(([kind, limit]) => [
    { ...ASK, names: ['a'], drawn: [], inside: null },
    { ...ASK, names: ['b'], drawn: [], inside: null },
    { ...ASK, kind, names: ['a', 'b'], drawn: [limit], inside: null },
    { does: 'pass', ms: 100 },
    { does: 'release', pick: 1, ending: 'return' },
    { does: 'pass', ms: 400 },
  ]);

const drawn = fc.tuple(
  fc.subarray(Object.keys(KINDS), { minLength: 1, maxLength: 4 }),
  fc.subarray(Object.keys(VALUES), { minLength: 2, maxLength: 6 }),
);
const ofDeadlocks = fc.constant([['request'], ['deadlock', 'deadlock', 'mode', 'priority']]);

const program = fc
  .oneof(
    { weight: 4, arbitrary: drawn },
    { weight: scope.lacks.deadlock ? 0 : 1, arbitrary: ofDeadlocks },
  )
  .chain(([kinds, options]) =>
    fc.array(
      fc.oneof(
        { weight: 18, arbitrary: stepOf(kinds, options).map((step) => [step]) },
        { weight: 2, arbitrary: nestOf(kinds, options) },
        { weight: 1, arbitrary: crowd },
        { weight: 1, arbitrary: dethroned },
        { weight: isTogether ? 0 : 1, arbitrary: lateForNext },
        { weight: kinds.length === 1 ? 1 : 0, arbitrary: ring },
        { weight: kinds.length === 1 ? 1 : 0, arbitrary: ringOfSeveral },
      ),
      { minLength: 1, maxLength: 40, size: 'max' },
    ),
  )
  .map((steps) => steps.flat());

// The library and its scope, as the programs use them.

const openBucket = chosen === 'memory' ? openAt(clock) : scope.openBucket;
const library = scope.library();

for (const file of ['native', 'host']) {
  const exported = require(`../../lib/backend/${file}.js`);
  const { prototype } = exported.NativeBackend ?? exported.HostBackend;
  const { wait } = prototype;
  prototype.wait = function (request, ms) {
    clock.jump(ms);
    return wait.call(this, request, 1);
  };
}

/** Each call has a context of its own. */
const contexts = new AsyncLocalStorage();

/** The random pause of an election is the shortest one. */
Math.random = () => 0;

const turn = () => new Promise((resolve) => setImmediate(resolve));

const ERRORS = {
  AbortError: () => new DOMException('of the work', 'AbortError'),
  InvalidStateError: () => new DOMException('of the work', 'InvalidStateError'),
  LockStolenError: () => new library.LockStolenError('a', 'somebody'),
  LockTimeoutError: () => new library.LockTimeoutError('of the work', 'a', { waited: 0 }),
  DeadlockError: () => new library.DeadlockError('a', [{ name: 'a' }, { name: 'a' }]),
  LockQueueFullError: () => new library.LockQueueFullError('a', 1),
  TypeError: () => new TypeError('of the work'),
  Error: () => new Error('of the work'),
  null: () => null,
};

/** Each request of the cycle waits for the lock after it, of the same name. */
function checkCycle({ lockName, cycle }) {
  assert.ok(cycle.length > 0 && cycle.length % 2 === 0);
  assert.ok(cycle.every(({ name }, i) => name === cycle[i - (i % 2)].name));
  assert.equal(cycle[0].name, lockName);
}

/** The end of a message about a theft. All thieves are in this thread. */
const THIEF = new RegExp(
  `\\(${chosen === 'host' ? `process ${process.pid}, ` : ''}` +
    `client ${scope.clientId(process.pid, threadId)}\\)\\.$`,
);

class Call {
  log = [];
  /** The locks that the call was granted last, by name. */
  locks = new Map();
  unwatch = [];
  enter;
  handle;

  constructor(runner, id, given) {
    Object.assign(this, { runner, id, given });
  }

  note(what) {
    this.log.push(what);
    this.runner.changed();
  }

  /** The user's callback. */
  work = (it) => {
    if (it === null) {
      this.note('called with null');
      // The callback outlasts the program: without a lock, it must block no other call.
      return this.runner.over;
    }
    this.note('called');
    this.runner.checkVictims(this);
    this.loss = undefined;
    this.enter = AsyncLocalStorage.snapshot();
    for (const lock of new Set(Array.isArray(it) ? it : [it])) this.watch(lock);
    if (this.given.work !== 'hold') return this.outcome(this.given.work);
    return new Promise((resolve) => {
      this.end = resolve;
    }).then((ending) => this.outcome(ending));
  };

  watch(lock) {
    this.locks.set(lock.name, lock);
    if (lock.token !== undefined) this.runner.tokens.set(`${this.id} ${lock.name}`, lock.token);
    const { signal } = lock;
    const context = contexts.getStore();
    const lost = () => {
      // A given signal runs a leader's listeners in the context of the code that aborts it.
      if (contexts.getStore() !== context && this.given.kind !== 'elect')
        this.note('lost in the context of another call');
      this.loss = signal.reason;
      if (this.given.kind !== 'elect' || this.end) this.note(`lost ${this.nameOf(signal.reason)}`);
    };
    if (signal.aborted) {
      lost();
      return;
    }
    signal.addEventListener('abort', lost);
    this.unwatch.push(() => signal.removeEventListener('abort', lost));
  }

  outcome(ending) {
    if (ending === 'return') return 'value';
    const { loss = new Error('no loss') } = this;
    this.thrown = ending === 'loss' ? loss : ERRORS[ending]();
    throw this.thrown;
  }

  nameOf(error) {
    if ('thrown' in this && error === this.thrown && error !== this.loss) return 'thrown';
    const reason = this.runner.reasons.indexOf(error);
    if (reason >= 0) return `reason ${reason}`;
    const code = error?.errorCode ?? String(error);
    if (error instanceof library.DeadlockError) checkCycle(error);
    if (code === 'ERR_WEB_LOCKS_STOLEN' && !THIEF.test(error.message)) return error.message;
    const { lockName: on = this.given.names[0] } = error ?? {};
    if (!this.given.names.includes(on)) return `${code} ${on}`;
    if (error instanceof library.LockTimeoutError) {
      const { lockName, waited, held } = error;
      const option = /its '(\w+)' is/.exec(error.message)?.[1];
      return `${code} ${lockName} ${waited}${option ? ` ${held} ${option}` : ''}`;
    }
    return ['INVALID_ARGUMENT', 'NOT_SUPPORTED'].some((it) => code.endsWith(it)) ? 'refused' : code;
  }

  took(it) {
    if (this.form === 'callback') {
      if (it === 'value' || it?.value === 'value') this.note('value');
      else if (it?.ran === false) this.note('skipped');
      else if (it !== undefined) this.note(`what is ${it}?`);
      return;
    }
    if (this.form === 'wait' || it === null) {
      this.note(String(it));
      return;
    }
    this.handle = it;
    this.note('handle');
    this.runner.checkVictims(this);
    for (const lock of new Set(it.locks ?? [it])) if (lock.signal) this.watch(lock);
  }

  start() {
    const { kind } = this.given;
    this.form = KINDS[kind].form;
    try {
      const made = this.#make(kind);
      if (this.form === 'sync') this.took(made);
      else
        made.then(
          (it) => this.took(it),
          (error) => {
            this.rejection = error;
            this.note(this.nameOf(error));
          },
        );
    } catch (error) {
      this.rejection = error;
      this.note(this.form === 'sync' ? this.nameOf(error) : `threw ${error}`);
    }
  }

  #make(kind) {
    const { names, modes, options, opening, object: key } = this.given;
    const { locks } = this.runner.openings[opening];
    const object = key && this.runner.object(key, kind, names[0], locks);
    const entries = names.map((it, i) => (modes[i] ? { name: it, mode: modes[i] } : it));
    return make(
      ...[kind, { locks, object }, KINDS[kind].several ? entries : names[0], options, this.work],
    );
  }

  release(ending) {
    if (this.form === 'callback') {
      this.end?.(ending);
      this.end = undefined;
    } else {
      const release = this.handle.release ?? this.handle;
      release.call(this.handle);
      // A second release must change nothing.
      release.call(this.handle);
    }
  }
}

class Runner {
  calls = [];
  given = [];
  objects = new Map();
  changed = () => {};
  /** Resolves at the end of the program. @type {Promise<void>} */
  over = new Promise((resolve) => {
    this.end = resolve;
  });
  /** The token of each grant, by call and name. */
  tokens = new Map();
  controllers = [...Array.from({ length: SIGNALS }, () => new AbortController()), lasting];
  /** Of signals, by their numbers, and of cancellations. */
  reasons = [new Error('a reason'), null, 0];
  /** @type {Promise<void> | undefined} of the second opening */
  closing;

  constructor() {
    const name = `programs ${randomUUID()}`;
    this.openings = Array.from({ length: OPENINGS }, () => openBucket(name));
    this.judge = new Judge(scope, clock.now());
  }

  /** @returns the Mutex, RWLock or Semaphore of that name; each opening has its own */
  object(key, kind, name, locks) {
    const object = this.objects.get(key) ?? objectOf(library, kind, name, locks);
    this.objects.set(key, object);
    return object;
  }

  cancel({ pick, reason }) {
    const keys = [...this.objects.keys()];
    if (keys.length === 0) return false;
    const key = keys[keys.length - 1 - (pick % keys.length)];
    this.judge.cancel(key, reason);
    this.objects.get(key).cancel(this.reasons[reason]);
    return true;
  }

  async step(one) {
    // After this, no multiple of 100 ms falls between two steps.
    await this.pass({ ms: STEP_MS });
    const isBehind = one.isBehind && one.does !== 'close' && KINDS[one.kind]?.form !== 'sync';
    if (isBehind) for (const { locks } of this.openings) locks.query().catch(() => {});
    if ((await this[one.does](one)) !== false || isBehind) await this.settle();
  }

  #options({ kind, drawn, slip }) {
    const options = kind === 'once' ? { keep: 600_000 } : {};
    if (kind === 'acquireSync') options.timeout = 200;
    const isTaken = (more) => !isRefused(kind, { ...options, ...more }, scope, isTogether);
    for (const [name, value] of drawn) {
      const given = { [name]: value };
      // A limit needs the mode 'shared', and a weight needs a limit.
      const units = [
        { ...given, mode: 'shared' },
        { mode: 'shared', limit: 3, ...given },
      ];
      Object.assign(options, slip === 'any' ? given : [given, ...units].find(isTaken));
    }
    const names = Object.keys(options);
    if (typeof slip === 'number') delete options[names[slip % names.length]];
    return options;
  }

  call({ names: drawnNames, ...others }) {
    // Requesting several names together follows another rule, which the engines' tests check.
    const names = isTogether ? drawnNames.slice(0, 1) : drawnNames;
    const drawn = { ...others, names };
    const id = this.calls.length;
    const around = this.calls.filter(({ enter }) => enter);
    const parent =
      drawn.inside === null || around.length === 0
        ? undefined
        : around[around.length - 1 - (drawn.inside % around.length)];
    const options = this.#options(drawn);
    const { signal, ...rest } = options;
    const real = { ...rest };
    if (signal !== undefined) real.signal = this.controllers[signal].signal;
    // A class copies only those inherited options that differ from the defaults.
    const isInherited = drawn.isInherited && !drawn.kind.includes('.');
    const given = isInherited ? Object.create(real) : real;
    const one = new Call(this, id, { ...drawn, options: given });
    this.calls.push(one);
    const inside = parent && this.given[parent.id];
    const object = drawn.kind.includes('.')
      ? `${drawn.kind.split('.')[0]} ${names[0]} ${drawn.opening}`
      : undefined;
    this.given[id] = { ...drawn, id, options, signal, inside, object };
    one.given.object = object;
    const start = clock.now();
    const enter = parent?.enter ?? ((run) => run());
    this.judge.call(this.given[id]);
    enter(() => contexts.run(id, () => one.start()));
    if (this.judge.logs[id][0] !== 'refused')
      for (const name of Object.keys(options)) seen.add(`${drawn.kind} ${name}`);
    // The thread blocked: everything that was due meanwhile happens now.
    return clock.now() > start ? this.#elapse(0) : undefined;
  }

  /** Steals the lock of a call, maybe inside that call. */
  steal({ pick, inside }) {
    const holders = this.given.filter(({ id, names }) => this.judge.holds(id, names[0]));
    if (holders.length === 0) return false;
    const { names, opening } = holders[pick % holders.length];
    return this.call({ ...ASK, names, opening, drawn: [['steal', true]], inside });
  }

  /** When the code of a thief runs, its victims know. A call for several rejects a bit later. */
  checkVictims(thief) {
    const countOf = (log) => log.filter((it) => it.endsWith('ERR_WEB_LOCKS_STOLEN')).length;
    const isLate = ({ id, given, log }) =>
      !KINDS[given.kind].several && countOf(log) < countOf(this.judge.logs[id]);
    if (this.calls.some(isLate)) thief.note('before its victims');
  }

  release({ pick, ending }) {
    const open = this.calls.filter(({ end, handle }) => end || handle);
    if (open.length === 0) return false;
    const one = open[open.length - 1 - (pick % open.length)];
    this.judge.release(one.id, ending);
    one.release(ending);
    if (one.handle) one.handle = undefined;
    return true;
  }

  async publish({ pick, value }) {
    const all = this.calls.flatMap(({ id, locks }) =>
      [...locks.values()].map((lock) => [id, lock]),
    );
    if (all.length === 0) return false;
    const [id, lock] = all[all.length - 1 - (pick % all.length)];
    const isPublished = this.judge.publish(id, lock.name, value);
    assert.equal(await lock.publish(value), isPublished, `call ${id} publishes`);
    return true;
  }

  abort({ signal }) {
    this.judge.abort(signal);
    this.controllers[signal].abort(this.reasons[signal]);
  }

  async pass({ ms }) {
    const end = clock.now() + ms;
    while (clock.now() < end) {
      const next = Math.min(
        clock.now() + clock.rest(),
        Math.max(this.judge.next, clock.now()),
        end,
      );
      await this.#elapse(Math.max(next - clock.now(), 0));
      if (next < end) await this.settle();
    }
  }

  async #elapse(ms) {
    clock.jump(ms);
    await clock.fireDue(turn);
    this.judge.elapse(clock.now());
  }

  close() {
    if (this.closing) return false;
    this.judge.close(1);
    this.closing = this.openings[1].close();
    return true;
  }

  isAsExpected() {
    // In the host scope, a warning waits for the answer to a query.
    if (warnings.length < this.judge.warnings.length) return false;
    return this.calls.every(({ log, id }) => log.length >= this.judge.logs[id].length);
  }

  async settle() {
    await turn();
    if (!this.isAsExpected()) await this.#events();
    if (chosen !== 'process') await this.#everythingArrived();
    await turn();
    await turn();
    await this.#compare();
  }

  /**
   * A query arrives after the earlier requests of its own session only, so both sessions make one.
   * Otherwise, a query or a theft by one session could overtake a release by the other.
   */
  async #everythingArrived() {
    const [first, second] = this.openings;
    await Promise.all([first.locks.query(), this.closing ?? second.locks.query()]);
  }

  async #events() {
    let timer;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, hasFailed ? IMPATIENCE_MS : PATIENCE_MS, 'late');
    });
    while (!this.isAsExpected()) {
      const change = new Promise((resolve) => {
        this.changed = () => resolve('changed');
      });
      if ((await Promise.race([change, late])) === 'late') break;
    }
    this.changed = () => {};
    clearTimeout(timer);
  }

  async #compare() {
    const { judge } = this;
    for (const { id, log, given } of this.calls) {
      const expected = [...judge.logs[id]].sort();
      const actual = [...log].sort();
      const isEither = expected.some((it) => it.startsWith('refused or'));
      if (isEither && actual.length === 1 && expected[0].split(' or ').includes(actual[0]))
        continue;
      assert.deepEqual(actual, expected, `call ${id}: ${JSON.stringify(given)}`);
    }
    for (const { id, locks } of this.calls) {
      for (const { name, held } of locks.values())
        assert.equal(held, judge.holds(id, name), `call ${id}: held`);
    }
    this.#compareTokens();
    const { held, pending } = await this.openings[0].locks.query({ details: true });
    const entry = ({ name, mode, limit, weight, priority, label, data }) =>
      `${name} ${mode} ${weight} of ${limit}, ${priority} ` +
      `${label === 'label' ? label : ''} ${JSON.stringify(data)}`;
    const expected = judge.snapshot();
    assert.deepEqual(held.map(entry).sort(), expected.held);
    for (const name of ['a', 'b', 'c']) {
      const of = (list) => list.filter((it) => it.startsWith(`${name} `));
      assert.deepEqual(of(pending.map(entry)), of(expected.pending));
    }
    assert.deepEqual([...warnings].sort(), [...judge.warnings].sort(), 'warnings');
    // The sessions of a cluster have timers of their own.
    if (['process', 'host'].includes(chosen))
      assert.ok(clock.now() + clock.rest() >= judge.next, 'a timer is left');
  }

  /** Tokens of a name grow from grant to grant. Elections are left out: each has several. */
  #compareTokens() {
    for (const [name, asks] of this.judge.grants) {
      const calls = asks.map(({ call }) => call).filter(({ kind }) => kind !== 'elect');
      const tokens = calls.map(({ id }) => this.tokens.get(`${id} ${name}`)).filter(Boolean);
      const isWrong = (token, i) =>
        token < tokens[i - 1] || (token === tokens[i - 1] && !scope.lacks.tokenOfEach);
      assert.ok(!tokens.some(isWrong), `${name}: tokens ${tokens}`);
    }
  }

  /** Ends everything that the program left. */
  async finish() {
    for (let i = 0; i < 100; i++) {
      const before = this.calls.length;
      for (let signal = 0; signal < SIGNALS; signal++) await this.step({ does: 'abort', signal });
      while (this.calls.some(({ end, handle }) => end || handle))
        await this.step({ does: 'release', pick: 0, ending: 'Error' });
      if (this.judge.next < Number.POSITIVE_INFINITY) await this.step({ does: 'pass', ms: 1000 });
      else if (before === this.calls.length) break;
    }
    assert.deepEqual(this.judge.snapshot(), { held: [], pending: [] });
    this.#compareTold();
    this.end();
    this.#forgetCalls();
    if (ANNOUNCERS === 1) lasts.push(this.openings, this.objects);
    uncounted++;
    // In a cluster, the last request of a closed bucket, and the locks around it, are kept.
    const isCountable = !this.closing || ANNOUNCERS === 1;
    if (uncounted >= PROGRAMS_PER_COUNT && isCountable && left.length === 0)
      await this.#checkKept();
    await Promise.all(this.openings.map((bucket) => bucket.close()));
    for (const { events } of told.values()) assert.match(events.join(' '), LIFE);
    assert.equal(clock.rest(), Number.POSITIVE_INFINITY, 'a timer is left');
    assert.equal(countSites(), 0, 'a site is left');
  }

  /**
   * The messages about a request have the error with which its call ends, or its lock is lost, and
   * come on the channels of that error.
   */
  #compareTold() {
    for (const { call, events, errors } of told.values()) {
      const { form, given, log, loss, rejection, ...more } = this.calls[call] ?? {};
      const [error] = errors;
      for (const other of errors) assert.equal(other, error, 'errors of one request');
      if (!given || KINDS[given.kind].several || given.kind === 'elect') continue;
      const isNull = log.includes('null') || log.includes('called with null');
      assert.equal(events.includes('miss'), isNull, `${events} of ${log}`);
      if (errors.length === 0) continue;
      const lostBy = form === 'callback' ? undefined : loss;
      const isKnown = form === 'callback' || rejection !== undefined || !given.kind.includes('.');
      if (isKnown) assert.equal(error, rejection === undefined ? lostBy : rejection);
      const isThrown = 'thrown' in more && more.thrown === error && error !== loss;
      const channel = this.reasons.includes(error) ? 'abort' : CHANNELS[error?.errorCode];
      for (const one of isThrown ? [] : ['abort', ...Object.values(CHANNELS)])
        assert.equal(events.includes(one), one === channel, `${events} of ${error}`);
    }
  }

  /**
   * Checks that lasting buckets, objects and a lasting signal keep no request that has ended. An
   * announcer keeps its last request, so the last one here has no context.
   */
  async #checkKept() {
    uncounted = 0;
    await this.#loseUndelivered(this.openings[0].locks);
    for (const { locks } of this.openings) await locks.request('last', () => {}).catch(() => {});
    await turn();
    left = kept.moreThan(ANNOUNCERS);
  }

  /** The locks of all kinds of calls are granted and stolen in one turn, before users get them. */
  async #loseUndelivered(locks) {
    const kinds = Object.keys(KINDS).filter(
      (kind) => OPTIONS.signal.calls.includes(KINDS[kind].as) && KINDS[kind].form !== 'sync',
    );
    const held = await Promise.all(kinds.map((kind) => locks.acquire(kind)));
    const calls = kinds.map(async (kind) => {
      const more = kind === 'once' ? { keep: 600_000 } : {};
      const options = { signal: lasting.signal, warnAfter: 150, ...more };
      const object = objectOf(library, kind, kind, locks);
      const names = KINDS[kind].several ? [kind] : kind;
      const made = await make(kind, { locks, object }, names, options, () => {});
      // In a cluster, the theft may come after the handle.
      if (KINDS[kind].form === 'handle') await (made.release ?? made).call(made);
    });
    for (const lock of held) lock.release();
    calls.push(...kinds.map((kind) => locks.request(kind, { steal: true }, () => {})));
    let isOver = false;
    const over = Promise.allSettled(calls).then(() => {
      isOver = true;
    });
    // An election pauses, and then stands again.
    for (; !isOver; await turn()) clock.advance(STEP_MS);
    await over;
    told.clear();
  }

  /** Node.js keeps a leader's signal, which depends on a given one, while it has listeners. */
  #forgetCalls() {
    for (const { unwatch } of this.calls) for (const one of unwatch) one();
    this.calls = this.given = [];
    this.judge = undefined;
  }
}

/** A signal that all programs follow and that never aborts. */
const lasting = new AbortController();
const keptAfterwards = new Kept(Bucket);
/** The classes with leaked objects; buckets, objects and signals of the programs still live. */
let left = [];
/** Each opening of a cluster has an announcer; all other openings share one. */
const ANNOUNCERS = ['process', 'host'].includes(chosen) ? 1 : OPENINGS;
/** Buckets and objects that outlive their program; none in a cluster, because of announcers. */
const lasts = [];
/** The count takes up to a second, and covers earlier programs only if something of them lasts. */
const PROGRAMS_PER_COUNT = ANNOUNCERS === 1 ? 100 : 25;
const kept = ANNOUNCERS === 1 ? new Kept(LockRequest) : new Kept(LockRequest, TrackedRequest);

/** Of each request, by its id: the call, the events, and the errors of those about its end. */
let told = new Map();
/** The channels of errors that requests end with. */
const CHANNELS = {
  ERR_WEB_LOCKS_CANCELED: 'abort',
  ERR_WEB_LOCKS_STOLEN: 'steal',
  ERR_WEB_LOCKS_LOST: 'lost',
  ERR_WEB_LOCKS_TIMEOUT: 'timeout',
};
const LIFE = /^start( grant( steal| lost| timeout| abort)?| miss| abort| timeout)? end$/;
for (const event of ['start', 'grant', 'miss', 'end', 'abort', 'steal', 'lost', 'timeout']) {
  subscribe(`locks.request.${event}`, ({ id, error }) => {
    if (event === 'start') told.set(id, { call: contexts.getStore(), events: [], errors: [] });
    const { events, errors } = told.get(id) ?? {};
    events?.push(event);
    if (!['start', 'grant', 'miss'].includes(event)) errors?.push(error);
  });
}

let warnings = [];
/** Of the current program. @type {Runner} */
let runner;
let hasFailed = false;
/** The programs that ended since the last count of what is kept. */
let uncounted = 0;
/** The pairs of a kind of call and an option that were tried. */
const seen = new Set();
process.emitWarning = (message, { code } = {}) => {
  if (code !== 'WEB_LOCKS_SLOW') return;
  warnings.push(/lock "(.)/.exec(message)[1]);
  runner.changed();
};

/** The pairs that no program has drawn although the scope has the option. */
function missing() {
  const pairs = Object.entries(KINDS).flatMap(([kind, { as, form }]) =>
    Object.keys(VALUES)
      .filter((name) => OPTIONS[name].calls.includes(as) && !scope.lacks[name])
      .filter(() => form !== 'sync' || !scope.lacks.sync)
      .map((name) => `${kind} ${name}`),
  );
  return pairs.filter((pair) => !seen.has(pair)).join() || 'none';
}

/** Counts the open descriptors, which only buckets of the host scope change for good. */
const countDescriptors = () =>
  chosen === 'host' && !lacksProc ? readdirSync('/proc/self/fd').length : 0;

/**
 * In a cluster, callbacks block the thread for longer than a lease, so that only the release of
 * their lock can find the loss.
 */
async function loseUnnoticed() {
  for (const kind of Object.keys(KINDS).filter((one) => KINDS[one].form === 'callback')) {
    if (kind === 'elect') continue;
    const { locks } = openBucket(`unnoticed ${randomUUID()}`);
    const object = objectOf(library, kind, 'a', locks);
    const block = () => clock.jump(2 * TTL);
    const options = kind === 'once' ? { keep: 600_000 } : {};
    const made = make(kind, { locks, object }, KINDS[kind].several ? ['a'] : 'a', options, block);
    await assert.rejects(made, { name: 'AbortError', reason: 'expired' }, kind);
  }
}

async function main() {
  const descriptors = countDescriptors();
  let deadlocks = 0;
  // Neither a held lock nor a timer of the test's clock keeps the event loop alive.
  const alive = setInterval(() => {}, 1e6);
  await fc.assert(
    fc.asyncProperty(program, fc.boolean(), async (steps, isOpen) => {
      runner = new Runner();
      const { judge } = runner;
      warnings = [];
      told = new Map();
      try {
        // Otherwise the first step meets the opening, during which a thread that blocks loses time.
        const isAwaited = isOpen || steps.some(({ kind }) => KINDS[kind]?.form === 'sync');
        for (const bucket of runner.openings) if (isAwaited) await bucket.ready;
        for (const one of steps) await runner.step(one);
        await runner.finish();
      } catch (error) {
        hasFailed = true;
        throw error;
      } finally {
        deadlocks += judge.deadlocks;
        for (const bucket of runner.openings) bucket.close();
      }
    }),
    {
      numRuns: Number(PROGRAMS_RUNS),
      seed: Number(PROGRAMS_SEED),
      path: PROGRAMS_PATH,
      endOnFailure: PROGRAMS_PATH !== undefined,
      interruptAfterTimeLimit: 300_000,
      includeErrorInReport: true,
    },
  );
  if (chosen === 'memory') await loseUnnoticed();
  clearInterval(alive);
  await turn();
  assert.deepEqual(left, [], 'requests are kept');
  lasts.length = 0;
  assert.deepEqual(keptAfterwards.moreThan(OPENINGS), [], 'buckets are kept');
  // The helper of a bucket closes one of them when the bucket is closed already.
  assert.ok(countDescriptors() <= descriptors + OPENINGS, 'descriptors are kept');
  console.log(
    `${deadlocks} deadlocks, ${seen.size} pairs of calls and options, missing: ${missing()}`,
  );
}

main().then(
  () => process.exit(0),
  (error) => {
    console.log(error.message, error.cause?.stack ?? '');
    process.exit(1);
  },
);
