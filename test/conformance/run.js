'use strict';

/**
 * Runs the conformance suite in a scope of scopes.js: `npm run test:conformance -- SCOPE [FILE…]`.
 * Each file runs in a process of its own; the exit code is that of `node --test`.
 * WEB_LOCKS_TEST_AGENTS chooses the kind of agents if the scope has several; MODEL_RUNS and
 * MODEL_SEED are those of test/model/model.test.js.
 */

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const process = require('node:process');
const { files } = require('./files.js');
const { scopes } = require('./scopes.js');

/** Starts the server that a scope needs. Resolves to environment variables with its address. */
const servers = {
  async postgres() {
    const { lacks, startPostgres } = require('../cluster/servers.js');
    if (lacks.postgres) throw new Error(lacks.postgres);
    const server = await startPostgres({ settings: ['fsync=off', 'max_connections=300'] });
    const { host, port, user, database } = server.config;
    const url = `postgres://${user}@${host}:${port}/${database}`;
    return { WEB_LOCKS_TEST_POSTGRES: url, stop: () => server.stop() };
  },

  async redis() {
    const { lacks, startRedis } = require('../cluster/servers.js');
    if (lacks.redis) throw new Error(lacks.redis);
    const server = await startRedis();
    // New buckets then grant at once, whatever their lease, even without libfaketime.
    await server.until(/uptime_in_seconds:(3[2-9]|[4-9]\d|\d{3,})/);
    return { WEB_LOCKS_TEST_REDIS: String(server.port), stop: () => server.stop() };
  },

  async etcd() {
    const { lacks, startEtcd } = require('../cluster/servers.js');
    if (lacks.etcd) throw new Error(lacks.etcd);
    const server = await startEtcd();
    return { WEB_LOCKS_TEST_ETCD: server.endpoints[0], stop: () => server.stop() };
  },
};

async function main([scope, ...chosen]) {
  if (!scopes[scope]) {
    console.error(`usage: node test/conformance/run.js ${Object.keys(scopes).join('|')} [FILE…]`);
    process.exitCode = 2;
    return;
  }
  const { stop, ...more } = (await servers[scope]?.()) ?? {};
  try {
    const runner = path.join(__dirname, '..', 'run.js');
    const child = spawn(process.execPath, [runner, ...(chosen.length > 0 ? chosen : files)], {
      // A test of the model makes many runs, which take long on a server.
      env: { WEB_LOCKS_TEST_LIMIT: '600', ...process.env, WEB_LOCKS_TEST_SCOPE: scope, ...more },
      stdio: 'inherit',
    });
    const [code] = await once(child, 'exit');
    process.exitCode = code ?? 1;
  } finally {
    await stop?.();
  }
}

main(process.argv.slice(2));
