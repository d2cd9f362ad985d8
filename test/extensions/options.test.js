'use strict';

/**
 * What calls refuse, according to lib/extensions/options.js. programs.test.js tests what they do
 * with the options that they accept.
 */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { CALLS, OPTIONS, SCOPES_OF_CALLS } = require('../../lib/extensions/options.js');
const library = require('../helpers/scope.js');
const { chosen, scope } = require('../conformance/scopes.js');
const { KINDS, OPERATIONS, VALUES, make, objectOf, operationOf } = require('./calls.js');
const { freshName, notCalled, nothing } = require('../helpers/locks.js');

const { locks } = library;

/** The scope of the table. */
const SCOPE = ['process', 'host'].includes(chosen) ? chosen : 'cluster';

const REQUIRED = { acquireSync: { timeout: 600_000 }, once: { keep: 600_000 } };

async function ask(kind, more, work = notCalled) {
  const name = freshName();
  const options = Object.assign(Object.create(Object.getPrototypeOf(more)), REQUIRED[kind], more);
  const object = objectOf(library, kind, name, locks);
  const names = KINDS[kind].several ? [name] : name;
  const made = await make(kind, { locks, object }, names, options, work);
  const release = made?.release ?? made;
  if (typeof release === 'function') await release.call(made);
}

const isTaken = (name, kind) =>
  OPTIONS[name].calls.includes(kind) &&
  !scope.lacks[name] &&
  !(name === 'priority' && kind === 'several' && scope.lacks.oneByOne);

const valueFor = (name) => (name === 'signal' ? new AbortController().signal : VALUES[name][0]);

const isRefusal = (name) => (error) => {
  assert.ok(['TypeError', 'NotSupportedError'].includes(error.name), error);
  assert.ok(error.message.includes(`'${name}'`), error);
  return true;
};

describe('options', () => {
  for (const [kind, { as }] of Object.entries(KINDS)) {
    if (!SCOPES_OF_CALLS[as].includes(SCOPE)) {
      it(`${kind} is refused`, () => assert.rejects(ask(kind, {}), { name: 'NotSupportedError' }));
      continue;
    }

    it(`${kind} refuses foreign options, also inherited ones, and names the call`, async () => {
      for (const name of Object.keys(VALUES)) {
        if (isTaken(name, as)) continue;
        const value = valueFor(name);
        await assert.rejects(ask(kind, { [name]: value }), isRefusal(name));
        await assert.rejects(ask(kind, Object.create({ [name]: value })), isRefusal(name));
      }
    });

    it(`${kind} refuses options that exclude each other`, async () => {
      for (const [name, { not = [] }] of Object.entries(OPTIONS)) {
        for (const other of not) {
          if (!isTaken(name, as) || !isTaken(other, as)) continue;
          const given = { [name]: valueFor(name), [other]: valueFor(other) };
          const refused = { name: /^(TypeError|NotSupportedError)$/ };
          await assert.rejects(ask(kind, given), refused, `${name} and ${other}`);
        }
      }
    });

    const isOfTheManager = !kind.includes('.');
    it(`${kind} ${isOfTheManager ? 'ignores' : 'refuses'} what is no option`, async () => {
      const asked = ask(kind, { unheardOf: 1 }, nothing);
      await (isOfTheManager ? asked : assert.rejects(asked, isRefusal('unheardOf')));
    });
  }

  it('are those that the table says the scope has', () => {
    // The table does not contain the engine in memory.
    if (chosen === 'memory') return;
    for (const [name, { scopes = [SCOPE] }] of Object.entries(OPTIONS)) {
      assert.equal(scopes.includes(SCOPE), !scope.lacks[name], name);
    }
  });

  it('and the calls are those of calls.js', () => {
    assert.deepEqual(Object.keys(VALUES).sort(), Object.keys(OPTIONS).sort());
    assert.deepEqual(Object.keys(KINDS).map(operationOf).sort(), [...OPERATIONS].sort());
    for (const [kind, { as }] of Object.entries(KINDS))
      assert.ok(CALLS[as].includes(operationOf(kind)), kind);
  });
});
