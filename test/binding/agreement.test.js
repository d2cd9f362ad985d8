'use strict';

/**
 * The interface between JavaScript and the addon has a number: AGREEMENT in src/binding/calls.h. A
 * change of the interface must change the number.
 */

const assert = require('node:assert/strict');
const { createHash } = require('node:crypto');
const { readFileSync } = require('node:fs');
const path = require('node:path');
const { it } = require('node:test');
const { addon } = require('../../lib/backend/addon.js');

/** The number, and a digest of the interface that it stands for; both change together. */
const NUMBER = 16;
const DIGEST = '9d7bb0e233be5a61';

/** @returns the types and names of the addon's functions, as lib/backend/addon.js declares them */
function properties() {
  const file = path.join(__dirname, '..', '..', 'lib', 'backend', 'addon.js');
  const [text] = /@typedef \{object\} Addon.*?\*\//s.exec(readFileSync(file, 'utf8'));
  const all = text
    .replace(/[\s*]+/g, ' ')
    .split('@property ')
    .slice(1);
  return all.map((one) => /^(\{.*?\}) (\[?\w+)/.exec(one).slice(1));
}

it('the addon has all that JavaScript knows of it', () => {
  // Properties in brackets are optional.
  const known = properties().map(([, name]) => name);
  assert.deepEqual(
    known.filter((name) => !name.startsWith('[') && addon[name] === undefined),
    [],
  );
});

it('a change of the functions of the addon, or of its numbers, has a new AGREEMENT', () => {
  const digest = createHash('sha256')
    .update(JSON.stringify(properties()))
    .digest('hex')
    .slice(0, 16);
  assert.deepEqual(
    { number: addon.AGREEMENT, digest },
    { number: NUMBER, digest: DIGEST },
    'raise AGREEMENT in src/binding/calls.h and lib/backend/binary.js; update NUMBER and DIGEST',
  );
});
