'use strict';

/** An engine in the memory of this thread, in real time: as far away as the event loop. */

const { performance } = require('node:perf_hooks');
const { ClusterBucket } = require('../../lib/extensions/buckets/cluster-bucket.js');
require('../../lib/index.js');
const { MemoryAdapter, MemoryServer, Network } = require('./memory.js');

const machine = { run: (work) => work(), monotonic: () => performance.now() };

const world = {
  get now() {
    return performance.now();
  },
  after(milliseconds, call) {
    if (milliseconds <= 0) setImmediate(call);
    else setTimeout(call, milliseconds).unref();
  },
};

const newServer = () => new MemoryServer(machine);

/** A way to a server. */
function connect(server) {
  const network = new Network(world, machine, server);
  network.delay = 0;
  return network;
}

/** A bucket of a server, with the `network` to it. */
function openBucket(server, name = 'here', { ttl = 10_000, change = () => {}, ...options } = {}) {
  const network = connect(server);
  const adapter = new MemoryAdapter(network);
  change(adapter);
  const bucket = new ClusterBucket(name, adapter, { ttl, ...options });
  return { bucket, network };
}

module.exports = { connect, newServer, openBucket };
