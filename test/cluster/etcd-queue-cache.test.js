'use strict';

/** What a process makes of the keys and events of etcd: all make the same of them. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
require('../../lib/index.js');
const { Keys, base64, base64Json } = require('../../lib/cluster/engines/etcd/keys.js');
const { QueueCache } = require('../../lib/cluster/engines/etcd/queue-cache.js');
const { valuesOf } = require('../helpers/locks.js');
const { entriesOf, isHeldBehind } = require('../../lib/cluster/engines/etcd/queue.js');

const LEASE = '0000000000000001';
const OTHER = '0000000000000002';

const keys = new Keys('bucket');

/** A session that follows a name, whose queue was read at revision 1. */
function stage(kvs = []) {
  const told = [];
  const queueCache = new QueueCache(keys, LEASE, {
    granted: ({ ref, token }) => told.push(['granted', ref, token]),
    stolen: (ref, thief) => told.push(['stolen', ref, thief]),
    gone: (ref) => told.push(['gone', ref]),
    freed: () => told.push(['freed']),
    dead: () => told.push(['dead']),
  });
  const prefix = keys.queue('a');
  queueCache.follow(prefix);
  queueCache.load(prefix, kvs, 1);
  /** Its own requests, as its steps know them. */
  const own = (...events) => {
    const all = events.map(({ kv }) => kv);
    for (const entry of entriesOf(all, keys)) queueCache.addOwn(entry);
  };
  return { queueCache, own, prefix, told };
}

const op = (ref, more = {}) => ({
  kind: 'request',
  ref,
  name: 'a',
  mode: 'exclusive',
  limit: 0,
  weight: 0,
  label: '',
  ...more,
});
const units = (ref, weight, limit = 3) => op(ref, { mode: 'shared', limit, weight });

/** A key of etcd, made and changed at a revision. */
const kvOf = (key, value, revision) => ({
  key: base64(key),
  value,
  create_revision: String(revision),
  mod_revision: String(revision),
});
const made = (request, revision, lease = LEASE, slot = request.ref) => ({
  kv: kvOf(keys.request(request, lease, slot), keys.value(request, 'thief'), revision),
});
const gone = (request, revision, lease = LEASE, slot = request.ref) => ({
  type: 'DELETE',
  kv: { key: base64(keys.request(request, lease, slot)), mod_revision: String(revision) },
});
const stolen = (ref, thief, revision) => ({
  kv: kvOf(keys.stolen(LEASE, ref), base64Json(thief), revision),
});

test('of what one transaction has made the least ref is the first', () => {
  const { queueCache, own, told } = stage();
  const all = [made(op(2), 5), made(op(1), 5), made(op(3), 5)];
  own(...all);
  queueCache.apply(all);
  assert.deepEqual(told, [['granted', 1, 5n]]);
  queueCache.apply([gone(op(1), 6)]);
  assert.deepEqual(told.slice(1), [
    ['gone', 1],
    ['granted', 2, 6n],
  ]);
});

test('the key of a request that is gone is had by others from the next step on', () => {
  const { mine, slots } = stage().queueCache;
  const all = (...refs) => refs.map((ref) => slots.slotOf(ref));
  slots.recycle(mine);
  assert.deepEqual(all(1, 2, 3), [0, 1, 2]);
  // The second one was not made. The first is stolen, while what comes is planned.
  for (const ref of [1, 3]) mine.set(ref, {});
  slots.recycle(mine);
  mine.delete(1);
  slots.free(1);
  assert.deepEqual(all(4, 1, 5), [1, 0, 3]);
  mine.set(4, {});
  slots.recycle(mine);
  assert.deepEqual(new Set(all(6, 7)), new Set([0, 3]));
  // What is told again changes nothing.
  slots.free(1);
  slots.recycle({ has: () => true });
  assert.equal(new Set(all(3, 4, 6, 7, 8)).size, 5);
});

test('a request is not taken for the one that had its key before', () => {
  const { queueCache, own, told } = stage();
  own(made(op(1), 5));
  queueCache.apply([made(op(1), 5)]);
  assert.deepEqual(told, [['granted', 1, 5n]]);
  // It was stolen, and given back, and asked for again, before the watch has told any of that.
  queueCache.forget(1);
  own(made(op(2), 7, LEASE, 1));
  assert.equal(queueCache.mine.get(2).created, 7);
  queueCache.apply([
    gone(op(1), 6),
    made(op(9, { kind: 'steal' }), 6, OTHER),
    stolen(1, 'thief', 6),
  ]);
  queueCache.apply([made(op(2), 7, LEASE, 1)]);
  assert.deepEqual(told.slice(1), [['stolen', 1, 'thief']]);
  queueCache.apply([gone(op(9, { kind: 'steal' }), 8, OTHER)]);
  assert.deepEqual(told.slice(2), [['granted', 2, 8n]]);
  assert.equal(queueCache.mine.get(2).token, 8n);
});

