// What the examples of the documents use and do not show.

declare const locks: import('web-locks').LockManager;
declare const openBucket: typeof import('web-locks').openBucket;
declare const LockTimeoutError: typeof import('web-locks').LockTimeoutError;
declare const LockQueueFullError: typeof import('web-locks').LockQueueFullError;
declare const Mutex: typeof import('web-locks').Mutex;
declare const Semaphore: typeof import('web-locks').Semaphore;
declare const RWLock: typeof import('web-locks').RWLock;
declare const readFile: typeof import('node:fs/promises').readFile;
declare const writeFile: typeof import('node:fs/promises').writeFile;

// docs/CLUSTER.md
declare const pool: InstanceType<typeof import('pg').Pool>;
declare const shop: import('web-locks/postgres').ClusterBucket;
declare module 'undici' {
  class Agent {
    constructor(options: { connect: object });
  }
  function fetch(url: string, options: object): Promise<Response>;
}

declare const navigator: { locks: typeof locks };
declare const text: string;
declare const database: {
  exec(statement: string): void;
  query(statement: string, values: unknown[]): Promise<{ rowCount: number }>;
};
declare function select(statement: string): Promise<object[]>;
declare function train(): Promise<void>;

/** Users' functions, of which only that they are called matters. */
declare function parse(content: unknown): unknown;
declare function read(): Promise<string[]>;
declare function update(value: string[]): string[];
declare function write(value?: unknown): Promise<void>;
declare function work(): Promise<void>;
declare function cleanUp(): Promise<void>;
declare function print(): Promise<void>;
declare function transfer(): Promise<void>;
declare function callback(): Promise<void>;
declare function lead(lock: { signal: AbortSignal }): Promise<void>;

// Test runners; they are no packages of this repository.
declare function afterEach(hook: () => Promise<void>): void;
declare const vi: {
  mock(
    module: string,
    factory: (original: () => Promise<typeof import('web-locks')>) => object,
  ): void;
};
// biome-ignore lint/suspicious/noExplicitAny: what they are is not what is checked
declare const expect: any, jest: any;
