'use strict';

/**
 * Judges of a history (history.js), whatever scope it is of. Each is a function of the requests and
 * the events, which returns what is wrong: in words, with the events that show it. None of them
 * knows the library; all they know of a lock is what its users saw, with `held` above all.
 */

const INFINITY = Number.POSITIVE_INFINITY;

const { away, calls } = require('./table.js');

/** After so many milliseconds a session has compared what it has with its server, or is lost. */
const RENEWED_MS = 12_000;

/** How many milliseconds a limit of 0 is where another process stands still inside the tables. */
const NONE_MS = 1000;
/** How many milliseconds of an actor's own loop a time limit may be late. */
const LATE_MS = 700;
/** As many beats has an actor in that time if it goes round its loop all the time. */
const LATE_BEATS = LATE_MS / 20;

/** How long it may take until all have heard that a file is gone. */
const HARM_MS = 3000;

/** @param {any[]} events */
function requestsOf(events) {
  const requests = new Map();
  let grants = 0;
  for (const event of events) {
    const { id, type } = event;
    if (type === 'asked') {
      requests.set(id, { ...event, events: [event], asked: event.at, holds: new Map() });
      continue;
    }
    const request = requests.get(id);
    if (!request) continue;
    request.events.push(event);
    if (type === 'granted')
      request.holds.set(event.k, { ...holdOf(request, event), number: grants++ });
    const hold = request.holds.get(event.k);
    if (type === 'ended' && hold)
      Object.assign(hold, { ended: event.at, last: event.last ?? hold.at });
    if (type === 'ended' && event.threw) request.threw = true;
    if (type === 'told' && hold) Object.assign(hold, { told: event.at, error: event });
    if (type === 'made') request.made = event.at;
    if (type === 'missed') request.missed = event.at;
    if (type === 'released') request.released = event.at;
    if (type === 'aborted') request.aborted ??= event.at;
    if (type === 'settled') request.settled = event;
  }
  return requests;
}

/** The time from `at` to `last` is one in which it was surely held. */
function holdOf(request, { k, name, mode, token, held, at, inner }) {
  const { limit, weight = 1 } = request.options;
  return {
    ...{ request, k, mode, held, at, inner, weight, last: at, ended: INFINITY, told: INFINITY },
    place: `${request.bucket} / ${name}`,
    token: token === undefined ? undefined : BigInt(token),
    limit: request.call.startsWith('Semaphore') ? 4 : limit,
  };
}

const isSteal = ({ options }) => Boolean(options.steal);

/** What is told of a fault: the lines of the requests. */
const linesOf = (...holds) => holds.flatMap(({ request }) => request.events);

const named = ({ request, token, mode }) => `${request.id} (${mode}, token ${token})`;

/** A history as the judges want it. */
class History {
  /**
   * @param {any[]} events
   * @param {any} promises what the scope promises: see scopes.js
   */
  constructor(events, promises) {
    this.events = events;
    this.promises = promises;
    this.requests = requestsOf(events);
    this.doomed = new Map();
    for (const { type, actor, whom = actor, at } of events) {
      if (type === 'doomed') this.doomed.set(whom, Math.min(at, this.doomed.get(whom) ?? at));
    }
    /** By place: what was held there, by when it was granted. */
    this.places = new Map();
    for (const request of this.requests.values()) {
      for (const hold of request.holds.values()) {
        if (!this.places.has(hold.place)) this.places.set(hold.place, []);
        this.places.get(hold.place).push(hold);
      }
    }
    // In simulated time, several callbacks are called at the same time.
    for (const holds of this.places.values()) holds.sort((one, other) => one.number - other.number);
    this.thefts = this.#thefts();
    this.lostSessions = events.filter(({ type }) => type === 'session lost');
    this.harms = events.filter(({ type }) => type === 'harm').map(({ at }) => at);
    /** When somebody was stopped: from, to. */
    this.stops = events
      .filter(({ type }) => type === 'stopped')
      .map(({ at, whom }) => {
        const end = events.find(
          (one) => one.type === 'resumed' && one.whom === whom && one.at > at,
        );
        return [at, end?.at ?? INFINITY];
      });
    /** By actor: when it went round its loop. @type {Map<string, number[]>} */
    this.beats = new Map();
    for (const { type, actor, at } of events) {
      if (type !== 'beat') continue;
      if (!this.beats.has(actor)) this.beats.set(actor, []);
      this.beats.get(actor).push(at);
    }
  }

