'use strict';

/**
 * Moves the changes under "Unreleased" to the version that `npm version` is about to set, with
 * today's date.
 */

const fs = require('node:fs');
const path = require('node:path');

const file = path.join(__dirname, '..', 'CHANGELOG.md');
const { npm_package_version: version } = process.env;
const heading = '## [Unreleased]\n';
const text = fs.readFileSync(file, 'utf8');
if (!version || !text.includes(heading)) throw new Error(`no version, or no "${heading.trim()}"`);
const today = new Date().toISOString().slice(0, 10);
fs.writeFileSync(file, text.replace(heading, `${heading}\n## [${version}] - ${today}\n`));
