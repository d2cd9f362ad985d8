// slow: 3

'use strict';

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { once } = require('node:events');
const { devNull } = require('node:os');
const { describe, it } = require('node:test');
const {
  LockStolenError,
  LockTimeoutError,
  Mutex,
  locks,
  needs,
  turn,
} = require('../helpers/scope.js');
const { freshName, hold, timedOut } = require('../helpers/locks.js');
const { countSites } = require('../../lib/extensions/sites/sites.js');
const { programName } = require('../../lib/platform/program.js');
const { startProfile } = require('../../lib/profile.js');
const { chosen, scope } = require('../conformance/scopes.js');
const { fieldsOf, typesOf } = require('../helpers/declared.js');
const { RemoteAgent } = require('../helpers/remote.js');

const { lacks } = scope;
const [nodeMajor] = process.versions.node.split('.').map(Number);

async function detailsOf(name) {
  const { held, pending } = await locks.query({ details: true });
  const of = (entries) => entries.filter((entry) => entry.name === name);
  return { held: of(held), pending: of(pending) };
}

describe('locks.query({ details: true })', () => {
  it('says who holds and who waits, with labels, and what blocks whom', async (t) => {
    const name = freshName();
    const other = await RemoteAgent.start(t, { name: 'painter' });
    const held = await other.hold(name, { label: 'the holder' });
    const first = locks.request(name, { label: 'first' }, () => {});
    const second = locks.request(name, { mode: 'shared' }, () => {});
    const state = await detailsOf(name);
    const [holder] = state.held;
    assert.equal(holder.label, 'the holder');
    assert.equal(holder.pid, other.pid);
    assert.equal(holder.threadId, other.threadId);
    const { worker } = other; // else it is no thread of its own, and has no name
    if (worker && nodeMajor >= 24) assert.equal(holder.threadName, 'painter');
    assert.equal(holder.mode, 'exclusive');
    assert.equal(holder.waited, 0);
    assert.deepEqual(
      state.pending.map(({ label, mode, ahead, held: age }) => [label, mode, ahead, age]),
      [
        ['first', 'exclusive', 0, 0],
        [chosen === 'process' ? '' : programName(), 'shared', 1, 0],
      ],
    );
    assert.deepEqual(state.pending[1].blockedBy, [holder]);
    held.release();
    await Promise.all([first, second]);
  });

  describe('what is declared', () => {
    /** Entries of all kinds, each with the type that it is declared as. */
    async function entries() {
      const name = freshName();
      const held = await hold(locks, name, { mode: 'shared', limit: 2, label: 'the holder' });
      if (!lacks.publish) await held.lock.publish('data');
      const waiting = locks.request(name, () => {});
      const state = await detailsOf(name);
      const leader = await locks.leader(name);
      const { holders } = await timedOut(() => locks.acquire(name, { timeout: 100 }));
      await held.release();
      await waiting;
      const shared = { mode: 'shared', reentrant: true };
      const { cycle } = await locks.request(freshName(), shared, ({ name: inner }) =>
        locks.request(inner, { reentrant: true }, () => {}).catch((reason) => reason),
      );
      assert.equal(cycle.length, 2);
      const all = [...state.held, ...state.pending[0].blockedBy, leader, ...holders, ...cycle];
      return { all, pending: state.pending[0] };
    }
    const fields = (entry) => Object.keys(entry).sort();

    it('is what is told, also by errors and leader()', async () => {
      const { all, pending } = await entries();
      // `data` only where something is published.
      const withData = (entry) => fields({ data: 0, ...entry });
      for (const entry of all) assert.deepEqual(withData(entry), fieldsOf('LockDetails'));
      assert.deepEqual(withData(pending), fieldsOf('PendingDetails'));
      const state = await locks.query({ details: true });
      // `grantsIn` only while a server grants nothing.
      assert.deepEqual(fields({ grantsIn: 0, ...state }), fieldsOf('DetailedSnapshot'));
    });

    it('has the types of the values', async () => {
      const { all, pending } = await entries();
      for (const entry of [...all, pending]) {
        for (const [field, type] of Object.entries(typesOf('LockDetails'))) {
          if (field !== 'mode' && field !== 'data') assert.equal(typeof entry[field], type, field);
        }
      }
    });
  });

  describe('site', () => {
    const here = (text) =>
      assert.match(text, /^ {4}at (async )?forgetful \(.*details\.test\.js:\d/);
    /** Each way to request a lock whose place is noted: resolves when it is held. */
    const ways = {
      acquire: async function forgetful(name) {
        return await locks.acquire(name, { warnAfter: 3_600_000 });
      },
      request: function forgetful(name) {
        return new Promise((resolve) => {
          (async function forgetful() {
            await locks.request(name, { timeout: 3_600_000 }, (lock) => {
              return new Promise((release) => resolve({ lock, release }));
            });
          })();
        });
      },
      runExclusive: function forgetful(name) {
        return new Promise((resolve) => {
          (async function forgetful() {
            await new Mutex(name).runExclusive(
              (lock) => new Promise((release) => resolve({ lock, release })),
              { maxTotal: 3_600_000 },
            );
          })();
        });
      },
      acquireAll: function forgetful(name) {
        const all = locks.acquireAll([`!${name}`, name], { warnAfter: 3_600_000 });
        return awaited(all);
      },
      requestAll: function forgetful(name) {
        return new Promise(function forgetful(resolve) {
          const keep = () => new Promise((release) => resolve({ release }));
          locks.requestAll([`!${name}`, name], { timeout: 3_600_000 }, keep);
        });
      },
      'elect, for a later term,': function forgetful(name) {
        return new Promise(function forgetful(resolve) {
          let terms = 0;
          locks.elect(name, { warnAfter: 3_600_000 }, (leader) => {
            if (terms++ > 0) return new Promise((release) => resolve({ release }));
            const robbed = once(leader.signal, 'abort');
            locks.request(name, { steal: true }, () => {});
            return robbed;
          });
        });
      },
      'request, while a profile runs,': function forgetful(name) {
        return new Promise((resolve) => {
          (async function forgetful() {
            const profile = startProfile({ file: devNull });
            const done = locks.request(name, (lock) => {
              return new Promise((release) => resolve({ lock, release }));
            });
            profile.stop();
            await done;
          })();
        });
      },
    };

    /** The caller of this function is not among the frames of what follows the `await`. */
    async function awaited(promise) {
      return await promise;
    }

    for (const [way, hold] of Object.entries(ways)) {
      it(`tells where ${way} was called, also leader() and the error of a time limit`, async () => {
        const name = freshName();
        const held = await hold(name);
        here((await detailsOf(name)).held[0].site);
        here((await locks.leader(name)).site);
        const error = await timedOut(() => locks.acquire(name, { timeout: 100 }));
        here(error.holders[0].site);
        assert.match(error.message, /, for [^)]*, requested at (async )?forgetful \(.*\)\.$/);
        await held.release();
      });
    }

    for (const limit of [0, 1, undefined]) {
      it(`is known, also to errors, where Error.stackTraceLimit is ${limit}`, async (t) => {
        const { stackTraceLimit } = Error;
        t.after(() => {
          Error.stackTraceLimit = stackTraceLimit;
        });
        Error.stackTraceLimit = limit;
        for (const hold of [ways.acquire, ways.requestAll]) {
          const name = freshName();
          const held = await hold(name);
          here((await detailsOf(name)).held[0].site);
          const { stack } = await timedOut(() => locks.acquire(name, { timeout: 1 }));
          assert.match(stack, /details\.test\.js:\d/);
          assert.equal(Error.stackTraceLimit, limit);
          await held.release();
        }
      });
    }

    it('is known of the locks in the cycle of a deadlock', async () => {
      const name = freshName();
      await (async function forgetful() {
        const options = { mode: 'shared', reentrant: true, warnAfter: 3_600_000 };
        await locks.request(name, options, async () => {
          const { cycle, message } = await locks
            .request(name, { reentrant: true }, () => {})
            .then(assert.fail, (reason) => reason);
          here(cycle[1].site);
          assert.match(message, /held by this thread.*, requested at (async )?forgetful \(/);
        });
      })();
    });

    it('is empty if nothing noted it, or if another thread did', async (t) => {
      const name = freshName();
      const other = await RemoteAgent.start(t);
      const remote = await other.hold(name, { mode: 'shared', warnAfter: 3_600_000 });
      const own = await hold(locks, name, { mode: 'shared' });
      const { held } = await detailsOf(name);
      const isOfThisThread = !other.worker && other.pid === process.pid;
      assert.deepEqual(
        held.map(({ site }) => site !== ''),
        [isOfThisThread, false],
      );
      await own.release();
      remote.release();
      await remote.settled;
    });

    it('keeps nothing of a lock that is over, however it ended', async (t) => {
      // A lock that is held does not keep the event loop alive.
      const alive = setInterval(() => {}, 1_000);
      t.after(() => clearInterval(alive));
      const before = countSites();
      const name = freshName();
      const noted = { warnAfter: 3_600_000 };
      await (await locks.acquire(name, noted)).release();
      await assert.rejects(locks.request(name, noted, () => Promise.reject(new Error('thrown'))));
      const limited = locks.request(
        name,
        { ...noted, holdTimeout: 1 },
        () => new Promise(() => {}),
      );
      await assert.rejects(limited, { name: 'TimeoutError' });
      const robbed = await locks.acquire(name, noted);
      const thief = await locks.acquire(name, { ...noted, steal: true });
      assert.ok(countSites() > before);
      await robbed.release();
      await thief.release();
      await (await locks.acquireAll([name, freshName()], noted)).release();
      const reentrant = { ...noted, reentrant: true };
      await locks.request(name, reentrant, () => locks.request(name, reentrant, () => {}));
      const controller = new AbortController();
      const aborted = locks.request(name, { ...noted, signal: controller.signal }, () => {});
      controller.abort();
      await assert.rejects(aborted, { name: 'AbortError' });
      await new Mutex(name).waitForUnlock(noted);
      assert.equal(countSites(), before);
    });

    it('is what users’ code makes of it, when the request is over: that may throw', async (t) => {
      const name = freshName();
      const held = await ways.request(name);
      const { prepareStackTrace } = Error;
      t.after(() => {
        Error.prepareStackTrace = prepareStackTrace;
      });
      Error.prepareStackTrace = () => {
        throw new Error('of users');
      };
      assert.equal((await detailsOf(name)).held[0].site, '');
      const error = await locks.acquire(name, { timeout: 1 }).catch((reason) => reason);
      assert.equal(error.holders[0].site, '');
      Error.prepareStackTrace = prepareStackTrace;
      await held.release();
    });
  });

  it('without details it is the specification’s snapshot', async () => {
    const name = freshName();
    const held = await hold(locks, name, { label: 'unseen' });
    const entry = (await locks.query()).held.find((lock) => lock.name === name);
    assert.deepEqual(Object.keys(entry), ['clientId', 'mode', 'name']);
    await held.release();
  });
});

describe('diagnostics channels', () => {
  /** What is published about `name` while `work` goes on: [channel, message]. */
  async function published(name, work) {
    const messages = [];
    const listeners = ['start', 'grant', 'miss', 'end', 'abort', 'steal', 'timeout'].map(
      (event) => {
        const listener = (message) => {
          if (message.name === name) messages.push([event, message]);
        };
        subscribe(`locks.request.${event}`, listener);
        return [`locks.request.${event}`, listener];
      },
    );
    try {
      await work();
      await turn();
    } finally {
      for (const [channel, listener] of listeners) unsubscribe(channel, listener);
    }
    return messages;
  }
  const events = (messages) => messages.map(([event]) => event);

  it(
    'all of a request have its id and manager, and start says whether it waits',
    needs('entry', 'atOnce'),
    async () => {
      const name = freshName();
      const messages = await published(name, async () => {
        const held = await hold(locks, name);
        const waiting = locks.request(name, () => {});
        await held.release();
        await waiting;
      });
      const of = (id) => messages.filter(([, message]) => message.id === id);
      const ids = [...new Set(messages.map(([, { id }]) => id))];
      assert.equal(ids.length, 2);
      assert.deepEqual(ids.map(of).map(events), [
        ['start', 'grant', 'end'],
        ['start', 'grant', 'end'],
      ]);
      assert.deepEqual(
        ids.map((id) => of(id)[0][1].pending),
        [false, true],
      );
      assert.deepEqual([...new Set(messages.map(([, { manager }]) => manager))], ['process ']);
    },
  );

  it('start, grant and end of a request, with mode, label and times', async () => {
    const name = freshName();
    const messages = await published(name, () =>
      locks.request(name, { mode: 'shared', label: 'labelled' }, turn),
    );
    assert.deepEqual(events(messages), ['start', 'grant', 'end']);
    for (const [, message] of messages) {
      assert.deepEqual([message.mode, message.label], ['shared', 'labelled']);
      assert.ok(message.waited >= 0 && message.held >= 0);
    }
    assert.equal(messages[2][1].error, undefined);
  });

  for (const call of ['request', 'acquire', 'tryAcquireSync'])
    it(`the end of a request that is missed: ${call}`, needs('sync'), async () => {
      const name = freshName();
      const held = await hold(locks, name);
      const options = call === 'tryAcquireSync' ? [] : [{ ifAvailable: true }];
      const messages = await published(name, () =>
        locks[call](name, ...options, ...(call === 'request' ? [() => {}] : [])),
      );
      assert.deepEqual(events(messages), ['start', 'miss', 'end']);
      await held.release();
    });

  it('abort, timeout and steal, with their errors', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const controller = new AbortController();
    const aborted = await published(name, async () => {
      const request = locks.acquire(name, { signal: controller.signal });
      controller.abort();
      await assert.rejects(request);
    });
    assert.deepEqual(events(aborted), ['start', 'abort', 'end']);
    assert.equal(aborted[2][1].error, controller.signal.reason);
    const timedOut = await published(name, () =>
      assert.rejects(locks.acquire(name, { timeout: 1 })),
    );
    assert.deepEqual(events(timedOut), ['start', 'timeout', 'end']);
    assert.ok(timedOut[1][1].error instanceof LockTimeoutError);
    await held.release();
    const stolen = await published(name, async () => {
      const victim = await hold(locks, name);
      const thief = await hold(locks, name, { steal: true });
      await assert.rejects(victim.released);
      await victim.release();
      await thief.release();
    });
    assert.deepEqual(events(stolen).sort(), [
      'end',
      'end',
      'grant',
      'grant',
      'start',
      'start',
      'steal',
    ]);
    const [, { error }] = stolen.find(([event]) => event === 'steal');
    assert.ok(error instanceof LockStolenError);
  });
});

