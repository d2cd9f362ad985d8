'use strict';

/**
 * Clients of pg for PostgreSQL (link.js). A bucket keeps one client of the user's Pool, so that its
 * session can renew its lease even if the pool is exhausted.
 */

const { callBack } = require('./link.js');
const { endedPoolError, exhaustedError, explain } = require('./errors.js');

/** @import { ClientEvents, Done, Query } from './link.js' */

/** How many milliseconds an exhausted pool may take to provide a client. */
const PATIENCE_MS = 5_000;

/** After this many milliseconds without a client, the pool is asked for a further one. */
const LATE_MS = 1_000;
/** How many clients may be requested from the pool at the same time. */
const MOST = 3;

/** Values stay as the server writes them, whatever parsers the user has set in pg. */
const RAW = { getTypeParser: () => (/** @type {string} */ value) => value };

let count = 0;
/** Other buckets may have used the client earlier, so the names of statements must be unique. */
const nextName = () => `web-locks ${++count}`;

/** @param {any} client @param {Query} query @returns {Promise<any[]>} the last SELECT's rows */
async function rowsOf(client, query) {
  const result = await client.query({ ...query, types: RAW });
  const last = Array.isArray(result)
    ? result.findLast(({ command }) => command === 'SELECT')
    : result;
  return last?.rows ?? [];
}

const ignore = () => {};

/**
 * A query object that pg submits as it is, like those of pg-cursor. The query objects that pg
 * builds cost more than the rest of a call, mostly because of the description of the result, which
 * is already known here. A call must have no `name`, `text` or private field, because tools that
 * trace pg copy queries that have these fields, or derive objects from them.
 */
class Call {
  /** @type {(string | null)[] | undefined} */
  row;
  handleRowDescription = ignore;
  handleCommandComplete = ignore;
  handleEmptyQuery = ignore;
  handlePortalSuspended = ignore;
  handleCopyInResponse = ignore;
  handleCopyData = ignore;

  /**
   * @param {string} statement its name @param {string | undefined} parsed the text to parse first
   * @param {unknown[]} values @param {Done} callback
   */
  constructor(statement, parsed, values, callback) {
    this.statement = statement;
    this.parsed = parsed;
    this.values = values.map((value) => (Buffer.isBuffer(value) ? value : String(value)));
    this.callback = callback;
  }

  /** @param {any} connection */
  submit(connection) {
    const { parsed, statement, values } = this;
    connection.stream.cork?.();
    if (parsed !== undefined) connection.parse({ name: statement, text: parsed });
    connection.bind({ statement, values });
    connection.execute();
    connection.sync();
    connection.stream.uncork?.();
    return null;
  }

  /** @param {{ fields: (string | null)[] }} message */
  handleDataRow({ fields }) {
    this.row = fields;
  }

  /** @param {unknown} error */
  handleError(error) {
    this.callback(error);
  }

  handleReadyForQuery() {
    this.callback(null, this.row);
  }
}

/**
 * @typedef {object} Pool the members of a Pool of pg that this file uses
 * @property {(done: Done) => Promise<any> | undefined} connect
 * @property {(query: any) => Promise<any>} query
 * @property {{ max?: number }} [options]
 * @property {number} [idleCount]
 * @property {number} [totalCount]
 * @property {boolean} [ending]
 * @property {boolean} [ended]
 * @property {any[]} [_clients] private to pg; the only way to a client that is connecting
 */

class PgClient {
  #client;
  /** @type {ClientEvents | undefined} */
  #events;
  /** The statements by their texts. @type {Map<string, { name: string, isParsed: boolean }>} */
  #statements = new Map();

  /** @param {any} client */
  constructor(client) {
    this.#client = client;
  }

  get processID() {
    return this.#client.processID;
  }

