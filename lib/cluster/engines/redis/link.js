'use strict';

/**
 * Connections to Redis for one session, made by `duplicate()` of the user's client: node-redis,
 * ioredis or its fork iovalkey, to one server, through Sentinel, or to a cluster. For a server
 * there are two connections, one for commands and one for messages. For a cluster there is a
 * cluster client for commands, and for messages a connection to each primary that has a slot of the
 * bucket. A cluster client reconnects by itself, so its failures show in commands that fail.
 *
 * In a cluster, a message of PUBLISH goes to all nodes, and one of SPUBLISH only to those that have
 * the slot. So a link listens for both, and says for which channels SPUBLISH will do. Older
 * versions of this library use PUBLISH only.
 */

const { inspect } = require('node:util');
const { EngineLink } = require('../engine-adapter.js');
const { explain, explainOfCluster } = require('./errors.js');
const { slotOf } = require('./slot.js');
const { SocketSignal } = require('./socket-signal.js');

/** @typedef {{ duplicate: (...options: any[]) => any }} Client */

/** @typedef {'ioredis' | 'ioredis cluster' | 'node-redis' | 'node-redis cluster'} Kind */

const isFunction = (/** @type {unknown} */ value) => typeof value === 'function';

/** @param {any} client @returns {Kind | undefined} undefined for an unknown client */
function kindOf(client) {
  if (!isFunction(client?.duplicate)) return undefined;
  if (isFunction(client.call)) return client.isCluster ? 'ioredis cluster' : 'ioredis';
  if (!isFunction(client.sendCommand) || !isFunction(client.connect)) return undefined;
  if (!isFunction(client.withTypeMapping)) return undefined;
  if ('masters' in client && 'slots' in client) return 'node-redis cluster';
  return isFunction(client.unref) ? 'node-redis' : undefined;
}

const NODE_REDIS = 'createClient({ url }) of the package redis, version 5 or 6';
const IOREDIS_BY_SENTINEL = 'new Redis({ sentinels, name }) of ioredis';

/** Whether a value is a client of redis 4, which does not expose its version. @param {any} value */
const isRedis4 = (value) =>
  !isFunction(value.withTypeMapping) &&
  (isFunction(value.pSubscribe) || isFunction(value.PSUBSCRIBE));

/** Whether a value is a client of @valkey/valkey-glide. @param {any} value */
const isGlide = (value) => isFunction(value.invokeScript) && isFunction(value.customCommand);

/**
 * Objects that users may pass by mistake. The first that fits says what it is, and what to pass.
 * @type {[fits: (value: any) => unknown, what: string, instead: string][]}
 */
const KNOWN = [
  [(value) => isFunction(value.send_command), 'a client of redis 3', NODE_REDIS],
  [
    (value) => isRedis4(value) && 'slots' in value,
    'a client of redis 4 (createCluster)',
    'createCluster({ rootNodes }) of the package redis, version 5 or 6: npm install redis@latest',
  ],
  [isRedis4, 'a client of redis 4 (createClient)', `${NODE_REDIS}: npm install redis@latest`],
  [
    (value) => isFunction(value.getMasterNode),
    'a client of Sentinel (createSentinel of redis), which moves to another server without ' +
      'saying so',
    IOREDIS_BY_SENTINEL,
  ],
  [
    (value) => isFunction(value.withTypeMapping) && isFunction(value.execute),
    'a pool (createClientPool of redis), which cannot be duplicated',
    'createClient(options) with the options of the pool',
  ],
  [
    (value) => isGlide(value) && isFunction(value.invokeScriptWithRoute),
    'a client of @valkey/valkey-glide (GlideClusterClient), with which buckets were not tested',
    'new Cluster(nodes) of iovalkey',
  ],
  [
    isGlide,
    // docs/CLUSTER.md ("Valkey GLIDE") says what was seen.
    'a client of @valkey/valkey-glide (GlideClient), which does not say when its connection ' +
      'breaks and when it reconnects',
    'new Valkey(options) of iovalkey',
  ],
  [
    (value) =>
      isFunction(value.evalsha) && isFunction(value.pipeline) && !isFunction(value.duplicate),
    'a client that sends commands over HTTP (@upstash/redis), which receives no messages',
    `${NODE_REDIS}, with the rediss: address of the database`,
  ],
];

