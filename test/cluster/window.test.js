'use strict';

/** Several steps of a session under way (R1, R3), with answers in whatever order. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { ENDED, QUEUED, busy, granted } = require('../../lib/cluster/adapter.js');
const { valuesOf } = require('../helpers/locks.js');
const { Scripted, renewal } = require('./scripted.js');
const { TTL } = require('./setup.js');
const { settle } = require('./world.js');

/** A session that takes so many steps at once. */
const open = (window, answers) => new Scripted(answers, { window }).open();

/** Requests that are made one after the other, in turns of their own, and the steps of them. */
async function steps(stage, ...requests) {
  const all = [];
  for (const request of requests) {
    stage.ask(...[request].flat());
    all.push(await stage.step());
  }
  return all;
}

/** No step is to be sent now. */
async function rests(stage) {
  await settle();
  assert.deepEqual(
    stage.calls.filter(({ call }) => call === 'step').map(({ args }) => args[1]),
    [],
  );
}

test('as many steps are under way as the adapter takes, each after the one before it', async () => {
  const stage = await open(3);
  const [one, two, three] = await steps(stage, { owner: 1 }, { owner: 2 }, { owner: 3 });
  assert.deepEqual([one.before, two.before, three.before], [0, one.number, two.number]);
  stage.ask({ owner: 4 });
  await rests(stage);
  await one.answer(granted(1n));
  const four = await stage.step();
  assert.deepEqual([four.ops, four.before], [['request 4'], three.number]);
});

test('an adapter that does not say how many takes one', async () => {
  const stage = await open(undefined);
  const [one] = await steps(stage, { owner: 1 });
  stage.ask({ owner: 2 });
  await rests(stage);
  await one.answer(granted(1n));
  assert.equal((await stage.step()).before, 0);
});

test('what is asked in one turn of the event loop is one step, also beside another one', async () => {
  const stage = await open(3);
  await steps(stage, { owner: 1 });
  for (const owner of [2, 3, 4]) stage.ask({ owner });
  assert.deepEqual((await stage.step()).ops, ['request 2', 'request 3', 'request 4']);
});

test('answers that come in another order are heard in the order of the steps', async () => {
  const stage = await open(3);
  const [one, two, three] = await steps(stage, { owner: 1 }, { owner: 2 }, { owner: 3 });
  await three.answer(granted(3n));
  await two.answer(granted(2n));
  assert.deepEqual(stage.news(), []);
  await one.answer(granted(1n));
  assert.deepEqual(stage.news(), [
    ['granted', 1, 1n],
    ['granted', 2, 2n],
    ['granted', 3, 3n],
  ]);
});

test('R1: steps under way come again as they were, by a new connection, in their order', async () => {
  const stage = await open(3);
  const sent = await steps(stage, { owner: 1 }, { owner: 2 }, { owner: 3 });
  await sent[0].answer(granted(1n));
  stage.news();
  await stage.reconnect([[1, 1n]]);
  const again = [await stage.step(), await stage.step()];
  const numbers = (all) => all.map(({ number, ops }) => [number, ops]);
  assert.deepEqual(numbers(again), numbers(sent.slice(1)));
  // The first of them comes after one that is answered.
  assert.deepEqual(valuesOf(again, 'before'), [0, sent[1].number]);
  await again[0].answer(granted(2n));
  await again[1].answer(granted(3n));
  assert.deepEqual(stage.news(), [
    ['granted', 2, 2n],
    ['granted', 3, 3n],
  ]);
});

test('R1: an answer that came before that of an earlier step is not counted on by the next connection', async () => {
  const stage = await open(2);
  const [, two] = await steps(stage, { owner: 1 }, { owner: 2 });
  await two.answer(granted(2n));
  await stage.reconnect();
  const again = [await stage.step(), await stage.step()];
  await again[0].answer(granted(1n));
  assert.deepEqual(stage.news(), [['granted', 1, 1n]]);
  await again[1].answer(granted(2n));
  assert.deepEqual(stage.news(), [['granted', 2, 2n]]);
});

test('R1: a theft in any step that is under way is not done again in the next session', async () => {
  const stage = await open(3);
  const requests = [{ owner: 1 }, { owner: 'thief', kind: 'steal' }, { owner: 3 }];
  const [, , three] = await steps(stage, ...requests);
  stage.ask({ owner: 4, kind: 'steal' });
  await three.fail('DEAD');
  await stage.reopen();
  const next = await stage.step();
  assert.deepEqual([next.number, next.before], [1, 0]);
  assert.deepEqual(next.ops, ['request 5', 'request 6', 'steal 7']);
  assert.deepEqual(stage.news(), [['failed', 'thief']]);
});

