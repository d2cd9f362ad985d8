'use strict';

/** Clients of Redis that users may have, of all kinds and versions. */

const clients = {
  ioredis: (port, options) => new (require('ioredis'))({ ...IOREDIS, port, ...options }),
  'ioredis 5': (port, options) => new (require('ioredis5'))({ ...IOREDIS, port, ...options }),
  'node-redis': (port, options) => nodeRedis(require('redis'), port, options),
  'node-redis 5': (port, options) => nodeRedis(require('redis5'), port, options),
};

/** Options that users may have, and that would come in the way of who waits long, or asks much. */
const odd = {
  ioredis: { socketTimeout: 100, commandTimeout: 1, readOnly: true, stringNumbers: true },
  'node-redis': {
    socket: { socketTimeout: 100 },
    pingInterval: 50,
    commandsQueueMaxLength: 1,
    readonly: true,
    disableOfflineQueue: true,
  },
};

/** By a Sentinel at the port. */
const sentinelClients = {
  'ioredis by Sentinel': (port) => bySentinel(require('ioredis'), port),
  'ioredis 5 by Sentinel': (port) => bySentinel(require('ioredis5'), port),
};

const clusterClients = {
  ioredis: (port, options) => ioredisCluster(require('ioredis'), port, options),
  'ioredis 5': (port, options) => ioredisCluster(require('ioredis5'), port, options),
  'node-redis': (port, options) => nodeRedisCluster(require('redis'), port, options),
  'node-redis 5': (port, options) => nodeRedisCluster(require('redis5'), port, options),
};

const LAZY = { lazyConnect: true };
/** Options that come in the way of who does not set his own. */
const IOREDIS = { ...LAZY, host: '127.0.0.1', keyPrefix: 'mine:', enableAutoPipelining: true };

const bySentinel = (Redis, port) =>
  new Redis({ ...LAZY, name: 'main', sentinels: [{ host: '127.0.0.1', port }] });

const ioredisCluster = ({ Cluster }, port, redisOptions = {}) =>
  new Cluster([{ host: '127.0.0.1', port }], { ...LAZY, redisOptions });

const nodeRedisCluster = ({ createCluster }, port, defaults = undefined) =>
  createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }], defaults }).on(
    'error',
    () => {},
  );

function nodeRedis({ createClient }, port, options = {}) {
  const client = createClient({ url: `redis://127.0.0.1:${port}`, ...options });
  return client.on('error', () => {});
}

/** @param {string} kind of `clients` or `clusterClients` */
const oddOptionsOf = (kind) => odd[kind.replace(/ \d$/, '')];

module.exports = { clients, clusterClients, oddOptionsOf, sentinelClients };
