'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { inspect } = require('node:util');
const webLocks = require('../../lib/index.js');
const { freshName } = require('../helpers/locks.js');
const { Lock, LockManager, locks, needs } = require('../helpers/scope.js');

const descriptor = (object, name) => Object.getOwnPropertyDescriptor(object, name);

describe('3.2 LockManager class, as WebIDL shapes interfaces', () => {
  it('is exported and not constructible', () => {
    assert.throws(() => new LockManager(), TypeError);
    assert.throws(() => LockManager(), TypeError);
    assert.throws(() => new LockManager(undefined, {}), TypeError);
    assert.throws(() => new (class extends LockManager {})(), TypeError);
    assert.ok(locks instanceof LockManager);
    assert.equal(LockManager.length, 0);
    assert.equal(LockManager.name, 'LockManager');
  });

  it('methods are enumerable, writable, configurable and no constructors, and have lengths', () => {
    for (const [name, length] of [
      ['request', 2],
      ['query', 0],
    ]) {
      const { value, ...attributes } = descriptor(LockManager.prototype, name);
      assert.deepEqual(attributes, { writable: true, enumerable: true, configurable: true });
      assert.equal(value.length, length);
      assert.equal(value.name, name);
      assert.throws(() => new value(), TypeError);
    }
    assert.deepEqual(Reflect.ownKeys(locks), []);
  });

  it('has a Symbol.toStringTag', () => {
    assert.equal(String(locks), '[object LockManager]');
    assert.deepEqual(descriptor(LockManager.prototype, Symbol.toStringTag), {
      value: 'LockManager',
      writable: false,
      enumerable: false,
      configurable: true,
    });
  });

  it('a method on a wrong `this` rejects with a TypeError and does not throw', async () => {
    const { request, query } = LockManager.prototype;
    for (const wrong of [
      undefined,
      null,
      1,
      'locks',
      {},
      Object.create(locks),
      LockManager.prototype,
    ]) {
      await assert.rejects(
        request.call(wrong, freshName(), () => assert.fail()),
        TypeError,
      );
      await assert.rejects(query.call(wrong), TypeError);
    }
    await assert.rejects(request.call({}), /not a LockManager/);
  });
});

describe('3.3 Lock class', () => {
  it('is exported and not constructible', () => {
    assert.throws(() => new Lock(), TypeError);
    assert.throws(() => new Lock('name', 'exclusive'), TypeError);
    assert.equal(Lock.length, 0);
  });

  it('name and mode are enumerable read-only attributes of the prototype', async () => {
    for (const name of ['name', 'mode']) {
      const { get, set, enumerable, configurable } = descriptor(Lock.prototype, name);
      assert.deepEqual([set, enumerable, configurable], [undefined, true, true]);
      assert.equal(get.name, `get ${name}`);
      assert.equal(get.length, 0);
    }
    const name = freshName();
    const lock = await locks.request(name, { mode: 'shared' }, (held) => held);
    assert.ok(lock instanceof Lock);
    assert.deepEqual([lock.name, lock.mode, Reflect.ownKeys(lock)], [name, 'shared', []]);
    assert.throws(() => {
      lock.name = 'other';
    }, TypeError);
  });

  it('an attribute on a wrong `this` throws a TypeError', () => {
    assert.throws(() => Lock.prototype.name, TypeError);
    assert.throws(() => Reflect.get(Lock.prototype, 'mode', {}), TypeError);
  });

  it('has a Symbol.toStringTag and a readable inspection', async () => {
    const name = freshName();
    await locks.request(name, (lock) => {
      assert.equal(String(lock), '[object Lock]');
      assert.equal(
        inspect(lock, { breakLength: Infinity }),
        `Lock { name: '${name}', mode: 'exclusive' }`,
      );
    });
    inspect(Lock.prototype);
  });
});

describe('the entries', needs('entry'), () => {
  it('CommonJS and ESM give the same instances', async () => {
    const esm = await import('../../lib/index.mjs');
    assert.equal(esm.locks, locks);
    assert.equal(esm.default, webLocks);
    for (const name of Object.keys(webLocks)) assert.equal(esm[name], webLocks[name], name);
    assert.deepEqual(Object.keys(esm).sort(), ['default', ...Object.keys(webLocks)].sort());
  });

  it('the ESM entry of install is the CommonJS one', async () => {
    const { default: install } = await import('../../lib/install.mjs');
    assert.equal(install, require('../../lib/install.js'));
  });

  it('the package resolves by its own name', async () => {
    assert.equal(require('web-locks'), webLocks);
    assert.equal((await import('web-locks')).locks, locks);
    assert.equal(require('web-locks/install'), require('../../lib/install.js'));
  });
});
