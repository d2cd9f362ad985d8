'use strict';

/**
 * Tests what a session does with the texts that a holder publishes. model.test.js tests that a text
 * never replaces a newer one, whatever gets lost.
 */

const assert = require('node:assert/strict');
const { afterEach, beforeEach, test } = require('node:test');
const { NOT_HELD, PUBLISHED, failed, granted } = require('../../lib/cluster/adapter.js');
const { dataOf } = require('../../lib/backend/details.js');
const { Scripted, renewal, settling } = require('./scripted.js');
const { Cluster, TTL } = require('./setup.js');
const { settle } = require('../world/world.js');

/** A session that holds `lock`. */
let stage;
let lock;
beforeEach(async () => {
  stage = await new Scripted({}, { data: true }).open();
  lock = stage.ask({ owner: 'holder' });
  await stage.answer('step', [granted(1n)]);
  stage.news();
});
afterEach(async () => {
  await stage.end();
  assert.ok(published.every(({ isSettled }) => isSettled));
  published.length = 0;
});

/** The outcomes of all publications of a test. */
const published = [];
function publish(text) {
  published.push(settling(stage.session.publish(lock, text)));
  return published.at(-1);
}

/** Returns the text that the next step publishes, and functions that answer it. */
async function publishing() {
  const { args, answer, fail } = await stage.take('step');
  const say = async (settleIt, value) => {
    settleIt(value);
    await settle();
  };
  return {
    texts: args[0].map(({ data }) => data),
    answer: (value) => say(answer, [value]),
    fail: (code) => say(fail, Object.assign(new Error(code), { code })),
  };
}

async function assertNothingIsSent() {
  await settle();
  assert.deepEqual(stage.calls, []);
}

test('only the last of the texts that wait is sent, and its outcome is that of all', async () => {
  const first = publish('1');
  const one = await publishing();
  const [second, third] = [publish('2'), publish('3')];
  await assertNothingIsSent();
  assert.deepEqual([one.texts, first.isSettled], [['1'], false]);
  await one.answer(PUBLISHED);
  assert.deepEqual([first.value, second.isSettled, third.isSettled], [true, false, false]);
  const two = await publishing();
  assert.deepEqual(two.texts, ['3']);
  await two.answer(PUBLISHED);
  assert.deepEqual([second.value, third.value], [true, true]);
});

for (const [what, told, outcome, news] of [
  ['stolen', renewal([], { stolen: new Map([[1, 'thief']]) }), false, ['stolen', 'thief']],
  ['lost', renewal(), false, ['lost', 'failover']],
  ['held after all', renewal([[1, 1n]]), true],
]) {
  test(`a renewal says why a text was not published: the lock is ${what}`, async () => {
    const first = publish('1');
    await (await publishing()).answer(NOT_HELD);
    const second = publish('2');
    assert.equal(first.isSettled, false);
    await stage.answer('renew', told);
    if (outcome) {
      const again = await publishing();
      assert.deepEqual(again.texts, ['2']);
      await again.answer(PUBLISHED);
    }
    assert.deepEqual([first.value, second.value], [outcome, outcome]);
    const all = stage.news().map(([kind, , detail]) => [kind, detail]);
    assert.deepEqual(all, news ? [news] : []);
    await assertNothingIsSent();
  });
}

/** Events that end a lock while one text is under way and another one waits. */
const ENDS = {
  'the end of its session': (step) => step.fail('DEAD'),
  'the end of its lease': () => stage.world.advance(TTL),
  'a theft': (step) => {
    stage.adapter.events.stolen(1, 'thief');
    return step.answer(NOT_HELD);
  },
  'the end of its bucket': () => {
    stage.session.close();
  },
};
for (const [what, endLock] of Object.entries(ENDS)) {
  test(`${what} leaves the texts of a lock unpublished`, async () => {
    const first = publish('1');
    const step = await publishing();
    const second = publish('2');
    await endLock(step);
    await settle();
    assert.deepEqual([first.value, second.value], [false, false]);
  });
}

test('a text under way at the release of its lock has its outcome, a later one none', async () => {
  const first = publish('1');
  const step = await publishing();
  const second = publish('2');
  stage.session.end(lock);
  await step.answer(PUBLISHED);
  const ending = await stage.step();
  assert.deepEqual(ending.ops, ['end 1']);
  assert.deepEqual([first.value, second.isSettled], [true, false]);
  await ending.answer({ code: 'ended' });
  assert.equal(second.value, false);
});

for (const [what, refuse] of [
  ['the operation', (step) => step.answer(failed(new Error('REFUSED')))],
  ['the step', (step) => step.fail('REFUSED')],
]) {
  test(`a text is rejected if the server refuses ${what}, and the next one is sent`, async () => {
    const first = publish('1');
    const step = await publishing();
    const second = publish('2');
    await refuse(step);
    assert.equal(first.error.message, 'REFUSED');
    await (await publishing()).answer(PUBLISHED);
    assert.equal(second.value, true);
  });
}

test('a text that a new epoch may lack is published again, refused or not', async () => {
  publish('1');
  await (await publishing()).answer(PUBLISHED);
  for (const [life, answer] of [
    ['second', PUBLISHED],
    ['third', failed(new Error('no'))],
  ]) {
    await stage.reconnect([[1, 1n]], { life });
    const step = await publishing();
    assert.deepEqual(step.texts, ['1']);
    await step.answer(answer);
    await assertNothingIsSent();
  }
});

test('a text keeps the event loop alive until it is answered', async () => {
  assert.equal(stage.machine.refs, 0);
  publish('1');
  assert.equal(stage.machine.refs, 1);
  await (await publishing()).answer(PUBLISHED);
  assert.equal(stage.machine.refs, 0);
});

test('a backend whose adapter cannot publish has no `publish`', async () => {
  const cluster = new Cluster();
  const wrap = (adapter) => Object.assign(adapter, { can: { ...adapter.can, data: false } });
  const client = await cluster.client({ wrap });
  assert.equal(client.backend.publish, undefined);
  await cluster.close();
});

test('data that another program has written has a value only if it is JSON', () => {
  assert.deepEqual(['{', '', 'null'].map(dataOf), [undefined, undefined, null]);
});
