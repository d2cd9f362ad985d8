// slow: 4

'use strict';

/** What the host scope does to the event loop of its process, and to calls that do not return to it. */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { once } = require('node:events');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const host = require('../../lib/host.js');
const webLocks = require('../../lib/index.js');
const { freshName, hold } = require('../helpers/locks.js');
const { RemoteProcess, freshBucket, freshDirectory, pendingOn } = require('../helpers/process.js');
const { lacksHost: skip, lacksProc } = require('../helpers/host-scope.js');

const library = JSON.stringify(require.resolve('../../lib/host.js'));

/**
 * Runs a program that finds `bucket` and `locks`; resolves to what it wrote, when it has ended.
 * @param {number} [most] as many files can it have open
 */
function program(t, body, directory = freshDirectory(t), most = 1024) {
  const source = `
    const began = performance.now();
    const { locks: defaultLocks, openBucket } = require(${library});
    const bucket = openBucket('bucket', { directory: ${JSON.stringify(directory)} });
    const { locks } = bucket;
    ${body}`;
  return new Promise((resolve) => {
    const limits = { timeout: 30_000, killSignal: 'SIGKILL' };
    const shell = ['-c', `ulimit -n ${most} && exec "$0" -e "$1"`, process.execPath, source];
    execFile('sh', shell, limits, (error, stdout, stderr) => {
      resolve({ stdout, stderr, code: error ? (error.code ?? error.signal) : 0 });
    });
  });
}

describe('the event loop of a process', { skip }, () => {
  const ended = (stdout) => ({ stdout, stderr: '', code: 0 });

  it('is not kept alive by an open bucket', async (t) => {
    assert.deepEqual(await program(t, "bucket.ready.then(() => console.log('open'))"), {
      ...ended('open\n'),
    });
    assert.deepEqual(await program(t, 'defaultLocks'), ended(''));
  });

  it('is not kept alive by a lock that is held', async (t) => {
    const held = "locks.request('a', () => (console.log('held'), new Promise(() => {})))";
    assert.deepEqual(await program(t, held), ended('held\n'));
  });

  it('is kept alive by a pending request', async (t) => {
    const { locks, where } = freshBucket(t);
    const held = await hold(locks, 'a');
    const running = program(t, "locks.request('a', () => console.log('held'))", where.directory);
    await pendingOn(locks, 'a');
    await held.release();
    assert.deepEqual(await running, ended('held\n'));
  });

  it('is kept alive by query() and by ready until they are answered', async (t) => {
    const asked = `
      locks.query().then(({ held }) => console.log(held.length));
      bucket.ready.then(() => console.log('ready'));`;
    const { stdout } = await program(t, asked);
    assert.deepEqual(stdout.split('\n').sort(), ['', '0', 'ready']);
  });

  it('ends after a request that failed', async (t) => {
    const body = `
      openBucket('a', { directory: '/proc/self/web-locks' })
        .locks.request('a', () => {}).catch(({ code }) => console.log(code));`;
    assert.deepEqual(await program(t, body), ended('ERR_WEB_LOCKS_SCOPE_UNSUPPORTED\n'));
  });

  it('a worker ends that holds a lock and has a bucket open', async (t) => {
    const { locks, where } = freshBucket(t);
    const worker = new Worker(
      `const { openBucket } = require(${library});
       const { locks } = openBucket('bucket', { directory: ${JSON.stringify(where.directory)} });
       locks.request('a', () => new Promise(() => {}));`,
      { eval: true },
    );
    await once(worker, 'exit');
    assert.equal(await locks.request('a', (lock) => lock.name), 'a');
  });
});

