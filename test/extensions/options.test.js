// slow: 2

'use strict';

/**
 * Every call with every option of ours, as lib/extensions/options.js says: what a call takes, it
 * does; what it does not take, it refuses, and does not leave out without a word.
 */

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { after, before, describe, it } = require('node:test');
const { CALLS, OPTIONS, SCOPES_OF_CALLS } = require('../../lib/extensions/options.js');
const { Mutex, RWLock, Semaphore, locks } = require('../helpers/scope.js');
const { chosen, scope } = require('../conformance/scopes.js');
const { deferred, freshName, valuesOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

/** The scope of the table; that of `late.js` can do what a cluster can. */
const SCOPE = ['process', 'host'].includes(chosen) ? chosen : 'cluster';

/** More than a test takes. */
const LONG_MS = 600_000;

/** Calls `work` with what was acquired, then releases it. */
async function using(handle, work) {
  try {
    return await work(handle);
  } finally {
    await (handle?.release ? handle.release() : handle?.());
  }
}

const asOne = (work) => (all) => work(all && (all.locks ?? all)[0]);

/** Options, which may be inherited, and what a call cannot do without. */
const withNeeded = (needed, options) =>
  Object.assign(Object.create(Object.getPrototypeOf(options)), needed, options);

/** Every call, as `(name, options, work)`: calls `work` while it holds the lock, or with null. */
const calls = {
  request: (name, options, work) => locks.request(name, options, work),
  acquire: async (name, options, work) => using(await locks.acquire(name, options), work),
  requestAll: (name, options, work) => locks.requestAll([name], options, asOne(work)),
  acquireAll: async (name, options, work) =>
    using(await locks.acquireAll([name], options), asOne(work)),
  acquireSync: async (name, options, work) =>
    using(locks.acquireSync(name, withNeeded({ timeout: LONG_MS }, options)), work),
  tryAcquireSync: async (name, options, work) => using(locks.tryAcquireSync(name, options), work),
  elect: (name, options, work) => locks.elect(name, options, work),
  once: (name, options, work) => locks.once(name, withNeeded({ keep: LONG_MS }, options), work),
  'Mutex.acquire': async (name, options, work) =>
    using(await new Mutex(name).acquire(options), work),
  'Mutex.runExclusive': (name, options, work) => new Mutex(name).runExclusive(work, options),
  'RWLock.acquireShared': async (name, options, work) =>
    using(await new RWLock(name).acquireShared(options), work),
  'RWLock.acquireExclusive': async (name, options, work) =>
    using(await new RWLock(name).acquireExclusive(options), work),
  'RWLock.runShared': (name, options, work) => new RWLock(name).runShared(work, options),
  'RWLock.runExclusive': (name, options, work) => new RWLock(name).runExclusive(work, options),
  'Mutex.tryAcquire': async (name, options, work) =>
    using(await new Mutex(name).tryAcquire(options), work),
  'Mutex.waitForUnlock': async (name, options, work) =>
    work(await new Mutex(name).waitForUnlock(options)),
  'Semaphore.acquire': async (name, options, work) =>
    using(await new Semaphore(name, { permits: 3 }).acquire(options), work),
  'Semaphore.run': (name, options, work) => new Semaphore(name, { permits: 3 }).run(work, options),
  'Semaphore.tryAcquire': async (name, options, work) =>
    using(await new Semaphore(name, { permits: 3 }).tryAcquire(options), work),
};

/** The key of a call in `calls`, by what messages call it. */
const keyOf = (operation) => {
  const [, method, of] = /^'(\w+)' on '(\w+)'$/.exec(operation);
  return of === 'LockManager' ? method : `${of}.${method}`;
};

/** A value of each option that is not the default. */
const SAMPLES = {
  ifAvailable: true,
  mode: 'shared',
  signal: new AbortController().signal,
  steal: true,
  blocking: false,
  deadlock: 'reject',
  holdTimeout: LONG_MS,
  keep: LONG_MS,
  label: 'sample',
  limit: 3,
  maxPending: 3,
  maxTotal: LONG_MS,
  priority: 5,
  reentrant: true,
  timeout: 0,
  warnAfter: LONG_MS,
  weight: 2,
};

const fail = () => assert.fail('the callback was called');

let remote;
let endRemote;

/** Calls `work` while another agent holds the lock. */
async function whileHeld(name, work) {
  const there = await remote.hold(name);
  await work(there);
  there.release();
  await there.settled;
}

async function warningAbout(name) {
  for (;;) {
    const [{ message }] = await once(process, 'warning');
    if (message.includes(name)) return;
  }
}

/** What query() tells while the call holds the lock. */
async function detailsOf(call, options) {
  const name = freshName();
  let details;
  await call(name, options, async () => {
    [details] = (await locks.query({ details: true, name })).held;
  });
  return details;
}

/** Rejects as it should while another agent holds the lock. */
async function refusedWhileHeld(call, options, error) {
  const name = freshName();
  await whileHeld(name, () => assert.rejects(call(name, options, fail), error));
}

/** That a call, of a kind, does what an option says. */
const does = {
  async ifAvailable(call) {
    const name = freshName();
    const given = deferred();
    await whileHeld(name, () => call(name, { ifAvailable: true }, given.resolve));
    assert.ok(!(await given.promise));
  },
  async blocking(call) {
    await refusedWhileHeld(call, { blocking: false }, { name: 'LockError' });
    await call(freshName(), { blocking: false }, () => {});
  },
  async mode(call) {
    assert.equal((await detailsOf(call, { mode: 'shared' })).mode, 'shared');
  },
  async signal(call) {
    const name = freshName();
    const controller = new AbortController();
    await whileHeld(name, async () => {
      const asked = call(name, { signal: controller.signal }, fail);
      controller.abort(new Error('given up'));
      await assert.rejects(asked, { message: 'given up' });
    });
  },
  async steal(call) {
    const name = freshName();
    let taken = false;
    await whileHeld(name, () =>
      call(name, { steal: true }, () => {
        taken = true;
      }),
    );
    assert.ok(taken);
  },
  async deadlock(call) {
    const name = freshName();
    await locks.request(name, { deadlock: 'reject' }, () =>
      assert.rejects(call(name, { deadlock: 'reject' }, fail), { name: 'DeadlockError' }),
    );
  },
  async holdTimeout(call) {
    const name = freshName();
    const outcome = call(name, { holdTimeout: 1 }, () => locks.request(name, () => {}));
    await outcome.catch((error) => assert.equal(error.name, 'TimeoutError'));
  },
  async keep(call) {
    const name = freshName();
    await call(name, { keep: LONG_MS }, () => {});
    await call(name, { keep: 1 }, fail);
  },
  async label(call, kind) {
    if (kind === 'wait') {
      const name = freshName();
      await whileHeld(name, async (there) => {
        const asked = call(name, { label: 'mine' }, () => {});
        const { pending } = await locks.query({ details: true, name });
        assert.equal(pending[0].label, 'mine');
        there.release();
        await asked;
      });
      return;
    }
    assert.equal((await detailsOf(call, { label: 'mine' })).label, 'mine');
  },
  async limit(call) {
    assert.equal((await detailsOf(call, { mode: 'shared', limit: 3 })).limit, 3);
  },
  async maxPending(call) {
    const error = { name: 'QuotaExceededError', maxPending: 0 };
    await refusedWhileHeld(call, { maxPending: 0 }, error);
  },
  async maxTotal(call, kind) {
    const name = freshName();
    await refusedWhileHeld(call, { maxTotal: 1 }, { name: 'TimeoutError' });
    // What acquireSync waits is not known before it has the lock.
    if (kind === 'acquireSync') return;
    const outcome = call(name, { maxTotal: 50 }, () => locks.request(name, () => {}));
    await outcome.catch((error) => assert.equal(error.name, 'TimeoutError'));
  },
  async priority(call, kind) {
    if (kind === 'acquireSync') {
      assert.equal((await detailsOf(call, { priority: 5 })).priority, 5);
      return;
    }
    const name = freshName();
    await whileHeld(name, async (there) => {
      const asked = [locks.request(name, () => {}), call(name, { priority: 5 }, () => {})];
      const { pending } = await locks.query({ details: true, name });
      assert.deepEqual(valuesOf(pending, 'priority'), [5, 0]);
      there.release();
      await Promise.all(asked);
    });
  },
  async reentrant(call) {
    const name = freshName();
    let served = false;
    await locks.request(name, { reentrant: true }, () =>
      call(name, { reentrant: true }, () => {
        served = true;
      }),
    );
    assert.ok(served);
  },
  async timeout(call) {
    await refusedWhileHeld(call, { timeout: 1 }, { name: 'TimeoutError' });
  },
  async warnAfter(call, kind) {
    const name = freshName();
    if (kind === 'wait') {
      await whileHeld(name, async (there) => {
        const warned = warningAbout(name);
        const asked = call(name, { warnAfter: 1 }, () => {});
        await warned;
        there.release();
        await asked;
      });
      return;
    }
    // Neither a lock nor a warning keeps the event loop alive.
    const alive = setInterval(() => {}, 1_000);
    const warned = warningAbout(name);
    await call(name, { warnAfter: 1 }, () => warned);
    clearInterval(alive);
  },
  async weight(call, kind) {
    const limit = kind.endsWith('emaphore') ? {} : { mode: 'shared', limit: 3 };
    assert.equal((await detailsOf(call, { ...limit, weight: 2 })).weight, 2);
  },
};

/** What never waits joins no queue and closes no cycle, and is served as without these. */
const NEVER_WAITS = ['tryAcquireSync', 'tryMutex', 'trySemaphore'];
const OF_THE_WAIT = ['maxPending', 'deadlock', 'priority'];

const isTaken = (name, kind) =>
  OPTIONS[name].calls.includes(kind) &&
  !scope.lacks[name] &&
  !(name === 'priority' && kind === 'several' && scope.lacks.oneByOne);

/** Given as it is, and by an object that inherits it. */
async function isRefused(call, name) {
  const sample = { [name]: SAMPLES[name] };
  for (const options of [sample, Object.create(sample)]) {
    await assert.rejects(call(freshName(), options, fail), (error) => {
      assert.ok(['TypeError', 'NotSupportedError'].includes(error.name), error);
      assert.match(error.message, new RegExp(`'${name}'`));
      return true;
    });
  }
}

describe('options', () => {
  before(async () => {
    remote = await RemoteAgent.start({
      after(end) {
        endRemote = end;
      },
    });
  });
  after(() => endRemote());

  for (const kind of Object.keys(CALLS)) {
    for (const operation of CALLS[kind]) {
      const call = calls[keyOf(operation)];
      if (!SCOPES_OF_CALLS[kind].includes(SCOPE)) {
        it(`${operation} is refused`, async () => {
          await assert.rejects(call(freshName(), {}, fail), { name: 'NotSupportedError' });
        });
        continue;
      }
      for (const name of Object.keys(OPTIONS)) {
        if (!isTaken(name, kind)) {
          it(`${operation} refuses '${name}'`, () => isRefused(call, name));
        } else if (OF_THE_WAIT.includes(name) && NEVER_WAITS.includes(kind)) {
          it(`${operation} takes '${name}'`, () => detailsOf(call, { [name]: SAMPLES[name] }));
        } else {
          it(`${operation} does what '${name}' says`, () => does[name](call, kind));
        }
      }
      if (CALLS[kind][0].includes('LockManager')) {
        it(`${operation} ignores what is no option`, () => detailsOf(call, { unheardOf: 1 }));
      } else {
        it(`${operation} refuses what is no option`, async () => {
          await assert.rejects(call(freshName(), { unheardOf: 1 }, fail), TypeError);
        });
      }
    }
  }

  it('the table says which of them the scope has not got', () => {
    // Those of the tests are not in there.
    if (['late', 'memory'].includes(chosen)) return;
    for (const [name, { scopes = [SCOPE], notIn = [] }] of Object.entries(OPTIONS)) {
      const has = scopes.includes(SCOPE) && !notIn.includes(chosen);
      assert.equal(has, !scope.lacks[name], name);
    }
  });

  it('those that a test has a sample of are all', () => {
    assert.deepEqual(Object.keys(SAMPLES).sort(), Object.keys(OPTIONS).sort());
    assert.deepEqual(Object.keys(does).sort(), Object.keys(OPTIONS).sort());
    const operations = Object.values(CALLS).flat().map(keyOf);
    assert.deepEqual(Object.keys(calls).sort(), operations.sort());
  });
});
