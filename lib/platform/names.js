'use strict';

/**
 * Names of locks in messages. An object such as `new Mutex()` has a private lock, with a name that
 * users cannot request and need not see.
 */

const { quote } = require('./errors.js');

/**
 * Makes the name of a private lock. The specification reserves such names (section 3.2.1, step 5),
 * so no user can request this lock.
 * @param {string} kind @param {string} unique one line that no other name contains
 * @param {string} label '' for none
 */
const privateName = (kind, unique, label) => `-${unique}\n${kind}\n${label}`;

/** @param {string} name @returns {string | undefined} undefined unless the name is a private one */
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
const describeLock = (name) => describePrivate(name) ?? `lock ${quote(name)}`;

module.exports = { describePrivate, privateName, quoteName, describeLock };
