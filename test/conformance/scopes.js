'use strict';

/**
 * The scopes of the conformance suite, by name. Each says how a bucket is opened, what kind of
 * agents there are, and what the scope lacks, with the reason that skipped tests show.
 *
 * A scope can lack:
 * - `sync`: `acquireSync` and `tryAcquireSync`
 * - `deadlock`: `deadlock: 'reject'`
 * - `atOnce`: a request has its place, or its answer, when the call returns
 * - `state`: `locked` and `available` say without a promise whether a lock is held
 * - `turns`: requests settle in the turn of the event loop that causes it
 * - `oneByOne`: several locks are taken one after another, in their order
 * - `oneClient`: an agent has the same client id in all buckets
 * - `orderOfNames`: when an agent dies, its names are granted to a waiter in the order in which the
 *   agent held them
 * - `firstOfSeveral`: of several locks of a thread, a DeadlockError names the first
 * - `entry`: `require('web-locks')` returns it
 * - `loads`: each evaluation of the library is another agent
 * - `threads`: the library in a worker is another agent
 * - `processes`: the library in another process is another agent
 * - `orderOfGrants`: a thread is notified of its grants in their order
 * - `priority`: requests are ordered by their priority
 * - `keptLimit`: a name keeps its limit while only exclusive requests are left
 * - `sessions`: a bucket that is opened again is another agent
 * - `tokenOfEach`: shared locks that are granted together have a token each
 */

const library = require('../../lib/index.js');

/** The kinds of a `RemoteAgent`, see test/helpers/remote.js. */
const WORKER = 'worker';
const PROCESS = 'process';
const SESSION = 'session';

const NO_SESSIONS = { sessions: 'an agent is a thread' };

const CLUSTER = {
  agents: [SESSION],
  clientId: (pid, thread) => `node-${pid}-${thread}-[\\da-f]{16}`,
  many: 1000,
  long: 2 ** 20,
  library: () => library,
};

const CLUSTER_LACKS = {
  sync: 'nothing can be done without returning to the event loop',
  deadlock: 'deadlocks are not found',
  atOnce: 'answers come later',
  state: 'whether a lock is held is known later',
  turns: 'answers come later',
  entry: 'it has no entry of its own',
  oneByOne: 'several locks are requested in one step',
  oneClient: 'a client is a session, of one bucket',
  loads: 'an agent is a session',
  orderOfNames: 'the server processes the names of a session that ends in an order of its own',
};

const idOfTheProcess = (pid, thread) => `node-${pid}-${thread}-\\d+`;

/**
 * The fields of a scope:
 * - `agents`: the kinds of agents; the first is the default
 * - `clientId`: a pattern of the client ids of a thread
 * - `many`: a number of requests on one name that counts as many
 * - `long`: the length of a very long name that the scope accepts, in code units
 * - `lacks`: what it lacks, and why
 * - `library`: its exports, except the locks
 * - `openBucket`
 * - `prepare`: called before other threads and processes start
 */
const scopes = {
  process: {
    agents: [WORKER],
    clientId: idOfTheProcess,
    many: 10_000,
    long: 2 ** 20,
    lacks: { ...NO_SESSIONS, processes: 'it ends with the process' },
    library: () => library,
    openBucket: library.openBucket,
  },

  /** All processes of the machine: see host.js. */
  host: {
    agents: [PROCESS, WORKER],
    clientId: () => '[\\da-f]{8}-\\d+',
    many: 10_000,
    long: 32_000,
    lacks: {
      ...NO_SESSIONS,
      deadlock: 'deadlocks are not found',
      state: 'whether a lock is held is known later',
      entry: 'its entry is web-locks/host',
      firstOfSeveral: 'any of them is named',
      oneClient: 'a client is a member of one bucket',
      orderOfNames: 'the tables are rebuilt without the agent that died',
    },
    prepare: () => require('./host.js'),
    library: () => require('../../lib/host.js'),
    openBucket: (name) => require('./host.js').openBucket(name),
  },

  /** A cluster whose engine is in this thread: see memory.js. */
  memory: {
    ...CLUSTER,
    lacks: {
      ...CLUSTER_LACKS,
      threads: 'its engine is in one thread',
      processes: 'its engine is in one thread',
    },
    openBucket: (name) => require('./memory.js').openBucket(name),
  },

  /** A cluster over PostgreSQL: see postgres.js. */
  postgres: {
    ...CLUSTER,
    lacks: {
      ...CLUSTER_LACKS,
      orderOfGrants: 'an answer and a hint come by different ways',
      threads: 'each thread has its own pool',
      processes: 'each process has its own pool',
    },
    openBucket: (name) => require('./postgres.js').openBucket(name),
  },

  /** A cluster over Redis: see redis.js. */
  redis: {
    ...CLUSTER,
    lacks: {
      ...CLUSTER_LACKS,
      orderOfGrants: 'an answer and a hint come by different ways',
      threads: 'each thread has its own client',
      processes: 'each process has its own client',
    },
    openBucket: (name) => require('./redis.js').openBucket(name),
  },

  /** A cluster over etcd: see etcd.js. */
  etcd: {
    ...CLUSTER,
    long: 100_000,
    lacks: {
      ...CLUSTER_LACKS,
      orderOfGrants: 'an answer and a hint come by different ways',
      keptLimit: 'a limit goes with the last shared request',
      tokenOfEach: 'a token is the revision at which a lock is granted',
      threads: 'the tests do not open buckets there',
      processes: 'the tests do not open buckets there',
    },
    openBucket: (name) => require('./etcd.js').openBucket(name),
  },
};

/** The name of the scope in the environment. */
const chosen = process.env.WEB_LOCKS_TEST_SCOPE ?? 'process';
const scope = scopes[chosen];
if (!scope) throw new Error(`no scope ${chosen}: ${Object.keys(scopes).join(', ')}`);
scope.prepare?.();

/** The kind of agents: WEB_LOCKS_TEST_AGENTS chooses one that the scope has. */
const agents = process.env.WEB_LOCKS_TEST_AGENTS ?? scope.agents[0];
if (!scope.agents.includes(agents)) throw new Error(`no agents ${agents} in the scope ${chosen}`);

module.exports = { PROCESS, SESSION, WORKER, agents, chosen, scope, scopes };
