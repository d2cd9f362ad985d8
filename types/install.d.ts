import type { LockManager } from './shared.js';

/**
 * Puts `locks`, `LockManager` and `Lock` where libraries written for browsers look:
 * `navigator.locks` and the globals, of this thread. Replaces what is there, such as the
 * `navigator.locks` of newer Node.js versions. Creates `navigator` if there is none (Node.js
 * 20).
 *
 * The scope of `navigator.locks` is that of the lock manager: by default all threads of this
 * process. A library that elects a leader by it then elects one in each process. With
 * `{ locks }` of `web-locks/host` the scope is all processes of the machine, with those of a
 * bucket of a cluster all machines.
 *
 * While it is installed, its `request` takes any object that has the shape of an `AbortSignal`,
 * such as those of jsdom and happy-dom.
 *
 * For code that is imported before it can be called, `node --import web-locks/register` does the
 * same at start for the process, and `node --import web-locks/host/register` for the machine.
 *
 * @param options which lock manager, and where
 * @returns undoes it; the second call does nothing
 *
 * @example
 * const uninstall = require('web-locks/install')();
 *
 * @example
 * install({ locks: require('web-locks/host').locks });
 */
declare function install(options?: install.InstallOptions): () => void;
/** @param target the global object to install on; by default this realm's */
declare function install(target: object): () => void;

declare namespace install {
  /** Options of {@link install}. */
  interface InstallOptions {
    /** What `navigator.locks` is; by default the `locks` of `web-locks`. */
    locks?: LockManager | undefined;
    /** The global object to install on; by default this realm's. */
    target?: object | undefined;
  }
}

export = install;
