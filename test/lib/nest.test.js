'use strict';

/** `web-locks/nest` with the real NestJS, and decorators in each form that the compiler emits. */

const assert = require('node:assert/strict');
const { afterEach, before, beforeEach, describe, it } = require('node:test');
const ts = require('typescript-oldest');
const { openBucket } = require('../../lib/index.js');
const nest = require('../../lib/nest.js');
const { deferred, turn, valuesOf } = require('../helpers/locks.js');

const { LOCKS, LocksModule } = nest;

/** A provider whose methods call `steps`, which tests replace. */
const SOURCE = `
  const { Elected, Locked, Once, currentLock } = nest;
  @common.Injectable()
  class Jobs {
    steps: any = {};

    @common.SetMetadata('above', 1)
    @Locked((id: string) => 'order ' + id)
    @common.SetMetadata('below', 2)
    async pay(id: string) {
      await this.steps.pay();
      return [id, currentLock().name, currentLock().held];
    }

    @Locked('order 7', { ifAvailable: true })
    async tryToPay() {
      return 'paid';
    }

    @Once('report', { keep: 60_000 })
    async report() {
      return this.steps.report();
    }

    @Elected('leader')
    async lead() {
      return this.steps.lead(currentLock());
    }
  }
  return Jobs;
`;
const KINDS = {
  'decorators of TypeScript': { experimentalDecorators: true },
  'decorators of TC39': { experimentalDecorators: false },
};

let common;
let core;
let buckets = 0;

/** @param {ts.CompilerOptions} options @returns {any} the class of SOURCE */
function compile(options) {
  const { outputText } = ts.transpileModule(SOURCE, {
    compilerOptions: { ...options, target: ts.ScriptTarget.ES2022 },
  });
  return new Function('nest', 'common', outputText)(nest, common);
}

/** @returns {Promise<any>} an application that has not been closed */
function start(locksModule, ...providers) {
  class AppModule {}
  common.Module({ imports: [locksModule], providers })(AppModule);
  const options = { logger: false, abortOnError: false };
  return core.NestFactory.createApplicationContext(AppModule, options);
}

before(async () => {
  await import('reflect-metadata');
  common = await import('@nestjs/common');
  core = await import('@nestjs/core');
});

for (const [kind, compilerOptions] of Object.entries(KINDS)) {
  describe(`web-locks/nest with ${kind}`, () => {
    let Jobs;
    let app;
    let bucket;
    let jobs;
    /** The same locks as another process sees them. */
    let other;

    before(() => (Jobs = compile(compilerOptions)));

    beforeEach(async () => {
      const name = `nest ${++buckets}`;
      other = openBucket(name);
      bucket = openBucket(name);
      const useFactory = async () => bucket;
      app = await start(LocksModule.forRootAsync({ useFactory }), Jobs);
      jobs = app.get(Jobs);
    });

    afterEach(() => app.close());

    it('@Locked holds the lock of the name, by the arguments, while the method runs', async () => {
      const [paying, paid] = [deferred(), deferred()];
      jobs.steps.pay = () => {
        paying.resolve();
        return paid.promise;
      };
      const result = jobs.pay('7');
      await paying.promise;
      const { held } = await other.locks.query();
      assert.deepEqual(valuesOf(held, 'name'), ['order 7']);
      assert.equal(await jobs.tryToPay(), undefined);
      paid.resolve();
      assert.deepEqual(await result, ['7', 'order 7', true]);
      assert.equal(await jobs.tryToPay(), 'paid');
      // Other decorators find the method.
      const metadata = ['above', 'below'].map((key) => Reflect.getMetadata(key, jobs.pay));
      assert.deepEqual([jobs.pay.name, ...metadata], ['pay', 1, 2]);
    });

    it('@Once runs the method once, and again if it has failed', async () => {
      const error = new Error('the report failed');
      jobs.steps.report = async () => {
        throw error;
      };
      await assert.rejects(jobs.report(), error);
      jobs.steps.report = async () => 'reported';
      const results = await Promise.all([jobs.report(), jobs.report()]);
      assert.deepEqual(results.sort(), ['reported', undefined]);
    });

    /** Installs a leader that runs `end` when it must resign. @returns a promise that it leads */
    function setLeader(end) {
      const leading = deferred();
      jobs.steps.lead = async (leader) => {
        leading.resolve();
        await new Promise((resolve) => leader.signal.addEventListener('abort', resolve));
        return end(leader);
      };
      return leading.promise;
    }

    it('@Elected leads until the shutdown, which awaits it and closes the bucket', async () => {
      const leading = setLeader(async (leader) => {
        for (let i = 0; i < 10; i++) await turn();
        return leader.held;
      });
      const [leads, waits] = [jobs.lead(), jobs.lead()];
      await leading;
      const next = other.locks.elect('leader', () => 'took over');
      await app.close();
      assert.deepEqual(await Promise.all([leads, waits, next]), [true, undefined, 'took over']);
      await assert.rejects(
        bucket.locks.request('a', () => {}),
        { name: 'InvalidStateError' },
      );
    });

    it('@Elected passes on the error of a leader, also in the shutdown', async () => {
      const error = new Error('no schedule');
      const fail = async () => {
        throw error;
      };
      jobs.steps.lead = fail;
      await assert.rejects(jobs.lead(), error);
      const leading = setLeader(fail);
      const leads = assert.rejects(jobs.lead(), error);
      await leading;
      await app.close();
      await leads;
    });
  });
}

