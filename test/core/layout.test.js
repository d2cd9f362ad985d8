// slow: 13

'use strict';

/** src/core/layout.c: a change of what copies of the core share does not compile. */

const assert = require('node:assert/strict');
const { execFile, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');

const core = path.join(__dirname, '..', '..', 'src', 'core');
const HEADERS = ['list.h', 'table.h', 'pool.h', 'records.h'];

/** Another type of another size or kind for each type. */
const OTHER = {
  bool: 'uint16_t',
  atomic_bool: 'uint16_t',
  uint8_t: 'uint16_t',
  uint16_t: 'uint32_t',
  uint32_t: 'uint16_t',
  uint64_t: 'uint32_t',
  int32_t: 'int16_t',
  unsigned: 'uint8_t',
  size_t: 'uint8_t',
};

/** Yields each change of one field or one struct: its header, a description, and the new text. */
function* changes() {
  for (const header of HEADERS) {
    const text = fs.readFileSync(path.join(core, header), 'utf8');
    const change = (what, at, length, by) => ({
      header,
      what,
      changed: text.slice(0, at) + by + text.slice(at + length),
    });
    for (const { 0: all, 1: name, index } of text.matchAll(/^struct (\w+) \{\n(?:.*\n)*?\};/gm)) {
      const end = /^ +(?:struct )?\w+ \w+\[\];|^\};/m.exec(all).index;
      yield change(`${name} has another field`, index + end, 0, '  uint8_t more;\n');
      for (const field of all.matchAll(/^( +)(\w+) (\w+(?:, \w+)*)(?:\[\w+\])?;/gm)) {
        const [, space, type, names] = field;
        const at = index + field.index + space.length;
        if (type in OTHER)
          yield change(`${name}.${names} is ${OTHER[type]}`, at, type.length, OTHER[type]);
      }
    }
  }
}

const noCompiler = spawnSync('cc', ['--version']).status !== 0 && 'no C compiler';

describe('the layout of the core', { skip: noCompiler }, () => {
  /** Compiles the core's layout in a folder of its own, with one header changed. */
  async function compile(folder, header, changed, flags = []) {
    fs.mkdirSync(folder);
    for (const name of fs.readdirSync(core)) {
      if (/\.h$|^layout\.c$/.test(name))
        fs.copyFileSync(path.join(core, name), path.join(folder, name));
    }
    if (header) fs.writeFileSync(path.join(folder, header), changed);
    const args = ['-std=c11', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror', '-fsyntax-only'];
    try {
      await promisify(execFile)('cc', [...args, ...flags, 'layout.c'], { cwd: folder });
      return '';
    } catch (error) {
      return error.stderr;
    }
  }

  it('compiles unchanged, but not with another number or layout', async (t) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-layout-'));
    t.after(() => fs.rmSync(folder, { recursive: true }));
    assert.equal(await compile(path.join(folder, 'same')), '');
    const raised = await compile(path.join(folder, 'raised'), null, null, ['-DWLK_ABI=10']);
    assert.match(raised, /write the new one/);
    const all = [...changes()];
    assert.ok(all.length > 70, `only ${all.length} changes were found`);
    const unnoticed = [];
    for (const [number, { header, what, changed }] of all.entries()) {
      const stderr = await compile(path.join(folder, String(number)), header, changed);
      if (!/has changed: raise WLK_ABI|missing initializer/.test(stderr)) unnoticed.push(what);
    }
    assert.deepEqual(unnoticed, []);
  });
});