  /** Whether an actor went round its loop all the time between two moments. */
  goesRound(actor, from, to) {
    const beats = this.beats.get(actor) ?? [];
    return beats.filter((at) => at > from && at < to).length >= LATE_BEATS;
  }

  /** Whether the machine let all stand still that were not stopped by us. */
  isBusy(from, to) {
    return ![...this.beats.keys()].some((actor) => this.goesRound(actor, from, to));
  }

  /** By place: the thieves, whether they have got anything or not. */
  #thefts() {
    const thefts = new Map();
    for (const request of this.requests.values()) {
      if (!isSteal(request)) continue;
      const place = `${request.bucket} / ${request.names[0]}`;
      const [hold] = request.holds.values();
      const theft = { request, asked: request.asked, token: hold?.token };
      thefts.set(place, [...(thefts.get(place) ?? []), theft]);
    }
    return thefts;
  }

  /** Whether an actor, or its process, was about to end. */
  isDoomed(actor, at = INFINITY) {
    const [process] = actor.split('.');
    const doom = Math.min(this.doomed.get(actor) ?? INFINITY, this.doomed.get(process) ?? INFINITY);
    return doom < at;
  }

  /** Whether the session that a request was made in was lost before it was granted. */
  isAskedAgain({ actor, asked, bucket }, granted) {
    return this.lostSessions.some(
      (one) => one.actor === actor && one.bucket === bucket && asked < one.at && one.at < granted,
    );
  }

  /**
   * When a thief of another actor may have taken it: nobody can know of that at once. In a cluster
   * another bucket object is another session.
   */
  robbedAt(hold) {
    let at = INFINITY;
    for (const { request, token, asked } of this.thefts.get(hold.place) ?? []) {
      const isMaybeOther = request.facts.isClosing || hold.request.facts.isClosing;
      const isOthers =
        request.actor !== hold.request.actor || (this.promises.losses && isMaybeOther);
      if (isOthers && (token === undefined || token > hold.token)) at = Math.min(at, asked);
    }
    return at;
  }

  /** Between these times two may have different files. */
  isHarmed(from, to) {
    return this.harms.some((at) => at < to && from < at + HARM_MS);
  }

  /** Both come so soon after a harm that they may have different files. */
  isBetween(from, to) {
    return this.harms.some((at) => at < from && to < at + HARM_MS);
  }
}

/** One lock that serves several requests; a function that releases has no token. */
const isSame = (one, other) =>
  one.request.actor === other.request.actor &&
  (one.token === other.token || Boolean(one.inner || other.inner));

/** Exclusive locks are alone; the units of shared ones are within their limit. */
function exclusion(history) {
  const faults = [];
  for (const [place, holds] of history.places) {
    let active = [];
    for (const hold of holds) {
      if (!hold.held) continue;
      const end = Math.min(hold.last, history.robbedAt(hold));
      if (end < hold.at) continue;
      active = active.filter(({ until }) => until > hold.at);
      for (const { hold: other, until } of active) {
        // What serves it is the same lock.
        if (isSame(other, hold) || (other.mode === 'shared' && hold.mode === 'shared')) continue;
        if (history.isBetween(hold.at, Math.min(until, end))) continue;
        const what = `${place}: ${named(other)} is held when ${named(hold)} is granted`;
        faults.push({ what, events: linesOf(other, hold) });
      }
      active.push({ hold, until: end });
      // The units of a request that is served by another lock count for nothing.
      const all = active.map((one) => one.hold).filter(({ inner }) => !inner);
      const sum = all.reduce((total, { limit, weight }) => total + (limit ? weight : 0), 0);
      if (hold.limit && !hold.inner && sum > hold.limit && !history.isHarmed(hold.at, hold.last)) {
        const what = `${place}: ${sum} of ${hold.limit} units are held`;
        faults.push({ what, events: linesOf(...all) });
      }
    }
  }
  return faults;
}

