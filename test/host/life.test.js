// slow: 5

'use strict';

/** The host scope's effect on its process (event loop, descriptors), and handles of a bucket. */

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
const { freshBucket, freshDirectory, pendingOn } = require('../helpers/process.js');
const { lacksHost: skip, lacksProc } = require('../helpers/host-scope.js');

const library = JSON.stringify(require.resolve('../../lib/host.js'));

/**
 * Runs a program in which `bucket` and `locks` are defined.
 * @returns what it wrote, once it has ended
 */
function program(t, body, directory = freshDirectory(t)) {
  const source = `
    const began = performance.now();
    const { locks: defaultLocks, openBucket } = require(${library});
    const bucket = openBucket('bucket', { directory: ${JSON.stringify(directory)} });
    const { locks } = bucket;
    ${body}`;
  return new Promise((resolve) => {
    const limits = { timeout: 30_000, killSignal: 'SIGKILL' };
    execFile(process.execPath, ['-e', source], limits, (error, stdout, stderr) => {
      resolve({ stdout, stderr, code: error ? (error.code ?? error.signal) : 0 });
    });
  });
}

const ended = (stdout) => ({ stdout, stderr: '', code: 0 });

describe('the event loop of a process', { skip }, () => {
  for (const [what, body, stdout] of [
    ['an open bucket', "bucket.ready.then(() => console.log('open'))", 'open\n'],
    ['the default bucket', 'defaultLocks', ''],
    [
      'a lock that is held',
      "locks.request('a', () => (console.log('held'), new Promise(() => {})))",
      'held\n',
    ],
    [
      'a request that failed',
      `openBucket('a', { directory: '/proc/self/web-locks' })
        .locks.request('a', () => {}).catch(({ code }) => console.log(code));`,
      'ERR_WEB_LOCKS_SCOPE_UNSUPPORTED\n',
    ],
  ]) {
    it(`is not kept alive by ${what}`, async (t) => {
      assert.deepEqual(await program(t, body), ended(stdout));
    });
  }

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

  it('is not kept alive by a lock that is held, in a worker', async (t) => {
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
  const look = `
    const fs = require('node:fs');
    const status = () => fs.readFileSync('/proc/self/status', 'utf8');
    const tableSize = () => /FDSize:\\s*(\\d+)/.exec(status())[1];
    /** Whether the numbers of bucket files are greater than those of watches. */
    const isOrdered = () => {
      const [files, watches] = [[], []];
      for (const number of fs.readdirSync('/proc/self/fd')) {
        let target = '';
        try {
          target = fs.readlinkSync('/proc/self/fd/' + number);
        } catch {} // the descriptor of this folder, closed by now
        if (target.endsWith('/bucket')) files.push(Number(number));
        if (target === 'anon_inode:inotify') watches.push(Number(number));
      }
      return Math.min(...files) > Math.max(...watches);
    };`;

  // If a descriptor does not fit, the kernel enlarges the descriptor table, which takes 10 ms. When
  // a process ends, the kernel closes large numbers first, and closing a watch takes it 10 ms.
  it('fit into their table, above the watch, when a process first waits for a grant', async (t) => {
    // The table is enlarged 25 ms after the opening, which is before the grant in a slow process.
    const body = `${look}
      const before = tableSize();
      const isLate = () => performance.now() - began >= 25;
      locks.request('a', () => console.log(tableSize() === before || isLate(), isOrdered()));`;
    assert.deepEqual(await program(t, body), ended('true true\n'));
  });

  it('are above all watches of all buckets when they have been open for a while', async (t) => {
    const directory = freshDirectory(t);
    const body = `${look}
      const other = openBucket('other', { directory: ${JSON.stringify(directory)} });
      const wait = () => {
        if (isOrdered()) console.log('ordered');
        else setImmediate(wait);
      };
      Promise.all([bucket.ready, other.ready]).then(wait);`;
    assert.deepEqual(await program(t, body, directory), ended('ordered\n'));
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

  it('serve each other’s reentrant requests, and know each other’s locks', async (t) => {
    const buckets = openThree(t);
    const options = { reentrant: true, label: 'mine' };
    const isOwn = ({ cycle }) => cycle[1]?.label === 'mine';
    for (const { locks: outer } of buckets) {
      for (const { locks: inner } of buckets) {
        await outer.request('a', options, async ({ token }) => {
          const served = inner.request('a', options, (lock) => lock.token === token);
          assert.equal(await served, true);
          await assert.rejects(inner.acquire('a', { timeout: 1 }), /"mine"/);
          assert.throws(() => inner.acquireSync('a', { timeout: 1e9 }), isOwn);
        });
      }
    }
  });

  it('know each other’s locks also before their directory was made', (t) => {
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
      // Named instances use the bucket of the machine (below).
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
});

describe('Mutex, RWLock and Semaphore of a wider scope', { skip }, () => {
  it('are of the machine, not of the process, if they have a name', async () => {
    const name = freshName();
    const objects = [
      new host.Mutex(name),
      new host.RWLock(name),
      new host.Semaphore(name, { permits: 2 }),
    ];
    for (const object of objects) {
      const release = await (object.acquire?.() ?? object.acquireExclusive());
      const { held } = await host.locks.query({ name });
      assert.equal(held.length, 1, object.constructor.name);
      assert.deepEqual((await webLocks.locks.query({ name })).held, []);
      await release();
    }
  });

  it('take the name of a bucket of the machine', async () => {
    const bucket = host.openBucket(freshName('bucket'));
    const release = await new host.Mutex('a', { bucket: bucket.name }).acquire();
    assert.equal((await bucket.locks.query()).held.length, 1);
    await release();
    await bucket.close();
  });

  it('are instances of the classes of the process', () => {
    assert.ok(new host.Mutex() instanceof webLocks.Mutex);
    assert.equal(host.Mutex.name, 'Mutex');
  });

  it('need a bucket if they are of an engine', () => {
    for (const entry of ['postgres', 'redis', 'etcd']) {
      const { Mutex, RWLock, Semaphore } = require(`../../lib/${entry}.js`);
      for (const Class of [Mutex, RWLock]) assert.throws(() => new Class('a'), TypeError);
      assert.throws(() => new Semaphore('a', { permits: 1 }), TypeError);
      assert.throws(() => new Mutex('a', { bucket: 'b' }), TypeError);
      new Mutex();
      new Mutex('a', { locks: webLocks.locks });
    }
  });

  it('come with an openBucket that checks its options', () => {
    assert.throws(() => host.openBucket('a', '/dev/shm/x'), TypeError);
    assert.throws(() => host.openBucket('a', { directry: '/dev/shm/x' }), TypeError);
  });
});
