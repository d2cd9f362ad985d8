'use strict';

/**
 * A process with a bucket that obeys its parent (actors.js), and reports everything that happens to
 * its requests, with times of CLOCK_MONOTONIC, which all processes of a machine share.
 */

const { ClusterBackend } = require('../../lib/cluster/backend.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const { Recorder } = require('../world/check.js');

require('../../lib/index.js');

/** Makes the adapter of a process, by engine; `end` releases what the adapter does not own. */
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

const { name, engine, ttl, rules, ...options } = JSON.parse(process.argv[2]);
const now = () => Number(process.hrtime.bigint()) / 1e6;
const send = (message) => process.connected && process.send(message);
const recorder = new Recorder(now, (event) => send({ event }));

const { adapter, end } = engines[engine](options);
const backend = new ClusterBackend(adapter, {
  ttl,
  rules,
  label: name,
  onChange: ({ state, reason, cause }) => send({ state, reason, cause: String(cause ?? '') }),
});
const locks = createLockManager(backend);

/**
 * The functions that end holds, by the parent's number of the request.
 * @type {Map<number, () => void>}
 */
const releases = new Map();
/** @type {Map<number, AbortController>} */
const aborts = new Map();

const after = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Looks at a lock like a user who is about to use it. The time is taken first: a process can be
 * stopped between any two steps, and cannot notice that when it continues.
 */
const look = (lock, id, what) => {
  const time = now();
  const { held, token } = lock;
  if (held) recorder.record('write', { id, name: what, token, time });
  else recorder.record('unheld', { id });
  return held;
};

/** The held locks, by id. */
const held = new Map();

const hold = (number, what, duration) => async (lock, id, lost) => {
  send({ number, granted: lock.token });
  held.set(id, lock);
  const released = new Promise((resolve) => releases.set(number, resolve));
  let isOver = false;
  const over = Promise.race([
    released,
    lost,
    ...(duration === undefined ? [] : [after(duration)]),
  ]).then(() => {
    isOver = true;
  });
  while (!isOver && look(lock, id, what)) await Promise.race([over, after(20)]);
  await over;
  held.delete(id);
};

const actions = {
  async request({ number, what, options, duration }) {
    const abort = new AbortController();
    aborts.set(number, abort);
    const given =
      options.steal || options.ifAvailable ? options : { ...options, signal: abort.signal };
    await recorder.request(name, locks, what, given, hold(number, what, duration));
    aborts.delete(number);
    send({ number, settled: true });
  },
  look() {
    for (const [id, lock] of held) if (!lock.held) recorder.record('unheld', { id });
    recorder.record('resumed', { client: name });
  },
  /**
   * Reports when the server has a request for the name. A query follows earlier requests, but waits
   * no longer for them than a part of the lease.
   */
  async asked({ number, what }) {
    const isOwn = ({ pid }) => pid === process.pid;
    while (aborts.has(number)) {
      try {
        const { held, pending } = await locks.query({ name: what, details: true });
        if ([...held, ...pending].some(isOwn)) break;
      } catch {
        // The machine was busy for longer than a short lease: retry.
      }
    }
    send({ number, asked: true });
  },
  release: ({ number }) => releases.get(number)?.(),
  abort: ({ number }) => aborts.get(number)?.abort(),
  async ready() {
    for (;;) {
      try {
        await backend.ready;
        break;
      } catch (error) {
        if (backend.state === 'closed') throw error;
        // On a loaded machine it takes longer than this short lease: retry.
      }
    }
    send({ ready: true });
  },
  async close() {
    await backend.close();
    await end?.();
    send({ closed: true });
    process.disconnect();
  },
};

process.on('message', (/** @type {any} */ message) => actions[message.do](message));
process.on('disconnect', () => {
  if (process.exitCode === undefined) setImmediate(() => process.exit());
});
// This process stays until its parent ends it, whatever the test waits for.
process.channel.ref();
