'use strict';

/** The session, with answers that come when, and in the order in which, it is hardest for it. */

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { ENDED, NOT_MARKED, QUEUED, busy, granted } = require('../../lib/cluster/adapter.js');
const { isLocal } = require('../../lib/cluster/errors.js');
const { Timers } = require('../../lib/cluster/session/timers.js');
const { toDetails } = require('../../lib/cluster/snapshot.js');
const { valuesOf } = require('../helpers/locks.js');
const { Scripted, dead, renewal, settling } = require('./scripted.js');
const { Cluster, TTL } = require('./setup.js');
const { settle } = require('./world.js');

/** Asks, and is answered. */
async function asked(stage, owner, answer, more = {}) {
  const place = stage.ask({ owner, ...more });
  await stage.answer('step', [answer]);
  return place;
}

/** Something waits, and is told of a quarantine, whose end is looked for. */
async function quarantined(stage) {
  await asked(stage, 'waits', QUEUED);
  await stage.world.advance(TTL / 10);
  await stage.answer('sweep');
  await stage.answer('renew', renewal([[1, 0n]], { grantsIn: 600 }));
  await stage.world.advance(601);
  await stage.answer('sweep');
}

// The lease.

test('a renewal counts from when it was sent, however late it is answered', async () => {
  const stage = await new Scripted().open();
  const renew = await stage.renewing();
  await stage.world.advance(1000);
  renew.answer(renewal());
  await settle();
  assert.equal(stage.session.remaining(), 0.9 * TTL - 1000);
});

test('the first lease counts from when it was asked for', async () => {
  const stage = new Scripted();
  stage.session.start();
  await stage.world.advance(2000);
  await stage.answer('open', { session: 's1', ttl: TTL });
  assert.equal(stage.session.remaining(), 0.9 * TTL - 2000);
});

test('a session that is opened after its first lease has ended is closed, and not used', async () => {
  const stage = new Scripted();
  stage.session.start();
  await stage.world.advance(0.95 * TTL);
  await stage.answer('open', { session: 'late', ttl: TTL });
  await stage.world.advance(100);
  await stage.answer('open', { session: 'next', ttl: TTL });
  assert.deepEqual(stage.states, ['opening']);
  assert.equal(await stage.answer('close'), 'late');
  assert.equal(stage.session.state, 'open');
});

test('the session before is ended before the next one is used, if that can be done in time', async () => {
  const stage = await new Scripted().open();
  await stage.lose();
  await stage.answer('open', { session: 's2', ttl: TTL });
  assert.deepEqual((await stage.take('close')).args, ['s1']);
  assert.equal(stage.session.state, 'opening');
  await stage.world.advance(Math.ceil(TTL / 6));
  assert.equal(stage.session.state, 'open');
});

test('a bucket that is closed while there is no session ends the one before', async () => {
  const stage = await new Scripted({ dispose: () => undefined }).open();
  await stage.lose();
  await stage.reopen();
  // It was lost before its first renewal: the next one is opened later.
  await stage.lose();
  const closed = settling(stage.session.close());
  assert.equal(await stage.answer('close'), 's2');
  assert.equal(closed.isSettled, true);
});

for (const late of [0.5, 0.75, 0.85]) {
  test(`an open that takes ${late} ttl is used, though the session before cannot be ended`, async () => {
    const stage = await new Scripted().open();
    await stage.lose();
    stage.answers.renew = () => renewal();
    const open = await stage.take('open');
    await stage.world.advance(late * TTL);
    open.answer({ session: 's2', ttl: TTL });
    await stage.world.advance(TTL / 6 + 200);
    assert.equal(stage.session.state, 'open');
  });
}

test('a connection that is cut while the session before is ended is known to be', async () => {
  const stage = await new Scripted().open();
  await stage.lose();
  await stage.answer('open', { session: 's2', ttl: TTL });
  stage.adapter.events.down(new Error('cut'));
  await stage.answer('close');
  assert.equal(stage.session.state, 'suspect');
});

test('a connection that is cut while its first renewal is answered is known to be', async () => {
  const stage = await new Scripted().open();
  stage.adapter.events.down(new Error('cut'));
  await stage.world.advance(1000);
  await stage.answer('hello');
  const renew = await stage.take('renew');
  stage.adapter.events.down(new Error('cut again'));
  renew.answer(renewal());
  await settle();
  assert.equal(stage.session.state, 'suspect');
  await stage.world.advance(2000);
  await stage.answer('hello');
  await stage.answer('renew', renewal());
  assert.equal(stage.session.state, 'open');
});

test('a bucket that is closed after an open that failed ends the session before', async () => {
  const stage = await new Scripted({ dispose: () => undefined }).open();
  await stage.lose();
  await stage.fail('open', new Error('cut'));
  const closed = settling(stage.session.close());
  assert.equal(await stage.answer('close'), 's1');
  assert.equal(closed.isSettled, true);
});

test('a bucket that is closed while it opens ends both sessions, also if one end hangs', async () => {
  const stage = await new Scripted({ dispose: () => undefined }).open();
  await stage.lose();
  const open = await stage.take('open');
  const closed = settling(stage.session.close());
  await stage.world.advance(0.3 * TTL);
  open.answer({ session: 's2', ttl: TTL });
  await stage.world.advance(TTL);
  assert.deepEqual(
    stage.calls.map(({ call, args }) => [call, args[0]]),
    [
      ['close', 's1'],
      ['close', 's2'],
    ],
  );
  assert.equal(closed.isSettled, true);
});

