'use strict';

/** Makes clients of Redis of all kinds and versions that users may have. */

const clients = {
  ioredis: (port, options) => new (require('ioredis'))({ ...IOREDIS, port, ...options }),
  'ioredis 5': (port, options) => new (require('ioredis5'))({ ...IOREDIS, port, ...options }),
  iovalkey: (port, options) => new (require('iovalkey'))({ ...IOREDIS, port, ...options }),
  'node-redis': (port, options) => nodeRedis(require('redis'), port, options),
  'node-redis 5': (port, options) => nodeRedis(require('redis5'), port, options),
};

/** Options that users may have, and that would harm connections which wait long or call often. */
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

/** Each connects by a Sentinel at the port. */
const sentinelClients = {
  'ioredis by Sentinel': (port) => bySentinel(require('ioredis'), port),
  'ioredis 5 by Sentinel': (port) => bySentinel(require('ioredis5'), port),
};

/** The last argument, `nodes`, maps the addresses that the cluster reports. */
const clusterClients = {
  ioredis: (...options) => ioredisCluster(require('ioredis'), ...options),
  'ioredis 5': (...options) => ioredisCluster(require('ioredis5'), ...options),
  iovalkey: (...options) => ioredisCluster(require('iovalkey'), ...options),
  'node-redis': (...options) => nodeRedisCluster(require('redis'), ...options),
  'node-redis 5': (...options) => nodeRedisCluster(require('redis5'), ...options),
};

const LAZY = { lazyConnect: true };
/** Options that would harm an adapter which does not set its own. */
const IOREDIS = { ...LAZY, host: '127.0.0.1', enableAutoPipelining: true };

const bySentinel = (Redis, port) =>
  new Redis({ ...LAZY, name: 'main', sentinels: [{ host: '127.0.0.1', port }] });

/** A node gets 10 s to list the slots, because a busy machine may miss ioredis' limit of 1 s. */
const PATIENT = { ...LAZY, slotsRefreshTimeout: 10_000 };

const ioredisCluster = ({ Cluster }, port, redisOptions = {}, nodes = {}) =>
  new Cluster([{ host: '127.0.0.1', port }], { ...PATIENT, redisOptions, natMap: nodes });

const nodeRedisCluster = ({ createCluster }, port, defaults = undefined, nodes = {}) =>
  createCluster({
    rootNodes: [{ url: `redis://127.0.0.1:${port}` }],
    nodeAddressMap: nodes,
    defaults,
  }).on('error', () => {});

function nodeRedis({ createClient }, port, options = {}) {
  const client = createClient({ url: `redis://127.0.0.1:${port}`, ...options });
  return client.on('error', () => {});
}

/** @param {string} kind of `clients` or `clusterClients` */
const oddOptionsOf = (kind) => odd[kind.replace(/ \d$/, '').replace('iovalkey', 'ioredis')];

/** @param {string} kind of `clients`, of `sentinelClients`, or of `clusterClients` and 'cluster' */
const clientOf = (kind) => {
  const [, name] = /^(.*) cluster$/.exec(kind) ?? [];
  return name ? clusterClients[name] : { ...clients, ...sentinelClients }[kind];
};

module.exports = { clientOf, clients, clusterClients, oddOptionsOf, sentinelClients };
