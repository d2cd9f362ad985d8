'use strict';

/**
 * Clients of postgres.js for PostgreSQL (link.js). A bucket makes its own connection with the
 * options of the user's `sql`, so that queries of the user never delay a renewal. All 3.x versions
 * of postgres.js make such a connection for `sql.listen`, and store the instance that has the
 * connection in `sql.listen.sql`. A client never connects again, because its settings and
 * statements are bound to its connection.
 */

const net = require('node:net');
const { argumentError } = require('../../../platform/errors.js');
const { callBack } = require('./link.js');

/** @import { Client, ClientEvents, Done, Query } from './link.js' */

/**
 * @typedef {object} Sql the members of a `sql` of postgres.js that this file uses
 * @property {any} listen
 * @property {(text: string, values?: any, options?: any) => any} unsafe
 * @property {any} options
 */

const ignore = () => {};

/** @param {any} value @returns {value is Sql} whether it is what `postgres()` returns */
const isSql = (value) =>
  typeof value?.listen === 'function' &&
  typeof value.unsafe === 'function' &&
  Array.isArray(value.options?.host) &&
  typeof value.options.shared === 'object';

/** Whether this is the `sql` of `sql.begin` or `sql.reserve`. @param {any} value */
const isTransaction = (value) => typeof value?.unsafe === 'function' && !('listen' in value);

/**
 * A channel name for `listen`, which makes its instance before it reads the name. Reading this name
 * throws, so nothing connects.
 */
const UNREADABLE = {
  /** @throws {Error} always */
  toString() {
    throw new Error('there is no channel to listen on');
  },
};

/**
 * Lets `sql.listen` make its instance, and takes it away, so that `sql.end()` does not end it.
 * @param {{ listen: any }} sql @returns {Sql}
 */
function newListenerOf({ listen }) {
  const before = listen.sql;
  listen.sql = undefined;
  listen(UNREADABLE, ignore).catch(ignore);
  const made = listen.sql;
  listen.sql = before;
  if (isSql(made)) return made;
  throw argumentError(
    "'sql' is from an unknown version of postgres.js; expected version 3. Pass a Pool of pg as " +
      '`pool`.',
  );
}

/**
 * These options replace the user's. Values stay as the server writes them. The session itself
 * limits how long a call takes, and refuses a standby.
 */
const OPTIONS = {
  connect_timeout: 0,
  debug: false,
  onparameter: undefined,
  parsers: {},
  prepare: true,
  serializers: {},
  target_session_attrs: null,
  transform: { undefined: undefined, column: {}, value: {}, row: {} },
  types: {},
};

/** @param {unknown} value of a parameter @returns {string | null} as the server reads it */
function textOf(value) {
  if (value === null) return null;
  if (Buffer.isBuffer(value)) return `\\x${value.toString('hex')}`;
  if (Array.isArray(value)) return `{${value.map(elementOf).join()}}`;
  return String(value);
}

/** @param {unknown} value of an array */
const elementOf = (value) =>
  value === null ? 'NULL' : `"${String(textOf(value)).replace(/[\\"]/g, '\\$&')}"`;

/** @param {Buffer[]} row @returns {(string | null)[]} */
const textsOf = (row) => Object.values(row).map((value) => (value === null ? null : `${value}`));

/** Resolves when the socket is connected. @param {net.Socket} socket */
const connected = (socket) =>
  new Promise((resolve, reject) => {
    // Later errors reach the listeners that postgres.js adds; `reject` then does nothing.
    socket.once('connect', resolve).on('error', reject);
    socket.once('close', () => reject(new Error('the connection ended')));
  });

/** @implements {Client} */
class SqlClient {
  #source;
  #sql;
  /** Where postgres.js looks up the listeners of a channel. @type {Record<string, unknown>} */
  #channels;
  /** @type {ClientEvents | undefined} */
  #events;
  /** @type {net.Socket | undefined} */
  #socket;
  #isRef = false;
  #isDiscarded = false;
  /** @type {number | undefined} */
  processID;

  /** @param {SqlSource} source @param {Sql} sql of the user, which is not changed */
  constructor(source, sql) {
    this.#source = source;
    // The client has an instance of its own, whose `listen` makes the connection, so that it shares
    // its options and channels with no other client.
    const { listen, options } = newListenerOf(sql);
    const { host, port } = options;
    Object.assign(options, OPTIONS, {
      // With more than one host, postgres.js would connect again and again.
      host: host.slice(0, 1),
      port: port.slice(0, 1),
      shared: { retries: 0, typeArrayMap: {} },
      socket: () => this.#connect(),
      onnotice: (/** @type {any} */ notice) => this.#events?.onNotice(notice),
    });
    this.#sql = newListenerOf({ listen });
    this.#sql.options.onclose = () => this.#events?.onEnd();
    this.#channels = listen.channels;
  }

