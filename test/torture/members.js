'use strict';

/**
 * Three members of etcd, with a proxy for each connection between two of them, and what can happen
 * to them. The others reach a member at one address. A server there finds out who connects: with
 * each request of Raft, a member sends its own address.
 */

const { once } = require('node:events');
const net = require('node:net');
const { FaultyProxy } = require('../cluster/proxy.js');
const servers = require('../cluster/servers.js');
const { wait } = require('./faults.js');

const COUNT = 3;
/** A leader that is cut off is replaced within half of the shortest lease. */
const OPTIONS = ['--heartbeat-interval=50', '--election-timeout=500'];
const SENDER = /^x-peerurls: http:\/\/127\.0\.0\.1:(\d+)/im;
/** How many milliseconds a fault of connections lasts at least, and at least until the next one. */
const BROKEN_MS = 1500;

/** Joins two sockets, and ends each with the other. */
function join(one, other) {
  const close = () => {
    one.destroy();
    other.destroy();
  };
  for (const socket of [one, other]) socket.setNoDelay(true).on('error', close).on('close', close);
  one.pipe(other).pipe(one);
}

/** An etcd of three members, with the methods that the torture expects of a server. */
class Members {
  /** The proxy between two members, by address. @type {Map<string, Promise<FaultyProxy>>} */
  #lines = new Map();

  static async start() {
    const members = new Members();
    members.etcd = await servers.startEtcd(COUNT, OPTIONS, (peer) => members.#publish(peer));
    return members;
  }

  /** @param {number} peer a member's port @returns {Promise<number>} where others reach it */
  async #publish(peer) {
    const port = await servers.freePort();
    const server = net.createServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', async (chunk) => {
        socket.pause().unshift(chunk);
        const request = String(chunk);
        const [, from] = SENDER.exec(request) ?? [];
        const way = from ? (await this.#lineOf(from, port, peer)).port : peer;
        // A probe does not contain its sender, which may then use the connection for Raft.
        if (!from && request.startsWith('GET /raft/probing')) socket.destroy();
        else join(socket, net.connect(way, '127.0.0.1'));
      });
    });
    await once(server.unref().listen(port, '127.0.0.1'), 'listening');
    return port;
  }

  #lineOf(from, to, peer) {
    const key = `${from} ${to}`;
    if (!this.#lines.has(key)) this.#lines.set(key, FaultyProxy.open(peer));
    return this.#lines.get(key);
  }

  /** All proxies, or those from and to a member. @returns {Promise<FaultyProxy[]>} */
  lines({ address } = {}) {
    const keys = [...this.#lines.keys()];
    const own = keys.filter((key) => !address || key.split(' ').includes(`${address}`));
    return Promise.all(own.map((key) => this.#lines.get(key)));
  }

  async heal() {
    for (const line of await this.lines()) line.heal();
  }

  get ports() {
    return this.etcd.ports;
  }

  /** Starts the members that do not run. A member is ready once it has a leader. */
  async start() {
    await this.heal();
    await this.etcd.start();
  }

  crash() {
    return this.etcd.crash();
  }

  signal(name) {
    return this.etcd.signal(name);
  }

  call(...args) {
    return this.etcd.call(...args);
  }
}

/** Breaks connections of a member until the next fault of this kind. */
const breaks =
  (memberOf, disturb) =>
  async ({ scope: { server } }, random) => {
    await server.heal();
    // There may be no leader just now.
    const member = await memberOf(server.etcd, random).catch(() => server.etcd.members[0]);
    disturb(await server.lines(member), random);
    await wait(BROKEN_MS * random.number());
  };

const anyOf = async ({ members }, random) => random.pick(members);
const leaderOf = (etcd) => etcd.leader();

/** Separates a member from the others. */
const cutOff = (lines, random) => {
  const isSilent = random.chance(0.5);
  for (const line of lines) isSilent ? line.stall() : line.refuse();
};

const faults = {
  cutOff: breaks(anyOf, cutOff),
  cutOffLeader: breaks(leaderOf, cutOff),
  /** A member receives the messages of another one late, or not at all. */
  slowLine: breaks(leaderOf, (lines, random) =>
    random.pick(lines).delay(BROKEN_MS * random.number()),
  ),
  deafLine: breaks(leaderOf, (lines, random) => random.pick(lines).stall()),
  /** Half of the packets between a member and the others are lost. */
  lossyLines: breaks(anyOf, (lines, random) => {
    for (const line of lines) line.lose(() => random.chance(0.5));
  }),
  mendLines: ({ scope: { server } }) => server.heal(),

  async killMember({ scope: { server } }, random) {
    const member = random.pick(server.etcd.members);
    await server.etcd.stop('SIGKILL', member);
    await wait(BROKEN_MS * random.number());
    await server.start();
  },

  /** A member compacts the history of etcd and defragments its own file. */
  async compact({ scope: { server } }, random) {
    const member = random.pick(server.etcd.members);
    const { header } = await server.call('maintenance/status', {}, member);
    await server.call('kv/compaction', { revision: header.revision - random.below(20) }, member);
    await server.call('maintenance/defragment', {}, member);
  },
};

module.exports = { Members, faults };
