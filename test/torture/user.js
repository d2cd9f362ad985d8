'use strict';

/**
 * A user of locks: a seed chooses what it requests; it uses what it gets, and records everything in
 * the history. It is the same in a thread, in a process and in simulated time: its `stage`
 * (actor.js, world.js) has what differs.
 *
 * No two users wait for each other in a cycle. While a user holds a lock, it waits without a limit
 * only for names that come later in the order of all names; and for none where the locks of several
 * names are requested in one step.
 */

const { AsyncLocalStorage } = require('node:async_hooks');
const { Hostile } = require('./hostile.js');
const { Random } = require('./random.js');
const {
  LIMIT,
  away,
  calls,
  deeds,
  holds,
  isFor,
  kinds,
  options,
  queries,
  refusals,
  releases,
} = require('./table.js');

/** What callbacks throw, and the reason of aborts. */
const THROWN = new Error('thrown by a callback of the torture');
const ABORTED = new Error('aborted by the torture');

/** The request whose callback runs. @type {AsyncLocalStorage<any>} */
const inside = new AsyncLocalStorage();

/** How deeply requests are nested in callbacks. */
const DEEPEST = 3;
/** How long a thread blocks for a lock at most. */
const LONGEST_BLOCK_MS = 40;
/** The probability that a holder publishes when it looks at its lock. */
const PUBLISHES = 0.1;

