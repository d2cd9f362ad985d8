'use strict';

const { chosen, scope } = require('../conformance/scopes.js');

/**
 * @param {...string} features see scopes.js
 * @returns options that skip a test, with the reason, if the scope lacks a feature
 */
function needs(...features) {
  const missing = features.find((feature) => scope.lacks[feature]);
  return missing ? { skip: `${chosen} scope: ${scope.lacks[missing]}` } : {};
}

module.exports = { needs };