test('nothing is called after dispose', async () => {
  const stage = await new Scripted().open();
  await stage.lose();
  const open = await stage.take('open');
  const closed = settling(stage.session.close());
  await stage.world.advance(Math.ceil(TTL / 3) + 1);
  await stage.answer('dispose');
  assert.equal(closed.isSettled, true);
  open.answer({ session: 's2', ttl: TTL });
  await settle();
  assert.deepEqual(stage.calls, []);
});

test('a shorter lease that the server gives is kept to', async () => {
  const stage = await new Scripted().open({ ttl: 3000 });
  assert.equal(stage.session.remaining(), 2700);
  await stage.world.advance(1000);
  await stage.answer('renew', renewal());
  assert.equal(stage.session.remaining(), 2700);
});

test('whoever finds the end of the lease by looking, its loss is told soon', async () => {
  const stage = await new Scripted().open();
  await asked(stage, 'held', granted(1n));
  stage.adapter.events.down(new Error('cut'));
  await settle();
  stage.news();
  stage.machine.setWallBy(TTL);
  assert.equal(stage.session.remaining(), 0);
  await settle();
  assert.deepEqual(stage.told.at(-1), ['settled']);
  assert.deepEqual(stage.news(), [['lost', 'held', 'unreachable']]);
});

// Renewals.

test('a change that is told during a renewal has another one follow at once', async () => {
  const stage = await new Scripted().open();
  const renew = await stage.renewing();
  stage.adapter.events.changed();
  await settle();
  assert.deepEqual(stage.calls, []);
  renew.answer(renewal());
  await stage.take('renew');
});

test('grants that a renewal shows are reported in the order of their tokens', async () => {
  const stage = await new Scripted().open();
  await asked(stage, 'early', QUEUED, { priority: -1 });
  await asked(stage, 'urgent', QUEUED);
  (await stage.renewing()).answer(
    renewal([
      [1, 3n],
      [2, 2n],
    ]),
  );
  await settle();
  assert.deepEqual(stage.news(), [
    ['granted', 'urgent', 2n],
    ['granted', 'early', 3n],
  ]);
});

test('what is told of a quarantine is known until it is over', async () => {
  const stage = new Scripted();
  stage.session.start();
  await stage.answer('open', { session: 'first', ttl: TTL, life: '', grantsIn: 0.3 * TTL });
  assert.equal(stage.session.grantsIn, 0.3 * TTL);
  await stage.world.advance(0.2 * TTL);
  assert.equal(stage.session.grantsIn, 0.3 * TTL - 0.2 * TTL);
  await stage.world.advance(0.1 * TTL);
  assert.equal(stage.session.grantsIn, 0);
  await stage.world.advance(0.1 * TTL);
  await stage.answer('renew', renewal([], { grantsIn: 700 }));
  assert.equal(stage.session.grantsIn, 700);
});

// ExpiryChecks.

test('a quarantine that ends between a sweep and its renewal has another sweep follow', async () => {
  const stage = await new Scripted().open();
  await quarantined(stage);
  await stage.answer('renew', renewal([[1, 0n]]));
  await stage.world.advance(TTL / 10);
  await stage.take('sweep');
});

test('so it has if the quarantine was told before anything waited', async () => {
  const stage = await new Scripted().open();
  (await stage.renewing()).answer(renewal([], { grantsIn: 0.2 * TTL }));
  await stage.world.advance(1);
  await stage.answer('sweep');
  await stage.answer('renew', renewal([], { grantsIn: 0.2 * TTL }));
  await asked(stage, 'waits', QUEUED);
  await stage.world.advance(TTL / 10);
  await stage.answer('sweep');
  await stage.answer('renew', renewal([[1, 0n]]));
  await stage.world.advance(TTL / 10);
  await stage.take('sweep');
});

test('so it has in a session that was never told of a quarantine', async () => {
  const stage = await new Scripted().open();
  await asked(stage, 'waits', QUEUED);
  for (let session = 1; session <= 2; session++) {
    await stage.world.advance(TTL / 10);
    await stage.answer('sweep');
    await stage.answer('renew', renewal([[session, 0n]]));
    await stage.world.advance(TTL / 10);
    await stage.answer('sweep');
    await stage.answer('renew', renewal([[session, 0n]]));
    await stage.world.advance(TTL / 10);
    assert.deepEqual(stage.calls, []);
    await stage.lose();
    await stage.reopen();
    await stage.answer('step', [QUEUED]);
  }
});

describe('of an engine that ends leases by itself', () => {
  const can = { endsLeases: true };

  test('nothing is asked for what waits, once it is known that there is no quarantine', async () => {
    const stage = await new Scripted({}, can).open();
    (await stage.renewing()).answer(renewal());
    await stage.world.advance(1);
    await stage.answer('sweep');
    await stage.answer('renew', renewal());
    await asked(stage, 'waits', QUEUED);
    await stage.world.advance(TTL / 4);
    assert.deepEqual(stage.calls, []);
  });

  test('that there was one, and is over, while the session was cut off is found out', async () => {
    const stage = await new Scripted({}, can).open();
    (await stage.renewing()).answer(renewal());
    await stage.world.advance(1);
    await stage.answer('sweep');
    await stage.answer('renew', renewal());
    await asked(stage, 'waits', QUEUED);
    stage.adapter.events.down(new Error('cut'));
    await stage.world.advance(TTL / 10);
    await stage.answer('hello');
    await stage.answer('renew', renewal([[1, 0n]]));
    await stage.world.advance(1);
    await stage.answer('sweep');
    await stage.answer('renew', renewal([[1, 1n]]));
    assert.deepEqual(
      stage.told.filter(([what]) => what === 'granted'),
      [['granted', 'waits', 1n]],
    );
  });

  test('it is asked whether there is one, and its end is looked for', async () => {
    const stage = await new Scripted({}, can).open();
    await quarantined(stage);
    await stage.answer('renew', renewal([[1, 1n]]));
    assert.deepEqual(
      stage.told.filter(([what]) => what === 'granted'),
      [['granted', 'waits', 1n]],
    );
  });
});

