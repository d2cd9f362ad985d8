'use strict';

/**
 * A connection to PostgreSQL for one session: one client of the user's pool, kept. It listens on
 * the session's channel, while that has or asks for something, and all statements of the session go
 * through it, so that an answer proves that notifications come, too, and a pool whose clients are
 * all in use costs no lease.
 *
 * What fails on the connection is told once, by `onDown`; what comes after `drop` is not told.
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
 * How long a notification that is to show whether any arrive may come after an answer that it has
 * to come before, in milliseconds.
 */
const PROBE_MS = 2_000;
/** How long the pool may take at most to give a client, while all are in use, in milliseconds. */
const PATIENCE_MS = 5_000;

/** After so long another client is asked for, in milliseconds. */
const LATE_MS = 1_000;
/** As long as so few have not come. */
const MOST = 3;

/** The server's own function that warns, when it does not wait for its synchronous standby. */
const NOT_WAITED = 'SyncRepWaitForLSN';

/** Values as the server writes them: users may have other parsers in pg. */
const RAW = { getTypeParser: () => (/** @type {string} */ value) => value };

/** @param {string | { name?: string, text: string, values?: unknown[] }} query */
const raw = (query) =>
  typeof query === 'string' ? { text: query, types: RAW } : { ...query, types: RAW };

/** So many were prepared. */
let count = 0;
/** Nobody else's: the client may have been somebody's before. */
const nextName = () => `web-locks ${++count}`;

/**
 * @param {string} text
 * @returns a statement that a server process parses once, for those that are run often
 */
const prepared = (text) => ({ name: nextName(), text, types: RAW, rowMode: 'array' });

/** @typedef {ReturnType<typeof prepared>} Prepared */

/**
 * @param {Promise<any>} promise
 * @param {Done} done told what has become of it
 */
async function tell(promise, done) {
  let result;
  try {
    result = await promise;
  } catch (error) {
    done(error);
    return;
  }
  done(undefined, result);
}

/** @param {Promise<any>} result of pg @returns {Promise<any[]>} its only row */
const rowOf = async (result) => (await result).rows[0];

/** What is of no use here of what a server says. */
const ignore = () => {};

/**
 * A statement that is given to a client of pg as it is, as pg-cursor does (`submit`): what pg makes
 * of others costs more than all the rest, mostly for a description of the result, which is known.
 * Without `name` and `text`, and with nothing private: tools that watch pg copy what has them, or
 * derive from it.
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
   * @param {string} statement its name
   * @param {string | undefined} parsed its text, if it is to be parsed first
   * @param {unknown[]} values
   * @param {Done} callback
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
 * What is used of a Pool of pg.
 * @typedef {object} Pool
 * @property {(done: Done) => Promise<any> | undefined} connect
 * @property {(query: any) => Promise<any>} query
 * @property {{ max?: number }} [options]
 * @property {number} [idleCount]
 * @property {number} [totalCount]
 * @property {boolean} [ending]
 * @property {boolean} [ended]
 * @property {any[]} [_clients] of pg's own: there is no other way to a client that is connecting
 */

/** @typedef {(error: unknown, result?: any) => void} Done told once what has become of something */

/**
 * @typedef {object} Question
 * @property {(done: Done) => void} send
 * @property {(result: any) => void} resolve
 * @property {(error: unknown) => void} reject
 */

class Link {
  #client;
  #schema;
  #isDown = false;
  /** Called with each notification. @type {(payload: string) => void} */
  onNotification = () => {};
  /** Called once, with an error. @type {(error: unknown) => void} */
  onDown = () => {};
  /** Whether it hears for certain what is told to the session. */
  isListening = false;
  #channel = '';
  /** Names of the statements that the server process has parsed. @type {Map<Prepared, string>} */
  #parsed = new Map();
  /** What is not answered, the first of which was sent: a client of pg is given one at a time. */
  #asked = /** @type {Question[]} */ ([]);

