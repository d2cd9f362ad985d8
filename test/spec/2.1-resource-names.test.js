'use strict';

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { LONG, locks } = require('../helpers/scope.js');
const {
  FREE,
  HELD,
  freshName,
  hold,
  notCalled,
  stateOf,
  valuesOf,
} = require('../helpers/locks.js');

describe('2.1 Resource names', () => {
  const tag = freshName();
  const kinds = {
    'the empty string among others': [tag, '', ' '],
    'names of properties of objects': ['__proto__', 'constructor'],
    'letters of different case': [`a ${tag}`, `A ${tag}`],
    'composed and decomposed letters': [`\u00e9 ${tag}`, `e\u0301 ${tag}`],
    'lone surrogates and the replacement character': ['\uD800', '\uD801', '\uDC00', '\uFFFD'],
    'names with NULs': [tag, `${tag}\0`, `${tag}\0a`, `${tag}\0b`],
    'one-byte and two-byte strings of the same low bytes': [`a${tag}`, `\u0161${tag}`],
    'emoji and CJK': [`🔒 ${tag}`, `鍵 ${tag}`],
    'names about as long as an internal buffer': [255, 256, 257].map((n) => tag.padEnd(n, 'x')),
    'very long names that differ at the end': ['a', 'b'].map((end) => tag.padEnd(LONG - 1) + end),
  };
  for (const [title, names] of Object.entries(kinds)) {
    it(`compares by code unit: ${title} are different names`, async () => {
      const all = [];
      for (const name of names) all.push(await hold(locks, name, { ifAvailable: true }));
      assert.deepEqual(valuesOf(valuesOf(all, 'lock'), 'name'), names);
      for (const name of names) assert.deepEqual(await stateOf(locks, name), HELD);
      const { held } = await locks.query();
      for (const name of names) assert.ok(held.some((lock) => lock.name === name));
      for (const { release } of all) await release();
      for (const name of names) assert.deepEqual(await stateOf(locks, name), FREE);
    });
  }

  it('a name that starts with U+002D, and with no other dash, is reserved', async () => {
    for (const name of ['-', '-a', `-${tag}`])
      await assert.rejects(locks.request(name, notCalled), { name: 'NotSupportedError' });
    for (const name of ['\u2010a', '\u2212a', ' -', 'a-', '\0-'])
      assert.equal(await locks.request(name, (lock) => lock.name), name);
  });
});
