'use strict';

/** The scope `memory`: a cluster over the engine of test/cluster/memory.js. */

const { performance } = require('node:perf_hooks');
const { ClusterBackend } = require('../../lib/cluster/backend.js');
const { Bucket } = require('../../lib/extensions/buckets/bucket.js');
const { MemoryAdapter, MemoryServer, Network } = require('../cluster/memory.js');

/** So long that no stall of the machine ends a lease. */
const TTL = 3_600_000;

const realTime = { now: () => performance.now(), setTimeout };

/** By bucket. */
const servers = new Map();

/**
 * A backend with a session of its own, and as `adapter` what it has to its server.
 * @param time of the server: `now` and `setTimeout`
 */
function memoryBackend(name, time = realTime) {
  const machine = { run: (work) => work(), monotonic: time.now };
  /** See test/world/world.js. */
  const world = {
    get now() {
      return time.now();
    },
    after: (milliseconds, call) =>
      milliseconds > 0 ? time.setTimeout(call, milliseconds) : setImmediate(call),
  };
  if (!servers.has(name)) servers.set(name, new MemoryServer(machine, { ttl: TTL }));
  const network = new Network(world, machine, servers.get(name));
  network.delay = 0;
  const adapter = new MemoryAdapter(network);
  adapter.id = `memory ${name}`;
  return Object.assign(new ClusterBackend(adapter, { ttl: TTL }), { adapter });
}

/** Opens buckets with a session of their own. */
const openAt = (time) => (name) => new Bucket(name, memoryBackend(name, time));

module.exports = { memoryBackend, openAt, openBucket: openAt(realTime) };
