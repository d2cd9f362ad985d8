'use strict';

/**
 * Everything that a caller can request, one row each: how it is drawn, which calls accept it, and
 * how a call refuses it. table.test.js compares the rows with the types.
 */

/** How many units the names of semaphores have. */
const LIMIT = 4;

const NOT_SUPPORTED = 'NotSupportedError';
const TYPE = 'TypeError';

/**
 * Kinds of names. Locks of safe names are never stolen, held too long or closed: they keep every
 * promise, and pass the gate (gate.js). On `rough` names anything may happen.
 */
const kinds = {
  job: { share: 1, isSafe: false },
  office: { share: 1, isSafe: false },
  plain: { share: 4, isSafe: true },
  rough: { share: 4, isSafe: false },
  units: { share: 2, isSafe: true },
};

const ONE_NAME = ['request', 'acquire'];
const MANAGER = [...ONE_NAME, 'requestAll', 'acquireAll'];
const SYNC = ['acquireSync', 'tryAcquireSync'];
const MUTEX = ['Mutex.acquire', 'Mutex.runExclusive'];
const RWLOCK = ['Shared', 'Exclusive'].flatMap((mode) => [
  `RWLock.acquire${mode}`,
  `RWLock.run${mode}`,
]);
const SEMAPHORE = ['Semaphore.acquire', 'Semaphore.run'];
const WAITING = [...MUTEX, ...RWLOCK, ...SEMAPHORE];
const NAMED = [...WAITING, 'Mutex.tryAcquire', 'Semaphore.tryAcquire'];
const LONG = ['elect', 'once'];
const PASS = ['Mutex.waitForUnlock'];
const ALL = [...MANAGER, ...SYNC, ...LONG, ...NAMED, ...PASS];

/**
 * Options of requests.
 * - `takes`: the calls that take it
 * - `kinds`: the kinds of names that it is drawn for, if not all
 * - `often`: how often it is drawn there
 * - `draw(user, request)`: its value; `request` has the `call`, the `kind` of the name, the options
 *   that were drawn so far (`given`), and `facts`, which are recorded
 * - `needs`: what a scope must not lack
 * - `usual`: its value if it is not given
 */
const options = {
  mode: {
    usual: 'exclusive',
    takes: [...MANAGER, ...SYNC],
    often: 0.6,
    draw: (user, { kind }) => (user.chance(kind === 'units' ? 0.9 : 0.5) ? 'shared' : 'exclusive'),
  },
  limit: {
    takes: [...MANAGER, ...SYNC],
    kinds: ['units', 'rough'],
    often: 0.3,
    draw: (user, { kind }) => (kind === 'units' ? LIMIT : user.pick([1, 2, LIMIT])),
  },
  weight: {
    takes: [...MANAGER, ...SYNC, ...SEMAPHORE, 'Semaphore.tryAcquire'],
    kinds: ['units', 'rough'],
    often: 0.6,
    draw: (user, { given: { limit = LIMIT } }) => 1 + user.below(limit),
  },
  ifAvailable: { takes: [...MANAGER, ...WAITING], often: 0.08, draw: () => true },
  blocking: { takes: WAITING, often: 0.08, draw: (user) => user.chance(0.2) },
  timeout: {
    takes: [...MANAGER, 'acquireSync', 'once', ...WAITING, ...PASS],
    often: 0.25,
    draw: (user) => user.pick([0, 0, user.below(4), user.below(40), 60_000]),
  },
  signal: {
    takes: [...MANAGER, ...LONG, ...WAITING, ...PASS],
    often: 0.15,
    draw: (user, request) => user.signal(request),
  },
  steal: { takes: ONE_NAME, kinds: ['rough', 'office'], often: 0.2, draw: () => true },
  holdTimeout: {
    takes: [...MANAGER, ...SYNC, ...NAMED],
    kinds: ['rough'],
    often: 0.25,
    draw: (user) => user.pick([0.5, 1 + user.below(4), 5 + user.below(20)]),
  },
  maxTotal: {
    takes: [...MANAGER, 'acquireSync', ...WAITING],
    kinds: ['rough'],
    often: 0.15,
    draw: (user) => user.pick([0.5, 1 + user.below(40), 60_000]),
  },
  maxPending: { takes: ALL, often: 0.08, draw: (user) => user.pick([0, 1, 3, 1000]) },
  priority: {
    usual: 0,
    takes: ALL,
    needs: 'priority',
    often: 0.3,
    draw: (user) => user.pick([-1, -1, 1, 1, 1, user.below(100) - 50 || 1]),
  },
  reentrant: { takes: [...MANAGER, ...SYNC, ...NAMED], often: 0.2, draw: () => true },
  warnAfter: { takes: ALL, often: 0.04, draw: (user) => user.pick([0, 1, 20]) },
  // The label shows which request an entry of a snapshot belongs to.
  label: { takes: ALL, often: 0.8, draw: (_user, { id }) => id },
  deadlock: {
    takes: [...MANAGER, ...LONG, ...NAMED, ...PASS],
    needs: 'deadlock',
    often: 0.12,
    draw: () => 'reject',
  },
  keep: {
    takes: ['once'],
    isRequired: true,
    often: 1,
    draw: (user) => user.pick([0.5, 5, 40, 400]),
  },
};

/** Whether an option is drawn for names of a kind. */
const isFor = (option, kind) => options[option].kinds?.includes(kind) ?? true;

