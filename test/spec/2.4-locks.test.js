'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks } = require('../helpers/scope.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');

describe('2.4 Locks: the waiting promise and the released promise', () => {
  const ends = {
    'a plain value': { callback: () => 7, value: 7 },
    undefined: { callback: () => undefined, value: undefined },
    'a promise': { callback: async () => 7, value: 7 },
    'a thenable': { callback: () => ({ then: (resolve) => resolve(7) }), value: 7 },
    'a promise of a promise': { callback: async () => Promise.resolve(7), value: 7 },
    'a rejected promise': { callback: () => Promise.reject(7), error: 7 },
    'a rejected promise of undefined': { callback: () => Promise.reject(), error: undefined },
    'a synchronous throw': {
      callback: () => {
        throw 7;
      },
      error: 7,
    },
    'a synchronous throw of null': {
      callback: () => {
        throw null;
      },
      error: null,
    },
    'a thenable that rejects': { callback: () => ({ then: (_, reject) => reject(7) }), error: 7 },
    'a thenable that throws': {
      callback: () => ({
        then() {
          throw 7;
        },
      }),
      error: 7,
    },
    'a thenable whose getter throws': {
      callback: () => ({
        get then() {
          throw 7;
        },
      }),
      error: 7,
    },
    'a function with a then': {
      callback: () => Object.assign(() => {}, { then: (resolve) => resolve(7) }),
      value: 7,
    },
    'a promise whose constructor throws': {
      callback: () =>
        Object.defineProperty(Promise.resolve(), 'constructor', {
          get() {
            throw 7;
          },
        }),
      error: 7,
    },
    'a thenable that settles twice': {
      callback: () => ({
        then(resolve, reject) {
          resolve(7);
          reject(8);
          resolve(9);
        },
      }),
      value: 7,
    },
  };
  for (const [title, { callback, ...expected }] of Object.entries(ends)) {
    it(`${title} from the callback releases the lock once and settles the released promise`, async () => {
      const name = freshName();
      const released = locks.request(name, callback);
      const next = hold(locks, name);
      const third = locks.request(name, () => {});
      const outcome = await released.then(
        (value) => ({ value }),
        (error) => ({ error }),
      );
      assert.deepEqual(outcome, expected);
      const second = await next;
      // Were it released twice, the third request would hold, too.
      assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: ['exclusive'] });
      await second.release();
      await third;
      assert.deepEqual(await stateOf(locks, name), FREE);
    });
  }

  it('the lock is released before the released promise settles', async () => {
    const name = freshName();
    await locks
      .request(name, () => {})
      .then(async () => assert.deepEqual(await stateOf(locks, name), FREE));
    await locks
      .request(name, () => Promise.reject(new Error('expected')))
      .catch(async () => assert.deepEqual(await stateOf(locks, name), FREE));
  });

  it('a callback that never settles holds the lock', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    const available = () => locks.request(name, { ifAvailable: true }, (lock) => lock !== null);
    for (let i = 0; i < 10; i++) {
      assert.equal(await available(), false);
      await new Promise(setImmediate);
    }
    await held.release();
    assert.equal(await available(), true);
  });

  it('resolves the waiting promise as WebIDL does: a patched `then` of a promise is not called', async () => {
    const promise = Promise.resolve(7);
    promise.then = () => assert.fail('called');
    assert.equal(await locks.request(freshName(), () => promise), 7);
  });

  it('the callback is invoked with `this` undefined and one argument', async () => {
    await locks.request(freshName(), function (...args) {
      assert.equal(this, undefined);
      assert.equal(args.length, 1);
    });
  });
});
