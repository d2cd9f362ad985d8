'use strict';

const assert = require('node:assert/strict');
const { it } = require('node:test');
const { requestsOf } = require('../../lib/profile/requests.js');
const { END, LEAST, Ring, START } = require('../../lib/profile/ring.js');

const PENDING = 2;

/** Records exclusive requests for a name, by what a ring has of each: `[asked, flags, waited, held]`. */
function recorded(requests) {
  const ring = Ring.create(LEAST);
  requests.forEach(([asked, flags, waited, held], number) => {
    ring.write(START, [number, asked, asked + waited, flags, 1, -1, 0, 0], 'a');
    ring.write(END, [number, 1, waited, held]);
  });
  return requestsOf([{ thread: { id: 0 }, words: ring.read().words, end: 100 }]);
}

for (const [title, blocker, ...requests] of [
  ['who held when it was made', 0, [0, 0, 1, 10], [5, PENDING, 7, 1]],
  [
    'the request that was granted next, if none had heard of its grant',
    ...[1, [0, 0, 1, 3], [2, PENDING, 4, 2], [5, PENDING, 4, 1]],
  ],
  [
    'who released last, if nobody else can be',
    ...[1, [0, 0, 1, 1], [3, 0, 1, 1], [5.5, PENDING, 1, 1]],
  ],
]) {
  it(`who blocked a request is ${title}`, () => {
    const all = recorded(requests);
    assert.deepEqual(all.at(-1).blockers, [all[blocker]]);
  });
}
