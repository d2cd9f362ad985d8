'use strict';

/**
 * The scopes whose locks a server keeps: how actors reach it, what can happen to it and to the
 * network, and what may be left there. A server is started once for all rounds; each round has a
 * bucket of its own.
 */

const { FaultyProxy } = require('../cluster/proxy.js');
const servers = require('../cluster/servers.js');
const { wait, within } = require('./faults.js');
const { Members, faults: faultsOfMembers } = require('./members.js');
const { Pair, faultsOf: faultsOfPair } = require('./pair.js');
const { GuardedSet } = require('./set.js');

/** The shortest lease, so that lost locks are soon granted again. */
const TTL = 2000;
/** Within this time a server has removed all sessions. */
const LEFT_MS = 4 * TTL;

/** Picks all lines from an actor to its server's members, or one. */
const someOf = (proxies, random) => (random.chance(0.5) ? proxies : [random.pick(proxies)]);

/** Disturbs connections once. */
const atOnce =
  (disturb) =>
  (_round, random, { more: { proxies } }) => {
    for (const proxy of someOf(proxies, random)) disturb(proxy, random);
  };

/** Disturbs the network for a while. */
const forAWhile =
  (disturb) =>
  async (_round, random, { more: { proxies } }) => {
    const chosen = someOf(proxies, random);
    for (const proxy of chosen) disturb(proxy, random);
    await wait(2 * TTL * random.number() ** 2);
    for (const proxy of chosen) proxy.heal();
  };

/** Ends a server or a pooler, and starts it again. */
const restarts =
  (programOf, end) =>
  async ({ scope }, random) => {
    const program = programOf(scope.server);
    await program[end]();
    await wait(TTL * random.number());
    await program.start();
  };

/** Stops a server or a pooler for a while. */
const pauses =
  (programOf) =>
  async ({ scope }, random) => {
    const program = programOf(scope.server);
    await program.signal('SIGSTOP');
    await wait(2 * TTL * random.number());
    await program.signal('SIGCONT');
  };

const itself = (server) => server;
const poolerOf = ({ pooler }) => pooler;

const ownFaults = {
  /** Resets connections. */
  cut: atOnce((proxy) => proxy.cut()),
  /** Resets them after some bytes in one direction, so that a reply may be lost. */
  cutAfter: atOnce((proxy, random) =>
    proxy.cutAfter(1 + random.below(2000), random.pick(['up', 'down'])),
  ),
  /** Drops bytes in one direction or both. */
  stall: forAWhile((proxy, random) =>
    proxy.stall(random.pick([{}, { up: false }, { down: false }])),
  ),
  delay: forAWhile((proxy, random) => proxy.delay(TTL * random.number())),
  refuse: forAWhile((proxy) => proxy.refuse()),
  /** Blocks the event loop of an actor; a keeper's thread continues. */
  async block(_round, random, actor) {
    const milliseconds = TTL * (0.5 + 2.5 * random.number());
    actor.tell('block', { milliseconds, isHeld: random.chance(0.5) });
    await wait(milliseconds);
  },
  /** Cuts the power of the server, and starts it again. */
  crash: restarts(itself, 'crash'),
  stopServer: pauses(itself),
};

/** Faults of a pooler between actors and server, and of the network behind it. */
const faultsOfPooler = {
  cutBehind: ({ scope }) => scope.server.behind.cut(),
  crashPooler: restarts(poolerOf, 'stop'),
  stopPooler: pauses(poolerOf),
};

/** A PostgreSQL server that actors reach through a pooler. */
class Pooled {
  constructor(server, behind, pooler) {
    this.server = server;
    this.behind = behind;
    this.pooler = pooler;
  }

  static async start() {
    const server = await postgres.start();
    const behind = await FaultyProxy.open(server.port);
    return new Pooled(server, behind, await servers.startPgbouncer(behind, 'session'));
  }

  get port() {
    return this.pooler.port;
  }

  /** The address of the server itself, without the pooler. */
  get config() {
    return this.server.config;
  }

  crash() {
    return this.server.crash();
  }

  start() {
    return this.server.start();
  }

  signal(name) {
    return this.server.signal(name);
  }
}

const base64 = (text) => Buffer.from(text).toString('base64');

/** Records where each client of a pg pool was taken. @returns {WeakMap<any, string>} */
function takersOf(pool) {
  const takers = new WeakMap();
  const { connect } = pool;
  pool.connect = (callback) => {
    if (callback) return connect.call(pool, callback);
    const { stack } = new Error('taken');
    return connect.call(pool).then((client) => {
      takers.set(client, stack);
      return client;
    });
  };
  return takers;
}

