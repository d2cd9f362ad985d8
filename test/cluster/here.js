'use strict';

/** Opens a bucket at a server in the memory of this thread; returns it with its `network`. */

const { ClusterBucket } = require('../../lib/extensions/buckets/cluster-bucket.js');
require('../../lib/index.js');
const { connect, newServer } = require('../conformance/memory.js');
const { MemoryAdapter } = require('./memory.js');

function openBucket(server, name = 'here', { ttl = 10_000, change = () => {}, ...options } = {}) {
  const network = connect(server);
  const adapter = new MemoryAdapter(network);
  change(adapter);
  return { bucket: new ClusterBucket(name, adapter, { ttl, ...options }), network };
}

module.exports = { newServer, openBucket };
