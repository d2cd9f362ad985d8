'use strict';

const { execFileSync } = require('node:child_process');
const path = require('node:path');

/** A page of few colours needs no more, and the picture is much smaller. */
const COLOURS = '16';

/**
 * Writes a picture for the documents with pngquant, because the package contains it.
 * @param {string} name a file of docs
 * @param {Buffer} png
 */
function savePicture(name, png) {
  const output = path.join(__dirname, '..', 'docs', name);
  const options = ['--speed', '1', '--strip', '--nofs', '--force', '--output', output];
  execFileSync('pngquant', [...options, COLOURS, '-'], { input: png });
}

module.exports = { savePicture };
