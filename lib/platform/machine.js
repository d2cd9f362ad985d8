'use strict';

const os = require('node:os');

/** @type {string | undefined} */
let name;

/** @returns {string} '' if the machine has no name */
function hostname() {
  if (name !== undefined) return name;
  try {
    name = os.hostname();
  } catch {
    name = '';
  }
  return name;
}

module.exports = { hostname };
