'use strict';

/** `web-locks/cron` and `web-locks/node-cron` with the real packages; jobs run each second. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { CronJob } = require('cron');
const nodeCron = require('node-cron');
const { oncePerTick } = require('../../lib/cron.js');
const { openBucket } = require('../../lib/index.js');
const { runCoordinator } = require('../../lib/node-cron.js');

const { locks } = openBucket('cron');

/** A job that ticks when the test says so. */
const jobOf = (onTick, parameters = {}) =>
  CronJob.from({ cronTime: '0 0 3 1 1 *', onTick, waitForCompletion: true, ...parameters });

const OPTIONS = [
  [{ timeout: '30s' }, /The 'timeout' option is '30s'; expected a number of milliseconds/],
  [{ timeout: -1 }, /The 'timeout' option is -1/],
  [{ keep: 1000 }, /The option 'keep' is not supported here/],
  [7, /'options' is 7; expected an object/],
  [null, /'options' is null; expected an object/],
];

describe('web-locks/cron', () => {
  it('runs each tick in one of two jobs', async (t) => {
    /** For each tick, which jobs ran it. @type {Map<string, boolean[]>} */
    const ticks = new Map();
    let runs = 0;
    const two = new Promise((resolve) => {
      const once = async (name, options, callback) => {
        const { ran } = await locks.once(name, options, callback);
        ticks.set(name, [...(ticks.get(name) ?? []), ran]);
        const both = [...ticks.values()].filter((answers) => answers.length === 2);
        if (both.length === 2) resolve(both);
        return { ran };
      };
      const jobs = [1, 2].map(() =>
        CronJob.from({
          cronTime: '* * * * * *',
          onTick: oncePerTick({ once }, 'each second', () => runs++),
          start: true,
        }),
      );
      t.after(() => Promise.all(jobs.map((job) => job.stop())));
    });
    for (const answers of await two) assert.deepEqual(answers.sort(), [false, true]);
    assert.ok(runs > 0);
  });

  it('calls onTick as cron does, and again for another tick or another name', async () => {
    const calls = [];
    const onComplete = () => {};
    function onTick(...args) {
      calls.push([this, ...args]);
    }
    const jobs = ['a', 'a', 'b'].map((name) =>
      jobOf(oncePerTick(locks, name, onTick), { onComplete }),
    );
    for (const job of jobs) await job.fireOnTick();
    assert.deepEqual(calls, [
      [jobs[0], onComplete],
      [jobs[2], onComplete],
    ]);
    const later = jobOf(oncePerTick(locks, 'a', onTick), { cronTime: '0 0 4 1 1 *' });
    await later.fireOnTick();
    assert.equal(calls.length, 3);
  });

  it('runs a job for one date once', async () => {
    const cronTime = new Date(Date.now() - 1000);
    let runs = 0;
    const jobs = [1, 2].map(() =>
      jobOf(
        oncePerTick(locks, 'date', () => runs++),
        { cronTime },
      ),
    );
    for (const job of jobs) await job.fireOnTick();
    assert.equal(runs, 1);
  });

  it("gives the job's errorHandler the error of onTick, and its own for a context", async () => {
    const errors = [];
    const errorHandler = (error) => errors.push(error);
    const error = new Error('the job failed');
    const fails = () => {
      throw error;
    };
    await jobOf(oncePerTick(locks, 'fails', fails), { errorHandler }).fireOnTick();
    const onTick = oncePerTick(locks, 'with a context', fails);
    await jobOf(onTick, { context: {}, errorHandler }).fireOnTick();
    assert.equal(errors[0], error);
    assert.match(errors[1].message, /'this' of 'onTick' is an object; expected the CronJob/);
  });

  it('checks the lock manager, the name, the function and the options', () => {
    const refuses = (args, message) =>
      assert.throws(() => oncePerTick(...args), { name: 'TypeError', message });
    refuses([{}, 'a', () => {}], /'locks' is an object; expected a lock manager/);
    refuses([locks, 7, () => {}], /'name' is 7; expected a string/);
    refuses([locks, 'a', 'ls'], /'onTick' is 'ls'; expected a function/);
    for (const [options, message] of OPTIONS) {
      refuses([locks, 'a', () => {}, options], message);
      refuses([locks, 'a', () => {}, options], /'oncePerTick'/);
    }
  });
});

describe('web-locks/node-cron', () => {
  it('runs one of two tasks, and skips the other', async (t) => {
    const dates = [];
    const tasks = [1, 2].map(() =>
      nodeCron.schedule('* * * * * *', ({ date }) => dates.push(date.getTime()), {
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
    const ends = await Promise.all([first('execution:skipped'), first('execution:finished')]);
    assert.equal(ends[0].reason, 'not-elected');
    assert.equal(new Set(dates).size, dates.length);
  });

  it('runs each key once, until it is forgotten', async () => {
    const coordinator = runCoordinator(locks);
    const ask = () => Promise.all([1, 2].map(() => coordinator.shouldRun('task:1', 60_000)));
    assert.deepEqual(await ask(), [true, false]);
    assert.equal(await coordinator.shouldRun('task:2', 60_000), true);
  });

  it('checks the lock manager and the options', () => {
    const expected = { name: 'TypeError', message: /an object.*bucket\.locks/ };
    assert.throws(() => runCoordinator({}), expected);
    for (const [options, message] of OPTIONS) {
      assert.throws(() => runCoordinator(locks, options), { name: 'TypeError', message });
    }
    for (const options of [{}, { timeout: undefined }]) runCoordinator(locks, options);
  });
});
