'use strict';

/** locks.elect and leader. programs.test.js tests the outcomes of leaders. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks, needs } = require('../helpers/scope.js');
const { freshName, notCalled } = require('../helpers/locks.js');
const { run } = require('../helpers/program.js');

describe('locks.elect', () => {
  it('leads with name, token and signal, like leader(), until the callback returns', async () => {
    const name = freshName();
    const seen = await locks.elect(name, { label: 'me' }, async (leader) => {
      const found = await locks.leader(name);
      assert.deepEqual([leader.name, leader.token, leader.held], [name, found.token, true]);
      assert.deepEqual([found.label, leader.signal.aborted], ['me', false]);
      return leader;
    });
    assert.equal(seen.held, false);
    assert.equal(await locks.leader(name), null);
  });

  it(
    'pauses twice as long after each loss, up to 10 s, and as at first after a long term',
    needs('entry'),
    async () => {
      const before = `
      const timers = require('node:timers');
      const { performance } = require('node:perf_hooks');
      let clock = 1;
      performance.now = () => clock;
      Math.random = () => 1;
      const { setTimeout } = timers;
      const pauses = [];
      timers.setTimeout = (then, milliseconds) => {
        if (milliseconds > 0) pauses.push(milliseconds);
        return setTimeout(then, 0);
      };`;
      const { value } = await run(
        `
      const terms = [...Array(13)].map(deferred);
      let term = 0;
      const options = { signal: new AbortController().signal };
      const done = locks.elect('x', options, async ({ signal }) => {
        const number = term++;
        terms[number].resolve();
        if (number < 12) await once(signal, 'abort');
      });
      const LONG = 10_001;
      const led = [0, 0, 0, LONG, 0, 0, 0, 0, 0, 0, 0, 10_000];
      for (let i = 0; i < led.length; i++) {
        await terms[i].promise;
        clock += led[i];
        await locks.request('x', { steal: true }, () => {});
      }
      await done;
      return pauses;`,
        { before },
      );
      const first = [100, 200, 400];
      assert.deepEqual(value, [...first, ...first, 800, 1600, 3200, 6400, 10_000, 10_000]);
    },
  );

  it('checks its arguments', async () => {
    await assert.rejects(locks.elect('a'), TypeError);
    await assert.rejects(locks.elect('a', {}, 'no function'), TypeError);
    await assert.rejects(locks.leader(), TypeError);
    await assert.rejects(locks.elect('-a', notCalled), { name: 'NotSupportedError' });
  });
});