describe('the descriptors of a process', { skip: skip || lacksProc }, () => {
  // A descriptor that does not fit has the kernel make their table larger, which takes it 10 ms.
  const look = `
    const fs = require('node:fs');
    const tableSize = () => /FDSize:\\s*(\\d+)/.exec(fs.readFileSync('/proc/self/status', 'utf8'))[1];
    /** Those of files, and those that watch them. */
    const descriptors = () => {
      const found = { files: [], watches: [] };
      for (const number of fs.readdirSync('/proc/self/fd')) {
        let target = '';
        try {
          target = fs.readlinkSync('/proc/self/fd/' + number);
        } catch {} // that of the folder itself
        if (target.endsWith('/bucket')) found.files.push(Number(number));
        if (target === 'anon_inode:inotify') found.watches.push(Number(number));
      }
      return found;
    };
    const isOrdered = ({ files, watches }) => Math.min(...files) > Math.max(...watches);`;

  it('fit into their table at the beginning, when a process waits for its first grant', async (t) => {
    // It is made larger 25 ms after the opening, which a slow process can notice.
    const body = `${look}
      const before = tableSize();
      const isLate = () => performance.now() - began >= 25;
      locks.request('a', () => console.log(tableSize() === before || isLate()));`;
    assert.deepEqual(await program(t, body), { stdout: 'true\n', stderr: '', code: 0 });
  });

  // A kernel that takes down a process closes large numbers first, and takes 10 ms for a watch.
  it('have numbers above that of the watch from the beginning', async (t) => {
    const body = `${look} locks.request('a', () => console.log(isOrdered(descriptors())));`;
    assert.deepEqual(await program(t, body), { stdout: 'true\n', stderr: '', code: 0 });
  });

  it('have numbers above all watches of all buckets when they have been open for a while', async (t) => {
    const directory = freshDirectory(t);
    const body = `${look}
      const other = openBucket('other', { directory: ${JSON.stringify(directory)} });
      const wait = () => {
        if (isOrdered(descriptors())) console.log('ordered');
        else setImmediate(wait);
      };
      Promise.all([bucket.ready, other.ready]).then(wait);`;
    const ended = await program(t, body, directory);
    assert.deepEqual(ended, { stdout: 'ordered\n', stderr: '', code: 0 });
  });
});

describe('a process that can have few files open', { skip }, () => {
  it('is granted the lock of one that died', async (t) => {
    const { locks, where } = freshBucket(t);
    const holder = await RemoteProcess.start(t, where);
    await holder.hold('a');
    const body = "locks.request('a', () => console.log('held'))";
    const running = program(t, body, where.directory, 200);
    await pendingOn(locks, 'a');
    holder.kill();
    assert.deepEqual(await running, { stdout: 'held\n', stderr: '', code: 0 });
  });
});

describe('acquireSync and tryAcquireSync between processes', { skip }, () => {
  it('block until another process releases, or has died', async (t) => {
    const { locks, where } = freshBucket(t);
    const other = await RemoteProcess.start(t, where);
    const held = await hold(locks, 'a');
    const blocked = other.ask('sync', { name: 'a', options: { timeout: 30_000 } });
    await pendingOn(locks, 'a');
    await held.release();
    assert.deepEqual(await blocked, { value: 'held' });
    const third = await RemoteProcess.start(t, where);
    await third.hold('a');
    const again = other.ask('sync', { name: 'a', options: { timeout: 30_000 } });
    await pendingOn(locks, 'a');
    third.kill();
    assert.deepEqual(await again, { value: 'held' });
  });
});

