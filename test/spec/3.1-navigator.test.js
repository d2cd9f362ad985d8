'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { Lock, LockManager, locks, openBucket } = require('../../lib/index.js');
const install = require('../../lib/install.js');
const { nothing } = require('../helpers/locks.js');

/** Everything that install() may touch. */
const snapshot = () => ({
  Lock: Object.getOwnPropertyDescriptor(globalThis, 'Lock'),
  LockManager: Object.getOwnPropertyDescriptor(globalThis, 'LockManager'),
  navigator: Object.getOwnPropertyDescriptor(globalThis, 'navigator'),
  own: globalThis.navigator && Object.getOwnPropertyDescriptor(navigator, 'locks'),
  inherited:
    globalThis.navigator &&
    Object.getOwnPropertyDescriptor(Object.getPrototypeOf(navigator), 'locks'),
});

describe('3.1 Navigator mixins: web-locks/install', () => {
  it('puts locks, LockManager and Lock where libraries look, and undoes it', () => {
    const before = snapshot();
    const uninstall = install();
    try {
      assert.equal(navigator.locks, locks);
      assert.equal(globalThis.LockManager, LockManager);
      assert.equal(globalThis.Lock, Lock);
      assert.ok('locks' in navigator);
      assert.ok(!Object.keys(globalThis).some((key) => ['Lock', 'LockManager'].includes(key)));
      assert.ok(navigator.locks instanceof globalThis.LockManager);
    } finally {
      uninstall();
    }
    assert.deepEqual(snapshot(), before);
  });

  /** A signal as jsdom and happy-dom have them: of the platform's shape, and of no platform. */
  class OtherSignal {
    aborted = false;
    reason = undefined;
    listeners = new Set();
    addEventListener(type, listener) {
      assert.equal(type, 'abort');
      this.listeners.add(listener);
    }
    removeEventListener(type, listener) {
      assert.equal(type, 'abort');
      this.listeners.delete(listener);
    }
    abort(reason) {
      Object.assign(this, { aborted: true, reason });
      for (const listener of [...this.listeners]) listener();
    }
  }

  it('takes the signals of a DOM that is not the platform, while it is installed', async () => {
    const refused = () => locks.request('a', { signal: new OtherSignal() }, () => 'granted');
    await assert.rejects(refused(), TypeError);
    const uninstalls = [install({ target: {} }), install({ target: {} })];
    uninstalls.pop()();
    const signal = new OtherSignal();
    await locks.request('a', async () => {
      const waiting = [1, 2].map(() => locks.request('a', { signal }, () => assert.fail('called')));
      assert.equal(signal.listeners.size, 1);
      signal.abort('enough');
      for (const one of await Promise.allSettled(waiting)) assert.equal(one.reason, 'enough');
      assert.equal(signal.listeners.size, 0);
    });
    await assert.rejects(locks.request('a', { signal }, nothing), (reason) => reason === 'enough');
    const other = new OtherSignal();
    assert.equal(await locks.request('a', { signal: other }, () => 'granted'), 'granted');
    assert.equal(other.listeners.size, 0);
    for (const part of ['aborted', 'reason', 'addEventListener', 'removeEventListener']) {
      const lacking = new Proxy(new OtherSignal(), {
        get: (target, name) => (name === part ? undefined : Reflect.get(target, name)),
        has: (target, name) => name !== part && Reflect.has(target, name),
      });
      await assert.rejects(locks.request('a', { signal: lacking }, nothing), TypeError);
    }
    uninstalls.pop()();
    await assert.rejects(refused(), TypeError);
  });

  /** Waits behind a holder with a signal, whose abort `abort` causes; the request must reject. */
  async function reasonOf(signal, abort) {
    const uninstall = install({ target: {} });
    try {
      let waiting;
      await locks.request('a', async () => {
        waiting = locks.request('a', { signal }, () => 'granted');
        abort();
      });
      return await waiting.then(assert.fail, (reason) => reason);
    } finally {
      uninstall();
    }
  }

  const throws = () => {
    throw new Error('of users');
  };

  for (const parts of [['reason'], ['aborted'], ['aborted', 'reason']]) {
    it(`hears the abort of a signal of another DOM if ${parts.join(' and ')} throw`, async () => {
      const signal = new OtherSignal();
      const reason = await reasonOf(signal, () => {
        for (const part of parts) Object.defineProperty(signal, part, { get: throws, set() {} });
        signal.abort('enough');
      });
      if (!parts.includes('reason')) assert.equal(reason, 'enough');
      else assert.ok(reason instanceof DOMException && reason.name === 'AbortError');
      assert.equal(signal.listeners.size, 0);
    });
  }

  it('rejects at the grant if a listener of another DOM has stopped the abort event', async () => {
    const signal = new OtherSignal();
    const reason = await reasonOf(signal, () => {
      Object.assign(signal, { aborted: true, reason: 'unheard' });
    });
    assert.equal(reason, 'unheard');
    assert.equal(signal.listeners.size, 0);
    assert.equal(await locks.request('a', { ifAvailable: true }, (lock) => lock !== null), true);
  });

  it('`locks` is a read-only, enumerable, configurable attribute', () => {
    const uninstall = install();
    const { own, inherited } = snapshot();
    const { get, set, enumerable, configurable } = own ?? inherited;
    uninstall();
    assert.deepEqual(
      [typeof get, set, enumerable, configurable],
      ['function', undefined, true, true],
    );
  });

  it('`locks` of what is no navigator is a TypeError, as in browsers', () => {
    class Navigator {}
    const target = { navigator: new Navigator() };
    const uninstall = install({ target });
    try {
      assert.equal(target.navigator.locks, locks);
      assert.equal(Object.create(target.navigator).locks, locks);
      assert.throws(() => Navigator.prototype.locks, TypeError);
      const { get } = Object.getOwnPropertyDescriptor(Navigator.prototype, 'locks');
      for (const other of [undefined, null, 1, {}]) assert.throws(() => get.call(other), TypeError);
    } finally {
      uninstall();
    }
  });

  for (const [title, make] of Object.entries({
    'replaces what is there, an own property of the navigator too': () => ({
      navigator: { locks: 'theirs' },
      Lock: 'theirs',
    }),
    'makes a navigator where there is none': () => ({}),
    'makes a navigator where null is there': () => ({ navigator: null }),
    'makes a navigator where something else is there': () => ({ navigator: 5 }),
  })) {
    it(title, () => {
      const target = make();
      const uninstall = install(target);
      assert.equal(target.navigator.locks, locks);
      assert.equal(target.Lock, Lock);
      if (title.startsWith('makes')) assert.equal(String(target.navigator), '[object Navigator]');
      uninstall();
      assert.deepEqual(target, make());
    });
  }

  it('installs the lock manager that is given, over another one, and undoes it once', () => {
    for (const target of [{}, globalThis]) {
      const before = snapshot();
      const bucket = openBucket('3.1');
      const uninstall = install(
        target === globalThis ? { locks: bucket.locks } : { locks: bucket.locks, target },
      );
      assert.equal(target.navigator.locks, bucket.locks);
      assert.equal(target.LockManager, LockManager);
      const above = install({ target });
      assert.equal(target.navigator.locks, locks);
      above();
      above();
      assert.equal(target.navigator.locks, bucket.locks);
      uninstall();
      assert.deepEqual(snapshot(), before);
      if (target !== globalThis) assert.deepEqual(Reflect.ownKeys(target), []);
    }
  });

  it('what it cannot take changes nothing', () => {
    const before = snapshot();
    for (const wrong of ['mine', null, {}, { request() {}, query() {} }]) {
      const message =
        /^Failed to execute 'install': The 'locks' option is .*; expected a LockManager\.$/;
      assert.throws(() => install({ locks: wrong }), { name: 'TypeError', message });
    }
    assert.throws(() => install({ locks, traget: {} }), { message: /option 'traget'/ });
    for (const wrong of [null, 5, 'globalThis', { target: null }, { target: 5 }]) {
      const message = /The target is (null|5|'globalThis'); expected a global object\.$/;
      assert.throws(() => install(wrong), { name: 'TypeError', message });
    }
    assert.deepEqual(snapshot(), before);
  });

  it('what cannot be changed as a whole is not changed', () => {
    const target = { navigator: Object.freeze({}) };
    assert.throws(() => install(target), TypeError);
    assert.deepEqual(Reflect.ownKeys(target), ['navigator']);
  });
});