  /**
   * Registers the handlers. Does not send LISTEN, which the link does.
   * @param {string} channel @param {ClientEvents} events
   */
  attach(channel, events) {
    this.#events = events;
    const fn = (/** @type {string} */ payload) => this.#events?.onNotification(payload);
    this.#channels[channel] = { listeners: [{ fn }] };
  }

  async #connect() {
    if (this.#isDiscarded) throw new Error('the connection ended');
    const socket = await this.#source.connect((made) => this.#use(made));
    this.#use(socket);
    return socket;
  }

  /**
   * Keeps a new socket, and applies an earlier `unref` or `discard` to it.
   * @param {net.Socket} socket that may still be connecting
   */
  #use(socket) {
    this.#socket = socket;
    if (this.#isDiscarded) socket.destroy();
    if (!this.#isRef) socket.unref?.();
  }

  /** @param {Query} query @returns {Promise<any[]>} */
  async query({ text, values = [] }) {
    const answer = await this.#sql.unsafe(text, values.map(textOf));
    // For several statements, postgres.js returns an array of the results that have rows.
    const result = 'command' in answer ? answer : answer.at(-1);
    this.processID = result.state.pid;
    return [...result];
  }

  /**
   * Runs a statement that is used often, and passes its only row to `done`, as an array.
   * @param {string} text @param {unknown[]} values @param {Done} done
   */
  row(text, values, done) {
    callBack(this.#row(text, values), done);
  }

  /** @param {string} text @param {unknown[]} values */
  async #row(text, values) {
    const [row] = await this.#sql.unsafe(text, values.map(textOf), { prepare: true }).raw();
    return textsOf(row);
  }

  ref() {
    this.#isRef = true;
    this.#socket?.ref?.();
  }

  unref() {
    this.#isRef = false;
    this.#socket?.unref?.();
  }

  /** Ends the connection, and makes the next one of the source try another host first. */
  discard() {
    if (this.#isDiscarded) return;
    this.end();
    this.#source.useNextHost();
  }

  /** Like `discard`, but of a connection with which nothing was wrong. */
  end() {
    this.#isDiscarded = true;
    this.#events = undefined;
    this.#socket?.destroy();
  }
}

class SqlSource {
  #sql;
  /** The index of the host that is tried first. */
  #host = 0;
  /** Clients that run a single statement. @type {Set<SqlClient>} */
  #clients = new Set();

  /** @param {Sql} sql */
  constructor(sql) {
    this.#sql = sql;
    newListenerOf(sql); // throws if it cannot
  }

  async take() {
    return new SqlClient(this, this.#sql);
  }

  /** @param {string} text @returns {Promise<any[]>} */
  async query(text) {
    const client = new SqlClient(this, this.#sql);
    this.#clients.add(client);
    try {
      client.ref();
      const rows = await client.query({ text });
      client.end();
      return rows;
    } finally {
      this.#clients.delete(client);
      client.discard();
    }
  }

  /** Does nothing, because `take` never waits. */
  cancel() {}

  /** Ends the clients that run a single statement; those of `take` stay. */
  end() {
    for (const client of this.#clients) client.discard();
  }

  /** Makes the next connection try another host first: the last one may be down, or a standby. */
  useNextHost() {
    this.#host++;
  }

  /**
   * Connects a socket to the first host that accepts it.
   * @param {(socket: net.Socket) => void} onSocket called with a socket before it connects
   */
  async connect(onSocket) {
    const { host: hosts, path, port: ports, socket: custom } = this.#sql.options;
    if (custom) return custom(this.#sql.options);
    let failure;
    for (let i = 0; i < hosts.length; i++) {
      const at = (this.#host + i) % hosts.length;
      const [host, port] = [hosts[at], ports[at]];
      const socket = net.connect(path ? { path } : { host, port });
      onSocket(socket);
      try {
        await connected(socket);
        // postgres.js checks certificates against `host`.
        return Object.assign(socket, { host, port });
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }
}

/** @param {any} sql of a transaction @param {string} text @returns {Promise<any[]>} the only row */
async function rowInTransaction(sql, text) {
  const [row] = await sql.unsafe(text).raw();
  return textsOf(row);
}

module.exports = { SqlSource, isSql, isTransaction, rowInTransaction };
