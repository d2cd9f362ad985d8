'use strict';

/**
 * Makes mutants of a C file on clang's syntax tree: one changed condition, comparison, operator or
 * result, or one statement that is left out. Expansions of macros stay as they are.
 */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { root } = require('./about.js');

/**
 * @typedef {object} Mutant
 * @property {string} file a path from the root
 * @property {number} begin the first byte of the changed text
 * @property {number} end the byte behind it
 * @property {string} text the replacement
 * @property {string} name the function, the change, and the line
 */

/** @typedef {{ begin: number, end: number }} Range bytes of the file */

/** The replacements of each operator. */
const OPERATORS = new Map([
  ['<', '<='],
  ['<=', '<'],
  ['>', '>='],
  ['>=', '>'],
  ['==', '!='],
  ['!=', '=='],
  ['&&', '||'],
  ['||', '&&'],
  ['+', '-'],
  ['-', '+'],
]);
/** Kinds of nodes whose first child is a condition. */
const CONDITIONAL = new Set(['IfStmt', 'WhileStmt', 'ConditionalOperator']);
/** Kinds of nodes whose children are statements. */
const BLOCKS = new Set(['CompoundStmt', 'IfStmt', 'WhileStmt', 'CaseStmt']);

/** @param {any} node @returns {Range | undefined} undefined if a macro made the node */
function rangeOf({ range }) {
  const { begin, end } = range ?? {};
  if (begin?.offset === undefined || end?.offset === undefined) return undefined;
  return { begin: begin.offset, end: end.offset + end.tokLen };
}

class Maker {
  #file;
  #source;
  /** @type {Mutant[]} */
  mutants = [];

  /** @param {string} file a path from the root */
  constructor(file) {
    this.#file = file;
    this.#source = fs.readFileSync(path.join(root, file));
  }

  /** @param {any} tree the syntax tree of the file */
  visit(tree) {
    for (const node of tree.inner) {
      const isHere = node.kind === 'FunctionDecl' && !node.loc?.includedFrom && rangeOf(node);
      if (isHere) for (const child of node.inner ?? []) this.#visit(child, node, node.name);
    }
  }

  /** @param {any} node @param {any} parent @param {string} where */
  #visit(node, parent, where) {
    if (!node.kind) return;
    this.#mutate(node, parent, where);
    for (const child of node.inner ?? []) this.#visit(child, node, where);
  }

  /** @param {any} node @param {any} parent @param {string} where */
  #mutate(node, parent, where) {
    const { kind, inner = [], opcode } = node;
    if (CONDITIONAL.has(kind))
      this.#add(rangeOf(inner[0]), (text) => `!(${text})`, `${where}: negated condition`);
    if (kind === 'BinaryOperator' && OPERATORS.has(opcode)) this.#addOperator(node, where);
    const isStatement = BLOCKS.has(parent.kind) && parent.inner?.[0] !== node;
    const isAlone = isStatement || parent.kind === 'CompoundStmt';
    const canGo = kind === 'CallExpr' || (kind === 'BinaryOperator' && opcode === '=');
    if (isAlone && (canGo || /^(Compound)?Assign|UnaryOperator/.test(kind)))
      this.#add(rangeOf(node), () => '(void)0', `${where}: left out a statement`);
    if (kind === 'ReturnStmt' && inner[0]?.type?.qualType === '_Bool')
      this.#add(rangeOf(inner[0]), (text) => `!(${text})`, `${where}: other result`);
  }

  /** @param {any} node @param {string} where */
  #addOperator({ inner: [left, right], opcode }, where) {
    const [before, after] = [rangeOf(left), rangeOf(right)];
    if (!before || !after) return;
    const between = this.#text({ begin: before.end, end: after.begin });
    // Parentheses and comments may stand beside the operator.
    const at = between.split('/*')[0].indexOf(opcode);
    if (at < 0) return;
    const begin = before.end + at;
    const other = /** @type {string} */ (OPERATORS.get(opcode));
    this.#add(
      { begin, end: begin + opcode.length },
      () => other,
      `${where}: ${opcode} is ${other}`,
    );
  }

  /** @param {Range} range */
  #text({ begin, end }) {
    return this.#source.toString('utf8', begin, end);
  }

  /**
   * @param {Range | undefined} range @param {(text: string) => string} change @param {string} what
   */
  #add(range, change, what) {
    if (!range) return;
    const line = this.#source.subarray(0, range.begin).filter((byte) => byte === 10).length + 1;
    const old = this.#text(range);
    const text = change(old);
    const name = `${this.#file}:${line} ${what}: ${old.replaceAll(/\s+/g, ' ')}`;
    this.mutants.push({ file: this.#file, ...range, text, name });
  }
}

/** @param {string} file a path from the root */
function mutantsOf(file) {
  const args = ['-std=gnu11', '-DWLK_CHECKS', '-fsyntax-only', '-Xclang', '-ast-dump=json', file];
  const tree = execFileSync('clang', args, { cwd: root, maxBuffer: 2 ** 29 });
  const maker = new Maker(file);
  maker.visit(JSON.parse(String(tree)));
  return maker.mutants;
}

/** @param {Buffer} source @param {Mutant} mutant */
const mutated = (source, { begin, end, text }) =>
  Buffer.concat([source.subarray(0, begin), Buffer.from(text), source.subarray(end)]);

module.exports = { mutantsOf, mutated };