/** @returns {{ kind: string, name: string }[]} the names of a bucket, in the order of all names */
function namesOf(count) {
  const total = Object.values(kinds).reduce((sum, { share }) => sum + share, 0);
  const all = Object.entries(kinds).flatMap(([kind, { share }]) => {
    const some = Math.max(1, Math.round((count * share) / total));
    return Array.from({ length: some }, (_, i) => {
      return { kind, name: `${kind} ${String(i).padStart(3, '0')}` };
    });
  });
  return all.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** Describes an error for the history. */
function describeError(error) {
  if (error === THROWN) return { error: 'thrown' };
  if (error === ABORTED) return { error: 'aborted' };
  const { name, code, grantsIn, holders, reason, message, stack } = error ?? {};
  const described = { error: name ?? String(error), message };
  if (typeof code === 'string') described.code = code;
  if (grantsIn !== undefined) described.grantsIn = grantsIn;
  if (holders) described.holders = [holders.length, error.holderCount, Object.isFrozen(holders)];
  if (typeof reason === 'string') described.reason = reason;
  if (error?.constructor?.name !== name) described.class = error?.constructor?.name;
  if (!(described.class ?? '').startsWith('Lock')) described.stack = stack;
  return described;
}

/** A lock that users' code has. */
class Hold {
  /** When `held` was last true. */
  last;
  #publications = 0;
  #leave;
  #place;
  /** Whether the lock excludes all other users from what it protects. */
  isAlone;
  /** Writes the set that was read, with one more element. */
  #write;

  /** @param {boolean} listens whether it may follow the signal, which keeps a handle alive */
  constructor(user, request, lock, k, listens) {
    this.user = user;
    this.request = request;
    this.k = k;
    this.lock = lock;
    const { given, id, inner, target } = request;
    const { bucket } = target;
    const name = target.isPrivate ? target.names[0] : (lock.name ?? target.names[0]);
    const { mode = request.mode } = lock;
    this.#place = `${bucket} / ${name}`;
    const isNamed = lock.token !== undefined && !target.isPrivate;
    this.isAlone = mode === 'exclusive' && isNamed && !inner && !user.hostile;
    // A function that releases has no `held`, so it is only sure if its lock cannot be lost.
    this.isSure = target.isSafe && !user.stage.canBeAway;
    const held = lock.held ?? this.isSure;
    const token = lock.token === undefined ? undefined : String(lock.token);
    const at = user.record('granted', { id, k, bucket, name, mode, token, held, inner });
    if (held) this.last = at;
    // Where no lease ends, losses are less likely, and the time is better used for more requests.
    if (this.isAlone && user.chance(user.stage.canBeAway ? 1 : 0.3))
      this.#write = user.stage.set?.read(this.#place, token);
    if (listens && lock.signal && user.chance(0.6)) this.#listen(lock.signal);
    if (!held || !target.isSafe || target.isPrivate || inner || !user.stage.gate) return;
    const limit = request.method.on === 'Semaphore' ? LIMIT : given.limit;
    this.#enter({ what: `${bucket}~${name}`, mode, limit, weight: given.weight });
  }

  #enter(lock) {
    const { wrong, leave } = this.user.stage.gate.enter(lock);
    this.#leave = leave;
    if (wrong) this.user.fault('gate', `${this.request.id} has ${lock.what}: ${wrong}`);
  }

  #listen(signal) {
    const tell = () => {
      this.user.hostile?.enter();
      const { reason } = signal;
      const { id } = this.request;
      this.user.record('notified', { id, k: this.k, ...describeError(reason), message: undefined });
      // The signal of a leader also follows that of its election.
      if (this.lock.held && reason !== ABORTED)
        this.user.fault('notified', `${id} has lost its lock, and still holds it`);
    };
    if (signal.aborted) tell();
    else signal.addEventListener('abort', tell, { once: true });
  }

  /** Looks at the lock like a user who is about to use it. */
  look() {
    const at = this.user.stage.now();
    const { held, remaining } = this.lock;
    if (held ?? this.isSure) this.last = at;
    else if (remaining > 0)
      this.user.fault('notified', `${this.request.id} remains, but is not held`);
    if (held !== undefined && this.user.chance(0.05)) this.#print();
    if (this.lock.publish && this.user.chance(PUBLISHES)) this.#publish();
  }

  /** Adds an element to a set in the database, in a transaction that guards the lock. */
  async guard(guarded, pause) {
    if (!this.isAlone || !this.lock.guard) return;
    const { id } = this.request;
    const element = `${id} ${this.k} guarded`;
    try {
      await guarded.add(this.#place, element, this.lock, pause);
      this.user.record('updated', { id, element, held: this.lock.held });
    } catch (error) {
      // The lock, or the connection to the database, is lost.
      this.user.record('failed', { id, what: 'guard', ...describeError(error) });
    }
  }

  /** Publishes the id of its request, or clears that. The lock may be lost meanwhile. */
  #publish() {
    const { k, lock, request, user } = this;
    const { id, target } = request;
    const { name } = lock;
    const n = ++this.#publications;
    const token = String(lock.token);
    const data = user.chance(0.15) ? undefined : `${id} ${k} ${n} ${'x'.repeat(user.below(200))}`;
    user.record('publishes', { id, k, n, bucket: target.bucket, name, token, data });
    lock.publish(data).then(
      (done) => {
        user.record('published', { id, k, n, done });
        // Without this query, few snapshots would show the data. Its failure does not matter here.
        if (!done || !target.place || user.chance(0.5)) return;
        user.query({ place: target.place, name }, { details: true, name }).catch(() => {});
      },
      ({ name: error, message }) => {
        if (error === 'NotSupportedError' && user.stage.lacks.publish) return;
        // Hostile users leave no stack, and harmed files have no room.
        if (user.hostile || user.plan.isHarmed) return;
        user.fault('errors', `${id} cannot publish: ${error}: ${message}`);
      },
    );
  }

  /** Prints a lock, and checks that it refuses to guard where the scope has no database. */
  #print() {
    const { lock, request, user } = this;
    const { token } = JSON.parse(JSON.stringify(lock));
    if (token !== String(lock.token))
      user.fault('printable', `${request.id} is printed as ${token}`);
    if (!lock.guard || user.stage.lacks.guard !== true) return;
    lock.guard({}).then(
      () => user.fault('errors', `${request.id} guards nothing, and says nothing`),
      ({ name }) => {
        if (name !== 'NotSupportedError') user.fault('errors', `${request.id} guards with ${name}`);
      },
    );
  }

  end(threw = false) {
    const { id } = this.request;
    const element = `${id} ${this.k}`;
    this.#write?.(element);
    this.look();
    if (this.#write) this.user.record('updated', { id, element, held: this.lock.held });
    this.#leave?.();
    this.user.record('ended', { id, k: this.k, last: this.last, threw: threw || undefined });
  }
}

