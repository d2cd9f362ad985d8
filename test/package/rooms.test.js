// slow: 2

'use strict';

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');

const script = path.join(__dirname, '..', '..', 'scripts', 'rooms.js');

/** @returns {string} the output of the script for a tree of these files, by path */
function faultsOf(t, files) {
  const root = freshDirectory(t);
  for (const [name, source] of Object.entries(files)) {
    fs.mkdirSync(path.join(root, path.dirname(name)), { recursive: true });
    fs.writeFileSync(path.join(root, name), source);
  }
  const { status, stderr } = spawnSync(process.execPath, [script, root], { encoding: 'utf8' });
  assert.equal(status, stderr === '' ? 0 : 1);
  return stderr;
}

/** Files from a text: each name is followed by the files that it uses. */
const tree = (text) =>
  Object.fromEntries(
    text.split('; ').map((entry) => {
      const [name, ...used] = entry.split(' ');
      const use = (file) => (name.endsWith('.js') ? `require('${file}');` : `#include "${file}"\n`);
      return [name, used.map(use).join('')];
    }),
  );

const functionOf = (name, body) => `#include "cells.h"\nint ${name}(int a)\n{\n  ${body}\n}\n`;
/** Modules of a folder that share a header: their includes do not show which module they use. */
const segment = (files) =>
  Object.fromEntries(
    Object.entries({
      'cells.h':
        'int wlh_cells_rebuild(int);\nint wlh_process(int);\nint wlh_a(int);\nint wlh_b(int);\n',
      ...files,
    }).map(([name, text]) => [`src/host/segment/${name}`, text]),
  );
const above = {
  'rebuild.c': functionOf('wlh_cells_rebuild', 'return wlh_process(a);'),
};
const upwards = `${functionOf('wlh_process', 'return help(a);')}
static int help(struct wlh_cells_rebuild *a)
{
  return a ? 1 : wlh_cells_rebuild(1); /* up */
}
`;
const harmless = `/* as wlh_cells_rebuild(a) { */
${functionOf('wlh_process', 'return a; // wlh_cells_rebuild')}
static struct wlh_cells_rebuild *b = "wlh_cells_rebuild(\\" {";
`;
const circle = segment({
  'view.h': 'static inline int wlh_of(int a)\n{\n  return wlh_a(a);\n}\n',
  'view.c': functionOf('wlh_b', 'return wlh_of(a);'),
  'members.c': functionOf('wlh_a', 'return wlh_b(a);'),
});

/** The titles of trees, their files, and the expected faults. */
const CASES = [
  [
    'may use what is below them',
    tree(
      'src/core/section.c section.h records.h; src/core/section.h; src/core/records.h; ' +
        'src/host/segment/segment.h ../../core/list.h; src/core/list.h; ' +
        'lib/index.js ./standard/lock.js; lib/standard/lock.js',
    ),
  ],
  [
    'may not include what is above them',
    tree('src/core/records.h section.h; src/core/section.h'),
    /^src\/core\/records uses src\/core\/section, which is above it$/m,
  ],
  [
    'may not include each other in a circle',
    tree('src/core/agent.c store.h; src/core/agent.h; src/core/store.h agent.h'),
    /^a circle: .*agent → .*store → .*agent$/m,
  ],
  [
    'may not call through a shared header what is above them',
    segment({ ...above, 'queue.c': upwards }),
    /^src\/host\/segment\/queue uses src\/host\/segment\/rebuild, which is above it$/m,
    /^a circle: .*(?:queue → .*rebuild|rebuild → .*queue) → /m,
  ],
  [
    'may not call each other in a circle of a storey, not even by inline functions',
    circle,
    /^a circle: src\/host\/segment\/(?:members → .*\/view|view → .*\/members) → /m,
  ],
  [
    'may call what is below them through a shared header, and name others in comments and strings',
    segment({ ...above, 'queue.c': harmless }),
  ],
  [
    'may not use a part of another house that is not for them',
    tree(
      'src/core/list.h ../host/segment/segment.h; src/core/records.h; ' +
        'src/host/segment/segment.h ../../core/records.h',
    ),
    /^src\/core\/list uses .*segment, which is not for src\/core$/m,
    /^src\/host\/segment\/segment uses .*records, which is not for src\/host$/m,
  ],
  [
    'may not import what is above them, in their own folder or another',
    tree(
      'lib/platform/a.js ../standard/b.js; lib/standard/b.js; ' +
        'lib/cli/bucket.js ./main.js; lib/cli/main.js',
    ),
    /^lib\/platform\/a uses lib\/standard\/b, which is above/m,
    /^lib\/cli\/bucket uses lib\/cli\/main, which is above/m,
  ],
  ['list every file', tree('src/core/new.c'), /^src\/core\/new\.c is in no storey/m],
];

describe('the rooms', () => {
  for (const [title, files, ...faults] of CASES) {
    it(title, (t) => {
      const told = faultsOf(t, files);
      if (faults.length === 0) assert.equal(told, '');
      for (const fault of faults) assert.match(told, fault);
    });
  }
});