/** @param {any} value @returns {[what: string, instead: string]} */
function identify(value) {
  if (value === null || !/^(object|function)$/.test(typeof value)) {
    return [inspect(value), NODE_REDIS];
  }
  const known = KNOWN.find(([fits]) => fits(value));
  if (known) return [known[1], known[2]];
  return [`an object of the class ${value.constructor?.name ?? 'Object'}`, NODE_REDIS];
}

/** Says what an unsupported client seems to be, and what to pass instead. @param {any} client */
function describeClient(client) {
  const [what, instead] = identify(client);
  return (
    `'client' is ${what}; expected a client of redis 5 or 6 (createClient, createCluster), of ` +
    'ioredis 5 or 6 (Redis, with or without Sentinel; Cluster), or of iovalkey (Valkey; ' +
    `Cluster). Pass ${instead}.`
  );
}

/** The key prefix of the user's client, which its duplicates do not add. @param {any} client */
const keyPrefixOf = (client) => (client.options ?? client._options)?.keyPrefix ?? '';

/** Clients of node-redis that are connecting and have no socket yet. @type {WeakSet<object>} */
const withoutSocket = new WeakSet();

/** @typedef {(message: string) => void} OnMessage */

/**
 * The functions that get the messages of a client of ioredis, by channel.
 * @type {WeakMap<any, Map<string, OnMessage>>}
 */
const LISTENERS = new WeakMap();

/**
 * Makes one listener of the client serve all its channels, because there may be many.
 * @param {any} client @param {string} channel @param {OnMessage} onMessage
 */
function listenTo(client, channel, onMessage) {
  const listeners = LISTENERS.get(client) ?? new Map();
  listeners.set(channel, onMessage);
  if (LISTENERS.has(client)) return;
  LISTENERS.set(client, listeners);
  for (const event of ['message', 'smessage']) {
    client.on(event, (/** @type {string} */ of, /** @type {string} */ message) =>
      listeners.get(of)?.(message),
    );
  }
}

const OF_IOREDIS = {
  /** @param {any} client @param {string} command @param {string[]} args @returns {Promise<any>} */
  call: (client, command, args) => client.call(command, args),
  /** @param {any} client @param {string} channel @param {OnMessage} onMessage */
  subscribe(client, channel, onMessage) {
    listenTo(client, channel, onMessage);
    return client.subscribe(channel);
  },
  /** @param {any} client @param {string} channel @param {OnMessage} onMessage */
  subscribeInShard(client, channel, onMessage) {
    listenTo(client, channel, onMessage);
    return client.ssubscribe(channel);
  },
  drop: (/** @type {any} */ client) => client.disconnect(),
};

/** @param {any} client @param {string} channel @param {OnMessage} onMessage */
const subscribe = (client, channel, onMessage) => client.subscribe(channel, onMessage);

/** @param {any} client @param {string} channel @param {OnMessage} onMessage */
const subscribeInShard = (client, channel, onMessage) => client.sSubscribe(channel, onMessage);

/**
 * Events of clients that say that the server has ended a subscription to a slot. Clients that know
 * no event for it report an error.
 */
const MOVED = ['moved', 'sharded-channel-moved', 'error'];

