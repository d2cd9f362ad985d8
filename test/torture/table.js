'use strict';

/**
 * Everything that a caller can ask for, each thing a row: how it is drawn, which calls take it, and
 * how it is refused where it is not taken. table.test.js compares the rows with the types: what the
 * types have and this table has not fails there.
 */

/** How many units the names of semaphores have. */
const LIMIT = 4;

const NOT_SUPPORTED = 'NotSupportedError';
const TYPE = 'TypeError';

/**
 * What a name is for. `plain` and `units` are never stolen, held too long or closed: what holds
 * there holds without exception, and the gate looks at it. `rough` names have all that takes a lock
 * away.
 */
const kinds = {
  job: { share: 1, isSafe: false },
  office: { share: 1, isSafe: false },
  plain: { share: 4, isSafe: true },
  rough: { share: 4, isSafe: false },
  units: { share: 2, isSafe: true },
};

const MANAGER = ['request', 'acquire', 'requestAll', 'acquireAll'];
const ONE_NAME = ['request', 'acquire'];
const SYNC = ['acquireSync', 'tryAcquireSync'];
const MUTEX = ['Mutex.acquire', 'Mutex.runExclusive'];
const RWLOCK = [
  'RWLock.acquireShared',
  'RWLock.acquireExclusive',
  'RWLock.runShared',
  'RWLock.runExclusive',
];
const SEMAPHORE = ['Semaphore.acquire', 'Semaphore.run'];
const TRY = ['Mutex.tryAcquire', 'Semaphore.tryAcquire'];
const TRY_UNITS = ['Semaphore.tryAcquire'];
const NAMED = [...MUTEX, ...RWLOCK, ...SEMAPHORE, ...TRY];
const LONG = ['elect', 'once'];
const PASS = ['Mutex.waitForUnlock'];

const isAbout =
  (...given) =>
  (kind) =>
    given.includes(kind);
const always = () => true;

/**
 * Options of requests.
 * - `takes`: the calls that take it
 * - `on`: the kinds of names that it is drawn for
 * - `often`: how often it is drawn there
 * - `draw(user, request)`: a value; `request` has the `call`, the `kind` of the name, what was drawn
 *   so far (`options`), and `facts`, which are recorded
 * - `needs`: what a scope must not lack
 * - `usual`: what it is if it is not given
 */