  /**
   * @param {any} client of the pool
   * @param {string} schema for messages
   */
  constructor(client, schema) {
    this.#client = client;
    this.#schema = schema;
    client.unref?.();
    client.on('error', this.#fail);
    client.on('end', this.#fail);
    client.on('notification', this.#hear);
    client.on('notice', this.#notice);
  }

  /**
   * Makes it one that hears what is told to the session.
   * @param {Source} source of its client
   * @param {string} session
   * @param {number} ttl milliseconds
   * @param {number} time milliseconds in which it is wanted
   * @param {string} then a statement that is run last
   * @param {boolean} listens at once: the session may hold something
   * @returns {Promise<any>} the statement's result
   */
  async open(source, session, ttl, time, then, listens) {
    this.#channel = `wl_${session}`;
    const listen = `LISTEN ${this.#channel}`;
    const { isPooled } = await this.#examine();
    if (isPooled) {
      await this.run(listen);
      await this.#probe(source, session, time, Math.min(PROBE_MS, ttl / 4));
    }
    // One message, one transaction: not of the kind that is the default afterwards.
    const begin = 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE';
    const statements = [begin, settings(ttl), ...(listens ? [listen] : []), then];
    const results = await this.run(statements.join(';'));
    this.isListening = listens || isPooled;
    return results.at(-1);
  }

  /** Stops listening: every connection that listens is woken by every notification. */
  rest() {
    if (!this.isListening) return;
    this.isListening = false;
    // That it fails is told by `onDown`, or leaves a listener.
    this.run(`UNLISTEN ${this.#channel}`).catch(() => {});
  }

  /** Whether it is a primary that is new enough; whether somebody is in between. */
  async #examine() {
    const { number, pid, standby, version } = await this.#properties();
    if (Number(number) < 130_000) throw oldServerError(version);
    if (standby === 't') throw standbyError();
    return { isPooled: Number(pid) !== this.#client.processID };
  }

  /** @returns {Promise<any>} */
  async #properties() {
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
   * Rejects if nothing arrives that another client tells the session.
   * @param {Source} source
   * @param {string} session
   * @param {number} time milliseconds that the pool has
   * @param {number} patience milliseconds that the notification has
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
   * Runs a statement, or a few without values. Meanwhile the event loop is kept alive.
   * @param {string | { text: string, values?: unknown[] }} query
   * @returns {Promise<any>} rejects with an error of ours; also when the connection ends, or the
   *   server did not wait for its standby
   */
  run(query) {
    return this.#ask((done) => tell(this.#client.query(raw(query)), done));
  }

  /**
   * As `run`.
   * @param {Prepared} statement
   * @param {unknown[]} values
   * @returns {Promise<any[]>} its only row
   */
  row(statement, values) {
    return this.#ask((done) => {
      if (this.#canSubmit && !values.some(Array.isArray)) this.#call(statement, values, done);
      else tell(rowOf(this.#client.query(statement, values)), done);
    });
  }

  /** Not to a client that is native, or sends before it has heard. */
  get #canSubmit() {
    const { connection, pipeline } = this.#client;
    return typeof connection?.bind === 'function' && !pipeline;
  }

  /**
   * @param {Prepared} statement
   * @param {unknown[]} values
   * @param {Done} done told the row
   */
  #call(statement, values, done) {
    const known = this.#parsed.get(statement);
    // Another name after an error: it may have been parsed, or not.
    const name = known ?? nextName();
    /** @type {Done} */
    const isDone = (error, row) => {
      if (!error) this.#parsed.set(statement, name);
      done(error, row);
    };
    this.#client.query(new Call(name, known ? undefined : statement.text, values, isDone));
  }

  /**
   * @param {(done: Done) => void} send
   * @returns {Promise<any>}
   */
  #ask(send) {
    return new Promise((resolve, reject) => {
      if (this.#isDown) throw this.#endedError();
      this.#asked.push({ send, resolve, reject });
      if (this.#asked.length > 1) return;
      this.#client.ref?.();
      this.#send();
    });
  }

  #send() {
    const [question] = this.#asked;
    /** @type {Done} */
    const done = (error, result) => {
      if (error) question.reject(explain(error, this.#schema));
      else question.resolve(result);
      // That of a connection that has failed is not there any more.
      if (this.#asked[0] !== question) return;
      this.#asked.shift();
      if (this.#asked.length > 0) this.#send();
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

  /** Ends the connection, without a word; what is under way rejects. */
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
    for (const { reject } of this.#asked.splice(0)) reject(why);
    const client = this.#client;
    client.removeListener('notification', this.#hear);
    client.removeListener('notice', this.#notice);
    discard(client, why);
    this.onDown(why);
  };

  /** @param {{ payload: string }} message */
  #hear = ({ payload }) => this.onNotification(payload);

  /** @param {{ routine?: string }} notice */
  #notice = ({ routine }) => {
    if (routine === NOT_WAITED && this.#asked.length > 0) this.#fail(notReplicatedError());
  };
}

/**
 * A promise is too late: an error that arrives together with the answer to the login, such as that
 * of a server that ends, would find no listener. So pg calls back; a pool that does not know that
 * returns a promise all the same.
 * @param {Pool} pool
 * @returns {Promise<any>} a client whose errors end nothing; see `giveBack` and `discard`
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
 * Ends a client of pg that is given back. Its stream may never say that it has ended.
 * @param {any} client
 * @param {unknown} error
 */
function discard(client, error) {
  client.release(error);
  cut(client);
}

/** @param {any} client of pg, which may be connecting */
const cut = (client) => client.connection?.stream?.destroy?.();

/**
 * What a grant waits for, whatever the role has: the disk, and a standby if there is one.
 * @param {boolean} isLocal to the transaction
 */
const waitForDisk = (isLocal) => `
  SELECT set_config('synchronous_commit', 'on', ${isLocal})
    WHERE current_setting('synchronous_commit') IN ('off', 'local')`;

/**
 * Each statement needs them, whatever its role has; a client that is kept has them to itself. Some
 * are known to newer servers only. A queue is read in the order of its index, up to the row that is
 * wanted: a bitmap scan would read all of it, and sort it.
 * @param {number} ttl milliseconds
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

/**
 * @param {Pool} pool
 * @returns {boolean} whether a call for a client waits until one is released
 */
const isFullyUsed = ({ idleCount, options, totalCount }) =>
  idleCount === 0 && Number(totalCount) >= Number(options?.max);

/**
 * @param {Pool} pool
 * @param {Promise<any>} promise of something that needs a client of the pool
 * @param {number} time milliseconds in which it is wanted
 * @param {() => boolean} isQueued whether it waits until somebody releases one
 * @returns {Promise<any>} as that one; rejects, while there is some time left, if all clients stay
 *   in use
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
 * Clients of a pool, one after another: of a server that does not answer only a few are asked
 * for, so that it does not use up the pool.
 */
class Source {
  #schema;
  /** Those that are connecting, or used for one statement. @type {Set<any>} */
  #clients = new Set();
  #isEnded = false;
  /** Takes the client that is under way. @type {((client: any) => void) | undefined} */
  #wanted;
  /** @type {{ promise: Promise<any>, since: number, isQueued: boolean } | undefined} */
  #pending;
  /** Clients that were asked for and have not come. */
  #count = 0;
  #epoch = 0;

  /**
   * @param {Pool} pool
   * @param {string} schema
   */
  constructor(pool, schema) {
    this.pool = pool;
    this.#schema = schema;
  }

  /**
   * Runs a statement, or a few without values, by a client that is given back then.
   * @param {string} text
   * @returns {Promise<any>}
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
      // What goes wrong with the client rejects the statement, too.
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

  /** What has no answer yet, as the server lets connect and says nothing, would keep the pool. */
  end() {
    this.cancel();
    this.#isEnded = true;
    for (const client of this.#clients) cut(client);
  }

  /** @returns {Promise<any>} a client of the pool, which `end` can cut while it is connecting */
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
   * @param {number} time milliseconds in which it is wanted
   * @returns {Promise<any>} a client. An earlier call that has none yet gets none
   */
  async take(time) {
    const { pool } = this;
    this.#checkPool();
    this.cancel();
    const epoch = this.#epoch;
    try {
      const asked = this.#ask();
      return await within(pool, asked, time, () => this.#pending?.isQueued === true);
    } catch (error) {
      if (epoch === this.#epoch) this.cancel();
      throw explain(error, this.#schema);
    }
  }

  /** Nobody wants the client that is under way any more. */
  cancel() {
    this.#epoch++;
    this.#wanted = undefined;
  }

  /** @returns {Promise<any>} */
  #ask() {
    const now = performance.now();
    const isFull = isFullyUsed(this.pool);
    const isLate = this.#pending && now - this.#pending.since > LATE_MS && this.#count < MOST;
    // One that is queued behind those that are late would not come sooner.
    if (!this.#pending || (isLate && !isFull)) this.#connect(now, isFull);
    const { promise } = /** @type {{ promise: Promise<any> }} */ (this.#pending);
    return new Promise((resolve, reject) => {
      this.#wanted = resolve;
      promise.catch(reject);
    });
  }

  /**
   * @param {number} since
   * @param {boolean} isQueued
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
      const wanted = this.#wanted;
      this.#wanted = undefined;
      if (wanted) wanted(client);
      else giveBack(client);
    }, done);
  }
}

module.exports = { Link, Source, prepared, raw, waitForDisk };