test('what is read anew leaves known locks their tokens, and tells what was granted', () => {
  const { queueCache, own, prefix, told } = stage();
  own(made(op(1), 5), made(op(2), 6));
  queueCache.apply([made(op(1), 5)]);
  queueCache.apply([made(op(2), 6)]);
  queueCache.suspend();
  queueCache.load(prefix, [made(op(1), 5).kv, made(op(2), 6).kv], 9);
  assert.deepEqual(told, [['granted', 1, 5n]]);
  assert.equal(queueCache.mine.get(1).token, 5n);
  queueCache.suspend();
  queueCache.load(prefix, [made(op(2), 6).kv], 12);
  assert.deepEqual(told.slice(1), [['granted', 2, 12n]]);
  assert.equal(queueCache.mine.get(2).token, 12n);
});

test('what comes before a queue was read is taken in after it', () => {
  const { queueCache, own, prefix, told } = stage();
  own(made(op(3), 6));
  queueCache.suspend();
  queueCache.apply([made(op(1), 4, OTHER)]);
  queueCache.apply([gone(op(1), 8, OTHER)]);
  assert.equal(queueCache.queue('a'), undefined);
  queueCache.load(prefix, [made(op(1), 4, OTHER).kv, made(op(3), 6).kv], 7);
  assert.deepEqual(told, [['granted', 3, 8n]]);
});

test('a queue is as its own stream tells, and no other one', () => {
  const { queueCache, own, prefix, told } = stage();
  const [before, after] = [{}, {}];
  queueCache.follow(prefix, before);
  assert.equal(queueCache.load(prefix, [], 3, before), true);
  own(made(op(1), 5));
  // It is ahead: what was made before its watch began it does not tell.
  queueCache.apply([gone(op(8), 6, OTHER)], after);
  queueCache.apply([made(op(9), 4, OTHER)], before);
  queueCache.apply([made(op(1), 5)], before);
  assert.deepEqual(told, []);
  // What was read for a stream that is gone tells nothing, either.
  queueCache.follow(prefix, after);
  queueCache.load(prefix, [made(op(1), 5).kv], 7, before);
  assert.equal(queueCache.queue('a'), undefined);
  queueCache.load(prefix, [made(op(9), 4, OTHER).kv, made(op(1), 5).kv], 6, after);
  queueCache.apply([gone(op(9), 8, OTHER)], after);
  assert.deepEqual(told, [['granted', 1, 8n]]);
});

test('as long as the first that waits is behind holders that are there nobody is granted', () => {
  const { queueCache, own } = stage();
  const keysOf = () => queueCache.obstacles.map(({ ref }) => ref);
  const all = [1, 2, 3, 4].map((ref) => made(units(ref, 1), ref + 1, OTHER));
  queueCache.apply(all);
  assert.deepEqual(keysOf(), []);
  own(made(units(5, 1), 6));
  queueCache.apply([made(units(5, 1), 6)]);
  assert.deepEqual(keysOf(), [4, 1, 2, 3]);
  queueCache.apply([gone(units(2, 1), 7, OTHER)]);
  assert.deepEqual(keysOf(), [5, 1, 3, 4]);
});

test('it is known of a time before the end of a quarantine that it was one', () => {
  const { queueCache } = stage();
  assert.ok(!queueCache.wasQuarantined(1));
  queueCache.quarantine = 'lease';
  assert.ok(queueCache.wasQuarantined(9));
  queueCache.endQuarantine(7);
  assert.ok(queueCache.wasQuarantined(6));
  assert.ok(!queueCache.wasQuarantined(7));
});

test('a request that the watch tells of before its step does is the same', () => {
  const { queueCache, own, told } = stage();
  queueCache.apply([made(op(1), 4, OTHER)]);
  queueCache.apply([made(op(2), 5)]);
  own(made(op(2), 5));
  queueCache.apply([gone(op(1), 6, OTHER)]);
  assert.deepEqual(told, [['granted', 2, 6n]]);
  assert.equal(queueCache.mine.get(2).token, 6n);
});

test('an event that is known already changes nothing', () => {
  const { queueCache, own, told } = stage();
  own(made(op(1), 5));
  queueCache.apply([made(op(1), 5)]);
  queueCache.apply([gone(op(1), 6)]);
  own(made(op(1), 7));
  queueCache.apply([made(op(1), 7)]);
  queueCache.apply([gone(op(1), 6)]);
  assert.deepEqual(
    told.map(([what]) => what),
    ['granted', 'gone', 'granted'],
  );
  assert.equal(queueCache.queue('a').held, 1);
});

test('a thief comes before all who wait, and the robbed hear once who it is', () => {
  const { queueCache, own, told } = stage();
  const theft = op(1, { kind: 'steal' });
  own(made(op(1), 3), made(op(2), 4));
  queueCache.apply([made(op(1), 3)]);
  queueCache.apply([made(op(2), 4)]);
  queueCache.apply([gone(op(1), 5), made(theft, 5, OTHER)]);
  queueCache.apply([stolen(1, 'thief', 5)]);
  queueCache.apply([stolen(1, 'thief', 5)]);
  assert.deepEqual(told, [
    ['granted', 1, 3n],
    ['stolen', 1, 'thief'],
  ]);
  assert.deepEqual([...queueCache.mine.keys()], [2]);
  assert.deepEqual(valuesOf([...queueCache.queue('a').entries.values()], 'kind', 'token'), [
    ['a', 5n],
    ['b', 0n],
  ]);
});

