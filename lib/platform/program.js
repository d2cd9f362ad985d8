'use strict';

/** Finds the name of the running program, which holders without a label show. */

const path = require('node:path');
const process = require('node:process');
const { isMainThread } = require('node:worker_threads');

/** With one of these options, the first argument is not the name of a script. */
const IS_CODE = /^(-e|-p|-pe|--eval|--print)(=|$)/;

/** @type {string | undefined} */
let known;

/**
 * Keeps its first answer, because a program may change `process.argv` later. Without a script, the
 * name is that of the executable.
 */
function programName() {
  known ??= nameOf(scriptPath()) || path.basename(process.execPath).replace(/\.exe$/i, '');
  return known;
}

function scriptPath() {
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
