'use strict';

const { typeError } = require('./platform/errors.js');
const { countInstallations } = require('./standard/lock-manager.js');
const { describe, takeOnly } = require('./standard/webidl.js');
const { Lock, LockManager, locks: locksOfProcess } = require('./index.js');

/**
 * Puts `locks`, `LockManager` and `Lock` where libraries written for browsers look:
 * `navigator.locks` (3.1) and the globals. Replaces what is there; creates `navigator` where there
 * is none.
 * @param {any} [where] the global object to install on, by default this realm's; or options:
 *   `locks`, the lock manager that `navigator.locks` is, by default that of the process; `target`,
 *   the global object
 * @returns {() => void} undoes it; the second call does nothing
 */
function install(where) {
  const { target = globalThis, locks = locksOfProcess } = toOptions(where);
  if (!(locks instanceof LockManager)) {
    throw typeError(INSTALL, `The 'locks' option is ${describe(locks)}, not a LockManager.`);
  }
  if (!isObject(target)) {
    throw typeError(INSTALL, `The target is ${describe(target)}, not a global object.`);
  }
  /** @type {(() => void)[]} */
  const undo = [];
  const uninstall = () => {
    for (const restore of undo.splice(0).reverse()) restore();
  };
  try {
    replace(target, 'LockManager', global(LockManager), undo);
    replace(target, 'Lock', global(Lock), undo);
    // One of ours goes when all who installed it have undone that.
    const { navigator: found } = target;
    const navigator = isObject(found) ? found : createNavigator();
    if (ours.has(navigator)) replace(target, 'navigator', global(navigator), undo);
    replace(homeOfLocks(navigator), 'locks', attribute(locks), undo);
    // Also signals of that DOM.
    countInstallations(locks, 1);
    undo.push(() => countInstallations(locks, -1));
  } catch (error) {
    uninstall();
    throw error;
  }
  return uninstall;
}

const INSTALL = "'install'";

/** @param {any} value */
const isObject = (value) => Object(value) === value;

/**
 * @param {any} where a global object, or options
 * @returns {{ target?: any, locks?: any }}
 */
function toOptions(where) {
  const isOptions = where && (Object.hasOwn(where, 'locks') || Object.hasOwn(where, 'target'));
  if (!isOptions) return { target: where };
  takeOnly(where, ['locks', 'target'], INSTALL);
  return where;
}

/**
 * What was installed over a property, the first of all below the others, and what was there before.
 * @typedef {{ before: PropertyDescriptor | undefined, layers: PropertyDescriptor[] }} Installed
 */

/** @type {WeakMap<object, Map<string, Installed>>} */
const installed = new WeakMap();

/**
 * @param {any} object
 * @param {string} name
 * @param {PropertyDescriptor} descriptor
 * @param {(() => void)[]} undo gets the function that takes it away again: what it was installed
 *   over comes to light once everything above it is gone, too
 */
function replace(object, name, descriptor, undo) {
  const properties = installed.get(object) ?? new Map();
  installed.set(object, properties);
  const property = properties.get(name) ?? {
    before: Object.getOwnPropertyDescriptor(object, name),
    layers: [],
  };
  Object.defineProperty(object, name, descriptor);
  properties.set(name, property);
  property.layers.push(descriptor);
  undo.push(() => {
    const { before, layers } = property;
    layers.splice(layers.indexOf(descriptor), 1);
    const below = layers.at(-1) ?? before;
    if (layers.length === 0) properties.delete(name);
    if (below) Object.defineProperty(object, name, below);
    else delete object[name];
  });
}

/**
 * The descriptor of an interface on the global object.
 * @param {any} value
 * @returns {PropertyDescriptor}
 */
const global = (value) => ({ value, writable: true, enumerable: false, configurable: true });

/**
 * The descriptor of `readonly attribute LockManager locks`.
 * @param {unknown} locks
 * @returns {PropertyDescriptor}
 */
function attribute(locks) {
  const holder = {
    get locks() {
      return locks;
    },
  };
  return /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(holder, 'locks'));
}

/** What there is of `navigator` on Node.js 20: an interface whose only member is `locks`. */
function createNavigator() {
  const navigator = Object.create(
    Object.create(Object.prototype, {
      [Symbol.toStringTag]: { value: 'Navigator', configurable: true },
    }),
  );
  ours.add(navigator);
  return navigator;
}

/** Navigators that were made here. @type {WeakSet<object>} */
const ours = new WeakSet();

/**
 * The object to define `locks` on: the prototype, as browsers do, unless the navigator has one of
 * its own or is a plain object.
 * @param {any} navigator
 */
function homeOfLocks(navigator) {
  const prototype = Object.getPrototypeOf(navigator);
  const plain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return plain || Object.hasOwn(navigator, 'locks') ? navigator : prototype;
}

module.exports = install;
