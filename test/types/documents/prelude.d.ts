// Declarations that programs of the documents need.

declare module 'undici' {
  class Agent {
    constructor(options: { connect: object });
  }
  function fetch(url: string, options: object): Promise<Response>;
}

// Node.js 24 has these.
declare module 'worker_threads' {
  const locks: import('web-locks').LockManager;
}

declare module 'redlock' {
  class Redlock {
    constructor(clients: object[], options: object);
    lock(name: string, ttl: number): Promise<{ unlock(): Promise<void> }>;
  }
  export = Redlock;
}

declare const navigator: { locks: import('web-locks').LockManager };
