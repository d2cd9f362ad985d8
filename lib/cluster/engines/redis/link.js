'use strict';

/**
 * Connections to Redis for one session, made from the user's client by `duplicate()`, which is not
 * used for anything else: it may be one of node-redis or of ioredis, to one server, by Sentinel
 * (ioredis), or to a cluster. Two connections to a server, one for commands and one that hears what
 * is published; to a cluster one client, which sees to that itself.
 *
 * They do not reconnect: what fails is told once, by `onDown`, and a new link is made. A client of
 * a cluster does so by itself, so there a failure shows in commands, and in news that do not
 * arrive.
 */

const { inspect } = require('node:util');
const { explain, explainOfCluster } = require('./errors.js');
const { SocketSignal } = require('./socket-signal.js');

/**
 * What is used of the user's client: that it can be duplicated.
 * @typedef {object} Client
 * @property {(...options: any[]) => any} duplicate
 */

/** @typedef {'ioredis' | 'ioredis cluster' | 'node-redis' | 'node-redis cluster'} Kind */

const isFunction = (/** @type {unknown} */ value) => typeof value === 'function';

/**
 * @param {any} client
 * @returns {Kind | undefined} undefined: it is none that is known
 */
function kindOf(client) {
  if (!isFunction(client?.duplicate)) return undefined;
  if (isFunction(client.call)) return client.isCluster ? 'ioredis cluster' : 'ioredis';
  if (!isFunction(client.sendCommand) || !isFunction(client.connect)) return undefined;
  if (!isFunction(client.withTypeMapping)) return undefined;
  if ('masters' in client && 'slots' in client) return 'node-redis cluster';
  return isFunction(client.unref) ? 'node-redis' : undefined;
}

/**
 * What somebody gave for a client, for an error message. The clients of redis 3 and 4 do not tell
 * their version, but differ in their methods.
 * @param {any} client that `kindOf` does not know
 */
function describeClient(client) {
  if (client === null || !/^(object|function)$/.test(typeof client)) return inspect(client);
  if (isFunction(client.send_command)) return 'a client of redis 3';
  if (isFunction(client.withTypeMapping)) {
    if (isFunction(client.getMasterNode)) return 'a client of Sentinel (createSentinel of redis)';
    if (isFunction(client.execute)) return 'a pool (createClientPool of redis)';
  } else if (isFunction(client.pSubscribe) || isFunction(client.PSUBSCRIBE)) {
    return `a client of redis 4 (${'slots' in client ? 'createCluster' : 'createClient'})`;
  }
  return `an object of the class ${client.constructor?.name ?? 'Object'}`;
}

/**
 * @param {any} client of a kind that is known
 * @returns {string} what it puts before its keys, which the connections of a bucket do not
 */
const keyPrefixOf = (client) => (client.options ?? client._options)?.keyPrefix ?? '';

/** Clients of node-redis that connect, until their sockets are there. @type {WeakSet<object>} */
const withoutSocket = new WeakSet();

