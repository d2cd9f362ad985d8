'use strict';

/**
 * A connection to PostgreSQL for one session. It keeps one client of the user's pool, so that the
 * session can renew its lease even if the pool is exhausted. All statements of the session use this
 * client. The client listens on the session's channel while the session has locks or requests, so
 * an answer of the server also proves that notifications arrive. The connection reports a failure
 * once, by `onDown`, and never after `drop`.
 */

const {
  endedPoolError,
  examinedError,
  exhaustedError,
  explain,
  noNotifyError,
  notReplicatedError,
  oldServerError,
  standbyError,
} = require('./errors.js');

/**
 * A probe is a notification that normally arrives before the response to the next statement. It may
 * arrive at most this many milliseconds after that response.
 */
const PROBE_MS = 2_000;
/** How many milliseconds an exhausted pool may take to provide a client. */
const PATIENCE_MS = 5_000;

/** After this many milliseconds without a client, the pool is asked for a further one. */
const LATE_MS = 1_000;
/** How many clients may be requested from the pool at the same time. */
const MOST = 3;

/**
 * The server function that emits a warning when a commit does not wait for the synchronous standby.
 */
const NOT_WAITED = 'SyncRepWaitForLSN';

/** Values stay as the server writes them, whatever parsers the user has set in pg. */
const RAW = { getTypeParser: () => (/** @type {string} */ value) => value };

/** @param {string | { name?: string, text: string, values?: unknown[] }} query */
const raw = (query) =>
  typeof query === 'string' ? { text: query, types: RAW } : { ...query, types: RAW };

/** The number of prepared statements. */
let count = 0;
/** Other buckets may have used the client earlier, so names must be unique. */
const nextName = () => `web-locks ${++count}`;

/** A statement for frequent use, which a server process parses only once. @param {string} text */
const prepared = (text) => ({ name: nextName(), text, types: RAW, rowMode: 'array' });

/** @typedef {ReturnType<typeof prepared>} Prepared */

/** @param {Promise<any>} promise @param {Done} done */
async function callBack(promise, done) {
  let result;
  try {
    result = await promise;
  } catch (error) {
    done(error);
    return;
  }
  done(undefined, result);
}

/** The only row of a result of pg. @param {Promise<any>} result @returns {Promise<any[]>} */
const rowOf = async (result) => (await result).rows[0];

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
   * @param {string} statement its name @param {string | undefined} parsed its text if the server
   *   must parse it first
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

/** @typedef {(error: unknown, result?: any) => void} Done called once */

/**
 * @typedef {object} Question
 * @property {(done: Done) => void} send
 * @property {(result: any) => void} resolve
 * @property {(error: unknown) => void} reject
 */

class PostgresLink {
  #client;
  #schema;
  #isDown = false;
  /** @type {(payload: string) => void} */
  onNotification = () => {};
  /** Called once, with the error. @type {(error: unknown) => void} */
  onDown = () => {};
  /** Whether the session's notifications certainly arrive. */
  isListening = false;
  #channel = '';
  /** The names of statements that the server process has parsed. @type {Map<Prepared, string>} */
  #parsed = new Map();
  /**
   * Unanswered questions. Only the first one was sent, since a client of pg accepts one at a time.
   */
  #questions = /** @type {Question[]} */ ([]);

  /** @param {any} client @param {string} schema for messages */
  constructor(client, schema) {
    this.#client = client;
    this.#schema = schema;
    client.unref?.();
    client.on('error', this.#fail);
    client.on('end', this.#fail);
    client.on('notification', this.#handleNotification);
    client.on('notice', this.#handleNotice);
  }

  /**
   * Prepares the connection, and runs a last statement, whose result it returns. If the session may
   * already hold something, `listens` must be true, and the connection listens from the beginning.
   * @param {Source} source of the client @param {string} session @param {number} ttl
   * @param {number} time the time limit in milliseconds @param {string} then the last statement
   * @param {boolean} listens @returns {Promise<any>}
   */
  async open(source, session, ttl, time, then, listens) {
    this.#channel = `wl_${session}`;
    const listen = `LISTEN ${this.#channel}`;
    const { isPooled } = await this.#examine();
    if (isPooled) {
      await this.run(listen);
      await this.#probe(source, session, time, Math.min(PROBE_MS, ttl / 4));
    }
    // A message is one transaction, and a new default isolation level applies only after it, so the
    // level of this transaction is set here.
    const begin = 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE';
    const statements = [begin, settings(ttl), ...(listens ? [listen] : []), then];
    const results = await this.run(statements.join(';'));
    this.isListening = listens || isPooled;
    return results.at(-1);
  }

  /** Stops listening, because every notification wakes every listening connection. */
  unlisten() {
    if (!this.isListening) return;
    this.isListening = false;
    // If the connection failed, `onDown` reports it. Any other error only leaves the connection
    // listening, which does no harm.
    this.run(`UNLISTEN ${this.#channel}`).catch(() => {});
  }

  /** Checks the server, and finds out whether a pooler is in between. */
  async #examine() {
    const { number, pid, standby, version } = await this.#readProperties();
    if (Number(number) < 130_000) throw oldServerError(version);
    if (standby === 't') throw standbyError();
    return { isPooled: Number(pid) !== this.#client.processID };
  }

  /** @returns {Promise<any>} */
  async #readProperties() {
    try {
      const { rows } = await this.run(
        `SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS standby,
          current_setting('server_version_num') AS number,
          current_setting('server_version') AS version`,
      );
      return rows[0];
    } catch (error) {
      throw examinedError(error);
    }
  }

  /**
   * Rejects if a notification that another client sends to the session does not arrive.
   * @param {Source} source @param {string} session @param {number} time the pool's time limit
   * @param {number} patience the notification's time limit in milliseconds
   */
  async #probe(source, session, time, patience) {
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const before = this.onNotification;
    /** @type {Promise<unknown>} */
    const heard = new Promise((resolve) => {
      this.onNotification = resolve;
    });
    try {
      const { pool } = source;
      const isFull = isFullyUsed(pool);
      await within(pool, source.query(`NOTIFY wl_${session}, 'probe'`), time, () => isFull);
      await this.run('SELECT');
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(noNotifyError()), patience);
      });
      await Promise.race([heard, late]);
    } catch (error) {
      throw explain(error, this.#schema);
    } finally {
      clearTimeout(timer);
      this.onNotification = before;
    }
  }

