'use strict';

/** The judge of histories accepts what is right, and finds what is wrong. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { check } = require('./check.js');

/** A request, from its call to its end. */
const request = (id, called, granted, ended, token, more = {}) => [
  {
    ...{ type: 'call', id, client: id, name: 'a', mode: 'exclusive', kind: 'wait' },
    ...more,
    time: called,
  },
  { type: 'granted', id, token, time: granted },
  { type: 'ended', id, time: ended },
  { type: 'settled', id, time: ended },
];
const call = (...args) => request(...args)[0];
const settled = (id, time, more = {}) => ({ type: 'settled', id, time, ...more });
const lost = (id, time, reason) => ({ type: 'told', id, time, reason });
const ticket = (id, number, turn) => ({ type: 'ticket', id, ticket: number, turn, time: 0 });
const write = (id, token, time) => ({ type: 'write', id, name: 'a', token, time });
const guard = (name, from, to) => [
  { type: 'guarded', name, time: from },
  { type: 'unguarded', name, time: to },
];

const x = request('x', 0, 1, 5, 1n);
const longX = request('x', 0, 1, 50, 1n);
const laterY = request('y', 2, 11, 20, 2n);

const units = (limit) => [
  ...request('x', 0, 1, 5, 1n, { mode: 'shared', weight: 2, limit }),
  ...request('y', 0, 2, 5, 2n, { mode: 'shared', weight: 2, limit }),
];

const stop = [
  { type: 'stopped', client: 'x', time: 5 },
  { type: 'resumed', client: 'x', time: 15 },
];

/** Two requests of which the one that came later was granted first. */
const overtaking = (early, late, turns = []) => [
  ...request('x', 0, 1, 2, 1n, { priority: early }),
  ...request('y', 0, 3, 4, 2n, { priority: late }),
  ticket('x', 2, turns[0]),
  ticket('y', 1, turns[1]),
];

/** A request of more priority, which came as the last but is granted behind the other one. */
const urgent = (number, turn) => [
  ...request('x', 0, 1, 2, 1n),
  ...request('y', 0, 3, 4, 2n, { priority: 1 }),
  ticket('x', 1, turn),
  ticket('y', number, 4),
];

const robbed = [...request('x', 0, 1, 9, 1n), lost('x', 5, 'stolen')];
const failedTheft = (error) => [
  call('z', -2, 0, 0, 0n, { kind: 'steal' }),
  settled('z', -1, { error }),
];

/** A call of `once`, which ran or did not. */
const once = (id, called, ran) => [
  call(id, called, 0, 0, 0n, { keep: 100 }),
  ...(ran ? request(id, called, called + 1, called + 5, BigInt(called + 1)).slice(1, 3) : []),
  settled(id, called + 5, { ran }),
];

const wait = (end) => [call('w', 2, 0, 0, 0n, { kind: 'pass' }), settled('w', end)];

const refused = [
  call('x', 5, 0, 0, 0n, { maxPending: 1 }),
  settled('x', 6, { error: 'QuotaExceededError: a request is waiting already' }),
];
const aborted = [call('y', 0), settled('y', 1)];

const guarded = (more) => [...guard('a', 0, 40), ...request('x', 10, 50, 51, 1n, more)];

/** A holder whose lock was granted again to `y`, which writes before it does. */
const lateWrite = (kind) => [
  ...request('x', 0, 1, 9, 1n),
  ...request('y', 5, 6, 7, 2n, { kind }),
  write('y', 2n, 7),
  write('x', 1n, 8),
];

