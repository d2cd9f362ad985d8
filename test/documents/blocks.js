'use strict';

/**
 * The code blocks of the documents, each with what the HTML comment before it says of it:
 *
 *   <!-- needs: postgres, node 24; prints: /^saved$/m
 *   import { locks } from 'web-locks';
 *   …
 *   await locks.query();
 *   -->
 *
 * The first line has keys, all of them optional:
 *
 *   needs       servers (postgres, pgbouncer, redis, etcd, s3), linux, or a version of Node.js
 *   file        the block is a file of this name, beside the programs of the page that come after it
 *   prints      what it writes to stdout: a string of JSON, or /a regular expression/
 *   warns       a regular expression of what it writes to stderr; without it, that is nothing
 *   tested by   a test that runs it, with a path from the repository's folder
 *   not run     why it cannot be run
 *
 * The lines after it are the program of which the block is a fragment: the block stands at the line
 * `…`. Without one, the lines come before the block. A block without a comment is a whole program.
 */

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..', '..');
const KEYS = ['needs', 'file', 'prints', 'warns', 'tested by', 'not run'];
/** The languages of what is no code. */
const PICTURE = ['', 'text'];
const FENCE = /^( *)```(.*)$/;

/**
 * @typedef {object} Block
 * @property {string} page such as `docs/API.md`
 * @property {number} line where its code begins, from 1
 * @property {string} language
 * @property {string[]} code its lines
 * @property {string[]} before the lines of the program before it
 * @property {string[]} after and after it
 * @property {Record<string, string>} keys
 */

/** @returns {string[]} the documents that users read, with paths from the repository's folder */
function pages() {
  const docs = fs
    .readdirSync(path.join(root, 'docs'), { recursive: true })
    .map((file) => `docs/${file}`);
  return ['README.md', 'CONTRIBUTING.md', 'SECURITY.md', ...docs].filter((file) =>
    file.endsWith('.md'),
  );
}

/**
 * @param {string} line `needs: redis; prints: "x"`
 * @param {string} place of which an error tells
 */
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

/**
 * @param {string[]} lines of a page
 * @param {number} fence the index of the line that opens a block
 * @param {string} place
 * @returns {{ keys: Record<string, string>, before: string[], after: string[] }} what the comment
 *   before it says
 */
function commentBefore(lines, fence, place) {
  let last = fence - 1;
  while (last >= 0 && lines[last].trim() === '') last--;
  if (!lines[last]?.trimEnd().endsWith('-->')) return { keys: {}, before: [], after: [] };
  let first = last;
  while (!lines[first].trimStart().startsWith('<!--')) first--;
  const text = lines.slice(first, last + 1).join('\n');
  const [head, ...program] = text.trim().slice(4, -3).split('\n');
  while (program.at(-1)?.trim() === '') program.pop();
  const at = program.findIndex((line) => line.trim() === '…');
  const [before, after] = at < 0 ? [program, []] : [program.slice(0, at), program.slice(at + 1)];
  return { keys: toKeys(head.trim(), place), before, after };
}

/**
 * @param {string} page
 * @returns {Block[]}
 */
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
      if (!PICTURE.includes(open.block.language)) blocks.push(open.block);
      open = undefined;
    } else {
      const comment = commentBefore(lines, i, `${page}:${i + 1}`);
      open = { indent, block: { page, line: i + 2, language, code: [], ...comment } };
    }
  }
  assert.equal(open, undefined, `${page} has a block that does not end`);
  return blocks;
}

module.exports = { blocksOf, pages, root };