/** How a duplicate is made, and what it is asked by. */
const KINDS = {
  ioredis: {
    isCluster: false,
    duplicate: (/** @type {any} */ client) => client.duplicate(IOREDIS),
    connect: (/** @type {any} */ client) => {
      unrefStreams(client);
      return client.connect();
    },
    call: callIoredis,
    subscribe: subscribeIoredis,
    drop: (/** @type {any} */ client) => client.disconnect(),
  },

  'ioredis cluster': {
    isCluster: true,
    duplicate: (/** @type {any} */ client) =>
      client.duplicate([], {
        lazyConnect: true,
        enableAutoPipelining: false,
        keyPrefix: '',
        clusterRetryStrategy: null,
        redisOptions: { ...client.options?.redisOptions, ...PATIENT, ...AT_ONCE, keyPrefix: '' },
      }),
    connect: (/** @type {any} */ client) => {
      client.on('+node', unrefStreams);
      client.on('+node', handleRejections);
      return client.connect();
    },
    call: callIoredis,
    subscribe: subscribeIoredis,
    drop: (/** @type {any} */ client) => client.disconnect(),
  },

  'node-redis': {
    isCluster: false,
    duplicate: (/** @type {any} */ client) =>
      client.duplicate({
        ...PLENTY,
        socket: { ...client.options?.socket, ...PATIENT, reconnectStrategy: false },
        disableOfflineQueue: false,
        pingInterval: undefined,
      }),
    connect: (/** @type {any} */ client) => {
      client.unref();
      withoutSocket.add(client);
      client.on('connect', () => {
        withoutSocket.delete(client);
        // Once more, where its server is at another address: its socket has another handle then.
        client.unref();
      });
      return client.connect();
    },
    call: (
      /** @type {any} */ client,
      /** @type {string} */ command,
      /** @type {string[]} */ args,
    ) => client.sendCommand([command, ...args], PLAIN),
    subscribe: (
      /** @type {any} */ client,
      /** @type {string} */ channel,
      /** @type {Hear} */ hear,
    ) => client.subscribe(channel, hear),
    drop: (/** @type {any} */ client) => {
      // Destroyed now, it would make its socket all the same, and nobody could close that.
      if (withoutSocket.has(client)) client.on('connect', () => client.destroy());
      else client.destroy();
    },
  },

  'node-redis cluster': {
    isCluster: true,
    // Otherwise it would connect to all nodes: it would not be there while one of them is not, and
    // one that is ended meanwhile would go on trying, and keep the process alive.
    duplicate: (/** @type {any} */ client, /** @type {AbortSignal} */ dropped) => {
      const { defaults } = client._options ?? {};
      // It does not destroy what connects just then, to a node or to ask which nodes there are.
      const socket = { ...defaults?.socket, ...PATIENT, signal: dropped };
      return client.duplicate({
        minimizeConnections: true,
        defaults: { ...defaults, ...PLENTY, socket },
      });
    },
    connect: (/** @type {any} */ client) => client.connect(),
    call: (
      /** @type {any} */ client,
      /** @type {string} */ command,
      /** @type {string[]} */ args,
      /** @type {string | undefined} */ key,
    ) => client.sendCommand(key, false, [command, ...args], PLAIN),
    subscribe: (
      /** @type {any} */ client,
      /** @type {string} */ channel,
      /** @type {Hear} */ hear,
    ) => client.subscribe(channel, hear),
    drop: (/** @type {any} */ client) => client.destroy(),
  },
};

/**
 * Options that users may have otherwise, and that would come in our way. Connections may be idle
 * for a third of a lease, and whether they work is looked at by the session.
 */
const PATIENT = { socketTimeout: undefined, commandTimeout: undefined };
/** Of node-redis: several calls may be under way, and what is asked changes something. */
const PLENTY = { commandsQueueMaxLength: undefined, readonly: false };
/** Of ioredis: when it is dropped, it does not wait until the server has taken leave. */
const AT_ONCE = { disconnectTimeout: 0 };
const IOREDIS = {
  ...PATIENT,
  ...AT_ONCE,
  lazyConnect: true,
  retryStrategy: null,
  reconnectOnError: null,
  enableOfflineQueue: true,
  enableAutoPipelining: false,
  autoResubscribe: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: null,
  keyPrefix: '',
};

/** Replies as strings: users may have another mapping. */
const PLAIN = { typeMapping: {} };

/** @typedef {(message: string) => void} Hear */

/**
 * None of its streams keeps the event loop alive, also while it waits for a server that stands
 * still: that lets connect, and says nothing. An ioredis has no `unref`.
 * @param {any} client an ioredis that has not connected yet
 */
function unrefStreams(client) {
  let { stream } = client;
  Object.defineProperty(client, 'stream', {
    get: () => stream,
    set(made) {
      stream = made;
      // Not before, where its server is at another address: it has another handle then.
      if (made?.connecting) made.once('connect', () => made.unref());
      else made?.unref?.();
    },
  });
}

/**
 * A cluster of ioredis sends ASKING and ignores its promise. When the link is dropped before the
 * reply, that promise rejects, which would end the process. So each command's promise is handled.
 * @param {any} node an ioredis of a cluster that has not connected yet
 */
function handleRejections(node) {
  const { sendCommand } = node;
  node.sendCommand = (/** @type {any} */ command, /** @type {any[]} */ ...rest) => {
    command.promise.catch(() => {});
    return sendCommand.call(node, command, ...rest);
  };
}

