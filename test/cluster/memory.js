'use strict';

/**
 * An engine in memory, for tests and as an example of an adapter (docs/ADAPTERS.md). Its server has
 * a clock of its own, and can be stopped and restarted, with or without its data. Its adapter uses
 * a link that can delay, drop, repeat, stall and be cut.
 */

const {
  ENDED,
  NOT_HELD,
  NOT_MARKED,
  PASSED,
  PUBLISHED,
  QUEUED,
  QUEUE_FULL,
  UNAVAILABLE,
  busy,
  granted,
  isRequest,
  otherLimit,
} = require('../../lib/cluster/adapter.js');

const fault = (message, code) => Object.assign(new Error(message), { code });
const dead = () => fault('The session has expired.', 'ERR_WEB_LOCKS_SESSION_DEAD');
const stale = () => fault('The connection was replaced.', 'STALE');
const early = () => fault('The step before this one is not done.', 'EARLY');
const cut = () => fault('The connection was cut.', 'CUT');
const blocked = () => fault('A transaction is in the way.', 'BLOCKED');
const unwelcome = () => fault('The login is refused.', 'ERR_WEB_LOCKS_RIGHTS');

/** So many steps may be under way. */
const WINDOW = 3;

/** A hint takes so many times as long as a reply. */
const SLOWER = 3;

/** The server rejects a step with a request of this label. */
const REFUSED = 'refused';

/** A step with a request of this label never arrives, however often it is sent. */
const UNHEARD = 'unheard';

let lives = 0;
const newLife = () => `life ${++lives}`;

/** Every server follows these, unless a test takes one away: see the constructor. */
const RULES = {
  ...{ quarantine: true, connections: true, records: WINDOW, orders: true, busy: true },
  ...{ listens: true, leaps: true, priorities: true, limits: true, epochs: true },
  ...{ survives: true },
};

/** The server of the engine. Its calls are atomic, and throw `dead` or `stale`. */
class MemoryServer {
  #rules;
  #sessions = new Map();
  #names = new Map();
  /** The marks by name: `{ until, session, ref }`. */
  #marks = new Map();
  #numbers = 0;
  #tokens = 0n;
  #grantsFrom = 0;
  /** Each loss of data begins another one. */
  #life = newLife();
  /** Its own epochs, and those that clients have reported. */
  #lives = new Set(['', this.#life]);
  /** The names whose holders a user's transaction guards. */
  #guarded = new Set();
  /** The calls that wait until a guard ends. */
  #blocked = [];
  #ttl;
  #hints = [];
  /**
   * Every grant so far: `{ name, ref, clientId, session, ticket, token, turn }`. `turn` is the
   * ticket count at the grant, if the server that the request came to granted it.
   */
  log = [];
  isDown = false;
  /** Whether a replica took over, or the data was lost. */
  wasReplaced = false;
  /** How often an older server came back, without the data of the one before it. */
  #returns = 0;
  /** The only network whose calls arrive, until one of them reports what its client has seen. */
  only;

  /**
   * @param machine that the server runs on
   * @param rules for tests that take one away. `quarantine`, `connections`; `records` (R1): of so
   *   many steps; `orders` (R1); `busy` is an answer (R4); `listens` to what clients have seen.
   *   `leaps`: tokens get ahead of those that no client reports (R5). `priorities`; `limits`: the
   *   name, not its holders, keeps the limit until it is free. `epochs`: a keeper extends no lease
   *   in an epoch that its session has not seen. `survives`: a session outlives its epoch.
   */
  constructor(machine, { ttl = 10_000, ...rules } = {}) {
    this.machine = machine;
    this.#ttl = ttl;
    this.#rules = { ...RULES, ...rules };
  }