/** Ends a pg pool, or reports which of its clients are still taken, where, and for what. */
async function endPool(pool, takers) {
  const ended = pool.end().then(() => true);
  if (await within(LEFT_MS, ended)) return;
  const clients = pool._clients.map((client) => {
    const query = client._getActiveQuery?.call(client);
    const isIdle = pool._idle.some((item) => item.client === client);
    return { isIdle, query: query && (query.text ?? query.statement), takenBy: takers.get(client) };
  });
  throw new Error(`a pool does not end: ${JSON.stringify(clients)}`);
}

/** A disk that a crash reverts to what was synced, where a compiler can build it. */
const newDisk = () => (servers.lacks.gcc ? undefined : servers.newDisk());

const postgres = {
  // Most releases reach the disk late or never.
  async start() {
    const settings = ['synchronous_commit=off', 'wal_writer_delay=10s'];
    const server = await servers.startPostgres({ settings, disk: newDisk() });
    await new GuardedSet(server.config).create();
    return server;
  },
  linesOf: ({ config }, bucket) => new GuardedSet(config).lines(bucket),
  configOf: ([port], random) => ({
    kind: random.pick(['pg', 'postgres.js']),
    config: { host: '127.0.0.1', port, user: 'postgres', database: 'postgres' },
  }),
  async left({ config }) {
    const pg = require('pg');
    const client = new pg.Client(config);
    await client.connect();
    const list = async (query) => (await client.query(query)).rows;
    const left = {
      sessions: await list('SELECT *, clock_timestamp() AS now FROM web_locks.session'),
      requests: await list('SELECT * FROM web_locks.request'),
      connections: await list(`SELECT pid, state, query FROM pg_stat_activity
          WHERE query LIKE '%web_locks%' AND pid <> pg_backend_pid()
          AND backend_type = 'client backend'`),
    };
    await client.end();
    return left;
  },
  open({ config: { kind, config } }) {
    if (kind === 'postgres.js') {
      const sql = require('postgres')({ ...config, max: 4, onnotice() {} });
      return { options: { sql }, end: () => sql.end() };
    }
    const pg = require('pg');
    const pool = new pg.Pool({ ...config, max: 4 });
    pool.on('error', () => {});
    const takers = takersOf(pool);
    return { options: { pool }, end: () => endPool(pool, takers) };
  },
};

/** A PostgreSQL server whose commits wait for its standby. */
const synchronous = {
  async start() {
    const server = await postgres.start();
    const client = new (require('pg').Client)(server.config);
    await client.connect();
    // The file of this setting is copied to standbys, which keep it when they are promoted.
    await client.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
    await client.query('SELECT pg_reload_conf()');
    await client.end();
    return server;
  },
  follow: (proxy) => servers.startStandby(proxy),
  canBeSplit: true,
};

/** A Redis server and its replica. @param {string[]} [settings] of both */
const replicated = (settings = []) => {
  const all = ['--appendonly', 'yes', ...settings];
  return {
    start: () => servers.startRedis({ settings: all }),
    follow: (primary) => servers.startRedis({ primary, settings: all }),
    canBeSplit: settings.length > 0,
  };
};

/** A primary notices the loss of its replica within two seconds, because lags are rounded. */
const STRICT = ['--min-replicas-to-write', '1', '--min-replicas-max-lag', '1'];
const STRICT_PAUSE = TTL + 2000;

const etcd = {
  start: () => servers.startEtcd(),
  configOf: (ports, random) => ({
    endpoints: random.shuffled(ports).map((port) => `http://127.0.0.1:${port}`),
  }),
  async left(server) {
    const range = { key: base64('web-locks/1/'), range_end: base64('web-locks/10') };
    const { kvs = [] } = await server.call('kv/range', { ...range, keys_only: true });
    const keys = kvs.map(({ key }) => Buffer.from(key, 'base64').toString());
    return { keys };
  },
  open: ({ config }) => ({ options: config, end() {} }),
};

const redis = {
  // A crash loses everything that is not on a disk.
  forgets: true,
  start: () => servers.startRedis({ settings: ['--appendonly', 'yes'], disk: newDisk() }),
  configOf: ([port], random) => {
    const { clients } = require('../cluster/redis-clients.js');
    return { port, kind: random.pick(Object.keys(clients)) };
  },
  async left(server) {
    // Marks, tokens, the bucket's description and the time of a promotion stay.
    const keys = await server.call('KEYS', '{wl:*');
    const clients = await server.call('CLIENT', 'LIST');
    return {
      keys: keys.filter((key) => key && !/:[mkw]$|^\{wl:\}server$/.test(key)),
      connections: clients.filter((line) => /cmd=(eval|subscribe)/.test(line)),
    };
  },
  open({ config: { kind, port } }) {
    const { clients } = require('../cluster/redis-clients.js');
    return { options: { client: clients[kind](port) }, end() {} };
  },
};

