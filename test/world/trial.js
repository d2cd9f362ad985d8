'use strict';

/**
 * Runs clients and a server in memory, to which every kind of fault happens. A trial does its
 * actions one after the other, in the world's time; then all faults end, every request is served,
 * and the history is judged.
 */

const { Recorder, check } = require('./check.js');
const { WINDOW } = require('../cluster/memory.js');
const { Cluster, MAX_BLOCKED, TTL } = require('../cluster/setup.js');

class Trial {
  events = [];
  open = new Set();
  /** How many requests never arrive; each keeps others waiting until a lease ends. */
  unheard = 0;
  /** How many faults began or ended, not counting event loops that were blocked. */
  harms = 0;
  /** How many texts were published with each request. */
  published = new Map();
  /** The client of each publication without an answer, by its promise. */
  unanswered = new Map();
  /** The broken promises of keepers and publications, as sentences. */
  unkept = [];

  /**
   * @param rates how fast the clocks of the server and the clients go
   * @param options `server`, and `rules`, `clock` and `wrap` of the clients, take a rule away;
   *   `keeper` and `maxBlocked` do so for the first client, which has a keeper; `patience` limits
   *   how long the end of the trial waits for all requests; `kept` counts requests that are left
   */
  constructor(
    rates,
    { server = {}, random, patience = 1000 * TTL, keeper = true, maxBlocked, ...more } = {},
  ) {
    const { kept, ...ofClients } = more;
    Object.assign(this, { patience, kept });
    this.ofClients = ofClients;
    this.cluster = new Cluster({ server, clock: { rate: rates[0] }, random });
    this.world = this.cluster.world;
    this.recorder = new Recorder(
      () => this.world.now,
      (event) => {
        this.events.push(event);
        if (event.ran) this.#expectMark(event.id);
      },
    );
    for (const [i, rate] of rates.slice(1).entries()) {
      const clock = { ...ofClients.clock, rate };
      const kept = { keeper: keeper && i === 0, maxBlocked };
      this.cluster.start({ ...ofClients, ...kept, window: WINDOW - i, clock });
    }
  }