const options = {
  mode: {
    usual: 'exclusive',
    takes: [...MANAGER, ...SYNC],
    on: always,
    often: 0.6,
    draw: (user, { kind }) => (user.chance(kind === 'units' ? 0.9 : 0.5) ? 'shared' : 'exclusive'),
  },
  limit: {
    takes: [...MANAGER, ...SYNC],
    on: isAbout('units', 'rough'),
    often: 0.3,
    draw: (user, { kind }) => (kind === 'units' ? LIMIT : user.pick([1, 2, LIMIT])),
  },
  weight: {
    takes: [...MANAGER, ...SYNC, ...SEMAPHORE, ...TRY_UNITS],
    on: isAbout('units', 'rough'),
    often: 0.6,
    draw: (user, { given: { limit = LIMIT } }) => 1 + user.below(limit),
  },
  ifAvailable: {
    takes: [...MANAGER, ...MUTEX, ...RWLOCK, ...SEMAPHORE],
    on: always,
    often: 0.08,
    draw: () => true,
  },
  blocking: {
    takes: [...MUTEX, ...RWLOCK, ...SEMAPHORE],
    on: always,
    often: 0.08,
    draw: (user) => user.chance(0.2),
  },
  timeout: {
    takes: [...MANAGER, 'acquireSync', 'once', ...MUTEX, ...RWLOCK, ...SEMAPHORE, ...PASS],
    on: always,
    often: 0.25,
    draw: (user) => user.pick([0, 0, user.below(4), user.below(40), 60_000]),
  },
  signal: {
    takes: [...MANAGER, ...LONG, ...MUTEX, ...RWLOCK, ...SEMAPHORE, ...PASS],
    on: always,
    often: 0.15,
    draw: (user, request) => user.signal(request),
  },
  steal: {
    takes: ONE_NAME,
    on: isAbout('rough', 'office'),
    often: 0.2,
    draw: () => true,
  },
  holdTimeout: {
    takes: [...MANAGER, ...SYNC, ...NAMED],
    on: isAbout('rough'),
    often: 0.25,
    draw: (user) => user.pick([0.5, 1 + user.below(4), 5 + user.below(20)]),
  },
  maxTotal: {
    takes: [...MANAGER, 'acquireSync', ...MUTEX, ...RWLOCK, ...SEMAPHORE],
    on: isAbout('rough'),
    often: 0.15,
    draw: (user) => user.pick([0.5, 1 + user.below(40), 60_000]),
  },
  maxPending: {
    takes: [...MANAGER, ...SYNC, ...LONG, ...NAMED, ...PASS],
    on: always,
    often: 0.08,
    draw: (user) => user.pick([0, 1, 3, 1000]),
  },
  priority: {
    usual: 0,
    takes: [...MANAGER, ...SYNC, ...LONG, ...NAMED, ...PASS],
    needs: 'priority',
    on: always,
    often: 0.3,
    draw: (user) => user.pick([-1, -1, 1, 1, 1, user.below(100) - 50 || 1]),
  },
  reentrant: {
    takes: [...MANAGER, ...SYNC, ...NAMED],
    on: always,
    often: 0.2,
    draw: () => true,
  },
  warnAfter: {
    takes: [...MANAGER, ...SYNC, ...LONG, ...NAMED, ...PASS],
    on: always,
    often: 0.04,
    draw: (user) => user.pick([0, 1, 20]),
  },
  label: {
    takes: [...MANAGER, ...SYNC, ...LONG, ...NAMED, ...PASS],
    on: always,
    often: 0.8,
    // By which a snapshot tells whose it is.
    draw: (_user, { id }) => id,
  },
  deadlock: {
    takes: [...MANAGER, ...LONG, ...NAMED, ...PASS],
    needs: 'deadlock',
    on: always,
    often: 0.12,
    draw: () => 'reject',
  },
  keep: {
    takes: ['once'],
    isRequired: true,
    on: always,
    often: 1,
    draw: (user) => user.pick([0.5, 5, 40, 400]),
  },
};

/** What cannot be asked for together: the error, and when. */
const conflicts = [
  {
    error: NOT_SUPPORTED,
    of: ({ steal, ifAvailable, signal, mode }) =>
      steal && (ifAvailable || signal || mode === 'shared'),
  },
  { error: NOT_SUPPORTED, of: ({ signal, ifAvailable }) => signal && ifAvailable },
  {
    error: NOT_SUPPORTED,
    of: ({ timeout, steal, ifAvailable }) => timeout !== undefined && (steal || ifAvailable),
  },
  {
    error: TYPE,
    of: ({ blocking, ifAvailable }) => blocking !== undefined && ifAvailable,
  },
  { error: NOT_SUPPORTED, of: ({ priority, steal }) => priority && steal },
  {
    // All locks are asked for in one step.
    error: NOT_SUPPORTED,
    of: ({ priority }, { method, lacks }) => priority && method.isSeveral && lacks.oneByOne,
  },
  {
    error: TYPE,
    of: ({ limit, mode }, { method }) =>
      !method.isNamed && limit !== undefined && mode !== 'shared',
  },
  {
    error: TYPE,
    of: ({ limit, weight }, { method }) =>
      !method.isNamed && weight !== undefined && (limit === undefined || weight > limit),
  },
  {
    error: TYPE,
    of: ({ maxTotal, timeout }, { call, isMain }) =>
      call === 'acquireSync' && isMain && timeout === undefined && maxTotal === undefined,
  },
];

