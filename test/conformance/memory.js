'use strict';

/** The scope `memory`: a cluster over the engine of test/cluster/memory.js, which is in this thread. */

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

/** By bucket. */
const servers = new Map();

/** @param time of the server: `now` and `setTimeout` */
const newServer = (time = realTime) =>
  new MemoryServer({ run: (work) => work(), monotonic: time.now }, { ttl: TTL });

/** A way to a server, as far away as the event loop. */
function connect(server, time = realTime) {
  /** See test/world/world.js. */
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

/** A backend with a session of its own, and as `adapter` what it has to its server. */
function memoryBackend(name, time = realTime) {
  if (!servers.has(name)) servers.set(name, newServer(time));
  const adapter = new MemoryAdapter(connect(servers.get(name), time));
  adapter.id = `memory ${name}`;
  return Object.assign(new ClusterBackend(adapter, { ttl: TTL }), { adapter });
}

/** Opens buckets with a session of their own. */
const openAt = (time) => (name) => new Bucket(name, memoryBackend(name, time));

module.exports = { connect, memoryBackend, newServer, openAt, openBucket: openAt(realTime) };
