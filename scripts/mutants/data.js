'use strict';

/**
 * The planted defects: test/mutants/*.js, a file for each area, which exports an array of them.
 */

const fs = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const vm = require('node:vm');

const root = path.join(__dirname, '..', '..');
const folder = path.join(root, 'test', 'mutants');

/**
 * @typedef {object} Mutant
 * @property {string} file that has the defect, from the root
 * @property {string} before text of it that occurs once
 * @property {string} after what stands there instead
 * @property {string} why the damage that it would do, in a sentence
 * @property {string[]} tests that should notice, the likeliest first: 'test/….test.js', or a C
 *   program and its arguments: 'core:manager_test' of test/core/Makefile, 'host:cells_test' of
 *   test/host/Makefile and processes.mk
 */

/** @typedef {Mutant & { name: string, area: string }} Named */

/** @returns {Named[]} all of them, by area */
function loadMutants() {
  const files = fs.readdirSync(folder).filter((file) => file.endsWith('.js'));
  return files.flatMap((file) => {
    const area = path.basename(file, '.js');
    /** @type {Mutant[]} */
    const mutants = require(path.join(folder, file));
    return mutants.map((mutant, i) => ({ ...mutant, area, name: `${area} ${i + 1}` }));
  });
}

/**
 * @param {string} text of its file
 * @param {{ before: string, after: string }} mutant
 * @returns {string} with the defect
 */
// A replacement that is a string has patterns.
const mutated = (text, { before, after }) => text.replace(before, () => after);

/**
 * @param {Mutant} mutant
 * @returns {string[]} what keeps it from proving anything, in words
 */
function faultsOf({ file, before, after, why, tests }) {
  if (!fs.existsSync(path.join(root, file))) return [`there is no ${file}`];
  const faults = [];
  const text = fs.readFileSync(path.join(root, file), 'utf8');
  const count = text.split(before).length - 1;
  if (count !== 1) faults.push(`its text occurs ${count} times in ${file}: ${before}`);
  if (before === after) faults.push('it changes nothing');
  if (!/\w/.test(why)) faults.push('it does not say why it matters');
  if (tests.length === 0) faults.push('it names no test');
  for (const test of tests) if (!isTest(test)) faults.push(`there is no ${test}`);
  if (file.endsWith('.js') && count === 1) {
    faults.push(...syntaxOf(mutated(text, { before, after })));
  }
  return faults;
}

/** @param {string} source @returns {string[]} why a defect would be noticed by any test */
function syntaxOf(source) {
  try {
    new vm.Script(Module.wrap(source.replace(/^#!.*/, '')));
    return [];
  } catch (error) {
    return [`${error}`];
  }
}

/** @param {string} test */
function isTest(test) {
  const [, house, program] = /^(core|host):(\S+)/.exec(test) ?? [];
  if (!house) return test.endsWith('.test.js') && fs.existsSync(path.join(root, test));
  const makefiles = house === 'core' ? ['Makefile'] : ['Makefile', 'processes.mk'];
  return makefiles.some((name) => {
    const text = fs.readFileSync(path.join(root, 'test', house, name), 'utf8');
    return new RegExp(`\\b${program}\\b`).test(text);
  });
}

module.exports = { faultsOf, loadMutants, mutated, root };