/** A lock that is granted after another one had ended has the greater token; none comes twice. */
function tokens(history) {
  const faults = [];
  for (const [place, holds] of history.places) {
    const known = holds.filter(({ token }) => token !== undefined);
    const fair = known.filter((hold) => hold.held && history.robbedAt(hold) > hold.at);
    const byEnd = fair.filter(({ ended }) => ended < INFINITY).sort((a, b) => a.ended - b.ended);
    let i = 0;
    let greatest;
    let greatestAlone;
    const greater = (one, other) => (one && one.token > other.token ? one : other);
    for (const hold of fair) {
      for (; i < byEnd.length && byEnd[i].ended < hold.at; i++) {
        greatest = greater(greatest, byEnd[i]);
        if (byEnd[i].mode === 'exclusive') greatestAlone = greater(greatestAlone, byEnd[i]);
      }
      // Shared locks that are granted together may be heard of one after the other.
      const before = hold.mode === 'exclusive' ? greatest : greatestAlone;
      if (!before || before.token < hold.token) continue;
      const isInner = before.token === hold.token && before.request.actor === hold.request.actor;
      // For a moment there are two files: some have the new one, others not noticed it yet.
      if (isInner || history.isBetween(before.at, hold.at)) continue;
      const what = `${place}: ${named(hold)} comes after ${named(before)}`;
      faults.push({ what, events: linesOf(before, hold) });
    }
    faults.push(...twice(place, known));
  }
  return faults;
}

function twice(place, holds) {
  const faults = [];
  const seen = new Map();
  for (const hold of holds) {
    const before = seen.get(hold.token);
    seen.set(hold.token, hold);
    if (!before || hold.inner || before.inner) continue;
    if (hold.mode === 'shared' && before.mode === 'shared') continue;
    const what = `${place}: the token ${hold.token} comes twice`;
    faults.push({ what, events: linesOf(before, hold) });
  }
  return faults;
}

/** Requests of one name, whose place in the queue is that of their call. */
const isQueued = ({ call, names, inner, options }) =>
  names.length === 1 && call !== 'elect' && !call.endsWith('All') && !inner && !options.steal;

/** First come, first served, of those who have the same priority; who has less comes later. */
function fifo(history) {
  const { order } = history.promises;
  if (!order) return [];
  const faults = [];
  for (const [place, holds] of history.places) {
    const queued = holds.filter(({ request, token, inner, k }) => {
      return token !== undefined && !inner && k === 0 && isQueued(request);
    });
    const groups = new Map();
    for (const hold of queued) {
      const { actor, facts } = hold.request;
      const key = order === 'all' ? '' : `${actor} ${facts.isClosing ?? ''}`;
      groups.set(key, [...(groups.get(key) ?? []), hold]);
    }
    for (const group of groups.values()) faults.push(...overtaken(place, group));
  }
  return faults;
}

const priorityOf = ({ request }) => request.options.priority ?? 0;

/**
 * Who was made before another one was asked for, with its priority or more, has the smaller token.
 */
function overtaken(place, holds) {
  const priorities = [...new Set(holds.map(priorityOf))];
  return priorities.flatMap((priority) => {
    const rivals = holds.filter((hold) => priorityOf(hold) >= priority);
    const own = holds.filter((hold) => priorityOf(hold) === priority);
    return overtakenOf(place, rivals, own);
  });
}

/** That of `rivals` all who were made before one of `holds` was asked for, came before it. */
function overtakenOf(place, rivals, holds) {
  const faults = [];
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
    const what = `${place}: ${named(hold)} overtook ${named(last)}`;
    faults.push({ what: `${what}, which was asked for first`, events: linesOf(last, hold) });
  }
  return faults;
}

