// slow: 23

'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { startProfile } = require('../../lib/profile/profile.js');
const { preload, profileOf } = require('./run.js');

/** What is recorded of the requests, by their labels. */
const byLabel = (requests) => Object.fromEntries(requests.map((r) => [r.label, r]));

/** A callback that holds a lock until somebody waits for it. */
const UNTIL_WAITED = "() => until(isPending('a'))";

describe('a profile tells of each request', () => {
  it('that was granted: name, mode, label, call site, thread, times', async (t) => {
    const { requests } = await profileOf(
      t,
      "async function save() { await locks.request('a', { label: 'x', mode: 'shared' }, turn); } " +
        'await save();',
    );
    assert.equal(requests.length, 1);
    const [{ site, waited, held, token, ...rest }] = requests;
    assert.ok(BigInt(token) > 0n);
    assert.deepEqual(rest, {
      id: 1,
      lock: 'a',
      manager: 'process ',
      mode: 'shared',
      label: 'x',
      thread: 0,
      outcome: 'granted',
      contended: false,
      blockers: [],
    });
    assert.match(site, /^save \(program\.js:\d+:\d+\)$/);
    assert.ok(waited >= 0 && held > 0);
  });

  it('that had to wait, and who blocked it', async (t) => {
    const { requests } = await profileOf(
      t,
      `function first() { return locks.request('a', { label: 'holds' }, ${UNTIL_WAITED}); }
       const all = [first()];
       all.push(locks.request('a', { label: 'waits' }, turn));
       await Promise.all(all);`,
    );
    const { holds, waits } = byLabel(requests);
    assert.equal(waits.contended, true);
    assert.equal(waits.outcome, 'granted');
    assert.ok(waits.waited > 0);
    assert.equal(waits.blockers.length, 1);
    const [{ site, ...blocker }] = waits.blockers;
    assert.deepEqual(blocker, { id: holds.id, label: 'holds', thread: 0 });
    assert.match(site, /^first \(program\.js/);
  });

  it('that did not end well: not available, aborted, timed out, held too long, stolen', async (t) => {
    const { requests } = await profileOf(
      t,
      `const ignore = () => {};
       const end = new AbortController();
       let release;
       const held = locks.request('a', { label: 'robbed' }, () => new Promise((r) => release = r));
       await turn();
       await locks.request('a', { label: 'refused', ifAvailable: true }, ignore);
       const aborted = locks.request('a', { label: 'aborted', signal: end.signal }, ignore);
       end.abort();
       await aborted.catch(ignore);
       await locks.request('a', { label: 'late', timeout: 5 }, ignore).catch(ignore);
       await locks.request('a', { label: 'full', maxPending: 0 }, ignore).catch(ignore);
       await locks.request('a', { label: 'thief', steal: true }, ignore);
       await held.catch(ignore);
       release();
       const alive = setInterval(ignore, 1000);
       await locks.request('b', { label: 'slow', holdTimeout: 1 }, ({ signal }) =>
         once(signal, 'abort')).catch(ignore);
       clearInterval(alive);`,
    );
    const outcomes = Object.fromEntries(requests.map(({ label, outcome }) => [label, outcome]));
    assert.deepEqual(outcomes, {
      robbed: 'stolen',
      refused: 'not available',
      aborted: 'aborted',
      late: 'timed out',
      full: 'failed',
      thief: 'granted',
      slow: 'held too long',
    });
    const { aborted, refused } = byLabel(requests);
    assert.equal(aborted.held, 0);
    assert.equal(refused.held, 0);
    assert.equal(aborted.blockers[0].label, 'robbed');
  });

  it('whose callback threw, or that failed, and why', async (t) => {
    const { requests } = await profileOf(
      t,
      `const ignore = () => {};
       const fails = (label, error) =>
         locks.request('a', { label }, async () => { throw error; }).catch(ignore);
       await fails('error', new TypeError('no stock\\nof that'));
       await fails('text', 'a text');
       await fails('nothing', null);
       await fails('hostile', { get message() { throw new Error('of a getter'); } });
       await locks.request('a', { label: 'limited', mode: 'shared', limit: 2 }, () =>
         locks.request('a', { label: 'other', mode: 'shared', limit: 3 }, ignore).catch(ignore));`,
    );
    const told = Object.fromEntries(
      requests.map(({ label, outcome, error }) => [label, [outcome, error]]),
    );
    assert.deepEqual(told, {
      error: ['threw', 'TypeError: no stock'],
      text: ['threw', 'a text'],
      nothing: ['threw', undefined],
      hostile: ['threw', undefined],
      limited: ['granted', undefined],
      other: [
        'failed',
        'TypeError: A request for lock "a" has the limit 3, but its holders and waiters ' +
          'have the limit 2.',
      ],
    });
  });

  it('that was lost with its bucket', async (t) => {
    const { requests } = await profileOf(
      t,
      `const bucket = openBucket('shop');
       const lost = bucket.locks.request('a', ({ signal }) => once(signal, 'abort'));
       await turn();
       await bucket.close();
       await lost.catch(() => {});`,
    );
    assert.deepEqual(
      requests.map(({ manager, outcome }) => [manager, outcome]),
      [['process bucket:shop', 'lost']],
    );
  });

  it('that goes on at the end: held, pending', async (t) => {
    const { requests, code } = await profileOf(
      t,
      `locks.request('a', { label: 'holds' }, () => new Promise(() => {}));
       locks.request('a', { label: 'waits' }, () => {});
       await turn();
       process.exit(7);`,
    );
    assert.equal(code, 7);
    const { holds, waits } = byLabel(requests);
    assert.equal(holds.outcome, 'held');
    assert.ok(holds.held > 0);
    assert.equal(waits.outcome, 'pending');
    assert.ok(waits.waited > 0);
  });

  it('of handles, mutexes, several locks and blocking calls, at the call site of users', async (t) => {
    const { requests } = await profileOf(
      t,
      `async function handle() { (await locks.acquire('a')).release(); }
       const blocking = () => locks.acquireSync('b', { timeout: 1 }).release();
       const mutex = () => new Mutex('c').runExclusive(() => {});
       const several = () => locks.requestAll(['d'], () => {});
       await handle();
       blocking();
       await mutex();
       await several();`,
    );
    const sites = requests.map(({ lock, site, outcome }) => [lock, site.split(' ')[0], outcome]);
    assert.deepEqual(sites, [
      ['a', 'handle', 'granted'],
      ['b', 'blocking', 'granted'],
      ['c', 'mutex', 'granted'],
      ['d', 'several', 'granted'],
    ]);
  });

  it('in the bucket where it was: the same name elsewhere does not block it', async (t) => {
    const { requests } = await profileOf(
      t,
      `const other = openBucket('other').locks.request('a', { label: 'other' }, ${UNTIL_WAITED});
       const all = [other, locks.request('a', { label: 'holds' }, ${UNTIL_WAITED})];
       all.push(locks.request('a', { label: 'waits' }, turn));
       await Promise.all(all);`,
    );
    assert.deepEqual(
      byLabel(requests).waits.blockers.map(({ label }) => label),
      ['holds'],
    );
  });
});

describe('a profile is of all threads', () => {
  it('workers record as well, and block each other', async (t) => {
    const { requests, trace } = await profileOf(
      t,
      `if (isMainThread) {
         const worker = new Worker(__filename);
         const exit = once(worker, 'exit');
         await locks.request('a', { label: 'main' }, ${UNTIL_WAITED});
         await exit;
       } else {
         await until(async () => (await locks.query({ name: 'a' })).held.length > 0);
         await locks.request('a', { label: 'worker' }, turn);
       }`,
    );
    const { main, worker } = byLabel(requests);
    assert.equal(main.thread, 0);
    assert.equal(worker.thread, 1);
    assert.deepEqual(worker.blockers[0].id, main.id);
    assert.deepEqual(trace.otherData.threads.map(({ id }) => id).sort(), [0, 1]);
  });

  it('an exclusive lock is never held by two, by the times of all threads', async (t) => {
    const { trace } = await profileOf(
      t,
      `if (isMainThread) for (let i = 0; i < 2; i++) new Worker(__filename);
       for (let i = 0; i < 200; i++) await locks.request('a', turn);`,
    );
    const holds = trace.traceEvents.filter(({ cat }) => cat === 'hold');
    assert.equal(holds.length, 600);
    assert.equal(new Set(holds.map(({ tid }) => tid)).size, 1);
  });

  it('nor where it was held too long, or given back unused', async (t) => {
    const { trace } = await profileOf(
      t,
      `const ignore = () => {};
       const alive = setInterval(ignore, 1000);
       const end = new AbortController();
       const all = [
         locks.request('a', { holdTimeout: 1 }, ({ signal }) => once(signal, 'abort')),
         locks.request('a', turn),
         locks.request('b', { signal: end.signal }, ignore),
         locks.request('b', turn),
       ];
       end.abort();
       await Promise.allSettled(all);
       clearInterval(alive);`,
    );
    const holds = trace.traceEvents.filter(({ cat }) => cat === 'hold');
    assert.equal(holds.length, 4);
    assert.equal(new Set(holds.map(({ tid }) => tid)).size, 2);
  });

  it('a terminated worker loses nothing, nor one that the exit of the process ends', async (t) => {
    const { requests } = await profileOf(
      t,
      `if (isMainThread) {
         const one = new Worker(__filename);
         await once(one, 'message');
         await one.terminate();
         await once(new Worker(__filename), 'message');
         process.exit();
       } else {
         await locks.request('a', turn);
         locks.request('b' + threadId, async () => {
           locks.request('b' + threadId, turn);
           parentPort.postMessage('now');
           for (;;);
         });
       }`,
    );
    const seen = requests.map(({ thread, lock, outcome }) => `${thread} ${lock} ${outcome}`);
    assert.deepEqual(seen, [
      '1 a granted',
      '1 b1 held',
      '1 b1 pending',
      '2 a granted',
      '2 b2 held',
      '2 b2 pending',
    ]);
  });
});

describe('a profile is bounded', () => {
  it('drops the oldest requests, and tells how many', async (t) => {
    const { requests, trace } = await profileOf(
      t,
      `for (let i = 0; i < 1000; i++) await locks.request('n' + i, () => {});`,
      { env: { WEB_LOCKS_PROFILE_SIZE: '65536' } },
    );
    assert.ok(requests.length > 100 && requests.length < 1000, `${requests.length}`);
    assert.equal(trace.otherData.dropped, 1000 - requests.length);
    assert.equal(requests.at(-1).lock, 'n999');
    assert.equal(requests[0].lock, `n${1000 - requests.length}`);
  });

  it('counts those of threads that ended, also of the first ones, which are forgotten', async (t) => {
    const { requests, trace } = await profileOf(
      t,
      `if (isMainThread) {
         for (let i = 0; i < 7; i++) await once(new Worker(__filename), 'exit');
       } else {
         for (let i = 0; i < 1000; i++) await locks.request('n', () => {});
       }`,
      { env: { WEB_LOCKS_PROFILE_SIZE: '65536' } },
    );
    assert.ok(trace.otherData.threads.length < 8, `${trace.otherData.threads.length}`);
    assert.equal(trace.otherData.dropped, 7000 - requests.length);
  });

  it('is not of the locks of Node.js itself, which tell of theirs in the same channels', async (t) => {
    const { code, stderr, requests } = await profileOf(
      t,
      `const { channel } = require('node:diagnostics_channel');
       channel('locks.request.start').publish({ name: 'theirs', mode: 'exclusive' });
       await turn();
       await locks.request('ours', () => {});`,
    );
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    assert.deepEqual(
      requests.map(({ lock }) => lock),
      ['ours'],
    );
  });

  it('cuts long names', async (t) => {
    const body = "await locks.request('x'.repeat(1e5), () => {});";
    const { requests } = await profileOf(t, body);
    assert.equal(requests[0].lock, `${'x'.repeat(1000)}…`);
  });
});

describe('a profile without call sites', () => {
  it('has the rest, of all threads', async (t) => {
    const { requests } = await profileOf(
      t,
      "if (isMainThread) new Worker(__filename); await locks.request('a', { label: 'x' }, turn);",
      { env: { WEB_LOCKS_PROFILE_SITES: '0' } },
    );
    assert.deepEqual(
      requests.map(({ label, site }) => [label, site]),
      [
        ['x', ''],
        ['x', ''],
      ],
    );
  });
});

describe('a profile does not change the program', () => {
  const body = `
    process.on('exit', () => console.log('bye'));
    await locks.request('a', turn);
    console.error('an error');
    process.exitCode = 3;`;

  it('its output and its exit status are the same', async (t) => {
    const { code, stdout, stderr, written } = await profileOf(t, body);
    assert.deepEqual([code, stdout, stderr], [3, 'bye\n', 'an error\n']);
    assert.deepEqual(written, ['profile.json']);
  });

  it('the file is in the current folder if nobody says where', async (t) => {
    const { written } = await profileOf(t, body, { file: false });
    assert.match(written.join(), /^web-locks-profile-\d+\.json$/);
  });

  it('a file that cannot be written is one line on stderr', async (t) => {
    const env = { WEB_LOCKS_PROFILE: '/nowhere/profile.json' };
    const { code, stdout, stderr } = await profileOf(t, body, { env });
    assert.equal(code, 3);
    assert.equal(stdout, 'bye\n');
    assert.match(
      stderr,
      /^an error\nweb-locks: no profile was written to .*\/nowhere.*: ENOENT.*\n$/,
    );
  });

  it('a signal still ends it, after the profile was written', async (t) => {
    const { signal, requests } = await profileOf(
      t,
      `setInterval(() => {}, 1000);
       locks.request('a', () => new Promise(() => {}));
       await turn();
       process.kill(process.pid, 'SIGTERM');`,
    );
    assert.equal(signal, 'SIGTERM');
    assert.equal(requests[0].outcome, 'held');
  });

  it('an exception still ends it, with its message', async (t) => {
    const { code, stderr, requests } = await profileOf(
      t,
      "await locks.request('a', turn); throw new Error('of the program');",
    );
    assert.equal(code, 1);
    assert.match(stderr, /of the program/);
    assert.equal(requests.length, 1);
  });

  it("users' ways to form stacks are theirs", async (t) => {
    const { stdout, requests } = await profileOf(
      t,
      `Error.prepareStackTrace = () => { throw new Error('theirs'); };
       const { prepareStackTrace } = Error;
       await locks.request('a', turn);
       console.log(Error.prepareStackTrace === prepareStackTrace, Error.stackTraceLimit);`,
    );
    assert.equal(stdout, 'true 10\n');
    assert.match(requests[0].site, /program\.js/);
  });
});

describe('startProfile', () => {
  const none = { args: [], file: false };

  it('does nothing before it is called', async (t) => {
    const { written } = await profileOf(t, "await locks.request('a', turn);", none);
    assert.deepEqual(written, []);
  });

  it('refuses an option that there is not', () => {
    assert.throws(() => startProfile({ bogus: 1 }), /The option 'bogus' is not supported here/);
  });

  it('records until stop, which writes the file and tells what is in it', async (t) => {
    const { stdout, requests } = await profileOf(
      t,
      `await locks.request('before', turn);
       const profile = startProfile({ file: 'mine.json' });
       console.log(startProfile() === profile);
       await locks.request('during', turn);
       console.log(profile.stop());
       await locks.request('after', turn);
       console.log(profile.stop().requests);`,
      none,
    );
    assert.equal(stdout, "true\n{ file: 'mine.json', requests: 1, dropped: 0 }\n1\n");
    assert.deepEqual(
      requests.map(({ lock }) => lock),
      ['during'],
    );
  });

  it('in a worker joins that of the thread which started it, also by --import', async (t) => {
    const { requests } = await profileOf(
      t,
      `if (isMainThread) {
         const profile = startProfile({ file: 'mine.json' });
         await once(new Worker(__filename), 'exit');
         await once(new Worker(__filename, { execArgv: ['--import', '${preload}'] }), 'exit');
         profile.stop();
       } else {
         if (threadId === 1) startProfile();
         await locks.request('a', turn);
       }`,
      none,
    );
    assert.deepEqual(
      requests.map(({ thread }) => thread),
      [1, 2],
    );
  });

  it('refuses what is not a size or a file', async (t) => {
    const { stdout } = await profileOf(
      t,
      `for (const options of [{ size: 1 }, { size: NaN }, { size: 'x' }, { file: 5 }]) {
         try { startProfile(options); } catch (error) { console.log(error.name); }
       }`,
      none,
    );
    assert.equal(stdout, 'RangeError\nRangeError\nRangeError\nTypeError\n');
  });
});