test('who was robbed hears that before it is granted the name again, whatever comes first', () => {
  const { queueCache, own, told } = stage();
  const theft = op(1, { kind: 'steal' });
  own(made(op(1), 3), made(op(2), 4));
  queueCache.apply([made(op(1), 3)]);
  queueCache.apply([made(op(2), 4)]);
  queueCache.apply([gone(op(1), 5), made(theft, 5, OTHER)]);
  queueCache.apply([gone(theft, 6, OTHER)]);
  queueCache.apply([stolen(1, 'thief', 5)]);
  assert.deepEqual(told, [
    ['granted', 1, 3n],
    ['stolen', 1, 'thief'],
    ['granted', 2, 6n],
  ]);
});

test('units are held up to the limit, and what fits does not overtake what does not', () => {
  const { queueCache, own, told } = stage();
  const all = [made(units(1, 2), 3), made(units(2, 2), 4), made(units(3, 1), 5)];
  own(...all);
  for (const event of all) queueCache.apply([event]);
  assert.deepEqual(told, [['granted', 1, 3n]]);
  const queue = queueCache.queue('a').entries.values();
  assert.equal(isHeldBehind(queue, { kind: 'c', limit: 3, weight: 1 }), false);
  queueCache.apply([gone(units(1, 2), 6)]);
  assert.deepEqual(told.slice(2), [
    ['granted', 2, 6n],
    ['granted', 3, 6n],
  ]);
});

test('the end of a quarantine grants nothing before queues are read as of then', () => {
  const { queueCache, own, prefix, told } = stage();
  queueCache.quarantine = 'lease';
  own(made(op(1), 3));
  queueCache.apply([made(op(1), 3)]);
  const kv = kvOf(keys.quarantine, '', 6);
  queueCache.apply([{ type: 'DELETE', kv }]);
  assert.deepEqual(told, [['freed']]);
  // A thief may have come meanwhile.
  assert.equal(queueCache.load(prefix, [made(op(1), 3).kv], 5), false);
  const theft = made(op(9, { kind: 'steal' }), 5, OTHER);
  assert.equal(queueCache.load(prefix, [theft.kv, made(op(1), 3).kv], 7), true);
  assert.deepEqual(told, [['freed']]);
  queueCache.apply([gone(op(9, { kind: 'steal' }), 8, OTHER)]);
  assert.deepEqual(told.slice(1), [['granted', 1, 8n]]);
});

test('a name that nobody waited for between two renewals is followed no more', () => {
  const { queueCache, own, prefix } = stage();
  own(made(op(1), 3));
  queueCache.prune();
  queueCache.prune();
  queueCache.mine.clear();
  queueCache.prune();
  assert.deepEqual(queueCache.followed, [prefix]);
  queueCache.prune();
  assert.deepEqual(queueCache.followed, []);
});

test('who waits for what a step has done is told when a name is followed no more', async () => {
  const { queueCache } = stage();
  queueCache.prune();
  queueCache.prune();
  let isReached = false;
  // The step is answered, and its events have not come.
  const reached = queueCache.waitForRevision('a', 9).then(() => {
    isReached = true;
  });
  queueCache.prune();
  assert.deepEqual(queueCache.followed, []);
  await Promise.race([reached, new Promise(setImmediate)]);
  assert.ok(isReached);
});

test('to read many names again, each is looked at once', () => {
  let looks = 0;
  class CountedKeys extends Keys {
    queue(name) {
      looks++;
      return super.queue(name);
    }
  }
  const counted = new CountedKeys('bucket');
  const listener = { granted() {}, stolen() {}, gone() {}, freed() {}, dead() {} };
  const queueCache = new QueueCache(counted, LEASE, listener);
  const names = Array.from({ length: 100 }, (_, i) => `name ${i}`);
  const found = new Map();
  for (const [i, name] of names.entries()) {
    const prefix = keys.queue(name);
    queueCache.follow(prefix);
    const { kv } = made(op(i + 1, { name }), 2);
    for (const entry of entriesOf([kv], keys)) queueCache.addOwn(entry);
    found.set(prefix, [kv]);
  }
  looks = 0;
  assert.deepEqual(queueCache.loadAll(found, 3), []);
  assert.ok(looks <= 5 * names.length, `${looks} looks`);
});

test('keys are in the order of the numbers in them', () => {
  const refs = [9, 10, 2 ** 53 - 1].map((ref) => keys.stolen(LEASE, ref));
  assert.deepEqual(refs.toSorted(), refs);
  const limits = [9, 10, 2 ** 31 - 1].map((limit) => keys.shared('a', limit));
  assert.deepEqual(limits.toSorted(), limits);
});