const KINDS = {
  ioredis: {
    ...OF_IOREDIS,
    isCluster: false,
    duplicate: (/** @type {any} */ client) => client.duplicate(IOREDIS),
    connect: (/** @type {any} */ client) => {
      unrefStreams(client);
      return client.connect();
    },
  },

  'ioredis cluster': {
    ...OF_IOREDIS,
    isCluster: true,
    duplicate: (/** @type {any} */ client) =>
      client.duplicate([], {
        lazyConnect: true,
        enableAutoPipelining: false,
        keyPrefix: '',
        clusterRetryStrategy: null,
        redisOptions: {
          ...client.options?.redisOptions,
          ...PATIENT,
          ...AT_ONCE,
          ...NUMBERS,
          keyPrefix: '',
        },
      }),
    connect: (/** @type {any} */ client) => {
      client.on('+node', unrefStreams);
      client.on('+node', handleRejections);
      return client.connect();
    },
    /** @type {Kind} */
    kindOfNodes: 'ioredis',
    /** @param {any} client @param {number} slot */
    async primaryOf(client, slot) {
      const [address] = client.slots[slot] ?? [];
      const isIt = (/** @type {any} */ { options: { host, port } }) =>
        `${host}:${port}` === address;
      return client.nodes('master').find(isIt);
    },
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
        // If the host has several addresses, the client may have another socket by now.
        client.unref();
      });
      return client.connect();
    },
    /** @param {any} client @param {string} command @param {string[]} args */
    call: (client, command, args) => client.sendCommand([command, ...args], PLAIN),
    subscribe,
    subscribeInShard,
    drop: (/** @type {any} */ client) => {
      // A client that is destroyed before it has a socket would still make one, which nobody could
      // close. So it is destroyed once it has its socket.
      if (withoutSocket.has(client)) client.on('connect', () => client.destroy());
      else client.destroy();
    },
  },

  'node-redis cluster': {
    isCluster: true,
    // Without `minimizeConnections`, the client would connect to all nodes, fail if one of them is
    // down, and, if it is destroyed meanwhile, retry for ever and keep the process alive.
    duplicate: (/** @type {any} */ client, /** @type {AbortSignal} */ dropped) => {
      const { defaults } = client._options ?? {};
      // The client does not destroy sockets that are still connecting, so the signal does.
      const socket = { ...defaults?.socket, ...PATIENT, signal: dropped };
      return client.duplicate({
        minimizeConnections: true,
        defaults: { ...defaults, ...PLENTY, socket },
      });
    },
    connect: (/** @type {any} */ client) => client.connect(),
    /** @param {any} client @param {string} command @param {string[]} args @param {string} [key] */
    call: (client, command, args, key) => client.sendCommand(key, false, [command, ...args], PLAIN),
    /** @type {Kind} */
    kindOfNodes: 'node-redis',
    /** @param {any} client @param {number} slot */
    async primaryOf(client, slot) {
      const primary = client.slots[slot]?.master;
      return primary && client.nodeClient(primary);
    },
    drop: (/** @type {any} */ client) => client.destroy(),
  },
};

/** With texts for numbers, a cluster client of ioredis would know only some of the slots. */
const NUMBERS = { stringNumbers: false };

/**
 * Switches off the time limits that users have set: a connection may be idle for a third of a
 * lease, and the session itself checks that the connection works.
 */
const PATIENT = { socketTimeout: undefined, commandTimeout: undefined };
/** For node-redis: any number of calls may be under way, and all calls go to the primary. */
const PLENTY = { commandsQueueMaxLength: undefined, readonly: false };
/** For ioredis: dropping a connection must not wait for the server to close it. */
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

/** Replies must be strings, even if the user has set another type mapping. */
const PLAIN = { typeMapping: {} };

/**
 * Unrefs every stream of an ioredis client, because the client itself has no `unref`. Then even a
 * server that has accepted the connection but does not answer cannot keep the event loop alive.
 * @param {any} client must not be connected yet
 */
function unrefStreams(client) {
  let { stream } = client;
  Object.defineProperty(client, 'stream', {
    get: () => stream,
    set(made) {
      stream = made;
      // Wait for 'connect': until then the socket may still switch handles between addresses.
      if (made?.connecting) made.once('connect', () => made.unref());
      else made?.unref?.();
    },
  });
}

/**
 * A cluster client of ioredis ignores the promise of the ASKING that it sends. If the link is
 * dropped before the reply, that promise rejects, which would end the process. So the rejections of
 * all commands are handled.
 * @param {any} node an ioredis of a cluster, which must not be connected yet
 */
function handleRejections(node) {
  const { sendCommand } = node;
  node.sendCommand = (/** @type {any} */ command, /** @type {any[]} */ ...rest) => {
    command.promise.catch(() => {});
    return sendCommand.call(node, command, ...rest);
  };
}

/** @param {any} kind @param {any} client */
function drop(kind, client) {
  try {
    kind.drop(client);
  } catch {
    // The client has ended already.
  }
}

class RedisLink extends EngineLink {
  /** @type {any} */
  #kind;
  /** @type {any} */
  #kindOfSubscribers;
  #client;
  /** The clients that subscribe, in a cluster by the node's client. @type {Map<any, any>} */
  #subscribers = new Map();
  /** Functions that reject the calls under way. @type {Set<(error: unknown) => void>} */
  #waiting = new Set();
  /** @type {unknown} */
  #lastError;
  #dropped = new SocketSignal();