test('what cannot be swept yet is not tried without a pause', async () => {
  let sweeps = 0;
  const stage = new Scripted({
    sweep: () => {
      sweeps++;
    },
    renew: () => renewal([[1, 0n]], { nextExpiryIn: 0 }),
  });
  await stage.open();
  await asked(stage, 'waits', QUEUED);
  await stage.world.advance(TTL);
  assert.ok(sweeps >= 10 && sweeps <= 21, `${sweeps} sweeps`);
});

test('who waits for nothing sweeps once, for those who died before', async () => {
  let sweeps = 0;
  const stage = new Scripted({
    renew: () => renewal(),
    sweep: () => {
      sweeps++;
    },
  });
  await stage.open();
  await stage.world.advance(10 * TTL);
  assert.equal(sweeps, 1);
});

// Steps.

test('a group of more than a step has is sent again whole', async () => {
  const stage = await new Scripted().open();
  const group = Array.from({ length: 150 }, (_, i) => ({ owner: i, name: `${i}`, group: 1 }));
  stage.ask(...group);
  assert.equal((await stage.step()).ops.length, 150);
  await stage.reconnect();
  assert.equal((await stage.step()).ops.length, 150);
});

test('in the next session all is asked for anew, and groups are not taken apart', async () => {
  const stage = await new Scripted().open();
  for (let i = 0; i < 99; i++) stage.ask({ owner: i, name: `${i}` });
  stage.ask({ owner: 'x', name: 'x', group: 1 }, { owner: 'y', name: 'y', group: 1 });
  await stage.fail('step', dead());
  await stage.reopen();
  const refs = (await stage.answer('step', Array(99).fill(QUEUED))).map(({ ref }) => ref);
  assert.deepEqual([refs.length, Math.min(...refs)], [99, 102]);
  assert.deepEqual((await stage.step()).ops, ['request 201', 'request 202']);
});

/** What a server tells of a request of ours. */
const entryOf = (ref, name, token = 0n) => ({
  ref,
  name,
  token,
  clientId: 'me',
  mode: 'exclusive',
});

test('a query whose turn does not come, for the session is lost, is asked in the next', async () => {
  const stage = await new Scripted({ query: (name) => [entryOf(9, name)] }).open();
  stage.ask({ owner: 1 });
  const entries = settling(stage.session.query('a'));
  await stage.fail('step', dead());
  await stage.reopen();
  assert.equal(entries.value, undefined);
  await answered(stage);
  assert.deepEqual(valuesOf(entries.value, 'ref'), [9]);
});

/** The next step, whose requests all wait, and ends go well. */
async function answered(stage) {
  const { args, answer } = await stage.take('step');
  answer(args[0].map(({ kind }) => (kind === 'end' ? ENDED : QUEUED)));
  await settle();
}

/**
 * A query that is asked behind 250 requests, which are of the names '1' to '250': the server comes
 * to 200 of them in the time that it waits for them.
 */
async function queryBehindMany(stage, name = undefined, opOf = (i) => ({ name: `${i}` })) {
  for (let i = 1; i <= 250; i++) stage.ask({ owner: i, ...opOf(i) });
  await settle();
  const query = settling(stage.session.query(name));
  await answered(stage);
  await stage.world.advance(TTL / 4 + 1);
  assert.ok(!stage.calls.some(({ call }) => call === 'query'));
  await answered(stage);
  return { query, ...(await stage.take('query')) };
}

test('a query comes after all that was asked before, however much, and before what comes later', async () => {
  const stage = await new Scripted().open();
  for (let i = 1; i <= 250; i++) stage.ask({ owner: i, name: `${i}` });
  const query = settling(stage.session.query());
  stage.ask({ owner: 251, name: 'later' });
  for (let i = 0; i < 3; i++) await answered(stage);
  const { answer } = await stage.take('query');
  answer([entryOf(1, 'told', 1n)]);
  await settle();
  assert.deepEqual(valuesOf(query.value, 'name'), ['told']);
});

const all = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test('a query waits a time for what was asked before, and tells the rest as waiting', async () => {
  const stage = await new Scripted().open();
  const { answer, query } = await queryBehindMany(stage);
  answer(all(1, 200).map((ref) => entryOf(ref, `${ref}`)));
  await settle();
  assert.deepEqual(
    valuesOf(query.value, 'ref', 'name', 'token'),
    all(1, 250).map((ref) => [ref, `${ref}`, 0n]),
  );
});

test('nor does it leave out what the server has come to while the query is under way', async () => {
  const stage = await new Scripted().open();
  const { answer, query } = await queryBehindMany(stage);
  await answered(stage);
  answer(all(1, 200).map((ref) => entryOf(ref, `${ref}`)));
  await settle();
  assert.deepEqual(
    valuesOf(query.value, 'ref', 'token'),
    all(1, 250).map((ref) => [ref, 0n]),
  );
});

test('what a query tells twice, as the server has come to it meanwhile, is told once', async () => {
  const stage = await new Scripted().open();
  const { answer, query } = await queryBehindMany(stage);
  answer(all(1, 250).map((ref) => entryOf(ref, `${ref}`, BigInt(ref))));
  await settle();
  assert.deepEqual(valuesOf(query.value, 'token'), all(1, 250).map(BigInt));
});