describe('web-locks/nest', () => {
  it('gives the lock manager by its token, and leaves it open', async () => {
    const bucket = openBucket('nest');
    const app = await start(LocksModule.forRoot(bucket));
    assert.equal(app.get(LOCKS), bucket.locks);
    await app.close();
    assert.equal(await bucket.locks.request('a', ({ name }) => name), 'a');
  });

  it('gives the factory what it injects, which shuts down after the bucket', async () => {
    const closed = [];
    class Pool {
      bucket = openBucket('nest of a pool');
      onApplicationShutdown() {
        closed.push('pool');
      }
    }
    class PoolModule {}
    common.Module({ providers: [Pool], exports: [Pool] })(PoolModule);
    const useFactory = ({ bucket: { locks } }) => ({
      locks,
      close: async () => closed.push('bucket'),
    });
    const imports = [PoolModule];
    const app = await start(LocksModule.forRootAsync({ imports, inject: [Pool], useFactory }));
    assert.equal(app.get(LOCKS), app.get(Pool).bucket.locks);
    await app.close();
    assert.deepEqual(closed, ['bucket', 'pool']);
  });

  it('refuses a method without an application, and with two', async () => {
    const jobs = new (compile({ experimentalDecorators: true }))();
    const message = (count) => new RegExp(`'@Once' was called, but ${count} applications`);
    await assert.rejects(jobs.report(), { name: 'InvalidStateError', message: message(0) });
    const apps = await Promise.all([1, 2].map(() => start(LocksModule.forRoot(openBucket('a')))));
    await assert.rejects(jobs.report(), { name: 'InvalidStateError', message: message(2) });
    await apps[0].close();
    jobs.steps.report = () => 'reported';
    assert.equal(await jobs.report(), 'reported');
    await apps[1].close();
  });

  it('takes the application that runs while another one shuts down', async () => {
    const jobs = new (compile({ experimentalDecorators: true }))();
    const [leading, stopping, ended] = [deferred(), deferred(), deferred()];
    jobs.steps.lead = ({ signal }) => {
      signal.addEventListener('abort', stopping.resolve);
      leading.resolve();
      return ended.promise;
    };
    jobs.steps.pay = () => {};
    const pays = async () => assert.deepEqual(await jobs.pay('7'), ['7', 'order 7', true]);
    const first = await start(LocksModule.forRoot(openBucket('first')));
    const leads = jobs.lead();
    await leading.promise;
    const closing = first.close();
    await stopping.promise;
    await pays();
    const second = await start(LocksModule.forRoot(openBucket('second')));
    await pays();
    ended.resolve('ended');
    assert.equal(await leads, 'ended');
    await closing;
    await second.close();
  });

  it('checks lock managers, buckets, names, options and methods', async () => {
    const locksModule = LocksModule.forRootAsync({ useFactory: () => openBucket('a').locks });
    await assert.rejects(start(locksModule), { message: /'useFactory' returned an object/ });
    const once = (options) => () => nest.Once('a', options);
    const decorate = nest.Once('a', { keep: 1 });
    for (const [call, message] of [
      [() => LocksModule.forRoot({}), /'locks' is undefined; expected a lock manager/],
      [() => nest.Locked(7), /'@Locked': 'name' is 7; expected a string, or a function/],
      [once(undefined), /'@Once': 'keep' is missing; expected a number of milliseconds/],
      [once({ keep: '1h' }), /'@Once': The 'keep' option is '1h'; expected/],
      [once({ keep: 1, timeout: -1 }), /'@Once': The 'timeout' option is -1; expected/],
      [once({ keep: 1, kep: 1 }), /'@Once': The option 'kep' is not supported here/],
      [once(7), /'@Once'/],
      [() => decorate({}, 'size', undefined), /"size" is decorated, but is not a method/],
      [() => decorate(undefined, { kind: 'field', name: 'size' }), /"size" is decorated/],
      [() => decorate(class Jobs {}), /"Jobs" is decorated/],
    ]) {
      assert.throws(call, { name: 'TypeError', message });
    }
    assert.throws(once({ keep: 1, holdTimeout: 1 }), {
      name: 'NotSupportedError',
      message: /'holdTimeout' option cannot be used with '@Once'/,
    });
    assert.throws(nest.currentLock, { name: 'InvalidStateError', message: /outside of a method/ });
  });
});