  /** A function that has run once has marked its name, by when its promise resolves. */
  #expectMark(id) {
    const { server } = this.cluster;
    const of = (type) => this.events.find((event) => event.type === type && event.id === id);
    const { name, keep } = of('call');
    const isOver = this.world.now >= of('ended').time + 0.9 * keep;
    if (!isOver && !server.wasReplaced && !server.marked(name))
      this.unkept.push(`${name}: ${id} has run, and is not marked`);
  }

  fault() {
    this.harms++;
    this.recorder.record('fault', {});
  }

  client(i) {
    return this.cluster.clients[i % this.cluster.clients.length];
  }

  /** Requests a lock and holds it for this duration, unless it is lost before. */
  request(i, name, options, duration) {
    const client = this.client(i);
    if (client.isKilled) return;
    const use = this.#user(client, name, duration);
    this.recorder.request(client.name, client.locks, name, options, use);
  }

  requestAll(i, names, options, duration) {
    const client = this.client(i);
    if (client.isKilled) return;
    const use = (lock, id, lost) => this.#user(client, lock.name, duration)(lock, id, lost);
    this.recorder.requestAll(client.name, client.locks, names, options, use);
  }

  #user(client, name, duration) {
    return async (lock, id, lost) => {
      const one = { client, lock, id, seen: true };
      this.open.add(one);
      let isOver = false;
      const end = () => {
        isOver = true;
      };
      const over = new Promise((resolve) => {
        one.finish = () => client.machine.run(resolve);
        this.world.after(duration, one.finish);
      });
      await Promise.race([over, lost.then(end)]);
      if (!isOver && lock.held) {
        this.recorder.record('write', { id, name, token: lock.token });
      }
      this.open.delete(one);
    };
  }

  /** A client waits for a name, and steals it about when its holders have released it. */
  overtake(i, name, ms, duration) {
    this.request(i, name, {}, duration);
    this.world.after(20, () => {
      for (const { lock, finish } of this.open) if (lock.name === name) finish();
      this.world.after(ms % 4, () => this.request(i, name, { steal: true }, duration));
    });
  }

  /** Records which locks the process sees as lost before anything else runs in it. */
  #look(client) {
    for (const one of this.open) {
      if (one.client !== client || one.lock.held) continue;
      this.recorder.record('unheld', { id: one.id });
    }
  }

  /**
   * A client that slept has no timer for the end of its lease by the clocks that went on. Its event
   * may come late, but `lock.held` must be right at once.
   */
  #lookFrom(client, count) {
    this.world.after(TTL / 100, () => {
      client.machine.run(() => this.#look(client));
      if (count < 100) this.#lookFrom(client, count + 1);
    });
  }

  /** A client publishes with each of its locks on a name, or removes its text. */
  publish(i, name, isRemoval) {
    const client = this.client(i);
    for (const { client: its, lock, id } of this.open) {
      if (its !== client || lock.name !== name || client.machine.isStopped) continue;
      const n = (this.published.get(id) ?? 0) + 1;
      this.published.set(id, n);
      const text = isRemoval ? undefined : `${id}: ${n}`;
      this.recorder.record('publish', { id, n, text });
      const request = client.granted.get(`${lock.token} ${name}`);
      const promise = client.backend.publish(request, text && JSON.stringify(text));
      this.unanswered.set(promise, client);
      this.#confirm(promise, id, n, client.network);
    }
  }

  async #confirm(promise, id, n, network) {
    try {
      if (await promise) this.recorder.record('published', { id, n });
    } catch (error) {
      // A step that does not arrive for a ttl fails (R3).
      if (!network.wasClosed) this.unkept.push(`request ${id} cannot publish: ${error.message}`);
    }
    this.unanswered.delete(promise);
  }

  async read(i) {
    const client = this.client(i);
    if (client.machine.isStopped) return;
    const asked = this.world.now;
    try {
      const { held } = await client.locks.query({ details: true });
      for (const { name, token, data } of held)
        this.recorder.record('read', { name, token, text: data, asked });
    } catch {
      // The server may be away for longer than the time limit of a query.
    }
  }

  stop(i, milliseconds, asleep) {
    const client = this.client(i);
    if (client.machine.isStopped) return;
    this.fault();
    client.thread?.machine.stop({ asleep });
    this.#stopLoop(client, asleep, () => {
      client.thread?.machine.resume();
      this.fault();
      if (asleep) this.#lookFrom(client, 0);
    });
    this.world.after(milliseconds, () => client.resume?.());
  }

  #stopLoop(client, asleep, resumed) {
    client.machine.stop({ asleep });
    this.recorder.record('stopped', { client: client.name });
    client.resume = () => {
      client.resume = undefined;
      client.resumedAt = this.world.now;
      this.recorder.record('resumed', { client: client.name });
      client.machine.isStopped = false;
      this.#look(client);
      client.machine.resume();
      resumed();
    };
  }

  /** The client's event loop stops, while the thread of its keeper goes on. */
  block(i, milliseconds) {
    const client = this.client(i);
    if (client.machine.isStopped) return;
    const { harms } = this;
    // A bucket or keeper that has to connect anew extends no lease, even before it notices that.
    const isCut = client.network.isCut || client.thread?.network.isCut;
    const wasOpen = client.backend.state === 'open' && !isCut;
    const held = [...this.open].filter((one) => one.client === client && one.lock.held);
    this.recorder.record('fault', {});
    this.#stopLoop(client, false, () => {
      this.recorder.record('fault', {});
      const isUnharmed = wasOpen && harms === this.harms;
      const isKept = i === 0 && milliseconds <= MAX_BLOCKED && isUnharmed;
      const isLost = ({ lock }) => ![undefined, 'closed'].includes(lock.signal.reason?.reason);
      const lost = isKept ? held.filter(isLost) : [];
      for (const { id } of lost) this.unkept.push(`request ${id} is lost in spite of a keeper`);
    });
    const { resume } = client;
    this.world.after(milliseconds, () => client.resume === resume && resume());
    this.world.after(
      MAX_BLOCKED + 3 * TTL,
      () => client.resume === resume && this.#expectNothing(client, 'hangs'),
    );
  }

  away(i) {
    this.client(i).network.isCut = true;
    this.#expectEnd(i);
  }

  /** The locks of a client end when it can no longer connect, even if its keeper can. */
  #expectEnd(i) {
    const client = this.client(i);
    const { network } = client;
    network.cutAt = this.world.now;
    const { cutAt } = network;
    // A loop that does not turn cannot notice the cut, so the time begins when it turns again.
    const check = () => {
      const isBack = !network.isCut && !network.isRefused;
      if (isBack || network.cutAt !== cutAt) return;
      const { now } = this.world;
      const { resume, resumedAt = cutAt } = client;
      const rest = 3 * TTL - (resume ? 0 : now - Math.max(cutAt, resumedAt));
      if (rest > 0) this.world.after(rest, check);
      else this.#expectNothing(client, 'is cut off');
    };
    this.world.after(3 * TTL, check);
  }

  /** A client that renews no more must block no other client, whatever its keeper does. */
  #expectNothing(client, why) {
    const held = this.cluster.server.query().filter((entry) => entry.clientId === client.name);
    for (const { ref, name } of held)
      this.unkept.push(`${name}: ${client.name} ${why}, and is kept with ${ref}`);
  }

  /** Whether the next message to the server must come from this client (`failBack`). */
  #isAwaited({ network }) {
    return this.cluster.server.only === network;
  }

  kill(i) {
    const client = this.client(i);
    if (client.isKilled || this.#isAwaited(client)) return;
    if (this.cluster.clients.filter((one) => !one.isKilled).length < 3) return;
    this.fault();
    client.isKilled = true;
    client.resume = undefined;
    client.machine.kill();
    client.thread?.machine.kill();
    this.recorder.record('killed', { client: client.name });
    client.network.cut();
    client.thread?.network.cut();
    this.cluster.start(this.ofClients);
  }

  /** Closes the bucket of a client with all its locks and requests; another client starts. */
  close(i) {
    const client = this.client(i);
    if (client.isKilled || client.isClosed || this.#isAwaited(client)) return;
    client.isClosed = true;
    client.machine.run(() => client.backend.close());
    this.cluster.start(this.ofClients);
  }

  stopServer(milliseconds) {
    const { machine } = this.cluster.server;
    if (machine.isStopped) return;
    this.fault();
    machine.stop();
    this.world.after(milliseconds, () => {
      machine.resume();
      this.fault();
    });
  }

  /** A user's transaction guards the holders of a name. */
  guard(name, milliseconds) {
    this.recorder.record('guarded', { name });
    this.cluster.server.guard(name);
    this.world.after(milliseconds, () => {
      this.cluster.server.guard(name, false);
      this.recorder.record('unguarded', { name });
    });
  }

  /** A replica with all data takes over; the old server may come back (`failBack`). */
  backup() {
    const { server } = this.cluster;
    this.fault();
    this.before = server.snapshot();
    server.failOver(() => false);
  }

  /**
   * The old server comes back, and its first message is from a client that knows the new one: that
   * with the smallest granted token.
   */
  failBack() {
    const { server } = this.cluster;
    if (!this.before) return;
    const { lives } = this.before;
    const last = new Map(server.log.map(({ clientId, token }) => [clientId, Number(token)]));
    // A client that was killed or closed sends nothing any more.
    const [client] = this.cluster.clients
      .filter(({ isKilled, isClosed }) => !isKilled && !isClosed)
      .filter(({ network }) => !lives.includes(network.life))
      .sort((a, b) => (last.get(a.name) ?? 0) - (last.get(b.name) ?? 0));
    this.fault();
    this.recorder.record('forgot');
    server.restore(this.before, client?.network);
    // The old server continues from here until another `backup`.
    this.before = undefined;
    // By then, every client has lost its earlier locks.
    this.world.after(2 * TTL, () => {
      server.only = undefined;
      this.fault();
    });
  }

  do({ what, i, name, ms, mode, flag, priority = 0 }) {
    const { server } = this.cluster;
    const { network, machine, thread } = this.client(i);
    const hold = 1 + (ms % 7) * (ms % 2 ? TTL / 3 : 5);
    const options = { mode, priority };
    if (what === 'request') this.request(i, name, options, hold);
    else if (what === 'hold') this.request(i, name, options, 2 * TTL);
    else if (what === 'limited') this.request(i, 'units', units(1 + (ms % 2), priority), hold);
    else if (what === 'ifAvailable') this.request(i, name, { ...options, ifAvailable: true }, hold);
    else if (what === 'pass') this.request(i, name, { pass: true, priority }, hold);
    else if (what === 'once') this.request(i, name, { keep: 1 + ms, priority }, hold);
    else if (what === 'steal') this.request(i, name, { steal: true }, hold);
    else if (what === 'overtake') this.overtake(i, name, ms, hold);
    else if (what === 'few') this.request(i, name, { ...options, maxPending: ms % 3 }, hold);
    else if (what === 'abort') this.#abortLater(i, name, options, ms, hold);
    else if (what === 'all') this.requestAll(i, namesFrom(name), { mode, ...wayOf(ms) }, hold);
    else if (what === 'refused') this.request(i, name, { label: 'refused', mode }, hold);
    else if (what === 'unheard') this.#unheard(i, name, { mode }, hold);
    else if (what === 'publish') this.publish(i, name, flag && ms % 3 === 0);
    else if (what === 'read') this.read(i);
    else if (what === 'guard') this.guard(name, ms);
    else if (what === 'backup') this.backup();
    else if (what === 'failBack') this.failBack();
    else if (what === 'stop') this.stop(i, ms, flag);
    else if (what === 'sleep') this.stop(i, ms, true);
    else if (what === 'block') this.block(i, 3.5 * ms);
    else if (what === 'kill') this.kill(i);
    else if (what === 'close') this.close(i);
    else if (what === 'stopServer') this.stopServer(ms);
    else {
      this.fault();
      // The connections of a client and of its keeper break together, or only one of them does.
      const networks = [network, ...(thread ? [thread.network] : [])];
      const broken = thread ? [networks, [network], [thread.network]][ms % 3] : networks;
      const machines = [machine, ...(thread ? [thread.machine] : [])];
      if (FAULTS[what]) for (const one of broken) FAULTS[what](one, ms, flag);
      if (['away', 'unwelcome'].includes(what) && broken.includes(network)) this.#expectEnd(i);
      if (what === 'heal') for (const one of networks) this.#heal(one);
      else if (what === 'wall') for (const one of machines) one.setWallBy(flag ? ms : -ms);
      else if (what === 'wall back') for (const one of machines) one.setWallBy(-ms);
      else if (what === 'restart') this.#restart(flag);
      else if (what === 'failOver') server.failOver(({ ref }) => flag || ref % 2 === 1);
    }
  }

  #unheard(i, name, options, hold) {
    this.unheard++;
    this.request(i, name, { ...options, label: 'unheard' }, hold);
  }

  #abortLater(i, name, options, ms, hold) {
    const controller = new AbortController();
    this.request(i, name, { ...options, signal: controller.signal }, hold);
    this.world.after(ms / 5, () => this.client(i).machine.run(() => controller.abort()));
  }

  #restart(data) {
    this.cluster.server.restart({ data });
    if (!data) this.recorder.record('forgot');
  }

  #heal(network) {
    network.drops = { call: false, reply: false };
    network.isCut = false;
    network.cutAt = undefined;
    network.isRefused = false;
    network.delay = 1;
    network.most = Number.POSITIVE_INFINITY;
    network.isTwice = false;
  }

  /** Ends all faults, waits for all requests, and returns what was wrong. */
  async judge() {
    const isCalm = !this.events.some(({ type }) => type === 'fault');
    this.cluster.server.machine.resume();
    for (const client of this.cluster.clients) {
      this.#heal(client.network);
      if (client.thread) this.#heal(client.thread.network);
      client.resume?.();
    }
    if (!isCalm) this.fault();
    let wrong = [];
    try {
      await this.world.until(() => this.#isDone, this.patience);
    } catch (error) {
      wrong = [`not all are served: ${error.message}`];
    }
    await this.#countKept();
    await this.#close();
    const waiting = [...this.unanswered.values()].filter(({ isKilled }) => !isKilled);
    for (const { name } of waiting) this.unkept.push(`${name} waits for a publication`);
    const alive = this.cluster.clients.filter(({ isKilled }) => !isKilled);
    const machines = alive.flatMap(({ machine, thread }) =>
      thread ? [machine, thread.machine] : machine,
    );
    const timers = machines.reduce((sum, machine) => sum + machine.timers, 0);
    const adapters = alive.reduce((sum, { thread }) => sum + (thread?.adapters.size ?? 0), 0);
    // A later sweep removes the sessions of the killed clients.
    await this.world.advance(2 * TTL);
    this.cluster.server.sweep();
    const twice = this.cluster.server.twice.map(({ clientId, ref, name }) => {
      return `request ${ref} of ${clientId} for '${name}' is granted twice`;
    });
    return [
      ...wrong,
      ...twice,
      ...this.unkept,
      ...alive.flatMap(({ thread }) => thread?.falseAlarms ?? []),
      ...this.#falseReasons(),
      ...check([...this.events, ...this.#tickets()], {
        // Without faults, no lease, quarantine or connection delays a request.
        within: (isCalm ? TTL / 2 : 3 * TTL) + 3 * TTL * this.unheard,
        left: { ...this.cluster.server.left, timers, 'adapters of keepers': adapters },
      }),
    ];
  }

  /** An open session keeps no request that has ended. Requests of killed clients never end. */
  async #countKept() {
    if (!this.kept || this.cluster.clients.some(({ isKilled }) => isKilled)) return;
    await this.world.advance(2 * TTL);
    for (const count of this.kept.moreThan()) this.unkept.push(`${count} left`);
  }

  /** A lost lock gives the reason 'failover' only if a server was replaced. */
  #falseReasons() {
    if (this.cluster.server.wasReplaced) return [];
    return this.events
      .filter(({ type, reason }) => type === 'told' && reason === 'failover')
      .map(({ id }) => `request ${id} is told of a failover that never was`);
  }

  get #isDone() {
    const calls = this.events.filter(({ type }) => type === 'call');
    const settled = new Set(this.events.filter((e) => e.type === 'settled').map(({ id }) => id));
    const killed = new Set(this.events.filter((e) => e.type === 'killed').map((e) => e.client));
    return calls.every(({ id, client }) => settled.has(id) || killed.has(client));
  }

  async #close() {
    const alive = this.cluster.clients.filter(({ isKilled }) => !isKilled);
    let isClosed = false;
    Promise.all(alive.map(({ backend }) => backend.close())).then(() => {
      isClosed = true;
    });
    await this.world.until(() => isClosed, 10 * TTL);
  }

  /** Adds the server's ticket of each grant; its log has all grants with their tokens. */
  #tickets() {
    const byToken = new Map(this.cluster.server.log.map((entry) => [entry.token, entry]));
    return this.events
      .filter(({ type }) => type === 'granted')
      .map(({ id, token, time }) => {
        const { ticket, turn } = byToken.get(token) ?? {};
        return { type: 'ticket', id, time, ticket, turn };
      });
  }
}

const FAULTS = {
  cut: (network) => network.cut(),
  drop: (network, _ms, flag) => {
    network.drops[flag ? 'call' : 'reply'] = true;
  },
  away: (network) => {
    network.isCut = true;
  },
  unwelcome: (network) => {
    network.isRefused = true;
    network.cut();
  },
  delay: (network, ms) => {
    network.delay = ms / 10;
  },
  narrow: (network, ms) => {
    network.most = ms % 4;
    network.wasClosed ||= network.most === 0;
  },
  twice: (network, _ms, flag) => {
    network.isTwice = flag;
  },
};

const namesFrom = (name) => (name === 'a' ? ['a', 'b'] : ['b', 'a']);

/** The options of a request for several names; most of them wait. */
const wayOf = (ms) => [{}, {}, {}, { steal: true }, { ifAvailable: true }][ms % 5];

const units = (weight, priority) => ({ mode: 'shared', limit: 3, weight, priority });

async function run(rates, actions, options) {
  const trial = new Trial(rates, options);
  await trial.world.advance(10);
  for (const action of actions) {
    trial.do(action);
    await trial.world.advance(action.pause);
  }
  return trial.judge();
}

module.exports = { Trial, run };