  /** @param {Client} client @param {Kind} kind @param {boolean} [hasMessages] */
  constructor(client, kind, hasMessages = true) {
    super();
    this.#kind = KINDS[kind];
    const { kindOfNodes } = this.#kind;
    this.#kindOfSubscribers = KINDS[/** @type {Kind} */ (kindOfNodes ?? kind)];
    this.#client = this.#duplicate(client, this.#kind);
    if (hasMessages && !this.#kind.isCluster)
      this.#subscribers.set(undefined, this.#duplicate(client, this.#kind));
  }

  /**
   * Returns a client like another one, whose end ends the link.
   * @param {Client} client @param {any} kind
   */
  #duplicate(client, kind) {
    const made = kind.duplicate(client, this.#dropped.signal);
    made.on('error', (/** @type {unknown} */ error) => {
      this.#lastError = error;
      // After an error, ioredis always emits `end` later. A client of node-redis that has closed
      // (`isOpen` is false) may not.
      if (made.isOpen === false && !kind.isCluster) this.fail();
    });
    made.on('end', () => this.fail());
    return made;
  }

  /**
   * Resolves when the channels are subscribed; rejects with an error of errors.js.
   * @param {Map<string, OnMessage>} [channels] @returns {Promise<boolean[]>} for each channel
   *   whether messages of SPUBLISH arrive
   */
  open(channels = new Map()) {
    return this.#untilDown(async () => {
      const clients = [this.#client, ...this.#subscribers.values()];
      await Promise.all(clients.map((client) => this.#kind.connect(client)));
      const areInShard = [];
      for (const [channel, onMessage] of channels) {
        /** @type {OnMessage} */
        const listener = (message) => {
          if (!this.isDown) onMessage(message);
        };
        if (this.isDown) break;
        if (this.#kind.isCluster)
          areInShard.push(await this.#subscribeInCluster(channel, listener));
        else await this.#kind.subscribe(this.#subscribers.get(undefined), channel, listener);
      }
      return areInShard;
    });
  }

  /** @param {string} channel @param {OnMessage} listener */
  async #subscribeInCluster(channel, listener) {
    const kind = this.#kindOfSubscribers;
    const node = await this.#kind.primaryOf(this.#client, slotOf(channel));
    if (this.isDown) return false;
    if (!node) throw new Error('CLUSTERDOWN No node is known that has the slot');
    let subscriber = this.#subscribers.get(node);
    if (!subscriber) {
      subscriber = this.#duplicate(node, kind);
      this.#subscribers.set(node, subscriber);
      await kind.connect(subscriber);
      for (const event of MOVED) subscriber.on(event, () => this.fail());
    }
    await kind.subscribe(subscriber, channel, listener);
    try {
      await kind.subscribeInShard(subscriber, channel, listener);
      return true;
    } catch (/** @type {any} */ error) {
      if (/^(ERR unknown command|NOPERM)/.test(error?.message)) return false;
      throw error;
    }
  }

  /**
   * Sends a command. Rejects with an error of errors.js, also if the connection ends. In a cluster,
   * `key` decides which node gets the command.
   * @param {string} command @param {string[]} args @param {string} [key] @returns {Promise<any>}
   */
  call(command, args, key) {
    return this.#untilDown(() => this.#kind.call(this.#client, command, args, key));
  }

  /**
   * Settles as the work does, but rejects as soon as the connection ends.
   * @template T @param {() => Promise<T>} work @returns {Promise<T>}
   */
  #untilDown(work) {
    return new Promise((resolve, reject) => {
      if (this.isDown) throw this.explainEnd();
      this.#waiting.add(reject);
      this.#runCall(work, resolve, reject);
    });
  }

  /**
   * @template T @param {() => Promise<T>} work @param {(result: T) => void} resolve
   * @param {(error: unknown) => void} reject
   */
  async #runCall(work, resolve, reject) {
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

  /** @override */
  explainEnd() {
    return this.#explain(this.#lastError ?? new Error('the connection ended'));
  }

  /** @override @param {unknown} why */
  end(why) {
    for (const reject of this.#waiting) reject(why);
    drop(this.#kind, this.#client);
    for (const client of this.#subscribers.values()) drop(this.#kindOfSubscribers, client);
    this.#dropped.abort();
  }
}

module.exports = { RedisLink, describeClient, keyPrefixOf, kindOf };