test('a query tells what the server has not come to where its priority will put it', async () => {
  const stage = await new Scripted().open();
  const ofOne = (i) => ({ name: i < 248 ? `${i}` : 'one', priority: [5, 0, 9][i - 248] });
  const { answer, query } = await queryBehindMany(stage, 'one', ofOne);
  const told = [0n, 7n, 0n, 0n].map((token, i) => entryOf(1000 + i, 'one', token));
  answer([told[1], { ...told[0], priority: 7 }, told[2], { ...told[3], priority: -1 }]);
  await settle();
  assert.deepEqual(valuesOf(query.value, 'ref'), [1001, 250, 1000, 248, 1002, 249, 1003]);
});

test('a query of a name tells nothing of others that the server has not come to', async () => {
  const stage = await new Scripted().open();
  const { answer, args, query } = await queryBehindMany(stage, '249');
  assert.deepEqual(args, ['249']);
  answer([]);
  await settle();
  assert.deepEqual(valuesOf(query.value, 'name'), ['249']);
});

test('what is given up, and not asked for any more, is in no query', async () => {
  const stage = await new Scripted().open();
  const held = await asked(stage, 'held', granted(1n));
  for (let i = 2; i <= 250; i++) stage.ask({ owner: i, name: `${i}` });
  const aborted = stage.ask({ owner: 251, name: 'aborted' });
  stage.ask({ owner: 252, name: 'now or never', kind: 'ifAvailable' });
  stage.session.end(held);
  stage.session.end(aborted);
  const query = settling(stage.session.query());
  await settle();
  await stage.world.advance(TTL / 4 + 1);
  await answered(stage);
  const { answer } = await stage.take('query');
  answer([entryOf(1, 'a', 1n), { ...entryOf(1, 'b', 2n), clientId: 'another' }]);
  await settle();
  assert.deepEqual(valuesOf(query.value, 'name'), ['b', ...all(102, 250).map(String)]);
});

test('a process does not end while a query is under way', async () => {
  const stage = await new Scripted().open();
  assert.equal(stage.machine.refs, 0);
  const entries = settling(stage.session.query());
  await settle();
  assert.equal(stage.machine.refs, 1);
  await stage.answer('query', []);
  assert.deepEqual(entries.value, []);
  assert.equal(stage.machine.refs, 0);
});

test('each who does not want to wait is told in a ttl, also those who asked later', async () => {
  const stage = await new Scripted().open();
  stage.adapter.events.down(new Error('cut'));
  stage.ask({ owner: 'one', kind: 'ifAvailable' });
  await stage.world.advance(1000);
  stage.ask({ owner: 'two', kind: 'ifAvailable', name: 'b' });
  await stage.world.advance(TTL - 1000);
  assert.deepEqual(stage.news(), [['failed', 'one']]);
  await stage.world.advance(1000);
  assert.deepEqual(stage.news(), [['failed', 'two']]);
});

// Grants and thefts.

test('a theft by an old server is not of the lock that is granted anew', async () => {
  for (const life of [undefined, 'another']) {
    const stage = await new Scripted().open();
    stage.ask({ owner: 'held' });
    await stage.take('step');
    stage.adapter.events.stolen(1, 'thief');
    await stage.reconnect([], { life });
    await stage.answer('step', [granted(4n)]);
    const stolen = life ? [] : [['stolen', 'held', 'thief']];
    assert.deepEqual(stage.news(), [['granted', 'held', 4n], ...stolen]);
  }
});

test('a mark that is not set is lost to the thief that this server knows', async () => {
  for (const isReplaced of [false, true]) {
    const stage = await new Scripted().open();
    const place = await asked(stage, 'done', granted(1n));
    stage.news();
    stage.session.end(place, 1000);
    await settle();
    stage.adapter.events.stolen(1, 'thief');
    if (isReplaced) await stage.reconnect([], { life: 'another' });
    await stage.answer('step', [NOT_MARKED]);
    const told = isReplaced ? ['lost', 'done', 'failover'] : ['stolen', 'done', 'thief'];
    assert.deepEqual(stage.news(), [told]);
  }
});

test('who is robbed of a lock before it heard of its grant asks again', async () => {
  const stage = await new Scripted().open();
  await asked(stage, 'waits', QUEUED);
  stage.adapter.events.stolen(1, 'thief');
  assert.deepEqual((await stage.step()).ops, ['request 2']);
  assert.deepEqual(stage.news(), []);
});

test('a thief is told after those whom it robbed in its own manager, without a hint', async () => {
  const stage = await new Scripted().open();
  await asked(stage, 'robbed', granted(1n));
  stage.news();
  await asked(stage, 'thief', granted(2n), { kind: 'steal' });
  const told = stage.news();
  const place = ([, owner]) => owner;
  assert.deepEqual(new Set(told.map(place)), new Set(['thief', 'robbed']));
  assert.deepEqual(
    told.find(([what]) => what === 'stolen'),
    ['stolen', 'robbed', 'me'],
  );
});

// The end.

test('a session that is opened after it was closed is closed at the server', async () => {
  const stage = new Scripted({ dispose: () => undefined });
  stage.session.start();
  const closed = settling(stage.session.close());
  await stage.answer('open', { session: 'late', ttl: TTL });
  assert.equal(await stage.answer('close'), 'late');
  assert.equal(closed.isSettled, true);
  assert.equal(stage.machine.refs, 0);
});

// What the backend makes of it.

