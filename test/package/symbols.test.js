'use strict';

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const path = require('node:path');
const { describe, it } = require('node:test');

const binary = path.join(__dirname, '..', '..', 'build', 'Release', 'web_locks.node');
const skip = process.platform !== 'linux' || spawnSync('nm', ['--version']).error !== undefined;

/** The dynamic symbols that the addon needs (type 'U'), uses if they exist ('w') or exports. */
function symbols(option) {
  const lines = execFileSync('nm', ['-D', option, binary], { encoding: 'utf8' }).trim().split('\n');
  return lines.map((line) => line.trim().split(/\s+/).slice(-2));
}

describe('the symbols of the addon', { skip }, () => {
  it('need none of libuv or V8, whose ABI Node-API does not promise', () => {
    const needed = symbols('--undefined-only').flatMap(([type, name]) =>
      type === 'U' ? name : [],
    );
    assert.deepEqual(
      needed.filter((name) => /^uv_|^_ZN?K?2v8|^_ZN4node/.test(name)),
      [],
    );
    assert.ok(needed.includes('napi_create_threadsafe_function'));
  });

  it('show only the entry points of Node.js and the meeting point of copies', () => {
    const shown = symbols('--defined-only').map(([, name]) => name);
    assert.deepEqual(shown.sort(), [
      'napi_register_module_v1',
      'node_api_module_get_api_version_v1',
      'web_locks_process',
    ]);
  });
});
