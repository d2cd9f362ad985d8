'use strict';

/**
 * Assembles a page into one file that loads nothing, and whose content security policy allows only
 * its own script and style. The script is put together from CommonJS modules. A module may require
 * earlier modules; it finds them by file name, so the file names of a page must be unique.
 */

const { createHash } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

/** @param {string} file */
const read = (file) => fs.readFileSync(file, 'utf8');

/** @param {string} file */
const common = (file) => path.join(__dirname, file);

/** @param {string} text @returns {string} a source expression of the content security policy */
const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

const HEAD = `'use strict';
let module;
const parts = {};
const require = (path) => parts[path.split('/').at(-1)];`;

/** @param {string[]} files */
function scriptOf(files) {
  const parts = files.map((file) => {
    const text = `(function (module, require) {\n${read(file)}})(module, require);`;
    return `module = {};\n${text}\nparts['${path.basename(file)}'] = module.exports;`;
  });
  return [HEAD, ...parts].join('\n');
}

/**
 * @param {object} page
 * @param {string} page.folder the directory of the page's own files
 * @param {string} page.template has `{{style}}`, `{{script}}`, `{{policy}}`, and the keys of `more`
 * @param {string} page.style
 * @param {string[]} page.common modules from lib/page
 * @param {string[]} page.scripts modules, each of which comes after the modules that it
 *   requires; the last one starts the page
 * @param {Record<string, string>} [page.more]
 * @returns {{ html: string, policy: string }}
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