test('questions that are not answered end when the session is closed, and leave no timer', async () => {
  const stage = await new Scripted({ close: () => {}, dispose: () => {} }).open();
  const place = await asked(stage, 'held', granted(1n));
  const query = settling(stage.session.query());
  const marked = settling(stage.session.queryMark(place));
  const look = settling(stage.session.queryHolders('a', 1000));
  await settle();
  await stage.session.close();
  await settle();
  assert.equal(query.error?.name, 'InvalidStateError');
  assert.deepEqual([marked.isSettled, marked.value], [true, false]);
  assert.deepEqual([look.isSettled, look.value], [true, undefined]);
  assert.equal(stage.machine.timers, 0);
});

test('a thief of the same manager finds the stolen lock not held, though no hint has come', async () => {
  const cluster = new Cluster();
  const client = await cluster.client();
  const robbed = await cluster.hold(client, 'a');
  client.adapter.events.stolen = () => {};
  let seen;
  client.locks.request('a', { steal: true }, () => {
    seen = [robbed.lock.held, robbed.lock.signal.aborted];
  });
  await cluster.world.until(() => seen);
  assert.deepEqual(seen, [false, true]);
  await cluster.close();
});

test('a token of more than 32 bits comes as it is', async () => {
  const token = 2n ** 62n + 7n;
  const cluster = new Cluster();
  const client = await cluster.client({
    wrap(adapter) {
      const { step } = adapter;
      adapter.step = async function (ops) {
        const answers = await step.call(this, ops);
        return answers.map((answer) => (answer.token ? { ...answer, token } : answer));
      };
      return adapter;
    },
  });
  const held = await cluster.hold(client, 'a');
  assert.equal(held.lock.token, token);
});

test('details tell how many wait before each', () => {
  const entry = (name, token) => ({ name, token, waited: 1.5, held: 2.5 });
  const { pending } = toDetails([entry('a', 1n), entry('a', 0n), entry('b', 0n), entry('a', 0n)]);
  assert.deepEqual(valuesOf(pending, 'name', 'ahead', 'waited', 'held'), [
    ['a', 0, 1, 0],
    ['b', 0, 1, 0],
    ['a', 1, 1, 0],
  ]);
});

test('details tell for how long nothing is granted, while that is so', () => {
  assert.deepEqual(toDetails([]), { held: [], pending: [] });
  assert.deepEqual(toDetails([], 0), { held: [], pending: [] });
  assert.deepEqual(toDetails([], 0.4), { held: [], pending: [], grantsIn: 1 });
});

test('a time that no timer can wait for is waited for in parts', () => {
  let now = 0;
  const timers = [];
  const clock = {
    monotonic: () => now,
    setTimeout: (fire, milliseconds) => timers.push({ fire, milliseconds }),
    clearTimeout: () => {},
    unref: () => {},
  };
  const due = [];
  const agenda = new Timers(clock, (items) => due.push(...items));
  agenda.set('far', 2 ** 32);
  while (due.length === 0) {
    const { fire, milliseconds } = timers.at(-1);
    assert.ok(milliseconds < 2 ** 31, `${milliseconds} ms`);
    now += milliseconds;
    fire();
  }
  assert.equal(now, 2 ** 32);
});

test('what is asked is one step, of a tick while none is under way, else of a turn', async () => {
  const stage = await new Scripted({}, { window: 4 }).open();
  const waits = [];
  for (const wait of ['nextTick', 'setImmediate']) {
    stage.machine[wait] = (call) => {
      waits.push(wait);
      Promise.resolve().then(call);
    };
  }
  stage.ask({ owner: 'one' });
  stage.ask({ owner: 'two', name: 'b' });
  await settle();
  stage.ask({ owner: 'three', name: 'c' });
  stage.ask({ owner: 'four', name: 'd' });
  await settle();
  assert.deepEqual(waits, ['nextTick', 'setImmediate']);
  assert.deepEqual(
    stage.calls.map(({ args }) => args[0].length),
    [2, 2],
  );
});

test('an end that is answered is told to who waits for it', async () => {
  const stage = await new Scripted().open();
  const place = await asked(stage, 'held', granted(1n));
  const ended = settling(stage.session.end(place));
  await settle();
  assert.equal(ended.isSettled, false);
  await stage.answer('step', [ENDED]);
  assert.equal(ended.isSettled, true);
});

// The rules (adapter.js).

test('R2: a group of which one was stolen unheard gives all back and is asked for again', async () => {
  const stage = await new Scripted().open();
  stage.ask({ owner: 'x', name: 'a', group: 1 }, { owner: 'y', name: 'b', group: 1 });
  await (await stage.step()).answer(granted(1n), QUEUED);
  stage.adapter.events.stolen(2, 'thief');
  const again = await stage.step();
  assert.deepEqual(again.ops, ['end 1', 'request 3', 'request 4']);
  await again.answer(ENDED, QUEUED, QUEUED);
  assert.deepEqual(stage.news(), []);
});

test('R2: the rest of a group is held when what it waits for is given up', async () => {
  const stage = await new Scripted().open();
  stage.ask({ owner: 'x', name: 'a', group: 1 });
  const last = stage.ask({ owner: 'y', name: 'b', group: 2 });
  const group = stage.ask({ owner: 'z', name: 'c', group: 3 }, { owner: 'q', name: 'd', group: 3 });
  await (await stage.step()).answer(granted(1n), QUEUED, QUEUED, granted(4n));
  assert.deepEqual(stage.news(), [['granted', 'x', 1n]]);
  stage.session.end(group);
  stage.session.end(last);
  await (await stage.step()).answer(ENDED, ENDED);
  assert.deepEqual(stage.news(), [['granted', 'q', 4n]]);
});

