'use strict';

/** The scope `memory`: a cluster with the engine of test/cluster/memory.js in this thread. */

const { performance } = require('node:perf_hooks');
const { ClusterBackend } = require('../../lib/cluster/backend.js');
const { Bucket } = require('../../lib/extensions/buckets/bucket.js');
const { MemoryAdapter, MemoryServer, Network } = require('../cluster/memory.js');

/** So long that no stall of the machine ends a lease. */
const TTL = 3_600_000;

const realTime = {
  now: () => performance.now(),
  setTimeout: (call, milliseconds) => setTimeout(call, milliseconds).unref(),
};

/** The server of each bucket. */
const servers = new Map();

/** @param time of the server: `now` and `setTimeout` */
const newServer = (time = realTime) =>
  new MemoryServer({ run: (work) => work(), monotonic: time.now }, { ttl: TTL });

/** A network that connects to a server through the event loop. */
function connect(server, time = realTime) {
  /** The part of a world (test/world/world.js) that the network uses. */
  const world = {
    get now() {
      return time.now();
    },
    after: (milliseconds, call) =>
      milliseconds > 0 ? time.setTimeout(call, milliseconds) : setImmediate(call),
  };
  const network = new Network(world, server.machine, server);
  network.delay = 0;
  return network;
}

/** A backend with a session of its own; `adapter` is the session's adapter. */
function memoryBackend(name, time = realTime) {
  if (!servers.has(name)) servers.set(name, newServer(time));
  const adapter = new MemoryAdapter(connect(servers.get(name), time));
  adapter.id = `memory ${name}`;
  return Object.assign(new ClusterBackend(adapter, { ttl: TTL }), { adapter });
}

/** Makes a function that opens buckets, each with a session of its own. */
const openAt = (time) => (name) => new Bucket(name, memoryBackend(name, time));

module.exports = { TTL, connect, memoryBackend, newServer, openAt, openBucket: openAt(realTime) };
