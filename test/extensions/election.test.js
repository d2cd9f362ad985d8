'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LockStolenError, locks, needs, openBucket } = require('../helpers/scope.js');
const { FREE, deferred, freshName, hold, stateOf } = require('../helpers/locks.js');
const { run } = require('../helpers/program.js');
const { RemoteAgent } = require('../helpers/remote.js');

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

const steal = (name) => locks.request(name, { steal: true }, () => {});

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

  it('one leads at a time, in the order in which they stand', async (t) => {
    const name = freshName();
    const remote = await RemoteAgent.start(t);
    const there = await remote.hold(name);
    const { elected, lead, resign } = term();
    const done = locks.elect(name, lead);
    const { pid, threadId } = await locks.leader(name);
    assert.deepEqual([pid, threadId], [remote.pid, remote.threadId]);
    there.release();
    assert.ok((await elected).held);
    resign();
    await done;
  });

  it('what the callback throws rejects, and it resigns', async () => {
    const name = freshName();
    const failure = new Error('mine');
    await assert.rejects(
      locks.elect(name, () => {
        throw failure;
      }),
      failure,
    );
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('a leader that loses it is told by the signal, ends, and stands again', async () => {
    const name = freshName();
    const leaders = [];
    const first = deferred();
    const done = locks.elect(name, (leader) => {
      leaders.push(leader);
      if (leaders.length > 1) return 'second';
      first.resolve();
      return new Promise((_, reject) => {
        leader.signal.addEventListener('abort', () => reject(leader.signal.reason));
      });
    });
    await first.promise;
    await steal(name);
    assert.equal(await done, 'second');
    assert.ok(leaders[0].signal.reason instanceof LockStolenError);
    assert.ok(leaders[1].token > leaders[0].token);
    assert.equal(leaders[1].signal.aborted, false);
  });

  it('does not stand again before the callback that lost has ended', async () => {
    const name = freshName();
    const terms = [term(), term()];
    let elections = 0;
    const done = locks.elect(name, (leader) => terms[elections++].lead(leader));
    const leader = await terms[0].elected;
    await steal(name);
    assert.equal(leader.signal.aborted, true);
    // Another one, whose callback ends at once, stands again twice meanwhile: after longer pauses.
    const other = freshName();
    let elsewhere = 0;
    await locks.elect(other, async () => {
      if (++elsewhere <= 2) await steal(other);
    });
    assert.deepEqual([elections, await stateOf(locks, name)], [1, FREE]);
    terms[0].resign('nobody hears it');
    await terms[1].elected;
    terms[1].resign('value');
    assert.equal(await done, 'value');
  });

  it('a failure that is not the loss rejects, also after the loss', async () => {
    const name = freshName();
    const { elected, lead, fail } = term();
    const done = locks.elect(name, lead);
    await elected;
    await steal(name);
    const failure = new Error('mine');
    fail(failure);
    await assert.rejects(done, failure);
  });

  it('its signal ends the wait', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const controller = new AbortController();
    const done = locks.elect(name, { signal: controller.signal }, () => assert.fail('elected'));
    controller.abort(new Error('enough'));
    await assert.rejects(done, { message: 'enough' });
    await held.release();
  });

  it('its signal is heard by who leads, and ends the pause after a loss', async () => {
    const name = freshName();
    const controller = new AbortController();
    const { signal } = controller;
    const { elected, lead, resign } = term();
    const done = locks.elect(name, { signal }, lead);
    const leader = await elected;
    await steal(name);
    resign();
    controller.abort(new Error('enough'));
    await assert.rejects(done, { message: 'enough' });
    assert.ok(leader.signal.aborted);

    const other = term();
    const later = new AbortController();
    const served = locks.elect(name, { signal: later.signal }, other.lead);
    const second = await other.elected;
    later.abort(new Error('resign'));
    assert.equal(second.signal.reason.message, 'resign');
    other.resign('resigned');
    assert.equal(await served, 'resigned');
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

  it('closing the bucket ends it', async () => {
    const bucket = openBucket(freshName('bucket'));
    const { elected, lead, resign } = term();
    const done = bucket.locks.elect('a', lead);
    await elected;
    await bucket.close();
    resign();
    await assert.rejects(done, { name: 'InvalidStateError' });
  });

  it('a leader with a signal of the election hears of a loss by its own', async () => {
    const name = freshName();
    const controller = new AbortController();
    const elected = deferred();
    const lost = deferred();
    const done = locks.elect(name, { signal: controller.signal }, ({ signal }) => {
      signal.addEventListener('abort', () => lost.resolve(signal.reason));
      elected.resolve();
      return lost.promise;
    });
    await elected.promise;
    await steal(name);
    assert.ok((await lost.promise) instanceof LockStolenError);
    controller.abort();
    await assert.rejects(done, { name: 'AbortError' });
  });

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
