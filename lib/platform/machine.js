'use strict';

const os = require('node:os');

/** @type {string | undefined} */
let name;

/** @returns {string} the name of this machine; '' if it has none */
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
