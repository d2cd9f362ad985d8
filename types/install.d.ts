/**
 * Puts `locks`, `LockManager` and `Lock` where libraries written for browsers look:
 * `navigator.locks` and the globals, of this thread. Replaces what is there, such as the
 * `navigator.locks` of newer Node.js versions. Creates `navigator` where there is none (Node.js
 * 20).
 *
 * For code that is imported before it can be called, `node --import web-locks/register` does the
 * same at start.
 *
 * @param target the global object to install on; by default this realm's
 * @returns undoes it; the second call does nothing
 *
 * @example
 * const uninstall = require('web-locks/install')();
 */
declare function install(target?: object): () => void;
export = install;