/**
 * Calls of the objects that there are.
 * - `on`: the class; `method`
 * - `weight`: how often it is made
 * - `names`: whether it takes several
 * - `on names`: `kinds` of names that it is made for
 * - `ends`: how the lock ends: with a `callback`, a `handle`, `handles`, or a `release` function;
 *   `nothing` of what never is a lock
 * - `isSync`, `isNamed` (a Mutex and its like)
 * - `mode`: that it asks for itself
 * - `needs`: what a scope must not lack
 */
const ANY = ['plain', 'rough', 'units'];
const SYNC_CALL = { on: 'LockManager', kinds: ANY, ends: 'handle', isSync: true, needs: 'sync' };
const MARKED_CALL = { on: 'LockManager', mode: 'exclusive', needs: 'marks' };
const calls = {
  request: { on: 'LockManager', weight: 30, kinds: ANY, ends: 'callback' },
  acquire: { on: 'LockManager', weight: 14, kinds: ANY, ends: 'handle' },
  requestAll: { on: 'LockManager', weight: 6, kinds: ANY, ends: 'callback', isSeveral: true },
  acquireAll: { on: 'LockManager', weight: 4, kinds: ANY, ends: 'handles', isSeveral: true },
  tryAcquireSync: { ...SYNC_CALL, weight: 5 },
  acquireSync: { ...SYNC_CALL, weight: 4, isSlow: true },
  elect: { on: 'LockManager', weight: 1, kinds: ['office'], ends: 'callback', mode: 'exclusive' },
  once: { ...MARKED_CALL, weight: 3, kinds: ['job'], ends: 'callback' },
  'Mutex.acquire': named('Mutex', 'release', 'exclusive'),
  'Mutex.tryAcquire': named('Mutex', 'release', 'exclusive'),
  'Mutex.runExclusive': named('Mutex', 'callback', 'exclusive'),
  'Mutex.waitForUnlock': named('Mutex', 'nothing', 'exclusive'),
  'RWLock.acquireShared': named('RWLock', 'release', 'shared'),
  'RWLock.acquireExclusive': named('RWLock', 'release', 'exclusive'),
  'RWLock.runShared': named('RWLock', 'callback', 'shared'),
  'RWLock.runExclusive': named('RWLock', 'callback', 'exclusive'),
  'Semaphore.acquire': named('Semaphore', 'release', 'shared'),
  'Semaphore.tryAcquire': named('Semaphore', 'release', 'shared'),
  'Semaphore.run': named('Semaphore', 'callback', 'shared'),
};

function named(on, ends, mode) {
  const kindsOf = on === 'Semaphore' ? ['units'] : ['plain', 'rough'];
  return { on, weight: 1.5, kinds: kindsOf, ends, isNamed: true, mode };
}

/** What is looked at, and what is done with buckets: no requests. */
const deeds = {
  query: { on: 'LockManager', weight: 2 },
  leader: { on: 'LockManager', weight: 0.5 },
  locked: { on: 'Mutex', weight: 0.3 },
  available: { on: 'Semaphore', weight: 0.2 },
  pending: { on: 'Semaphore', weight: 0.2 },
  isBusy: { on: 'LockManager', weight: 0.3 },
  openAndClose: { on: 'StorageBucket', weight: 0.4 },
  collect: { on: 'LockHandle', weight: 0.1, isSlow: true },
};

/** The forms of `query`. */
const queries = [
  () => undefined,
  () => ({}),
  () => ({ details: false }),
  (name) => ({ name }),
  () => ({ details: true }),
  () => ({ details: true }),
  (name) => ({ details: true, name }),
];

/**
 * What users' code does while it has a lock, by how often; `isSlow`: in some rounds only. `isSync`: it returns no promise;
 * `rough`: of names that are, since it keeps others waiting; `ofCallbacks`: where there is a
 * callback.
 */
