'use strict';

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');

const script = path.join(__dirname, '..', '..', 'scripts', 'rooms.js');

/** @returns {string} what the script says of a tree of these files, by path */
function faultsOf(t, files) {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-rooms-'));
  t.after(() => fs.rmSync(root, { recursive: true }));
  for (const [name, source] of Object.entries(files)) {
    fs.mkdirSync(path.join(root, path.dirname(name)), { recursive: true });
    fs.writeFileSync(path.join(root, name), source);
  }
  const { status, stderr } = spawnSync(process.execPath, [script, root], { encoding: 'utf8' });
  assert.equal(status, stderr === '' ? 0 : 1);
  return stderr;
}

describe('the rooms', () => {
  it('may use what is below them', (t) => {
    const files = {
      'src/core/section.c': '#include "section.h"\n#include "records.h"\n',
      'src/core/section.h': '',
      'src/core/records.h': '',
      'src/host/segment/segment.h': '#include "../../core/list.h"\n',
      'src/core/list.h': '',
      'lib/index.js': "require('./standard/lock.js')",
      'lib/standard/lock.js': '',
    };
    assert.equal(faultsOf(t, files), '');
  });

  it('may not include what is above them', (t) => {
    const files = { 'src/core/records.h': '#include "section.h"\n', 'src/core/section.h': '' };
    assert.match(
      faultsOf(t, files),
      /^src\/core\/records uses src\/core\/section, which is above it$/m,
    );
  });

  it('may not include each other in a circle', (t) => {
    const files = {
      'src/core/agent.c': '#include "store.h"\n',
      'src/core/agent.h': '',
      'src/core/store.h': '#include "agent.h"\n',
    };
    assert.match(faultsOf(t, files), /^a circle: .*agent → .*store → .*agent$/m);
  });

  /** Modules whose functions all are in one header: what a module stands on is not in its includes. */
  const shared = {
    'src/host/segment/cells.h':
      'int wlh_cells_reap(int);\nint wlh_cells_rebuild(int);\nint wlh_process(int);\n',
    'src/host/segment/rebuild.c':
      '#include "cells.h"\nint wlh_cells_rebuild(int a)\n{\n  return wlh_process(a);\n}\n',
    'src/host/segment/queue.c': '#include "cells.h"\nint wlh_process(int a)\n{\n  return a;\n}\n',
  };

  it('may call through a shared header what is below them', (t) => {
    assert.equal(faultsOf(t, shared), '');
  });

  it('may not call through a shared header what is above them', (t) => {
    const source = `#include "cells.h"
static int help(struct wlh_cells_rebuild *a)
{
  return a ? 1 : wlh_cells_rebuild(1); /* up */
}
int wlh_process(int a)
{
  return help(a);
}
`;
    const faults = faultsOf(t, { ...shared, 'src/host/segment/queue.c': source });
    assert.match(
      faults,
      /^src\/host\/segment\/queue uses src\/host\/segment\/rebuild, which is above it$/m,
    );
    assert.match(faults, /^a circle: .*(?:queue → .*rebuild|rebuild → .*queue) → /m);
  });

  it('may call each other in no circle of a storey, not even by inline functions', (t) => {
    const files = {
      'src/host/segment/cells.h': 'int wlh_a(int);\nint wlh_b(int);\n',
      'src/host/segment/view.h': 'static inline int wlh_of(int a)\n{\n  return wlh_a(a);\n}\n',
      'src/host/segment/view.c':
        '#include "cells.h"\nint wlh_b(int a)\n{\n  return wlh_of(a);\n}\n',
      'src/host/segment/members.c':
        '#include "cells.h"\nint wlh_a(int a)\n{\n  return wlh_b(a);\n}\n',
    };
    assert.match(
      faultsOf(t, files),
      /^a circle: src\/host\/segment\/(?:members → .*\/view|view → .*\/members) → /m,
    );
  });

  it('use nobody by what a comment, a string or a tag says', (t) => {
    const source = `#include "cells.h"
/* as wlh_cells_rebuild(a) { */
int wlh_process(int a)
{
  struct wlh_cells_rebuild *b = "wlh_cells_rebuild(\\" {";
  return a; // wlh_cells_rebuild
}
`;
    assert.equal(faultsOf(t, { ...shared, 'src/host/segment/queue.c': source }), '');
  });

  it('may not use of another house what is not for them', (t) => {
    const files = {
      'src/core/list.h': '#include "../host/segment/segment.h"\n',
      'src/core/records.h': '',
      'src/host/segment/segment.h': '#include "../../core/records.h"\n',
    };
    assert.match(
      faultsOf(t, files),
      /^src\/core\/list uses .*segment, which is not for src\/core$/m,
    );
    assert.match(
      faultsOf(t, files),
      /^src\/host\/segment\/segment uses .*records, which is not for src\/host$/m,
    );
  });

  it('may not import what is above them', (t) => {
    const files = { 'lib/platform/a.js': "require('../standard/b.js')", 'lib/standard/b.js': '' };
    assert.match(faultsOf(t, files), /^lib\/platform\/a uses lib\/standard\/b, which is above/m);
  });

  it('may not import what is above them in their own folder', (t) => {
    const files = { 'lib/cli/bucket.js': "require('./main.js')", 'lib/cli/main.js': '' };
    assert.match(faultsOf(t, files), /^lib\/cli\/bucket uses lib\/cli\/main, which is above/m);
  });

  it('have every file', (t) => {
    assert.match(faultsOf(t, { 'src/core/new.c': '' }), /^src\/core\/new\.c is in no storey/m);
  });
});
