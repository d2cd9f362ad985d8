// What programs of the documents use and nothing here declares.

declare module 'undici' {
  class Agent {
    constructor(options: { connect: object });
  }
  function fetch(url: string, options: object): Promise<Response>;
}

declare const navigator: { locks: import('web-locks').LockManager };
