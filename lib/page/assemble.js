'use strict';

/**
 * Makes a page of its parts: one file that loads nothing, and whose policy lets no other script and
 * no other style be. Each page has a folder with a template, its style, and its script in parts;
 * what all pages have in common is here.
 *
 * The parts of a script are CommonJS, as in Node.js: each has a scope of its own, and requires
 * parts before it. Their names differ.
 */

const { createHash } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

/** @param {string} file @returns {string} */
const read = (file) => fs.readFileSync(file, 'utf8');

/** @param {string} file of this folder @returns {string} */
const common = (file) => path.join(__dirname, file);

/** @param {string} text @returns {string} for a policy */
const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

const HEAD = `'use strict';
let module;
const parts = {};
const require = (path) => parts[path.split('/').at(-1)];`;

/** @param {string[]} files @returns {string} the parts as one script */
function scriptOf(files) {
  const parts = files.map((file) => {
    const text = `(function (module, require) {\n${read(file)}})(module, require);`;
    return `module = {};\n${text}\nparts['${path.basename(file)}'] = module.exports;`;
  });
  return [HEAD, ...parts].join('\n');
}

/**
 * @param {object} page
 * @param {string} page.folder of its parts
 * @param {string} page.template a file of it, with `{{name}}` for what is put in: `style`,
 *   `script`, `policy`, and `more`
 * @param {string} page.style a file of it
 * @param {string[]} page.common the parts of the script that are of this folder
 * @param {string[]} page.scripts those of its own, each after those that it requires; the last one
 *   runs all
 * @param {Record<string, string>} [page.more] markup
 * @returns {{ html: string, policy: string }} the page, and what it may do
 */
function assemble({ folder, template, style: own, common: shared, scripts, more }) {
  const style = read(common('base.css')) + read(path.join(folder, own));
  const files = [...shared.map(common), ...scripts.map((name) => path.join(folder, name))];
  const script = scriptOf(files);
  const policy = `default-src 'none'; style-src ${hash(style)}; script-src ${hash(script)}`;
  /** @type {Record<string, string>} */
  const parts = { ...more, policy, style, script };
  const html = read(path.join(folder, template)).replace(/\{\{(\w+)\}\}/g, (_, one) => parts[one]);
  return { html, policy };
}

module.exports = { assemble };
