'use strict';

/** Finds the name of the running program, which is the default label of locks. */

const path = require('node:path');
const process = require('node:process');
const { isMainThread } = require('node:worker_threads');

/** With one of these options, there is no script, and `argv[1]` is an argument of the user. */
const IS_CODE = /^(-e|-p|-pe|--eval|--print)(=|$)/;

/** Undefined if the program is code in an option or comes from the standard input. */
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

/**
 * The name is read when this module is loaded: a program may remove `argv[1]` later, and then an
 * argument of the user, such as a password, would be the name.
 */
const name = nameOf(scriptPath()) || path.basename(process.execPath).replace(/\.exe$/i, '');

/** @returns {string} */
const programName = () => name;

module.exports = { programName };