test('R3: an end that is refused is over here, and comes again when a renewal finds its lock', async () => {
  const stage = await new Scripted().open();
  const place = await asked(stage, 'one', granted(1n));
  const ended = settling(stage.session.end(place));
  await (await stage.step()).fail('REFUSED');
  assert.ok(ended.isSettled);
  (await stage.renewing()).answer(renewal([[1, 1n]]));
  assert.deepEqual((await stage.step()).ops, ['end 1']);
});

test('R3: the rest of a group is held when the end of what it waits for is refused', async () => {
  const stage = await new Scripted().open();
  const waits = stage.ask({ owner: 'x', name: 'a', group: 1 }, { owner: 'y', name: 'b', group: 1 });
  await (await stage.step()).answer(QUEUED, granted(4n));
  stage.session.end(waits);
  await (await stage.step()).fail('REFUSED');
  assert.deepEqual(stage.news(), [['granted', 'y', 4n]]);
});

test('R3: what is longer than a string can be is a local error, a cut is none', () => {
  for (const [error, expected] of [
    [Object.assign(new Error('too long'), { code: 'ERR_STRING_TOO_LONG' }), true],
    [new RangeError('Maximum call stack size exceeded'), true],
    [Object.assign(new Error('no such file'), { code: 'ENOENT', syscall: 'open' }), true],
    [Object.assign(new Error('cut'), { code: 'ECONNRESET', syscall: 'read' }), false],
  ]) {
    assert.equal(isLocal(error), expected, error.message);
  }
});

test('R3: an answer that makes no sense is none, whatever error that is', async () => {
  const stage = await new Scripted().open();
  stage.adapter.classify = (error) => (isLocal(error) ? 'local' : 'retry');
  stage.ask({ owner: 'one' });
  (await stage.take('step')).answer(undefined);
  await settle();
  assert.equal(stage.session.state, 'suspect');
});

test('R4: what was given up meanwhile is not asked for again, an end is', async () => {
  const stage = await new Scripted().open();
  const place = await asked(stage, 'holder', granted(1n));
  const thief = stage.ask({ owner: 'thief', kind: 'steal' });
  const ended = settling(stage.session.end(place));
  await (await stage.step()).answer(busy(), busy());
  stage.session.end(thief);
  await (await stage.step()).answer(ENDED);
  await stage.world.advance(TTL / 50);
  const again = await stage.step();
  assert.deepEqual(again.ops, ['end 1']);
  assert.ok(!ended.isSettled);
  await again.answer(ENDED);
  assert.ok(ended.isSettled);
});

/** Lets the next step, which is that operation alone, be busy. @returns after how long it came */
async function busyAfter(stage, op) {
  const from = stage.world.now;
  while (!stage.calls.some(({ call }) => call === 'step')) await stage.world.advance(1);
  const after = stage.world.now - from;
  const again = await stage.step();
  assert.deepEqual(again.ops, [op]);
  await again.answer(busy());
  return after;
}

const idle = { sweep: () => {}, renew: () => renewal() };

test('R4: what stays obstructed is asked for less and less often, half a second at most', async () => {
  const stage = await new Scripted(idle).open();
  stage.ask({ owner: 'thief', kind: 'steal' });
  await (await stage.step()).answer(busy());
  const delays = [];
  for (let i = 0; i < 7; i++) delays.push(await busyAfter(stage, 'steal 1'));
  assert.deepEqual(delays, [20, 40, 80, 160, 320, 500, 500]);
});

test('R4: what is obstructed next is asked for again as soon as the first was', async () => {
  const stage = await new Scripted(idle).open();
  const thief = stage.ask({ owner: 'thief', kind: 'steal' });
  await (await stage.step()).answer(busy());
  for (let i = 0; i < 5; i++) await busyAfter(stage, 'steal 1');
  await stage.world.advance(500);
  await (await stage.step()).answer(granted(1n));
  stage.session.end(thief);
  await (await stage.step()).answer(busy());
  assert.equal(await busyAfter(stage, 'end 1'), 20);
});

test('R4: what is obstructed does not wait for the turn of what was obstructed before', async () => {
  const stage = await new Scripted(idle).open();
  stage.ask({ owner: 'thief', kind: 'steal' });
  await (await stage.step()).answer(busy());
  for (let i = 0; i < 5; i++) await busyAfter(stage, 'steal 1');
  stage.ask({ owner: 'other', kind: 'steal', name: 'b' });
  const other = await stage.step();
  await stage.world.advance(500);
  await other.answer(busy());
  await (await stage.step()).answer(busy());
  assert.equal(await busyAfter(stage, 'steal 2'), 20);
});

test('R4: a theft that something is in the way of for a lease fails, and says what', async () => {
  const stage = await new Scripted({ sweep: () => {}, renew: () => renewal() }).open();
  const { errors } = stage;
  stage.answers.step = (ops) => ops.map(() => busy(new Error('a transaction guards it')));
  stage.ask({ owner: 'thief', kind: 'steal' });
  for (let i = 0; i < 12; i++) await stage.world.advance(TTL / 10);
  assert.match(
    errors[0].message,
    /The server did not execute the request within \d+ ms: a transaction guards it/,
  );
});

test('R1: of a theft that the server does not answer for a lease nobody knows whether it is done', async () => {
  const stage = await new Scripted({ sweep: () => {}, renew: () => renewal() }).open();
  stage.ask({ owner: 'thief', kind: 'steal' });
  await stage.step();
  // The connection stays: the step is sent again, and is not answered either.
  stage.answers.step = () => new Promise(() => {});
  stage.answers.hello = () => {};
  for (let i = 0; i < 12; i++) await stage.world.advance(TTL / 10);
  assert.match(stage.errors[0].message, /^The server did not say whether the lock was stolen/);
});

