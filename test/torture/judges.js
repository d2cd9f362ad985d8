'use strict';

/**
 * Judges of a history (history.js), for every scope. Each is a generator over the history that
 * yields what is wrong: a description, and the events that show it. The judges do not use the
 * library: all they know of a lock is what its users saw, above all `held`.
 */

const { lossesIn } = require('./set.js');
const { LIMIT, away, calls, kinds } = require('./table.js');

const INFINITY = Number.POSITIVE_INFINITY;

/** Within this time a session has compared its locks with the server, or it is lost. */
const RENEWED_MS = 12_000;
/** How long a time limit of 0 may take while another process is stopped inside the mutex. */
const NONE_MS = 1000;
/** How late a time limit may end while the actor's event loop runs. */
const LATE_MS = 700;
/** How many beats an actor records in LATE_MS if its event loop runs. */
const LATE_BEATS = LATE_MS / 20;
/** Within this time all members have noticed that a file is gone. */
const HARM_MS = 3000;

function append(map, key, value) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(value);
}

/** @param {any[]} events */
function requestsOf(events) {
  const requests = new Map();
  let grants = 0;
  for (const event of events) {
    const { at, id, type } = event;
    if (type === 'asked') {
      requests.set(id, { ...event, events: [event], asked: at, holds: new Map() });
      continue;
    }
    const request = requests.get(id);
    if (!request) continue;
    request.events.push(event);
    if (type === 'granted')
      request.holds.set(event.k, { ...holdOf(request, event), number: grants++ });
    const hold = request.holds.get(event.k);
    if (type === 'ended' && hold) Object.assign(hold, { ended: at, last: event.last ?? hold.at });
    if (type === 'ended' && event.threw) request.threw = true;
    if (type === 'made') request.made = at;
    if (type === 'missed') request.missed = at;
    if (type === 'aborted') request.aborted ??= at;
    if (type === 'settled') request.settled = event;
  }
  return requests;
}

/** A lock that was certainly held from `at` to `last`. */
function holdOf(request, { k, name, mode, token, held, at, inner }) {
  const { limit, weight = 1 } = request.options;
  return {
    ...{ request, k, mode, held, at, inner, weight, last: at, ended: INFINITY },
    place: placeOf(request, name),
    token: token === undefined ? undefined : BigInt(token),
    limit: request.call.startsWith('Semaphore') ? LIMIT : limit,
  };
}

const placeOf = ({ bucket, names }, name = names[0]) => `${bucket} / ${name}`;
const isExclusive = ({ mode }) => mode === 'exclusive';
const areShared = (one, other) => !isExclusive(one) && !isExclusive(other);

/** The events of the requests of some locks. */
const linesOf = (...holds) => holds.flatMap(({ request }) => request.events);

const named = ({ request, token, mode }) => `${request.id} (${mode}, token ${token})`;

/** A history, prepared for the judges. */
class History {
  /** @param {any[]} events @param {any} promises what the scope promises: see scopes.js */
  constructor(events, promises) {
    this.events = events;
    this.promises = promises;
    this.requests = requestsOf(events);
    this.snapshots = events.filter(({ type }) => type === 'snapshot');
    this.doomed = new Map();
    for (const { type, actor, whom = actor, at } of events) {
      if (type === 'doomed') this.doomed.set(whom, Math.min(at, this.doomed.get(whom) ?? at));
    }
    /** The locks of each place, ordered by grant. */
    this.places = new Map();
    /** The requests of each place that may steal, whether or not they were granted. */
    this.thefts = new Map();
    for (const request of this.requests.values()) {
      const holds = [...request.holds.values()];
      for (const hold of holds) append(this.places, hold.place, hold);
      if (request.options.steal && !request.expected)
        append(this.thefts, placeOf(request), { request, token: holds[0]?.token });
    }
    // In simulated time, several callbacks run at the same `at`.
    for (const holds of this.places.values()) holds.sort((one, other) => one.number - other.number);
    /** The lines of sets (set.js). */
    this.lines = events.flatMap(({ type, lines }) => (type === 'sets' ? lines : []));
    this.lostSessions = events.filter(({ type }) => type === 'session lost');
    this.harms = events.filter(({ type }) => type === 'harm').map(({ at }) => at);
    /** The times in which a process or a server was stopped. */
    this.stops = events
      .filter(({ type }) => type === 'stopped')
      .map(({ at, whom }) => {
        const isEnd = (one) => one.type === 'resumed' && one.whom === whom && one.at > at;
        return [at, events.find(isEnd)?.at ?? INFINITY];
      });
    /** When each actor's event loop ran. @type {Map<string, number[]>} */
    this.beats = new Map();
    for (const { type, actor, at } of events) if (type === 'beat') append(this.beats, actor, at);
  }

