'use strict';

/**
 * A hostile user of one thread and two scopes: subscribers of every channel, listeners of abort
 * signals, getters of options, names with a toString, thenables, timers and disposers. At random,
 * they request, release, abort, steal, take synchronously, throw, and recurse until the stack ends.
 * After each step, locks must have been held alone and in order, and no callback may have run after
 * an abort. The snapshot must match the known entries; in the end, every promise must have settled,
 * and nothing may be left.
 *
 * hostile.test.js runs this file in a process of its own, because of the exceptions. A failure
 * prints its seed and path, which repeat it: HOSTILE_SEED=… HOSTILE_PATH=… node
 * test/model/hostile.js
 */

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const { AsyncLocalStorage } = require('node:async_hooks');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const path = require('node:path');
const { mock } = require('node:test');
const fc = require('fast-check');
const { generator } = require('../torture/random.js');

const LIB = path.join(__dirname, '..', '..', 'lib');
const BUILD = path.join(__dirname, '..', '..', 'build');
/** The host scope keeps its buckets here. */
const DIRECTORY = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-test-'));
process.on('exit', () => fs.rmSync(DIRECTORY, { recursive: true, force: true }));
const CHANNELS = ['start', 'grant', 'miss', 'end', 'abort', 'steal', 'timeout'];

/** Where hostile code can run; a sequence uses some of these. */
const DOORS = [
  ...CHANNELS,
  'abort listener',
  'loss listener',
  'getter',
  'toString',
  'thenable',
  'timer',
  'microtask',
  'tick',
  'disposer',
];

/** The actions of hostile code, with their weights. */
const DEEDS = Object.entries({
  request: 6,
  acquire: 6,
  requestAll: 1,
  mutex: 2,
  cancel: 2,
  tryAcquireSync: 4,
  acquireSync: 2,
  release: 8,
  abort: 4,
  steal: 2,
  elapse: 2,
  fail: 1,
  recurse: 1,
}).flatMap(([deed, weight]) => Array(weight).fill(deed));

/** A sequence does no more than this, as code that acts each time it runs would not end. */
const MOST_DEEDS = 150;
const DEEPEST = 6;

class HostileError extends Error {}

const outside = AsyncLocalStorage.snapshot();

const isOverflow = (error) => error instanceof RangeError && /call stack/.test(error.message);

