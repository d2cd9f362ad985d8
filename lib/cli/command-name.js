'use strict';

/** Derives the label that `query` shows: `sh` or `python3` alone would not say what runs. */

const fs = require('node:fs');
const path = require('node:path');

/** Longer labels (in UTF-16 code units) are truncated. */
const LONGEST = 200;

const SHELL = /^(a|ba|da|k|mk|z)?sh$/;
/** The long options of shells that take the next word as their value. */
const SHELL_VALUE = /^--(rcfile|init-file|emulate)$/;
const INTERPRETER = /^(bun|deno|fish|node|nodejs|perl|php|pypy|python|ruby)[\d.]*$/;
/** Options of interpreters after which the next file is not the script that they run. */
const NO_SCRIPT = /^-(\w*[Ecempr]|-(env-file|eval|import|print|require|\S*loader))/;

/**
 * Returns the line that a shell runs, or the name of the script that an interpreter runs. If
 * neither is certain, it returns only the name of the program: everybody can see the label, and any
 * other argument may be a secret.
 * @param {string[]} words a program and its arguments
 */
function labelOfCommand([program, ...words]) {
  const name = path.basename(program).replace(/\.exe$/i, '');
  const isSubcommand = /^(bun|deno)$/.test(name) && words[0] === 'run';
  if (name === 'fish' && words[0] === '-c') return shortened(words[1] ?? '') || name;
  if (INTERPRETER.test(name)) return scriptOf(isSubcommand ? words.slice(1) : words) || name;
  return (SHELL.test(name) && operandOf(words)) || name;
}

/** @param {string[]} words arguments of an interpreter @returns {string} '' if it is not certain */
function scriptOf(words) {
  for (let i = 0; i < words.length; i++) {
    if (words[i] === '--') return path.basename(words[i + 1] ?? '');
    if (words[i] === '-' || NO_SCRIPT.test(words[i])) return '';
    if (words[i].startsWith('-')) continue;
    // After an option the word may be the value of the option.
    return i === 0 || isFile(words[i]) ? path.basename(words[i]) : '';
  }
  return '';
}

/** @param {string} word */
function isFile(word) {
  try {
    return fs.statSync(word).isFile();
  } catch {
    return false;
  }
}

/** @param {string[]} words arguments of a shell @returns {string} what it runs; '' if unknown */
function operandOf(words) {
  let letters = '';
  for (let i = 0; i < words.length; i++) {
    const word = words[i];
    const isEnd = word === '-' || word === '--';
    if (isEnd || !/^[-+]/.test(word)) {
      const operand = words[isEnd ? i + 1 : i] ?? '';
      if (letters.includes('c')) return shortened(operand);
      // With -s, the shell reads commands from its input, and the operands are their arguments.
      return letters.includes('s') ? '' : path.basename(operand);
    }
    const isLong = word.startsWith('--');
    if (word.startsWith('-') && !isLong) letters += word;
    // The option takes a value, as in -o pipefail.
    if (isLong ? SHELL_VALUE.test(word) : /o/i.test(word)) i++;
  }
  return '';
}

/** @param {string} line */
const shortened = (line) =>
  line.length <= LONGEST ? line : `${line.slice(0, LONGEST - 1).replace(/[\ud800-\udbff]$/, '')}…`;

module.exports = { labelOfCommand, shortened };
