'use strict';

/**
 * Derives the documented outcome (docs/API.md) of a program of calls, releases, aborts and passing
 * time in one thread, as plainly as possible. The queue is that of test/model/model.js, and
 * programs.js compares each scope with the outcome.
 */

const { OPTIONS } = require('../../lib/extensions/options.js');
const { LockManagerModel, closesACycle } = require('../model/model.js');
const { KINDS } = require('./calls.js');

const NEVER = Number.POSITIVE_INFINITY;
/** Methods of LockManager accept these values of every option. */
const DEFAULTS = {
  ifAvailable: false,
  mode: 'exclusive',
  steal: false,
  priority: 0,
  reentrant: false,
};
const CLOSED = 'ERR_WEB_LOCKS_CLOSED';

const isGiven = (options, name) =>
  options[name] !== undefined &&
  (options[name] !== false || name === 'blocking') &&
  !(name === 'priority' && options[name] === 0);

/** @returns {boolean} whether a call refuses the options */
function isRefused(kind, given, scope, isTogether) {
  const { as, several, fixed = {} } = KINDS[kind];
  const isDefault = (name) => !kind.includes('.') && given[name] === DEFAULTS[name];
  const names = Object.keys(given).filter((name) => !isDefault(name));
  if (names.some((name) => !OPTIONS[name].calls.includes(as))) return true;
  if (names.some((name) => scope.lacks[name] && isGiven(given, name))) return true;
  if (KINDS[kind].form === 'sync' && scope.lacks.sync) return true;
  const options = { ...given, ...fixed };
  const excludes = (name) => (OPTIONS[name].not ?? []).some((other) => isGiven(options, other));
  if (names.some((name) => isGiven(options, name) && excludes(name))) return true;
  if (options.timeout !== undefined && options.ifAvailable && !fixed.ifAvailable) return true;
  const { limit, weight, mode = 'exclusive', steal, keep } = options;
  if (steal && mode !== 'exclusive') return true;
  if (limit !== undefined && mode !== 'shared') return true;
  if (weight !== undefined && (limit === undefined || weight > limit)) return true;
  if (kind === 'acquireSync' && options.timeout === undefined && options.maxTotal === undefined)
    return true;
  if (several && isTogether && options.priority) return true;
  if (kind === 'once' && keep === undefined) return true;
  return options.holdTimeout === 0 || options.maxTotal === 0 || options.keep === 0;
}

/** A time limit, with the time that the request waited. */
const late = (ask, now) => `ERR_WEB_LOCKS_TIMEOUT ${ask.name} ${now - ask.asked}`;

const TIMERS = ['warnAt', 'waitUntil', 'holdUntil'];

/** A lock that a call asks for: one of several, or that of one term of an election. */
class Ask {
  state = 'new';
  waitUntil = NEVER;
  holdUntil = NEVER;
  warnAt = NEVER;
  warned = false;
  /** The reentrant requests that this lock serves. @type {Ask[]} */
  served = [];
  /** The lock that serves this reentrant request. @type {Ask | undefined} */
  root;

  constructor(call, name, options, asked) {
    Object.assign(this, { call, name, options, asked });
    this.mode = options.steal ? 'exclusive' : (options.mode ?? 'exclusive');
  }

  get declares() {
    return this.options.deadlock !== undefined;
  }
}

