'use strict';

/**
 * Judges a history of requests of any engine. Each function below returns descriptions of what is
 * wrong.
 *
 * A history is an array of events in any order, with times of one clock in milliseconds:
 *
 *   call     { id, client, name, mode, kind, limit, weight, priority, maxPending, keep, group } a
 *            request was made; `kind` is 'wait', 'ifAvailable', 'steal', or 'pass' of a wait for
 *            the unlock; `keep`, in milliseconds, of `locks.once`; `group` is common to requests
 *            that were made together
 *   ticket   { id, ticket, turn } when it came into the queue, if the engine reports that, and when
 *            it was granted, by the same count (undefined: not by the server to which it came); the
 *            last one counts
 *   granted  { id, token } its callback was called
 *   unheld   { id } `lock.held` was seen to be false
 *   told     { id, reason } its signal was aborted: 'stolen', or a reason of LockLostError
 *   ended    { id } its callback has ended: the lock is about to be released
 *   settled  { id, error, ran } its promise has settled; `ran`: by `locks.once`, unless it failed
 *   aborted  { id } its caller aborted it
 *   stopped  { client }, resumed { client }, killed { client } a process
 *   guarded  { name }, unguarded { name } a user's transaction guards a lock of the name
 *   fault    {} a fault began or ended: a cut, a stop or a restart
 *   forgot   {} the server lost its data, with the marks
 *   publish  { id, n, text } a holder publishes its `n`th text, or removes it (undefined)
 *   published { id, n } the server has confirmed that
 *   read     { name, token, text, asked } a query made at `asked` showed the data of the lock with
 *            this token
 *   write    { id, name, token } a client wrote to a store that refuses older tokens
 */

const { Mutex } = require('../../lib/index.js');

/** The requests in their order, with their times; Infinity for what did not happen. */
function requestsOf(events) {
  const requests = new Map();
  for (const { type, ...event } of events) {
    if (type === 'call') requests.set(event.id, { ...event, called: event.time });
    const request = requests.get(event.id);
    if (!request || ['call', 'write', 'publish', 'published'].includes(type)) continue;
    request[type] ??= event.time;
    if (type === 'granted') request.token = event.token;
    if (type === 'ticket') Object.assign(request, { number: event.ticket, turn: event.turn });
    if (type === 'told') request.reason ??= event.reason;
    if (type === 'settled') Object.assign(request, { error: event.error, ran: event.ran });
  }
  return [...requests.values()];
}

const or = (time, other = Number.POSITIVE_INFINITY) => time ?? other;

/** When the process of each client was stopped, and could not use its locks. */
function stopsOf(events) {
  const stops = new Map();
  for (const { type, client, time } of events) {
    const ofClient = stops.get(client) ?? [];
    if (type === 'stopped' || type === 'killed')
      stops.set(client, [...ofClient, { from: time, to: Number.POSITIVE_INFINITY }]);
    if (type === 'resumed' && ofClient.length > 0) ofClient.at(-1).to = time;
  }
  return stops;
}

/** When users' transactions guarded locks. */
function guardsOf(events) {
  const guards = [];
  const open = new Map();
  for (const { type, name, time } of events) {
    if (type === 'guarded' && !open.has(name)) {
      open.set(name, { name, from: time, to: Number.POSITIVE_INFINITY });
      guards.push(open.get(name));
    } else if (type === 'unguarded' && open.has(name)) {
      open.get(name).to = time;
      open.delete(name);
    }
  }
  return guards;
}

/** The latest time at which a request that ends at `time` has left its queue, after guards. */
function leftAt(time, name, guards, within) {
  let left = time;
  for (const guard of guards) {
    if (guard.name === name && guard.from <= left + within) left = Math.max(left, guard.to);
  }
  return left + within;
}

