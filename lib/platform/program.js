'use strict';

/** What people call the program that runs: holders without a label have its name. */

const path = require('node:path');
const process = require('node:process');
const { isMainThread } = require('node:worker_threads');

/** Options whose value is the program: then the first argument is not the name of a script. */
const IS_CODE = /^(-e|-p|-pe|--eval|--print)(=|$)/;

/** @type {string | undefined} */
let known;

/**
 * @returns {string} the name of the script that this thread runs, without folders, or of the
 *   executable if there is no script. A program may have changed what it is read from
 */
function programName() {
  known ??= nameOf(scriptOf()) || path.basename(process.execPath).replace(/\.exe$/i, '');
  return known;
}

function scriptOf() {
  const { argv, execArgv } = process;
  const isCode =
    isMainThread && Array.isArray(execArgv) && execArgv.some((one) => IS_CODE.test(one));
  const script = isCode || !Array.isArray(argv) ? undefined : argv[1];
  return script === '-' ? undefined : script;
}

/** @param {unknown} script */
const nameOf = (script) =>
  typeof script === 'string' ? path.basename(script).replaceAll('\0', '') : '';

module.exports = { programName };
