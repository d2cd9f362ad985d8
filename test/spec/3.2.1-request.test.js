'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { locks, needs } = require('../helpers/scope.js');
const { FREE, freshName, hold, notCalled, rejectionOf, stateOf } = require('../helpers/locks.js');

/** Calls request() and checks that it returns a promise that rejects with `expected`. */
async function rejects(args, expected) {
  const promise = locks.request(...args);
  assert.ok(promise instanceof Promise);
  await assert.rejects(promise, expected);
}

describe('3.2.1 request(): conversions', () => {
  it('fewer than two arguments are a TypeError', async () => {
    await rejects([], { name: 'TypeError', message: /2 arguments required, but only 0 present/ });
    await rejects([freshName()], { name: 'TypeError', message: /but only 1 present/ });
  });

  it('a name is converted as by String()', async () => {
    const values = [7.5, null, undefined, 10n, ['a', 'b'], new String('object')];
    const converted = values.map((value) => [value, String(value)]);
    converted.push([{ [Symbol.toPrimitive]: (hint) => hint }, 'string']);
    for (const [value, name] of converted)
      assert.equal(await locks.request(value, (lock) => lock.name), name);
  });

  it('what a conversion throws is the rejection', async () => {
    const thrown = new Error('thrown by a conversion');
    const fail = () => {
      throw thrown;
    };
    await rejects([{ toString: fail }, notCalled], thrown);
    await rejects(
      [freshName(), Object.defineProperty({}, 'mode', { get: fail }), notCalled],
      thrown,
    );
    for (const name of [Object.create(null), Symbol('name'), Object(Symbol('name'))]) {
      await rejects([name, notCalled], TypeError);
    }
  });

  it('a callback that is not callable is a TypeError', async () => {
    for (const callback of [undefined, null, {}, 'callback', 7, Symbol('callback')]) {
      await rejects([freshName(), callback], TypeError);
      await rejects([freshName(), {}, callback], TypeError);
    }
  });

  it('with two arguments the second is the callback, never the options', async () => {
    await rejects([freshName(), { mode: 'shared' }], /is an object; expected a function/);
  });

  it('with three arguments the second is the options, even if it is a function', async () => {
    const options = Object.assign(notCalled, { mode: 'shared' });
    assert.equal(await locks.request(freshName(), options, (lock) => lock.mode), 'shared');
  });

  it('undefined and null options are defaults, and a fourth argument is ignored', async () => {
    const mode = (lock) => lock.mode;
    assert.equal(await locks.request(freshName(), mode), 'exclusive');
    for (const options of [undefined, null, {}])
      assert.equal(await locks.request(freshName(), options, mode, notCalled), 'exclusive');
  });

  it('options that are no object are a TypeError', async () => {
    for (const options of [7, 'shared', true, Symbol('options'), 7n]) {
      await rejects([freshName(), options, notCalled], TypeError);
    }
  });

  it('options are read once each, in lexicographical order, and converted at once', async () => {
    const log = [];
    const text = (what, value) => ({ toString: () => log.push(what) && value });
    const values = { ifAvailable: true, mode: text('mode to string', 'shared') };
    const standard = ['ifAvailable', 'mode', 'signal', 'steal', 'other'];
    const options = new Proxy(values, {
      get(target, member) {
        if (standard.includes(member)) log.push(member);
        return target[member];
      },
    });
    await locks.request(text('name', freshName()), options, () => {});
    assert.deepEqual(log, ['name', 'ifAvailable', 'mode', 'mode to string', 'signal', 'steal']);
  });

  it('the arguments are converted in their order: name, options, callback', async () => {
    await rejects([Symbol('name'), { mode: 'wrong' }, 7], /name is a Symbol/);
    await rejects([freshName(), { mode: 'wrong' }, 7], /'wrong'; expected 'exclusive' or 'shared'/);
    await rejects([freshName(), { mode: 'shared' }, 7], /callback is 7; expected a function/);
  });

  it('a mode that is not in the enumeration is a TypeError', async () => {
    for (const mode of ['Shared', '', 'exclusive ', null, 0, {}, Symbol('shared')]) {
      await rejects([freshName(), { mode }, notCalled], TypeError);
    }
    const array = await locks.request(freshName(), { mode: ['shared'] }, (lock) => lock.mode);
    assert.equal(array, 'shared', 'converted to a string first');
  });

  it('a signal that is not an AbortSignal is a TypeError', async () => {
    const { signal } = new AbortController();
    const nothing = () => {};
    const listening = { addEventListener: nothing, removeEventListener: nothing };
    const alike = { aborted: false, reason: undefined, ...listening };
    const others = [new EventTarget(), AbortSignal.prototype, new AbortController()];
    for (const wrong of [null, 7, 'signal', {}, alike, ...others]) {
      await rejects([freshName(), { signal: wrong }, notCalled], TypeError);
    }
    assert.equal(await locks.request(freshName(), { signal }, () => 7), 7);
  });

  it('ifAvailable and steal are converted as by Boolean()', async () => {
    const name = freshName();
    const held = await hold(locks, name);
    for (const ifAvailable of [1, 'false', {}, []]) {
      assert.equal(await locks.request(name, { ifAvailable }, (lock) => lock), null);
    }
    await held.release();
    for (const falsy of [0, '', null, Number.NaN, undefined]) {
      const options = { ifAvailable: falsy, steal: falsy, signal: new AbortController().signal };
      assert.equal(await locks.request(freshName(), options, () => 7), 7);
    }
  });
});