  /** The losses from sets; `isSafe`: the locks of the name are never stolen. */
  *losses() {
    for (const { how, lost, by } of lossesIn(this.lines)) {
      const requests = [lost, by].map(({ element }) => this.requests.get(element.split(' ')[0]));
      const { isSafe } = kinds[requests[0].kind];
      yield { how, lost, by, isSafe, events: requests.flatMap(({ events }) => events) };
    }
  }

  /** Whether the actor's event loop kept running between two moments. */
  goesRound(actor, from, to) {
    const beats = this.beats.get(actor) ?? [];
    return beats.filter((at) => at > from && at < to).length >= LATE_BEATS;
  }

  /** Whether the machine let no actor run, although the torture had not stopped all of them. */
  isBusy(from, to) {
    return ![...this.beats.keys()].some((actor) => this.goesRound(actor, from, to));
  }

  /** Whether the torture or the machine stopped an actor between two moments. */
  isStopped(from, to) {
    return this.stops.some(([begin, end]) => begin < to && from < end) || this.isBusy(from, to);
  }

  /** Whether an actor, or its process, was about to end. */
  isDoomed(actor, at = INFINITY) {
    const [process] = actor.split('.');
    return [actor, process].some((whom) => this.doomed.get(whom) < at);
  }

  /** Whether the session that made a request was lost before the grant. */
  isAskedAgain({ actor, asked, bucket }, granted) {
    return this.lostSessions.some(
      (one) => one.actor === actor && one.bucket === bucket && asked < one.at && one.at < granted,
    );
  }

  /**
   * When another actor may have stolen the lock, which its holder cannot know at once. In a
   * cluster, each bucket object is a session of its own, too.
   */
  stolenAt(hold) {
    let at = INFINITY;
    for (const { request, token } of this.thefts.get(hold.place) ?? []) {
      const areMaybeApart = request.facts.isClosing || hold.request.facts.isClosing;
      const isOthers =
        request.actor !== hold.request.actor || (this.promises.losses && areMaybeApart);
      if (isOthers && (token === undefined || token > hold.token)) at = Math.min(at, request.asked);
    }
    return at;
  }

  /** Until when the lock was certainly held, as far as its holder could know. */
  endOf(hold) {
    return Math.min(hold.last, this.stolenAt(hold));
  }

  /** Whether two members may have had different files at some time between two moments. */
  isHarmed(from, to) {
    return this.harms.some((at) => at < to && from < at + HARM_MS);
  }

  /** Whether both moments follow a harm so soon that two members may have had different files. */
  isBetween(from, to) {
    return this.harms.some((at) => at < from && to < at + HARM_MS);
  }
}

/** Whether one lock serves both requests. A function that releases has no token. */
const isSame = (one, other) =>
  one.request.actor === other.request.actor &&
  (one.token === other.token || Boolean(one.inner || other.inner));

/** An exclusive lock is held alone, and the units of shared locks stay within their limit. */
function* exclusion(history) {
  for (const [place, holds] of history.places) {
    let active = [];
    for (const hold of holds) {
      const end = history.endOf(hold);
      if (!hold.held || end < hold.at) continue;
      active = active.filter(({ until }) => until > hold.at);
      for (const { hold: other, until } of active) {
        if (isSame(other, hold) || areShared(other, hold)) continue;
        if (history.isBetween(hold.at, Math.min(until, end))) continue;
        const what = `${place}: ${named(other)} is held when ${named(hold)} is granted`;
        yield { what, events: linesOf(other, hold) };
      }
      active.push({ hold, until: end });
      // A request that another lock serves takes no units.
      const all = active.map((one) => one.hold).filter(({ inner }) => !inner);
      const sum = all.reduce((total, { limit, weight }) => total + (limit ? weight : 0), 0);
      if (hold.limit && !hold.inner && sum > hold.limit && !history.isHarmed(hold.at, hold.last))
        yield { what: `${place}: ${sum} of ${hold.limit} units are held`, events: linesOf(...all) };
    }
  }
}