test('R1: what is behind a step that found the session dead was not done, either', async () => {
  const stage = await open(3);
  const [one] = await steps(stage, { owner: 1 }, { owner: 'thief', kind: 'steal' });
  await one.fail('DEAD');
  await stage.reopen();
  assert.deepEqual((await stage.step()).ops, ['request 3', 'steal 4']);
  assert.deepEqual(stage.news(), []);
});

test('a grant that a later step has made is heard before the answer of the request, and once', async () => {
  const stage = await open(3);
  const held = stage.ask({ owner: 'held' });
  await (await stage.step()).answer(granted(1n));
  const [asking] = await steps(stage, { owner: 'next' });
  stage.session.end(held);
  const ending = await stage.step();
  stage.news();
  stage.adapter.events.granted(2, 2n);
  assert.deepEqual(stage.news(), [['granted', 'next', 2n]]);
  await asking.answer(QUEUED);
  await ending.answer(ENDED);
  assert.deepEqual(stage.news(), []);
  assert.equal((await renewed(stage, [[2, 2n]])).length, 0);
});

test('a theft that a later step has done is told after the grant of an earlier one', async () => {
  const stage = await open(3);
  const [first, second] = await steps(
    stage,
    { owner: 'robbed', kind: 'steal' },
    { owner: 'thief', kind: 'steal' },
  );
  stage.adapter.events.stolen(1, 'me');
  await second.answer(granted(2n));
  assert.deepEqual(stage.news(), []);
  await first.answer(granted(1n));
  assert.deepEqual(stage.news(), [
    ['granted', 'robbed', 1n],
    ['stolen', 'robbed', 'me'],
    ['granted', 'thief', 2n],
  ]);
});

test('a renewal that is answered while steps are under way takes nothing of theirs away', async () => {
  const stage = await open(3);
  const [one, two] = await steps(stage, { owner: 1 }, { owner: 2, name: 'b' });
  stage.adapter.events.changed();
  const renew = await stage.take('renew');
  await one.answer(granted(1n));
  renew.answer(renewal());
  await settle();
  await two.answer(granted(2n));
  assert.deepEqual(stage.news(), [
    ['granted', 1, 1n],
    ['granted', 2, 2n],
  ]);
  await rests(stage);
});

test('a request under way that is taken back is ended by the next step', async () => {
  const stage = await open(2);
  const place = stage.ask({ owner: 1 });
  const asking = await stage.step();
  stage.session.end(place);
  const ending = await stage.step();
  assert.deepEqual([ending.ops, ending.before], [['end 1'], asking.number]);
  await asking.answer(granted(1n));
  await ending.answer(ENDED);
  assert.deepEqual(stage.news(), []);
});

test('R3: what was sent behind a step that is refused is sent in other steps, behind its halves', async () => {
  const stage = await open(4);
  const [one, bad, three] = await steps(
    stage,
    { owner: 1 },
    [
      { owner: 2, name: 'b', group: 7 },
      { owner: 3, name: 'c', group: 7 },
    ],
    { owner: 4, name: 'd' },
  );
  await bad.fail('REFUSED');
  await three.fail('EARLY');
  assert.equal(stage.session.state, 'open');
  assert.deepEqual(stage.news(), [
    ['failed', 2],
    ['failed', 3],
  ]);
  const next = await stage.step();
  assert.deepEqual([next.ops, next.before], [['request 4'], one.number]);
  assert.ok(next.number > three.number);
});

test('R3: a step that is refused is halved, and what is behind it fails with none of it', async () => {
  const stage = await open(4);
  for (const owner of [1, 2]) stage.ask({ owner });
  const both = await stage.step();
  const [behind] = await steps(stage, { owner: 3 });
  await both.fail('REFUSED');
  await behind.fail('EARLY');
  const parts = [await stage.step(), await stage.step(), await stage.step()];
  assert.deepEqual(valuesOf(parts, 'ops', 'before'), [
    [['request 1'], 0],
    [['request 2'], parts[0].number],
    [['request 3'], parts[1].number],
  ]);
  await parts[0].answer(granted(1n));
  await parts[1].fail('REFUSED');
  await parts[2].fail('EARLY');
  const rest = await stage.step();
  assert.deepEqual([rest.ops, rest.before], [['request 3'], 0]);
  await rest.answer(granted(3n));
  assert.deepEqual(stage.news(), [
    ['granted', 1, 1n],
    ['failed', 2],
    ['granted', 3, 3n],
  ]);
});

