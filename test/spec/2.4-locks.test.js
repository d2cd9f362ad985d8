'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../helpers/scope.js');
const { FREE, freshName, hold, notCalled, stateOf } = require('../helpers/locks.js');

const fail = (reason) => {
  throw reason;
};

describe('2.4 Locks: the waiting promise and the released promise', () => {
  const resolving = {
    'a plain value': () => 7,
    'a promise': async () => 7,
    'a promise of a promise': async () => Promise.resolve(7),
    'a promise with a `then` of its own, which is not called': () =>
      Object.assign(Promise.resolve(7), { then: notCalled }),
    'a thenable': () => ({ then: (resolve) => resolve(7) }),
    'a function with a then': () => Object.assign(() => {}, { then: (resolve) => resolve(7) }),
    'a thenable that settles several times': () => ({
      then(resolve, reject) {
        resolve(7);
        reject(8);
        resolve(9);
      },
    }),
  };
  const rejecting = {
    'a rejected promise': () => Promise.reject(7),
    'a synchronous throw': () => fail(7),
    'a thenable that rejects': () => ({ then: (_, reject) => reject(7) }),
    'a thenable that throws': () => ({ then: () => fail(7) }),
    'a thenable whose getter throws': () =>
      Object.defineProperty({}, 'then', { get: () => fail(7) }),
    'a promise whose constructor throws': () =>
      Object.defineProperty(Promise.resolve(), 'constructor', { get: () => fail(7) }),
  };
  const ends = [
    ...Object.entries(resolving).map((end) => [...end, { value: 7 }]),
    ...Object.entries(rejecting).map((end) => [...end, { error: 7 }]),
    ['undefined', () => undefined, { value: undefined }],
    ['a rejected promise of undefined', () => Promise.reject(), { error: undefined }],
    ['a synchronous throw of null', () => fail(null), { error: null }],
  ];
  for (const [title, callback, expected] of ends) {
    it(`${title} from the callback releases the lock once, then settles the promise`, async () => {
      const name = freshName();
      const released = locks.request(name, callback);
      const next = hold(locks, name);
      const third = locks.request(name, () => {});
      const outcome = await released.then(
        (value) => ({ value }),
        (error) => ({ error }),
      );
      assert.deepEqual(outcome, expected);
      // Were it released twice, the third request would hold, too.
      assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: ['exclusive'] });
      await (await next).release();
      await third;
      assert.deepEqual(await stateOf(locks, name), FREE);
    });
  }

  it('the callback is invoked with `this` undefined and one argument', async () => {
    await locks.request(freshName(), function (...args) {
      assert.equal(this, undefined);
      assert.equal(args.length, 1);
    });
  });
});