/** Conflicting options: the name of the error, and the condition. */
const conflicts = [
  [
    NOT_SUPPORTED,
    ({ steal, ifAvailable, signal, mode }) => steal && (ifAvailable || signal || mode === 'shared'),
  ],
  [NOT_SUPPORTED, ({ signal, ifAvailable }) => signal && ifAvailable],
  [
    NOT_SUPPORTED,
    ({ timeout, steal, ifAvailable }) => timeout !== undefined && (steal || ifAvailable),
  ],
  [TYPE, ({ blocking, ifAvailable }) => blocking !== undefined && ifAvailable],
  [NOT_SUPPORTED, ({ priority, steal }) => priority && steal],
  // Such a scope requests all locks in one step.
  [
    NOT_SUPPORTED,
    ({ priority }, { method, lacks }) => priority && method.isSeveral && lacks.oneByOne,
  ],
  [
    TYPE,
    ({ limit, mode }, { method }) => !method.isNamed && limit !== undefined && mode !== 'shared',
  ],
  [
    TYPE,
    ({ limit, weight }, { method }) =>
      !method.isNamed && weight !== undefined && (limit === undefined || weight > limit),
  ],
  [
    TYPE,
    ({ maxTotal, timeout }, { call, isMain }) =>
      call === 'acquireSync' && isMain && timeout === undefined && maxTotal === undefined,
  ],
];

/**
 * Calls that make a request.
 * - `on`: the class
 * - `weight`: how often it is made
 * - `isSeveral`: whether it takes several names
 * - `kinds`: the kinds of names that it is made for
 * - `ends`: how the lock ends: with a `callback`, a `handle`, `handles`, or a `release` function;
 *   `nothing` if there is no lock
 * - `isSync`; `isNamed`: a method of a Mutex and the like
 * - `mode`: the mode that it has without an option
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

/** Calls that make no request. */
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
 * What users' code does while it has a lock.
 * - `weight`: how often
 * - `isSlow`: it is rare in most rounds
 * - `isSync`: it returns no promise
 * - `isRough`: it keeps others waiting, so it is only for rough names
 * - `ofCallbacks`, `ofHandles`: it is only for these
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

/** How a handle is released. */
const releases = ['release', 'dispose', 'asyncDispose', 'twice'];

/**
 * @param {any} given options
 * @param {{ call: string, lacks: any, isMain: boolean, isPrivate?: boolean }} where `isPrivate`: on
 * a Mutex or the like of this thread alone
 * @returns {Set<string>} names of errors, one of which must come; empty: the call is not refused
 */
function refusals(given, { call, lacks, isMain, isPrivate }) {
  const method = calls[call];
  const errors = new Set();
  if (method.needs && lacks[method.needs]) errors.add(NOT_SUPPORTED);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    const row = options[name];
    if (!row.takes.includes(call)) {
      // A default value is ignored.
      if (method.isNamed) errors.add(TYPE);
      else if (value !== row.usual) errors.add(NOT_SUPPORTED);
    } else if (row.needs && lacks[row.needs] && !isPrivate) {
      errors.add(NOT_SUPPORTED);
    }
  }
  for (const [error, isConflict] of conflicts)
    if (isConflict(given, { call, method, isMain, lacks })) errors.add(error);
  for (const [name, { isRequired, takes }] of Object.entries(options)) {
    if (isRequired && takes.includes(call) && given[name] === undefined) errors.add(TYPE);
  }
  return errors;
}

/** The values of `state` of a bucket in a cluster. */
const states = ['new', 'opening', 'open', 'suspect', 'refused', 'lost', 'closed'];

/** Codes of errors of a server that does not answer or refuses to serve. */
const away = ['UNREACHABLE', 'NO_NEWS', 'NO_WATCH', 'NOT_REPLICATED', 'BUSY', 'RIGHTS'].map(
  (code) => `ERR_WEB_LOCKS_${code}`,
);

/** The members of types in types/*.d.ts that the torture uses. */
const members = {
  LockManager: Object.entries({ ...calls, ...deeds })
    .filter(([, { on }]) => on === 'LockManager')
    .map(([name]) => name),
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

/** The members that it does not use, by reason. */
const leftOut = {
  'another way to PostgreSQL, or to its tables': [
    'PostgresOptions.listen',
    'PostgresOptions.schema',
    'PostgresOptions.durability',
  ],
  'replicas, and another place for the keys': [
    'RedisOptions.strict',
    'RedisOptions.failover',
    'RedisOptions.prefix',
  ],
  'another way to etcd': ['EtcdOptions.auth', 'EtcdOptions.fetch'],
  'how a process ends': ['PostgresOptions', 'RedisOptions', 'EtcdOptions'].map(
    (type) => `${type}.releaseOnSignal`,
  ),
  'how a client is made': ['KeeperOptions.module'],
  'signals abort the same way': ['Mutex.cancel', 'RWLock.cancel', 'Semaphore.cancel'],
  'the semaphore has another name afterwards': ['Semaphore.resize'],
  'asks for no lock': [
    'InstallOptions.target',
    'InstallOptions.locks',
    'ProfileOptions.file',
    'ProfileOptions.size',
    'ProfileOptions.sites',
    'CollectOptions.register',
  ],
  'calls `once`': [
    'RunCoordinatorOptions.timeout',
    'RunCoordinator.shouldRun',
    'OncePerTickOptions.timeout',
  ],
  'NestJS makes the same calls': [
    'LocksModuleAsyncOptions.imports',
    'LocksModuleAsyncOptions.inject',
    'LocksModuleAsyncOptions.useFactory',
  ],
};

/** The calls that take the options of an interface. */
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
  isFor,
  kinds,
  leftOut,
  members,
  options,
  queries,
  refusals,
  releases,
  states,
};