/** A user is a source of random numbers itself. */
class User extends Random {
  #numbers = 0;
  /** The controllers that can abort requests; `atTheEnd`: only when the user stops. */
  #controllers = [];
  #end;
  #over = new Promise((resolve) => {
    this.#end = resolve;
  });
  #calls;
  #all;
  #mutexes = new Map();
  /** How many forgotten handles have not been collected yet. */
  #leaked = 0;
  /** The unsettled calls, by id. */
  open = new Map();
  stopped = false;
  /** How it ends its thread, as soon as it can. @type {string | undefined} */
  ending;
  /** Called once, when it has a lock. @type {(() => void) | undefined} */
  onHold;

  /**
   * @param {any} stage where it acts
   * @param {{ id: string, seed: string, names: number, loops: number, only?: string[],
   *   pace: number }} plan `only`: the drawn options; `pace`: milliseconds between requests
   */
  constructor(stage, plan) {
    super(plan.seed, plan.id);
    this.stage = stage;
    this.id = plan.id;
    this.plan = plan;
    const names = namesOf(plan.names);
    // All names in their order: their indexes are compared.
    this.names = stage.places.flatMap((place) => names.map((one) => ({ place, ...one })));
    if (plan.isHostile) this.hostile = new Hostile(this);
    this.#calls = this.#weigh(Object.entries(calls));
    this.#all = [...this.#calls, ...this.#weigh(Object.entries(deeds))];
  }

  /** @returns {[string, number][]} rows of the table, with their frequency in this round */
  #weigh(rows) {
    const { slowness = 1 } = this.plan;
    return rows.map(([name, { isSlow, weight }]) => [name, isSlow ? weight * slowness : weight]);
  }

  /** Makes a request from any place where the library runs users' code. */
  askAnywhere(call) {
    this.ask(call, { outer: inside.getStore() });
  }

  record(type, more) {
    return this.stage.recorder.record(type, more);
  }

  fault(judge, what) {
    this.record('fault', { judge, what });
  }

  #nextId() {
    return `${this.id}:${++this.#numbers}`;
  }

  stop() {
    this.stopped = true;
    this.#end();
    for (const controller of this.#controllers) if (controller.atTheEnd) controller.abort();
    // Others wait for locks whose handles are forgotten.
    this.#collectAll();
  }

  async run() {
    await Promise.all(Array.from({ length: this.plan.loops }, () => this.#loop()));
  }

  async #loop() {
    while (!this.stopped) {
      const what = this.weighted(this.#all);
      if (deeds[what]) await this.#do(what);
      else await this.ask(what, {});
      if (this.plan.pace > 0) await this.stage.sleep(this.number() * 2 * this.plan.pace);
      else if (this.chance(0.15)) await this.stage.turn();
    }
  }

  // Requests

  /**
   * @param {string} call
   * @param {{ above?: number, depth?: number, outer?: any }} inside `above`: the last name that is
   * held; `outer`: the request whose callback runs
   */
  async ask(call, { above = -1, depth = 0, outer }) {
    const method = calls[call];
    const target = this.#targetOf(method, above, outer);
    if (!target) return;
    const { isMain, lacks } = this.stage;
    const { isPrivate, kind } = target;
    const request = { id: this.#nextId(), call, method, target, kind, depth, facts: {}, given: {} };
    request.where = { call, lacks, isMain, isPrivate };
    this.#draw(request);
    if (method.isNamed && target.place?.asBucket && this.chance(0.5)) {
      request.isByBucket = true;
      // Nested requests use the same manager, because another bucket object may be closed by then.
      target.locks = target.place.locks;
      target.isClosing = false;
    }
    // In a cluster each bucket object is a session of its own.
    if (target.isClosing) request.facts.isClosing = target.isClosing;
    if (this.hostile) request.facts.isHostile = true;
    request.mode = method.mode ?? request.given.mode ?? 'exclusive';
    if (isPrivate) request.facts.isPrivate = true;
    request.expected = [...refusals(request.given, request.where)];
    request.outer = outer;
    request.above = above;
    request.inner = this.#reentrantParentOf(request);
    await this.#carryOut(request);
  }

  /** Makes a request, and records it and its outcome. */
  async #carryOut(request) {
    const { id, call, facts, inner, target, given } = request;
    this.open.set(id, call);
    const { bucket, kind, names } = target;
    const { signal, ...options } = given;
    const expected = request.expected.length > 0 ? request.expected : undefined;
    this.record('asked', { id, call, bucket, kind, names, options, facts, inner, expected });
    try {
      await this.#make(request);
      this.record('settled', { id, ran: request.ran });
    } catch (error) {
      this.record('settled', { id, ...describeError(error) });
    }
    this.open.delete(id);
  }

  /** @returns the id of the request whose lock serves this reentrant one */
  #reentrantParentOf({ given, outer, target: { bucket, names } }) {
    for (let one = given.reentrant && outer; one; one = one.outer) {
      if (!one.given.reentrant || one.method.ends !== 'callback') continue;
      const { target } = one;
      if (target.bucket === bucket && target.names.some((name) => names.includes(name)))
        return one.id;
    }
    return undefined;
  }

  /** @returns the name or names of a request, and their bucket */
  #targetOf(method, above, outer) {
    if (method.isNamed && this.chance(0.15)) return this.#privateTarget(method, above);
    const canServe = outer?.given.reentrant && outer.method.ends === 'callback';
    const isAgain = canServe && this.chance(0.6);
    const isSameObject = !outer?.target.isPrivate || method.on === outer.method.on;
    const canBeServed = !method.isSeveral && method.ends !== 'nothing';
    const isFit = method.kinds.includes(outer?.target.kind) && canBeServed && isSameObject;
    if (isAgain && isFit) return { ...outer.target, names: [outer.lastName], isInner: true };
    // A request with a short time limit may have any name.
    const isAnywhere = above >= 0 && this.chance(0.2);
    const isBounded = isAnywhere || (above >= 0 && this.stage.lacks.oneByOne === true);
    const from = isAnywhere ? 0 : above + 1;
    const usable = this.names.slice(from).filter(({ kind }) => method.kinds.includes(kind));
    if (usable.length === 0) return undefined;
    // The first names come more often, so that there is contention.
    const first = usable[Math.floor(this.number() ** 2 * usable.length)];
    const { place, kind, name } = first;
    const target = { place, bucket: place.bucket, kind, isSafe: kinds[kind].isSafe, names: [name] };
    target.locks = this.#managerOf(place, kind, target);
    target.last = this.names.indexOf(first);
    target.isBounded = isBounded;
    if (method.isSeveral) this.#addNames(target, usable);
    return target;
  }

  #addNames(target, usable) {
    const others = usable.filter((one) => one.place === target.place && one.kind === target.kind);
    const count = 1 + this.below(4);
    while (target.names.length < count) {
      const one = this.pick(others);
      target.names.push(one.name);
      target.last = Math.max(target.last, this.names.indexOf(one));
    }
  }

  /** For a rough name, this is sometimes another bucket object's manager, which is closed later. */
  #managerOf(place, kind, target) {
    if (kind !== 'rough' || !place.another || !this.chance(0.3)) return place.locks;
    target.isClosing = place.count;
    return place.another.locks;
  }

  /** @returns a name that only this user has */
  #privateTarget({ on }, above) {
    // It is not requested within another lock, whose holder might wait for it.
    if (above >= 0) return undefined;
    const kind = on === 'Semaphore' ? 'units' : 'plain';
    const names = [`${on} of ${this.id}`];
    return {
      bucket: 'private',
      kind,
      isSafe: true,
      isPrivate: true,
      names,
      last: this.names.length,
    };
  }

  /** Draws options that are compatible; sometimes any options, which the library must refuse. */
  #draw(request) {
    const { call, given, target, where } = request;
    const { only } = this.plan;
    const isWild = !only && !target.isInner && this.chance(0.03);
    const allowed = where.isMain && call === 'acquireSync' ? 1 : 0;
    const [first, rest] = [['mode', 'limit', 'weight'], Object.keys(options).slice(3)];
    for (const name of [...first, ...this.shuffled(rest)]) {
      const row = options[name];
      if (only && !only.includes(name) && !row.isRequired) continue;
      const isTaken = row.takes.includes(call);
      if (!isWild && !(isTaken && isFor(name, target.kind))) continue;
      if (!row.isRequired && !this.chance(isTaken ? row.often : row.often / 3)) continue;
      if (target.isInner && name === 'steal') continue;
      const value = row.draw(this, request);
      if (value === undefined) continue;
      given[name] = value;
      if (name === 'limit') given.mode = 'shared';
      if (!isWild && refusals(given, where).size > allowed) delete given[name];
    }
    const isMade = refusals(given, where).size === 0;
    for (const name of isMade ? Object.keys(given) : []) {
      if (!isFor(name, target.kind)) delete given[name];
    }
    if (!isWild || isMade) this.#require(request);
  }

  /** Adds the options without which a request could wait forever. */
  #require(request) {
    const { call, given, target } = request;
    if (target.kind === 'units' && given.mode === 'shared') {
      given.limit = LIMIT;
      if (given.weight > LIMIT) delete given.weight;
    }
    if (target.isInner) given.reentrant = true;
    // A thread that blocks releases none of the locks of its other requests.
    if (call === 'acquireSync' && !(given.timeout < LONGEST_BLOCK_MS)) {
      given.timeout = this.pick([0, 1, this.below(LONGEST_BLOCK_MS)]);
    }
    if (call === 'elect' && !given.signal) given.signal = this.signal(request);
    const { blocking, ifAvailable, steal, timeout } = given;
    const isShort = ifAvailable || blocking === false || steal || timeout < 100;
    if (!(target.isInner || target.isBounded) || isShort || call === 'tryAcquireSync') return;
    if (options.timeout.takes.includes(call)) given.timeout = this.below(20);
  }

  /** @returns a signal that aborts before the request, while it waits, after the grant, or never */
  signal({ call, facts, id }) {
    const atTheEnd = call === 'elect';
    const controller = new AbortController();
    const abort = () => {
      this.record('aborted', { id });
      controller.abort(ABORTED);
    };
    if (this.hostile) controller.signal.addEventListener('abort', () => this.hostile.enter());
    this.#controllers.push({ atTheEnd, abort });
    if (this.#controllers.length > 64) {
      const some = this.#controllers.findIndex((one) => !one.atTheEnd);
      if (some >= 0) this.#controllers.splice(some, 1);
    }
    facts.signal = this.pick(['before', 'microtask', 'turn', 'soon', 'soon', 'later', 'never']);
    if (atTheEnd) facts.signal = this.stopped ? 'before' : 'later';
    if (facts.signal === 'before') abort();
    else if (facts.signal === 'microtask') queueMicrotask(abort);
    else if (facts.signal === 'turn') this.stage.turn().then(abort);
    else if (facts.signal === 'soon') this.stage.later(this.below(4), abort);
    else if (facts.signal === 'later') this.stage.later(10 + this.below(200), abort);
    return controller.signal;
  }

  // How each call is made

  async #make(request) {
    const { call, given, method, target } = request;
    const shown = this.hostile?.disguise(given) ?? given;
    const optionsOf = Object.keys(given).length === 0 && this.chance(0.5) ? [] : [shown];
    const callback = (got) => this.#callback(request, method.isSeveral ? got : got && [got]);
    const made = (result) => {
      this.record('made', { id: request.id });
      return result;
    };
    if (method.isNamed) {
      await this.#makeNamed(request, shown, callback, made);
      return;
    }
    const plain = method.isSeveral ? this.#withModes(request) : target.names[0];
    const what = this.hostile?.rename(plain) ?? plain;
    if (method.ends === 'callback') {
      const result = await made(target.locks[call](what, ...optionsOf, callback));
      if (call === 'once') request.ran = result.ran;
      return;
    }
    const got = made(target.locks[call](what, ...optionsOf));
    const handle = method.isSync ? got : await got;
    await this.#useHandle(request, handle, method.ends === 'handles' ? handle?.locks : [handle]);
  }

  /** @returns the names of a request for several, some with a mode of their own */
  #withModes({ given, target }) {
    if (given.limit !== undefined || target.kind === 'units') return target.names;
    return target.names.map((name) =>
      this.chance(0.3) ? { name, mode: this.pick(['exclusive', 'shared', undefined]) } : name,
    );
  }

  async #makeNamed(request, shown, callback, made) {
    const { call, method } = request;
    const [, action] = call.split('.');
    const object = this.#objectOf(request);
    if (method.ends === 'callback') {
      await made(object[action](callback, shown));
      return;
    }
    const release = await made(object[action](shown));
    if (method.ends === 'nothing') return;
    await this.#useHandle(request, release && { release, isFunction: true }, [{}]);
  }

  #objectOf({ isByBucket, method: { on }, target }) {
    const { library } = this.stage;
    if (target.isPrivate) {
      if (!this.#mutexes.has(on)) {
        this.#mutexes.set(
          on,
          on === 'Semaphore' ? new library.Semaphore(LIMIT) : new library[on](),
        );
      }
      return this.#mutexes.get(on);
    }
    const where = isByBucket ? { bucket: target.place.asBucket } : { locks: target.locks };
    const label = this.chance(0.3) ? { label: on } : {};
    const permits = on === 'Semaphore' ? { permits: LIMIT } : {};
    return new library[on](target.names[0], { ...where, ...label, ...permits });
  }

  // Users' code with locks

  #callback(request, locks) {
    request.calls = (request.calls ?? 0) + 1;
    if (!locks) {
      this.record('missed', { id: request.id });
      return undefined;
    }
    const how = this.#howToHold(request);
    return inside.run(request, () => this.#useIn(request, this.#holdsOf(request, locks), how));
  }

  #useIn(request, held, how) {
    if (holds[how].isSync) return this.#sync(held, how);
    if (how !== 'thenable') return this.#async(request, held, how);
    return { then: (resolve, reject) => this.#async(request, held, how).then(resolve, reject) };
  }

  #holdsOf(request, locks, listens = true) {
    const distinct = [...new Set(locks)];
    const [own] = request.target.names;
    request.lastName = request.target.isPrivate ? own : (distinct.at(-1).name ?? own);
    // A candidate is called back each time it is elected.
    const first = 100 * ((request.calls ?? 1) - 1);
    return distinct.map((lock, k) => new Hold(this, request, lock, first + k, listens));
  }

  #howToHold({ target, depth, method: { ends } }) {
    const isHandle = ends.startsWith('handle') && !this.stage.lacks.collect;
    const usable = Object.entries(holds).filter(
      ([, { isRough, ofCallbacks, ofHandles }]) =>
        !(isRough && target.kind !== 'rough') &&
        !(ofCallbacks && ends !== 'callback') &&
        !(ofHandles && !isHandle),
    );
    // The lock that serves it can be lost meanwhile, which it must notice.
    if (target.isInner && ends === 'callback' && this.chance(0.2)) return 'lingers';
    const how = this.weighted(this.#weigh(usable));
    if (how === 'asks' && (depth >= DEEPEST || this.stopped)) return 'microtask';
    if (how === 'never' && this.stopped) return 'returns';
    if (how === 'robsItself' && target.isPrivate) return 'returns';
    return how;
  }

  #sync(held, how) {
    this.#mayEnd();
    if (how === 'blocks') this.stage.block(1 + this.below(12));
    for (const hold of held) hold.end(how === 'throws');
    if (how === 'throws') throw THROWN;
    return how;
  }

  async #async(request, held, how) {
    const throws = how === 'rejects';
    try {
      await this.#while(request, held, how);
    } finally {
      for (const hold of held) hold.end(throws);
    }
    if (throws) throw THROWN;
    return how;
  }

  async #while(request, held, how) {
    const look = () => {
      for (const hold of held) hold.look();
    };
    this.#mayEnd();
    const mayBlock = () => {
      if (!this.onHold || !held.some(({ isAlone }) => isAlone)) return;
      this.onHold();
      this.onHold = undefined;
      look();
    };
    const { guarded } = this.stage;
    if (guarded && this.chance(0.5)) {
      for (const hold of held) await hold.guard(guarded, mayBlock);
    }
    mayBlock();
    if (how === 'immediate') await this.stage.turn();
    else if (how === 'sleeps') await this.stage.sleep(this.below(3));
    else if (how === 'lingers') await this.#linger(look);
    else if (how === 'never') await this.#never(held, look);
    else if (how === 'asks') await this.#askInside(request);
    else if (how === 'robsItself') await this.#robItself(request);
    else if (how === 'aborts') this.abortSome();
    else await undefined;
    this.#mayEnd();
  }

  /** Looks often, and sometimes blocks. */
  async #linger(look) {
    const end = this.stage.now() + this.below(30);
    while (this.stage.now() < end && !this.stopped) {
      await this.stage.turn();
      if (this.chance(0.02)) this.stage.block(this.below(5));
      look();
    }
  }

  /** Holds the lock until it is lost or the user stops. */
  async #never(held, look) {
    const aborted = (signal) =>
      new Promise((resolve) => {
        if (signal.aborted) resolve();
        else signal.addEventListener('abort', resolve, { once: true });
      });
    const lost = held.filter(({ lock }) => lock.signal).map(({ lock }) => aborted(lock.signal));
    let isOver = false;
    const over = Promise.race([this.#over, ...lost]).then(() => {
      isOver = true;
    });
    while (!isOver) {
      look();
      await Promise.race([over, this.stage.sleep(5)]);
    }
  }

  async #askInside(request) {
    const above = Math.max(request.above ?? -1, request.target.last);
    const asked = Array.from({ length: 1 + this.below(2) }, () =>
      this.ask(this.weighted(this.#calls), { above, depth: request.depth + 1, outer: request }),
    );
    // A reentrant request that is not awaited outlives its parent, and keeps the lock.
    const isAwaited = !request.given.reentrant || this.chance(0.7);
    if (isAwaited) await Promise.all(asked);
  }

  async #robItself(request) {
    const { isClosing, isHostile } = request.facts;
    await this.#carryOut({
      ...request,
      id: this.#nextId(),
      depth: DEEPEST,
      facts: { isNested: true, isClosing, isHostile },
      given: { steal: true },
      call: 'request',
      method: calls.request,
      mode: 'exclusive',
      inner: undefined,
      calls: 0,
      expected: [],
      target: { ...request.target, names: [request.lastName], isInner: false },
    });
  }

  abortSome() {
    const some = this.#controllers.filter(({ atTheEnd }) => !atTheEnd);
    if (some.length > 0) this.pick(some).abort();
  }

  /** Ends its thread while it holds a lock, if the round asked for that. */
  #mayEnd() {
    if (this.ending) this.stage.end(this.ending);
  }

  // Handles

  async #useHandle(request, handle, locks) {
    const { id } = request;
    if (!handle) {
      this.record('missed', { id });
      return;
    }
    const how = this.#howToHold(request);
    const held = this.#holdsOf(request, locks, how !== 'leaks');
    if (how === 'blocks') this.stage.block(1 + this.below(8));
    else if (how !== 'leaks' && !holds[how].isSync) await this.#while(request, held, how);
    for (const hold of held) hold.end();
    if (how === 'leaks') {
      this.#leak(request, handle);
      return;
    }
    const released = this.#release(handle);
    this.open.set(id, `release of ${request.call}`);
    if (released) await released;
    this.record('released', { id });
    for (const hold of held) {
      if (hold.lock.held) this.fault('notified', `${id} is released, and still holds`);
      if (hold.lock.released === false) this.fault('notified', `${id} is not released`);
    }
  }

  #release(handle) {
    if (handle.isFunction) {
      if (this.chance(0.3)) handle.release();
      return handle.release();
    }
    const how = this.pick(releases);
    if (how === 'asyncDispose') return handle[Symbol.asyncDispose]();
    if (how === 'dispose') handle[Symbol.dispose]();
    if (how === 'twice') handle.release();
    return handle.release();
  }

  #leaks = new FinalizationRegistry((id) => {
    this.#leaked--;
    this.record('released', { id });
    this.open.delete(`${id} leaked`);
  });

  /** Forgets a handle; its lock is released when the handle is collected. */
  #leak({ call, id }, handle) {
    this.#leaked++;
    this.#leaks.register(handle, id);
    if (this.chance(0.5)) this.stage.later(this.below(20), () => this.stage.collect());
    if (this.stopped) this.#collectAll();
    this.open.set(`${id} leaked`, call);
    this.record('leaked', { id });
  }

  async #collectAll() {
    while (this.#leaked > 0) {
      this.stage.collect();
      await this.stage.sleep(1);
    }
  }

  // Calls that are no requests

  async #do(what) {
    const id = this.#nextId();
    this.open.set(id, what);
    try {
      await this.#deeds[what]();
    } catch (error) {
      const { code, error: name, message, stack } = describeError(error);
      this.record('failed', { id, what, code });
      if (away.includes(code) && this.stage.canBeAway) return;
      if (code?.startsWith('ERR_WEB_LOCKS_SCOPE') && this.plan.isHarmed) return;
      this.fault('errors', `${what} fails: ${name}: ${message} ${stack}`);
    } finally {
      this.open.delete(id);
    }
  }

  #deeds = {
    query: () => this.query(this.pick(this.names)),
    leader: async () => {
      const { name, place } = this.#nameOf('office');
      const leader = await place.locks.leader(name);
      if (leader && leader.mode !== 'exclusive') this.fault('snapshots', 'a leader is not alone');
    },
    locked: () => this.#lookAt('Mutex', 'plain', 'locked'),
    available: () => this.#lookAt('Semaphore', 'units', 'available'),
    pending: () => this.#lookAt('Semaphore', 'units', 'pending'),
    isBusy: async () => {
      const { name, place } = this.pick(this.names);
      await place.locks.isBusy(name);
    },
    openAndClose: () => this.#openAndClose(),
    collect: async () => this.stage.collect(),
  };

  #nameOf(kind) {
    return this.pick(this.names.filter((one) => one.kind === kind));
  }

  #lookAt(on, kind, property) {
    const { name, place } = this.#nameOf(kind);
    const permits = on === 'Semaphore' ? { permits: LIMIT } : {};
    const object = new this.stage.library[on](name, { locks: place.locks, ...permits });
    try {
      const value = object[property];
      if (this.stage.lacks.state) this.fault('errors', `${property} is known at once: ${value}`);
    } catch (error) {
      if (!this.stage.lacks.state || error.name !== 'NotSupportedError') throw error;
    }
  }

  /** Queries in any form; a snapshot with details is recorded. */
  async query({ place, name }, form = this.pick(queries)(name)) {
    const began = this.stage.now();
    const found = await place.locks.query(...(form === undefined ? [] : [form]));
    if (!form?.details) return;
    try {
      JSON.stringify(found);
    } catch (error) {
      this.fault('printable', `a snapshot is not printable: ${error.message}`);
    }
    const infoOf = ({ name: of, mode, token, label, ahead, ...more }) => {
      const { clientId, data, limit, priority, weight } = more;
      const own = { name: of, mode, token: String(token), label, ahead, data };
      return { ...own, limit, weight, priority, clientId };
    };
    const [held, pending] = [found.held, found.pending].map((infos) => infos.map(infoOf));
    const { grantsIn } = found;
    this.record('snapshot', {
      began,
      bucket: place.bucket,
      name: form.name,
      held,
      pending,
      grantsIn,
    });
  }

  /** Opens one more object of a bucket and closes the previous one, which loses its requests. */
  async #openAndClose() {
    const place = this.pick(this.stage.places.filter((one) => one.open));
    if (!place) return;
    const before = place.another;
    const opened = place.open();
    place.another = opened;
    place.count = (place.count ?? 0) + 1;
    try {
      if (this.chance(0.3)) await this.#isReady(opened);
    } finally {
      // This must happen even if the server is away: nothing else knows the previous object.
      await this.#closeAnother(place, before);
    }
  }

  async #closeAnother(place, bucket) {
    if (!bucket) return;
    this.record('gone', { bucket: place.bucket });
    if (this.chance(0.5)) await bucket.close();
    else await bucket[Symbol.asyncDispose]();
  }

  /** Waits until the bucket is ready or another loop closes it. */
  async #isReady(bucket) {
    try {
      await bucket.ready;
    } catch (error) {
      if (error.name !== 'InvalidStateError') throw error;
    }
  }

  async close() {
    for (const place of this.stage.places) {
      const { another } = place;
      place.another = undefined;
      await another?.close();
    }
  }
}

module.exports = { User, namesOf };