describe('warnAfter', () => {
  it('warns once of a request that waits longer, and names who holds the lock', async () => {
    const name = freshName('slow');
    const held = await hold(locks, name, { label: 'the holder' });
    const warned = once(process, 'warning');
    const request = locks.request(name, { warnAfter: 1 }, () => {});
    const [warning] = await warned;
    assert.deepEqual([warning.name, warning.code], ['LockWarning', 'WEB_LOCKS_SLOW']);
    assert.match(
      warning.message,
      /^Still waiting for lock "slow.*" after [\d.]+ m?s \(held by .*\("the holder"\), for [\d.]+ m?s\)\.$/,
    );
    await held.release();
    await request;
  });

  it('warns of a lock that is held longer, and names who waits for it', async () => {
    const name = freshName('slow');
    const warned = once(process, 'warning');
    // Longer than it may wait: there is one warning for both.
    const handle = await locks.acquire(name, { warnAfter: 1_000, label: 'me' });
    const next = locks.request(name, { label: 'the next one' }, () => {});
    const [warning] = await warned;
    assert.match(
      warning.message,
      /^Still holding lock "slow.*" \("me"\) after [\d.]+ m?s \(.* \("the next one"\) is waiting\)\. It was requested:\n/,
    );
    handle.release();
    await next;
  });

  it('that is over before its timer is set warns of the lock, and of no timer', async () => {
    const warned = once(process, 'warning');
    // Neither a lock nor a warning keeps the event loop alive.
    const alive = setInterval(() => {}, 1_000);
    const asked = locks.acquire(freshName(), { warnAfter: 1 });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    const handle = await asked;
    const [warning] = await warned;
    clearInterval(alive);
    handle.release();
    assert.equal(warning.name, 'LockWarning');
  });
});