/** When a lock may be stolen: a thief's call ends all locks that are held then. */
function stolenAt(request, ofName) {
  const thefts = ofName.filter((other) => other.kind === 'steal' && other.token > request.token);
  return Math.min(...thefts.map(({ called }) => called));
}

/** When a lock could be used: `{ request, from, to }`. */
function usesOf(request, stops, ofName) {
  const { granted, unheld, told, ended, settled } = request;
  let from = granted;
  const end = Math.min(or(unheld), or(told), or(ended), or(settled), stolenAt(request, ofName));
  const uses = [];
  for (const stop of stops.get(request.client) ?? []) {
    if (stop.to <= from || stop.from >= end) continue;
    if (stop.from > from) uses.push({ request, from, to: stop.from });
    from = Math.max(from, stop.to);
  }
  if (from < end) uses.push({ request, from, to: end });
  return uses;
}

const describe = ({ id, client, mode, token }) => `${client}'s ${mode} ${id} (token ${token})`;

/** Exclusive locks are held alone, and shared ones within their limit. */
function overlaps(requests, stops) {
  const faults = [];
  const uses = requests.flatMap((request) => usesOf(request, stops, requests));
  uses.sort((a, b) => a.from - b.from);
  let active = [];
  for (const use of uses) {
    active = active.filter(({ to }) => to > use.from);
    const { mode, limit, name } = use.request;
    for (const { request } of active) {
      if (mode === 'shared' && request.mode === 'shared') continue;
      const next = describe(use.request);
      faults.push(`${name}: ${describe(request)} is held when ${next} is granted at ${use.from}`);
    }
    active.push(use);
    const units = active.reduce((sum, { request }) => sum + (request.weight ?? 0), 0);
    if (mode === 'shared' && limit > 0 && units > limit) {
      faults.push(`${name}: ${units} of ${limit} units are held at ${use.from}`);
    }
  }
  return faults;
}

/** A wait for the unlock outlasts all locks that are held when it begins. */
function unlocks(requests, stops) {
  const granted = requests.filter((request) => request.granted !== undefined);
  const faults = [];
  for (const { id, kind, name, called, settled, error } of requests) {
    if (kind !== 'pass' || error || settled === undefined) continue;
    for (const other of granted) {
      if (other.granted > called || !usesOf(other, stops, granted).some(({ to }) => to > settled))
        continue;
      faults.push(`${name}: ${id} has waited for the unlock, and ${describe(other)} is held`);
    }
  }
  return faults;
}

/**
 * A lock granted after another one ended has a greater token, and no two have the same. The
 * notification of a theft may precede the grant of the stolen lock.
 */
function tokens(requests) {
  const faults = [];
  const known = requests
    .filter((request) => stolenAt(request, requests) > request.granted)
    .map((request) => {
      const end = Math.min(or(request.told), or(request.ended), or(request.settled));
      return { ...request, end };
    });
  for (const request of known) {
    // The notifications of shared locks that are granted together may come one after the other.
    const isAhead = ({ mode, end }) =>
      end < request.granted && (mode === 'exclusive' || request.mode === 'exclusive');
    const last = known
      .filter(isAhead)
      .reduce((one, other) => (one && one.token > other.token ? one : other), undefined);
    if (last && last.token >= request.token)
      faults.push(`${request.name}: ${describe(request)} comes after ${describe(last)}`);
  }
  for (const thief of requests.filter(({ kind }) => kind === 'steal')) {
    const isLate = ({ client, granted, token }) =>
      client === thief.client && granted > thief.granted && token < thief.token;
    for (const late of requests.filter(isLate))
      faults.push(`${late.name}: ${describe(late)} is granted after ${describe(thief)} stole it`);
  }
  const seen = new Set();
  for (const { token, mode, name } of requests) {
    if (mode === 'exclusive' && seen.has(token)) {
      faults.push(`${name}: the token ${token} comes twice`);
    }
    seen.add(token);
  }
  return faults;
}

