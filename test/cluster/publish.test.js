'use strict';

/** `backend.publish` in a cluster: what holders publish with their locks. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { NOT_HELD, PUBLISHED, busy, failed, granted } = require('../../lib/cluster/adapter.js');
const { NO_TAG } = require('../../lib/backend/contract.js');
const { dataOf } = require('../../lib/backend/details.js');
const { valuesOf } = require('../helpers/locks.js');
const { Scripted, dead, renewal, settling } = require('./scripted.js');
const { Cluster, TTL } = require('./setup.js');
const { settle } = require('./world.js');

/** A session that holds a lock, and publishes. */
async function holder(can = {}) {
  const stage = await new Scripted({}, { data: true, ...can }).open();
  const lock = stage.ask({ owner: 'holder' });
  await stage.answer('step', [granted(1n)]);
  stage.news();
  const publish = (text) => settling(stage.session.publish(lock, text));
  return { stage, lock, publish };
}

/** What the next step publishes, and how to answer it. */
async function publishing(stage) {
  const { args, answer, fail } = await stage.take('step');
  const [ops, number] = args;
  const say = async (settleIt, value) => {
    settleIt(value);
    await settle();
  };
  return {
    number,
    texts: ops.filter(({ kind }) => kind === 'publish').map(({ data }) => data),
    answer: (...answers) => say(answer, answers),
    fail: (code) => say(fail, Object.assign(new Error(code), { code })),
  };
}

const nothing = async (stage) => {
  await settle();
  assert.deepEqual(
    stage.calls.map(({ call }) => call),
    [],
  );
};

// One at a time.

test('a text is published with the next step, and is so when that is answered', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  const step = await publishing(stage);
  assert.deepEqual(step.texts, ['1']);
  assert.equal(first.isSettled, false);
  await step.answer(PUBLISHED);
  assert.equal(first.value, true);
});

test('texts that are replaced before they are sent have the outcome of the last one', async () => {
  const { stage, publish } = await holder();
  const all = [publish('1'), publish('2'), publish('3')];
  const step = await publishing(stage);
  assert.deepEqual(step.texts, ['3']);
  await step.answer(PUBLISHED);
  assert.deepEqual(valuesOf(all, 'value'), [true, true, true]);
  await nothing(stage);
});

test('while one is under way only the last of those that come waits, with many steps, too', async () => {
  const { stage, publish } = await holder({ window: 3 });
  const first = publish('1');
  const one = await publishing(stage);
  const [second, third] = [publish('2'), publish('3')];
  await nothing(stage);
  await one.answer(PUBLISHED);
  assert.deepEqual([first.value, second.isSettled, third.isSettled], [true, false, false]);
  const two = await publishing(stage);
  assert.deepEqual(two.texts, ['3']);
  await two.answer(PUBLISHED);
  assert.deepEqual([second.value, third.value], [true, true]);
});

test('an answer that is lost is asked for again, before the text that waits', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  const lost = await publishing(stage);
  const second = publish('2');
  await stage.reconnect([[1, 1n]]);
  const again = await publishing(stage);
  assert.deepEqual([again.number, again.texts], [lost.number, ['1']]);
  await again.answer(PUBLISHED);
  const next = await publishing(stage);
  assert.deepEqual(next.texts, ['2']);
  await next.answer(PUBLISHED);
  assert.deepEqual([first.value, second.value], [true, true]);
});

test('a text that the server has missed is replaced by the newer one', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  await publishing(stage);
  await stage.reconnect([[1, 1n]], { step: 1 });
  const second = publish('2');
  const step = await publishing(stage);
  assert.deepEqual(step.texts, ['1']);
  await step.answer(PUBLISHED);
  await (await publishing(stage)).answer(PUBLISHED);
  assert.deepEqual([first.value, second.value], [true, true]);
});

test('a text that waits for a transaction of a user is replaced, and sent again', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  await (await publishing(stage)).answer(busy());
  const second = publish('2');
  await nothing(stage);
  await stage.world.advance(600);
  const step = await publishing(stage);
  assert.deepEqual(step.texts, ['2']);
  await step.answer(PUBLISHED);
  assert.deepEqual([first.value, second.value], [true, true]);
});

// The end of the lock.

test('a lock that is stolen while a text is under way has published nothing', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  const step = await publishing(stage);
  const second = publish('2');
  stage.adapter.events.stolen(1, 'thief');
  await step.answer(NOT_HELD);
  assert.deepEqual([first.value, second.value], [false, false]);
  assert.deepEqual(stage.news(), [['stolen', 'holder', 'thief']]);
  await nothing(stage);
});

