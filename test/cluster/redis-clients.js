'use strict';

/** Clients of Redis that users may have, of all kinds and versions. */

const clients = {
  ioredis: (port, options) => new (require('ioredis'))({ ...IOREDIS, port, ...options }),
  'ioredis 5': (port, options) => new (require('ioredis5'))({ ...IOREDIS, port, ...options }),
  'node-redis': (port, options) => nodeRedis(require('redis'), port, options),
  'node-redis 5': (port, options) => nodeRedis(require('redis5'), port, options),
};

/** By a Sentinel at the port. */
const sentinelClients = {
  'ioredis by Sentinel': (port) => bySentinel(require('ioredis'), port),
  'ioredis 5 by Sentinel': (port) => bySentinel(require('ioredis5'), port),
};

const clusterClients = {
  ioredis: (port) => ioredisCluster(require('ioredis'), port),
  'ioredis 5': (port) => ioredisCluster(require('ioredis5'), port),
  'node-redis': (port) => nodeRedisCluster(require('redis'), port),
  'node-redis 5': (port) => nodeRedisCluster(require('redis5'), port),
};

const LAZY = { lazyConnect: true };
/** Options that come in the way of who does not set his own. */
const IOREDIS = { ...LAZY, host: '127.0.0.1', keyPrefix: 'mine:', enableAutoPipelining: true };

const bySentinel = (Redis, port) =>
  new Redis({ ...LAZY, name: 'main', sentinels: [{ host: '127.0.0.1', port }] });

const ioredisCluster = ({ Cluster }, port) => new Cluster([{ host: '127.0.0.1', port }], LAZY);

const nodeRedisCluster = ({ createCluster }, port) =>
  createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] }).on('error', () => {});

function nodeRedis({ createClient }, port, { password, username } = {}) {
  const client = createClient({ url: `redis://127.0.0.1:${port}`, password, username });
  return client.on('error', () => {});
}

module.exports = { clients, clusterClients, sentinelClients };