const holds = {
  returns: { weight: 30, isSync: true },
  throws: { weight: 4, isSync: true, ofCallbacks: true },
  rejects: { weight: 3, ofCallbacks: true },
  thenable: { weight: 2, ofCallbacks: true },
  microtask: { weight: 20 },
  immediate: { weight: 15 },
  sleeps: { weight: 12, isSlow: true },
  lingers: { weight: 2, isSlow: true },
  blocks: { weight: 1.5, isSync: true, isSlow: true },
  never: { weight: 1, isRough: true, isSlow: true },
  leaks: { weight: 1, isRough: true, ofHandles: true, isSlow: true },
  asks: { weight: 8 },
  robsItself: { weight: 1, isRough: true },
  aborts: { weight: 2 },
};

/** How a handle is given back. */
const releases = ['release', 'dispose', 'asyncDispose', 'twice'];

/**
 * @typedef {object} Where
 * @property {string} call
 * @property {object} lacks what the scope has not got
 * @property {boolean} isMain whether it is the main thread
 * @property {boolean} [isPrivate] a Mutex or the like of this thread
 */

/**
 * @param {any} given options
 * @param {Where} where
 * @returns {Set<string>} the names of the errors, one of which must come; empty: it is not refused
 */
function refusals(given, { call, lacks, isMain, isPrivate }) {
  const method = calls[call];
  const errors = new Set();
  if (method.needs && lacks[method.needs]) errors.add(NOT_SUPPORTED);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    const row = options[name];
    if (!row.takes.includes(call)) {
      // What is the default anyway is no option.
      if (method.isNamed) errors.add(TYPE);
      else if (value !== row.usual) errors.add(NOT_SUPPORTED);
    } else if (row.needs && lacks[row.needs] && !isPrivate) {
      errors.add(NOT_SUPPORTED);
    }
  }
  for (const { error, of } of conflicts)
    if (of(given, { call, method, isMain, lacks })) errors.add(error);
  for (const [name, { isRequired, takes }] of Object.entries(options)) {
    if (isRequired && takes.includes(call) && given[name] === undefined) errors.add(TYPE);
  }
  return errors;
}

/** What `state` of a bucket in a cluster can be. */
const states = ['new', 'opening', 'open', 'suspect', 'refused', 'lost', 'closed'];

/**
 * Codes of the errors of a server that did not answer in time, or not so that it can be heard, or
 * that refused to serve.
 */
const away = ['UNREACHABLE', 'NO_NEWS', 'NO_WATCH', 'BUSY', 'RIGHTS'].map(
  (code) => `ERR_WEB_LOCKS_${code}`,
);

/** What has a row, by the name of its type: `Type.member` of types/*.d.ts. */
const members = {
  LockManager: [
    ...Object.keys(calls).filter((call) => calls[call].on === 'LockManager'),
    'query',
    'leader',
    'isBusy',
  ],
  Mutex: ['acquire', 'tryAcquire', 'runExclusive', 'waitForUnlock', 'locked'],
  RWLock: ['acquireShared', 'acquireExclusive', 'runShared', 'runExclusive', 'locked'],
  Semaphore: ['acquire', 'tryAcquire', 'run', 'available', 'pending'],
  Lock: ['mode', 'name', 'signal', 'held', 'remaining', 'guard', 'token', 'toJSON', 'publish'],
  LockHandle: ['released', 'release', 'dispose', 'asyncDispose'],
  SeveralLocks: ['locks', 'release', 'dispose', 'asyncDispose'],
  Release: ['dispose', 'asyncDispose'],
  Leader: ['name', 'token', 'signal', 'held', 'toJSON', 'publish'],
  StorageBucket: ['name', 'locks', 'ready', 'close', 'asyncDispose'],
  ClusterBucket: ['state', 'addEventListener', 'removeEventListener'],
  QueryOptions: ['details', 'name'],
  LockName: ['name', 'mode'],
  PrivateOptions: ['label'],
  NamedOptions: ['label', 'bucket', 'locks'],
  BucketOptions: ['directory'],
  PostgresOptions: ['pool', 'sql', 'ttl', 'label', 'keeper'],
  RedisOptions: ['client', 'ttl', 'label', 'shards', 'keeper'],
  EtcdOptions: ['endpoints', 'ttl', 'label', 'keeper'],
  KeeperOptions: ['maxBlocked'],
};