test('R1: no number is further from that of a step under way than the server remembers', async () => {
  const stage = await open(3);
  const [one, two, three] = await steps(stage, { owner: 1 }, { owner: 2 }, { owner: 3 });
  await two.fail('REFUSED');
  await three.fail('EARLY');
  await rests(stage);
  await one.answer(granted(1n));
  const next = await stage.step();
  assert.deepEqual([next.ops, next.before], [['request 3'], 0]);
  assert.ok(next.number > three.number);
});

test('R3: of the steps under way the first that the server has missed is halved', async () => {
  const stage = await open(4);
  const [one] = await steps(stage, { owner: 1, kind: 'steal' });
  for (const owner of [2, 3]) stage.ask({ owner });
  const two = await stage.step();
  await steps(stage, { owner: 4 });
  await stage.reconnect([], { step: one.number });
  const again = await stage.step();
  assert.deepEqual([again.number, again.ops], [one.number, ['steal 1']]);
  const half = await stage.step();
  assert.deepEqual([half.ops, half.before], [['request 2'], one.number]);
  assert.ok(half.number > two.number);
  await again.answer(granted(1n));
  await half.answer(granted(2n));
  assert.deepEqual((await stage.step()).ops, ['request 3', 'request 4']);
});

test('R3: a step has its own time to be done, not that of the one that it comes after', async () => {
  const stage = await open(3);
  let [first] = await steps(stage, { owner: 1 }, { owner: 2 });
  const begin = stage.world.now;
  while (stage.world.now - begin < 0.8 * TTL) {
    await stage.reconnect([], { step: first.number - 1 });
    first = await stage.step();
    assert.deepEqual(first.ops, ['request 1']);
    await stage.world.advance(TTL / 20);
  }
  await stage.world.advance(TTL / 4);
  await stage.reconnect([], { step: first.number });
  assert.ok(stage.world.now - begin > TTL + 100);
  assert.deepEqual(stage.news(), []);
});

test('R4: what something is in the way of holds up nothing of the steps behind it', async () => {
  const stage = await open(3);
  const [thief, other] = await steps(
    stage,
    { owner: 'thief', kind: 'steal' },
    { owner: 'other', name: 'b' },
  );
  await thief.answer(busy());
  await other.answer(granted(1n));
  assert.deepEqual(stage.news(), [['granted', 'other', 1n]]);
  await stage.world.advance(TTL / 50);
  const again = await stage.step();
  assert.deepEqual(again.ops, ['steal 1']);
  assert.ok(again.number > other.number);
});

test('steps under way have their time one after the other', async () => {
  const stage = await open(2);
  const [one] = await steps(stage, { owner: 1 }, { owner: 2 });
  await stage.world.advance(TTL / 4);
  await one.answer(granted(1n));
  stage.answers.renew = () => renewal([[1, 1n]]);
  await stage.world.advance(TTL / 4);
  assert.equal(stage.session.state, 'open');
  await stage.world.advance(TTL / 10);
  assert.equal(stage.session.state, 'suspect');
});

test('a query is asked after all steps that are under way, and before what is asked later', async () => {
  const stage = await open(3);
  const [one, two] = await steps(stage, { owner: 1 }, { owner: 2, name: 'b' });
  stage.session.query();
  stage.ask({ owner: 3, name: 'c' });
  await one.answer(granted(1n));
  await rests(stage);
  assert.ok(!stage.calls.some(({ call }) => call === 'query'));
  await two.answer(granted(2n));
  assert.deepEqual(valuesOf(stage.calls, 'call'), ['query', 'step']);
});

test('who closes with steps under way is told of nothing that they are answered', async () => {
  const stage = await open(3);
  const [one, two] = await steps(stage, { owner: 1 }, { owner: 2, name: 'b' });
  const closed = stage.session.close();
  assert.deepEqual(stage.news(), [
    ['failed', 1],
    ['failed', 2],
  ]);
  await one.answer(granted(1n));
  await two.answer(granted(2n));
  await stage.answer('close');
  await stage.answer('dispose');
  await closed;
  assert.deepEqual(stage.news(), []);
});

/** What is told by the next renewal. */
async function renewed(stage, mine) {
  (await stage.renewing()).answer(renewal(mine));
  await settle();
  await rests(stage);
  return stage.news();
}