  /**
   * Registers the handlers. Does not send LISTEN, which the link does.
   * @param {string} _channel @param {ClientEvents} events
   */
  attach(_channel, events) {
    const client = this.#client;
    this.#events = events;
    client.unref?.();
    client.on('error', events.onEnd);
    client.on('end', events.onEnd);
    client.on('notification', this.#handleNotification);
    client.on('notice', events.onNotice);
  }

  /** @param {Query} query @returns {Promise<any[]>} */
  query(query) {
    return rowsOf(this.#client, query);
  }

  /**
   * Runs a statement that is used often, and passes its only row to `done`, as an array.
   * @param {string} text @param {unknown[]} values @param {Done} done
   */
  row(text, values, done) {
    if (this.#canSubmit && !values.some(Array.isArray)) this.#call(text, values, done);
    else callBack(this.#slowRow(text, values), done);
  }

  /** Whether the client can submit a `Call`: native clients and pipelining clients cannot. */
  get #canSubmit() {
    const { connection, pipeline } = this.#client;
    return typeof connection?.bind === 'function' && !pipeline;
  }

  /**
   * Does the work of `row` by a query object that pg builds.
   * @param {string} text @param {unknown[]} values @returns {Promise<any[]>}
   */
  async #slowRow(text, values) {
    const { name } = this.#statementOf(text);
    const { rows } = await this.#client.query({ name, text, values, types: RAW, rowMode: 'array' });
    return rows[0];
  }

  /**
   * Does the work of `row` by a `Call`, which also parses the statement until a call has succeeded.
   * @param {string} text @param {unknown[]} values @param {Done} done
   */
  #call(text, values, done) {
    const statement = this.#statementOf(text);
    const { isParsed, name } = statement;
    /** @type {Done} */
    const onResult = (error, row) => {
      if (!error) statement.isParsed = true;
      // It is unknown whether the server parsed the statement, so the next call uses a new name.
      else if (!isParsed) this.#statements.delete(text);
      done(error, row);
    };
    this.#client.query(new Call(name, isParsed ? undefined : text, values, onResult));
  }

  /** @param {string} text */
  #statementOf(text) {
    let statement = this.#statements.get(text);
    if (!statement) {
      statement = { name: nextName(), isParsed: false };
      this.#statements.set(text, statement);
    }
    return statement;
  }

  ref() {
    this.#client.ref?.();
  }

  unref() {
    this.#client.unref?.();
  }

  /** @param {unknown} error */
  discard(error) {
    const client = this.#client;
    client.removeListener('notification', this.#handleNotification);
    client.removeListener('notice', this.#events?.onNotice);
    discard(client, error);
  }

  /** @param {{ payload: string }} message */
  #handleNotification = ({ payload }) => this.#events?.onNotification(payload);
}

/**
 * Gets a client by a callback, because a promise would settle too late: an error that arrives
 * together with the answer to the login would find no listener. A pool that takes no callback
 * returns a promise. The client gets a listener that ignores errors, which `giveBack` removes.
 * @param {Pool} pool @returns {Promise<any>}
 */
const connect = (pool) =>
  new Promise((resolve, reject) => {
    /** @type {Done} */
    const done = (error, client) => {
      if (error) return reject(error);
      client.on('error', ignore);
      resolve(client);
    };
    pool.connect(done)?.then((/** @type {any} */ client) => done(undefined, client), reject);
  });

/** @param {any} client of `connect` that still works */
function giveBack(client) {
  client.removeListener('error', ignore);
  client.release();
}

/** Destroys the stream, too: it may never end. @param {any} client @param {unknown} error */
function discard(client, error) {
  client.release(error);
  destroyStream(client);
}

/** @param {any} client of pg, which may still be connecting */
const destroyStream = (client) => client.connection?.stream?.destroy?.();

/** Whether a request for a client must wait until a client is released. @param {Pool} pool */
const isFullyUsed = ({ idleCount, options, totalCount }) =>
  idleCount === 0 && Number(totalCount) >= Number(options?.max);

/**
 * Settles as the promise does, but rejects if the promise still waits for a client of a fully used
 * pool after 5 seconds, or sooner if `time` is short. It does not itself limit the time.
 * @param {Pool} pool @param {Promise<any>} promise of something that needs a client
 * @param {number} time the caller's time limit in milliseconds
 * @param {() => boolean} isQueued whether the promise waits for the release of a client
 */
async function unlessExhausted(pool, promise, time, isQueued) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const late = new Promise((_, reject) => {
    const rejectIfExhausted = () => {
      if (isQueued() && isFullyUsed(pool)) reject(exhaustedError(pool));
    };
    timer = setTimeout(rejectIfExhausted, Math.min(PATIENCE_MS, 0.8 * time));
    timer.unref();
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
    promise.catch(() => {});
  }
}

/**
 * Takes clients from a pool, one after another. If a server does not answer, only a few clients are
 * requested, so that the pool is not exhausted.
 */
class PgSource {
  #schema;
  /** Clients that are connecting, or that run a single statement. @type {Set<any>} */
  #clients = new Set();
  #isEnded = false;
  /** Receives the next client of the pool. @type {((client: any) => void) | undefined} */
  #onClient;
  /** @type {{ promise: Promise<any>, since: number, isQueued: boolean } | undefined} */
  #pending;
  /** How many clients were requested and have not arrived. */
  #count = 0;
  #epoch = 0;

  /** @param {Pool} pool @param {string} schema */
  constructor(pool, schema) {
    this.pool = pool;
    this.#schema = schema;
  }

  /**
   * Runs statements without values over a client that is then given back.
   * @param {string} text @param {number} [time] milliseconds; an exhausted pool rejects earlier
   * @returns {Promise<any[]>} the rows of the last SELECT
   */
  query(text, time = Number.POSITIVE_INFINITY) {
    const isFull = isFullyUsed(this.pool);
    const rows = this.#queryOnce(text);
    if (time === Number.POSITIVE_INFINITY) return rows;
    return unlessExhausted(this.pool, rows, time, () => isFull);
  }

  /**
   * Does the work of `query` without a time limit.
   * @param {string} text @returns {Promise<any[]>}
   */
  async #queryOnce(text) {
    this.#throwIfEnded();
    const client = await this.#newClient();
    if (this.#isEnded) {
      giveBack(client);
      throw endedPoolError();
    }
    this.#clients.add(client);
    try {
      // An error of the client also rejects the statement.
      const rows = await rowsOf(client, { text });
      giveBack(client);
      return rows;
    } catch (error) {
      discard(client, error);
      throw error;
    } finally {
      this.#clients.delete(client);
    }
  }

  #throwIfEnded() {
    if (this.pool.ending || this.pool.ended) throw endedPoolError();
  }