/** Grants except thefts are ordered by priority, then by ticket: first come, first served. */
function order(requests) {
  const known = requests.filter(({ number, kind }) => number !== undefined && kind !== 'steal');
  known.sort((a, b) => a.number - b.number);
  const faults = [];
  const overtook = (one, other) =>
    faults.push(`${one.name}: ${describe(one)} overtook ${describe(other)}`);
  for (const [i, later] of known.entries()) {
    for (const earlier of known.slice(0, i)) {
      if (priorityOf(later) <= priorityOf(earlier)) {
        if (later.token <= earlier.token) overtook(later, earlier);
      } else if (later.number < earlier.turn && earlier.turn < later.turn) {
        overtook(earlier, later);
      }
    }
  }
  return faults;
}

const priorityOf = ({ priority = 0 }) => priority;

/** A run that has ended keeps others from running for `keep`; nothing else does. */
function runs(requests, events) {
  const faults = [];
  const forgot = events.filter(({ type }) => type === 'forgot').map(({ time }) => time);
  const all = requests.filter(({ keep }) => keep !== undefined);
  const over = all.filter(({ ended }) => ended !== undefined);
  // On some servers, a restart begins the time of a mark anew.
  const outlast = events.some(({ type }) => type === 'marks outlast');
  for (const done of over.filter(({ ran }) => ran)) {
    for (const again of all) {
      const isTooEarly = again.granted > done.ended && again.granted < done.ended + 0.9 * done.keep;
      const isForgotten = forgot.some((time) => time > done.ended && time < again.granted);
      if (!isTooEarly || isForgotten) continue;
      faults.push(`${done.name}: ${describe(again)} runs, though ${describe(done)} has run`);
    }
  }
  for (const none of all.filter(({ ran }) => ran === false)) {
    const why = over.find(
      ({ ended, settled, keep }) =>
        ended <= none.settled && (outlast || or(settled) + 1.1 * keep >= none.called),
    );
    if (!why) faults.push(`${none.name}: ${none.id} does not run, and nobody has`);
  }
  return faults;
}

/**
 * Each stolen lock has a thief that had not ended when the lock was requested. A theft whose
 * outcome is unknown to its client may still succeed later.
 */
function thefts(requests, all) {
  const faults = [];
  for (const stolen of requests) {
    if (stolen.reason !== 'stolen') continue;
    const thief = all.find(
      ({ kind, name, called, ended, settled, error }) =>
        kind === 'steal' &&
        name === stolen.name &&
        called <= stolen.told &&
        (/did not say whether the lock was stolen|not known whether .* stolen/.test(error) ||
          Math.min(or(ended), or(settled)) >= stolen.called),
    );
    if (!thief) faults.push(`${stolen.name}: ${describe(stolen)} was stolen by nobody`);
  }
  return faults;
}

/**
 * A request is refused for `maxPending` only if so many others waited. An aborted request waits at
 * the server until the server receives its end.
 */
function refusals(requests, guards, within) {
  const faults = [];
  for (const { id, name, called, settled, error, maxPending } of requests) {
    if (!/^QuotaExceededError/.test(error)) continue;
    const waits = ({ granted, kind, settled: end }) =>
      kind !== 'ifAvailable' && (granted ?? leftAt(or(end), name, guards, within)) >= called;
    const others = requests.filter(
      (other) => other.id !== id && other.called <= settled && waits(other),
    );
    if (others.length >= maxPending) continue;
    faults.push(`${name}: ${id} is refused, though ${others.length} of ${maxPending} wait`);
  }
  return faults;
}

/**
 * Every request settles, and a waiter is served soon after the last fault. A user's transaction
 * that guards a name delays only requests for that name (R4).
 */
