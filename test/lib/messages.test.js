'use strict';

/** What messages say about holders and waiters. */

const assert = require('node:assert/strict');
const { readFileSync, readdirSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { inspect } = require('node:util');
const { runInNewContext } = require('node:vm');
const { threadId } = require('node:worker_threads');
const {
  describeAgent,
  describeHolders,
  describeWaiting,
  duration,
  milliseconds,
} = require('../../lib/extensions/errors/descriptions.js');
const {
  DeadlockError,
  LockQueueFullError,
  holdTimeoutError,
  theftTimeoutError,
  waitTimeoutError,
} = require('../../lib/extensions/errors/lock-errors.js');

/** A holder in another process of this machine. */
const OTHER = {
  clientId: '60bec263-1',
  mode: 'exclusive',
  name: 'x',
  label: 'child job',
  host: os.hostname(),
  pid: process.pid + 1,
  threadId: 1,
  threadName: '',
  waited: 0,
  held: 3249,
  limit: 0,
  weight: 0,
  token: 5n,
};
const OWN = { ...OTHER, pid: process.pid, threadId, label: '' };

describe('the description of holders and waiters', () => {
  const pid = OTHER.pid;
  for (const [title, details, text] of [
    ['a thread of another process', {}, `process ${pid}, thread 1 ("child job")`],
    ['without a label', { label: '' }, `process ${pid}, thread 1`],
    ['the main thread of another process', { threadId: 0 }, `process ${pid} ("child job")`],
    ['a named thread', { threadName: 'job' }, `process ${pid}, thread 1 "job" ("child job")`],
    ['another machine', { host: 'db-2' }, `process ${pid} on host "db-2", thread 1 ("child job")`],
    [
      'own process id on another machine',
      { pid: process.pid, host: 'db-2', threadId, label: '' },
      `process ${process.pid} on host "db-2"`,
    ],
    ['this thread', OWN, 'this thread'],
    ['this thread with a label', { ...OWN, label: 'me' }, 'this thread ("me")'],
    ['another thread of this process', { ...OWN, threadId: 3 }, 'thread 3 of this process'],
    ['a label of two lines', { label: 'a\n"b"' }, `process ${pid}, thread 1 ("a\\n\\"b\\"")`],
    ['a session that is gone', { pid: 0 }, 'client 60bec263-1 ("child job")'],
    ['one of which nothing is known', { pid: 0, clientId: '', label: '' }, 'an unknown process'],
  ]) {
    it(`${title}: ${text}`, () => assert.equal(describeAgent({ ...OTHER, ...details }), text));
  }

  it('a worker names the main thread of its process', async () => {
    const { Worker } = require('node:worker_threads');
    const source = `
      const { parentPort, workerData } = require('node:worker_threads');
      const { describeAgent } = require(workerData.file);
      parentPort.postMessage(describeAgent(workerData.details));`;
    const file = require.resolve('../../lib/extensions/errors/descriptions.js');
    const worker = new Worker(source, { eval: true, workerData: { file, details: OWN } });
    const text = await new Promise((resolve) => worker.once('message', resolve));
    assert.equal(text, 'the main thread of this process');
  });

  const one = `process ${pid}, thread 1 ("child job")`;
  for (const [describe, list, text] of [
    [describeHolders, [OTHER], `held by ${one}, for 3.2 s`],
    [describeHolders, [OTHER, OWN, OWN], `held by ${one}, for 3.2 s, and 2 more`],
    [describeHolders, [{ ...OTHER, held: Number.NaN }], `held by ${one}, for an unknown time`],
    [describeHolders, [], 'no longer held'],
    [describeHolders, undefined, 'holder unknown'],
    [describeWaiting, [OWN], 'this thread is waiting'],
    [describeWaiting, [OWN, OWN], 'this thread is waiting, and 1 more'],
    [describeWaiting, [], 'no waiters'],
  ]) {
    it(`${list?.length ?? 'unknown'} others: ${text}`, () => assert.equal(describe(list), text));
  }

  it('times', () => {
    const times = [0, 999.9, 1000, 3249, 59_999, 60_000, 185_000, 3_600_000, 7_499_999, 86_400_000];
    assert.deepEqual(times.map(duration), [
      ...['0 ms', '999 ms', '1.0 s', '3.2 s', '59.9 s', '1 min 0 s', '3 min 5 s'],
      ...['1 h 0 min', '2 h 4 min', '1 d 0 h'],
    ]);
    const texts = ['0 ms', '5 ms', '999 ms', '5,002 ms', '1,234,567 ms'];
    assert.deepEqual([0, 5.4, 999, 5002, 1_234_567].map(milliseconds), texts);
  });
});

describe('messages', () => {
  const late = 'Timed out after 5,002 ms waiting for lock "x"';
  const self = 'The request for lock "a" would wait for itself';
  const other = `process ${OTHER.pid}, thread 1 ("child job")`;
  const cause = new Error('The server is gone.');
  const none = { list: [], count: 0 };
  const one = { list: [{ ...OTHER, threadId: 0, held: 12 }], count: 1 };
  const full = 'Lock "x" is not available, and';
  const forgets = 'the server may have forgotten locks, and grants nothing for another 3.2 s';
  const entry = (details, name, isHeld) => ({ ...details, name, isHeld });
  const cycle = [entry(OWN, 'a', false), entry(OTHER, 'a', true), entry(OTHER, 'b', false)];
  const away = waitTimeoutError('x', 5002, undefined, 3200, cause);

  for (const [error, message] of [
    [
      waitTimeoutError('x', 5002, one),
      `${late} (held by process ${OTHER.pid} ("child job"), for 12 ms).`,
    ],
    [waitTimeoutError('x', 5002, undefined), `${late} (holder unknown).`],
    [away, `${late} (holder unknown: The server is gone).`],
    [waitTimeoutError('x', 5002, none), `${late} (no longer held).`],
    [waitTimeoutError('x', 5002, none, 3200), `${late} (${forgets}).`],
    [waitTimeoutError('x', 5002, undefined, 3200), `${late} (${forgets}).`],
    [
      theftTimeoutError('x', 5002, true),
      'Timed out after 5,002 ms: the server did not answer, so lock "x" may have been stolen ' +
        'from its holder; if so, it was released again.',
    ],
    [theftTimeoutError('x', 5002, false), 'Timed out after 5,002 ms: lock "x" was not stolen.'],
    [
      holdTimeoutError('x', 0, 5012, { option: 'holdTimeout', limit: 5000 }),
      'Lock "x" was released after 5,012 ms: its \'holdTimeout\' is 5000 ms.',
    ],
    [new LockQueueFullError('x', 0), `${full} the request may not wait ('maxPending' is 0).`],
    [new LockQueueFullError('x', 1), `${full} a request is waiting already ('maxPending' is 1).`],
    [
      new LockQueueFullError('x', 9),
      `${full} 9 or more requests are waiting already ('maxPending' is 9).`,
    ],
    [
      new DeadlockError('a', [...cycle, entry(OWN, 'b', true)]),
      `${self}: this thread waits for "a", held by ${other}; ${other} waits for "b", held by ` +
        'this thread.',
    ],
    [
      new DeadlockError('a', [cycle[0], entry({ ...OWN, label: 'earlier' }, 'a', false)]),
      `${self}: this thread waits for "a", requested before by this thread ("earlier").`,
    ],
    [new DeadlockError('a', []), `${self}.`],
  ]) {
    it(message, () => assert.equal(error.message, message));
  }

  it('of a time limit come with the cause, and with no holders if these are unknown', () => {
    assert.deepEqual([away.cause, away.holders], [cause, []]);
  });
});

describe('the errorCode of an error', () => {
  const { Mutex, locks, openBucket } = require('../../lib/index.js');
  const code = (end) => `ERR_WEB_LOCKS_${end}`;
  const name = 'errorCode';
  const inside = (options, work) => locks.request(name, options, work);

  /** For each code, a call that rejects with it. */
  const failures = {
    NOT_FREE: () => inside({}, () => new Mutex(name).acquire({ blocking: false })),
    TIMEOUT: () => inside({}, () => locks.acquire(name, { timeout: 0 })),
    QUEUE_FULL: () => inside({}, () => locks.acquire(name, { maxPending: 0 })),
    DEADLOCK: () =>
      inside({ deadlock: 'reject' }, () => locks.acquire(name, { deadlock: 'reject' })),
    STOLEN: () => inside({}, () => locks.request(name, { steal: true }, () => {})),
    async LOST() {
      const bucket = openBucket(name);
      const { signal } = await bucket.locks.acquire('a');
      await bucket.close();
      throw signal.reason;
    },
    async CLOSED() {
      const bucket = openBucket(name);
      await bucket.close();
      await bucket.locks.acquire('a');
    },
    async CANCELED() {
      const mutex = new Mutex();
      const release = await mutex.acquire();
      const waiting = mutex.acquire();
      mutex.cancel();
      release();
      await waiting;
    },
    NOT_SUPPORTED: () => locks.acquire('-x'),
    INVALID_ARGUMENT: () => locks.acquire(name, { mode: 'none' }),
  };
  for (const [end, fail] of Object.entries(failures)) {
    it(`is ${code(end)}, also in JSON`, async () => {
      const error = await fail().then(assert.fail, (reason) => reason);
      assert.equal(error.errorCode, code(end));
      assert.equal(JSON.parse(JSON.stringify(error)).errorCode, code(end));
    });
  }

  it('is the code of an error that has one, and is not shown twice', () => {
    const { noMemoryError, plainError } = require('../../lib/platform/errors.js');
    for (const error of [noMemoryError('x'), plainError('x', code('X'))]) {
      assert.equal(error.errorCode, error.code);
      assert.equal(inspect(error).match(/ERR_WEB_LOCKS/g).length, 1);
    }
  });

  it('is there in another realm, where the error is no Error', async () => {
    const error = await locks.acquire('-x').catch((reason) => reason);
    const seen = runInNewContext('[error instanceof Error, error.errorCode].join()', { error });
    assert.equal(seen, `false,${code('NOT_SUPPORTED')}`);
  });

  it('is in each error that the library makes', () => {
    const made = /new (TypeError|DOMException)\((?!message, '|message\))/;
    const lib = path.join(__dirname, '../../lib');
    const files = readdirSync(lib, { recursive: true }).filter(
      (file) => file.endsWith('.js') && !/^(cli|page|profile)\b/.test(file),
    );
    const others = files.filter((file) => made.test(readFileSync(path.join(lib, file), 'utf8')));
    // The first adds a code with withCode. The second stands for the reason of a user's signal. The
    // third belongs to a request that users do not see.
    const known = [
      'cluster/engines/postgres/errors.js',
      'standard/abort.js',
      'standard/lock-request.js',
    ];
    assert.deepEqual(others.map((file) => file.replaceAll(path.sep, '/')).sort(), known);
  });
});

describe('the stack of an error', () => {
  const { Mutex, RWLock, locks } = require('../../lib/index.js');
  const calls = {
    request: (name, options) => locks.request(name, options, () => {}),
    acquire: (name, options) => locks.acquire(name, options),
    requestAll: (name, options) => locks.requestAll([name], options, () => {}),
    acquireAll: (name, options) => locks.acquireAll([name], options),
    acquireSync: async (name, { timeout = 5 }) => locks.acquireSync(name, { timeout }),
    'Mutex.acquire': (name, options) => new Mutex(name).acquire(options),
    'Mutex.runExclusive': (name, options) => new Mutex(name).runExclusive(() => {}, options),
    'RWLock.acquireShared': (name, options) => new RWLock(name).acquireShared(options),
    'RWLock.runShared': (name, options) => new RWLock(name).runShared(() => {}, options),
  };
  const failures = {
    'a time limit': (call, name) => locks.request(name, () => call(name, { timeout: 5 })),
    'a deadlock': (call, name) => {
      const options = { deadlock: 'reject' };
      return locks.request(name, options, () => call(name, options));
    },
  };
  for (const [what, fail] of Object.entries(failures)) {
    it(`begins with ${what}, and has the line of the call`, async () => {
      for (const [title, make] of Object.entries(calls)) {
        const whoAsked = (...given) => make(...given);
        const error = await fail(whoAsked, `line of ${title}`).then(assert.fail, (it) => it);
        assert.match(error.stack, /^\w+: (Timed out|The request)/);
        assert.match(error.stack, /at whoAsked /, title);
      }
    });
  }

  it('has the line of the call whose lock was stolen, if it had a time limit', async () => {
    const steal = () => locks.request('stolen', { steal: true }, () => {});
    const whoAsked = () => locks.request('stolen', { timeout: 1e6 }, steal);
    const error = await whoAsked().then(assert.fail, (reason) => reason);
    assert.equal(error.name, 'AbortError');
    assert.match(error.stack, /at whoAsked /);
  });
});
