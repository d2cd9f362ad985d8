'use strict';

/**
 * A user of locks: draws what it asks for from a seed, asks, uses what it gets, and tells all of it
 * to the history. The same in a thread, in a process and in a world with a time of its own: what
 * differs is in its `stage` (actor.js, memory.js).
 *
 * No two users wait for each other in a circle: who has a lock waits without a limit only for names
 * that come later in the order of all names; and for none where several names are asked for in all
 * queues at once.
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
  kinds,
  options,
  queries,
  refusals,
  releases,
} = require('./table.js');

/** What callbacks throw, and why requests are aborted. */
const THROWN = new Error('thrown by a callback of the torture');
const ABORTED = new Error('aborted by the torture');

/** The request whose callback the code runs inside of. @type {AsyncLocalStorage<any>} */
const inside = new AsyncLocalStorage();

/** How deep requests are made inside of callbacks. */
const DEEPEST = 3;

/** How long at most a thread blocks until it has a lock. */
const LONGEST_BLOCK_MS = 40;

/** @returns {{ kind: string, name: string }[]} the names of a bucket, in the order of all names */
function namesOf(count) {
  const all = [];
  for (const [kind, { share }] of Object.entries(kinds)) {
    const total = Object.values(kinds).reduce((sum, one) => sum + one.share, 0);
    const some = Math.max(1, Math.round((count * share) / total));
    for (let i = 0; i < some; i++)
      all.push({ kind, name: `${kind} ${String(i).padStart(3, '0')}` });
  }
  return all.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** What an error is called in the history. */
function describeError(error) {
  if (error === THROWN) return { error: 'thrown' };
  if (error === ABORTED) return { error: 'aborted' };
  const { name, code, grantsIn, holders, reason, message, stack } = error ?? {};
  const told = { error: name ?? String(error), message };
  if (typeof code === 'string') told.code = code;
  if (grantsIn !== undefined) told.grantsIn = grantsIn;
  if (holders) told.holders = [holders.length, error.holderCount, Object.isFrozen(holders)];
  if (typeof reason === 'string') told.reason = reason;
  if (error?.constructor?.name !== name) told.class = error?.constructor?.name;
  if (!(told.class ?? '').startsWith('Lock')) told.stack = stack;
  return told;
}

/** How often a lock publishes when its user looks at it. */
const PUBLISHES = 0.1;

/** A lock that users' code has. */
class Hold {
  last;
  #publications = 0;
  #leave;

  /** @param {boolean} listens whether it may follow the signal, which keeps a handle alive */
  constructor(user, request, lock, k, listens) {
    this.user = user;
    this.request = request;
    this.k = k;
    this.lock = lock;
    const { id, target, given } = request;
    const name = target.isPrivate ? target.names[0] : (lock.name ?? target.names[0]);
    const { mode = request.mode } = lock;
    const inner = request.inner ? { inner: request.inner } : undefined;
    // A function that releases tells nothing: only what cannot be lost is surely held.
    this.isSure = target.isSafe && !user.stage.canBeAway;
    const held = lock.held ?? this.isSure;
    const token = lock.token === undefined ? undefined : String(lock.token);
    const { bucket } = target;
    const at = user.record('granted', { id, k, bucket, name, mode, token, held, ...inner });
    if (held) this.last = at;
    if (listens && lock.signal && user.chance(0.6)) this.#listen(lock.signal);
    if (!held || !target.isSafe || target.isPrivate || request.inner || !user.stage.gate) return;
    const what = `${bucket}~${name}`;
    const { limit, weight } = given;
    this.#enter({ what, mode, limit: user.limitOf(request) ?? limit, weight });
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
      this.user.record('told', { id, k: this.k, ...describeError(reason), message: undefined });
      // Who leads hears also of the signal of the election.
      if (this.lock.held && reason !== ABORTED)
        this.user.fault('told', `${id} is told of a loss, and still holds`);
    };
    if (signal.aborted) tell();
    else signal.addEventListener('abort', tell, { once: true });
  }

  /** Looks at a lock as a user would who is about to use it. */
  look() {
    const at = this.user.stage.now();
    const { held, remaining } = this.lock;
    if (held ?? this.isSure) this.last = at;
    else if (remaining > 0) this.user.fault('told', `${this.request.id} remains, but is not held`);
    if (held !== undefined && this.user.chance(0.05)) this.#print();
    if (this.lock.publish && this.user.chance(PUBLISHES)) this.#publish();
    return held ?? true;
  }

  /** Publishes what says whose it is, or nothing any more. It may be lost meanwhile. */
  #publish() {
    const { k, lock, request, user } = this;
    const { id, target } = request;
    const { name: of } = lock;
    const n = ++this.#publications;
    const token = String(lock.token);
    const data = user.chance(0.15) ? undefined : `${id} ${k} ${n} ${'x'.repeat(user.below(200))}`;
    user.record('publishes', { id, k, n, bucket: target.bucket, name: of, token, data });
    lock.publish(data).then(
      (done) => {
        user.record('published', { id, k, n, done });
        // Else few snapshots would tell of it. What fails here is judged where others query.
        if (!done || !target.place || user.chance(0.5)) return;
        user.query({ place: target.place, name: of }, { details: true, name: of }).catch(() => {});
      },
      ({ name, message }) => {
        if (name === 'NotSupportedError' && user.stage.lacks.publish) return;
        // Hostile users leave no stack, and harmed files no room.
        if (user.hostile || user.plan.isHarmed) return;
        user.fault('errors', `${id} cannot publish: ${name}: ${message}`);
      },
    );
  }

  /** A lock can be printed, and guards nothing where there is no database. */
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
    this.look();
    this.#leave?.();
    const { id } = this.request;
    this.user.record('ended', { id, k: this.k, last: this.last, threw: threw || undefined });
  }
}