const engines = {
  postgres,

  /** PostgreSQL behind a pooler in session mode. */
  pgbouncer: {
    ...postgres,
    entry: 'postgres',
    ownFaults: faultsOfPooler,
    start: () => Pooled.start(),
  },

  /** A standby takes the place of its primary, here and below. */
  'postgres-standby': {
    ...postgres,
    entry: 'postgres',
    ownFaults: faultsOfPair(TTL),
    start: () => Pair.start(synchronous),
  },

  redis,

  'redis-replica': {
    ...redis,
    entry: 'redis',
    ownFaults: faultsOfPair(TTL),
    start: () => Pair.start(replicated()),
  },

  /** The same, but an old primary that still runs grants nothing. */
  'redis-strict': {
    ...redis,
    entry: 'redis',
    ownFaults: faultsOfPair(TTL),
    pause: STRICT_PAUSE,
    start: () => Pair.start(replicated(STRICT)),
    open(plan) {
      const { options, end } = redis.open(plan);
      return { options: { ...options, strict: true }, end };
    },
  },

  etcd,

  /** Three members whose connections break. */
  'etcd-members': {
    ...etcd,
    entry: 'etcd',
    ownFaults: faultsOfMembers,
    start: () => Members.start(),
  },
};

/** The ports of the server, or of each of its members. */
const portsOf = ({ port, ports = [port] }) => ports;

/**
 * @param {string} name
 * @param {{ lacks: any, load: (entry: string) => any, placeOf: any }} common
 * @returns a scope of scopes.js
 */
function scopeOf(name, { lacks, load, placeOf }) {
  const engine = engines[name];
  const { entry = name, ownFaults: more = {}, pause = TTL } = engine;
  return {
    gate: false,
    // A lease, a quarantine and a new connection can follow one another.
    patience: 20 * (TTL / 100),
    processes: 4,
    threads: 0,
    buckets: 1,
    lacks,
    // Grants may overtake one another: replies and notifications use different connections.
    promises: { losses: true, forgets: engine.forgets, callbacks: false, pause },
    faults: ['kill', 'stop', ...Object.keys(ownFaults), ...Object.keys(more)],
    ownFaults: { ...ownFaults, ...more },

    async begin(round) {
      this.server ??= await engine.start();
      round.proxies = [];
      round.bucketName = `torture ${round.seed}`;
    },

    async planOf(round) {
      const proxies = await Promise.all(portsOf(this.server).map(FaultyProxy.open));
      round.proxies.push(...proxies);
      const ports = proxies.map(({ port }) => port);
      const config = engine.configOf(ports, round.random);
      const keeper = round.random.pick([false, true, { maxBlocked: TTL / 2 }]);
      const { config: direct } = this.server;
      return { config, direct, keeper, bucket: round.bucketName, proxies };
    },

    async heal(round) {
      for (const proxy of round.proxies) proxy.heal();
      await this.server.heal?.();
    },

    async left(round) {
      const look = async (end) => {
        for (;;) {
          const left = await engine.left(this.server);
          if (Object.values(left).every(({ length }) => length === 0)) return undefined;
          if (performance.now() > end) return left;
          await wait(100);
        }
      };
      const isClean = !(await look(performance.now() + TTL / 2));
      // A session that waits while a lease expires removes what killed processes left.
      if (!isClean) await this.sweep(round);
      const left = isClean ? undefined : await look(performance.now() + LEFT_MS);
      if (left) round.fault('left', `at the server: ${JSON.stringify(left)}`);
    },

    /** Opens a session that waits longer than a lease. */
    async sweep(round) {
      const config = engine.configOf(portsOf(this.server), round.random);
      const { places, end } = this.open({ config, bucket: round.bucketName });
      const [{ close, locks }] = places;
      const held = await locks.acquire('sweep');
      const waits = locks.acquire('sweep');
      await wait(1.5 * TTL);
      await held.release();
      await (await waits).release();
      await close();
      await end();
    },

    async end(round) {
      round.lines = await engine.linesOf?.(this.server, round.bucketName);
      for (const proxy of round.proxies) await proxy.close();
    },

    /** Opens the scope in an actor. */
    open({ bucket, direct, keeper = false, ...plan }) {
      const library = load(entry);
      const { options, end } = engine.open(plan);
      const all = { ...options, ttl: TTL, label: 'torture', keeper };
      const places = [placeOf(bucket, () => library.openBucket(bucket, all))];
      return { library, places, end, guarded: engine.linesOf && new GuardedSet(direct) };
    },
  };
}

module.exports = { engines, scopeOf };
