'use strict';

/** The judge of histories finds what is wrong. model.test.js shows that it accepts the rest. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { check } = require('./check.js');

/** The events of a request. */
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
const call = (id, time, more) => request(id, time, 0, 0, 0n, more)[0];
const settled = (id, time, more = {}) => ({ type: 'settled', id, time, ...more });
const lost = (id, time, reason) => ({ type: 'told', id, time, reason });
const ticket = (id, number, turn) => ({ type: 'ticket', id, ticket: number, turn, time: 0 });
const write = (id, token, time) => ({ type: 'write', id, name: 'a', token, time });
const guard = (name, from, to) => [
  { type: 'guarded', name, time: from },
  { type: 'unguarded', name, time: to },
];

const x = request('x', 0, 1, 5, 1n);
const later = [...request('x', 0, 1, 50, 1n), ...request('y', 2, 11, 20, 2n)];

/** Two requests with these tickets, granted one after the other. */
const ordered = ([ofX, ofY], [priorityOfX, priorityOfY], turns = []) => [
  ...request('x', 0, 1, 2, 1n, { priority: priorityOfX }),
  ...request('y', 0, 3, 4, 2n, { priority: priorityOfY }),
  ticket('x', ofX, turns[0]),
  ticket('y', ofY, turns[1]),
];

const shared = { mode: 'shared', weight: 2, limit: 3 };

const stolen = [...request('x', 0, 1, 9, 1n), lost('x', 5, 'stolen')];
const failedTheft = [
  call('z', -2, { kind: 'steal' }),
  settled('z', -1, { error: 'Error: The server did not execute the request within 2000 ms' }),
];

/** A call of `once` that runs. */
const once = (id, called, token) => [
  call(id, called, { keep: 100 }),
  ...request(id, called, called + 1, called + 5, token).slice(1, 3),
  settled(id, called + 5, { ran: true }),
];

const refused = [
  call('x', 5, { maxPending: 1 }),
  settled('x', 6, { error: 'QuotaExceededError: a request is waiting already' }),
];

/** For each fault, a part of the judge's description, and histories. */
const CASES = {
  'two exclusive locks at a time': [/is held when/, [...x, ...request('y', 2, 4, 9, 2n)]],
  'a loss that is reported after the next grant': [
    /is held when/,
    [...later, lost('x', 12, 'expired')],
  ],
  'a lock that a process holds again after it stood still': [
    /is held when/,
    [
      ...later,
      { type: 'stopped', client: 'x', time: 5 },
      { type: 'resumed', client: 'x', time: 15 },
      lost('x', 16, 'expired'),
    ],
  ],
  'more units than the limit': [
    /4 of 3 units/,
    [...request('x', 0, 1, 5, 1n, shared), ...request('y', 0, 2, 5, 2n, shared)],
  ],
  'a token that does not grow': [
    /comes after/,
    [...request('x', 0, 1, 2, 7n), ...request('y', 0, 3, 4, 6n)],
  ],
  'a request that overtakes one of its priority or more': [
    /x .*overtook y/,
    ordered([2, 1], [0, 0]),
    ordered([2, 1], [-1, -1], [3, 4]),
    ordered([2, 1], [0, 1], [3, 4]),
  ],
  'a grant while a request of more priority waits': [
    /x .*overtook y/,
    ordered([1, 2], [0, 1], [3, 4]),
  ],
  'a theft without a thief': [
    /by nobody/,
    stolen,
    [...stolen, ...failedTheft],
    [...stolen, ...request('y', 6, 7, 8, 2n, { kind: 'steal' })],
  ],
  'a function that runs again before its mark is over': [
    /runs, though/,
    [...once('x', 0, 1n), ...once('y', 90, 2n)],
  ],
  'a function that does not run although there is no mark': [
    /does not run, and nobody has/,
    [...once('x', 0, 1n), call('y', 120, { keep: 100 }), settled('y', 125, { ran: false })],
  ],
  'a wait for the unlock that ends while the lock is held': [
    /has waited for the unlock/,
    [...x, call('w', 2, { kind: 'pass' }), settled('w', 4)],
  ],
  'a refusal although fewer requests wait than are allowed': [
    /x is refused, though 0 of 1 wait/,
    [...request('y', 0, 1, 4, 1n), ...refused],
    // An aborted request waits at the server only while a transaction guards its name.
    [...guard('b', 0, 9), call('y', 0), settled('y', 1), ...refused],
  ],
  'a request that never settles': [/x never settles\n.* waits Infinity ms/, [call('x', 0)]],
  'a request that waits for too long after the last fault': [
    /waits 30 ms/,
    [...request('x', 0, 50, 51, 1n), { type: 'fault', time: 20 }],
  ],
  'R4: a request that waits because a transaction guards another name': [
    /waits 40 ms/,
    [...guard('a', 0, 40), ...request('x', 10, 50, 51, 1n, { name: 'b' })],
  ],
  'a refused write of a holder that was not notified of its loss': [
    /was not notified/,
    [...later, write('y', 2n, 12), write('x', 1n, 13)],
  ],
};

for (const [what, [finds, ...histories]] of Object.entries(CASES)) {
  test(`the judge finds ${what}`, () => {
    for (const events of histories) assert.match(check(events, { within: 3 }).join('\n'), finds);
  });
}

test('the judge finds what is left', () => {
  assert.deepEqual(check([], { left: { rows: 2, timers: 0 } }), ['2 rows left']);
});

test('the judge finds data that was not published, or is older than confirmed data', () => {
  const publish = (n, text, time) => ({ type: 'publish', id: 'x', n, text, time });
  const published = (n, time) => ({ type: 'published', id: 'x', n, time });
  const read = (text, asked, token = 1n) => {
    return { type: 'read', name: 'a', token, text, asked, time: asked + 5 };
  };
  const events = [...later, publish(1, 'a', 2), publish(2, 'b', 10), publish(3, undefined, 20)];
  for (const more of [
    [read('b', 0)],
    [read('c', 30)],
    [published(1, 4), read(undefined, 6)],
    [published(2, 12), read('a', 13)],
    [published(3, 22), read('b', 23)],
    [read('a', 60, 2n)],
    [read('a', 60, 3n)],
  ]) {
    const faults = check([...events, lost('x', 10, 'expired'), ...more]);
    assert.equal(faults.length, 1, faults.join('\n'));
    assert.match(faults[0], /a query tells .* is confirmed/);
  }
});
