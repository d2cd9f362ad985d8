'use strict';

/**
 * Derives the label that `query` shows, because `sh` or `python3` alone would not say what runs.
 */

const path = require('node:path');

/** The longest label in UTF-16 code units; an engine may refuse a longer one. */
const LONGEST = 200;

const SHELL = /^(a|ba|da|fi|k|mk|z)?sh$/;
const INTERPRETER = /^(node|bun|perl|php|ruby|python[\d.]*)$/;

/**
 * @param {string[]} words a program and its arguments
 * @returns {string} the line that a shell runs, the name of the script that an interpreter runs, or
 *   the name of the program
 */
function nameOfCommand([program, ...words]) {
  const name = path.basename(program).replace(/\.exe$/i, '');
  if (SHELL.test(name)) {
    const { isLine, word } = operandOf(words);
    if (word !== undefined) return isLine ? shortened(word) : path.basename(word);
  } else if (INTERPRETER.test(name) && words.length > 0 && !words[0].startsWith('-')) {
    return path.basename(words[0]);
  }
  return name;
}

/**
 * @param {string[]} words arguments of a shell
 * @returns {{ isLine: boolean, word?: string }} the first operand; `isLine` if the option -c makes
 *   it a command line
 */
function operandOf(words) {
  let isLine = false;
  for (let i = 0; i < words.length; i++) {
    const word = words[i];
    if (!/^[-+]./.test(word)) return { isLine, word };
    if (word === '--') return { isLine, word: words[i + 1] };
    const letters = word.startsWith('--') ? '' : word;
    if (letters.startsWith('-') && letters.includes('c')) isLine = true;
    // The option takes a value, as in -o pipefail.
    if (letters.includes('o')) i++;
  }
  return { isLine };
}

/** @param {string} line */
const shortened = (line) =>
  line.length <= LONGEST ? line : `${line.slice(0, LONGEST - 1).replace(/[\ud800-\udbff]$/, '')}…`;

module.exports = { nameOfCommand, shortened };