/** What is not tortured, and why. */
const leftOut = {
  'PostgresOptions.listen': 'a pooler: test/cluster/postgres-adapter.test.js',
  'PostgresOptions.schema': 'where the tables are: test/cluster/postgres-adapter.test.js',
  'PostgresOptions.durability': 'what a crash does: test/cluster/postgres.test.js',
  'RedisOptions.strict': 'of primaries with replicas: test/cluster/redis.test.js',
  'RedisOptions.failover': 'of servers that hide: test/cluster/redis-adapter.test.js',
  'RedisOptions.prefix': 'what keys begin with: test/cluster/redis-adapter.test.js',
  'PostgresOptions.releaseOnSignal': 'how a process ends: test/cluster/exit.test.js',
  'RedisOptions.releaseOnSignal': 'how a process ends: test/cluster/exit.test.js',
  'KeeperOptions.module': 'how a client is made: test/cluster/keeper.test.js',
  'EtcdOptions.releaseOnSignal': 'how a process ends: test/cluster/exit.test.js',
  'EtcdOptions.auth': 'who may: test/cluster/etcd-adapter.test.js',
  'EtcdOptions.fetch': 'how it is reached: test/cluster/etcd-adapter.test.js',
  'Mutex.cancel': 'as signals that abort: test/extensions/mutex.test.js',
  'RWLock.cancel': 'as signals that abort: test/extensions/mutex.test.js',
  'Semaphore.cancel': 'as signals that abort: test/extensions/semaphore.test.js',
  'Semaphore.resize': 'two names, one after the other: test/extensions/semaphore.test.js',
  'InstallOptions.target': 'asks for no lock: test/spec/3.1-navigator.test.js',
  'InstallOptions.locks': 'asks for no lock: test/spec/3.1-navigator.test.js',
  'ProfileOptions.file': 'a profile asks for no lock: test/profile',
  'ProfileOptions.size': 'a profile asks for no lock: test/profile',
  'ProfileOptions.sites': 'a profile asks for no lock: test/profile',
  'CollectOptions.register': 'metrics ask for no lock: test/documents/finding-out.test.js',
  'RunCoordinatorOptions.timeout': 'marks as `once` does: test/lib/cron.test.js',
  'RunCoordinator.shouldRun': 'marks as `once` does: test/lib/cron.test.js',
  'OncePerTickOptions.timeout': 'marks as `once` does: test/lib/cron.test.js',
  'LocksModuleAsyncOptions.imports': 'NestJS calls as others do: test/lib/nest.test.js',
  'LocksModuleAsyncOptions.inject': 'NestJS calls as others do: test/lib/nest.test.js',
  'LocksModuleAsyncOptions.useFactory': 'NestJS calls as others do: test/lib/nest.test.js',
};

/** Which calls an interface of options is of. */
const interfaces = {
  LockOptions: ['request', 'acquire'],
  SeveralOptions: ['requestAll', 'acquireAll'],
  SyncOptions: ['acquireSync'],
  ElectOptions: ['elect'],
  OnceOptions: ['once'],
  AcquireOptions: [...MUTEX, ...RWLOCK],
  SemaphoreOptions: SEMAPHORE,
};

module.exports = {
  LIMIT,
  away,
  calls,
  deeds,
  holds,
  interfaces,
  kinds,
  leftOut,
  members,
  options,
  queries,
  refusals,
  releases,
  states,
};