test('R1: a theft that was sent in a session that is lost is not done again in the next', async () => {
  const stage = await new Scripted().open();
  stage.ask({ owner: 'thief', kind: 'steal' });
  assert.deepEqual((await stage.step()).ops, ['steal 1']);
  stage.ask({ owner: 'later', kind: 'steal', name: 'b' });
  stage.adapter.events.down(new Error('cut'));
  stage.answers.close = () => {};
  stage.answers.hello = () => Promise.reject(new Error('away'));
  await stage.world.advance(0.95 * TTL);
  assert.match(stage.errors[0].message, /^The server did not say whether the lock was stolen/);
  await stage.answer('open', { session: 's2', ttl: TTL });
  assert.deepEqual((await stage.step()).ops, ['steal 3']);
});

test('R1: a theft whose step found the session dead is asked for again: it was not done', async () => {
  const stage = await new Scripted().open();
  stage.ask({ owner: 'thief', kind: 'steal' });
  await (await stage.step()).fail('DEAD');
  await stage.reopen();
  assert.deepEqual((await stage.step()).ops, ['steal 2']);
  assert.deepEqual(stage.news(), []);
});

test('R1: of a theft that came again before the session was found dead nobody knows', async () => {
  const stage = await new Scripted().open();
  stage.ask({ owner: 'thief', kind: 'steal' });
  await stage.step();
  await stage.reconnect();
  await (await stage.step()).fail('DEAD');
  assert.match(stage.errors[0].message, /^The server did not say whether the lock was stolen/);
});

test('R1: a theft that the server has missed was not done by the connection before', async () => {
  const stage = await new Scripted().open();
  stage.ask({ owner: 'thief', kind: 'steal' });
  const { number } = await stage.step();
  await stage.reconnect([], { step: number - 1 });
  await (await stage.step()).fail('DEAD');
  await stage.reopen();
  assert.deepEqual((await stage.step()).ops, ['steal 2']);
  assert.deepEqual(stage.news(), []);
});

test('R1: a grant that comes from a record is compared at once: it may have been stolen', async () => {
  const stage = await new Scripted().open();
  stage.ask({ owner: 'one' });
  await stage.take('step');
  await stage.reconnect();
  await (await stage.step()).answer(granted(1n));
  assert.deepEqual(stage.news(), [['granted', 'one', 1n]]);
  await stage.answer('renew', renewal([]));
  assert.deepEqual(stage.news(), [['lost', 'one', 'failover']]);
});

test('R3: what has long names goes in steps of its own', async () => {
  const stage = await new Scripted().open();
  const long = 'x'.repeat(200_000);
  for (let i = 1; i <= 3; i++) stage.ask({ owner: i, name: `${long}${i}` });
  stage.ask({ owner: 4, name: 'b' });
  const first = await stage.step();
  assert.deepEqual(first.ops, ['request 1']);
  await first.answer(granted(1n));
  assert.deepEqual((await stage.step()).ops, ['request 2']);
});

test('what a group has that is not whole is nobody who holds a lock in its way', async () => {
  const entry = (clientId, ref, token) => ({ ref, mode: 'exclusive', token, clientId, label: '' });
  const query = () => [entry('me', 1, 1n), entry('other', 1, 9n)];
  const stage = await new Scripted({ query }).open();
  stage.ask({ owner: 'x', name: 'a', group: 1 }, { owner: 'y', name: 'b', group: 1 });
  await (await stage.step()).answer(granted(1n), QUEUED);
  const entries = await stage.session.queryHolders('a', 1000);
  assert.deepEqual(valuesOf(entries, 'token'), [9n]);
});

test('who waits is not told that it holds the lock, before it has heard of the grant', async () => {
  let told = [];
  const stage = await new Scripted({ query: () => told }).open();
  const entry = (clientId, ref, token) => ({ ref, mode: 'shared', token, clientId, label: '' });
  const look = async () =>
    (await stage.session.queryHolders('a', 1000))?.map(({ clientId, ref }) => [clientId, ref]);
  const held = await asked(stage, 'held', granted(1n));
  await asked(stage, 'waits', QUEUED);
  const both = [entry('me', 1, 1n), entry('me', 2, 2n)];
  told = both;
  assert.deepEqual(await look(), [['me', 1]]);
  told = [both[1], entry('other', 2, 3n)];
  assert.deepEqual(await look(), [['other', 2]]);
  told = [both[1]];
  assert.equal(await look(), undefined);
  told = [];
  assert.deepEqual(await look(), []);
  // What this thread gives back is in the way until the server has it.
  stage.session.end(held);
  told = [both[0]];
  assert.deepEqual(await look(), [['me', 1]]);
});

test('how far a request has come is told, as far as it is known', async () => {
  const stage = await new Scripted(idle).open();
  const a = stage.ask({ owner: 'a', group: 1 }, { owner: 'b', name: 'b', group: 1 });
  const thief = stage.ask({ owner: 'thief', kind: 'steal', name: 'c' });
  const waits = stage.ask({ owner: 'waits', name: 'd' });
  const progress = () => [a, thief, waits].map((place) => stage.session.progress(place));
  assert.deepEqual(progress(), ['unsent', 'unsent', 'unsent']);
  const asked = await stage.step();
  assert.deepEqual(progress(), ['sent', 'sent', 'sent']);
  // Something is in the way of the theft: it is not done.
  await asked.answer(granted(1n), QUEUED, busy(), QUEUED);
  assert.deepEqual(progress(), ['allotted', 'unsent', 'waiting']);
});