class Judge {
  /** The events of each call, by its id, in the words of programs.js. @type {string[][]} */
  logs = [];
  /** The names of the locks that a warning was given for. */
  warnings = [];
  /** The requests of each name in the order of their grants. */
  grants = new Map();
  deadlocks = 0;
  #calls = [];
  #marks = new Set();
  #asks = new Set();
  #told = [];
  /** The elections that pause. */
  #pauses = new Set();
  #closed = new Set();
  /** The end of a wait for the unlock is handled first, because that never holds the lock. */
  #model = new LockManagerModel((_agent, ask, what) =>
    this.#told[ask.call.form === 'wait' ? 'unshift' : 'push']([ask, what]),
  );

  constructor(scope, now) {
    this.scope = scope;
    this.isTogether = scope.lacks.oneByOne !== undefined;
    this.#model.keepsLimits = !scope.lacks.keptLimit;
    this.now = now;
    this.aborted = new Set();
  }

  /** @param call `{ id, kind, opening, names, modes, options, signal, work, inside }` */
  call(call) {
    this.#calls[call.id] = call;
    this.logs[call.id] = [];
    const around = call.inside?.inner ?? [];
    Object.assign(call, { asks: [], asked: this.now, pause: 50, around });
    const { kind, options, signal } = call;
    const { fixed, several } = KINDS[kind];
    call.form = KINDS[kind].form;
    const isAborted = signal !== undefined && this.aborted.has(signal);
    if (isRefused(kind, options, this.scope, this.isTogether)) {
      const isClosed = this.#closed.has(call.opening);
      const other = isAborted ? `reason ${signal}` : isClosed && CLOSED;
      return this.#settle(call, other ? `refused or ${other}` : 'refused');
    }
    call.all = { ...options, ...fixed };
    if (isAborted) return this.#settle(call, `reason ${signal}`);
    if (this.#closed.has(call.opening)) return this.#settle(call, CLOSED);
    if (!several) this.#ask(new Ask(call, call.names[0], call.all, this.now));
    else this.#askNext(call);
    return this.#drain();
  }

  release(id, ending) {
    this.#end(this.#calls[id], ending);
    this.#drain();
  }

  abort(signal) {
    if (this.aborted.has(signal)) return;
    this.aborted.add(signal);
    for (const call of this.#calls) {
      if (!call || call.signal !== signal || call.settled) continue;
      const waiting = call.asks.filter((ask) => ask.state === 'pending');
      if (this.#pauses.has(call)) {
        this.#pauses.delete(call);
        this.#settle(call, `reason ${signal}`);
      } else if (call.kind === 'elect' && call.asks.at(-1)?.state === 'held') {
        this.#log(call, `lost reason ${signal}`);
      } else if (waiting.length > 0 && !call.working) {
        this.#fail(call, `reason ${signal}`);
      }
    }
    this.#drain();
  }

  /** A Mutex, RWLock or Semaphore rejects its waiting requests. */
  cancel(object, reason) {
    const why = reason === undefined ? 'ERR_WEB_LOCKS_CANCELED' : `reason ${reason}`;
    for (const call of this.#calls) {
      if (call?.object === object && call.asks.some(({ state }) => state === 'pending'))
        this.#fail(call, why);
    }
    this.#drain();
  }

  /** @returns {boolean} whether the call holds the lock of this name */
  holds(id, name) {
    return this.#calls[id].asks.some((ask) => ask.name === name && ask.state === 'held');
  }

  /** @returns {boolean} whether the call could publish; a reentrant one shares the text */
  publish(id, name, value) {
    const ask = this.#calls[id].asks.find((it) => it.name === name && it.state === 'held');
    if (!ask) return false;
    (ask.root ?? ask).data = value;
    return true;
  }

  close(opening) {
    this.#closed.add(opening);
    const own = [...this.#asks].filter(({ call }) => call.opening === opening);
    for (const { state, call } of own) {
      const hasSome = call.asks.some((other) => other.state === 'held');
      if (state === 'pending') this.#fail(call, hasSome ? 'ERR_WEB_LOCKS_LOST' : CLOSED);
    }
    for (const ask of own) if (ask.state === 'held') this.#giveUp(ask, 'ERR_WEB_LOCKS_LOST');
    this.#drain();
  }

  /** @returns {number} when the next timer is due; Infinity: never */
  get next() {
    const times = [...this.#asks].flatMap((ask) => TIMERS.map((timer) => ask[timer]));
    return Math.min(...times, ...[...this.#pauses].map(({ standsAt }) => standsAt), NEVER);
  }

  /** Fires the timers that are due by now, one after the other, with what follows from each. */
  elapse(now) {
    this.now = now;
    for (let due = this.#firstDue(); due; due = this.#firstDue()) {
      due.ask[due.timer] = NEVER;
      this.#fire(due.ask, due.timer);
      this.#drain();
    }
    for (const call of [...this.#pauses].filter(({ standsAt }) => standsAt <= now)) {
      this.#pauses.delete(call);
      this.#stand(call);
    }
    this.#drain();
  }

  #firstDue() {
    const timers = [...this.#asks].flatMap((ask) =>
      TIMERS.map((timer) => ({ ask, timer, at: ask[timer] })),
    );
    return timers.filter(({ at }) => at <= this.now).sort((a, b) => a.at - b.at)[0];
  }

  #fire(ask, timer) {
    if (timer === 'warnAt') {
      ask.warned = true;
      this.warnings.push(ask.name);
    } else if (timer === 'waitUntil' && ask.state === 'pending') {
      this.#fail(ask.call, late(ask, this.now));
    } else if (timer === 'holdUntil' && ask.state === 'held') {
      this.#holdEnds(ask);
    }
  }

  #holdEnds(ask) {
    const { holdTimeout = NEVER, maxTotal = NEVER } = ask.options;
    const option = ask.asked + maxTotal < ask.grantedAt + holdTimeout ? 'maxTotal' : 'holdTimeout';
    const waiting = ask.call.asks.find(({ state }) => state === 'pending');
    if (option === 'maxTotal' && waiting) this.#fail(ask.call, late(waiting, this.now));
    else this.#giveUp(ask, `${late(ask, ask.grantedAt)} ${this.now - ask.grantedAt} ${option}`);
  }

  #ask(ask) {
    const { call, options } = ask;
    call.asks.push(ask);
    this.#asks.add(ask);
    const root = options.reentrant && !options.steal ? this.#rootOf(ask) : undefined;
    if (root) return this.#serve(ask, root);
    const { ifAvailable, blocking, timeout, steal, maxPending } = options;
    const atOnce = Boolean(ifAvailable || blocking === false || timeout === 0);
    if (!steal && this.#waitsForItself(ask, atOnce)) {
      this.deadlocks++;
      return this.#fail(call, 'ERR_WEB_LOCKS_DEADLOCK');
    }
    const limit = ask.mode === 'shared' ? options.limit : undefined;
    const weight = ask.mode === 'shared' ? options.weight : undefined;
    const more = { limit, weight, priority: options.priority };
    if (call.form !== 'wait' || !atOnce) more.maxPending = maxPending;
    ask.model = this.#model.requestALock(
      ...[call.opening, ask, ask.name, ask.mode, atOnce, steal, more],
    );
    Object.assign(ask.model, { declares: ask.declares, inside: this.#insideOf(ask), ask });
    ask.state = 'pending';
    const isPending = this.#model.getTheLockRequestQueue(ask.name).includes(ask.model);
    if (isPending && call.form !== 'sync') this.#arm(ask);
    return undefined;
  }

  #arm(ask) {
    const { timeout = NEVER, maxTotal = NEVER, warnAfter = NEVER } = ask.options;
    ask.waitUntil = Math.max(ask.asked + Math.min(timeout, maxTotal), this.now);
    ask.warnAt = this.now + warnAfter;
  }

  #rootOf(ask) {
    for (const lock of this.#around(ask)) {
      if (lock.name !== ask.name || !lock.options.reentrant) continue;
      const root = lock.root ?? lock;
      if (lock.state === 'held' && root.state === 'held') return root;
    }
    return undefined;
  }

  /** The locks of the callbacks around a request, innermost first. */
  #around({ call }) {
    return call.around.filter(({ state }) => state === 'held');
  }

  #serve(ask, root) {
    ask.state = 'pending';
    if (root.mode === 'shared' && ask.mode === 'exclusive') {
      const { ifAvailable, blocking, timeout } = ask.options;
      const atOnce = ifAvailable || blocking === false || timeout === 0;
      this.#told.push([ask, atOnce ? 'unavailable' : 'deadlock']);
      return;
    }
    ask.root = root;
    root.served.push(ask);
    this.#told.push([ask, 'granted']);
  }

  /** The locks around a request that rejects deadlocks, as the model counts them. */
  #insideOf(ask) {
    if (!ask.declares) return [];
    const declared = this.#around(ask).filter(({ declares }) => declares);
    const taken = ask.call.asks.filter((other) => other !== ask && other.state === 'held');
    const locks = [...declared, ...taken].map((lock) => lock.root ?? lock);
    return [...new Set(locks.filter(({ declares }) => declares))].map(({ model }) => model);
  }

  #waitsForItself(ask, atOnce) {
    const { name, mode, options } = ask;
    const { limit = 0, weight = limit && 1, priority = 0 } = options;
    const isShared = mode === 'shared';
    const request = {
      ...{ ask, name, mode, priority, declares: ask.declares, inside: this.#insideOf(ask) },
      ...{ limit: isShared ? limit : 0, weight: isShared ? weight : 0 },
    };
    if (this.#model.isGrantable(request)) return false;
    if (this.#model.whyRefused(request, atOnce, options.maxPending)) return false;
    if (ask.call.kind === 'acquireSync') {
      // The request was in the queue for a moment, which is enough to set the limit of the name.
      const limit = this.#model.limits.get(name) ?? request.limit;
      if (isShared) this.#model.limits.set(name, limit);
      return true;
    }
    return ask.declares && closesACycle(this.#model, request);
  }

  /** Several names are requested one after the other, in their order. */
  #askNext(call) {
    this.#askPart(call, [...new Set(call.names)].sort()[call.asks.length]);
  }

  #askPart(call, name) {
    const { names, modes, all } = call;
    const given = names.flatMap((it, i) => (it === name ? [modes[i] ?? all.mode] : []));
    const mode = given.every((it) => it === 'shared') ? 'shared' : 'exclusive';
    const ask = new Ask(call, name, { ...all, mode }, call.asked);
    // The time limit is shared by all of them.
    if (all.timeout && call.asked + all.timeout <= this.now) ask.options.timeout = 0;
    this.#ask(ask);
  }

  #drain() {
    while (this.#told.length > 0) {
      const [ask, what] = this.#told.shift();
      const { call } = ask;
      if (what === 'granted' && ask.state === 'pending') this.#granted(ask);
      else if (what === 'stolen') this.#lose(ask, 'ERR_WEB_LOCKS_STOLEN');
      else if (what === 'unavailable' && ask.state === 'pending') this.#unavailable(ask);
      else if (what === 'deadlock') this.#fail(call, 'ERR_WEB_LOCKS_DEADLOCK');
      else if (what === 'other limit') this.#fail(call, 'refused');
      else if (what === 'queue full') this.#fail(call, 'ERR_WEB_LOCKS_QUEUE_FULL');
      else if (what === 'end') this.#end(call, ask.ending);
    }
  }

  #granted(ask) {
    const { call, options } = ask;
    const { holdTimeout = NEVER, maxTotal = NEVER, warnAfter = NEVER } = options;
    Object.assign(ask, { state: 'held', grantedAt: this.now, waitUntil: NEVER });
    ask.holdUntil = Math.min(this.now + holdTimeout, Math.max(ask.asked + maxTotal, this.now));
    if (!ask.warned) ask.warnAt = this.now + warnAfter;
    if (!ask.root) this.#noteGrant(ask);
    if (call.form === 'wait') {
      this.#giveBack(ask);
      return this.#settle(call, 'undefined');
    }
    if (KINDS[call.kind].several && call.asks.length < new Set(call.names).size) {
      return this.#askNext(call);
    }
    return this.#begin(call);
  }

  #noteGrant(ask) {
    this.grants.set(ask.name, [...(this.grants.get(ask.name) ?? []), ask]);
  }

  /** The call has everything that it asked for. */
  #begin(call) {
    call.working = true;
    if (call.form !== 'callback') {
      this.#settle(call, 'handle');
      return;
    }
    if (call.kind === 'once' && this.#marks.has(call.names[0])) {
      this.#giveBack(call.asks[0]);
      this.#settle(call, 'skipped');
      return;
    }
    this.#log(call, 'called');
    const { deadlock, reentrant } = call.options;
    const counts = deadlock !== undefined || reentrant;
    call.inner = [...(counts ? call.asks : []), ...call.around];
    if (call.work !== 'hold') this.#told.push([{ call, ending: call.work }, 'end']);
  }

  #unavailable(ask) {
    const { blocking, timeout } = ask.options;
    if (blocking === false) this.#fail(ask.call, 'ERR_WEB_LOCKS_NOT_FREE');
    else if (timeout === 0) this.#fail(ask.call, late(ask, this.now));
    else this.#fail(ask.call, ask.call.form === 'callback' ? 'called with null' : 'null');
  }

  /** The call gets nothing, and gives back the locks that it has. */
  #fail(call, why) {
    if (call.settled) return;
    this.#settle(call, why);
    for (const ask of call.asks) {
      if (ask.state === 'held') this.#giveBack(ask);
      else this.#leave(ask);
    }
  }

  #leave(ask) {
    const wasPending = ask.state === 'pending';
    ask.state = 'ended';
    this.#drop(ask);
    if (!wasPending || !ask.model) return;
    // The signal that rejects this call also granted its lock, before the call was notified.
    if (this.#model.heldLockSet.has(ask.model)) this.#model.releaseTheLock(ask.model);
    else this.#model.abortTheRequest(ask.model);
  }

  #drop(ask) {
    this.#asks.delete(ask);
  }

  #end(call, ending) {
    if (!call.working) return;
    call.working = false;
    if (call.form !== 'callback') {
      for (const ask of call.asks) if (ask.state === 'held') this.#giveBack(ask);
      return;
    }
    // The signal of a leader's lock follows the given one: then the work throws its reason.
    const isAborted = call.kind === 'elect' && this.aborted.has(call.signal);
    const why = isAborted && ending === 'loss' ? `reason ${call.signal}` : 'thrown';
    const outcome = ending === 'return' ? 'value' : why;
    const isLost = call.asks.some(({ state }) => state === 'lost');
    if (call.kind === 'elect' && isLost) return this.#endOfTerm(call, ending);
    if (call.kind === 'once' && !isLost && outcome === 'value') this.#marks.add(call.names[0]);
    call.outcome = outcome;
    for (const ask of call.asks) if (ask.state === 'held') this.#giveBack(ask);
    return this.#settleReleased(call);
  }

  /** The promise settles when every lock of the call is released. */
  #settleReleased(call) {
    if (call.settled || call.asks.some(({ state }) => state === 'held')) return;
    this.#settle(call, call.outcome);
  }

  /** A leader that lost its lock stands again when its work ends, unless the work failed. */
  #endOfTerm(call, ending) {
    if (!['return', 'loss', 'AbortError', 'LockStolenError'].includes(ending)) {
      return this.#settle(call, 'thrown');
    }
    if (call.signal !== undefined && this.aborted.has(call.signal)) {
      return this.#settle(call, `reason ${call.signal}`);
    }
    call.standsAt = this.now + call.pause;
    call.pause *= 2;
    this.#pauses.add(call);
    return undefined;
  }

  #stand(call) {
    call.asks = [];
    call.asked = this.now;
    if (this.#closed.has(call.opening)) return this.#settle(call, CLOSED);
    return this.#ask(new Ask(call, call.names[0], call.all, this.now));
  }

  /** A lock is released only after the requests that it serves have ended. */
  #giveBack(ask) {
    if (ask.served.length > 0) {
      ask.isAwaited = true;
      return;
    }
    ask.state = 'ended';
    this.#drop(ask);
    if (!ask.root) {
      this.#model.releaseTheLock(ask.model);
      return;
    }
    const { root } = ask;
    root.served = root.served.filter((other) => other !== ask);
    if (root.served.length > 0 || !root.isAwaited) return;
    this.#giveBack(root);
    if (root.call.outcome) this.#settleReleased(root.call);
  }

  /** The lock is lost, and therefore released. */
  #giveUp(ask, why) {
    const { model, root } = ask;
    this.#lose(ask, why);
    if (!root) this.#model.releaseTheLock(model);
    else if (root.state === 'held') this.#endServed(ask, root);
  }

  #endServed(ask, root) {
    root.served = root.served.filter((other) => other !== ask);
    if (root.served.length > 0 || !root.isAwaited) return;
    this.#giveBack(root);
    if (root.call.outcome) this.#settleReleased(root.call);
  }

  #lose(ask, why) {
    if (ask.state !== 'held') return;
    const { call } = ask;
    ask.state = 'lost';
    this.#drop(ask);
    const served = ask.served.splice(0);
    const isTaken = call.working || call.settled || call.outcome !== undefined;
    // The signal of a leader aborts once: by the loss, or by the signal that was given.
    const isOver = call.kind === 'elect' && this.aborted.has(call.signal);
    const hasSignal = !isOver && (call.form !== 'handle' || !call.kind.includes('.'));
    if (isTaken && hasSignal) this.#log(call, `lost ${why}`);
    if (!isTaken) this.#fail(call, why);
    else if (call.form === 'callback' && call.kind !== 'elect') this.#settle(call, why);
    for (const inner of served) this.#lose(inner, why);
  }

  #settle(call, how) {
    if (call.settled) return;
    call.settled = true;
    this.#log(call, how);
  }

  #log(call, what) {
    this.logs[call.id].push(what);
  }

  /** @returns the holders, sorted, and the waiters in their order */
  snapshot() {
    const { held, pending } = this.#model.snapshotTheLockState();
    const entry = ({ id, name, mode, limit, weight, priority }) =>
      `${name} ${mode} ${weight} of ${limit}, ${priority} ` +
      `${id.options.label ?? ''} ${JSON.stringify(id.data)}`;
    return { held: held.map(entry).sort(), pending: pending.map(entry) };
  }
}

module.exports = { Judge, isRefused };
