'use strict';

const { chosen, scope } = require('../conformance/scopes.js');

/**
 * @param {...string} features see scopes.js
 * @returns options of a test that is skipped, with the reason, where the scope has not got them
 */
function needs(...features) {
  const missing = features.find((feature) => scope.lacks[feature]);
  return missing ? { skip: `${chosen} scope: ${scope.lacks[missing]}` } : {};
}

module.exports = { needs };