test('who waits is told why the server tells nothing, once that is known', async () => {
  const away = 'ERR_WEB_LOCKS_UNREACHABLE';
  const stage = new Scripted(idle);
  const codes = () => [undefined, waits, thief].map((place) => stage.session.outage(place)?.code);
  let [waits, thief] = [];
  // The first connection is being made.
  stage.session.start();
  await stage.world.advance(999);
  assert.deepEqual(codes(), [undefined, undefined, undefined]);
  await stage.world.advance(1);
  assert.deepEqual(codes(), [away, away, away]);
  await stage.answer('open', { session: 's1', ttl: TTL });
  waits = await asked(stage, 'waits', QUEUED);
  stage.answers.renew = () => renewal([[1, 0n]]);
  thief = stage.ask({ owner: 'thief', kind: 'steal', name: 'b' });
  const stolen = await stage.step();
  await stage.world.advance(999);
  assert.deepEqual(codes(), [undefined, undefined, undefined]);
  await stage.world.advance(1);
  assert.deepEqual(codes(), [away, away, away]);
  const guarded = busy(Object.assign(new Error(), { code: 'GUARDED' }));
  stage.answers.step = () => [guarded];
  await stolen.answer(guarded);
  assert.deepEqual(codes(), [undefined, undefined, 'GUARDED']);
  // A look that was given up still tells that nothing was answered.
  let answer;
  stage.adapter.query = () => new Promise((resolve) => (answer = resolve));
  stage.session.queryHolders('a', 200);
  await stage.world.advance(999);
  assert.deepEqual(codes(), [undefined, undefined, 'GUARDED']);
  await stage.world.advance(1);
  assert.deepEqual(codes(), [away, away, 'GUARDED']);
  answer([]);
  await stage.world.advance(0);
  assert.deepEqual(codes(), [undefined, undefined, 'GUARDED']);
  stage.adapter.events.down(new Error('cut'));
  assert.deepEqual(codes(), [away, away, away]);
});

test('a connection that is cut in a new session is made anew as soon as in an old one', async () => {
  const stage = new Scripted();
  stage.session.start();
  for (let i = 0; i < 6; i++) {
    await stage.fail('open', new Error('away'));
    await stage.world.advance(3000);
  }
  await stage.answer('open', { session: 's1', ttl: TTL });
  stage.adapter.events.down(new Error('cut'));
  await stage.world.advance(100);
  await stage.take('hello');
});

test('R1: a step that the server has done is not halved if it is refused when it comes again', async () => {
  const stage = await new Scripted().open();
  stage.ask({ owner: 1, kind: 'steal' });
  stage.ask({ owner: 2, name: 'b' });
  const { number } = await stage.step();
  await stage.reconnect([], { step: number });
  const again = await stage.step();
  assert.equal(again.number, number);
  await again.fail('REFUSED');
  assert.equal(stage.errors.length, 0);
  await stage.reconnect([], { step: number });
  const last = await stage.step();
  assert.deepEqual([last.number, last.ops], [number, ['steal 1', 'request 2']]);
});

test('what a server that is older has missed is not sent again if nobody wants it any more', async () => {
  for (const kind of ['request', 'steal']) {
    const stage = await new Scripted().open();
    stage.ask({ owner: 'held', kind });
    stage.ask({ owner: 'asked', name: 'b' });
    const { number } = await stage.step();
    stage.adapter.events.granted(1, 1n);
    await stage.reconnect([], { step: number - 1 });
    assert.deepEqual(stage.news(), [
      ['granted', 'held', 1n],
      ['lost', 'held', 'failover'],
    ]);
    assert.deepEqual((await stage.step()).ops, ['request 2']);
  }
});

test('nor is what was robbed, or given up, before it was answered: only its end', async () => {
  const stage = await new Scripted().open();
  stage.ask({ owner: 'robbed' });
  const place = stage.ask({ owner: 'given up', name: 'b' });
  const { number } = await stage.step();
  stage.adapter.events.granted(1, 1n);
  stage.adapter.events.stolen(1, 'thief');
  stage.session.end(place);
  await stage.reconnect([], { step: number - 1 });
  assert.deepEqual((await stage.step()).ops, ['end 2']);
});

for (const ttl of [10_000, 60_000, 3_600_000]) {
  for (const what of ['is sent', 'waits']) {
    test(`a connection that was dropped silently is noticed soon while a request ${what}, with a ttl of ${ttl} ms`, async () => {
      const stage = await new Scripted().open({ ttl });
      // Long after the last renewal, and long before the next one.
      await stage.world.advance(ttl / 3 + 10);
      await stage.answer('renew', renewal());
      await stage.world.advance(100);
      if (what === 'is sent') stage.ask({ owner: 'x' });
      else await asked(stage, 'x', QUEUED);
      await stage.world.advance(10_000);
      assert.ok(stage.states.includes('suspect'), stage.states.join());
    });
  }
}

test('a session for which nothing waits renews three times in a lease, however long that is', async () => {
  let renewals = 0;
  const renew = () => {
    renewals++;
    return renewal();
  };
  const stage = await new Scripted({ renew, sweep: () => {} }).open({ ttl: 3_600_000 });
  const place = await asked(stage, 'x', granted(1n));
  await stage.world.advance(10_000);
  renewals = 0;
  await stage.world.advance(3_600_000);
  assert.ok(renewals <= 4, `${renewals} renewals`);
  assert.equal(place.token, 1n);
});
