'use strict';

/**
 * A primary and a server that follows it and takes its place. Users reach the primary through a
 * proxy of its own, which no other fault disturbs.
 */

const { FaultyProxy } = require('../cluster/proxy.js');
const { wait } = require('./faults.js');

class Pair {
  #kind;
  /** The proxy between the two servers. @type {FaultyProxy} */
  #replication;
  /** The proxy to the primary. @type {FaultyProxy} */
  #front;
  #primary;
  #standby;

  /**
   * @param {object} kind
   * @param {() => Promise<any>} kind.start starts a primary
   * @param {(proxy: { port: number }, primary: any) => Promise<any>} kind.follow starts a server
   * that follows a primary, through a proxy, and has caught up
   * @param {boolean} [kind.canBeSplit] whether a primary without followers grants nothing
   */
  static async start(kind) {
    const pair = new Pair();
    pair.#kind = kind;
    pair.#primary = await kind.start();
    pair.#front = await FaultyProxy.open(pair.#primary.port);
    await pair.#follow();
    return pair;
  }

  async #follow() {
    this.#replication = await FaultyProxy.open(this.#primary.port);
    this.#standby = await this.#kind.follow(this.#replication, this.#primary);
  }

  get port() {
    return this.#front.port;
  }

  get config() {
    return { ...this.#primary.config, port: this.port };
  }

  start() {
    return this.#primary.start();
  }

  crash() {
    return this.#primary.crash();
  }

  signal(name) {
    return this.#primary.signal(name);
  }

  call(...args) {
    return this.#primary.call(...args);
  }

  heal() {
    this.#replication.heal();
  }

  /** Stops the replication. */
  deafen() {
    this.#replication.stall();
  }

  /**
   * The follower takes the place of the primary, and gets a follower of its own.
   * @param {FaultyProxy[]} left proxies that lead to the old primary for a while, if it can be
   * split off; otherwise it ends first
   * @param {number} milliseconds for how long
   */
  async failOver(left, milliseconds) {
    const old = this.#primary;
    const isSplit = this.#kind.canBeSplit && left.length > 0;
    this.#replication.refuse();
    this.#front.refuse();
    if (isSplit) lead(left, old.port);
    else await old.crash();
    await this.#standby.promote();
    this.#primary = this.#standby;
    this.#front.retarget(this.#primary.port);
    this.#front.heal();
    if (isSplit) {
      await wait(milliseconds);
      lead(left, this.port);
      await old.crash();
    }
    await this.#replication.close();
    await this.#follow();
  }
}

function lead(proxies, port) {
  for (const proxy of proxies) {
    proxy.retarget(port);
    proxy.cut();
  }
}

/** @param {number} ttl of the sessions */
const faultsOf = (ttl) => ({
  async deafen({ scope: { server } }, random) {
    server.deafen();
    await wait(2 * ttl * random.number());
    server.heal();
  },

  async failOver({ proxies, scope: { server } }, random) {
    // The follower misses what the primary then grants.
    if (random.chance(0.5)) server.deafen();
    await wait(ttl * random.number());
    const left = random.chance(0.5) ? proxies.filter(() => random.chance(0.5)) : [];
    await server.failOver(left, ttl * (1 + 2 * random.number()));
    // The new server learns all earlier grants before it takes over (docs/CLUSTER.md).
    await wait(1.5 * ttl);
  },
});

module.exports = { Pair, faultsOf };