/** A lock granted after another one ended has a greater token, and no token occurs twice. */
function* tokens(history) {
  const greater = (one, other) => (one && one.token > other.token ? one : other);
  for (const [place, holds] of history.places) {
    const known = holds.filter(({ token }) => token !== undefined);
    const fair = known.filter((hold) => hold.held && history.stolenAt(hold) > hold.at);
    const byEnd = fair.filter(({ ended }) => ended < INFINITY).sort((a, b) => a.ended - b.ended);
    let i = 0;
    let greatest;
    let greatestAlone;
    for (const hold of fair) {
      for (; i < byEnd.length && byEnd[i].ended < hold.at; i++) {
        greatest = greater(greatest, byEnd[i]);
        if (isExclusive(byEnd[i])) greatestAlone = greater(greatestAlone, byEnd[i]);
      }
      // Shared locks that are granted together may reach their users in any order.
      const before = isExclusive(hold) ? greatest : greatestAlone;
      if (!before || before.token < hold.token) continue;
      const isInner = before.token === hold.token && before.request.actor === hold.request.actor;
      if (isInner || history.isBetween(before.at, hold.at)) continue;
      const what = `${place}: ${named(hold)} comes after ${named(before)}`;
      yield { what, events: linesOf(before, hold) };
    }
    yield* twice(place, known);
  }
}

function* twice(place, holds) {
  const seen = new Map();
  for (const hold of holds) {
    const before = seen.get(hold.token);
    seen.set(hold.token, hold);
    if (!before || hold.inner || before.inner || areShared(before, hold)) continue;
    const what = `${place}: the token ${hold.token} comes twice`;
    yield { what, events: linesOf(before, hold) };
  }
}

/** Whether the request is for one name, and queued since the call. */
const isQueued = ({ call, names, inner, options }) =>
  names.length === 1 && call !== 'elect' && !call.endsWith('All') && !inner && !options.steal;

/** Whether the token of a lock shows where its request stood in the queue. */
const hasTurn = ({ request, token, inner, k }) =>
  token !== undefined && !inner && k === 0 && isQueued(request);

/** Requests of one priority are granted first come, first served; lower ones come later. */
function* fifo(history) {
  const { order } = history.promises;
  if (!order) return;
  for (const [place, holds] of history.places) {
    const groups = new Map();
    for (const hold of holds.filter(hasTurn)) {
      const { actor, facts } = hold.request;
      append(groups, order === 'all' ? '' : `${actor} ${facts.isClosing ?? ''}`, hold);
    }
    for (const group of groups.values()) yield* overtaken(place, group);
  }
}

const priorityOf = ({ request }) => request.options.priority ?? 0;

/** Each lock has a greater token than earlier requests of the same or a higher priority. */
function* overtaken(place, holds) {
  for (const priority of new Set(holds.map(priorityOf))) {
    const rivals = holds.filter((hold) => priorityOf(hold) >= priority);
    const own = holds.filter((hold) => priorityOf(hold) === priority);
    yield* overtakenOf(place, rivals, own);
  }
}

/** Yields each of `holds` with a smaller token than a rival whose call returned before it. */
function* overtakenOf(place, rivals, holds) {
  const madeAt = ({ request: { made = INFINITY } }) => made;
  const byMade = [...rivals].sort((one, other) => madeAt(one) - madeAt(other));
  const byAsked = [...holds].sort((one, other) => one.request.asked - other.request.asked);
  let i = 0;
  let last;
  for (const hold of byAsked) {
    for (; i < byMade.length && madeAt(byMade[i]) < hold.request.asked; i++) {
      if (!last || byMade[i].token > last.token) last = byMade[i];
    }
    if (!last || last.token <= hold.token) continue;
    const what = `${place}: ${named(hold)} overtook ${named(last)}, which was asked for first`;
    yield { what, events: linesOf(last, hold) };
  }
}