  /** Destroys the connections of busy clients, which could keep the pool from ending. */
  end() {
    this.cancel();
    this.#isEnded = true;
    for (const client of this.#clients) destroyStream(client);
  }

  /** Gets a client of the pool, which `end` can destroy even while it is still connecting. */
  async #newClient() {
    const { pool } = this;
    const known = new Set(pool._clients);
    const connected = connect(pool);
    const [client] = (pool._clients ?? []).filter((/** @type {any} */ one) => !known.has(one));
    if (client) this.#clients.add(client);
    try {
      return await connected;
    } finally {
      this.#clients.delete(client);
    }
  }

  /** @param {number} time the time limit in milliseconds */
  async take(time) {
    const { pool } = this;
    this.#throwIfEnded();
    this.cancel();
    const epoch = this.#epoch;
    try {
      const asked = this.#requestClient();
      const isQueued = () => this.#pending?.isQueued === true;
      return new PgClient(await unlessExhausted(pool, asked, time, isQueued));
    } catch (error) {
      if (epoch === this.#epoch) this.cancel();
      throw explain(error, this.#schema);
    }
  }

  /** Stops waiting. A client that arrives later goes back to the pool. */
  cancel() {
    this.#epoch++;
    this.#onClient = undefined;
  }

  /** Waits for a client, requested now or by an earlier call. @returns {Promise<any>} */
  #requestClient() {
    const now = performance.now();
    const isFull = isFullyUsed(this.pool);
    const isLate = this.#pending && now - this.#pending.since > LATE_MS && this.#count < MOST;
    // In a fully used pool, a further request would only queue up behind the late requests.
    if (!this.#pending || (isLate && !isFull)) this.#connect(now, isFull);
    const { promise } = /** @type {{ promise: Promise<any> }} */ (this.#pending);
    return new Promise((resolve, reject) => {
      this.#onClient = resolve;
      promise.catch(reject);
    });
  }

  /**
   * Requests a client, which goes to the call that waits when it arrives, or back to the pool.
   * @param {number} since @param {boolean} isQueued
   */
  #connect(since, isQueued) {
    const pending = { promise: this.#newClient(), since, isQueued };
    this.#pending = pending;
    this.#count++;
    const done = () => {
      this.#count--;
      if (this.#pending === pending) this.#pending = undefined;
    };
    pending.promise.then((client) => {
      done();
      const wanted = this.#onClient;
      this.#onClient = undefined;
      if (wanted) wanted(client);
      else giveBack(client);
    }, done);
  }
}

/** @param {any} client @param {string} text @returns {Promise<any[]>} the only row */
async function rowInTransaction(client, text) {
  const { rows } = await client.query({ text, types: RAW, rowMode: 'array' });
  return rows[0];
}

module.exports = { PgSource, rowInTransaction };