class User {
  #random;
  #numbers = 0;
  #controllers = [];
  /** Ends what lasts to the end. */
  #over;
  #isOver = false;
  #calls;
  #all;
  /** What has not settled, by id: what it is. */
  open = new Map();
  stopped = false;
  /** How it is to end its thread, at the next chance. @type {string | undefined} */
  ending;

  /**
   * @param {any} stage where it acts
   * @param {{ id: string, seed: string, names: number, loops: number, only?: string[],
   *   pace: number }} plan `only`: the options that are drawn; `pace`: milliseconds between requests
   */
  constructor(stage, plan) {
    this.stage = stage;
    this.id = plan.id;
    this.plan = plan;
    this.#random = new Random(plan.seed, plan.id);
    this.over = new Promise((resolve) => {
      this.#over = resolve;
    });
    const names = namesOf(plan.names);
    // All names in their order; the index is what is compared.
    this.names = stage.places.flatMap((place) => names.map((one) => ({ place, ...one })));
    this.mutexes = new Map();
    if (plan.isHostile) this.hostile = new Hostile(this);
    this.#calls = this.#weigh(Object.entries(calls));
    this.#all = [...this.#calls, ...this.#weigh(Object.entries(deeds))];
  }

  /** @returns {[string, number][]} rows of the table, with how often they come in this round */
  #weigh(rows) {
    const { slowness = 1 } = this.plan;
    return rows.map(([name, { isSlow, weight }]) => [name, isSlow ? weight * slowness : weight]);
  }

  number() {
    return this.#random.number();
  }

  chance(probability) {
    return this.#random.chance(probability);
  }

  below(limit) {
    return this.#random.below(limit);
  }

  pick(list) {
    return this.#random.pick(list);
  }

  /** What it asks for where the library calls it. */
  askAnywhere(call) {
    this.ask(call, { outer: inside.getStore() });
  }

  record(type, more) {
    return this.stage.recorder.record(type, more);
  }

  fault(judge, what) {
    this.record('fault', { judge, what });
  }

  stop() {
    this.stopped = true;
    this.#isOver = true;
    this.#over();
    for (const controller of this.#controllers) if (controller.atTheEnd) controller.abort();
    // Others wait for what is leaked.
    this.#collectAll();
  }

  async run() {
    await Promise.all(Array.from({ length: this.plan.loops }, () => this.#loop()));
  }

  async #loop() {
    while (!this.stopped) {
      const what = this.#random.weighted(this.#all);
      if (deeds[what]) await this.#do(what);
      else await this.ask(what, {});
      if (this.plan.pace > 0) await this.stage.sleep(this.number() * 2 * this.plan.pace);
      else if (this.chance(0.15)) await this.stage.turn();
    }
  }

  // Requests

  /**
   * @param {string} call
   * @param {{ above?: number, depth?: number, outer?: any }} inside what it is made inside of:
   *   `above`: the last name that is held, `outer`: the request
   */
  async ask(call, { above = -1, depth = 0, outer }) {
    const method = calls[call];
    const target = this.#targetOf(method, above, outer);
    if (!target) return;
    const request = { id: `${this.id}:${++this.#numbers}`, call, method, target, depth, facts: {} };
    request.given = this.#draw(request);
    if (method.isNamed && target.place?.asBucket && this.chance(0.5)) {
      request.isByBucket = true;
      // Also for what is asked from inside of it: the other object may be closed by then.
      target.locks = target.place.locks;
      target.isClosing = false;
    }
    // Which one: each is a session of its own in a cluster.
    if (target.isClosing) request.facts.isClosing = target.isClosing;
    if (this.hostile) request.facts.isHostile = true;
    request.mode = method.mode ?? request.given.mode ?? 'exclusive';
    if (target.isPrivate) request.facts.isPrivate = true;
    const { isMain, lacks } = this.stage;
    const where = { call, lacks, isMain, isPrivate: target.isPrivate };
    request.expected = [...refusals(request.given, where)];
    request.outer = outer;
    request.above = above;
    request.inner = this.#reentrantBackend(request);
    await this.#carryOut(request);
  }

  /** Makes a request, and records what it asks for and what comes of it. */
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

  /** The request whose lock serves this one, if it is made inside of one that says so, too. */
  #reentrantBackend({ given, outer, target: { bucket, names } }) {
    for (let one = given.reentrant && outer; one; one = one.outer) {
      if (!one.given.reentrant || one.method.ends !== 'callback') continue;
      const { target } = one;
      if (target.bucket === bucket && target.names.some((name) => names.includes(name)))
        return one.id;
    }
    return undefined;
  }

  /** What a request is for: a name, or several, in a bucket. */
  #targetOf(method, above, outer) {
    if (method.isNamed && this.chance(0.15)) return this.#privateTarget(method, above);
    const isServed = outer?.given.reentrant && outer.method.ends === 'callback';
    const isAgain = isServed && this.chance(0.6);
    const isSameObject = !outer?.target.isPrivate || method.on === outer.method.on;
    const canBeServed = !method.isSeveral && method.ends !== 'nothing';
    const isFit = method.kinds.includes(outer?.target.kind) && canBeServed && isSameObject;
    if (isAgain && isFit) {
      return { ...outer.target, names: [outer.lastName], isInner: true };
    }
    // Anywhere, if it does not wait for long.
    const isAnywhere = above >= 0 && this.chance(0.2);
    const isBounded = isAnywhere || (above >= 0 && this.stage.lacks.oneByOne === true);
    const from = isAnywhere ? 0 : above + 1;
    const usable = this.names.slice(from).filter(({ kind }) => method.kinds.includes(kind));
    if (usable.length === 0) return undefined;
    // The first ones more often, so that there is contention.
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

  /** Of a rough name now and then another bucket object, which is closed some time. */
  #managerOf(place, kind, target) {
    if (kind !== 'rough' || !place.another || !this.chance(0.3)) return place.locks;
    target.isClosing = place.count;
    return place.another.locks;
  }

  /** One that is this user's alone. */
  #privateTarget({ on }, above) {
    const name = `${on} of ${this.id}`;
    // It is not waited for inside of another lock: that one may be waited for inside of it.
    if (above >= 0) return undefined;
    const kind = on === 'Semaphore' ? 'units' : 'plain';
    const last = this.names.length;
    return { bucket: 'private', kind, isSafe: true, isPrivate: true, names: [name], last };
  }

  #draw(request) {
    const { call, target } = request;
    const { only } = this.plan;
    const given = {};
    const { isMain, lacks } = this.stage;
    const where = { call, lacks, isMain, isPrivate: target.isPrivate };
    request.options = given;
    request.kind = target.kind;
    // What fits together; now and then anything, which is refused.
    const isWild = !only && !target.isInner && this.chance(0.03);
    const [first, rest] = [['mode', 'limit', 'weight'], Object.keys(options).slice(3)];
    for (const name of [...first, ...this.#random.shuffled(rest)]) {
      const row = options[name];
      if (only && !only.includes(name) && !row.isRequired) continue;
      const isTaken = row.takes.includes(call);
      if (!isWild && !isTaken) continue;
      if (!isWild && !row.on(target.kind)) continue;
      if (!row.isRequired && !this.chance(isTaken ? row.often : row.often / 3)) continue;
      if (target.isInner && name === 'steal') continue;
      const value = row.draw(this, request);
      if (value === undefined) continue;
      given[name] = value;
      if (name === 'limit') given.mode = 'shared';
      if (!isWild && refusals(given, where).size > (isMain && call === 'acquireSync' ? 1 : 0)) {
        delete given[name];
      }
    }
    const isMade = refusals(given, where).size === 0;
    for (const name of isMade ? Object.keys(given) : []) {
      if (!options[name].on(target.kind)) delete given[name];
    }
    if (!isWild || isMade) this.#require(request);
    delete request.options;
    return given;
  }

  /** What is needed so that nobody waits for ever. */
  #require(request) {
    const { call, given = request.options, method, target } = request;
    if (target.kind === 'units' && given.mode === 'shared') {
      given.limit = LIMIT;
      if (given.weight > LIMIT) delete given.weight;
    }
    if (target.isInner) given.reentrant = true;
    // Its thread has more locks than it asks inside of, and gives none of them back meanwhile.
    if (call === 'acquireSync' && !(given.timeout < LONGEST_BLOCK_MS)) {
      given.timeout = this.pick([0, 1, this.below(LONGEST_BLOCK_MS)]);
    }
    if (call === 'elect' && !given.signal) given.signal = this.signal(request, true);
    const { blocking, ifAvailable, steal, timeout } = given;
    const isShort = ifAvailable || blocking === false || steal || timeout < 100 || !method;
    if (!(target.isInner || target.isBounded) || isShort || call === 'tryAcquireSync') return;
    if (options.timeout.takes.includes(call)) given.timeout = this.below(20);
  }

  /** The limit of a semaphore that is one by itself. */
  limitOf({ method }) {
    return method.on === 'Semaphore' ? LIMIT : undefined;
  }

  /** A signal that is aborted before, while the request waits, or after its grant. */
  signal(request, atTheEnd = request.call === 'elect') {
    const controller = new AbortController();
    const { facts, id } = request;
    const abort = () => {
      this.record('aborted', { id });
      controller.abort(ABORTED);
    };
    if (this.hostile) controller.signal.addEventListener('abort', () => this.hostile.enter());
    const own = { atTheEnd, abort };
    this.#controllers.push(own);
    if (this.#controllers.length > 64) {
      const some = this.#controllers.findIndex((one) => !one.atTheEnd);
      if (some >= 0) this.#controllers.splice(some, 1);
    }
    facts.signal = this.pick(['before', 'microtask', 'turn', 'soon', 'soon', 'later', 'never']);
    if (this.#isOver && atTheEnd) facts.signal = 'before';
    if (atTheEnd && !this.#isOver) facts.signal = 'later';
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
    const { locks, names } = target;
    const name = names[0];
    const shown = this.hostile?.disguise(given) ?? given;
    const optionsOf = Object.keys(given).length === 0 && this.chance(0.5) ? [] : [shown];
    const callback = (got) => this.#callback(request, method.isSeveral ? got : got && [got]);
    const made = (result) => {
      this.record('made', { id: request.id });
      return result;
    };
    if (method.isNamed) {
      await this.#makeNamed(request, callback, made);
      return;
    }
    const plain = method.isSeveral ? this.#withModes(request) : name;
    const what = this.hostile?.rename(plain) ?? plain;
    if (method.ends === 'callback') {
      const result = await made(locks[call](what, ...optionsOf, callback));
      if (call === 'once') request.ran = result.ran;
      return;
    }
    const got = made(locks[call](what, ...optionsOf));
    const handle = method.isSync ? got : await got;
    if (!handle) this.record('missed', { id: request.id });
    else
      await this.#useHandle(request, handle, method.ends === 'handles' ? handle.locks : [handle]);
  }

  /** Some with a mode of their own. */
  #withModes({ given, target }) {
    if (given.limit !== undefined || target.kind === 'units') return target.names;
    return target.names.map((name) =>
      this.chance(0.3) ? { name, mode: this.pick(['exclusive', 'shared', undefined]) } : name,
    );
  }

  async #makeNamed(request, callback, made) {
    const { call, method } = request;
    const given = this.hostile?.disguise(request.given) ?? request.given;
    const [, action] = call.split('.');
    const object = this.#objectOf(request);
    if (method.ends === 'callback') {
      await made(object[action](callback, given));
      return;
    }
    const release = await made(object[action](given));
    if (method.ends === 'nothing') return;
    if (!release) this.record('missed', { id: request.id });
    else await this.#useHandle(request, { release, isFunction: true }, [{}]);
  }

  #objectOf({ isByBucket, method: { on }, target }) {
    const { library } = this.stage;
    if (target.isPrivate) {
      if (!this.mutexes.has(on)) {
        this.mutexes.set(on, on === 'Semaphore' ? new library.Semaphore(LIMIT) : new library[on]());
      }
      return this.mutexes.get(on);
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
    if (holds[how].isSync) return this.#sync(request, held, how);
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
    // What serves it can be lost meanwhile, and has to be seen to be.
    if (target.isInner && ends === 'callback' && this.chance(0.2)) return 'lingers';
    const how = this.#random.weighted(this.#weigh(usable));
    if (how === 'asks' && (depth >= DEEPEST || this.stopped)) return 'microtask';
    if (how === 'never' && this.stopped) return 'returns';
    if (how === 'robsItself' && target.isPrivate) return 'returns';
    return how;
  }

  #sync(_request, held, how) {
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

  /** Looks often, and blocks now and then. */
  async #linger(look) {
    const end = this.stage.now() + this.below(30);
    while (this.stage.now() < end && !this.#isOver) {
      await this.stage.turn();
      if (this.chance(0.02)) this.stage.block(this.below(5));
      look();
    }
  }

  /** Never settles: until the lock is lost, or all is over. */
  async #never(held, look) {
    const aborted = (signal) =>
      new Promise((resolve) => {
        if (signal.aborted) resolve();
        else signal.addEventListener('abort', resolve, { once: true });
      });
    const lost = held.filter(({ lock }) => lock.signal).map(({ lock }) => aborted(lock.signal));
    let isOver = false;
    const over = Promise.race([this.over, ...lost]).then(() => {
      isOver = true;
    });
    while (!isOver) {
      look();
      await Promise.race([over, this.stage.sleep(5)]);
    }
  }

  async #askInside(request) {
    // What it has, and what that was asked for inside of.
    const above = Math.max(request.above ?? -1, request.target.last);
    const inside = { above, depth: request.depth + 1, outer: request };
    const count = 1 + this.below(2);
    const asked = [];
    for (let i = 0; i < count; i++) {
      const what = this.#random.weighted(this.#calls);
      asked.push(this.ask(what, inside));
    }
    // What is not awaited outlives it, and keeps a lock that serves it.
    const isAwaited = !request.given.reentrant || this.chance(0.7);
    if (isAwaited) await Promise.all(asked);
  }

  async #robItself(request) {
    const { target } = request;
    const { isClosing, isHostile } = request.facts;
    const facts = { isNested: true, isClosing, isHostile };
    const thief = { ...request, id: `${this.id}:${++this.#numbers}`, depth: DEEPEST, facts };
    Object.assign(thief, { given: { steal: true }, call: 'request', method: calls.request });
    Object.assign(thief, { mode: 'exclusive', inner: undefined, calls: 0, expected: [] });
    thief.target = { ...target, names: [request.lastName], isInner: false };
    await this.#carryOut(thief);
  }

  abortSome() {
    const some = this.#controllers.filter(({ atTheEnd }) => !atTheEnd);
    if (some.length > 0) this.pick(some).abort();
  }

  /** Ends its thread, if that was asked of it: while it has a lock. */
  #mayEnd() {
    if (this.ending) this.stage.end(this.ending);
  }

  // Handles

  async #useHandle(request, handle, locks) {
    const how = this.#howToHold(request);
    const held = this.#holdsOf(request, locks, how !== 'leaks');
    if (how === 'leaks') {
      this.#leak(request, held, handle);
      return;
    }
    if (how === 'blocks') this.stage.block(1 + this.below(8));
    else if (!holds[how].isSync) await this.#while(request, held, how);
    for (const hold of held) hold.end();
    const { id } = request;
    const released = this.#release(handle);
    this.open.set(id, `release of ${request.call}`);
    if (released) await released;
    this.record('released', { id });
    for (const hold of held) {
      if (hold.lock.held) this.fault('told', `${id} is released, and still holds`);
      if (hold.lock.released === false) this.fault('told', `${id} is not released`);
    }
  }

  #release(handle) {
    if (handle.isFunction) {
      if (this.chance(0.3)) handle.release();
      return handle.release();
    }
    const how = this.pick(releases);
    if (how === 'dispose') {
      handle[Symbol.dispose]();
      return handle.release();
    }
    if (how === 'asyncDispose') return handle[Symbol.asyncDispose]();
    if (how === 'twice') handle.release();
    return handle.release();
  }

  /** Forgets it: it is released when it is collected. */
  #leaked = 0;
  #leaks = new FinalizationRegistry((id) => {
    this.#leaked--;
    this.record('released', { id });
    this.open.delete(`${id} leaked`);
  });

  #leak(request, held, handle) {
    for (const hold of held) hold.end();
    this.#leaked++;
    this.#leaks.register(handle, request.id);
    if (this.chance(0.5)) this.stage.later(this.below(20), () => this.stage.collect());
    if (this.stopped) this.#collectAll();
    this.open.set(`${request.id} leaked`, request.call);
    this.record('leaked', { id: request.id });
  }

  async #collectAll() {
    while (this.#leaked > 0) {
      this.stage.collect();
      await this.stage.sleep(1);
    }
  }

  // What is no request

  async #do(what) {
    const id = `${this.id}:${++this.#numbers}`;
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
      const office = this.names.filter(({ kind }) => kind === 'office');
      const { name, place } = this.pick(office);
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

  #lookAt(on, kind, property) {
    const { name, place } = this.pick(this.names.filter((one) => one.kind === kind));
    const permits = on === 'Semaphore' ? { permits: LIMIT } : {};
    const object = new this.stage.library[on](name, { locks: place.locks, ...permits });
    try {
      const value = object[property];
      if (this.stage.lacks.state) this.fault('errors', `${property} is known at once: ${value}`);
    } catch (error) {
      if (!this.stage.lacks.state || error.name !== 'NotSupportedError') throw error;
    }
  }

  /** Queries in any form; with details of all it is recorded. */
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
    const { bucket } = place;
    this.record('snapshot', {
      began,
      bucket,
      name: form.name,
      held,
      pending,
      grantsIn: found.grantsIn,
    });
  }

  /** Another bucket object of the same bucket; what is asked for there is lost when it is closed. */
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
      // Also if the server cannot be reached: nobody else has the one before.
      await this.#closeAnother(place, before);
    }
  }

  async #closeAnother(place, bucket) {
    if (!bucket) return;
    this.record('gone', { bucket: place.bucket });
    if (this.chance(0.5)) await bucket.close();
    else await bucket[Symbol.asyncDispose]();
  }

  /** Another loop may close it meanwhile. */
  async #isReady(bucket) {
    try {
      await bucket.ready;
    } catch (error) {
      if (error.name !== 'InvalidStateError') throw error;
    }
  }

  /** Closes all that it opened. */
  async close() {
    for (const place of this.stage.places) {
      const { another } = place;
      place.another = undefined;
      await another?.close();
    }
  }
}

module.exports = { THROWN, User, describeError, namesOf };
