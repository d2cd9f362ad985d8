'use strict';

/**
 * The files of the conformance suite. Run as a program with some of them, it runs these in one
 * process, which is faster than a process for each.
 */

const { readdirSync } = require('node:fs');
const path = require('node:path');

const TEST = path.join(__dirname, '..');

/** Tests of the process scope alone: globals, the environment of a process. */
const OF_THE_PROCESS = ['3.1-navigator.test.js', 'environment.test.js'];

const testsIn = (folder) =>
  readdirSync(path.join(TEST, folder))
    .filter((name) => name.endsWith('.test.js') && !OF_THE_PROCESS.includes(name))
    .map((name) => path.join(TEST, folder, name));

const files = [
  ...testsIn('spec'),
  ...testsIn('extensions'),
  path.join(TEST, 'model', 'model.test.js'),
  path.join(TEST, 'conformance', 'cases.test.js'),
];

if (require.main === module) for (const file of process.argv.slice(2)) require(path.resolve(file));

module.exports = { files };
