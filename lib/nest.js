'use strict';

/**
 * `web-locks/nest`: decorators for methods of NestJS providers and controllers, and the module that
 * gives them their locks (docs/RECIPES.md). It needs no NestJS package: what NestJS calls a dynamic
 * module is a plain object.
 */

const { AsyncLocalStorage } = require('node:async_hooks');
const { describe, invalidStateError, quote, typeError } = require('./platform/errors.js');
const { AbortController, AbortSignal } = require('./platform/realm.js');
const { requireLocks } = require('./platform/require-locks.js');
const { checkOnceOptions } = require('./extensions/options.js');

/** @typedef {(this: any, ...args: any[]) => any} Method */
/** @typedef {string | ((...args: any[]) => string)} Name */
/** @typedef {(open: OpenLocks, name: string, options: any, work: Method) => Promise<any>} Call */

/** The injection token of the lock manager. */
const LOCKS = Symbol('LOCKS');
/** The injection token of the provider that NestJS notifies of the shutdown. */
const OPEN_LOCKS = Symbol('OPEN_LOCKS');

/**
 * The locks of the applications that have not shut down. Decorated methods find them here, because
 * an instance does not know its application.
 * @type {Set<OpenLocks>}
 */
const applications = new Set();

/** The lock of the innermost decorated method that runs. @type {AsyncLocalStorage<any>} */
const heldLock = new AsyncLocalStorage();

class OpenLocks {
  #bucket;
  #stop = new AbortController();
  /** The calls of `@Elected` methods that have not ended. @type {Set<Promise<any>>} */
  #elections = new Set();

  /**
   * Adds itself to `applications`.
   * @param {any} locks @param {{ close(): Promise<void> }} [bucket] is closed at the shutdown
   */
  constructor(locks, bucket) {
    this.locks = locks;
    this.#bucket = bucket;
    applications.add(this);
  }

  get isStopping() {
    return this.#stop.signal.aborted;
  }

  /**
   * If the shutdown aborts the election, the result is undefined.
   * @param {string} name @param {any} options @param {Method} callback @returns {Promise<any>}
   */
  async elect(name, options, callback) {
    const stop = this.#stop.signal;
    const signal = options?.signal ? AbortSignal.any([stop, options.signal]) : stop;
    const election = this.locks.elect(name, { ...options, signal }, callback);
    this.#elections.add(election);
    try {
      return await election;
    } catch (error) {
      if (!stop.aborted || /** @type {any} */ (error)?.name !== 'AbortError') throw error;
    } finally {
      this.#elections.delete(election);
    }
  }