/** Callbacks of a thread are called in the order of the grants. */
function* callbacks(history) {
  if (!history.promises.callbacks) return;
  for (const [place, holds] of history.places) {
    const last = new Map();
    for (const hold of holds) {
      const { actor, facts, call } = hold.request;
      if (call !== 'request' || facts.isClosing || facts.isHostile || !hasTurn(hold)) continue;
      const before = last.get(actor);
      last.set(actor, hold);
      if (!before || before.token <= hold.token) continue;
      const what = `${place}: ${named(before)} was called back before ${named(hold)}`;
      yield { what, events: linesOf(before, hold) };
    }
  }
}

/** If its lock is stolen, a request's promise rejects, at the latest when its callback ends. */
function* notified(history) {
  for (const [place, thieves] of history.thefts) {
    for (const { request: thief, token } of thieves) {
      const [theft] = thief.holds.values();
      if (!theft || token === undefined) continue;
      for (const hold of history.places.get(place) ?? []) {
        if (!wasStolen(history, hold, theft)) continue;
        // A handle has no promise, and an elected candidate stands again.
        const { call, settled } = hold.request;
        if (call === 'elect' || calls[call].ends !== 'callback') continue;
        if (!settled || settled.error) continue;
        const what = `${place}: ${named(hold)} was stolen by ${named(theft)}, and settles well`;
        yield { what, events: linesOf(hold, theft) };
      }
    }
  }
}

/** Whether a theft certainly took the lock, early enough for its holder to be notified. */
function wasStolen(history, hold, theft) {
  if (hold.token === undefined || hold.token >= theft.token) return false;
  if (hold.request === theft.request) return false;
  // No other request had the lock in between, so the theft took this one.
  if (hold.ended <= theft.at || hold.ended === INFINITY || hold.at > theft.at) return false;
  if (history.isHarmed(hold.at, hold.ended)) return false;
  // A request that another lock serves ends on its own, here before the theft was announced.
  if (hold.inner && hold.last > theft.at) return false;
  // In a cluster, a lock may end before its session is notified of the theft.
  return !history.promises.losses || hold.ended >= theft.at + RENEWED_MS;
}

/** For each name of an error, whether a request may end with it. No other error is expected. */
const explanations = {
  thrown: ({ threw }) => threw,
  aborted: ({ aborted, events }) =>
    aborted !== undefined || events.some(({ error }) => error === 'aborted'),
  TimeoutError: ({ asked, call, options, inner, settled }, history) =>
    options.timeout !== undefined ||
    options.holdTimeout !== undefined ||
    options.maxTotal !== undefined ||
    inner !== undefined ||
    // A process was stopped inside the mutex, or just before it.
    (call === 'tryAcquireSync' && history.isStopped(asked, settled.at)),
  AbortError: ({ settled, facts, bucket, names, kind }, history) => {
    if (settled.reason === 'closed') return facts.isClosing;
    if (settled.reason === 'destroyed') return history.harms.length > 0;
    if (settled.reason) return history.promises.losses;
    const isRough = kind === 'rough' || kind === 'office';
    return isRough && names.some((name) => history.thefts.has(placeOf({ bucket }, name)));
  },
  LockError: ({ options }) => options.blocking === false,
  QuotaExceededError: ({ options }) => options.maxPending !== undefined,
  DeadlockError: ({ options, call }) =>
    options.deadlock || options.reentrant || call === 'acquireSync',
  TypeError: ({ kind, settled }) => kind === 'rough' && /limit/.test(settled.message),
  InvalidStateError: ({ actor, facts }, history) => facts.isClosing || history.isDoomed(actor),
  HostileError: ({ facts }) => facts.isHostile,
  RangeError: ({ facts, settled }) => facts.isHostile && /call stack/.test(settled.message),
};

/**
 * A file that is gone, damaged or moved is reported as lost. It is reported as unsupported only if
 * its directory had to be created in one that is missing at that moment.
 */
const isOfHarm = ({ code, message }) =>
  code !== 'ERR_WEB_LOCKS_SCOPE_UNSUPPORTED' || /parent directory must exist/.test(message);