/** Exceptions that hostile code did not throw. */
const foreign = [];
process.on('uncaughtException', (error) => {
  if (!(error instanceof HostileError) && !isOverflow(error)) foreign.push(error);
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Time passes only where a sequence says so. The library must load after this line. */
mock.timers.enable({ apis: ['setTimeout'] });

/** Loads the package anew, so that a sequence meets nothing that a failed one left. */
function load() {
  for (const key of Object.keys(require.cache)) {
    if (key.startsWith(LIB) || key.startsWith(BUILD)) delete require.cache[key];
  }
  const { openBucket } = require('../../lib/host.js');
  const { locks } = openBucket('hostile', { directory: DIRECTORY });
  const { backendOf } = require('../../lib/standard/lock-manager.js');
  const library = require('../../lib/index.js');
  return { ...library, ofHost: locks, ofProcess: backendOf(library.locks) };
}

/** A lock or a request that the hostile user made. */
class Entry {
  arrived = false;
  left = false;
  settled = false;

  /** The requests inside this one that its lock serves. @type {Entry[]} */
  inner = [];

  /** @param {Entry} [root] whose lock serves it */
  constructor(world, name, mode, fair, root) {
    Object.assign(this, { world, name, mode, fair, root });
    root?.inner.push(this);
    this.begun = world.clock++;
    this.made = Number.POSITIVE_INFINITY;
    world.entries.push(this);
  }

  get lost() {
    return this.handle ? this.handle.released : Boolean(this.lock?.signal.aborted);
  }

  /** Whether its lock, or a request that this lock serves, is still in use. */
  get uses() {
    // A request without its lock does not count: an exclusive one inside a shared lock may be
    // refused.
    const holds = this.arrived && !this.left;
    return (holds || this.inner.some((it) => it.uses)) && !this.lost;
  }

  /** Checks that the lock is held alone, and before every request that came later. */
  arrive({ handle, lock }) {
    this.handle = handle;
    this.lock = lock;
    this.arrived = true;
    if (this.lost) return;
    const { world, name, mode } = this;
    for (const other of world.entries) {
      if (other === this || other.name !== name || !other.arrived) continue;
      if ((other.root ?? other) === (this.root ?? this)) continue;
      const together = mode === 'shared' && other.mode === 'shared';
      if (other.uses && !together) world.fault(`two hold ${name} (${mode})`);
      if (!together && this.fair && other.fair && other.begun > this.made) {
        world.fault(`${name}: one who came later had it before`);
      }
    }
  }

  leave() {
    this.left = true;
  }
}

class World {
  static count = 0;
  clock = 0;
  deeds = 0;
  depth = 0;
  entries = [];
  controllers = [];
  deferreds = [];
  faults = [];
  several = 0;
  /** @type {Map<string, object>} */
  mutexes = new Map();

  constructor(library, seed, doors) {
    this.library = library;
    this.random = generator(seed);
    this.doors = new Set(doors);
    this.prefix = `hostile ${World.count++} `;
    this.listeners = CHANNELS.filter((it) => this.doors.has(it)).map((it) => {
      const listener = ({ name }) => name.startsWith(this.prefix) && this.enter(it);
      subscribe(`locks.request.${it}`, listener);
      return [`locks.request.${it}`, listener];
    });
  }

  fault(message) {
    if (this.faults.length < 5) this.faults.push(message);
  }

  below(limit) {
    return Math.floor(this.random() * limit);
  }

  pick(list) {
    return list[this.below(list.length)];
  }

  /** Runs hostile code at one of the doors; it acts at random. */
  enter(door) {
    if (!this.doors.has(door) || this.closing || this.random() < 0.5) return;
    this.act(this.pick(DEEDS));
  }

  /** The entry leaves if hostile code throws there, as the exception ends its callback. */
  enterOf(entry, door) {
    try {
      this.enter(door);
    } catch (error) {
      entry.leave();
      throw error;
    }
  }

  act(deed) {
    if (this.deeds >= MOST_DEEDS || this.depth >= DEEPEST) return;
    this.deeds++;
    this.depth++;
    try {
      this[deed]();
    } finally {
      this.depth--;
    }
  }

  name() {
    return this.prefix + this.pick('abc');
  }

  /** Names that end with 'c' are locks of the host scope. */
  locksOf(name) {
    return name.endsWith('c') ? this.library.ofHost : this.library.locks;
  }

  givenName(name) {
    if (!this.doors.has('toString')) return name;
    return {
      toString: () => {
        this.enter('toString');
        return name;
      },
    };
  }

  mode() {
    return this.random() < 0.4 ? 'shared' : 'exclusive';
  }

  options(mode, more = {}) {
    const options = { mode, ...more };
    if (!options.steal && !options.ifAvailable) {
      if (this.random() < 0.4) options.signal = this.signal();
      if (this.random() < 0.3) options.timeout = this.below(4);
    }
    this.givenSignal = options.signal;
    if (this.random() < 0.2) options.label = 'label';
    if (this.random() < 0.2) options.warnAfter = 1 + this.below(3);
    if (this.random() < 0.2) options.deadlock = 'reject';
    if (this.random() < 0.2) options.holdTimeout = 1 + this.below(3);
    if (!this.doors.has('getter')) return options;
    const given = {};
    for (const [key, value] of Object.entries(options)) {
      const get = () => {
        this.enter('getter');
        return value;
      };
      Object.defineProperty(given, key, { get, enumerable: true });
    }
    return given;
  }

  signal() {
    const controller = this.random() < 0.5 ? this.pick(this.controllers) : undefined;
    if (controller && !controller.signal.aborted) return controller.signal;
    const fresh = new AbortController();
    this.controllers.push(fresh);
    fresh.signal.addEventListener('abort', () => this.enter('abort listener'));
    return fresh.signal;
  }

  /** @returns what the callback of an entry returns; the entry leaves before that settles */
  serve(entry, lock) {
    if (lock === null) return undefined;
    if (entry.signal?.aborted) this.fault(`${entry.name}: granted after its abort`);
    entry.arrive({ lock });
    lock.signal.addEventListener('abort', () => this.enter('loss listener'));
    if (entry.reentrant) this.reenter(entry);
    this.enterOf(entry, 'microtask');
    const how = this.below(6);
    if (how === 0) {
      entry.leave();
      return undefined;
    }
    if (how === 1) {
      entry.leave();
      throw new HostileError('of a callback');
    }
    const later = this.deferred(entry);
    if (how > 3 || !this.doors.has('thenable')) return later.promise;
    // A thenable calls back at once, or later, or twice, or throws as well.
    return {
      then: (resolve, reject) => {
        this.enterOf(entry, 'thenable');
        if (how === 2) {
          entry.leave();
          resolve('at once');
          reject(new HostileError('of a thenable'));
          throw new HostileError('of a thenable');
        }
        later.promise.then(resolve, reject);
      },
    };
  }

  /** Makes requests that the lock of an entry serves; some of them outlive the callback. */
  reenter(entry) {
    const { name, lock } = entry;
    while (this.random() < 0.5 && this.deeds < MOST_DEEDS && !lock.signal.aborted) {
      this.deeds++;
      const mode = this.mode();
      const options = { mode, reentrant: true };
      if (this.random() < 0.3) options.holdTimeout = 1 + this.below(3);
      const inner = new Entry(this, name, mode, false, entry.root ?? entry);
      inner.reentrant = true;
      const form = this.below(3);
      if (form === 0) {
        if (this.random() < 0.3) options.signal = this.signal();
        this.track(
          inner,
          this.locksOf(name).request(name, options, (it) => this.serve(inner, it)),
        );
      } else if (form === 1) {
        this.track(
          inner,
          this.locksOf(name)
            .acquire(name, options)
            .then((handle) => this.own(inner, handle)),
        );
      } else {
        inner.settled = true;
        this.own(inner, this.locksOf(name).tryAcquireSync(name, options));
      }
    }
  }

  deferred(entry) {
    let settle;
    const promise = new Promise((resolve) => {
      settle = resolve;
    });
    const later = {
      promise,
      end: () => {
        entry.leave();
        settle();
      },
    };
    this.deferreds.push(later);
    return later;
  }

  track(entry, promise) {
    entry.made = this.clock++;
    entry.promise = promise;
    promise.then(
      () => {
        entry.settled = true;
      },
      (error) => {
        entry.settled = true;
        // If one of several locks was stolen, the callback goes on with the others.
        if (!entry.arrived) entry.leave();
        const { DeadlockError, LockError } = this.library;
        const known = error instanceof HostileError || isOverflow(error) || error === 'aborted';
        if (known || error instanceof LockError || error instanceof DeadlockError) return;
        // The host scope knows no deadlocks.
        if (!/^(Abort|NotSupported)Error$/.test(error?.name)) foreign.push(error);
      },
    );
  }

  own(entry, handle) {
    if (!handle) {
      entry.leave();
      return;
    }
    entry.arrive({ handle });
    handle.signal.addEventListener('abort', () => this.enter('loss listener'));
  }

  request(more) {
    const mode = more?.steal ? 'exclusive' : this.mode();
    const ifAvailable = !more && this.random() < 0.15;
    const options = this.options(mode, more ?? (ifAvailable ? { ifAvailable } : {}));
    const name = this.name();
    const given = this.givenName(name);
    const entry = new Entry(this, name, mode, !more);
    entry.signal = this.givenSignal;
    const serve = (lock) => this.serve(entry, lock);
    entry.reentrant = this.random() < 0.2;
    const promise = entry.reentrant
      ? outside(() => this.locksOf(name).request(given, withReentrant(options), serve))
      : this.locksOf(name).request(given, options, serve);
    this.track(entry, promise);
  }

  acquire(more) {
    const mode = more?.steal ? 'exclusive' : this.mode();
    const options = this.options(mode, more);
    const name = this.name();
    const given = this.givenName(name);
    const entry = new Entry(this, name, mode, !more);
    this.track(
      entry,
      this.locksOf(name)
        .acquire(given, options)
        .then((handle) => this.own(entry, handle)),
    );
  }

  steal() {
    if (this.random() < 0.5) this.request({ steal: true });
    else this.acquire({ steal: true });
  }

  requestAll() {
    const first = this.name();
    const other = this.name();
    const locks = this.locksOf(first);
    const names = [...new Set([first, this.locksOf(other) === locks ? other : first])];
    const options = this.random() < 0.5 ? { timeout: this.below(4) } : { signal: this.signal() };
    if (this.random() < 0.2) options.holdTimeout = 1 + this.below(3);
    const entries = names.map((name) => new Entry(this, name, 'exclusive', false));
    this.several++;
    const promise = locks.requestAll(names, options, async (all) => {
      for (const [i, entry] of entries.entries()) entry.arrive({ handle: all[i] });
      const leave = () => {
        for (const entry of entries) entry.leave();
      };
      this.enterOf({ leave }, 'microtask');
      await this.deferred({ leave }).promise;
    });
    const ended = promise.finally(() => {
      this.several--;
    });
    for (const entry of entries) this.track(entry, ended);
  }

  mutex() {
    const name = this.prefix + this.pick('ab');
    const entry = new Entry(this, name, 'exclusive', false);
    const mutex = this.mutexes.get(name) ?? new this.library.Mutex(name);
    this.mutexes.set(name, mutex);
    const holdTimeout = this.random() < 0.3 ? 1 + this.below(3) : undefined;
    const promise = mutex.runExclusive(
      (lock) => {
        entry.arrive({ lock });
        return this.deferred(entry).promise;
      },
      { holdTimeout },
    );
    this.track(entry, promise);
  }

  /** Releases something, then cancels what waits in each Mutex: no holder may lose its lock. */
  cancel() {
    this.release();
    const { deeds } = this;
    this.deeds = MOST_DEEDS;
    for (const [name, mutex] of this.mutexes) {
      const { ofProcess } = this.library;
      const tokens = () => ofProcess.details(name).held.map(({ token }) => token);
      const before = tokens();
      mutex.cancel();
      const after = tokens();
      if (!before.every((token) => after.includes(token))) this.fault(`${name}: a holder canceled`);
    }
    this.deeds = deeds;
  }

  tryAcquireSync() {
    const holdTimeout = this.random() < 0.3 ? 1 + this.below(3) : undefined;
    this.#takeSync((locks, name, mode) => locks.tryAcquireSync(name, { mode, holdTimeout }));
  }

  acquireSync() {
    this.#takeSync((locks, name, mode) => locks.acquireSync(name, { mode, timeout: 0 }));
  }

  #takeSync(take) {
    const [mode, name] = [this.mode(), this.name()];
    const entry = new Entry(this, name, mode, true);
    entry.settled = true;
    const given = this.givenName(name);
    let handle = null;
    try {
      handle = take(this.locksOf(name), given, mode);
    } catch (error) {
      // The lock was busy, a deadlock, or stolen by a subscriber to its grant.
      if (!(error instanceof this.library.LockError)) throw error;
    } finally {
      this.own(entry, handle);
    }
  }

  release() {
    const open = this.entries.filter((it) => it.arrived && !it.left && it.handle);
    if (this.random() < 0.5 && this.deferreds.length > 0) {
      this.deferreds.splice(this.below(this.deferreds.length), 1)[0].end();
    } else if (open.length > 0) {
      const entry = this.pick(open);
      entry.leave();
      if (this.doors.has('disposer') && this.random() < 0.5) entry.handle[Symbol.dispose]();
      else entry.handle.release();
    }
  }

  abort() {
    if (this.controllers.length === 0) return;
    this.controllers.splice(this.below(this.controllers.length), 1)[0].abort('aborted');
  }

  elapse() {
    const how = this.below(3);
    if (how === 0) setTimeout(() => this.enter('timer'), this.below(3));
    else if (how === 1) queueMicrotask(() => this.enter('microtask'));
    else process.nextTick(() => this.enter('tick'));
  }

  fail() {
    throw new HostileError('of the hostile user');
  }

  /** Calls from the last frames of the stack, which have no room to look at results. */
  recurse() {
    const [mode, name] = [this.mode(), this.name()];
    const locks = this.locksOf(name);
    const options = this.random() < 0.5 ? { mode } : { mode, timeout: 2, signal: this.signal() };
    const form = this.pick(['request', 'requestAll', 'acquire', 'tryAcquireSync', 'release']);
    const entries = Array.from({ length: 40 }, () => new Entry(this, name, mode, false));
    const callbacks = entries.map((entry) => (lock) => this.serve(entry, lock));
    const names = [name, `${this.prefix}d${name.at(-1)}`];
    const seconds =
      form === 'requestAll' ? entries.map(() => new Entry(this, names[1], mode, false)) : [];
    const both = (i) => [entries[i], ...seconds.slice(i, i + 1)];
    const ofAll = entries.map((_, i) => async (handles) => {
      for (const [j, entry] of both(i).entries()) entry.arrive({ handle: handles[j] });
      const leave = () => {
        for (const entry of both(i)) entry.leave();
      };
      await this.deferred({ leave }).promise;
    });
    const got = Array(40).fill(undefined);
    const handles = this.entries.filter((it) => it.arrived && !it.left && it.handle);
    const frames = 1 + this.below(4);
    let calls = 0;
    // Listeners must not act here, as they could not record what they did.
    const { deeds } = this;
    this.deeds = MOST_DEEDS;
    const deeper = (frame) => {
      try {
        deeper(frame + 1);
      } catch {
        // The stack has ended.
      }
      if (calls === 40 || frame % frames > 0) return;
      const i = calls++;
      try {
        if (form === 'request') got[i] = locks.request(name, options, callbacks[i]);
        else if (form === 'requestAll') got[i] = locks.requestAll(names, options, ofAll[i]);
        else if (form === 'acquire') got[i] = locks.acquire(name, options);
        else if (form === 'tryAcquireSync') got[i] = locks.tryAcquireSync(name, { mode });
        else if (i < handles.length) handles[i].handle.release();
      } catch {
        // The stack has ended in the call.
      }
    };
    deeper(0);
    this.deeds = deeds;
    for (const [i, entry] of entries.entries()) {
      if (form === 'requestAll' && got[i]) {
        this.several++;
        const ended = got[i].finally(() => {
          this.several--;
        });
        for (const it of both(i)) this.track(it, ended);
        continue;
      }
      if (seconds[i]) {
        seconds[i].settled = true;
        seconds[i].leave();
      }
      if (form === 'request' && got[i]) {
        this.track(entry, got[i]);
        continue;
      }
      if (form === 'acquire' && got[i]) {
        this.track(
          entry,
          got[i].then((handle) => this.own(entry, handle)),
        );
        continue;
      }
      entry.settled = true;
      if (form === 'tryAcquireSync') this.own(entry, got[i]);
      else entry.leave();
    }
    if (form === 'release') for (const { handle } of handles) handle.release();
    for (const entry of handles) if (entry.handle.released) entry.leave();
  }

  async quiet() {
    for (let i = 0; i < 4; i++) await turn();
    if (foreign.length > 0) this.fault(`not of users’ code: ${foreign.shift()?.stack}`);
    assert.deepEqual(this.faults, []);
  }

  async state() {
    const all = await Promise.all([this.library.locks.query(), this.library.ofHost.query()]);
    const held = all.flatMap((it) => it.held);
    const pending = all.flatMap((it) => it.pending);
    const key = ({ name, mode }) => `${name} ${mode}`;
    const own = (infos) => infos.filter(({ name }) => name.startsWith(this.prefix));
    return { held: own(held).map(key).sort(), pending: own(pending).map(key).sort() };
  }

  async compare() {
    await this.quiet();
    if (this.several > 0) return;
    const key = ({ name, mode }) => `${name} ${mode}`;
    const holds = (it) => !it.root && it.arrived && it.uses;
    const waits = (it) => !it.root && !it.arrived && !it.left && !it.settled;
    assert.deepEqual(await this.state(), {
      held: this.entries.filter(holds).map(key).sort(),
      pending: this.entries.filter(waits).map(key).sort(),
    });
  }

  /** Releases everything, including the locks that are granted by that. */
  async finish() {
    this.closing = true;
    for (let i = 0; i < 200; i++) {
      for (const { end } of this.deferreds.splice(0)) end();
      for (const entry of this.entries) {
        if (!entry.handle || entry.left) continue;
        entry.leave();
        entry.handle.release();
      }
      tick(1);
      await this.quiet();
      const isOver = ({ settled, left, handle }) => settled && (left || !handle);
      if (this.entries.every(isOver) && this.deferreds.length === 0) break;
      // The host scope answers a query after the steps that a busy machine made it defer.
      await this.state();
    }
    const open = this.entries.filter(({ settled }) => !settled);
    assert.deepEqual(
      open.map(({ name, mode, arrived }) => ({ name, mode, arrived })),
      [],
      'every promise settles',
    );
    assert.deepEqual(await this.state(), { held: [], pending: [] }, 'nothing is left');
  }

  close() {
    for (const [channel, listener] of this.listeners) unsubscribe(channel, listener);
  }
}

/** An exception of a timer is recorded like any other, and stops no other timer. */
function tick(ms) {
  for (;;) {
    try {
      mock.timers.tick(ms);
      return;
    } catch (error) {
      if (!(error instanceof HostileError) && !isOverflow(error)) foreign.push(error);
    }
  }
}

/** Adds an option, and keeps getters as getters. */
const withReentrant = (options) => Object.create(options, { reentrant: { value: true } });

/** One step: a deed, and how far things settle after it. */
const step = fc.record({
  deed: fc.constantFrom(...DEEDS),
  then: fc.constantFrom('nothing', 'nothing', 'quiet', 'tick'),
});

let library = load();

const property = fc.asyncProperty(
  fc.integer(),
  fc.subarray(DOORS),
  fc.array(step, { minLength: 1, maxLength: 25 }),
  async (seed, doors, steps) => {
    const world = new World(library, seed, doors);
    try {
      for (const { deed, then } of steps) {
        try {
          world.act(deed);
        } catch (error) {
          if (!(error instanceof HostileError) && !isOverflow(error)) throw error;
        }
        if (then === 'tick') tick(1);
        if (then !== 'nothing') await world.compare();
      }
      await world.compare();
      await world.finish();
    } catch (error) {
      library = load();
      foreign.length = 0;
      throw error;
    } finally {
      world.close();
    }
  },
);

const { HOSTILE_RUNS = 300, HOSTILE_SEED, HOSTILE_PATH } = process.env;
const seed = HOSTILE_SEED === undefined ? Date.now() & 0x7fffffff : Number(HOSTILE_SEED);
process.on('warning', () => {});

fc.assert(property, { numRuns: Number(HOSTILE_RUNS), seed, path: HOSTILE_PATH }).then(
  () => process.exit(0),
  (error) => {
    console.log(error.message, error.cause?.stack ?? '');
    console.log(`HOSTILE_SEED=${seed} node test/model/hostile.js`);
    process.exit(1);
  },
);
