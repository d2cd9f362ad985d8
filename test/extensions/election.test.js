'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks, needs } = require('../helpers/scope.js');
const { deferred, freshName } = require('../helpers/locks.js');
const { run } = require('../helpers/program.js');

/** A callback of `elect` that leads until it is told to end. */
function term() {
  const elected = deferred();
  const ended = deferred();
  const lead = (leader) => {
    elected.resolve(leader);
    return ended.promise;
  };
  return { elected: elected.promise, lead, resign: ended.resolve, fail: ended.reject };
}

describe('locks.elect', () => {
  it('leads with name, token and signal, and resigns when the callback returns', async () => {
    const name = freshName();
    const { elected, lead, resign } = term();
    const done = locks.elect(name, { label: 'me' }, lead);
    const leader = await elected;
    const held = await locks.leader(name);
    assert.deepEqual([leader.name, leader.token, leader.held], [name, held.token, true]);
    assert.equal(held.label, 'me');
    assert.equal(leader.signal.aborted, false);
    resign('value');
    assert.equal(await done, 'value');
    assert.equal(leader.held, false);
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
      const done = locks.elect('x', async ({ signal }) => {
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

  it('checks its arguments; options that make no sense are refused', async () => {
    const callback = () => assert.fail('called');
    await assert.rejects(locks.elect('a'), TypeError);
    await assert.rejects(locks.elect('a', {}, 'no function'), TypeError);
    await assert.rejects(locks.leader(), TypeError);
    await assert.rejects(locks.elect('-a', callback), { name: 'NotSupportedError' });
    const refused = [{ mode: 'shared' }, { ifAvailable: true }, { steal: true }, { timeout: 1 }];
    for (const options of refused) {
      await assert.rejects(locks.elect('a', options, callback), { name: 'NotSupportedError' });
    }
  });
});