function isExplained(request, history) {
  const { code, error } = request.settled;
  const isOfScope = code?.startsWith('ERR_WEB_LOCKS_SCOPE');
  if (isOfScope) return history.harms.length > 0 && isOfHarm(request.settled);
  if (away.includes(code) && history.promises.losses) return true;
  return explanations[error]?.(request, history);
}

/** Whether a request that the library must refuse ended as it may. */
const isRefused = ({ expected, facts, settled: { error } }) =>
  expected.includes(error) ||
  (error === 'aborted' && facts.signal === 'before') ||
  (error === 'HostileError' && facts.isHostile);

/** A server that grants reports no pause, and a quarantine is no longer than a lease. */
const isPossiblePause = ({ grantsIn }, { pause = 0 }) =>
  grantsIn === undefined || (Number.isInteger(grantsIn) && grantsIn > 0 && grantsIn <= pause);

/** An error lists at most ten holders, counts all of them, as its message does, and is frozen. */
const isPossibleList = ({ holders: [listed, count, isFrozen] = [0, 0, true], message }) =>
  isFrozen &&
  listed === Math.min(count, 10) &&
  (count < 2 || message.includes(`, and ${count - 1} more`));

/** Every error is one that the request can explain, and reports possible facts. */
function* errors(history) {
  for (const request of history.requests.values()) {
    const { settled, expected, events, id, call, options } = request;
    // The errors of an ending actor reach nobody.
    if (!settled || history.isDoomed(request.actor, settled.at)) continue;
    const { error, grantsIn, holders, message } = settled;
    const given = `${call} ${JSON.stringify(options)}`;
    if (expected) {
      if (isRefused(request)) continue;
      yield {
        what: `${id}: ${given} is not refused with ${expected}: ${error ?? 'granted'}`,
        events,
      };
      continue;
    }
    if (error === undefined) continue;
    if (!isPossiblePause(settled, history.promises))
      yield { what: `${id}: an error tells of a pause of ${grantsIn} ms`, events };
    if (!isPossibleList(settled))
      yield { what: `${id}: an error lists ${holders} holders`, events };
    if (!isExplained(request, history))
      yield {
        what: `${id}: nothing explains that ${given} fails with ${error}: ${message}`,
        events,
      };
  }
}

/** Every request settles. */
function* settles(history) {
  for (const { actor, call, id, events, settled } of history.requests.values()) {
    if (!settled && !history.isDoomed(actor))
      yield { what: `${id}: ${call} never settles`, events };
  }
}

/** Once a wait for the unlock ends, locks that were held when it began are released. */
function* unlocks(history) {
  for (const request of history.requests.values()) {
    const { asked, call, events, id, settled } = request;
    if (calls[call].ends !== 'nothing' || !settled || settled.error) continue;
    for (const hold of history.places.get(placeOf(request)) ?? []) {
      if (!hold.held || hold.at > asked || history.endOf(hold) <= settled.at) continue;
      if (history.isHarmed(hold.at, settled.at)) continue;
      const what = `${id} has waited for the unlock, and ${named(hold)} is still held`;
      yield { what, events: [...events, ...linesOf(hold)] };
    }
  }
}

/** A time limit ends in time, even if the server does not answer. */
function* late(history) {
  for (const request of history.requests.values()) {
    const { actor, asked, call, events, id, settled, holds, missed } = request;
    const { timeout } = request.options;
    if (timeout === undefined || call.endsWith('Sync') || !settled) continue;
    // The lock was granted; a loss, or a mark that was found, can come later.
    if (holds.size > 0 || missed !== undefined || settled.reason || settled.ran === false) continue;
    // Only the server knows whether the name is free.
    if (timeout === 0 && history.promises.losses) continue;
    const limit = asked + (timeout || NONE_MS);
    if (settled.at - limit < LATE_MS || !history.goesRound(actor, limit, settled.at)) continue;
    const ms = Math.round(settled.at - limit);
    yield { what: `${id}: its time limit of ${timeout} ms is ${ms} ms late`, events };
  }
}

