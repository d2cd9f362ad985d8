'use strict';

/** Makes the help from the tables of arguments.js, in lines of at most 80 columns. */

const { COMMANDS } = require('./arguments.js');

const COLUMNS = 80;
const INDENT = 2;
const TEXT = 30;

/** @param {string} text @param {number} from the column at which all lines begin */
function wrap(text, from) {
  let column = from;
  let result = '';
  for (const word of text.split(' ')) {
    if (column > from && column + word.length > COLUMNS - 1) {
      result = `${result.trimEnd()}\n${' '.repeat(from)}`;
      column = from;
    }
    result += `${word} `;
    column += word.length + 1;
  }
  return result.trimEnd();
}

/** @param {string} left @param {string} right */
function line(left, right, from = TEXT) {
  const start = ' '.repeat(INDENT) + left;
  const gap = start.length < from - 1 ? ' '.repeat(from - start.length) : `\n${' '.repeat(from)}`;
  return start + gap + wrap(right, from);
}

/** @param {string} name @param {import('./arguments.js').Option} option */
function describeOption(name, { short, value, help }) {
  const long = value ? `--${name} ${value}` : `--${name}`;
  return line(short ? `-${short}, ${long}` : `    ${long}`, help);
}

function overview() {
  const commands = Object.entries(COMMANDS).map(([name, { summary }]) => line(name, summary, 14));
  return [
    'Usage: web-locks COMMAND …',
    '',
    wrap('Locks between the processes of one machine, or between machines.', 0),
    '',
    'Commands:',
    ...commands,
    '',
    'Run web-locks COMMAND --help for its options, or web-locks --version.',
    '',
  ].join('\n');
}

/** @param {string} [command] */
function help(command) {
  if (command === undefined) return overview();
  const { usage, details, options } = COMMANDS[command];
  return [
    `Usage: web-locks ${usage}`,
    '',
    wrap(details, 0),
    '',
    'Options:',
    ...Object.entries(options).map(([name, option]) => describeOption(name, option)),
    '',
  ].join('\n');
}

module.exports = { help };
