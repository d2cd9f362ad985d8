'use strict';

/** `web-locks/node-cron` with the real node-cron, whose tasks run each second. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const cron = require('node-cron');
const { locks } = require('../../lib/index.js');
const { runCoordinator } = require('../../lib/node-cron.js');

const OPTIONS = [
  [{ timeout: '30s' }, /The 'timeout' option is '30s'; expected a number of milliseconds/],
  [{ timeout: -1 }, /The 'timeout' option is -1/],
  [{ keep: 1000 }, /The option 'keep' is not supported here/],
  [7, /'options' is 7; expected an object/],
  [null, /'options' is null; expected an object/],
];

describe('web-locks/node-cron', () => {
  it('has one of two tasks run, and skips the other', async (t) => {
    const dates = [];
    const tasks = [1, 2].map(() =>
      cron.schedule('* * * * * *', ({ date }) => dates.push(date.getTime()), {
        name: 'each second',
        distributed: true,
        runCoordinator: runCoordinator(locks),
        suppressMissedWarning: true,
      }),
    );
    t.after(() => tasks.map((task) => task.destroy()));
    const first = (event) =>
      new Promise((resolve) => {
        for (const task of tasks) task.on(event, resolve);
      });
    const [{ reason }] = await Promise.all([
      first('execution:skipped'),
      first('execution:finished'),
    ]);
    assert.equal(reason, 'not-elected');
    assert.equal(new Set(dates).size, dates.length);
  });

  it('runs each key once, until it is forgotten', async () => {
    const coordinator = runCoordinator(locks);
    const ask = () => Promise.all([1, 2].map(() => coordinator.shouldRun('task:1', 60_000)));
    assert.deepEqual(await ask(), [true, false]);
    assert.equal(await coordinator.shouldRun('task:2', 60_000), true);
  });

  it('takes a lock manager only', () => {
    const expected = { name: 'TypeError', message: /an object.*bucket\.locks/ };
    assert.throws(() => runCoordinator({}), expected);
  });

  it('refuses options when it is made', () => {
    for (const [options, message] of OPTIONS) {
      assert.throws(() => runCoordinator(locks, options), { name: 'TypeError', message });
    }
    runCoordinator(locks, {});
    runCoordinator(locks, { timeout: undefined });
  });
});