/** Within a thread callbacks come in the order of grants. */
function callbacks(history) {
  if (!history.promises.callbacks) return [];
  const faults = [];
  for (const [place, holds] of history.places) {
    const last = new Map();
    for (const hold of holds) {
      const { actor, facts, call } = hold.request;
      const isOrdinary = !hold.inner && !facts.isClosing && !facts.isHostile;
      const isPlain = isQueued(hold.request) && isOrdinary && call === 'request';
      if (!isPlain || hold.token === undefined) continue;
      const before = last.get(actor);
      last.set(actor, hold);
      if (!before || before.token <= hold.token) continue;
      const what = `${place}: ${named(before)} was called back before ${named(hold)}`;
      faults.push({ what, events: linesOf(before, hold) });
    }
  }
  return faults;
}

/** Who is robbed is told, at the latest by the promise of the request. */
function told(history) {
  const faults = [];
  for (const [place, thieves] of history.thefts) {
    const holds = history.places.get(place) ?? [];
    for (const { request: thief, token } of thieves) {
      const [theft] = thief.holds.values();
      if (!theft || token === undefined) continue;
      for (const hold of holds) {
        const { request } = hold;
        if (hold.token === undefined || hold.token >= token || request === thief) continue;
        // Nobody else has had it meanwhile, so it is this one that was robbed.
        if (hold.ended <= theft.at || hold.ended === INFINITY || hold.at > theft.at) continue;
        if (history.isHarmed(hold.at, hold.ended)) continue;
        // The end of what another lock serves asks nobody: it had not heard of the theft.
        if (hold.inner && hold.last > theft.at) continue;
        // In a cluster what ends just then may have ended first, as far as it knows.
        if (history.promises.losses && hold.ended < theft.at + RENEWED_MS) continue;
        // A handle has no promise, and a candidate stands again.
        const { call } = request;
        if (call === 'elect' || calls[call].ends !== 'callback') continue;
        if (!request.settled || request.settled.error) continue;
        const what = `${place}: ${named(hold)} was robbed by ${named(theft)}, and settles well`;
        faults.push({ what, events: linesOf(hold, theft) });
      }
    }
  }
  return faults;
}

/**
 * Why a request may end with an error: by its name, whether something explains it. What nothing
 * explains is a fault.
 */
const explanations = {
  thrown: ({ threw }) => threw,
  aborted: ({ aborted, events }) =>
    aborted !== undefined || events.some(({ error }) => error === 'aborted'),
  TimeoutError: (
    { asked, call, options: { timeout, holdTimeout, maxTotal }, inner, settled },
    { stops, isBusy },
  ) =>
    timeout !== undefined ||
    holdTimeout !== undefined ||
    maxTotal !== undefined ||
    inner !== undefined ||
    // Somebody stood still inside the tables, or just before them: we stopped it, or the machine.
    (call === 'tryAcquireSync' &&
      (stops.some(([from, to]) => from < settled.at && asked < to) || isBusy(asked, settled.at))),
  AbortError: (request, history) => isLossExplained(request, history),
  LockError: ({ options }) => options.blocking === false,
  QuotaExceededError: ({ options }) => options.maxPending !== undefined,
  DeadlockError: ({ options, call }) =>
    options.deadlock || options.reentrant || call === 'acquireSync',
  TypeError: ({ kind, settled }) => kind === 'rough' && /limit/.test(settled.message),
  InvalidStateError: ({ facts }, { doom }) => facts.isClosing || doom,
  HostileError: ({ facts }) => facts.isHostile,
  RangeError: ({ facts, settled }) => facts.isHostile && /call stack/.test(settled.message),
  NotSupportedError: () => false,
};

function isLossExplained({ settled, facts, bucket, names, kind }, history) {
  if (settled.reason === 'closed') return facts.isClosing;
  if (settled.reason === 'destroyed') return history.harms.length > 0;
  if (settled.reason) return history.promises.losses;
  // A thief, of this name.
  const isRough = kind === 'rough' || kind === 'office';
  return isRough && names.some((name) => history.thefts.has(`${bucket} / ${name}`));
}

/**
 * What is gone, damaged or in another place can be lost. It is not said to be of a kind that does not
 * work, but where the directory would have to be made in one that is just away.
 */
const isOfHarm = ({ code, message }) =>
  code !== 'ERR_WEB_LOCKS_SCOPE_UNSUPPORTED' || /parent directory must exist/.test(message);

