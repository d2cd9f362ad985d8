// slow: 15; long

'use strict';

// What the garbage collector may take, and what not.

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { run } = require('../helpers/program.js');

const tools = `
  /** Resolves after several collections that took what nobody has. */
  const collect = async () => {
    for (let i = 0; i < 3; i++) {
      let taken = false;
      const registry = new FinalizationRegistry(() => { taken = true; });
      registry.register({}, 0);
      await until(() => { gc(); return taken; });
    }
  };
  const forever = () => new Promise(() => {});
`;

describe('a callback that never settles keeps its lock, whatever is collected', () => {
  const forms = {
    'locks.request': "locks.request('x', callback)",
    'locks.requestAll': "locks.requestAll(['x', 'y'], callback)",
    'Mutex.runExclusive': "new library.Mutex('x').runExclusive(callback)",
    'RWLock.runExclusive': "new library.RWLock('x').runExclusive(callback)",
    'RWLock.runShared': "new library.RWLock('x').runShared(callback)",
  };
  for (const [title, call] of Object.entries(forms)) {
    it(title, async () => {
      const { value, warnings } = await run(`${tools}
        await new Promise((resolve) => {
          const callback = () => (resolve(), forever());
          ${call}.catch(() => {});
        });
        await collect();
        const { held } = await locks.query();
        // What nobody can release, a thief can.
        const steal = { steal: true };
        for (const { name } of held) await locks.request(name, steal, () => {});
        return held.map(({ name }) => name).sort();
      `);
      assert.deepEqual(value, title === 'locks.requestAll' ? ['x', 'y'] : ['x']);
      assert.deepEqual(warnings, []);
    });
  }

  it('the callback of a mutex without a name', async () => {
    const { value } = await run(`${tools}
      const mutex = new library.Mutex();
      await new Promise((resolve) => {
        mutex.runExclusive(() => (resolve(), forever())).catch(() => {});
      });
      await collect();
      return mutex.locked;
    `);
    assert.equal(value, true);
  });
});

describe('a handle that nobody has is released', () => {
  it('also if the warning throws, which comes uncaught', async () => {
    const { value } = await run(
      `${tools}
      await (async () => { await locks.acquire('x'); })();
      await (async () => { await locks.acquire('y'); })();
      const next = ['x', 'y'].map((name) => locks.request(name, () => name));
      process.emitWarning = () => { throw new Error('of the warning'); };
      await collect();
      const all = await Promise.all(next);
      await turn();
      report.uncaught = [...new Set(report.uncaught)];
      return all;
      `,
      { uncaught: ['of the warning'] },
    );
    assert.deepEqual(value, ['x', 'y']);
  });

  it('also if Error.prepareStackTrace throws', async () => {
    const { value } = await run(`${tools}
      Error.prepareStackTrace = () => { throw new Error('of prepareStackTrace'); };
      await (async () => { await locks.acquire('x', { warnAfter: 1e6 }).catch(() => {}); })();
      const next = locks.request('x', () => 'next');
      const collecting = setInterval(gc, 5);
      const value = await next;
      clearInterval(collecting);
      report.uncaught = [];
      return value;
    `);
    assert.equal(value, 'next');
  });

  it('also if what acquired it keeps it in a field', async () => {
    const { value, warnings } = await run(`${tools}
      class Owner {
        async open() {
          this.lock = await locks.acquire('x', { warnAfter: 1e6 });
        }
      }
      await new Owner().open();
      const next = locks.request('x', () => 'next');
      await collect();
      const held = (await locks.query()).held.length;
      if (held > 0) await locks.request('x', { steal: true }, () => {});
      await next;
      return held;
    `);
    assert.equal(value, 0);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0].message, /Owner\.open/);
  });

  it('also if what took it at once keeps it in a field', async () => {
    const { value, warnings } = await run(`${tools}
      class Owner {
        open() {
          this.lock = locks.tryAcquireSync('x', { warnAfter: 1e6 });
        }
      }
      new Owner().open();
      await collect();
      const held = (await locks.query()).held.length;
      if (held > 0) await locks.request('x', { steal: true }, () => {});
      return held;
    `);
    assert.equal(value, 0);
    assert.match(warnings[0].message, /Owner\.open/);
  });
});

describe('what was released keeps nothing alive', () => {
  it('a handle that is kept keeps nothing of what acquired it', async () => {
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

  for (const [title, option] of Object.entries({
    'without the option': '',
    'with the option': "deadlock: 'reject', ",
  })) {
    it(`a loop that goes on from inside its callbacks, after a deadlock: 'reject', ${title}`, async () => {
      const { value } = await run(`${tools}
        await locks.request('x', { deadlock: 'reject' }, () => {});
        const signals = [];
        const kept = async () => {
          await collect();
          return signals.filter((signal) => signal.deref()).length;
        };
        return new Promise((resolve) => {
          const round = () => {
            const { signal } = new AbortController();
            signals.push(new WeakRef(signal));
            locks.request('x', { ${option}signal }, () => {
              // The next one is made in the context of this callback, once the lock is released.
              if (signals.length < 500) setImmediate(round);
              else setImmediate(() => resolve(kept()));
            });
          };
          round();
        });
      `);
      assert.ok(value < 20, `${value} of 500 requests are kept`);
    });
  }

  it('a request that has ended inside of a lock that goes on', async () => {
    const { value } = await run(`${tools}
      const ended = deferred();
      const signals = [];
      const outer = locks.request('outer', { deadlock: 'reject' }, () => ended.promise);
      await locks.request('other', { deadlock: 'reject' }, async () => {
        for (let i = 0; i < 100; i++) {
          const { signal } = new AbortController();
          signals.push(new WeakRef(signal));
          await locks.request('inner', { deadlock: 'reject', signal }, () => {});
        }
        await collect();
      });
      ended.resolve();
      await outer;
      return signals.filter((signal) => signal.deref()).length;
    `);
    assert.ok(value < 20, `${value} of 100 requests are kept`);
  });
});
