// slow: 8; long

'use strict';

/** Tests what the garbage collector may collect, and what it must not. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { run } = require('../helpers/program.js');

const tools = `
  /** Resolves after several collections that collected unreachable objects. */
  const collect = async () => {
    for (let i = 0; i < 3; i++) {
      let taken = false;
      const registry = new FinalizationRegistry(() => { taken = true; });
      registry.register({}, 0);
      await until(() => { gc(); return taken; });
    }
  };
  const forever = () => new Promise(() => {});
  const namesHeld = async () => (await locks.query()).held.map(({ name }) => name).sort();
`;

it('a callback that never settles keeps its lock, whatever is collected', async () => {
  const { value, warnings } = await run(`${tools}
    const mutex = new library.Mutex();
    const calls = [
      (callback) => locks.request('request', callback),
      (callback) => locks.requestAll(['all', 'both'], callback),
      (callback) => new library.Mutex('mutex').runExclusive(callback),
      (callback) => new library.RWLock('writer').runExclusive(callback),
      (callback) => new library.RWLock('reader').runShared(callback),
      (callback) => mutex.runExclusive(callback),
    ];
    for (const call of calls) {
      await new Promise((resolve) => {
        call(() => (resolve(), forever())).catch(() => {});
      });
    }
    await collect();
    const held = await namesHeld();
    // A thief can end locks that no user can release.
    for (const name of held) await locks.request(name, { steal: true }, () => {});
    return [...held, mutex.locked];
  `);
  assert.deepEqual(value, ['all', 'both', 'mutex', 'reader', 'request', 'writer', true]);
  assert.deepEqual(warnings, []);
});

describe('a handle that is collected is released', () => {
  it('although the warning and Error.prepareStackTrace throw', () =>
    run(
      `${tools}
      const acquire = async (name, options) => { await locks.acquire(name, options); };
      for (const name of ['x', 'y']) await acquire(name);
      Error.prepareStackTrace = () => { throw new Error('of prepareStackTrace'); };
      await acquire('z', { warnAfter: 1e6 }).catch(() => {});
      const next = ['x', 'y', 'z'].map((name) => locks.request(name, () => name));
      process.emitWarning = () => { throw new Error('of the warning'); };
      const collecting = setInterval(gc, 5);
      await Promise.all(next);
      clearInterval(collecting);
      await turn();
      const isOfWarning = (message) => message === 'of the warning';
      report.uncaught = report.uncaught.filter(isOfWarning).slice(0, 1);
      `,
      { uncaught: ['of the warning'] },
    ));

  for (const call of ['await locks.acquire', 'locks.tryAcquireSync']) {
    it(`although the object that called ${call} has it in a field`, async () => {
      const { value, warnings } = await run(`${tools}
        class Owner {
          async open() {
            this.lock = ${call}('x', { warnAfter: 1e6 });
          }
        }
        await new Owner().open();
        await collect();
        const held = await namesHeld();
        if (held.length > 0) await locks.request('x', { steal: true }, () => {});
        return held;
      `);
      assert.deepEqual(value, []);
      assert.equal(warnings.length, 1);
      assert.match(warnings[0].message, /Owner\.open/);
    });
  }
});

describe('a lock that was released keeps nothing alive', () => {
  it('of the object that acquired it, while its handle is kept', async () => {
    const { value } = await run(`${tools}
      class Owner {
        acquire(handles) {
          const acquired = locks.acquire('x').then((handle) => handles.push(handle));
          return acquired;
        }
      }
      const handles = [];
      const owner = await (async () => {
        const one = new Owner();
        await one.acquire(handles);
        return new WeakRef(one);
      })();
      handles[0].release();
      await turn();
      await collect();
      return owner.deref() === undefined && handles[0].released;
    `);
    assert.equal(value, true);
  });

  const loop = (options) => `
    await new Promise((resolve) => {
      // It checks while the context of the last callback is still active.
      const end = () => resolve(collect());
      const round = () => {
        locks.request('x', { ${options}signal: newSignal() }, () => {
          // The next request is made in the context of this callback, once the lock is released.
          setImmediate(signals.length < 500 ? round : end);
        });
      };
      round();
    });`;
  const programs = {
    'in a loop that goes on from inside its callbacks': loop(''),
    "in such a loop of requests with deadlock: 'reject'": loop("deadlock: 'reject', "),
    'inside of a lock that goes on': `
      await locks.request('other', { deadlock: 'reject' }, async () => {
        for (let i = 0; i < 100; i++) {
          const options = { deadlock: 'reject', signal: newSignal() };
          await locks.request('inner', options, () => {});
        }
        await collect();
      });`,
  };
  for (const [title, program] of Object.entries(programs)) {
    it(title, async () => {
      const { value } = await run(`${tools}
        const signals = [];
        const newSignal = () => {
          const { signal } = new AbortController();
          signals.push(new WeakRef(signal));
          return signal;
        };
        await locks.request('x', { deadlock: 'reject' }, () => {});
        ${program}
        return signals.filter((signal) => signal.deref()).length;
      `);
      assert.ok(value < 20, `${value} requests are kept`);
    });
  }
});