  get isDown() {
    return this.#isDown;
  }

  /**
   * Runs a statement, or several without values, and keeps the event loop alive until it ends.
   * Rejects with an error of errors.js, also if the connection ends, or if the server did not wait
   * for its standby.
   * @param {string | { text: string, values?: unknown[] }} query @returns {Promise<any>}
   */
  run(query) {
    return this.#sendQuestion((done) => callBack(this.#client.query(raw(query)), done));
  }

  /**
   * Runs a prepared statement as `run` does, and returns the only row.
   * @param {Prepared} statement @param {unknown[]} values @returns {Promise<any[]>}
   */
  row(statement, values) {
    return this.#sendQuestion((done) => {
      if (this.#canSubmit && !values.some(Array.isArray)) this.#call(statement, values, done);
      else callBack(rowOf(this.#client.query(statement, values)), done);
    });
  }

  /** Whether the client can submit a `Call`: native clients and pipelining clients cannot. */
  get #canSubmit() {
    const { connection, pipeline } = this.#client;
    return typeof connection?.bind === 'function' && !pipeline;
  }

  /** @param {Prepared} statement @param {unknown[]} values @param {Done} done */
  #call(statement, values, done) {
    const known = this.#parsed.get(statement);
    // After an error it is unknown whether the server parsed the statement, so the statement gets a
    // new name.
    const name = known ?? nextName();
    /** @type {Done} */
    const onResult = (error, row) => {
      if (!error) this.#parsed.set(statement, name);
      done(error, row);
    };
    this.#client.query(new Call(name, known ? undefined : statement.text, values, onResult));
  }

  /** @param {(done: Done) => void} send @returns {Promise<any>} */
  #sendQuestion(send) {
    return new Promise((resolve, reject) => {
      if (this.#isDown) throw this.#endedError();
      this.#questions.push({ send, resolve, reject });
      if (this.#questions.length > 1) return;
      this.#client.ref?.();
      this.#send();
    });
  }

  #send() {
    const [question] = this.#questions;
    /** @type {Done} */
    const done = (error, result) => {
      if (error) question.reject(explain(error, this.#schema));
      else question.resolve(result);
      // The connection has failed, and all its questions were rejected.
      if (this.#questions[0] !== question) return;
      this.#questions.shift();
      if (this.#questions.length > 0) this.#send();
      else this.#client.unref?.();
    };
    try {
      question.send(done);
    } catch (error) {
      done(error);
    }
  }

  #endedError() {
    return explain(new Error('the connection ended'), this.#schema);
  }

  /** Ends the connection without `onDown`, and rejects the calls under way. */
  drop() {
    this.onDown = () => {};
    this.onNotification = () => {};
    this.#fail();
  }

  /** @param {unknown} [error] */
  #fail = (error) => {
    if (this.#isDown) return;
    this.#isDown = true;
    const why = error ? explain(error, this.#schema) : this.#endedError();
    for (const { reject } of this.#questions.splice(0)) reject(why);
    const client = this.#client;
    client.removeListener('notification', this.#handleNotification);
    client.removeListener('notice', this.#handleNotice);
    discard(client, why);
    this.onDown(why);
  };

  /** @param {{ payload: string }} message */
  #handleNotification = ({ payload }) => this.onNotification(payload);

  /** @param {{ routine?: string }} notice */
  #handleNotice = ({ routine }) => {
    if (routine === NOT_WAITED && this.#questions.length > 0) this.#fail(notReplicatedError());
  };
}

/**
 * Gets a client by a callback, because a promise would settle too late: an error that arrives
 * together with the answer to the login would find no listener. A pool that takes no callback
 * returns a promise. Errors that the client emits meanwhile are ignored; see `giveBack` and
 * `discard`.
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

/**
 * Releases a client and ends it, because its stream may never report its end.
 * @param {any} client @param {unknown} error
 */
function discard(client, error) {
  client.release(error);
  destroyStream(client);
}

/** @param {any} client of pg, which may still be connecting */
const destroyStream = (client) => client.connection?.stream?.destroy?.();

/**
 * With these settings, grants wait for the disk, and for a standby if there is one, even if the
 * role has other settings.
 * @param {boolean} isLocal to the transaction
 */
const waitForDisk = (isLocal) => `
  SELECT set_config('synchronous_commit', 'on', ${isLocal})
    WHERE current_setting('synchronous_commit') IN ('off', 'local')`;

/**
 * The settings that the statements need, even if the role has other settings. Older servers do not
 * know some of them. Queues must be read in the order of their index, up to the wanted row; a
 * bitmap scan would read and sort a whole queue.
 * @param {number} ttl
 */
const settings = (ttl) => `
  SET default_transaction_isolation TO 'read committed';
  SET default_transaction_read_only TO off;
  SET statement_timeout TO 0;
  SET lock_timeout TO ${Math.ceil(ttl / 4)};
  SET client_min_messages TO warning;
  SET enable_seqscan TO off;
  SET enable_bitmapscan TO off;
  SET jit TO off;
  SET array_nulls TO on;
  SET bytea_output TO hex;
  SET standard_conforming_strings TO on;
  SELECT set_config(name, '0', false) FROM pg_settings
    WHERE name IN (
      'idle_session_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout');
  ${waitForDisk(false)}`;

/** Whether a request for a client must wait until a client is released. @param {Pool} pool */
const isFullyUsed = ({ idleCount, options, totalCount }) =>
  idleCount === 0 && Number(totalCount) >= Number(options?.max);

/**
 * Rejects earlier than the time limit if all clients of the pool stay in use.
 * @param {Pool} pool @param {Promise<any>} promise of something that needs a client
 * @param {number} time the time limit in milliseconds
 * @param {() => boolean} isQueued whether the promise waits for the release of a client
 * @returns {Promise<any>}
 */
async function within(pool, promise, time, isQueued) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const late = new Promise((_, reject) => {
    const look = () => {
      if (isQueued() && isFullyUsed(pool)) reject(exhaustedError(pool));
    };
    timer = setTimeout(look, Math.min(PATIENCE_MS, 0.8 * time));
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
class Source {
  #schema;
  /** Clients that are connecting, or that run a single statement. @type {Set<any>} */
  #clients = new Set();
  #isEnded = false;
  /**
   * Receives the next client that the pool provides.
   * @type {((client: any) => void) | undefined}
   */
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
   * Runs a statement, or several without values, over a client that is then given back.
   * @param {string} text @returns {Promise<any>}
   */
  async query(text) {
    this.#checkPool();
    const client = await this.#newClient();
    if (this.#isEnded) {
      giveBack(client);
      throw endedPoolError();
    }
    this.#clients.add(client);
    try {
      // An error of the client also rejects the statement.
      const result = await client.query(raw(text));
      giveBack(client);
      return result;
    } catch (error) {
      discard(client, error);
      throw error;
    } finally {
      this.#clients.delete(client);
    }
  }

  #checkPool() {
    if (this.pool.ending || this.pool.ended) throw endedPoolError();
  }

  /**
   * Destroys the connections of clients whose server does not answer, because they would keep the
   * pool from ending.
   */
  end() {
    this.cancel();
    this.#isEnded = true;
    for (const client of this.#clients) destroyStream(client);
  }

  /**
   * Gets a client of the pool. `end` can destroy the client even while it is still connecting.
   * @returns {Promise<any>}
   */
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

  /**
   * Takes a client from the pool. An earlier call that still waits gets no client.
   * @param {number} time the time limit in milliseconds @returns {Promise<any>}
   */
  async take(time) {
    const { pool } = this;
    this.#checkPool();
    this.cancel();
    const epoch = this.#epoch;
    try {
      const asked = this.#requestClient();
      return await within(pool, asked, time, () => this.#pending?.isQueued === true);
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

  /** @returns {Promise<any>} */
  #requestClient() {
    const now = performance.now();
    const isFull = isFullyUsed(this.pool);
    const isLate = this.#pending && now - this.#pending.since > LATE_MS && this.#count < MOST;
    // A further request would only queue up after the late requests.
    if (!this.#pending || (isLate && !isFull)) this.#connect(now, isFull);
    const { promise } = /** @type {{ promise: Promise<any> }} */ (this.#pending);
    return new Promise((resolve, reject) => {
      this.#onClient = resolve;
      promise.catch(reject);
    });
  }

  /** @param {number} since @param {boolean} isQueued */
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

module.exports = { PostgresLink, Source, prepared, raw, waitForDisk };