/** If a callback of `once` ran, later ones do not; otherwise, one does. */
function* once(history) {
  if (history.promises.forgets) return;
  const byPlace = new Map();
  for (const request of history.requests.values()) {
    if (request.call === 'once') append(byPlace, placeOf(request), request);
  }
  const holdOfOnce = ({ holds }) => [...holds.values()][0];
  const endOf = (request) => holdOfOnce(request)?.ended ?? INFINITY;
  for (const [place, requests] of byPlace) {
    for (const done of requests.filter(({ settled }) => settled?.ran === true)) {
      const until = endOf(done) + 0.9 * done.options.keep;
      const again = requests.find((other) => {
        const hold = holdOfOnce(other);
        return hold && other !== done && hold.token > holdOfOnce(done).token && hold.at < until;
      });
      if (!again) continue;
      const what = `${place}: ${again.id} runs, though ${done.id} has`;
      yield { what, events: [...done.events, ...again.events] };
    }
    for (const none of requests.filter(({ settled }) => settled?.ran === false)) {
      if (requests.some((other) => endOf(other) <= none.settled.at && !other.threw)) continue;
      const what = `${place}: ${none.id} does not run, and nobody has`;
      yield { what, events: none.events };
    }
  }
}

/** A snapshot shows a possible state of locks, and a queue in the order of the grants. */
function* snapshots(history) {
  for (const snapshot of history.snapshots) {
    const events = [snapshot];
    if (!isPossiblePause(snapshot, history.promises))
      yield { what: `a snapshot tells of a pause of ${snapshot.grantsIn} ms`, events };
    for (const name of new Set([...snapshot.held, ...snapshot.pending].map((info) => info.name))) {
      const place = placeOf(snapshot, name);
      const [held, pending] = [snapshot.held, snapshot.pending].map((infos) =>
        infos.filter((info) => info.name === name),
      );
      for (const what of impossibleIn(held, pending, history))
        yield { what: `${place}: a snapshot has ${what}`, events };
      // While a server grants nothing, a theft waits ahead of all others.
      if (!history.thefts.has(place) && pending.some(isOutOfOrder))
        yield { what: `${place}: a snapshot's queue is not ordered by its priorities`, events };
      yield* overtakenLater(history, place, snapshot, pending);
    }
  }
}

const isOutOfOrder = ({ priority = 0 }, i, queue) =>
  i > 0 && priority > (queue[i - 1].priority ?? 0);

/** Yields impossible facts in a snapshot of one name. */
function* impossibleIn(held, pending, history) {
  const methodOf = ({ label }) => calls[history.requests.get(label)?.call];
  if (held.some((info) => methodOf(info)?.ends === 'nothing'))
    yield 'a lock of a request that only waits for the unlock';
  if (held.length > 1 && held.some(isExclusive)) yield 'an exclusive lock that is not alone';
  const limit = Math.max(0, ...held.map((info) => info.limit));
  const units = held.reduce((sum, { weight }) => sum + weight, 0);
  if (limit > 0 && units > limit) yield `${units} of ${limit} units`;
  if (pending.some(({ ahead }, i) => ahead !== i)) yield 'a queue with gaps';
  if (held.length === 0 && pending.length > 0 && history.promises.settled)
    yield 'a queue in front of a lock that nobody holds';
}

/**
 * Grants come in the order of a snapshot. But if a session is lost, the next one repeats its
 * requests behind all others.
 */
function* overtakenLater(history, place, snapshot, pending) {
  if (!history.promises.queue) return;
  let last;
  for (const { label } of pending) {
    const request = history.requests.get(label);
    const [hold] = request?.holds.values() ?? [];
    if (!hold || hold.place !== place || !hasTurn(hold)) continue;
    if (last && last.token > hold.token) {
      const what = `${place}: ${named(hold)} was behind ${named(last)}, and overtook it`;
      yield { what, events: [snapshot, ...linesOf(last, hold)] };
    }
    if (history.isAskedAgain(request, hold.at)) continue;
    if (!last || hold.token > last.token) last = hold;
  }
}

