'use strict';

/** Creates a server and its clients in a simulated world. */

require('../../lib/index.js');
const { ClusterBackend } = require('../../lib/cluster/backend.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const { LeaseKeeper } = require('../../lib/cluster/session/lease-keeper.js');
const { deferred } = require('../helpers/locks.js');
const { MemoryAdapter, MemoryServer, Network } = require('./memory.js');
const { Machine, World } = require('../world/world.js');

const TTL = 10_000;
/** Longer than several leases. */
const MAX_BLOCKED = 3 * TTL;

/**
 * The keeper's thread of a client, which shares the client's clocks, and runs while its event loop
 * is blocked.
 */
class KeeperThread {
  #world;
  /** Adapters that are not disposed. */
  adapters = new Set();
  /** Reports of trouble soon after a lease was extended, as sentences. @type {string[]} */
  falseAlarms = [];

  constructor(world, server, clock, maxBlocked = MAX_BLOCKED) {
    this.#world = world;
    this.maxBlocked = maxBlocked;
    this.machine = new Machine(world, clock);
    this.network = new Network(world, this.machine, server);
  }

  keep(keeping, cells) {
    const last = { extended: Number.NEGATIVE_INFINITY };
    const make = () => this.#makeAdapter(last);
    const report = () => {
      const since = this.machine.monotonic() - last.extended;
      if (since < TTL)
        this.falseAlarms.push(`a keeper reports trouble ${since} ms after it extended a lease`);
    };
    const keeper = new LeaseKeeper(keeping, cells, this.machine, make, report);
    keeper.start();
    return keeper;
  }

  /** Takes some time, as the import of a user's module may. Notes when it extends a lease. */
  async #makeAdapter(last) {
    await new Promise((resolve) => {
      this.#world.after(TTL / 1000, () => this.machine.run(resolve));
    });
    const adapter = new MemoryAdapter(this.network);
    const { adapters, machine } = this;
    adapters.add(adapter);
    return Object.assign(adapter, {
      extend: async (...args) => {
        const began = machine.monotonic();
        const isExtended = await MemoryAdapter.prototype.extend.call(adapter, ...args);
        // A later answer comes after the time limit of the keeper's call.
        const isInTime = machine.monotonic() - began < TTL / 7;
        if (isExtended && isInTime) last.extended = machine.monotonic();
        return isExtended;
      },
      dispose() {
        adapters.delete(adapter);
        return MemoryAdapter.prototype.dispose.call(adapter);
      },
    });
  }
}

/** Collects the requests that a backend has granted, by token and name. */
function grantsOf(backend) {
  const granted = new Map();
  const note = (request) => {
    const { granted: grant } = request;
    request.granted = (low, high) => {
      const token = (BigInt(high) << 32n) | BigInt(low);
      granted.set(`${token} ${request.name}`, request);
      grant.call(request, low, high);
    };
  };
  const { request, requestAll } = backend;
  backend.request = (one) => {
    note(one);
    request.call(backend, one);
  };
  backend.requestAll = (all) => {
    for (const one of all) note(one);
    requestAll.call(backend, all);
  };
  return granted;
}

class Cluster {
  world = new World();
  clients = [];

  constructor({ server = {}, clock = {}, random = () => 0.5 } = {}) {
    this.random = random;
    this.server = new MemoryServer(new Machine(this.world, { ...clock, random }), {
      ttl: TTL,
      ...server,
    });
  }

  /** Starts a client, which is not open yet. */
  start({
    name = `client ${this.clients.length + 1}`,
    ttl = TTL,
    clock = {},
    rules,
    window,
    wrap = (a) => a,
    keeper = false,
    maxBlocked,
  } = {}) {
    const options = { random: this.random, ...clock };
    const machine = new Machine(this.world, options);
    const network = new Network(this.world, machine, this.server);
    const adapter = wrap(new MemoryAdapter(network, window));
    const thread = keeper
      ? new KeeperThread(this.world, this.server, options, maxBlocked)
      : undefined;
    const changes = [];
    const backend = new ClusterBackend(adapter, {
      ttl,
      clock: machine,
      rules,
      keeper: thread,
      info: { clientId: name },
      onChange: (change) => changes.push(change),
    });
    const locks = createLockManager(backend);
    const granted = grantsOf(backend);
    const client = { name, machine, network, adapter, backend, locks, changes, thread, granted };
    this.clients.push(client);
    return client;
  }

  async client(options) {
    const client = this.start(options);
    await this.world.until(() => client.backend.state === 'open');
    return client;
  }

  async close() {
    let isDone = false;
    Promise.all(this.clients.map(({ backend }) => backend.close())).then(() => {
      isDone = true;
    });
    await this.world.until(() => isDone);
  }

  /** Requests a lock: `{ lock, promise, release, isSettled, value, error }`. */
  request(client, name, options = {}) {
    const waiting = deferred();
    const request = { lock: undefined, isSettled: false, release: waiting.resolve };
    request.promise = client.locks.request(name, options, (lock) => {
      request.lock = lock;
      return waiting.promise;
    });
    const settle = (outcome) => Object.assign(request, outcome, { isSettled: true });
    request.promise.then(
      (value) => settle({ value }),
      (error) => settle({ error }),
    );
    return request;
  }

  /** Requests a lock, and waits until it is granted. */
  async hold(client, name, options) {
    const request = this.request(client, name, options);
    await this.world.until(() => request.lock);
    return request;
  }

  async release(request, value) {
    request.release(value);
    await this.world.until(() => request.isSettled);
  }
}

module.exports = { Cluster, MAX_BLOCKED, TTL };
