'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { requestsOf } = require('../../lib/profile/requests.js');
const { END, LEAST, Ring, START } = require('../../lib/profile/ring.js');

const PENDING = 2;

/** Records exclusive requests for a name; each is what a ring has of its times. */
function recorded(...requests) {
  const ring = Ring.create(LEAST);
  requests.forEach(({ asked, flags, waited, held }, number) => {
    ring.write(START, [number, asked, asked + waited, flags, 1, -1, 0, 0], 'a');
    ring.write(END, [number, 1, waited, held]);
  });
  return requestsOf([{ thread: { id: 0 }, words: ring.read().words, end: 100 }]);
}

describe('who blocked a request', () => {
  it('is who held when it was made', () => {
    const [holder, waiter] = recorded(
      { asked: 0, flags: 0, waited: 1, held: 10 },
      { asked: 5, flags: PENDING, waited: 7, held: 1 },
    );
    assert.deepEqual(waiter.blockers, [holder]);
  });

  it('is the request that was granted next, if none had heard of its grant', () => {
    const [, next, waiter] = recorded(
      { asked: 0, flags: 0, waited: 1, held: 3 },
      { asked: 2, flags: PENDING, waited: 4, held: 2 },
      { asked: 5, flags: PENDING, waited: 4, held: 1 },
    );
    assert.deepEqual(waiter.blockers, [next]);
  });

  it('is who released last, if nobody else can be', () => {
    const [, last, waiter] = recorded(
      { asked: 0, flags: 0, waited: 1, held: 1 },
      { asked: 3, flags: 0, waited: 1, held: 1 },
      { asked: 5.5, flags: PENDING, waited: 1, held: 1 },
    );
    assert.deepEqual(waiter.blockers, [last]);
  });
});