/** Nothing is told while the server grants; a quarantine is as long as a lease at most. */
const isPossiblePause = ({ grantsIn }, { pause = 0 }) =>
  grantsIn === undefined || (Number.isInteger(grantsIn) && grantsIn > 0 && grantsIn <= pause);

/** An error lists ten holders at most, counts all, as its message does, and cannot be changed. */
const isPossibleList = ({ holders: [listed, count, isFrozen] = [0, 0, true], message }) =>
  isFrozen &&
  listed === Math.min(count, 10) &&
  (count < 2 || message.includes(`, and ${count - 1} more`));

function errors(history) {
  const faults = [];
  for (const request of history.requests.values()) {
    const { settled, expected, events, id, call, options } = request;
    // What is heard in the end of an actor is not heard by anybody.
    if (!settled || history.isDoomed(request.actor, settled.at)) continue;
    const given = `${call} ${JSON.stringify(options)}`;
    if (expected) {
      if (expected.includes(settled.error)) continue;
      if (settled.error === 'aborted' && request.facts.signal === 'before') continue;
      if (request.facts.isHostile && settled.error === 'HostileError') continue;
      const what = `${id}: ${given} is not refused with ${expected}: ${settled.error ?? 'granted'}`;
      faults.push({ what, events });
      continue;
    }
    if (settled.error === undefined) continue;
    if (!isPossiblePause(settled, history.promises))
      faults.push({ what: `${id}: an error tells of a pause of ${settled.grantsIn} ms`, events });
    if (!isPossibleList(settled))
      faults.push({ what: `${id}: an error lists ${settled.holders} holders`, events });
    const { harms, stops } = history;
    const isBusy = (from, to) => history.isBusy(from, to);
    const context = { doom: history.isDoomed(request.actor), harms, stops, isBusy };
    const scope = settled.code?.startsWith('ERR_WEB_LOCKS_SCOPE');
    if (scope && history.harms.length > 0 && isOfHarm(settled)) continue;
    if (away.includes(settled.code) && history.promises.losses) continue;
    const explain = scope ? undefined : explanations[settled.error];
    const isExplained =
      settled.error === 'AbortError' ? explain(request, history) : explain?.(request, context);
    if (isExplained) continue;
    const what = `${id}: nothing explains that ${given} fails with ${settled.error}: ${settled.message}`;
    faults.push({ what, events });
  }
  return faults;
}

/** Every request settles, and what has a handle is given back. */
function settles(history) {
  const faults = [];
  for (const request of history.requests.values()) {
    const { actor, call, id, events, settled } = request;
    if (settled || history.isDoomed(actor)) continue;
    faults.push({ what: `${id}: ${call} never settles`, events });
  }
  return faults;
}

/** What was held when somebody began to wait for the unlock is not held any more when that is over. */
function unlocks(history) {
  const faults = [];
  for (const request of history.requests.values()) {
    const { asked, bucket, call, events, id, names, settled } = request;
    if (calls[call].ends !== 'nothing' || !settled || settled.error) continue;
    for (const hold of history.places.get(`${bucket} / ${names[0]}`) ?? []) {
      const end = Math.min(hold.last, history.robbedAt(hold));
      if (!hold.held || hold.at > asked || end <= settled.at) continue;
      if (history.isHarmed(hold.at, settled.at)) continue;
      const what = `${id} has waited for the unlock, and ${named(hold)} is still held`;
      faults.push({ what, events: [...events, ...linesOf(hold)] });
    }
  }
  return faults;
}

