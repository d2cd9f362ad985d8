'use strict';

/**
 * Assembles a page into one file that loads nothing, and whose content security policy allows only
 * its own script and style. Each page has a folder with a template, a style, and a script in parts;
 * this folder contains the parts that pages share.
 *
 * The parts of a script are CommonJS modules, as in Node.js. Each has a scope of its own, and may
 * require earlier parts by their file names, which must be unique.
 */

const { createHash } = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');

/** @param {string} file */
const read = (file) => fs.readFileSync(file, 'utf8');

/** @param {string} file a file of this folder */
const common = (file) => path.join(__dirname, file);

/** @param {string} text @returns {string} a source for the policy */
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
 * @param {string} page.folder contains the parts
 * @param {string} page.template a file with `{{name}}` for each inserted part: `style`, `script`,
 *   `policy`, and those of `more`
 * @param {string} page.style a file of the folder
 * @param {string[]} page.common parts of the script from this folder
 * @param {string[]} page.scripts the page's own parts of the script. Each part must come after the
 *   parts that it requires; the last part starts the page
 * @param {Record<string, string>} [page.more] the texts for further names in the template
 * @returns {{ html: string, policy: string }} the page and its content security policy
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