/** @returns what each lock published, by place and token, in the order of the calls */
function publicationsOf({ events }) {
  const all = new Map();
  const known = new Map();
  for (const event of events) {
    const { type, id, k, n, at } = event;
    const key = `${id} ${k} ${n}`;
    if (type === 'publishes') {
      known.set(key, { event, asked: at, data: event.data, done: INFINITY });
      append(all, `${placeOf(event, event.name)} ${event.token}`, known.get(key));
    } else if (type === 'published' && event.done && known.has(key)) known.get(key).done = at;
  }
  return all;
}

/** A snapshot shows what a lock last published before the query, or later data, but none older. */
function* published(history) {
  const all = publicationsOf(history);
  for (const snapshot of history.snapshots) {
    for (const { data, name } of snapshot.pending) {
      if (data === undefined) continue;
      const what = `${placeOf(snapshot, name)}: a waiter has published ${data}`;
      yield { what, events: [snapshot] };
    }
    for (const { data, label, mode, name, token } of snapshot.held) {
      const place = placeOf(snapshot, name);
      // Shared locks granted together may have one token.
      const isAnothers = (hold) => `${hold.token}` === token && hold.request.id !== label;
      if (mode === 'shared' && history.places.get(place)?.some(isAnothers)) continue;
      const own = all.get(`${place} ${token}`) ?? [];
      const last = own.findLastIndex(({ done }) => done < (snapshot.began ?? snapshot.at));
      const isPossible = (one) => one.data === data && one.asked <= snapshot.at;
      if (own.slice(Math.max(last, 0)).some(isPossible)) continue;
      if (data === undefined && last < 0) continue;
      // While a server that lost the data grants nothing, the data may be missing or older.
      const isForgotten = history.promises.forgets && snapshot.grantsIn !== undefined;
      if (isForgotten && (data === undefined || own.some(isPossible))) continue;
      // The last lines of an ending actor may be missing.
      const actor = history.requests.get(`${data}`.split(' ')[0])?.actor;
      if (actor !== undefined && history.isDoomed(actor)) continue;
      if (history.isHarmed(own[last]?.asked ?? snapshot.at, snapshot.at)) continue;
      const then = last < 0 ? 'nothing' : own[last].data;
      const what = `${place}: a snapshot has ${data} of token ${token}, which published ${then}`;
      yield { what, events: [...own.map(({ event }) => event), snapshot] };
    }
  }
}

/** What must not happen to the elements of a set (set.js). */
const harms = {
  plain: 'which was written under the lock, is overwritten by',
  fenced: 'which a fence or a guard let in, is overwritten by',
  refused: 'which was written under the lock, is refused by a fence:',
};

/**
 * An element written under the lock stays in the set, and no fence refuses it. Behind a fence, and
 * in a transaction that guards the lock, every accepted element stays.
 */
function* updates(history) {
  const held = history.events.filter((event) => event.type === 'updated' && event.held);
  const elements = new Set(held.map(({ element }) => element));
  const isSure = ({ element }) => !history.promises.losses || elements.has(element);
  for (const { how, lost, by, isSafe, events } of history.losses()) {
    if (how !== 'fenced' && !(isSafe && isSure(lost) && isSure(by))) continue;
    yield { what: `${lost.place}: ${lost.element}, ${harms[how]} ${by.element}`, events };
  }
}

/** What an actor or the round itself found wrong. An ending actor's failed calls do not count. */
function* seen(history) {
  for (const event of history.events) {
    const { actor, at, judge: name, type, what } = event;
    if (type !== 'fault' || (name === 'errors' && history.isDoomed(actor, at))) continue;
    yield { judge: name, what: `${actor}: ${what}`, events: [event] };
  }
}

/** What is found is printed in this order: a hang that was seen shows what is held. */
const judges = {
  ...{ seen, exclusion, tokens, fifo, callbacks, notified, errors, settles, unlocks, late, once },
  ...{ snapshots, published, updates },
};

/**
 * @param {any[]} events
 * @param {any} promises
 * @returns {{ judge: string, what: string, events: any[] }[]} what is wrong
 */
function judge(events, promises) {
  const history = new History(events, promises);
  return Object.entries(judges).flatMap(([name, find]) =>
    [...find(history)].map((fault) => ({ judge: name, ...fault })),
  );
}

module.exports = { History, judge };
