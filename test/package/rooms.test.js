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
      'src/core/turn.c': '#include "turn.h"\n#include "records.h"\n',
      'src/core/turn.h': '',
      'src/core/records.h': '',
      'src/host/segment.h': '#include "../core/list.h"\n',
      'src/core/list.h': '',
      'lib/index.js': "require('./standard/lock.js')",
      'lib/standard/lock.js': '',
    };
    assert.equal(faultsOf(t, files), '');
  });

  it('may not include what is above them', (t) => {
    const files = { 'src/core/records.h': '#include "turn.h"\n', 'src/core/turn.h': '' };
    assert.match(
      faultsOf(t, files),
      /^src\/core\/records uses src\/core\/turn, which is above it$/m,
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

  it('may not use of another house what is not for them', (t) => {
    const files = {
      'src/core/list.h': '#include "../host/segment.h"\n',
      'src/core/records.h': '',
      'src/host/segment.h': '#include "../core/records.h"\n',
    };
    assert.match(
      faultsOf(t, files),
      /^src\/core\/list uses .*segment, which is not for src\/core$/m,
    );
    assert.match(
      faultsOf(t, files),
      /^src\/host\/segment uses .*records, which is not for src\/host$/m,
    );
  });

  it('may not import what is above them', (t) => {
    const files = { 'lib/platform/a.js': "require('../standard/b.js')", 'lib/standard/b.js': '' };
    assert.match(
      faultsOf(t, files),
      /^lib\/platform\/a\.js uses lib\/standard\/b\.js, which is above/m,
    );
  });

  it('have every file', (t) => {
    assert.match(faultsOf(t, { 'src/core/new.c': '' }), /^src\/core\/new\.c is in no storey/m);
  });
});