describe('3.2.1 request(): the steps', () => {
  const signal = new AbortController().signal;

  for (const [step, options] of [
    ['5: a name that starts with U+002D', {}],
    ['6: steal with ifAvailable', { steal: true, ifAvailable: true }],
    ['7: steal with a mode other than exclusive', { steal: true, mode: 'shared' }],
    ['8: signal with steal', { signal, steal: true }],
    ['8: signal with ifAvailable', { signal, ifAvailable: true }],
  ]) {
    it(`step ${step} is a NotSupportedError`, async () => {
      const name = step.startsWith('5') ? '-name' : freshName();
      const error = await rejectionOf(locks.request(name, options, notCalled));
      assert.ok(error instanceof DOMException && error.name === 'NotSupportedError', error);
    });
  }

  it('step 9: an aborted signal rejects with its abort reason, as it is', async () => {
    const name = freshName();
    for (const reason of [new Error('reason'), 'a string', null, 0]) {
      const asked = locks.request(name, { signal: AbortSignal.abort(reason) }, notCalled);
      assert.equal(await rejectionOf(asked), reason);
    }
    await rejects([name, { signal: AbortSignal.abort() }, notCalled], { name: 'AbortError' });
    assert.deepEqual(await stateOf(locks, name), FREE);
  });

  it('the steps are checked in their order, after all conversions', async () => {
    await rejects(['-', { signal: 7 }, notCalled], TypeError);
    await rejects(['-', {}, 7], TypeError);
    const aborted = AbortSignal.abort(new Error('step 9'));
    const all = { steal: true, ifAvailable: true, mode: 'shared', signal: aborted };
    await rejects(['-', all, notCalled], /starts with '-'/);
    await rejects([freshName(), all, notCalled], /'steal' and 'ifAvailable'/);
    await rejects(
      [freshName(), { ...all, ifAvailable: false }, notCalled],
      /needs the mode 'exclusive'/,
    );
    await rejects(
      [freshName(), { steal: true, signal: aborted }, notCalled],
      /'signal' and 'steal'/,
    );
    await rejects([freshName(), { signal: aborted }, notCalled], /step 9/);
  });

  it('step 12: returns a promise, and the callback is not called inside request()', async () => {
    let called = false;
    const promise = locks.request(freshName(), () => {
      called = true;
    });
    assert.equal(called, false);
    await promise;
    assert.equal(called, true);
  });

  it('an immediate grant calls back in a microtask of the same turn', needs('turns'), async () => {
    const order = [];
    const timer = new Promise((resolve) => setImmediate(() => resolve(order.push('next turn'))));
    const released = locks.request(freshName(), () => order.push('callback'));
    order.push('request returned');
    await Promise.all([timer, released]);
    assert.deepEqual(order, ['request returned', 'callback', 'next turn']);
  });
});
