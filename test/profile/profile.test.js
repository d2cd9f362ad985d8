// slow: 14

'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { startProfile } = require('../../lib/profile/profile.js');
const { preload, profileOf } = require('./run.js');

/** The recorded requests by label. */
const byLabel = (requests) => Object.fromEntries(requests.map((r) => [r.label, r]));

/** These fields of each recorded request, as a text. */
const fieldsOf = (requests, ...fields) =>
  requests.map((request) => fields.map((field) => request[field] ?? '-').join(' '));

/** A callback that holds a lock until another request waits for it. */
const UNTIL_WAITED = "() => until(isPending('a'))";

describe('a profile has of each request', () => {
  it('its name, mode, label, call site, thread, times and blockers, in all threads', async (t) => {
    const { requests } = await profileOf(
      t,
      `async function save() { await locks.request('x', { label: 'x', mode: 'shared' }, turn); }
       await save();
       const other = openBucket('other').locks.request('a', { label: 'other' }, ${UNTIL_WAITED});
       function first() { return locks.request('a', { label: 'holds' }, ${UNTIL_WAITED}); }
       const all = [other, first()];
       all.push(locks.request('a', { label: 'waits' }, turn));
       await Promise.all(all);`,
    );
    const { x, holds, waits } = byLabel(requests);
    const { site, waited, held, token, ...rest } = x;
    assert.ok(BigInt(token) > 0n);
    assert.deepEqual(rest, {
      ...{ id: 1, lock: 'x', manager: 'process ', mode: 'shared', label: 'x', thread: 0 },
      ...{ outcome: 'granted', contended: false, blockers: [] },
    });
    assert.match(site, /^save \(program\.js:\d+:\d+\)$/);
    assert.ok(waited >= 0 && held > 0);
    assert.deepEqual([waits.contended, waits.outcome], [true, 'granted']);
    assert.ok(waits.waited > 0);
    // A lock of the same name in another bucket does not block it.
    assert.equal(waits.blockers.length, 1);
    const [{ site: where, ...blocker }] = waits.blockers;
    assert.deepEqual(blocker, { id: holds.id, label: 'holds', thread: 0 });
    assert.match(where, /^first \(program\.js/);
  });

  it('how it ended, also with an error', async (t) => {
    const { requests } = await profileOf(
      t,
      `const ignore = () => {};
       const ask = (name, label, options, callback = ignore) =>
         locks.request(name, { label, ...options }, callback).catch(ignore);
       const alive = setInterval(ignore, 1000);
       const end = new AbortController();
       let release;
       const held = ask('a', 'robbed', {}, () => new Promise((r) => release = r));
       await turn();
       await ask('a', 'refused', { ifAvailable: true });
       const aborted = ask('a', 'aborted', { signal: end.signal });
       end.abort();
       await aborted;
       await ask('a', 'late', { timeout: 5 });
       await ask('a', 'full', { maxPending: 0 });
       await ask('a', 'thief', { steal: true });
       await held;
       release();
       await ask('b', 'slow', { holdTimeout: 1 }, ({ signal }) => once(signal, 'abort'));
       const fails = (label, error) => ask('c', label, {}, async () => { throw error; });
       await fails('error', new TypeError('no stock\\nof that'));
       await fails('text', 'a text');
       await fails('nothing', null);
       await fails('hostile', { get message() { throw new Error('of a getter'); } });
       await ask('d', 'limited', { mode: 'shared', limit: 2 }, () =>
         ask('d', 'other', { mode: 'shared', limit: 3 }));
       const bucket = openBucket('shop');
       const untilLost = ({ signal }) => once(signal, 'abort');
       const lost = bucket.locks.request('a', { label: 'closed' }, untilLost);
       await turn();
       await bucket.close();
       await lost.catch(ignore);
       ask('e', 'holds', {}, () => new Promise(() => {}));
       ask('e', 'waits');
       await turn();
       process.exit(7);`,
    );
    assert.deepEqual(fieldsOf(requests, 'label', 'outcome').sort(), [
      ...['aborted aborted', 'closed lost', 'error threw', 'full failed', 'holds held'],
      ...['hostile threw', 'late timed out', 'limited granted', 'nothing threw', 'other failed'],
      ...['refused not available', 'robbed stolen', 'slow held too long', 'text threw'],
      ...['thief granted', 'waits pending'],
    ]);
    const of = byLabel(requests);
    assert.deepEqual([of.aborted.held, of.refused.held], [0, 0]);
    assert.equal(of.aborted.blockers[0].label, 'robbed');
    assert.equal(of.closed.manager, 'process bucket:shop');
    assert.ok(of.holds.held > 0 && of.waits.waited > 0);
    const errors = ['error', 'text', 'nothing', 'hostile', 'limited'].map((one) => of[one].error);
    assert.deepEqual(errors, ['TypeError: no stock', 'a text', undefined, undefined, undefined]);
    assert.match(of.other.error, /^TypeError: A request for lock "d" has the limit 3, /);
  });

  it('the users’ call site, for handles, mutexes, several locks and blocking calls', async (t) => {
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
    const seen = requests.map(
      ({ lock, site, outcome }) => `${lock} ${site.split(' ')[0]} ${outcome}`,
    );
    const sites = ['a handle', 'b blocking', 'c mutex', 'd several'];
    assert.deepEqual(
      seen,
      sites.map((site) => `${site} granted`),
    );
  });
});

describe('a profile of several threads', () => {
  it('never has two exclusive holders at a time, and has blockers of other threads', async (t) => {
    const { requests, trace } = await profileOf(
      t,
      `if (isMainThread) {
         for (let i = 0; i < 2; i++) new Worker(__filename);
         await locks.request('a', ${UNTIL_WAITED});
       }
       for (let i = 0; i < 200; i++) await locks.request('a', turn);
       if (!isMainThread) return;
       // The same after a lock was held too long, or was returned unused.
       const ignore = () => {};
       const alive = setInterval(ignore, 1000);
       const end = new AbortController();
       const all = [
         locks.request('b', { holdTimeout: 1 }, ({ signal }) => once(signal, 'abort')),
         locks.request('b', turn),
         locks.request('c', { signal: end.signal }, ignore),
         locks.request('c', turn),
       ];
       end.abort();
       await Promise.allSettled(all);
       clearInterval(alive);`,
    );
    const holds = trace.traceEvents.filter(({ cat }) => cat === 'hold');
    assert.equal(holds.length, 605);
    // A lock has one track if its holds do not overlap.
    assert.equal(new Set(holds.map(({ tid }) => tid)).size, 3);
    assert.deepEqual(trace.otherData.threads.map(({ id }) => id).sort(), [0, 1, 2]);
    const isOfOther = ({ blockers, thread }) => blockers.some((one) => one.thread !== thread);
    assert.ok(requests.some(isOfOther));
  });

  it('has the requests of workers that terminate() or the exit of the process ends', async (t) => {
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
    const seen = ['1 a granted', '1 b1 held', '1 b1 pending'];
    const expected = [...seen, ...seen.map((one) => one.replaceAll('1', '2'))];
    assert.deepEqual(fieldsOf(requests, 'thread', 'lock', 'outcome'), expected);
  });
});

describe('a profile is bounded', () => {
  const env = { WEB_LOCKS_PROFILE_SIZE: '65536' };

  it('drops the oldest requests and ended threads, and counts what it dropped', async (t) => {
    const { requests, trace } = await profileOf(
      t,
      `const record = async (name) => {
         for (let i = 0; i < 1000; i++) await locks.request(name + i, () => {});
       };
       if (!isMainThread) return record('w');
       for (let i = 0; i < 7; i++) await once(new Worker(__filename), 'exit');
       await record('n');`,
      { env },
    );
    assert.equal(trace.otherData.dropped, 8000 - requests.length);
    assert.ok(trace.otherData.threads.length < 8, `${trace.otherData.threads.length}`);
    const own = requests.filter(({ thread }) => thread === 0);
    assert.ok(own.length > 100 && own.length < 1000, `${own.length}`);
    assert.equal(own[0].lock, `n${1000 - own.length}`);
    assert.equal(own.at(-1).lock, 'n999');
  });

  it('cuts long names, and leaves out locks of Node.js, and sites on demand', async (t) => {
    const { code, stderr, requests } = await profileOf(
      t,
      `const { channel } = require('node:diagnostics_channel');
       // Node.js publishes its own locks on the same channels.
       channel('locks.request.start').publish({ name: 'theirs', mode: 'exclusive' });
       await turn();
       if (isMainThread) new Worker(__filename);
       await locks.request('x'.repeat(1e5), () => {});`,
      { env: { WEB_LOCKS_PROFILE_SITES: '0' } },
    );
    assert.deepEqual({ code, stderr }, { code: 0, stderr: '' });
    const name = `${'x'.repeat(1000)}…`;
    assert.deepEqual(fieldsOf(requests, 'lock', 'site'), [`${name} `, `${name} `]);
  });
});

describe('a profile does not change the program', () => {
  const body = `
    process.on('exit', () => console.log('bye'));
    await locks.request('a', turn);
    console.error('an error');
    process.exitCode = 3;`;

  for (const [title, options, stderr, written] of [
    ['with a file', {}, /^an error\n$/, /^profile\.json$/],
    ['without a file', { file: false }, /^an error\n$/, /^web-locks-profile-\d+\.json$/],
    [
      'with a file that cannot be written',
      { env: { WEB_LOCKS_PROFILE: '/nowhere/profile.json' } },
      /^an error\nweb-locks: no profile was written to .*\/nowhere.*: ENOENT.*\n$/,
      /^$/,
    ],
  ]) {
    it(`${title}: the output and the exit status stay the same`, async (t) => {
      const ending = await profileOf(t, body, options);
      assert.deepEqual([ending.code, ending.stdout], [3, 'bye\n']);
      assert.match(ending.stderr, stderr);
      assert.match(ending.written.join(), written);
    });
  }

  it('a signal still ends the program, after the profile was written', async (t) => {
    const { signal, requests } = await profileOf(
      t,
      `setInterval(() => {}, 1000);
       locks.request('a', () => new Promise(() => {}));
       await turn();
       process.kill(process.pid, 'SIGTERM');`,
    );
    assert.deepEqual([signal, requests[0].outcome], ['SIGTERM', 'held']);
  });

  it("an exception still ends the program, and users' prepareStackTrace formats it", async (t) => {
    const { code, stdout, stderr, requests } = await profileOf(
      t,
      `const own = Error.prepareStackTrace;
       Error.prepareStackTrace = () => { throw new Error('theirs'); };
       const { prepareStackTrace } = Error;
       await locks.request('a', turn);
       console.log(Error.prepareStackTrace === prepareStackTrace, Error.stackTraceLimit);
       Error.prepareStackTrace = own;
       throw new Error('of the program');`,
    );
    assert.deepEqual([code, stdout], [1, 'true 10\n']);
    assert.match(stderr, /of the program/);
    assert.match(requests[0].site, /program\.js/);
  });
});

describe('startProfile', () => {
  const none = { args: [], file: false };

  it('refuses an unknown option, a wrong size and a wrong file', () => {
    assert.throws(() => startProfile({ bogus: 1 }), /The option 'bogus' is not supported here/);
    for (const size of [1, Number.NaN, 'x', '65536', 65_536n])
      assert.throws(() => startProfile({ size }), { name: 'RangeError' });
    assert.throws(() => startProfile({ file: 5 }), { name: 'TypeError' });
  });

  it('records until stop(), which writes the file and returns a summary', async (t) => {
    const { stdout, requests, written } = await profileOf(
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
    assert.deepEqual(fieldsOf(requests, 'lock'), ['during']);
    assert.deepEqual(written, ['mine.json']);
  });

  it('joins the profile of the thread that started a worker, also by --import', async (t) => {
    const { code, requests, stderr } = await profileOf(
      t,
      `if (isMainThread) {
         const profile = startProfile({ file: 'mine.json' });
         await once(new Worker(__filename), 'exit');
         await once(new Worker(__filename, { execArgv: ['--import', '${preload}'] }), 'exit');
         profile.stop();
         if (process.listenerCount('worker') > 0) throw new Error('a listener is left');
       } else {
         if (threadId === 1) startProfile();
         await locks.request('a', turn);
       }`,
      none,
    );
    assert.equal(code, 0, stderr);
    assert.deepEqual(fieldsOf(requests, 'thread'), ['1', '2']);
  });
});
