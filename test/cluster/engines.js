'use strict';

/**
 * How a process of the tests (actor.js) gets an adapter, by engine: `{ adapter, end }`, of which
 * `end` gives back what is not the adapter's.
 */

const engines = {
  postgres({ bucket, config, durability }) {
    const pg = require('pg');
    const { PostgresAdapter } = require('../../lib/cluster/engines/postgres/adapter.js');
    const pool = new pg.Pool({ ...config, max: 3 });
    pool.on('error', () => {});
    return { adapter: new PostgresAdapter(bucket, { pool, durability }), end: () => pool.end() };
  },

  redis({ bucket, config: { kind, port }, strict }) {
    const { clients, sentinelClients } = require('./redis-clients.js');
    const { RedisAdapter } = require('../../lib/cluster/engines/redis/adapter.js');
    const client = { ...clients, ...sentinelClients }[kind](port);
    return { adapter: new RedisAdapter(bucket, { client, strict }) };
  },

  etcd({ bucket, config: { endpoints } }) {
    const { EtcdAdapter } = require('../../lib/cluster/engines/etcd/adapter.js');
    return { adapter: new EtcdAdapter(bucket, { endpoints }) };
  },
};

module.exports = { engines };
