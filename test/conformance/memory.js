'use strict';

/** The scope `memory`: a cluster over the engine of test/cluster/memory.js, in real time. */

const { performance } = require('node:perf_hooks');
const { ClusterBackend } = require('../../lib/cluster/backend.js');
const { Bucket } = require('../../lib/extensions/buckets/bucket.js');
const { MemoryAdapter, MemoryServer, Network } = require('../cluster/memory.js');

/** So long that no stall of the machine ends a lease. */
const TTL = 3_600_000;

/** See test/cluster/world.js. */
const world = {
  get now() {
    return performance.now();
  },
  after: (milliseconds, call) =>
    milliseconds > 0 ? setTimeout(call, milliseconds) : setImmediate(call),
};
const machine = { run: (work) => work(), monotonic: () => world.now };

/** By bucket. */
const servers = new Map();

function serverOf(name) {
  const server = servers.get(name) ?? new MemoryServer(machine, { ttl: TTL });
  servers.set(name, server);
  return server;
}

/** A backend with a session of its own, and as `adapter` what it has to its server. */
function memoryBackend(name) {
  const network = new Network(world, machine, serverOf(name));
  network.delay = 0;
  const adapter = new MemoryAdapter(network);
  adapter.id = `memory ${name}`;
  return Object.assign(new ClusterBackend(adapter, { ttl: TTL }), { adapter });
}

/** A bucket with a session of its own. */
const openBucket = (name) => new Bucket(name, memoryBackend(name));

module.exports = { memoryBackend, openBucket };