  /** NestJS calls this first: candidates withdraw, and leaders end their terms. */
  async onModuleDestroy() {
    this.#stop.abort();
    await Promise.allSettled(this.#elections);
  }

  /** NestJS calls this last, when the handlers of its requests have ended. */
  async onApplicationShutdown() {
    applications.delete(this);
    await this.#bucket?.close();
  }
}

/**
 * Throws unless there is exactly one application. If any is not stopping, the stopping ones do not
 * count.
 * @param {string} operation @returns {OpenLocks}
 */
function locksOfApplication(operation) {
  const all = [...applications];
  const running = all.filter((open) => !open.isStopping);
  const found = running.length > 0 ? running : all;
  if (found.length === 1) return found[0];
  throw invalidStateError(
    `A method with ${operation} was called, but ${found.length} applications of this process ` +
      'have a LocksModule; expected one. Import LocksModule.forRoot({ locks }) in the module of ' +
      'the application, and close each application before the next one starts.',
  );
}

/**
 * @param {string} operation @param {Call} call
 * @param {(options: any, operation: string) => void} [check] throws if the options are invalid
 * @returns {(name: Name, options?: any) => any}
 */
function decoratorOf(operation, call, check) {
  return (name, options) => {
    if (typeof name !== 'string' && typeof name !== 'function') {
      throw typeError(
        operation,
        `'name' is ${describe(name)}; expected a string, or a function of the arguments.`,
      );
    }
    check?.(options, operation);
    /**
     * Legacy decorators get the prototype, the name and the descriptor of a method; TC39 decorators
     * get the method and a context.
     * @param {any} target @param {any} context @param {PropertyDescriptor} [descriptor]
     */
    return (target, context, descriptor) => {
      const method = context?.kind === 'method' ? target : descriptor?.value;
      if (typeof method !== 'function') {
        const what = quote(String(context?.name ?? context ?? target.name));
        throw typeError(operation, `${what} is decorated, but is not a method.`);
      }
      const decorated = wrap(method, operation, name, options, call);
      return descriptor ? { ...descriptor, value: decorated } : decorated;
    };
  };
}

/**
 * @param {Method} method @param {string} operation @param {Name} name @param {any} options
 * @param {Call} call @returns {Method}
 */
function wrap(method, operation, name, options, call) {
  /** @this {any} @param {any[]} args */
  async function decorated(...args) {
    const open = locksOfApplication(operation);
    const lockName = typeof name === 'function' ? name.apply(this, args) : name;
    return call(open, lockName, options, (lock) =>
      heldLock.run(lock, () => method.apply(this, args)),
    );
  }
  // Metadata that other decorators set on the method, such as routes and schedules, is inherited.
  Object.setPrototypeOf(decorated, method);
  return Object.defineProperty(decorated, 'name', { value: method.name });
}

const Locked = decoratorOf("'@Locked'", ({ locks }, name, options, work) =>
  locks.request(name, options ?? {}, (/** @type {any} */ lock) => (lock ? work(lock) : undefined)),
);

const Once = decoratorOf(
  "'@Once'",
  async ({ locks }, name, options, work) => {
    const { value } = await locks.once(name, options, work);
    return value;
  },
  checkOnceOptions,
);

const Elected = decoratorOf("'@Elected'", (open, name, options, work) =>
  open.elect(name, options, work),
);

/**
 * Returns the lock of the innermost decorated method, or the `Leader` if it is `@Elected`; throws
 * outside of such methods.
 */
function currentLock() {
  const lock = heldLock.getStore();
  if (lock) return lock;
  throw invalidStateError(
    'currentLock() was called outside of a method with @Locked, @Once or @Elected.',
  );
}

/** The class that names the dynamic module for NestJS. */
// biome-ignore lint/complexity/noStaticOnlyClass: modules of NestJS are classes with such methods
class LocksModule {
  /** @param {{ locks: any }} options `locks` stay open, because the caller has opened them */
  static forRoot({ locks }) {
    requireLocks(locks, 'once', "'LocksModule.forRoot'");
    return dynamicModule({ useFactory: () => new OpenLocks(locks) });
  }

  /**
   * @param {{ imports?: any[], inject?: any[], useFactory: (...args: any[]) => any }} options
   *   `useFactory` opens a bucket, which is closed when the application shuts down
   */
  static forRootAsync({ imports, inject, useFactory: openBucket }) {
    return dynamicModule({
      imports,
      inject,
      async useFactory(...args) {
        const bucket = await openBucket(...args);
        if (typeof bucket?.close !== 'function') {
          throw typeError(
            "'LocksModule.forRootAsync'",
            `'useFactory' returned ${describe(bucket)}; expected the result of openBucket.`,
          );
        }
        return new OpenLocks(bucket.locks, bucket);
      },
    });
  }
}

/**
 * @param {{ imports?: any[], inject?: any[], useFactory: (...args: any[]) => any }} options
 *   `useFactory` makes the `OpenLocks`
 */
const dynamicModule = ({ imports = [], inject = [], useFactory }) => ({
  module: LocksModule,
  imports,
  providers: [
    { provide: OPEN_LOCKS, inject, useFactory },
    { provide: LOCKS, inject: [OPEN_LOCKS], useFactory: (/** @type {OpenLocks} */ o) => o.locks },
  ],
  exports: [LOCKS],
});

module.exports = { Elected, LOCKS, Locked, LocksModule, Once, currentLock };
