'use strict';

const { illegalInvocation, typeError } = require('./platform/errors.js');
const { addInstallations } = require('./standard/lock-manager.js');
const { describe, rejectUnknownOptions } = require('./standard/webidl.js');
const { Lock, LockManager, locks: locksOfProcess } = require('./index.js');

/**
 * Puts `locks`, `LockManager` and `Lock` where libraries written for browsers look for them: into
 * `navigator.locks` (section 3.1 of the specification) and the globals. It replaces existing
 * values, and creates `navigator` if there is none.
 * @param {any} [where] the global object to install on, by default this realm's; or an object with
 *   the options `target` (the global object) and `locks` (by default the process's lock manager)
 * @returns {() => void} undoes the installation; a second call does nothing
 */
function install(where) {
  const { target = globalThis, locks = locksOfProcess } = toOptions(where);
  if (!(locks instanceof LockManager)) {
    throw typeError(INSTALL, `The 'locks' option is ${describe(locks)}; expected a LockManager.`);
  }
  if (!isObject(target)) {
    throw typeError(INSTALL, `The target is ${describe(target)}; expected a global object.`);
  }
  /** @type {(() => void)[]} */
  const undo = [];
  const uninstall = () => {
    for (const restore of undo.splice(0).reverse()) restore();
  };
  try {
    installOver(target, 'LockManager', interfaceDescriptor(LockManager), undo);
    installOver(target, 'Lock', interfaceDescriptor(Lock), undo);
    // A navigator that this function made is installed itself, so that it disappears when the last
    // installation on it is undone.
    const { navigator: found } = target;
    const navigator = isObject(found) ? found : createNavigator();
    if (ours.has(navigator)) installOver(target, 'navigator', interfaceDescriptor(navigator), undo);
    const owner = ownerOfLocks(navigator);
    installOver(owner, 'locks', locksDescriptor(locks, owner, navigator), undo);
    // An installed lock manager accepts signals of the target's DOM as well.
    addInstallations(locks, 1);
    undo.push(() => addInstallations(locks, -1));
  } catch (error) {
    uninstall();
    throw error;
  }
  return uninstall;
}

const INSTALL = "'install'";

const { isPrototypeOf } = Object.prototype;

/** Functions are objects, too. @param {any} value */
const isObject = (value) => Object(value) === value;

/**
 * Without an own property `locks` or `target`, `where` is the target itself.
 * @param {any} where @returns {{ target?: any, locks?: any }}
 */
function toOptions(where) {
  const isOptions = where && (Object.hasOwn(where, 'locks') || Object.hasOwn(where, 'target'));
  if (!isOptions) return { target: where };
  rejectUnknownOptions(where, ['locks', 'target'], INSTALL);
  return where;
}

/**
 * The original descriptor of a property, and the installed ones, oldest first.
 * @typedef {{ before: PropertyDescriptor | undefined, layers: PropertyDescriptor[] }} Installed
 */
/** @type {WeakMap<object, Map<string, Installed>>} */
const installed = new WeakMap();

/**
 * Installations may be undone in any order: the property always has the newest installation that is
 * left, or the original value if none is left.
 * @param {any} object @param {string} name @param {PropertyDescriptor} descriptor
 * @param {(() => void)[]} undo receives the function that removes this installation
 */
function installOver(object, name, descriptor, undo) {
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

/** The descriptor that Web IDL demands of an interface. @param {any} value */
const interfaceDescriptor = (value) => ({
  value,
  writable: true,
  enumerable: false,
  configurable: true,
});

/**
 * `readonly attribute LockManager locks`: as in browsers, the getter throws a TypeError unless
 * `this` is a navigator.
 * @param {unknown} locks @param {object} owner has the attribute @param {object} navigator
 */
function locksDescriptor(locks, owner, navigator) {
  const holder = {
    get locks() {
      if (Object.is(this, navigator) || isPrototypeOf.call(owner, this)) return locks;
      throw illegalInvocation("'get locks' on 'Navigator'", 'Navigator');
    },
  };
  return /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(holder, 'locks'));
}

/** Node.js 20 lacks `navigator`. */
function createNavigator() {
  const navigator = Object.create(
    Object.create(Object.prototype, {
      [Symbol.toStringTag]: { value: 'Navigator', configurable: true },
    }),
  );
  ours.add(navigator);
  return navigator;
}

/** Contains the results of `createNavigator`. @type {WeakSet<object>} */
const ours = new WeakSet();

/**
 * Browsers define `locks` on the prototype. A plain object, or a navigator with an own property
 * `locks`, gets the property itself.
 * @param {any} navigator
 */
function ownerOfLocks(navigator) {
  const prototype = Object.getPrototypeOf(navigator);
  const plain = prototype === null || Object.getPrototypeOf(prototype) === null;
  return plain || Object.hasOwn(navigator, 'locks') ? navigator : prototype;
}

module.exports = install;