test('a theft that only the publication finds is told as one', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  await (await publishing(stage)).answer(NOT_HELD);
  assert.equal(first.isSettled, false);
  await stage.answer('renew', renewal([], { stolen: new Map([[1, 'thief']]) }));
  assert.equal(first.value, false);
  assert.deepEqual(stage.news(), [['stolen', 'holder', 'thief']]);
});

test('a loss that only the publication finds is told as one', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  await (await publishing(stage)).answer(NOT_HELD);
  await stage.answer('renew', renewal());
  assert.equal(first.value, false);
  assert.deepEqual(stage.news(), [['lost', 'holder', 'failover']]);
});

test('a lock that the server has after all is published with again', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  await (await publishing(stage)).answer(NOT_HELD);
  const second = publish('2');
  await stage.answer('renew', renewal([[1, 1n]]));
  const step = await publishing(stage);
  assert.deepEqual(step.texts, ['2']);
  await step.answer(PUBLISHED);
  assert.deepEqual([first.value, second.value], [true, true]);
});

test('a session that is lost publishes nothing, and the next one neither', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  await publishing(stage);
  const second = publish('2');
  await stage.world.advance(TTL);
  assert.deepEqual([first.value, second.value], [false, false]);
  stage.calls = stage.calls.filter(({ call }) => call === 'open');
  await stage.reopen();
  await nothing(stage);
});

test('a session that is dead publishes nothing', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  await stage.fail('step', dead());
  assert.equal(first.value, false);
});

test('a bucket that is closed publishes nothing', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  stage.session.close();
  await settle();
  assert.equal(first.value, false);
});

test('a text that is under way when its lock is released has its own outcome, a later one none', async () => {
  const { stage, lock, publish } = await holder();
  const first = publish('1');
  const step = await publishing(stage);
  const second = publish('2');
  stage.session.end(lock);
  await step.answer(PUBLISHED);
  const ending = await stage.step();
  assert.deepEqual(ending.ops, ['end 1']);
  assert.deepEqual([first.value, second.isSettled], [true, false]);
  await ending.answer({ code: 'ended' });
  assert.equal(second.value, false);
});

// Refusals.

for (const [how, answer] of [
  ['refuses the operation', (step) => step.answer(failed(new Error('no')))],
  ['refuses the step', (step) => step.fail('REFUSED')],
]) {
  test(`a server that ${how} is told as an error, and the next text is sent`, async () => {
    const { stage, publish } = await holder();
    const first = publish('1');
    const step = await publishing(stage);
    const second = publish('2');
    await answer(step);
    assert.match(first.error.message, /no|REFUSED/);
    await (await publishing(stage)).answer(PUBLISHED);
    assert.equal(second.value, true);
  });
}

test('a server that does not do the publication does the requests beside it', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  stage.ask({ owner: 'other', name: 'b' });
  await (await stage.step()).fail('REFUSED');
  assert.deepEqual(
    (
      await stage.step().then(async (step) => {
        await step.fail('REFUSED');
        return step;
      })
    ).ops,
    ['publish 1'],
  );
  assert.equal(first.error.code, 'REFUSED');
  const rest = await stage.step();
  assert.deepEqual(rest.ops, ['request 2']);
});

// A server that has lost what it had.

test('what a server of another life may not know is published again', async () => {
  const { stage, publish } = await holder();
  const first = publish('1');
  await (await publishing(stage)).answer(PUBLISHED);
  assert.equal(first.value, true);
  await stage.reconnect([[1, 1n]], { life: 'another' });
  const step = await publishing(stage);
  assert.deepEqual(step.texts, ['1']);
  const second = publish('2');
  await step.answer(PUBLISHED);
  await (await publishing(stage)).answer(PUBLISHED);
  assert.equal(second.value, true);
  await nothing(stage);
});

test('what is published again need not be told to anybody when the server refuses it', async () => {
  const { stage, publish } = await holder();
  publish('1');
  await (await publishing(stage)).answer(PUBLISHED);
  await stage.reconnect([[1, 1n]], { life: 'another' });
  await (await publishing(stage)).answer(failed(new Error('no')));
  await nothing(stage);
});

// The process.

test('a publication keeps the event loop alive until it is answered', async () => {
  const { stage, publish } = await holder();
  assert.equal(stage.machine.refs, 0);
  publish('1');
  assert.equal(stage.machine.refs, 1);
  await (await publishing(stage)).answer(PUBLISHED);
  assert.equal(stage.machine.refs, 0);
});

// The backend.

