'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LONG, locks } = require('../helpers/scope.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');

/** Holds both names at once, exclusively: possible only if they are different resources. */
async function areDifferent(one, other) {
  const first = await hold(locks, one);
  const second = await hold(locks, other, { ifAvailable: true });
  await Promise.all([first.release(), second.release()]);
  return second.lock !== null;
}

describe('2.1 Resource names', () => {
  const odd = {
    'the empty string': '',
    'an embedded NUL': `a\0b ${freshName()}`,
    'a lone high surrogate': `\uD800 ${freshName()}`,
    'a lone low surrogate at the end': `${freshName()} \uDC00`,
    "'__proto__'": '__proto__',
    "'constructor'": 'constructor',
    'a very long name': freshName().padEnd(LONG, 'x'),
    'exactly the length of an internal buffer less one': freshName().padEnd(255, 'x'),
    'exactly the length of an internal buffer': freshName().padEnd(256, 'x'),
    'one more than an internal buffer': freshName().padEnd(257, 'x'),
    'emoji and CJK': `🔒鍵 ${freshName()}`,
  };
  for (const [title, name] of Object.entries(odd)) {
    it(`${title} is a name like any other`, async () => {
      const held = await hold(locks, name);
      assert.equal(held.lock.name, name);
      assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
      await held.release();
      assert.deepEqual(await stateOf(locks, name), FREE);
    });
  }

  const tag = freshName();
  const pairs = {
    'letters of different case': [`a ${tag}`, `A ${tag}`],
    'composed and decomposed letters': [`\u00e9 ${tag}`, `e\u0301 ${tag}`],
    'different lone surrogates': [`\uD800 ${tag}`, `\uD801 ${tag}`],
    'a lone surrogate and the replacement character': [`\uD800 ${tag}`, `\uFFFD ${tag}`],
    'names that differ after a NUL': [`${tag}\0a`, `${tag}\0b`],
    'a name and the same with a NUL at the end': [tag, `${tag}\0`],
    'one-byte and two-byte strings of the same low bytes': [`a${tag}`, `\u0161${tag}`],
    'the empty string and a space': ['', ' '],
    'long names that differ at the end': [
      `${tag}${'x'.repeat(LONG - 100)}a`,
      `${tag}${'x'.repeat(LONG - 100)}b`,
    ],
  };
  for (const [title, [one, other]] of Object.entries(pairs)) {
    it(`compares by code unit: ${title} are different names`, async () => {
      assert.equal(await areDifferent(one, other), true);
      assert.equal(await areDifferent(one, `${one}`.slice()), false);
    });
  }

  it('a name starting with U+002D is reserved', async () => {
    for (const name of ['-', '-a', `-${freshName()}`]) {
      await assert.rejects(
        locks.request(name, () => assert.fail()),
        { name: 'NotSupportedError' },
      );
    }
  });

  it('other dashes, and U+002D elsewhere, are not reserved', async () => {
    for (const name of ['\u2010a', '\u2212a', ' -', 'a-', '\0-']) {
      assert.equal(await locks.request(name, (lock) => lock.name), name);
    }
  });
});
