'use strict';

/**
 * A process of its own with a bucket: it does what its parent says (actors.js), and tells all that
 * becomes of its requests, with times of CLOCK_MONOTONIC, which all processes of a machine share.
 */

const { ClusterBackend } = require('../../lib/cluster/backend.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const { Recorder } = require('../world/check.js');

require('../../lib/index.js');

/** How a process gets an adapter, by engine; `end` gives back what is not the adapter's. */
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

/** What ends holds, by the parent's number of the request. @type {Map<number, () => void>} */
const releases = new Map();
/** @type {Map<number, AbortController>} */
const aborts = new Map();

const after = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Looks at a lock as a user would who is about to do something. The time is taken first: a process can
 * be stopped between any two steps, and who goes on after a look cannot know that.
 */
const look = (lock, id, what) => {
  const time = now();
  const { held, token } = lock;
  if (held) recorder.record('write', { id, name: what, token, time });
  else recorder.record('unheld', { id });
  return held;
};

/** The locks that are held, by id. */
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
   * Tells when the server has a request for the name. A query comes after what was asked before it,
   * but not for longer than a part of the lease.
   */
  async asked({ number, what }) {
    const isOwn = ({ pid }) => pid === process.pid;
    while (aborts.has(number)) {
      try {
        const { held, pending } = await locks.query({ name: what, details: true });
        if ([...held, ...pending].some(isOwn)) break;
      } catch {
        // A machine that is busy for longer than a short lease: it is asked again.
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
        // It takes longer than this short lease, on a loaded machine, and is tried on.
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
// Whatever the test waits for, this process stays until its parent ends it.
process.channel.ref();
