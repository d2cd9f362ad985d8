import type {
  ElectOptions,
  Lock,
  LockManager,
  LockOptions,
  OnceOptions,
  StorageBucket,
} from './shared.js';

/** The name of a lock, or a function of the method's arguments that returns it. */
// biome-ignore lint/suspicious/noExplicitAny: parameters have the types that their function says
export type NameOfLock = string | ((...args: any[]) => string);

type AsyncMethod = (...args: never[]) => Promise<unknown>;

/** Decorates an async method, as TC39 and as TypeScript with `experimentalDecorators` have it. */
export interface LockDecorator {
  <M extends AsyncMethod>(method: M, context: ClassMethodDecoratorContext): void;
  <M extends AsyncMethod>(
    target: object,
    key: string | symbol,
    method: TypedPropertyDescriptor<M>,
  ): void;
}

/**
 * The method runs while it holds the lock. With `ifAvailable`, and if the lock is not available, it
 * does not run and its promise resolves to `undefined`.
 *
 * @example
 * @Locked((id) => `order ${id}`, { timeout: 5000 })
 * async pay(id: string) {}
 */
export declare function Locked(name: NameOfLock, options?: LockOptions): LockDecorator;

/**
 * The method runs once, as {@link LockManager.once} says. Where it does not run, its promise
 * resolves to `undefined`.
 *
 * @example
 * @Once('report', { keep: 20 * 3_600_000 })
 * async report() {}
 */
export declare function Once(name: NameOfLock, options: OnceOptions): LockDecorator;

/**
 * A call of the method stands for election, as {@link LockManager.elect} says, and the method runs
 * for each term. It has to end when `currentLock().signal` is aborted. When the application shuts
 * down, candidates withdraw and their promises resolve to `undefined`.
 *
 * @example
 * @Elected('scheduler')
 * async lead() {
 *   const { signal } = currentLock();
 *   while (!signal.aborted) await schedule({ signal });
 * }
 */
export declare function Elected(name: NameOfLock, options?: ElectOptions): LockDecorator;

/** The lock of the decorated method that calls it; of an `@Elected` one, its `Leader`. */
export declare function currentLock(): Pick<Lock, 'name' | 'token' | 'signal' | 'held' | 'toJSON'>;

/** The injection token of the lock manager: `@Inject(LOCKS) locks: LockManager`. */
export declare const LOCKS: unique symbol;

/** What `imports` of a module of NestJS takes. */
export interface LocksDynamicModule {
  module: typeof LocksModule;
  imports: never[];
  providers: never[];
  exports: never[];
}

/** Options of {@link LocksModule.forRootAsync}, as other modules of NestJS have them. */
export interface LocksModuleAsyncOptions {
  imports?: readonly unknown[];
  inject?: readonly unknown[];
  // biome-ignore lint/suspicious/noExplicitAny: parameters have the types that their function says
  useFactory: (...args: any[]) => StorageBucket | Promise<StorageBucket>;
}

/**
 * Gives the decorated methods of an application their locks. A process has one application with
 * this module at a time.
 */
// biome-ignore lint/complexity/noStaticOnlyClass: modules of NestJS are classes with such methods
export declare class LocksModule {
  /**
   * Of locks that stay open when the application shuts down.
   *
   * @example
   * @Module({ imports: [LocksModule.forRoot({ locks })] })
   */
  static forRoot(options: {
    locks: Pick<LockManager, 'request' | 'elect' | 'once'>;
  }): LocksDynamicModule;
  /** Of a bucket that is closed when the application shuts down. */
  static forRootAsync(options: LocksModuleAsyncOptions): LocksDynamicModule;
}