/** A time limit is over when it is over, also where nobody answers. */
function late(history) {
  const faults = [];
  for (const request of history.requests.values()) {
    const { actor, asked, call, events, id, options, settled, holds, missed } = request;
    if (options.timeout === undefined || call.endsWith('Sync') || !settled) continue;
    // What is lost was granted: it is asked then whether the name is marked.
    if (holds.size > 0 || missed !== undefined || settled.reason) continue;
    // It had the lock, and found the name marked.
    if (settled.ran === false) continue;
    // Only the server knows whether it is free.
    if (options.timeout === 0 && history.promises.losses) continue;
    // Of none at all it is said where nobody comes in.
    const limit = asked + (options.timeout || NONE_MS);
    if (settled.at - limit < LATE_MS) continue;
    // Its thread went round its loop all the time.
    if (!history.goesRound(actor, limit, settled.at)) continue;
    const ms = Math.round(settled.at - limit);
    faults.push({
      what: `${id}: its time limit of ${options.timeout} ms is ${ms} ms late`,
      events,
    });
  }
  return faults;
}

/** Who ran keeps others from running, and nobody else does. */
function once(history) {
  if (history.promises.forgets) return [];
  const faults = [];
  const all = [...history.requests.values()].filter(({ call }) => call === 'once');
  const byPlace = new Map();
  for (const request of all) {
    const place = `${request.bucket} / ${request.names[0]}`;
    byPlace.set(place, [...(byPlace.get(place) ?? []), request]);
  }
  const endOf = ({ holds }) => [...holds.values()][0]?.ended ?? INFINITY;
  for (const [place, requests] of byPlace) {
    for (const done of requests.filter(({ settled }) => settled?.ran === true)) {
      const again = requests.find((other) => {
        const [hold] = other.holds.values();
        if (!hold || other === done) return false;
        const [own] = done.holds.values();
        return hold.token > own.token && hold.at < endOf(done) + 0.9 * done.options.keep;
      });
      if (!again) continue;
      const what = `${place}: ${again.id} runs, though ${done.id} has`;
      faults.push({ what, events: [...done.events, ...again.events] });
    }
    for (const none of requests.filter(({ settled }) => settled?.ran === false)) {
      const why = requests.find((other) => endOf(other) <= none.settled.at && !other.threw);
      if (!why)
        faults.push({
          what: `${place}: ${none.id} does not run, and nobody has`,
          events: none.events,
        });
    }
  }
  return faults;
}

/** What a snapshot tells is a state in which the locks can be. */
function snapshots(history) {
  const faults = [];
  const ids = new Map();
  for (const event of history.events) {
    if (event.type !== 'snapshot') continue;
    if (!isPossiblePause(event, history.promises))
      faults.push({ what: `a snapshot tells of a pause of ${event.grantsIn} ms`, events: [event] });
    const byName = new Map();
    const of = (name) => {
      if (!byName.has(name)) byName.set(name, { held: [], pending: [] });
      return byName.get(name);
    };
    for (const info of event.held) of(info.name).held.push(info);
    for (const info of event.pending) of(info.name).pending.push(info);
    for (const [name, { held, pending }] of byName) {
      const place = `${event.bucket} / ${name}`;
      const wrong = (what) => faults.push({ what: `${place}: ${what}`, events: [event] });
      const isCallOf = ({ label }) => calls[history.requests.get(label)?.call];
      if (held.some((info) => isCallOf(info)?.ends === 'nothing'))
        wrong('a snapshot has a lock of who only waits for the unlock');
      if (held.length > 1 && held.some(({ mode }) => mode === 'exclusive')) {
        wrong('a snapshot has an exclusive lock that is not alone');
      }
      const limit = Math.max(0, ...held.map((info) => info.limit));
      const units = held.reduce((sum, { weight }) => sum + weight, 0);
      if (limit > 0 && units > limit) wrong(`a snapshot has ${units} of ${limit} units`);
      if (pending.some(({ ahead }, i) => ahead !== i)) wrong('a snapshot has a queue with gaps');
      const isOutOfOrder = ({ priority = 0 }, i) =>
        i > 0 && priority > (pending[i - 1].priority ?? 0);
      if (pending.some(isOutOfOrder))
        wrong('a snapshot has a queue that its priorities do not order');
      if (held.length === 0 && pending.length > 0 && history.promises.settled) {
        wrong('a snapshot has a queue in front of a lock that nobody holds');
      }
      faults.push(...overtakenLater(history, ids, place, event, pending));
    }
  }
  return faults;
}

/**
 * The order of a snapshot is that of the grants. But what waits in a session that is lost is asked
 * for again, by the next one, behind all others.
 */
