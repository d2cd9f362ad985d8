'use strict';

/**
 * The code blocks of the documents, each with the keys of the HTML comment before it:
 *
 *   <!-- in: cluster-guard.mjs; needs: postgres, node 24; prints: /^saved$/m -->
 *
 *   in          the program of which the block is a fragment, a file in around/. The block replaces
 *               the line `// …` or `# …` of the file
 *   needs       servers (postgres, pgbouncer, redis, etcd, s3), linux, or a version of Node.js
 *   file        the block is a file of this name, beside the later programs of the page
 *   prints      its output on stdout: a string of JSON, or /a regular expression/
 *   warns       a regular expression of its output on stderr; without it, there must be none
 *   tested by   a test that runs it, with a path from the repository's folder
 *   not run     the reason why it cannot be run
 *
 * All keys are optional. If a block of JavaScript has `import` or `await` at its top level, it gets
 * imports of the exports of this package and of application.mjs that it uses but does not declare.
 */

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..', '..');
const KEYS = ['in', 'needs', 'file', 'prints', 'warns', 'tested by', 'not run'];
/** The languages of blocks that are no code. */
const PICTURE = ['', 'text'];
const FENCE = /^( *)```(.*)$/;

/**
 * @typedef {object} Block
 * @property {string} page such as `docs/API.md`
 * @property {number} line where its code begins, from 1
 * @property {string} language
 * @property {string[]} code its lines
 * @property {string[]} before the lines of its program before it
 * @property {string[]} after the lines of its program after it
 * @property {Record<string, string>} keys
 */

/** @returns {string[]} the fragments of a page's headings and anchors on npm and GitHub */
function anchorsOf(file) {
  const text = fs.readFileSync(file, 'utf8').replace(/^ *```.*?^ *```/gms, '');
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading.toLowerCase());
  return [
    ...headings.map((text) => text.replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')),
    ...[...text.matchAll(/<a id="([\w-]+)">/g)].map(([, id]) => id),
  ];
}

/** @returns {string[]} the documents for users, with paths from the repository's folder */
function pages() {
  const docs = fs.readdirSync(path.join(root, 'docs'), { recursive: true });
  const all = [
    'README.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    ...docs.map((file) => `docs/${file}`),
  ];
  return all.filter((file) => file.endsWith('.md'));
}

/** @param {string} line `needs: redis; prints: "x"` @param {string} place named in errors */
function toKeys(line, place) {
  /** @type {Record<string, string>} */
  const keys = {};
  for (const part of line.split(/; (?=[a-z ]+: )/)) {
    if (part.trim() === '') continue;
    const [, key, value] = /^([a-z ]+): (.+)$/.exec(part.trim()) ?? [];
    assert.ok(key && KEYS.includes(key), `${place}: ${JSON.stringify(part)} is not of a block`);
    keys[key] = value;
  }
  return keys;
}

/** @returns {Record<string, string>} the keys of the comment before the line that opens a block */
function keysBefore(lines, fence, place) {
  let last = fence - 1;
  while (last >= 0 && lines[last].trim() === '') last--;
  const line = lines[last] ?? '';
  const [, text] = /^ *<!--(.*)-->$/.exec(line) ?? [];
  assert.ok(text !== undefined || !line.endsWith('-->'), `${place}: the comment has several lines`);
  return text === undefined ? {} : toKeys(text.trim(), place);
}

/** @param {string | undefined} name @returns {{ before: string[], after: string[] }} */
function programAround(name) {
  if (name === undefined) return { before: [], after: [] };
  const text = fs.readFileSync(path.join(__dirname, 'around', name), 'utf8');
  const lines = text.trimEnd().split('\n');
  const at = lines.findIndex((line) => /^(\/\/|#) …$/.test(line));
  assert.ok(at >= 0, `around/${name} has no line for its block`);
  return { before: lines.slice(0, at), after: lines.slice(at + 1) };
}

const application = fs.readFileSync(path.join(__dirname, 'application.mjs'), 'utf8');
/** The exports of each module that a fragment need not import. @type {[string, string[]][]} */
const PROVIDED = [
  ['web-locks', Object.keys(require('../../lib/index.js'))],
  ['./application.mjs', application.match(/(?<=^export (const|function|class) )\w+/gm)],
];

/** @param {string} text a program @returns {string[]} the missing imports */
function importsLackingIn(text) {
  if (/\brequire\(/.test(text)) return [];
  const code = text.replace(/\/\/.*$/gm, '').replace(/'[^'\n]*'/g, "''");
  const isUsed = (name) => new RegExp(`(?<![.\\w])${name}\\b(?!:)`).test(code);
  const isDeclared = (name) =>
    new RegExp(`\\b(import|const|let|class|function)\\b[^=;(]*(?<![.\\w])${name}\\b`).test(code);
  return PROVIDED.map(([module, names]) => {
    const lacking = names.filter((name) => isUsed(name) && !isDeclared(name));
    return lacking.length > 0 ? `import { ${lacking.join(', ')} } from '${module}';` : '';
  }).filter(Boolean);
}

/** @param {Block} block */
function addImports(block) {
  if (block.language !== 'js') return;
  const text = [...block.before, ...block.code, ...block.after].join('\n');
  block.before.unshift(...importsLackingIn(text));
}

/** @param {string} page @returns {Block[]} */
function blocksOf(page) {
  const lines = fs.readFileSync(path.join(root, page), 'utf8').split('\n');
  /** @type {Block[]} */
  const blocks = [];
  /** @type {{ block: Block, indent: string } | undefined} */
  let open;
  for (const [i, line] of lines.entries()) {
    const [, indent, language] = FENCE.exec(line) ?? [];
    if (indent === undefined) open?.block.code.push(line.replace(open.indent, ''));
    else if (open) {
      addImports(open.block);
      if (!PICTURE.includes(open.block.language)) blocks.push(open.block);
      open = undefined;
    } else {
      const keys = keysBefore(lines, i, `${page}:${i + 1}`);
      const around = programAround(keys.in);
      open = { indent, block: { page, line: i + 2, language, code: [], keys, ...around } };
    }
  }
  assert.equal(open, undefined, `${page} has a block that does not end`);
  return blocks;
}

module.exports = { anchorsOf, blocksOf, pages, root };