  #now() {
    return this.machine.monotonic();
  }

  /** Marks last by this clock, which a user may set. */
  #wall() {
    return this.machine.wall?.() ?? this.#now();
  }

  /** Cuts all connections, and loses the sessions and locks unless the data is kept. */
  restart({ data = true } = {}) {
    this.#cutAll();
    if (data) return;
    this.wasReplaced = true;
    this.#sessions.clear();
    this.#names.clear();
    this.#marks.clear();
    this.#begin();
  }

  /**
   * Begins another epoch, with a quarantine, as its locks may still be held. Others may have been
   * granted more tokens than any client reports, but not one each microsecond. The tokens of this
   * epoch therefore begin at the time in microseconds.
   */
  #begin(token = 0n) {
    const time = this.#rules.leaps ? BigInt(Math.floor(this.#now() * 1_000)) : 0n;
    const next = (token > this.#tokens ? token : this.#tokens) + 1_000_000n;
    this.#tokens = time > next ? time : next;
    this.#life = newLife();
    this.#lives.add(this.#life);
    if (this.#rules.quarantine) this.#grantsFrom = this.#now() + this.#ttl;
    if (this.#rules.survives) return;
    this.#sessions.clear();
    this.#names.clear();
  }

  endQuarantine() {
    this.#grantsFrom = 0;
  }

  /** A client may have seen an epoch or a token that this server does not know. */
  #hear({ life, token }) {
    this.only = undefined;
    if (!this.#rules.listens || (this.#lives.has(life) && token <= this.#tokens)) return;
    this.#lives.add(life);
    this.#begin(token);
  }

  /** Copies all data, for `restore`. */
  snapshot() {
    const sessions = [...this.#sessions].map(([id, session]) => [
      id,
      { ...session, link: undefined },
    ]);
    return structuredClone({
      names: this.#names,
      sessions: new Map(sessions),
      lives: [...this.#lives],
      ...{ tokens: this.#tokens, life: this.#life, grantsFrom: this.#grantsFrom },
    });
  }

  /**
   * Goes back to an older state of the server, which knows nothing of what happened since.
   * @param only the network of a client that knows more: its calls arrive first, because no other
   *   client can report that
   */
  restore(snapshot, only) {
    const { names, sessions, lives, tokens, life, grantsFrom } = structuredClone(snapshot);
    this.only = only;
    this.wasReplaced = true;
    this.#returns++;
    this.#cutAll();
    this.#marks.clear();
    this.#names = names;
    this.#sessions = sessions;
    this.#lives = new Set(lives);
    this.#tokens = tokens;
    this.#life = life;
    this.#grantsFrom = grantsFrom;
  }

  #cutAll() {
    for (const { link } of this.#sessions.values()) link?.cut();
  }

  /** Begins or ends a user's transaction that keeps the holders of a name. */
  guard(name, isGuarded = true) {
    if (isGuarded) {
      this.#guarded.add(name);
      return;
    }
    this.#guarded.delete(name);
    const blocked = this.#blocked;
    this.#blocked = [];
    for (const deliver of blocked) this.machine.run(deliver);
  }

  /** Delivers a call when a user's transaction ends. */
  block(deliver) {
    this.#blocked.push(deliver);
  }

  /** Whether the operation would change a lock that a user's transaction keeps. */
  #isObstructed({ kind, name }) {
    return ['end', 'steal', 'publish'].includes(kind) && this.#guarded.has(name);
  }

  /** A replica takes over that may lack the last grants, along with their requests. */
  failOver(loseMissing) {
    this.wasReplaced = true;
    this.#cutAll();
    this.#begin();
    for (const [name, queue] of this.#names) {
      queue.rows = queue.rows.filter((row) => row.token === 0n || !loseMissing(row));
      if (queue.rows.length === 0) this.#names.delete(name);
    }
  }

  open(info, ttl, seen, link) {
    this.#ttl = ttl;
    this.#hear(seen);
    const id = `s${++this.#numbers}`;
    const expires = this.#now() + ttl;
    const session = { id, info, link, connection: 1, expires, number: 0, records: [] };
    this.#sessions.set(id, { ...session, thefts: new Map() });
    return { session: id, ttl, life: this.#life };
  }

  hello(id, seen, link) {
    this.#hear(seen);
    const session = this.#alive(id);
    session.link = link;
    return ++session.connection;
  }

  #isAlive(id) {
    const session = this.#sessions.get(id);
    return session !== undefined && session.expires > this.#now();
  }

  #alive(id, connection) {
    if (!this.#isAlive(id)) throw dead();
    const session = this.#sessions.get(id);
    const isStale = connection !== undefined && session.connection !== connection;
    if (isStale && this.#rules.connections) throw stale();
    return session;
  }

  get #isQuarantined() {
    return this.#now() < this.#grantsFrom;
  }

  step(id, connection, ops, number, before) {
    const session = this.#alive(id, connection);
    if (ops.some(({ label }) => label === REFUSED)) throw fault('This cannot be.', 'REFUSED');
    const { records, orders } = this.#rules;
    const record = records && session.records.find((one) => one.number === number);
    if (record) return record.answers;
    // The step arrived after later ones.
    if (records && number < session.number) throw stale();
    if (orders && before > 0 && before !== session.number) throw early();
    if (!this.#rules.busy && ops.some((op) => this.#isObstructed(op))) throw blocked();
    session.number = number;
    const answers = this.#doAll(session, ops);
    session.records = [...session.records, { number, answers }].slice(-records);
    return answers;
  }

  #doAll(session, ops) {
    const { id } = session;
    const answers = [];
    for (let i = 0; i < ops.length; i++) {
      const { group, kind } = ops[i];
      let count = 1;
      while (group && ops[i + count]?.group === group) count++;
      const part = ops.slice(i, i + count);
      const refusals = kind === 'ifAvailable' && this.#refuseAll(session, part);
      answers.push(...(refusals || part.map((op) => this.#do(session, op))));
      i += count - 1;
    }
    const asked = new Set(ops.filter(isRequest).map(({ ref }) => ref));
    // Hints leave out what the answers say.
    const isAnswered = ({ ref, token }) =>
      asked.has(ref) && answers.some((answer) => token && answer.token === token);
    this.#send((hint) => hint.to !== id || !isAnswered(hint));
    return answers;
  }

  /** Answers a group if one of its requests is refused; undefined if none is. */
  #refuseAll(session, ops) {
    for (const { name } of ops) this.#bury(name);
    const refusals = ops.map((op) => this.#refuse(session, op));
    if (refusals.every((answer) => answer === undefined)) return undefined;
    return refusals.map((answer) => answer ?? UNAVAILABLE);
  }

  #find(id, op) {
    const { kind, name, ref } = op;
    const rows = this.#rowsOf(name);
    // Most requests are new, and come after the last row; thefts do not.
    const last = rows.at(-1);
    const isLast = kind !== 'steal' && last && !isBefore(op, last);
    if (isLast && last.session === id && last.ref < ref) return undefined;
    return rows.find((row) => row.session === id && row.ref === ref);
  }

  #do(session, op) {
    if (this.#isObstructed(op)) return busy();
    if (op.kind === 'end') return this.#end(session, op);
    if (op.kind === 'publish') return this.#publish(session, op);
    this.#bury(op.name);
    const known = this.#find(session.id, op);
    if (known) return known.token ? granted(known.token) : QUEUED;
    const refusal = this.#refuse(session, op);
    if (refusal) return refusal;
    const queue = this.#names.get(op.name) ?? { rows: [], limit: undefined };
    if (passes(op) && this.#fits(queue.rows.slice(0, placeIn(queue.rows, op)), op)) return PASSED;
    this.#names.set(op.name, queue);
    const row = {
      ...op,
      priority: this.#rules.priorities ? op.priority : 0,
      session: session.id,
      clientId: session.info.clientId,
      ticket: ++this.#numbers,
      token: 0n,
      asked: this.#now(),
      returns: this.#returns,
      granted: 0,
    };
    if (op.kind === 'steal') this.#handleTheft(queue, row);
    else queue.rows.splice(placeIn(queue.rows, row), 0, row);
    if (op.mode === 'shared') queue.limit ??= op.limit;
    this.#process(op.name);
    return row.token ? granted(row.token) : QUEUED;
  }

  #handleTheft(queue, thief) {
    const held = queue.rows.filter(({ token }) => token);
    for (const row of held) this.#tellOfLoss(row, thief.clientId);
    queue.rows = [thief, ...queue.rows.filter(({ token }) => !token)];
  }

  /** Keeps the theft until its session confirms it, as a hint may get lost. */
  #tellOfLoss({ session, ref }, thief) {
    this.#sessions.get(session)?.thefts.set(ref, thief);
    this.#hint(session, { ref, thief });
  }

  #refuse(session, op) {
    const { kind, mode, limit, maxPending } = op;
    const queue = this.#names.get(op.name);
    if (kind === 'steal' || this.#find(session.id, op)) return undefined;
    const rows = queue?.rows ?? [];
    const its = this.#rules.limits
      ? queue?.limit
      : rows.find((row) => row.mode === 'shared')?.limit;
    if (mode === 'shared' && (its ?? limit) !== limit) return otherLimit(its);
    if (this.#fits(rows.slice(0, placeIn(rows, op)), op)) return undefined;
    if (kind === 'ifAvailable' || kind === 'passIfAvailable') return UNAVAILABLE;
    if (maxPending < 0) return undefined;
    const pending = rows.filter(({ token }) => !token).length;
    return pending >= maxPending ? QUEUE_FULL : undefined;
  }

  /** Whether a request is granted behind these rows. */
  #fits(rows, { mode, limit, weight }) {
    if (this.#isQuarantined) return false;
    if (rows.length === 0) return true;
    if (!rows.at(-1).token) return false;
    const areShared = rows.every((row) => row.token && row.mode === 'shared');
    if (!areShared || mode !== 'shared') return false;
    return limit === 0 || rows.reduce((sum, row) => sum + row.weight, weight) <= limit;
  }

  #end(session, { ref, name, markFor }) {
    const isMissed = markFor > 0 && !this.#mark(session, ref, name, markFor);
    const names = name === undefined ? [...this.#names.keys()] : [name];
    for (const one of names)
      this.#remove(one, (row) => row.session === session.id && row.ref === ref);
    return isMissed ? NOT_MARKED : ENDED;
  }

  #rowsOf(name) {
    return this.#names.get(name)?.rows ?? [];
  }

  #heldBy(id, ref, name) {
    return this.#rowsOf(name).find((row) => row.token && row.session === id && row.ref === ref);
  }

  #publish({ id }, { ref, name, data }) {
    const row = this.#heldBy(id, ref, name);
    if (!row) return NOT_HELD;
    row.data = data;
    return PUBLISHED;
  }

  /** Whether the name is marked, by the holder now or by the same operation before. */
  #mark({ id }, ref, name, markFor) {
    if (this.#heldBy(id, ref, name))
      this.#marks.set(name, { until: this.#wall() + markFor, session: id, ref });
    const mark = this.#marks.get(name);
    return mark?.session === id && mark.ref === ref;
  }

  #remove(name, isGone) {
    const queue = this.#names.get(name);
    const rows = queue?.rows.filter((row) => !isGone(row));
    if (!rows || rows.length === queue.rows.length) return;
    queue.rows = rows;
    this.#process(name);
  }

  get #hasDead() {
    for (const id of this.#sessions.keys()) if (!this.#isAlive(id)) return true;
    return false;
  }

  /** Drops dead sessions from the queue, and grants what a quarantine had delayed. */
  #bury(name) {
    if (this.#names.has(name)) this.#process(name);
  }

  /** @param hasDead whether there may be rows of dead sessions */
  #process(name, hasDead = this.#hasDead) {
    const queue = this.#names.get(name);
    if (hasDead) queue.rows = queue.rows.filter((row) => this.#isAlive(row.session));
    if (queue.rows.length === 0) this.#names.delete(name);
    for (let i = 0; i < queue.rows.length; i++) {
      const row = queue.rows[i];
      if (row.token) continue;
      if (!this.#fits(queue.rows.slice(0, i), row)) return;
      if (passes(row)) {
        queue.rows.splice(i--, 1);
        if (queue.rows.length === 0) this.#names.delete(name);
        this.#tellOfLoss(row, '');
        continue;
      }
      row.token = ++this.#tokens;
      row.granted = this.#now();
      const { clientId, ref, ticket, token, session } = row;
      const returns = this.#returns;
      const turn = row.returns === returns ? ++this.#numbers : undefined;
      this.log.push({ name, clientId, ref, session, ticket, token, turn, returns });
      this.#hint(session, { ref, token });
    }
  }

  #hint(session, hint) {
    this.#hints.push({ to: session, ...hint });
  }

  #send(isWanted = () => true) {
    const hints = this.#hints.filter(isWanted);
    this.#hints = [];
    for (const { to, ...hint } of hints) this.#sessions.get(to)?.link?.push(hint);
  }

  marked(name) {
    const now = this.#wall();
    for (const [one, { until }] of this.#marks) if (until <= now) this.#marks.delete(one);
    return this.#marks.has(name);
  }

  /** @param told refs of thefts that earlier answers have reported to the caller */
  renew(id, connection, seen, told) {
    this.#hear(seen);
    const life = this.#life;
    const nothing = { mine: new Map(), nextExpiryIn: Number.POSITIVE_INFINITY, grantsIn: 0, life };
    if (!this.#isAlive(id)) return { alive: false, ...nothing };
    const session = this.#alive(id, connection);
    session.expires = this.#now() + this.#ttl;
    for (const ref of told) session.thefts.delete(ref);
    const mine = new Map();
    for (const { rows } of this.#names.values()) {
      for (const row of rows) if (row.session === id) mine.set(row.ref, row.token);
    }
    const others = [...this.#sessions.values()].filter((other) => other !== session);
    const nextExpiryIn = Math.min(...others.map(({ expires }) => expires)) - this.#now();
    return {
      alive: true,
      ...{ mine, nextExpiryIn, life },
      stolen: new Map(session.thefts),
      grantsIn: Math.max(this.#grantsFrom - this.#now(), 0),
      step: session.number,
    };
  }

  /** Extends a lease without the connection of its session, as a keeper does. */
  extend(id, seen) {
    const isSeen = seen.life === this.#life && seen.token <= this.#tokens;
    if (this.#rules.epochs && !isSeen) return false;
    const session = this.#alive(id);
    session.expires = this.#now() + this.#ttl;
    return true;
  }

  sweep() {
    for (const id of [...this.#sessions.keys()]) if (!this.#isAlive(id)) this.#sessions.delete(id);
    for (const name of [...this.#names.keys()]) this.#process(name, true);
    this.#send();
  }

  close(id) {
    this.#sessions.delete(id);
    this.sweep();
  }

  /** Ends a lease, as time would. */
  expire(id) {
    this.#sessions.get(id).expires = this.#now();
  }

  query(name, which) {
    const now = this.#now();
    const entries = [];
    for (const [one, { rows }] of this.#names) {
      if (name !== undefined && one !== name) continue;
      for (const row of rows) {
        const { ref, mode, token, label, limit, weight, priority, data, session } = row;
        if (!this.#isAlive(session) || (which === 'held' && !token)) continue;
        const { version: _, ...info } = this.#sessions.get(session).info;
        const waited = (token ? row.granted : now) - row.asked;
        const held = token ? now - row.granted : 0;
        const its = { mode, token, label, limit, weight, priority, data, waited, held };
        entries.push({ ref, name: one, ...its, ...info });
      }
    }
    return entries;
  }

  /** Lists requests that were granted more than once, which R1 forbids even for resent steps. */
  get twice() {
    const seen = new Set();
    return this.log.filter(({ session, ref, returns }) => {
      const size = seen.size;
      return seen.add(`${session} ${ref} ${returns}`).size === size;
    });
  }

  /** Counts the sessions and requests that are left. */
  get left() {
    const rows = [...this.#names.values()].flatMap((queue) => queue.rows);
    const sessions = [...this.#sessions.keys()].filter((id) => this.#isAlive(id));
    return { sessions: sessions.length, rows: rows.length };
  }
}

/**
 * A connection. Messages in one direction arrive in order. A cut connection may still deliver what
 * was on its way to the server.
 */
class Link {
  #network;
  #isOpen = true;
  #arrival = 0;
  #replies = 0;
  #hints = 0;
  /** Rejects the calls that are not answered. */
  #waiting = new Set();
  onHint = () => {};
  onDown = () => {};

  constructor(network) {
    this.#network = network;
  }

  /**
   * Calls the server; the promise settles with its answer.
   * @param isLong whether the call never arrives, as if it were too long
   */
  call(work, isLong = false) {
    const { server, world } = this.#network;
    return new Promise((resolve, reject) => {
      if (!this.#isOpen || this.#network.isCut) {
        reject(cut());
        return;
      }
      this.#waiting.add(reject);
      const deliver = () => {
        if (server.isDown || (server.only && server.only !== this.#network)) return;
        const reply = answerOf(work);
        if (reply.error?.code === 'BLOCKED') {
          server.block(deliver);
          return;
        }
        this.#deliver(() => {
          if (!this.#waiting.delete(reject)) return;
          if (reply.error) reject(reply.error);
          else resolve(reply.value);
        });
      };
      const fate = this.#network.fate('call');
      this.#arrival = Math.max(this.#arrival, world.now + fate.delay);
      const wait = this.#arrival - world.now;
      if (!fate.isLost && !isLong) world.after(wait, () => server.machine.run(deliver));
      if (fate.isTwice && !isLong) world.after(wait, () => server.machine.run(deliver));
    });
  }

  /** Sends a hint, which is slower than replies: some engines use another connection for hints. */
  push(hint) {
    const { world } = this.#network;
    const { delay, isLost, isTwice } = this.#network.fate('reply');
    if (isLost) return;
    this.#hints = Math.max(this.#hints, world.now + SLOWER * delay);
    for (let times = isTwice ? 2 : 1; times > 0; times--)
      this.#arriveAt(this.#hints, () => this.onHint(hint));
  }

  /** Sends from the server to the process. */
  #deliver(arrive) {
    const { delay, isLost } = this.#network.fate('reply');
    if (isLost) return;
    this.#replies = Math.max(this.#replies, this.#network.world.now + delay);
    this.#arriveAt(this.#replies, arrive);
  }

  #arriveAt(time, arrive) {
    const { machine, world } = this.#network;
    world.after(time - world.now, () => {
      machine.run(() => {
        if (this.#isOpen) arrive();
      });
    });
  }

  /** Closes the connection, so that no more answers arrive. */
  close() {
    this.#isOpen = false;
    this.#waiting.clear();
    this.#network.links.delete(this);
  }

  cut() {
    if (!this.#isOpen) return;
    const waiting = [...this.#waiting];
    this.close();
    this.#network.machine.run(() => {
      for (const reject of waiting) reject(cut());
      this.onDown(cut());
    });
  }
}

/** Whether a request enters the queue before a row, which waits with less priority. */
const isBefore = ({ priority }, row) =>
  !row.token && row.kind !== 'steal' && row.priority < priority;

/** Whether a request ends as soon as it is granted. */
const passes = ({ kind }) => kind === 'pass' || kind === 'passIfAvailable';

function placeIn(rows, op) {
  let place = rows.length;
  while (place > 0 && isBefore(op, rows[place - 1])) place--;
  return place;
}

function answerOf(work) {
  try {
    return { value: work() };
  } catch (error) {
    return { error };
  }
}

/** The network of a process, and its faults. */
class Network {
  links = new Set();
  /** If it is cut, no message can be sent. */
  isCut = false;
  /** If it is refused, the server rejects new connections. */
  isRefused = false;
  /** Messages of a direction that is dropped are lost, without notice. */
  drops = { call: false, reply: false };
  /** The time that a message takes each way, in milliseconds. */
  delay = 1;
  /** A step with more operations does not arrive. */
  most = Number.POSITIVE_INFINITY;
  /** Whether there was a time in which no step arrived. */
  wasClosed = false;
  /** If it is set, each call arrives twice. */
  isTwice = false;
  /** The epoch of the last answer, if that reports one. */
  life = '';
  /** The fate of the next message: `{ delay, isLost, isTwice }`. */
  fate = (direction) => ({
    delay: this.delay,
    isLost: this.drops[direction],
    isTwice: this.isTwice,
  });

  constructor(world, machine, server) {
    this.world = world;
    this.machine = machine;
    this.server = server;
  }

  connect() {
    const link = new Link(this);
    this.links.add(link);
    return link;
  }

  cut() {
    for (const link of [...this.links]) link.cut();
  }

  /** Cuts all connections; no message can be sent until `isCut` is false. */
  away() {
    this.isCut = true;
    this.cut();
  }
}

class MemoryAdapter {
  id = 'memory';
  can;
  events;
  #network;
  #server;
  #session = '';
  #connection = 1;
  #link;
  /** Refs of the thefts that the last renewal reported. */
  #told = [];

  /** @param window how many steps may be under way */
  constructor(network, window = WINDOW) {
    this.can = { limits: true, groups: true, marks: true, priorities: true, data: true, window };
    this.#network = network;
    this.#server = network.server;
  }

  #connect() {
    this.#link?.close();
    this.#told = [];
    const link = this.#network.connect();
    this.#link = link;
    link.onHint = ({ ref, token, thief }) => {
      if (token) this.events.granted(ref, token);
      else this.events.stolen(ref, thief);
    };
    return link;
  }

  async open(info, ttl, seen) {
    const opened = await this.#connectBy((link) => this.#server.open(info, ttl, seen, link));
    this.#network.life = opened.life;
    this.#session = opened.session;
    this.#connection = 1;
    return opened;
  }

  async hello(seen) {
    const session = this.#session;
    this.#connection = await this.#connectBy((link) => this.#server.hello(session, seen, link));
  }

  /** Replaces the connection, and makes its first call. */
  async #connectBy(call) {
    if (this.#network.isRefused) throw unwelcome();
    const link = this.#connect();
    const answer = await link.call(() => call(link));
    if (link !== this.#link) throw cut();
    link.onDown = (error) => this.events.down(error);
    return answer;
  }

  step(ops, number, before) {
    const [session, connection] = [this.#session, this.#connection];
    const isLong = ops.length > this.#network.most || ops.some(({ label }) => label === UNHEARD);
    const work = () => this.#server.step(session, connection, ops, number, before);
    return this.#link.call(work, isLong);
  }

  async renew(seen) {
    const [session, connection] = [this.#session, this.#connection];
    const [link, told] = [this.#link, this.#told];
    const renewal = await link.call(() => this.#server.renew(session, connection, seen, told));
    if (link === this.#link) this.#told = [...(renewal.stolen?.keys() ?? [])];
    this.#network.life = renewal.life;
    return renewal;
  }

  keeperTicket() {
    return this.#session;
  }

  async extend(ticket, seen) {
    if (this.#network.isRefused) throw unwelcome();
    const link = this.#link ?? this.#connect();
    link.onDown = () => {
      if (this.#link === link) this.#link = undefined;
    };
    return link.call(() => this.#server.extend(ticket, seen));
  }

  sweep() {
    return this.#link.call(() => this.#server.sweep());
  }

  close(session) {
    return this.#link.call(() => this.#server.close(session));
  }

  query(name, which) {
    return this.#link.call(() => this.#server.query(name, which));
  }

  marked(name) {
    return this.#link.call(() => this.#server.marked(name));
  }

  async dispose() {
    this.#link?.close();
  }

  classify({ code }) {
    if (code === 'ERR_WEB_LOCKS_SESSION_DEAD') return 'dead';
    if (code === 'REFUSED') return 'refused';
    if (code === 'MISUSE') return 'misuse';
    return code === 'FATAL' || code === 'ERR_WEB_LOCKS_RIGHTS' ? 'fatal' : 'retry';
  }
}

module.exports = { MemoryAdapter, MemoryServer, Network, WINDOW };
