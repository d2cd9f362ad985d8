// slow: 28

'use strict';

/** Locks between processes: grants, queues, ends of processes. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockLostError } = require('../../lib/host.js');
const { hold } = require('../helpers/locks.js');
const { RemoteProcess, freshBucket, pendingOn } = require('../helpers/process.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

const start = RemoteProcess.start;

describe('locks between processes', { skip }, () => {
  it('a time limit tells which process holds the lock', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await start(t, where);
    await other.hold('a', { label: 'nightly run' });
    await assert.rejects(
      locks.request('a', { timeout: 200 }, () => {}),
      (error) => {
        assert.equal(error.name, 'TimeoutError');
        assert.deepEqual(
          error.holders.map(({ pid, label }) => ({ pid, label })),
          [{ pid: other.pid, label: 'nightly run' }],
        );
        assert.match(error.message, /nightly run/);
        return true;
      },
    );
    await assert.rejects(
      locks.request('a', { timeout: 0 }, () => {}),
      (error) => error.name === 'TimeoutError' && error.holders[0].pid === other.pid,
    );
  });

  it('query() has the locks and requests of all processes, with details', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await start(t, where);
    const options = { mode: 'shared', limit: 3, weight: 2, label: 'theirs' };
    const theirs = await other.hold('a', options);
    const mine = locks.request('a', { label: 'mine' }, () => {});
    await pendingOn(locks, 'a');
    const { held, pending } = await locks.query({ details: true });
    const { pid, label, limit, weight, token, threadId, host } = held[0];
    assert.deepEqual(
      { pid, label, limit, weight, token: String(token), threadId },
      {
        pid: other.pid,
        label: 'theirs',
        limit: 3,
        weight: 2,
        token: theirs.lock.token,
        threadId: 0,
      },
    );
    assert.equal(host, require('node:os').hostname());
    assert.equal(pending[0].pid, process.pid);
    assert.equal(pending[0].label, 'mine');
    assert.equal(pending[0].blockedBy[0].clientId, held[0].clientId);
    const seenThere = await other.ask('query');
    assert.deepEqual(
      seenThere.pending.map(({ clientId }) => clientId),
      [pending[0].clientId],
    );
    theirs.release();
    await mine;
  });

  it('the default bucket is shared, and is no bucket that has a name', async (t) => {
    const { where } = freshBucket(t);
    const options = { env: { ...process.env, WEB_LOCKS_DIRECTORY: where.directory } };
    const [one, two] = [await start(t, { options }), await start(t, { options })];
    await one.hold('a');
    assert.equal((await two.ask('query')).held.length, 1);
    const named = await start(t, { bucket: '', options });
    assert.equal((await named.ask('query')).held.length, 0);
  });
});

describe('a process that ends', { skip }, () => {
  /** @type {Record<string, (remote: any) => any>} */
  const ends = {
    'is killed': (remote) => remote.kill('SIGKILL'),
    'calls process.exit()': (remote) => remote.tell('exit'),
    crashes: (remote) => remote.kill('SIGSEGV'),
    'has nothing more to do': (remote) => remote.tell('finish'),
  };
  for (const [how, end] of Object.entries(ends)) {
    it(`and ${how} gives its lock to the next one`, async (t) => {
      const { locks, where } = freshBucket(t);
      const other = await start(t, where);
      await other.hold('a');
      const mine = locks.request('a', (lock) => lock.mode);
      await pendingOn(locks, 'a');
      end(other);
      assert.equal(await mine, 'exclusive');
      await other.exited;
    });
  }
});

describe('threads of processes', { skip }, () => {
  it('are all in the details, each with its process, its thread and a client id', async (t) => {
    const { locks, where } = freshBucket(t);
    const who = ({ pid, threadId, threadName }) => `${pid}/${threadId}/${threadName}`;
    const gate = await hold(locks, 'gate');
    const remotes = await Promise.all([1, 2, 3].map(() => start(t, where)));
    const threads = [];
    for (const remote of remotes) {
      for (const thread of ['main', 'worker']) {
        if (thread === 'worker') await remote.ask('worker');
        await remote.hold('shared', { mode: 'shared' });
        await remote.request('gate');
        const whose = await remote.ask('who');
        assert.equal(whose.pid, remote.pid);
        threads.push(who(whose));
      }
    }
    await pendingOn(locks, 'gate', threads.length);
    const { held, pending } = await locks.query({ details: true });
    const shared = held.filter(({ name }) => name === 'shared');
    assert.deepEqual(shared.map(who).sort(), [...threads].sort());
    assert.deepEqual(pending.map(who).sort(), [...threads].sort());
    assert.equal(held.find(({ name }) => name === 'gate').pid, process.pid);
    // One client id a thread, and no two threads have the same.
    const clients = new Map(held.map((lock) => [who(lock), lock.clientId]));
    assert.equal(new Set(clients.values()).size, threads.length + 1);
    for (const request of pending) assert.equal(request.clientId, clients.get(who(request)));
    await gate.release();
  });

  it('have other client ids than those of a process that has ended', async (t) => {
    const { locks, where } = freshBucket(t);
    const clients = new Set();
    for (let i = 0; i < 3; i++) {
      const remote = await start(t, where);
      await remote.hold('a', { steal: true });
      clients.add((await locks.query()).held[0].clientId);
      remote.kill();
      await remote.exited;
    }
    assert.equal(clients.size, 3);
  });

  it('a worker that is terminated gives back what it held and waited for', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await start(t, where);
    await other.ask('worker');
    await other.hold('a');
    await other.request('a');
    const mine = locks.request('a', (lock) => lock.name);
    await pendingOn(locks, 'a', 2);
    await other.ask('terminate');
    assert.equal(await mine, 'a');
    assert.deepEqual(await locks.query(), { held: [], pending: [] });
    // The process goes on.
    await other.hold('c');
  });
});

describe('a bucket of all processes that is closed', { skip }, () => {
  it('gives back what was held through it, and fails what is pending', async (t) => {
    const { bucket, locks, where } = freshBucket(t);
    const other = await start(t, where);
    const mine = await hold(locks, 'a');
    await other.hold('b');
    const pending = locks.request('b', () => {});
    const failed = assert.rejects(pending, { name: 'InvalidStateError' });
    await pendingOn(locks, 'b');
    const theirs = await other.request('a');
    const lost = assert.rejects(mine.released, LockLostError);
    await bucket.close();
    await theirs.granted;
    await failed;
    await lost;
    await assert.rejects(
      locks.request('a', () => {}),
      { name: 'InvalidStateError' },
    );
    await assert.rejects(locks.query(), { name: 'InvalidStateError' });
  });

  it('leaves what was opened a second time alone', async (t) => {
    const { bucket, locks, where } = freshBucket(t);
    const { openBucket } = require('../../lib/host.js');
    const again = openBucket(where.bucket, { directory: where.directory });
    const held = await hold(again.locks, 'a');
    const first = await hold(locks, 'b');
    first.released.catch(() => {});
    await bucket.close();
    assert.ok(held.lock.held);
    await held.release();
    await again.close();
  });
});
