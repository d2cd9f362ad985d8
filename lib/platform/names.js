'use strict';

/**
 * Names of locks in messages. A lock that only those have who have an object (`new Mutex()`) has a
 * name that users cannot give, and that they need not see.
 */

const { quote } = require('./errors.js');

/**
 * @param {string} kind what it is
 * @param {string} unique what nobody else's name has; one line
 * @param {string} label what it is for; '' for none
 * @returns {string} a reserved name (3.2.1, step 5)
 */
const privateName = (kind, unique, label) => `-${unique}\n${kind}\n${label}`;

/**
 * @param {string} name
 * @returns {string | undefined} what to call the lock, if it is a private one
 */
function describePrivate(name) {
  if (name[0] !== '-') return undefined;
  const kindAt = name.indexOf('\n') + 1;
  const labelAt = name.indexOf('\n', kindAt) + 1;
  const kind = name.slice(kindAt, labelAt - 1);
  const label = name.slice(labelAt);
  return label ? `the private ${kind} ${quote(label)}` : `a private ${kind}`;
}

/** @param {string} name */
const quoteName = (name) => describePrivate(name) ?? quote(name);

/** @param {string} name */
const theLock = (name) => describePrivate(name) ?? `lock ${quote(name)}`;

module.exports = { describePrivate, privateName, quoteName, theLock };