function served(requests, events, guards, within) {
  const faults = [];
  const killed = new Set(events.filter(({ type }) => type === 'killed').map((e) => e.client));
  const lastFault = Math.max(
    0,
    ...events.filter(({ type }) => type === 'fault').map((e) => e.time),
  );
  // A group waits for all its names.
  const areGroups = requests.some(({ group }) => group !== undefined);
  for (const { id, client, name, called, granted, settled, aborted } of requests) {
    if (killed.has(client)) continue;
    if (settled === undefined) faults.push(`${name}: ${client}'s ${id} never settles`);
    const end = Math.min(or(granted), or(settled), or(aborted));
    const isInTheWay = (other) => areGroups || other.name === name;
    const ahead = requests.filter(
      (other) => isInTheWay(other) && other.granted < end && or(other.ended) > called,
    );
    const guarded = guards.filter(
      (guard) => isInTheWay(guard) && guard.from < end && guard.to > called,
    );
    const begin = Math.max(
      called,
      lastFault,
      ...ahead.map(({ ended = 0 }) => Math.min(ended, end)),
      ...guarded.map(({ to }) => Math.min(to, end)),
    );
    if (end - begin > within) faults.push(`${name}: ${client}'s ${id} waits ${end - begin} ms`);
  }
  return faults;
}

/**
 * A store refuses no write of a holder that was not notified of the loss of its lock, unless the
 * lock was stolen a moment ago.
 */
function fencing(events, requests) {
  const faults = [];
  const last = new Map();
  const byId = new Map(requests.map((request) => [request.id, request]));
  for (const { id, name, token, time } of events.filter(({ type }) => type === 'write')) {
    // Holders that share a lock get their tokens at the same time.
    if (byId.get(id)?.mode !== 'exclusive') continue;
    const before = last.get(name) ?? 0n;
    const { told } = byId.get(id);
    const ofName = requests.filter((request) => request.name === name);
    if (token >= before) last.set(name, token);
    else if (Math.min(or(told), stolenAt(byId.get(id), ofName)) > time) {
      faults.push(
        `${name}: ${id} writes with token ${token} after ${before}, and was not notified`,
      );
    }
  }
  return faults;
}

/**
 * Data that a query shows was published by that holder, and is not older than data confirmed when
 * the query was made, unless the server has lost that since.
 */
function data(events, requests) {
  const faults = [];
  const of = (type, id) => events.filter((event) => event.type === type && event.id === id);
  const forgot = events.filter(({ type }) => type === 'forgot');
  for (const { name, token, text, asked, time } of events.filter(({ type }) => type === 'read')) {
    const holder = requests.find((request) => request.name === name && request.token === token);
    const id = holder?.id;
    const since = Math.max(0, ...forgot.filter((one) => one.time <= time).map((one) => one.time));
    const confirmed = of('published', id).filter((one) => one.time >= since && one.time < asked);
    const last = Math.max(0, ...confirmed.map(({ n }) => n));
    const isOne = (one) => one.n >= last && one.time <= time && one.text === text;
    if ((last === 0 && text === undefined) || of('publish', id).some(isOne)) continue;
    const what = holder ? describe(holder) : `the lock with token ${token}`;
    faults.push(`${name}: a query tells ${text} of ${what}, whose text ${last} is confirmed`);
  }
  return faults;
}

/**
 * @param history the events
 * @param within milliseconds in which a waiter is served, after the last fault and when no client
 * has the lock; undefined: no limit
 * @param left counts of what is left at the end, by kind, which must be 0
 * @returns descriptions of what is wrong; none if all is well
 */
function check(history, { within, left = {} } = {}) {
  const events = [...history].sort((a, b) => a.time - b.time);
  const all = requestsOf(events);
  const stops = stopsOf(events);
  const guards = guardsOf(events);
  const faults = [];
  for (const one of new Set(all.map(({ name }) => name))) {
    const requests = all.filter(({ name }) => name === one);
    const granted = requests.filter((request) => request.granted !== undefined);
    faults.push(...overlaps(granted, stops), ...tokens(granted), ...order(granted));
    faults.push(...thefts(granted, requests), ...runs(requests, events));
    faults.push(...unlocks(requests, stops));
    faults.push(...refusals(requests, guards, within ?? 0));
  }
  faults.push(...fencing(events, all), ...data(events, all));
  if (within !== undefined) faults.push(...served(all, events, guards, within));
  for (const [what, count] of Object.entries(left)) {
    if (count !== 0) faults.push(`${count} ${what} left`);
  }
  return faults;
}

