'use strict';

/** What a session makes of the keys and events of etcd, however they arrive. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const fc = require('fast-check');
require('../../lib/index.js');
const { Keys, base64, base64Json } = require('../../lib/cluster/engines/etcd/keys.js');
const { QueueCache } = require('../../lib/cluster/engines/etcd/queue-cache.js');
const { entriesOf, queueAsOf } = require('../../lib/cluster/engines/etcd/queue.js');

const LEASE = '0000000000000001';
const OTHER = '0000000000000002';

const keys = new Keys('bucket');

const load = (queueCache, prefix, kvs, revision, source) =>
  queueCache.loadAll(new Map([[prefix, kvs]]), revision, source).length === 0;

/** A session that follows a name, whose queue was read at revision 1. */
function stage() {
  const told = [];
  const queueCache = new QueueCache(keys, LEASE, {
    granted: (entry) => {
      const { ref, token } = entry;
      // The answer of its step tells what is granted before that.
      if (queueCache.mine.get(ref) === entry) told.push(['granted', ref, token]);
    },
    stolen: (ref, thief) => told.push(['stolen', ref, thief]),
    gone: (ref) => told.push(['gone', ref]),
    freed: () => told.push(['freed']),
    dead: () => told.push(['dead']),
  });
  const prefix = keys.queue('a');
  queueCache.follow(prefix);
  load(queueCache, prefix, [], 1);
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

/** By how many revisions a read and an event may be ahead of one another. */
const AHEAD = 3;

const change = fc.record({
  what: fc.constantFrom('exclusive', 'shared', 'shared', 'end', 'end', 'end', 'steal'),
  lease: fc.constantFrom(LEASE, OTHER),
  weight: fc.constantFrom(1, 2),
  pick: fc.nat(20),
});

const arrival = fc.record({
  isAnsweredFirst: fc.boolean(),
  isWatchedAnew: fc.constantFrom(false, false, true),
  isRead: fc.boolean(),
  isReadLate: fc.boolean(),
  ahead: fc.integer({ min: -AHEAD, max: AHEAD }),
  isOtherAhead: fc.boolean(),
  areNoticesDue: fc.boolean(),
});

const optionsOf = {
  exclusive: () => ({}),
  shared: (weight) => ({ mode: 'shared', limit: 3, weight }),
  steal: () => ({ kind: 'steal' }),
};

/** The revisions of a name: their events and notices, and the keys that there are after them. */
function historyOf(changes) {
  const history = [];
  const deleted = [];
  let rows = [];
  for (const [ref, { what, lease, weight, pick }] of changes.entries()) {
    const revision = ref + 2;
    const kvs = rows.map(({ kv }) => kv);
    const held = queueAsOf(kvs, keys, 1n, false).holders.map((entry) => entry.ref);
    const isGone =
      what === 'steal'
        ? (row) => held.includes(row.request.ref)
        : (row) => what === 'end' && row === rows[pick % rows.length];
    const over = rows.filter(isGone);
    const events = over.map((row) => gone(row.request, revision, row.lease, row.slot));
    const own = over.filter((row) => row.lease === LEASE).map(({ request }) => request.ref);
    rows = rows.filter((row) => !isGone(row));
    let answer;
    if (what !== 'end') {
      const request = op(ref, optionsOf[what](weight));
      // A key is used again when its session knows that its request is gone.
      const slots = [...rows, ...deleted].map(({ slot }) => slot);
      const slot = changes.findIndex((_, i) => !slots.includes(i));
      const { kv } = made(request, revision, lease, slot);
      rows.push({ request, lease, slot, kv });
      events.push({ kv });
      answer = lease === LEASE ? { kv } : undefined;
    }
    const notices = what === 'steal' ? own.map((one) => stolen(one, 'thief', revision)) : [];
    // Somebody may delete by hand what waits, and was answered before any read that shows that.
    const isOld = ({ request }) => request.ref < ref - AHEAD && !held.includes(request.ref);
    const isByHand = pick % 2 === 0 && over.every(isOld);
    if (isByHand) deleted.push(...over);
    const ended = what === 'end' && !isByHand ? own : [];
    history.push({ revision, events, answer, ended, notices, kvs: rows.map(({ kv }) => kv) });
  }
  return history;
}

/** The revision at which each own request was granted, and those that are there in the end. */
function truthOf(history) {
  const grants = new Map();
  let mine = new Map();
  for (const { kvs, revision } of history) {
    const entries = [...queueAsOf(kvs, keys, BigInt(revision), false).entries.values()];
    const own = entries.filter(({ lease }) => lease === LEASE);
    for (const { ref, token } of own) if (token && !grants.has(ref)) grants.set(ref, token);
    mine = new Map(own.map(({ ref, token }) => [ref, token > 0n]));
  }
  return { grants, mine };
}

/** What a session makes of a history that arrives in some way. */
function replay(history, arrivals) {
  const { queueCache, own, prefix, told } = stage();
  let source;
  let isLive = true;
  let begun = 0;
  let due = [];
  for (const [i, { answer, ended, events, notices }] of history.entries()) {
    const how = arrivals[i % arrivals.length];
    const isLast = i === history.length - 1;
    const earlier = source;
    if (how.isWatchedAnew) {
      source = {};
      isLive = false;
      begun = i;
      queueCache.suspend();
      queueCache.follow(prefix, source);
    }
    const isAnswered = () => {
      if (answer) own(answer);
      for (const ref of ended) queueCache.forget(ref);
    };
    if (how.isOtherAhead && !isLast) queueCache.apply(history[i + 1].events, {});
    if (how.isAnsweredFirst) isAnswered();
    queueCache.apply(events, source);
    if (!how.isAnsweredFirst) isAnswered();
    if (!isLive && (how.isRead || isLast)) {
      const at = Math.max(begun - 1, Math.min(i + how.ahead, history.length - 1));
      const { kvs, revision } = history[at] ?? { kvs: [], revision: 1 };
      isLive = load(queueCache, prefix, kvs, revision, source);
    }
    if (how.isReadLate) {
      // A read of before, for the stream of before or for this one, changes nothing.
      const { kvs, revision } = history[Math.max(0, i - AHEAD)];
      if (isLive || source !== earlier) load(queueCache, prefix, kvs, revision, earlier);
    }
    due.push(...notices);
    if (!how.areNoticesDue && !isLast) continue;
    queueCache.apply(due);
    due = [];
  }
  return { mine: queueCache.mine, told };
}

test('a session makes the same of a queue, however its events, reads and answers arrive', () => {
  const changes = fc.array(change, { minLength: 1, maxLength: 20, size: 'max' });
  const arrivals = fc.array(arrival, { minLength: 1, maxLength: 20, size: 'max' });
  const property = fc.property(changes, arrivals, (all, how) => {
    const history = historyOf(all);
    const truth = truthOf(history);
    const { mine, told } = replay(history, how);
    assert.deepEqual(new Map([...mine].map(([ref, { token }]) => [ref, token > 0n])), truth.mine);
    const refsOf = (kind) => told.filter(([what]) => what === kind).map(([, ref]) => ref);
    const thefts = history.flatMap(({ notices }) => notices.map(({ kv }) => kv.key));
    const robbed = refsOf('stolen').map((ref) => base64(keys.stolen(LEASE, ref)));
    assert.deepEqual(robbed.toSorted(), thefts.toSorted());
    assert.equal(new Set(refsOf('granted')).size, refsOf('granted').length);
    const held = [...mine.values()].filter(({ token }) => token > 0n);
    const byTruth = held.toSorted((a, b) =>
      Number(truth.grants.get(a.ref) - truth.grants.get(b.ref)),
    );
    for (const [i, { ref, token }] of byTruth.entries()) {
      assert.ok(token >= truth.grants.get(ref), 'a token is the revision of the grant, or later');
      assert.ok(i === 0 || token >= byTruth[i - 1].token, 'tokens are in the order of the grants');
    }
  });
  fc.assert(property, { numRuns: 500, seed: 20261126 });
});

test('the end of a quarantine grants nothing until the queues were read after it', () => {
  const { queueCache, own, prefix, told } = stage();
  queueCache.quarantine = 'lease';
  own(made(op(1), 3));
  queueCache.apply([made(op(1), 3)]);
  const kv = kvOf(keys.quarantine, '', 6);
  queueCache.apply([{ type: 'DELETE', kv }]);
  assert.deepEqual(told, [['freed']]);
  // A thief may have come meanwhile.
  assert.equal(load(queueCache, prefix, [made(op(1), 3).kv], 5), false);
  const theft = made(op(9, { kind: 'steal' }), 5, OTHER);
  assert.equal(load(queueCache, prefix, [theft.kv, made(op(1), 3).kv], 7), true);
  assert.deepEqual(told, [['freed']]);
  queueCache.apply([gone(op(9, { kind: 'steal' }), 8, OTHER)]);
  assert.deepEqual(told.slice(1), [['granted', 1, 8n]]);
});
