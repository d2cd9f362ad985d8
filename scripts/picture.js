'use strict';

const { execFileSync } = require('node:child_process');
const path = require('node:path');

/** Enough for a page of few colours; a picture is a third as large with them. */
const COLOURS = '64';

/**
 * Writes a picture of the documents, as small as it can be: it is packed with them. Needs pngquant.
 * @param {string} name of the file in docs
 * @param {Buffer} png
 */
function savePicture(name, png) {
  const output = path.join(__dirname, '..', 'docs', name);
  const options = ['--speed', '1', '--strip', '--force', '--output', output];
  execFileSync('pngquant', [...options, COLOURS, '-'], { input: png });
}

module.exports = { savePicture };