function overtakenLater(history, _ids, place, event, pending) {
  if (!history.promises.queue) return [];
  const faults = [];
  let last;
  for (const { label } of pending) {
    const request = history.requests.get(label);
    const [hold] = request?.holds.values() ?? [];
    if (!hold || hold.place !== place || hold.inner || hold.k !== 0) continue;
    if (!isQueued(request) || hold.token === undefined) continue;
    if (last && last.token > hold.token) {
      const what = `${place}: ${named(hold)} was behind ${named(last)}, and overtook it`;
      faults.push({ what, events: [event, ...linesOf(last, hold)] });
    }
    if (history.isAskedAgain(request, hold.at)) continue;
    if (!last || hold.token > last.token) last = hold;
  }
  return faults;
}

/** What each lock has published, by its name and token, in the order of the calls. */
function publicationsOf(history) {
  const all = new Map();
  const known = new Map();
  for (const event of history.events) {
    const { type, id, k, n } = event;
    if (type === 'publishes') {
      const key = `${event.bucket} / ${event.name} ${event.token}`;
      const list = all.get(key) ?? [];
      const publication = { event, asked: event.at, data: event.data, done: INFINITY };
      known.set(`${id} ${k} ${n}`, publication);
      all.set(key, [...list, publication]);
    } else if (type === 'published' && event.done) {
      const publication = known.get(`${id} ${k} ${n}`);
      if (publication) Object.assign(publication, { done: event.at, answer: event });
    }
  }
  return all;
}

/**
 * A snapshot tells of a lock what it has published: nothing older than what was published before the
 * snapshot was asked for.
 */
function published(history) {
  const faults = [];
  const all = publicationsOf(history);
  for (const snapshot of history.events) {
    if (snapshot.type !== 'snapshot') continue;
    for (const info of snapshot.pending) {
      if (info.data === undefined) continue;
      const what = `${snapshot.bucket} / ${info.name}: who waits for it has published ${info.data}`;
      faults.push({ what, events: [snapshot] });
    }
    for (const info of snapshot.held) {
      const place = `${snapshot.bucket} / ${info.name}`;
      const own = all.get(`${place} ${info.token}`) ?? [];
      const last = own.findLastIndex(({ done }) => done < (snapshot.began ?? snapshot.at));
      const isPossible = ({ asked, data }) => data === info.data && asked <= snapshot.at;
      if (own.slice(Math.max(last, 0)).some(isPossible)) continue;
      if (info.data === undefined && last < 0) continue;
      // Of who is about to end, the history may lack the last lines.
      const actor = history.requests.get(`${info.data}`.split(' ')[0])?.actor;
      if (actor !== undefined && history.isDoomed(actor)) continue;
      if (history.isHarmed(own[last]?.asked ?? snapshot.at, snapshot.at)) continue;
      const then = last < 0 ? 'nothing' : own[last].data;
      const what = `${place}: a snapshot tells ${info.data} of token ${info.token}, which had published ${then}`;
      faults.push({ what, events: [...own.map(({ event }) => event), snapshot] });
    }
  }
  return faults;
}

/** What actors saw themselves, and what the stage saw of them. An actor's end fails what it does. */
const seen = (history) =>
  history.events
    .filter(({ type }) => type === 'fault')
    .filter((event) => event.judge !== 'errors' || !history.isDoomed(event.actor, event.at))
    .map((event) => ({
      judge: event.judge,
      what: `${event.actor}: ${event.what}`,
      events: [event],
    }));

const judges = {
  ...{ exclusion, tokens, fifo, callbacks, told, errors, settles, unlocks, late, once },
  ...{ snapshots, published, seen },
};

/**
 * @param {any[]} events
 * @param {any} promises
 * @returns {{ judge: string, what: string, events: any[] }[]} what is wrong
 */
function judge(events, promises) {
  const history = new History(events, promises);
  return Object.entries(judges).flatMap(([name, find]) =>
    find(history).map((fault) => ({ judge: name, ...fault })),
  );
}

module.exports = { History, judge, judges };
