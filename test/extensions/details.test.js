// slow: 3

'use strict';

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { once } = require('node:events');
const { devNull } = require('node:os');
const { after, describe, it } = require('node:test');
const { Mutex, locks, turn } = require('../helpers/scope.js');
const {
  deferred,
  freshName,
  hold,
  rejectionOf,
  timedOut,
  valuesOf,
} = require('../helpers/locks.js');
const { programName } = require('../../lib/platform/program.js');
const { startProfile } = require('../../lib/profile.js');
const { chosen, scope } = require('../conformance/scopes.js');
const { fieldsOf, typesOf } = require('../helpers/declared.js');
const { RemoteAgent } = require('../helpers/remote.js');

const { lacks } = scope;
const [nodeMajor] = process.versions.node.split('.').map(Number);

/** Held locks and warnings do not keep the event loop alive, this does. */
const awake = setInterval(() => {}, 2 ** 30);
after(() => clearInterval(awake));

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
    const { worker } = other; // undefined unless it is a thread with a name
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
    /** Entries of all kinds, each with its declared type. */
    async function entries() {
      const name = freshName();
      const held = await hold(locks, name, { mode: 'shared', limit: 2, label: 'the holder' });
      await held.lock.publish('data');
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

    it('has the declared fields and types, also in errors and leader()', async () => {
      const { all, pending } = await entries();
      // `data` exists only if something is published.
      const withData = (entry) => fields({ data: 0, ...entry });
      for (const entry of all) assert.deepEqual(withData(entry), fieldsOf('LockDetails'));
      for (const entry of [...all, pending]) {
        for (const [field, type] of Object.entries(typesOf('LockDetails'))) {
          if (field !== 'mode' && field !== 'data') assert.equal(typeof entry[field], type, field);
        }
      }
      assert.deepEqual(withData(pending), fieldsOf('PendingDetails'));
      const state = await locks.query({ details: true });
      // `grantsIn` exists only while a server grants nothing.
      assert.deepEqual(fields({ grantsIn: 0, ...state }), fieldsOf('DetailedSnapshot'));
    });
  });

  describe('site', () => {
    const AT = /^ {4}at (async )?forgetful \(.*details\.test\.js:\d/;
    const noted = { warnAfter: 3_600_000 };
    /** Calls in functions named `forgetful` that note their place; `keep` keeps the lock. */
    const ways = {
      request: async function forgetful(name, keep) {
        await locks.request(name, { timeout: 3_600_000 }, keep);
      },
      runExclusive: async function forgetful(name, keep) {
        await new Mutex(name).runExclusive(keep, { maxTotal: 3_600_000 });
      },
      requestAll: async function forgetful(name, keep) {
        await locks.requestAll([`!${name}`, name], noted, keep);
      },
      acquire: async function forgetful(name, keep) {
        const handle = await locks.acquire(name, noted);
        await keep();
        await handle.release();
      },
      acquireAll: async function forgetful(name, keep) {
        const all = await locks.acquireAll([`!${name}`, name], noted);
        await keep();
        await all.release();
      },
      'elect, for a later term,': async function forgetful(name, keep) {
        let terms = 0;
        await locks.elect(name, noted, (leader) => {
          if (terms++ > 0) return keep();
          const lost = once(leader.signal, 'abort');
          locks.request(name, { steal: true }, () => {});
          return lost;
        });
      },
      'request, while a profile runs,': async function forgetful(name, keep) {
        const profile = startProfile({ file: devNull });
        const done = locks.request(name, keep);
        profile.stop();
        await done;
      },
    };

    /** Calls `work` while a lock is held that was requested in this way. */
    async function whileHeld(way, work) {
      const name = freshName();
      const held = deferred();
      const end = deferred();
      const ask = ways[way];
      const done = ask(name, () => {
        held.resolve();
        return end.promise;
      });
      await held.promise;
      await work(name);
      end.resolve();
      await done;
    }

    for (const way of Object.keys(ways)) {
      it(`tells where ${way} was called, also in leader() and time limits`, () =>
        whileHeld(way, async (name) => {
          const error = await timedOut(() => locks.acquire(name, { timeout: 100 }));
          const [{ site }] = (await detailsOf(name)).held;
          for (const text of [site, (await locks.leader(name)).site, error.holders[0].site])
            assert.match(text, AT);
          assert.match(error.message, /, for [^)]*, requested at (async )?forgetful \(.*\)\.$/);
        }));
    }

    it('is known, also to errors, whatever Error.stackTraceLimit is', async (t) => {
      const { stackTraceLimit } = Error;
      t.after(() => {
        Error.stackTraceLimit = stackTraceLimit;
      });
      for (const limit of [0, 1, undefined]) {
        Error.stackTraceLimit = limit;
        for (const way of ['acquire', 'requestAll']) {
          await whileHeld(way, async (name) => {
            assert.match((await detailsOf(name)).held[0].site, AT);
            const { stack } = await timedOut(() => locks.acquire(name, { timeout: 1 }));
            assert.match(stack, /details\.test\.js:\d/);
            assert.equal(Error.stackTraceLimit, limit);
          });
        }
      }
    });

    it('is known of the locks in the cycle of a deadlock', async () => {
      const name = freshName();
      const inner = async () => {
        const { cycle, message } = await rejectionOf(locks.acquire(name, { reentrant: true }));
        assert.match(cycle[1].site, AT);
        assert.match(message, /held by this thread.*, requested at (async )?forgetful \(/);
      };
      await (async function forgetful() {
        await locks.request(name, { ...noted, mode: 'shared', reentrant: true }, inner);
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

    it('is what users’ code makes of it, when the request is over: that may throw', (t) =>
      whileHeld('request', async (name) => {
        const { prepareStackTrace } = Error;
        t.after(() => {
          Error.prepareStackTrace = prepareStackTrace;
        });
        Error.prepareStackTrace = () => {
          throw new Error('of users');
        };
        assert.equal((await detailsOf(name)).held[0].site, '');
        const error = await rejectionOf(locks.acquire(name, { timeout: 1 }));
        assert.equal(error.holders[0].site, '');
        Error.prepareStackTrace = prepareStackTrace;
      }));
  });
});

describe('diagnostics channels', () => {
  /** @returns the messages about `name` while `work` runs: [channel, message] */
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

  it('have the id, manager, mode, label and times of the request, and if it waits', async () => {
    const name = freshName();
    const options = { mode: 'shared', label: 'labelled' };
    const messages = await published(name, async () => {
      const held = await hold(locks, name);
      const waiting = locks.request(name, options, turn);
      await held.release();
      await waiting;
    });
    const of = (id) => messages.filter(([, message]) => message.id === id);
    const ids = [...new Set(messages.map(([, { id }]) => id))];
    const all = ids.map(of);
    const life = ['start', 'grant', 'end'];
    assert.deepEqual(all.map(events), [life, life]);
    if (!lacks.atOnce)
      assert.deepEqual(
        valuesOf(
          all.map(([[, it]]) => it),
          'pending',
        ),
        [false, true],
      );
    assert.equal(new Set(messages.map(([, { manager }]) => manager)).size, 1);
    for (const [, message] of all[1]) {
      assert.deepEqual([message.mode, message.label], ['shared', 'labelled']);
      assert.ok(message.waited >= 0 && message.held >= 0);
    }
    assert.equal(all[1][2][1].error, undefined);
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
    // It is held longer than it may wait: there is one warning for both.
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
    const asked = locks.acquire(freshName(), { warnAfter: 1 });
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    const handle = await asked;
    const [warning] = await warned;
    handle.release();
    assert.equal(warning.name, 'LockWarning');
  });
});
