// slow: 4

'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockTimeoutError, locks, needs } = require('../helpers/scope.js');
const {
  FREE,
  freshName,
  hold,
  nothing,
  stateOf,
  timedOut,
  valuesOf,
} = require('../helpers/locks.js');
const { run } = require('../helpers/program.js');

describe('locks.requestAll', () => {
  it('calls back with the locks in the order asked for, and releases them', async () => {
    const [a, b] = [freshName('a'), freshName('b')];
    const result = await locks.requestAll([b, { name: a, mode: 'shared' }], async (held) => {
      assert.deepEqual(valuesOf(held, 'name', 'mode'), [
        [b, 'exclusive'],
        [a, 'shared'],
      ]);
      assert.deepEqual(await stateOf(locks, a), { held: ['shared'], pending: [] });
      return 'result';
    });
    assert.equal(result, 'result');
    assert.deepEqual(await stateOf(locks, a), FREE);
    assert.deepEqual(await stateOf(locks, b), FREE);
  });

  for (const option of ['timeout', 'maxTotal']) {
    it(`the ${option} is for all of them together`, needs('entry'), async () => {
      const before = `
      let clock = 1n;
      process.hrtime.bigint = () => clock;
      const pass = (milliseconds) => {
        clock += BigInt(milliseconds) * 1_000_000n;
      };
      const timers = require('node:timers');
      const { setTimeout } = timers;
      const set = [];
      timers.setTimeout = (then, milliseconds) => {
        set.push({ then, milliseconds });
        return setTimeout(() => {}, 0);
      };`;
      const { value } = await run(
        `
      const isWaitedFor = (name) => async () => (await stateOf(locks, name)).pending.length > 0;
      const [a, b] = [await hold(locks, 'a'), await hold(locks, 'b')];
      set.length = 0;
      const all = locks.requestAll(['a', 'b'], { ${option}: 1000 }, () => assert.fail('called'));
      await until(isWaitedFor('a'));
      pass(600);
      await a.release();
      await until(isWaitedFor('b'));
      await turn();
      pass(400);
      set.at(-1).then();
      const { name, waited } = await all.then(assert.fail, (error) => error);
      await b.release();
      return { first: set[0].milliseconds, last: set.at(-1).milliseconds, name, waited };`,
        { before },
      );
      assert.deepEqual(value, { first: 1000, last: 400, name: 'TimeoutError', waited: 1000 });
    });
  }

  it('rejects what it cannot take', async () => {
    const call = (...given) => locks.requestAll(...given);
    await assert.rejects(call('name', nothing), TypeError);
    await assert.rejects(call(['x']), TypeError);
    await assert.rejects(call(['x'], {}), TypeError);
    await assert.rejects(call([{ name: 'x', mode: 'both' }], nothing), TypeError);
    await assert.rejects(call(['x', '-x'], nothing), { name: 'NotSupportedError' });
    await assert.rejects(call(['x'], { steal: true }, nothing), { name: 'NotSupportedError' });
  });
});

describe('several locks of which one is not granted in time', () => {
  /** Which lock the error is about, and the label of who holds it. */
  async function blamed(names, options) {
    const error = await timedOut(() =>
      locks.requestAll(names, options, () => assert.fail('called')),
    );
    assert.ok(error instanceof LockTimeoutError, error.stack);
    assert.match(error.message, /^Timed out after [\d,]+ ms waiting for /);
    return { lockName: error.lockName, label: error.holders[0]?.label };
  }

  for (const limit of [{ timeout: 0 }, { timeout: 300 }, { maxTotal: 300 }]) {
    const title = JSON.stringify(limit);

    it(`the error names that one, and who holds it: ${title}`, async () => {
      const [a, b, c] = [freshName('a'), freshName('b'), freshName('c')];
      const held = await hold(locks, b, { label: 'blocker' });
      const expected = { lockName: b, label: 'blocker' };
      assert.deepEqual(await blamed([a, b, c], limit), expected);
      assert.deepEqual(await blamed([a, b, c], { ...limit, mode: 'shared' }), expected);
      await held.release();
      for (const name of [a, b, c]) assert.deepEqual(await stateOf(locks, name), FREE);
    });

    it(`and not one that others share with it: ${title}`, async () => {
      const [a, b] = [freshName('a'), freshName('b')];
      const reader = await hold(locks, a, { mode: 'shared', label: 'reader' });
      const held = await hold(locks, b, { label: 'blocker' });
      const names = [{ name: a, mode: 'shared' }, b];
      assert.deepEqual(await blamed(names, limit), { lockName: b, label: 'blocker' });
      await held.release();
      await reader.release();
    });

    it(`nor one that they are inside of: ${title}`, async () => {
      const [a, b] = [freshName('a'), freshName('b')];
      const held = await hold(locks, b, { label: 'blocker' });
      const options = { ...limit, reentrant: true };
      await locks.request(a, { reentrant: true }, async () =>
        assert.deepEqual(await blamed([a, b], options), { lockName: b, label: 'blocker' }),
      );
      await held.release();
    });
  }
});

describe('locks.acquireAll', () => {
  it('resolves to the locks and a release() for all', async () => {
    const [a, b] = [freshName('a'), freshName('b')];
    const all = await locks.acquireAll([b, a]);
    assert.deepEqual(valuesOf(all.locks, 'name'), [b, a]);
    all.release();
    all.release();
    assert.deepEqual(await stateOf(locks, a), FREE);
    assert.deepEqual(await stateOf(locks, b), FREE);
    await (await locks.acquireAll([a, b]))[Symbol.asyncDispose]();
    const held = await hold(locks, a);
    assert.equal(await locks.acquireAll([b, a], { ifAvailable: true }), null);
    await held.release();
  });
});