/**
 * @param {any} client
 * @param {string} command
 * @param {string[]} args
 * @returns {Promise<any>}
 */
function callIoredis(client, command, args) {
  return client.call(command, args);
}

/**
 * @param {any} client
 * @param {string} channel
 * @param {Hear} hear
 */
async function subscribeIoredis(client, channel, hear) {
  client.on('message', (/** @type {string} */ of, /** @type {string} */ message) => {
    if (of === channel) hear(message);
  });
  await client.subscribe(channel);
}

class Link {
  #kind;
  /** For commands. */
  #client;
  /** For what is published; the same one to a cluster. */
  #ear;
  #isDown = false;
  /** Rejects what is not answered. @type {Set<(error: unknown) => void>} */
  #waiting = new Set();
  /** @type {unknown} */
  #lastError;
  /** Aborts when it is dropped, or has failed. */
  #dropped = new SocketSignal();
  /** Called once, with an error. @type {(error: unknown) => void} */
  onDown = () => {};

  /**
   * @param {Client} client of the user
   * @param {Kind} kind of it
   */
  constructor(client, kind) {
    this.#kind = KINDS[kind];
    this.#client = this.#duplicate(client);
    this.#ear = this.#kind.isCluster ? this.#client : this.#duplicate(client);
  }

  /** @param {Client} client */
  #duplicate(client) {
    const made = this.#kind.duplicate(client, this.#dropped.signal);
    made.on('error', (/** @type {unknown} */ error) => {
      this.#lastError = error;
      // An ioredis says `end` afterwards; a node-redis does not always.
      if (made.isOpen === false && !this.#kind.isCluster) this.#fail();
    });
    made.on('end', () => this.#fail());
    return made;
  }

  get isDown() {
    return this.#isDown;
  }

  /**
   * @param {Map<string, Hear>} channels that are listened to, and who is told
   * @returns {Promise<void>} when that is so; rejects with an error of ours
   */
  async open(channels) {
    await this.#guarded(async () => {
      const clients = this.#ear === this.#client ? [this.#client] : [this.#client, this.#ear];
      await Promise.all(clients.map((client) => this.#kind.connect(client)));
      for (const [channel, hear] of channels) {
        // Dropped meanwhile: a client of a cluster would begin anew, and go on by itself.
        if (this.#isDown) return;
        await this.#kind.subscribe(this.#ear, channel, (message) => {
          if (!this.#isDown) hear(message);
        });
      }
    });
  }

  /**
   * @param {string} command
   * @param {string[]} args
   * @param {string} [key] of those that it is about, in a cluster
   * @returns {Promise<any>} the reply; rejects with an error of ours, also when the connection ends
   */
  call(command, args, key) {
    return this.#guarded(() => this.#kind.call(this.#client, command, args, key));
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #guarded(work) {
    return new Promise((resolve, reject) => {
      if (this.#isDown) {
        reject(this.#why());
        return;
      }
      this.#waiting.add(reject);
      this.#do(work, resolve, reject);
    });
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @param {(result: T) => void} resolve
   * @param {(error: unknown) => void} reject
   */
  async #do(work, resolve, reject) {
    try {
      resolve(await work());
    } catch (error) {
      reject(this.#explain(error));
    } finally {
      this.#waiting.delete(reject);
    }
  }

  /** @param {unknown} error of the client */
  #explain(error) {
    return this.#kind.isCluster ? explainOfCluster(error, this.#lastError) : explain(error);
  }

  #why() {
    return this.#explain(this.#lastError ?? new Error('the connection ended'));
  }

  /** Ends the connections, without a word; what is under way rejects. */
  drop() {
    this.onDown = () => {};
    this.#fail();
  }

  #fail() {
    if (this.#isDown) return;
    this.#isDown = true;
    const why = this.#why();
    for (const reject of this.#waiting) reject(why);
    for (const client of new Set([this.#client, this.#ear])) {
      try {
        this.#kind.drop(client);
      } catch {
        // It has ended.
      }
    }
    this.#dropped.abort();
    this.onDown(why);
  }
}

module.exports = { Link, describeClient, keyPrefixOf, kindOf };