describe('handles of a bucket that were given its directory in different ways', { skip }, () => {
  function openThree(t) {
    const above = freshDirectory(t);
    const link = path.join(freshDirectory(t), 'link');
    fs.symlinkSync(above, link);
    const before = process.env.WEB_LOCKS_DIRECTORY;
    t.after(() => {
      if (before === undefined) delete process.env.WEB_LOCKS_DIRECTORY;
      else process.env.WEB_LOCKS_DIRECTORY = before;
    });
    process.env.WEB_LOCKS_DIRECTORY = path.join(above, 'locks/');
    const byEnvironment = host.openBucket('a');
    const byOption = host.openBucket('a', { directory: path.join(above, 'locks') });
    const byLink = host.openBucket('a', { directory: path.join(link, 'locks') });
    t.after(() => Promise.all([byEnvironment, byOption, byLink].map((bucket) => bucket.close())));
    return [byEnvironment, byOption, byLink];
  }

  it('serve each other’s reentrant requests', async (t) => {
    const buckets = openThree(t);
    const options = { reentrant: true };
    for (const { locks: outer } of buckets) {
      for (const { locks: inner } of buckets) {
        const served = await outer.request('a', options, ({ token }) =>
          inner.request('a', { ...options, ifAvailable: true }, (lock) => lock?.token === token),
        );
        assert.equal(served, true);
      }
    }
  });

  it('name the holder in their errors', async (t) => {
    const buckets = openThree(t);
    await Promise.all(buckets.map(({ ready }) => ready));
    for (const { locks: outer } of buckets) {
      const held = await hold(outer, 'a', { label: 'mine' });
      for (const { locks: inner } of buckets) {
        await assert.rejects(
          inner.request('a', { timeout: 1 }, () => {}),
          /"mine"/,
        );
      }
      await held.release();
    }
  });

  it('are in each other’s way when a thread blocks', async (t) => {
    const buckets = openThree(t);
    const isOwn = ({ cycle }) => cycle[1]?.label === 'mine';
    for (const { locks: outer } of buckets) {
      const held = await hold(outer, 'a', { label: 'mine' });
      for (const { locks: inner } of buckets) {
        assert.throws(() => inner.acquireSync('a', { timeout: 1e9 }), isOwn);
      }
      await held.release();
    }
  });

  it('are so, too, before their directory was made', (t) => {
    const [byEnvironment, byOption, byLink] = openThree(t);
    const handle = byLink.locks.acquireSync('a', { timeout: 1e9 });
    for (const { locks } of [byEnvironment, byOption]) {
      assert.throws(() => locks.acquireSync('a', { timeout: 1e9 }), { name: 'DeadlockError' });
    }
    handle.release();
  });

  it('are one lock manager in diagnostics', async (t) => {
    const managers = new Set();
    const listener = ({ manager }) => managers.add(manager);
    subscribe('locks.request.end', listener);
    t.after(() => unsubscribe('locks.request.end', listener));
    for (const bucket of openThree(t)) {
      await bucket.locks.request('a', () => {});
      bucket.locks.request('a', () => bucket.close()).catch(() => {});
      await bucket.locks.request('a', () => {}).catch(() => {});
    }
    assert.equal(managers.size, 1);
  });
});

describe('web-locks/host', { skip }, () => {
  it('has what web-locks has, with other buckets', async () => {
    const { locks, openBucket, ...rest } = webLocks;
    const { locks: hostLocks, openBucket: openHostBucket, ...hostRest } = host;
    assert.deepEqual(Object.keys(rest), Object.keys(hostRest));
    for (const [name, value] of Object.entries(rest)) {
      // Those with a name are of the machine (scoped.test.js).
      if (['Mutex', 'RWLock', 'Semaphore'].includes(name)) {
        assert.ok(hostRest[name].prototype instanceof value);
      } else {
        assert.equal(hostRest[name], value);
      }
    }
    assert.notEqual(hostLocks, locks);
    assert.notEqual(openHostBucket, openBucket);
    const module = await import('../../lib/host.mjs');
    assert.equal(module.locks, hostLocks);
    assert.equal(module.default.openBucket, openHostBucket);
    assert.deepEqual(Object.keys(module).sort(), [...Object.keys(host), 'default'].sort());
  });

  it('does not disturb the locks of the process', async (t) => {
    const { locks } = freshBucket(t);
    const name = freshName();
    const held = await hold(locks, name);
    assert.equal(await webLocks.locks.request(name, { ifAvailable: true }, Boolean), true);
    await held.release();
  });
});
