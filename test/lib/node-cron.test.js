'use strict';

/** `web-locks/node-cron` with the real node-cron, whose tasks run each second. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const cron = require('node-cron');
const { locks } = require('../../lib/index.js');
const { runCoordinator } = require('../../lib/node-cron.js');

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
});
