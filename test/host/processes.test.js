// slow: 5

'use strict';

/** Locks between processes, and what the details of a lock say about its process and thread. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { hold } = require('../helpers/locks.js');
const { RemoteProcess, freshBucket, pendingOn } = require('../helpers/process.js');
const { lacksHost: skip } = require('../helpers/host-scope.js');

const start = RemoteProcess.start;

describe('between processes', { skip }, () => {
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
    // Each thread has one client id of its own.
    const clients = new Map(held.map((lock) => [who(lock), lock.clientId]));
    assert.equal(new Set(clients.values()).size, threads.length + 1);
    for (const request of pending) assert.equal(request.clientId, clients.get(who(request)));
    await gate.release();
  });

  it('never get the client id of a process that has ended', async (t) => {
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
});
