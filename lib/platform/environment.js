'use strict';

/**
 * Emits process warnings, and reads the environment variables that change what the library reports
 * about locks. A wrong value must not stop a program that works otherwise, so it causes a warning
 * and has no effect. (A wrong WEB_LOCKS_DIRECTORY, which chooses the locks, causes an error.)
 */

const process = require('node:process');
const { describe } = require('./errors.js');
const { report } = require('./intrinsics.js');

/** @param {string} message @param {string} code */
function warn(message, code) {
  try {
    process.emitWarning(message, { type: 'LockWarning', code });
  } catch (error) {
    report(error);
  }
}

/**
 * Warns if the value is wrong.
 * @template T @param {string} variable
 * @param {(text: string) => T | undefined} parse returns undefined if the value is wrong
 * @param {string} expected describes all right values
 * @returns {T | undefined} undefined if the variable is missing, empty or wrong
 */
function readSetting(variable, parse, expected) {
  const { [variable]: text = '' } = process.env;
  if (text === '') return undefined;
  const value = parse(text);
  if (value !== undefined) return value;
  warn(
    `${variable} is ${describe(text)}; expected ${expected}. The variable has no effect.`,
    'WEB_LOCKS_ENVIRONMENT',
  );
  return undefined;
}

module.exports = { readSetting, warn };