/** A request of the backend itself, which is granted. */
async function held(cluster, client, name) {
  const lock = {
    ...{ name, mode: 'exclusive', disposition: 'wait', tag: NO_TAG, news: [] },
    granted: () => lock.news.push('granted'),
    stolen: () => lock.news.push('stolen'),
    lost: (reason) => lock.news.push(reason),
    announceAnswer: () => {},
    announceLoss: () => {},
    isDelivered: true,
  };
  client.backend.request(lock);
  await cluster.world.until(() => lock.news.length > 0);
  return lock;
}

async function outcomeOf(cluster, promise) {
  const outcome = settling(Promise.resolve(promise));
  await cluster.world.until(() => outcome.isSettled);
  return outcome.value;
}

const detailsOf = (cluster, client) => outcomeOf(cluster, client.backend.details());

test('details tell the value of what was published, and have no data without it', async () => {
  const cluster = new Cluster();
  const [one, two] = [await cluster.client(), await cluster.client()];
  const lock = await held(cluster, one, 'a');
  assert.equal('data' in (await detailsOf(cluster, two)).held[0], false);
  assert.equal(await outcomeOf(cluster, one.backend.publish(lock, '{"done":[1]}')), true);
  const waiting = cluster.request(two, 'a');
  const { held: all, pending } = await detailsOf(cluster, two);
  assert.deepEqual(all[0].data, { done: [1] });
  assert.deepEqual(pending[0].blockedBy, all);
  assert.equal('data' in pending[0], false);
  assert.deepEqual((await outcomeOf(cluster, two.backend.askHolders('a')))[0].data, { done: [1] });
  assert.equal(await outcomeOf(cluster, one.backend.publish(lock, undefined)), true);
  assert.equal('data' in (await detailsOf(cluster, two)).held[0], false);
  one.backend.release(lock);
  await cluster.world.until(() => waiting.lock);
  await cluster.release(waiting);
  await cluster.close();
});

test('what is no JSON is not told, and null is', async () => {
  assert.equal(dataOf('{'), undefined);
  assert.equal(dataOf(''), undefined);
  assert.equal(dataOf('null'), null);
  const cluster = new Cluster();
  const client = await cluster.client();
  const lock = await held(cluster, client, 'a');
  await outcomeOf(cluster, client.backend.publish(lock, '{'));
  assert.equal('data' in (await detailsOf(cluster, client)).held[0], false);
  await outcomeOf(cluster, client.backend.publish(lock, 'null'));
  assert.equal((await detailsOf(cluster, client)).held[0].data, null);
  await cluster.close();
});

test('a lock that was released, stolen, or whose lease has ended publishes nothing', async () => {
  const cluster = new Cluster();
  const client = await cluster.client();
  const [released, stolen, expired] = [
    await held(cluster, client, 'a'),
    await held(cluster, client, 'b'),
    await held(cluster, client, 'c'),
  ];
  client.backend.release(released);
  assert.equal(client.backend.publish(released, '1'), false);
  const thief = await cluster.hold(await cluster.client(), 'b', { steal: true });
  await cluster.world.until(() => stolen.news.includes('stolen'));
  assert.equal(client.backend.publish(stolen, '1'), false);
  client.machine.stop();
  await cluster.world.advance(2 * TTL);
  client.machine.isStopped = false;
  assert.equal(client.backend.publish(expired, '1'), false);
  assert.deepEqual(expired.news, ['granted', 'expired']);
  client.machine.resume();
  await cluster.release(thief);
  await cluster.close();
});

test('the data of a lock ends with it', async () => {
  const cluster = new Cluster();
  const client = await cluster.client();
  const lock = await held(cluster, client, 'a');
  client.backend.publish(lock, '1');
  client.backend.release(lock);
  const next = await held(cluster, client, 'a');
  assert.equal('data' in (await detailsOf(cluster, client)).held[0], false);
  client.backend.release(next);
  await cluster.close();
});

test('an adapter that cannot publish has a backend without `publish`', async () => {
  const cluster = new Cluster();
  const wrap = (adapter) => {
    adapter.can = { ...adapter.can, data: false };
    return adapter;
  };
  const client = await cluster.client({ wrap });
  assert.equal(client.backend.publish, undefined);
  await cluster.close();
});

test('a query that overtakes a publication tells what the server has', async () => {
  const { stage, publish } = await holder();
  stage.ask({ owner: 'other', name: 'b' });
  const step = await stage.step();
  const first = publish('1');
  const query = settling(stage.session.query());
  await stage.world.advance(TTL / 4);
  const entry = { ref: 1, name: 'a', clientId: 'me', token: 1n };
  await step.answer(granted(2n));
  await stage.answer('query', [entry]);
  assert.deepEqual(query.value, [entry]);
  assert.equal(first.isSettled, false);
});