/** What the judge finds, the histories that it accepts, and those in which it finds it. */
const CASES = {
  'two exclusive locks at a time': {
    accepts: [[...x, ...request('y', 2, 6, 9, 2n)]],
    finds: /is held when/,
    in: [[...x, ...request('y', 2, 4, 9, 2n)]],
  },
  'a loss that is reported after the next grant': {
    accepts: [[...longX, ...laterY, lost('x', 10, 'expired')]],
    finds: /is held when/,
    in: [[...longX, ...laterY, lost('x', 12, 'expired')]],
  },
  'a lock that a process holds again after it stood still': {
    accepts: [[...longX, ...laterY, ...stop, { type: 'unheld', id: 'x', time: 15 }]],
    finds: /is held when/,
    in: [[...longX, ...laterY, ...stop, lost('x', 16, 'expired')]],
  },
  'more units than the limit': { accepts: [units(4)], finds: /4 of 3 units/, in: [units(3)] },
  'a token that does not grow': {
    finds: /comes after/,
    in: [[...request('x', 0, 1, 2, 7n), ...request('y', 0, 3, 4, 6n)]],
  },
  'a request that overtakes one of its priority or more': {
    accepts: [overtaking(1, 0, [3, 4])],
    finds: /x .*overtook y/,
    in: [overtaking(0, 0), overtaking(-1, -1, [3, 4]), overtaking(0, 1, [3, 4])],
  },
  'a grant while a request of more priority waits': {
    // It came when the other one was granted, or that is not known.
    accepts: [urgent(3, 2), urgent(2, undefined)],
    finds: /x .*overtook y/,
    in: [urgent(2, 3)],
  },
  'a theft without a thief': {
    accepts: [
      [...robbed, ...request('y', 4, 5, 6, 2n, { kind: 'steal' })],
      [
        ...robbed,
        ...failedTheft('Error: The server did not say whether the lock was stolen: late'),
      ],
    ],
    finds: /by nobody/,
    in: [robbed, [...robbed, ...failedTheft('Error: The server did not execute the request')]],
  },
  'a function that runs once more before its mark is over': {
    accepts: [
      [...once('x', 0, true), ...once('y', 106, true)],
      [...once('x', 0, true), { type: 'forgot', time: 50 }, ...once('y', 90, true)],
    ],
    finds: /runs, though/,
    in: [[...once('x', 0, true), ...once('y', 90, true)]],
  },
  'a function that does not run although there is no mark': {
    accepts: [[...once('x', 0, true), ...once('y', 6, false)]],
    finds: /does not run, and nobody has/,
    in: [[...once('x', 0, true), ...once('y', 120, false)]],
  },
  'a wait for the unlock that ends while the lock is held': {
    accepts: [[...x, ...wait(6)]],
    finds: /is held/,
    in: [[...x, ...wait(4)]],
  },
  'a refusal although fewer requests wait than are allowed': {
    accepts: [
      [...request('y', 0, 8, 9, 1n), ...refused],
      // A withdrawn request waits at the server for as long as a transaction guards the name.
      [...guard('a', 0, 9), ...aborted, ...refused],
    ],
    finds: /x is refused, though 0 of 1 wait/,
    in: [
      [...request('y', 0, 1, 4, 1n), ...refused],
      [...guard('b', 0, 9), ...aborted, ...refused],
    ],
  },
  'a request that never settles': {
    within: Number.POSITIVE_INFINITY,
    finds: /never settles/,
    in: [[call('x', 0)]],
  },
  'a request that waits for too long after the last fault': {
    within: 29,
    accepts: [[...request('x', 0, 49, 51, 1n), { type: 'fault', time: 20 }]],
    finds: /waits 30 ms/,
    in: [[...request('x', 0, 50, 51, 1n), { type: 'fault', time: 20 }]],
  },
  'R4: a request that waits because a transaction guards another name': {
    within: 10,
    accepts: [guarded({})],
    finds: /waits 40 ms/,
    in: [guarded({ name: 'b' })],
  },
  'a refused write of a holder that was not told of its loss': {
    accepts: [lateWrite('steal')],
    finds: /was not told/,
    in: [
      [
        ...request('x', 0, 1, 9, 1n),
        ...request('y', 0, 10, 19, 2n),
        write('y', 2n, 11),
        write('x', 1n, 12),
      ],
      [...lateWrite('steal'), write('y', 2n, 3), write('x', 1n, 4)],
    ],
  },
  'rows that are left': { left: { rows: 2, timers: 0 }, finds: /2 rows left/, in: [[]] },
};

for (const [what, { accepts = [], finds, in: histories, ...options }] of Object.entries(CASES)) {
  test(`the judge finds ${what}`, () => {
    for (const events of accepts) assert.deepEqual(check(events, options), []);
    for (const events of histories) {
      const faults = check(events, options);
      assert.equal(faults.length, 1, faults.join('\n'));
      assert.match(faults[0], finds);
    }
  });
}

test('the judge finds data that was not published, or is older than confirmed data', () => {
  const publish = (n, text, time) => ({ type: 'publish', id: 'x', n, text, time });
  const published = (n, time) => ({ type: 'published', id: 'x', n, time });
  const read = (text, asked, token = 1n) => {
    return { type: 'read', name: 'a', token, text, asked, time: asked + 5 };
  };
  const events = [
    ...longX,
    ...request('y', 2, 51, 99, 2n),
    ...[publish(1, 'a', 2), publish(2, 'b', 10), publish(3, undefined, 20)],
  ];
  const passes = (...more) => assert.deepEqual(check([...events, ...more]), []);
  const fails = (...more) => {
    const faults = check([...events, ...more]);
    assert.equal(faults.length, 1, faults.join('\n'));
    assert.match(faults[0], /a query tells .* is confirmed/);
  };
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