/** Records requests. `now` returns the time, `emit` receives the events. */
class Recorder {
  #now;
  #emit;
  #numbers = 0;

  constructor(now, emit) {
    this.#now = now;
    this.#emit = emit;
  }

  record(type, more) {
    this.#emit({ type, time: this.#now(), ...more });
  }

  /**
   * Makes a request and records its outcome.
   * @param client name of the client
   * @param locks its lock manager
   * @param options those of `request`; with `keep` those of `once`; `pass`: waits for the unlock
   * @param use called with the lock, its id and a promise that settles when it is lost; the lock is
   * released when the result settles
   * @returns a promise that resolves when the request has settled
   */
  async request(client, locks, name, options, use) {
    const { mode = 'exclusive', limit = 0, weight, priority, maxPending, signal, keep } = options;
    const kinds = ['steal', 'ifAvailable', 'pass'];
    const kind = kinds.find((one) => options[one]) ?? 'wait';
    const units = mode === 'shared' && limit > 0 ? (weight ?? 1) : 0;
    const more = { priority, maxPending, keep };
    const asked = { client, name, mode, kind, limit, weight: units, ...more };
    await this.#call([asked], signal, async ([id]) => {
      const callback = async (lock) => {
        if (lock) await this.#use(lock, id, use);
      };
      if (keep !== undefined) return locks.once(name, options, callback);
      if (kind === 'pass') return new Mutex(name, { locks }).waitForUnlock({ priority, signal });
      return locks.request(name, options, callback);
    });
  }

  /**
   * Requests several locks together, and records a request for each.
   * @param names different ones
   * @param options `mode`, `signal`, `steal`, `ifAvailable`
   * @param use as above, called for each lock
   */
  async requestAll(client, locks, names, { mode = 'exclusive', ...options }, use) {
    const kind = options.steal ? 'steal' : options.ifAvailable ? 'ifAvailable' : 'wait';
    const group = `${client} ${this.#numbers + 1}`;
    const common = { client, mode, kind, limit: 0, weight: 0, group };
    const calls = names.map((name) => ({ ...common, name }));
    await this.#call(calls, options.signal, (ids) => {
      const asked = names.map((name) => ({ name, mode }));
      return locks.requestAll(asked, options, async (held) => {
        if (held) await Promise.all(held.map((lock, i) => this.#use(lock, ids[i], use)));
      });
    });
  }

  async #call(calls, signal, make) {
    const ids = calls.map(({ client }) => `${client} ${++this.#numbers}`);
    for (const [i, call] of calls.entries()) {
      const id = ids[i];
      this.record('call', { id, ...call });
      signal?.addEventListener('abort', () => this.record('aborted', { id }));
    }
    let error;
    let ran;
    try {
      ran = (await make(ids))?.ran;
    } catch (reason) {
      error = `${reason?.name}: ${reason?.message}`;
    }
    for (const id of ids) this.record('settled', { id, error, ran });
  }

  async #use(lock, id, use) {
    this.record('granted', { id, token: lock.token });
    const lost = new Promise((resolve) => {
      const tell = () => {
        const { reason } = lock.signal;
        this.record('told', { id, reason: reason.reason ?? (reason.clientId && 'stolen') });
        resolve();
      };
      if (lock.signal.aborted) tell();
      else lock.signal.addEventListener('abort', tell);
    });
    try {
      await use(lock, id, lost);
    } finally {
      this.record('ended', { id });
    }
  }
}

module.exports = { Recorder, check };
