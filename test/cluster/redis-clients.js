'use strict';

/** Clients of Redis that users may have, of all kinds and versions. */

const clients = {
  ioredis: (port, options) => new (require('ioredis'))({ ...IOREDIS, port, ...options }),
  'ioredis 5': (port, options) => new (require('ioredis5'))({ ...IOREDIS, port, ...options }),
  'node-redis': (port, options) => nodeRedis(require('redis'), port, options),
  'node-redis 5': (port, options) => nodeRedis(require('redis5'), port, options),
};

const clusterClients = {
  ioredis: (port) => new (require('ioredis').Cluster)([{ host: '127.0.0.1', port }], LAZY),
  'node-redis': (port) =>
    require('redis')
      .createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] })
      .on('error', () => {}),
};

const LAZY = { lazyConnect: true };
/** Options that come in the way of who does not set his own. */
const IOREDIS = { ...LAZY, host: '127.0.0.1', keyPrefix: 'mine:', enableAutoPipelining: true };

function nodeRedis({ createClient }, port, { password, username } = {}) {
  const client = createClient({ url: `redis://127.0.0.1:${port}`, password, username });
  return client.on('error', () => {});
}

module.exports = { clients, clusterClients };
