'use strict';

/**
 * Checks that imports in lib/ go down and not in circles: the entries at its top may use all rooms,
 * a room itself and those below it (docs/ARCHITECTURE.md, "The rooms"). Types do not count.
 */

const fs = require('node:fs');
const path = require('node:path');

const LIB = path.join(__dirname, '..', 'lib');
/** From the top to the bottom. */
const ROOMS = ['', 'extensions', 'standard', 'backend', 'platform'];

/** @returns {string[]} the files in a room, from lib/ */
const filesIn = (room) =>
  fs
    .readdirSync(path.join(LIB, room))
    .filter((name) => /\.m?js$/.test(name))
    .map((name) => path.join(room, name));

/** @returns {string[]} the files of lib/ that a file imports */
function importsOf(file) {
  const source = fs.readFileSync(path.join(LIB, file), 'utf8');
  const found = source.matchAll(/(?:\brequire\(|\bfrom )'(\.[^']+\.js)'/g);
  return [...found].map(([, name]) => path.join(path.dirname(file), name));
}

const roomOf = (file) => ROOMS.indexOf(file.includes(path.sep) ? path.dirname(file) : '');

const imports = new Map(
  ROOMS.flatMap(filesIn).map((file) => [
    file,
    importsOf(file).filter((to) => !to.startsWith('..')),
  ]),
);
const faults = [];

for (const [file, all] of imports) {
  for (const to of all) {
    if (!imports.has(to)) faults.push(`${file} imports ${to}, which is in no room`);
    else if (roomOf(to) < roomOf(file)) faults.push(`${file} imports ${to}, which is above it`);
  }
}

const done = new Set();

/** @param {string[]} way of files, each imported by the one before */
function follow(way) {
  const file = way.at(-1);
  if (way.indexOf(file) < way.length - 1) {
    faults.push(`a circle: ${way.slice(way.indexOf(file)).join(' → ')}`);
    return;
  }
  if (done.has(file)) return;
  for (const to of imports.get(file) ?? []) follow([...way, to]);
  done.add(file);
}
for (const file of imports.keys()) follow([file]);

for (const fault of faults) console.error(fault);
process.exitCode = faults.length > 0 ? 1 : 0;
