'use strict';

/** What a process makes of the keys and events of etcd: all make the same of them. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
require('../../lib/index.js');
const { Keys, base64, base64Json } = require('../../lib/cluster/engines/etcd/keys.js');
const { Mirror } = require('../../lib/cluster/engines/etcd/mirror.js');

const LEASE = '0000000000000001';
const OTHER = '0000000000000002';

const keys = new Keys('bucket');

function stage() {
  const told = [];
  const mirror = new Mirror(keys, LEASE, {
    made: () => {},
    granted: (ref, token) => told.push(['granted', ref, token]),
    stolen: (ref, thief) => told.push(['stolen', ref, thief]),
    gone: (ref) => told.push(['gone', ref]),
    dead: () => told.push(['dead']),
  });
  return { mirror, told };
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
const made = (request, revision, lease = LEASE) => ({
  kv: kvOf(keys.request(request, lease), keys.value(request), revision),
});
const gone = (request, revision, lease = LEASE) => ({
  type: 'DELETE',
  kv: { key: base64(keys.request(request, lease)), mod_revision: String(revision) },
});
const session = (lease, clientId, revision) => ({
  kv: kvOf(keys.session(lease), base64Json({ clientId }), revision),
});

test('of what one transaction has made the least ref is the first', () => {
  const { mirror, told } = stage();
  mirror.apply([made(op(2), 5), made(op(1), 5), made(op(3), 5)]);
  assert.deepEqual(told, [['granted', 1, 5n]]);
  mirror.apply([gone(op(1), 6)]);
  assert.deepEqual(told.slice(1), [
    ['gone', 1],
    ['granted', 2, 6n],
  ]);
});

test('all that is read anew leaves known locks their tokens, and tells nothing', () => {
  const { mirror, told } = stage();
  mirror.apply([made(op(1), 5)]);
  told.length = 0;
  const others = op(2, { name: 'b' });
  mirror.load([made(op(1), 5).kv, made(others, 7).kv], 9);
  assert.deepEqual(told, []);
  assert.equal(mirror.mine.get(1).token, 5n);
  assert.equal(mirror.mine.get(2).token, 9n);
  assert.equal(mirror.revision, 9);
});

test('an event that is known already changes nothing', () => {
  const { mirror, told } = stage();
  mirror.apply([made(op(1), 5)]);
  mirror.apply([gone(op(1), 6)]);
  mirror.apply([made(op(1), 7)]);
  mirror.apply([gone(op(1), 6)]);
  assert.deepEqual(
    told.map(([what]) => what),
    ['granted', 'gone', 'granted'],
  );
  assert.equal(mirror.queue('a').held, 1);
});

test('a thief comes before all who wait, and the robbed hear who it is', () => {
  const { mirror, told } = stage();
  const theft = op(1, { kind: 'steal' });
  mirror.apply([session(OTHER, 'thief', 2)]);
  mirror.apply([made(op(1), 3)]);
  mirror.apply([made(op(2), 4)]);
  mirror.apply([gone(op(1), 5), made(theft, 5, OTHER)]);
  assert.deepEqual(told, [
    ['granted', 1, 3n],
    ['stolen', 1, 'thief'],
  ]);
  assert.deepEqual(
    [...mirror.queue('a').entries.values()].map(({ kind, token }) => [kind, token]),
    [
      ['a', 5n],
      ['b', 0n],
    ],
  );
});

test('units are held up to the limit, and what fits does not overtake what does not', () => {
  const { mirror, told } = stage();
  mirror.apply([made(units(1, 2), 3)]);
  mirror.apply([made(units(2, 2), 4)]);
  mirror.apply([made(units(3, 1), 5)]);
  assert.deepEqual(told, [['granted', 1, 3n]]);
  assert.equal(mirror.queue('a').fits({ kind: 'c', limit: 3, weight: 1 }, false), false);
  mirror.apply([gone(units(1, 2), 6)]);
  assert.deepEqual(told.slice(2), [
    ['granted', 2, 6n],
    ['granted', 3, 6n],
  ]);
});

test('keys are in the order of the numbers in them', () => {
  const refs = [9, 10, 2 ** 53 - 1].map((ref) => keys.request(op(ref), LEASE));
  assert.deepEqual(refs.toSorted(), refs);
  const limits = [9, 10, 2 ** 31 - 1].map((limit) => keys.shared('a', limit));
  assert.deepEqual(limits.toSorted(), limits);
});
