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

/** Another type for each. */
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

/** All structs of a header: where their bodies begin and end. */
function* structsOf(text) {
  for (const { 0: all, 1: name, index } of text.matchAll(/^struct (\w+) \{\n(?:.*\n)*?\};/gm)) {
    yield { name, index, end: index + all.length - '};'.length };
  }
}

/** Every change of one field, and of one struct: of which header, what, and its text then. */
function* changes() {
  for (const header of HEADERS) {
    const text = fs.readFileSync(path.join(core, header), 'utf8');
    for (const { name, index, end } of structsOf(text)) {
      const body = text.slice(index, end);
      const flexible = /^ +(?:struct )?\w+ \w+\[\];/m.exec(body);
      const place = flexible ? index + flexible.index : end;
      yield {
        header,
        what: `${name} has another field`,
        changed: `${text.slice(0, place)}  uint8_t more;\n${text.slice(place)}`,
      };
      for (const field of body.matchAll(/^( +)(\w+) (\w+(?:, \w+)*)(?:\[\w+\])?;/gm)) {
        const [, space, type, names] = field;
        if (!(type in OTHER)) continue;
        const at = index + field.index + space.length;
        yield {
          header,
          what: `${name}.${names} is ${OTHER[type]}`,
          changed: text.slice(0, at) + OTHER[type] + text.slice(at + type.length),
        };
      }
    }
  }
}

const noCompiler = spawnSync('cc', ['--version']).status !== 0 && 'no C compiler';

describe('the layout of the core', { skip: noCompiler }, () => {
  /** Compiles it, with one header changed, in a folder of its own. */
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

  const temporary = (t) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-layout-'));
    t.after(() => fs.rmSync(folder, { recursive: true }));
    return folder;
  };

  it('is what it says', async (t) => {
    assert.equal(await compile(path.join(temporary(t), 'same')), '');
  });

  it('of another number is not written yet', async (t) => {
    const stderr = await compile(path.join(temporary(t), 'raised'), null, null, ['-DWLK_ABI=10']);
    assert.match(stderr, /write the new one/);
  });

  it('does not compile with another field, nor with another type of one', async (t) => {
    const folder = temporary(t);
    const all = [...changes()];
    assert.ok(all.length > 70, `only ${all.length} changes were found`);
    const unnoticed = [];
    let next = 0;
    const work = async () => {
      while (next < all.length) {
        const number = next++;
        const { header, what, changed } = all[number];
        const stderr = await compile(path.join(folder, String(number)), header, changed);
        if (!/has changed: raise WLK_ABI|missing initializer/.test(stderr)) unnoticed.push(what);
      }
    };
    await Promise.all([work(), work()]);
    assert.deepEqual(unnoticed, []);
  });
});
