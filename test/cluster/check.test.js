'use strict';

/** The judge of histories sees what is wrong. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { check } = require('./check.js');

const request = (id, called, granted, ended, token, more = {}) => [
  {
    type: 'call',
    id,
    client: id,
    name: 'a',
    mode: 'exclusive',
    kind: 'wait',
    time: called,
    ...more,
  },
  { type: 'granted', id, token, time: granted },
  { type: 'ended', id, time: ended },
  { type: 'settled', id, time: ended },
];
const told = (id, time, reason) => ({ type: 'told', id, time, reason });
const shared = (weight, limit) => ({ mode: 'shared', weight, limit });

const finds = (faults, pattern) => {
  assert.equal(faults.length, 1, faults.join('\n'));
  assert.match(faults[0], pattern);
};

test('data that its holder has not published, or that is older than was confirmed, is found', () => {
  const all = [...request('x', 0, 1, 50, 1n), ...request('y', 2, 51, 99, 2n)];
  const publish = (n, text, time) => ({ type: 'publish', id: 'x', n, text, time });
  const published = (n, time) => ({ type: 'published', id: 'x', n, time });
  const read = (text, asked, token = 1n) => {
    return { type: 'read', name: 'a', token, text, asked, time: asked + 5 };
  };
  const events = [...all, publish(1, 'a', 2), publish(2, 'b', 10), publish(3, undefined, 20)];
  const passes = (...more) => assert.deepEqual(check([...events, ...more]), []);
  const fails = (...more) => finds(check([...events, ...more]), /a query tells .* is confirmed/);
  passes(read(undefined, 0), read('a', 0), read('b', 5), read(undefined, 15), read('a', 30));
  passes(published(1, 4), read('b', 6), read('a', 6));
  passes(published(2, 12), read('b', 13), read(undefined, 16));
  passes(published(3, 22), read(undefined, 23));
  passes(published(2, 12), { type: 'forgot', time: 13 }, read('a', 14));
  fails(read('b', 0));
  fails(read('c', 30));
  fails(published(1, 4), read(undefined, 6));
  fails(published(2, 12), read('a', 13));
  fails(published(3, 22), read('b', 23));
  fails(read('a', 60, 2n));
  fails(read('a', 60, 3n));
});

test('a history in which all is well is passed', () => {
  const events = [...request('x', 0, 1, 5, 1n), ...request('y', 2, 6, 9, 2n)];
  assert.deepEqual(check(events, { within: 10, left: { rows: 0 } }), []);
});

test('two exclusive locks at a time are found', () => {
  finds(check([...request('x', 0, 1, 5, 1n), ...request('y', 2, 4, 9, 2n)]), /is held when/);
});

test('a loser that is told after the next is granted is found', () => {
  const events = [...request('x', 0, 1, 50, 1n), ...request('y', 2, 11, 20, 2n)];
  assert.deepEqual(check([...events, told('x', 10, 'expired')]), []);
  finds(check([...events, told('x', 12, 'expired')]), /is held when/);
});

test('who runs again too early, and who does not run though nobody has, are found', () => {
  const once = (id, called, ended, token, ran, more = {}) => [
    ...request(id, called, called + 1, ended, token, { keep: 100 })
      .filter(({ type }) => ran || type === 'call' || type === 'settled')
      .map((event) => (event.type === 'settled' ? { ...event, ran, ...more } : event)),
  ];
  const first = once('x', 0, 5, 1n, true);
  assert.deepEqual(check([...first, ...once('y', 6, 8, 2n, false)]), []);
  assert.deepEqual(check([...first, ...once('y', 106, 108, 2n, true)]), []);
  finds(check([...first, ...once('y', 90, 95, 2n, true)]), /runs, though/);
  const forgot = { type: 'forgot', time: 50 };
  assert.deepEqual(check([...first, forgot, ...once('y', 90, 95, 2n, true)]), []);
  finds(check([...first, ...once('y', 120, 125, 2n, false)]), /does not run, and nobody has/);
});

test('a lock of a process that stands still is not held meanwhile', () => {
  const events = [...request('x', 0, 1, 50, 1n), ...request('y', 2, 11, 20, 2n)];
  const stop = [
    { type: 'stopped', client: 'x', time: 5 },
    { type: 'resumed', client: 'x', time: 15 },
  ];
  const unheld = { type: 'unheld', id: 'x', time: 15 };
  assert.deepEqual(check([...events, ...stop, unheld]), []);
  finds(check([...events, ...stop, told('x', 16, 'expired')]), /is held when/);
});

test('more units than the limit are found', () => {
  const both = (limit) => [
    ...request('x', 0, 1, 5, 1n, shared(2, limit)),
    ...request('y', 0, 2, 5, 2n, shared(2, limit)),
  ];
  assert.deepEqual(check(both(4)), []);
  finds(check(both(3)), /4 of 3 units/);
});

test('a token that does not grow is found', () => {
  finds(check([...request('x', 0, 1, 2, 7n), ...request('y', 0, 3, 4, 6n)]), /comes after/);
});

test('who overtakes is found', () => {
  const events = [
    ...request('x', 0, 1, 2, 1n),
    ...request('y', 0, 3, 4, 2n),
    { type: 'ticket', id: 'x', ticket: 2, time: 0 },
    { type: 'ticket', id: 'y', ticket: 1, time: 0 },
  ];
  finds(check(events), /overtook/);
});

test('who overtakes one of his priority or more is found', () => {
  const events = (early, late, turns) => [
    ...request('x', 0, 1, 2, 1n, { priority: early }),
    ...request('y', 0, 3, 4, 2n, { priority: late }),
    { type: 'ticket', id: 'x', ticket: 2, turn: turns[0], time: 0 },
    { type: 'ticket', id: 'y', ticket: 1, turn: turns[1], time: 0 },
  ];
  assert.deepEqual(check(events(1, 0, [3, 4])), []);
  finds(check(events(-1, -1, [3, 4])), /x .*overtook y/);
  finds(check(events(0, 1, [3, 4])), /x .*overtook y/);
});

test('who is granted before one of more priority that waits is found', () => {
  const events = (ticket, turn) => [
    ...request('x', 0, 1, 2, 1n),
    ...request('y', 0, 3, 4, 2n, { priority: 1 }),
    { type: 'ticket', id: 'x', ticket: 1, turn, time: 0 },
    { type: 'ticket', id: 'y', ticket, turn: 4, time: 0 },
  ];
  finds(check(events(2, 3)), /x .*overtook y/);
  // It came when the other one was granted, or that is not known.
  assert.deepEqual(check(events(3, 2)), []);
  assert.deepEqual(check(events(2, undefined)), []);
});

test('a theft without a thief is found', () => {
  const events = [...request('x', 0, 1, 9, 1n), told('x', 5, 'stolen')];
  finds(check(events), /by nobody/);
  const thief = request('y', 4, 5, 6, 2n, { kind: 'steal' });
  assert.deepEqual(check([...events, ...thief]), []);
  const failed = (error) => [
    { type: 'call', id: 'z', client: 'z', name: 'a', mode: 'exclusive', kind: 'steal', time: -2 },
    { type: 'settled', id: 'z', error, time: -1 },
  ];
  finds(
    check([...events, ...failed('Error: The server did not execute the request within 2000 ms')]),
    /by nobody/,
  );
  const unknown = 'Error: The server did not say whether the lock was stolen: late';
  assert.deepEqual(check([...events, ...failed(unknown)]), []);
});

test('who has waited for the unlock while the lock was held is found', () => {
  const wait = (settled) => [
    { type: 'call', id: 'w', client: 'w', name: 'a', mode: 'exclusive', kind: 'pass', time: 2 },
    { type: 'settled', id: 'w', time: settled },
  ];
  assert.deepEqual(check([...request('x', 0, 1, 5, 1n), ...wait(6)]), []);
  finds(check([...request('x', 0, 1, 5, 1n), ...wait(4)]), /is held/);
});

test('who is refused though fewer wait than it allows is found', () => {
  const full = 'QuotaExceededError: a request is waiting already';
  const refused = [
    { ...request('x', 5)[0], maxPending: 1 },
    { type: 'settled', id: 'x', error: full, time: 6 },
  ];
  const before = request('y', 0, 1, 4, 1n);
  finds(check([...before, ...refused]), /x is refused, though 0 of 1 wait/);
  assert.deepEqual(check([...request('y', 0, 8, 9, 1n), ...refused]), []);
});

test('who has given up waits at the server for as long as a transaction guards the name', () => {
  const refused = [
    { ...request('x', 5)[0], maxPending: 1 },
    { type: 'settled', id: 'x', error: 'QuotaExceededError: a request is waiting', time: 6 },
  ];
  const aborted = [request('y', 0)[0], { type: 'settled', id: 'y', time: 1 }];
  const guard = (name) => [
    { type: 'guarded', name, time: 0 },
    { type: 'unguarded', name, time: 9 },
  ];
  assert.deepEqual(check([...guard('a'), ...aborted, ...refused]), []);
  finds(check([...guard('b'), ...aborted, ...refused]), /x is refused, though 0 of 1 wait/);
});

test('who never settles, and who waits too long, is found', () => {
  const [call] = request('x', 0, 1, 2, 1n);
  const faults = check([call], { within: 10 });
  assert.match(faults[0], /never settles/);
  const late = [...request('x', 0, 50, 51, 1n), { type: 'fault', time: 20 }];
  assert.deepEqual(check(late, { within: 30 }), []);
  finds(check(late, { within: 29 }), /waits 30 ms/);
});

test('R4: who waits while a transaction guards another name is found', () => {
  const guard = [
    { type: 'guarded', name: 'a', time: 0 },
    { type: 'unguarded', name: 'a', time: 40 },
  ];
  const waits = (more) => [...guard, ...request('x', 10, 50, 51, 1n, more)];
  assert.deepEqual(check(waits({}), { within: 10 }), []);
  finds(check(waits({}), { within: 9 }), /waits 10 ms/);
  finds(check(waits({ name: 'b' }), { within: 10 }), /waits 40 ms/);
});

test('who is refused by a store, and was not told, is found', () => {
  const events = [
    ...request('x', 0, 1, 9, 1n),
    ...request('y', 0, 10, 19, 2n),
    { type: 'write', id: 'y', name: 'a', token: 2n, time: 11 },
    { type: 'write', id: 'x', name: 'a', token: 1n, time: 12 },
  ];
  finds(check(events), /was not told/);
});

test('who is refused by a store after a theft that it has not heard of is not', () => {
  const late = { type: 'write', id: 'x', name: 'a', token: 1n };
  const events = (kind) => [
    ...request('x', 0, 1, 9, 1n),
    ...request('y', 5, 6, 7, 2n, { kind }),
    { type: 'write', id: 'y', name: 'a', token: 2n, time: 7 },
    { ...late, time: 8 },
  ];
  assert.deepEqual(check(events('steal')), []);
  assert.match(check(events('wait')).join(), /was not told/);
  const before = { type: 'write', id: 'y', name: 'a', token: 2n, time: 3 };
  finds(check([...events('steal'), before, { ...late, time: 4 }]), /was not told/);
});

test('what is left is found', () => {
  finds(check([], { left: { rows: 2, timers: 0 } }), /2 rows left/);
});
