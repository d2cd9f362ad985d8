'use strict';

/** Describes locks in messages. A private lock (of `new Mutex()`, for example) is shown unnamed. */

const { quote } = require('./errors.js');

/**
 * Starts the name with '-': the specification reserves such names (section 3.2.1, step 5), so users
 * cannot request the lock.
 * @param {string} kind @param {string} unique one line that no other name contains
 * @param {string} label '' for none
 */
const privateName = (kind, unique, label) => `-${unique}\n${kind}\n${label}`;

/** @param {string} name @returns {string | undefined} undefined if the lock is not private */
function describePrivate(name) {
  if (name[0] !== '-') return undefined;
  const kindAt = name.indexOf('\n') + 1;
  const labelAt = name.indexOf('\n', kindAt) + 1;
  const kind = name.slice(kindAt, labelAt - 1);
  const label = name.slice(labelAt);
  return label ? `the private ${kind} ${quote(label)}` : `a private ${kind}`;
}

/** Describes a private lock instead of quoting its name. @param {string} name */
const quoteName = (name) => describePrivate(name) ?? quote(name);

/** @param {string} name */
const describeLock = (name) => describePrivate(name) ?? `lock ${quote(name)}`;

module.exports = { describePrivate, privateName, quoteName, describeLock };
