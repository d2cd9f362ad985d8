'use strict';

/**
 * A connection to PostgreSQL for one session, over a client of the user's library: pg (pg.js) or
 * postgres.js (postgres-js.js). All statements of the session use this client. While the session
 * has locks or requests, the same client also listens on the session's channel. So an answer of the
 * server also proves that notifications arrive.
 */

const { EngineLink } = require('../engine-adapter.js');
const {
  examinedError,
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

/** The server function that warns when a commit did not wait for the synchronous standby. */
const NOT_WAITED = 'SyncRepWaitForLSN';

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

/**
 * @typedef {{ text: string, values?: unknown[] }} Query without values, `text` may contain several
 *   statements
 */

/**
 * @typedef {object} ClientEvents
 * @property {(payload: string) => void} onNotification
 * @property {(notice: { routine?: string }) => void} onNotice
 * @property {(error?: unknown) => void} onEnd the connection ended
 */

/**
 * @typedef {object} Client a connection of the user's library that one session keeps. Values are
 *   strings as the server writes them, or null. It does not keep the event loop alive, except
 *   between `ref` and `unref`
 * @property {number | undefined} processID the pid that the login reported; set by the first answer
 *   at the latest
 * @property {(channel: string, events: ClientEvents) => void} attach called once, before any other
 *   method
 * @property {(query: Query) => Promise<any[]>} query resolves to the rows of the last SELECT
 * @property {(text: string, values: unknown[], done: Done) => void} row for texts that are used
 *   often: passes the only row to `done`, as an array
 * @property {() => void} ref
 * @property {() => void} unref
 * @property {(error: unknown) => void} discard ends the connection at once, without events
 */

/**
 * @typedef {object} Source makes clients
 * @property {(time: number) => Promise<Client>} take rejects with an error of errors.js. An earlier
 *   call that still waits gets no client
 * @property {(text: string, time?: number) => Promise<any[]>} query runs statements without values
 *   over another client, and resolves to the rows of the last SELECT
 * @property {() => void} cancel stops a call of `take` that waits
 * @property {() => void} end ends what is under way; the last call
 */

/** @typedef {(error: unknown, result?: any) => void} Done called once */

/**
 * @typedef {{ send: (done: Done) => void, resolve: (result: any) => void,
 *   reject: (error: unknown) => void }} Question
 */

class PostgresLink extends EngineLink {
  #client;
  #schema;
  #channel;
  /** @type {(payload: string) => void} */
  onNotification = () => {};
  /** Whether the session's notifications certainly arrive. */
  isListening = false;
  /** Unanswered questions. Only the first was sent, since a pg client runs one query at a time. */
  #questions = /** @type {Question[]} */ ([]);

  /** @param {Client} client @param {string} session @param {string} schema for error messages */
  constructor(client, session, schema) {
    super();
    this.#client = client;
    this.#schema = schema;
    this.#channel = `wl_${session}`;
    client.attach(this.#channel, {
      onNotification: (payload) => this.onNotification(payload),
      onNotice: this.#handleNotice,
      onEnd: this.fail,
    });
  }

  /**
   * Prepares the connection, then runs a SELECT and returns its rows. If the session may already
   * hold something, `listens` must be true, so that the connection listens from the beginning.
   * @param {Source} source @param {number} ttl @param {number} time the time limit in milliseconds
   * @param {string} then the SELECT @param {boolean} listens @returns {Promise<any[]>}
   */
  async open(source, ttl, time, then, listens) {
    const listen = `LISTEN ${this.#channel}`;
    const { isPooled } = await this.#examine();
    if (isPooled) {
      await this.run(listen);
      await this.#probe(source, time, Math.min(PROBE_MS, ttl / 4));
    }
    // All statements of a query message run in one transaction. The default level that `settings`
    // sets applies only to later transactions, so this one sets its own.
    const begin = 'SET TRANSACTION ISOLATION LEVEL READ COMMITTED READ WRITE';
    const statements = [begin, settings(ttl), ...(listens ? [listen] : []), then];
    const rows = await this.run(statements.join(';'));
    this.isListening = listens || isPooled;
    return rows;
  }

  /** Stops listening, because every notification wakes every listening connection. */
  unlisten() {
    if (!this.isListening) return;
    this.isListening = false;
    // `onDown` reports a lost connection. After any other error, listening on does no harm.
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
      const rows = await this.run(
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
   * @param {Source} source @param {number} time the pool's time limit
   * @param {number} patience the notification's time limit in milliseconds
   */
  async #probe(source, time, patience) {
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    const before = this.onNotification;
    /** @type {Promise<unknown>} */
    const heard = new Promise((resolve) => {
      this.onNotification = resolve;
    });
    try {
      await source.query(`NOTIFY ${this.#channel}, 'probe'`, time);
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

  /**
   * Runs a statement, or several without values, and keeps the event loop alive until it ends.
   * Rejects with an error of errors.js, also if the connection ends, or if the server did not wait
   * for its standby.
   * @param {string | Query} query @returns {Promise<any[]>} the rows of the last SELECT
   */
  run(query) {
    const asked = typeof query === 'string' ? { text: query } : query;
    return this.#sendQuestion((done) => callBack(this.#client.query(asked), done));
  }

  /** @param {string} text @param {unknown[]} values @returns {Promise<any[]>} the only row */
  row(text, values) {
    return this.#sendQuestion((done) => this.#client.row(text, values, done));
  }

  /**
   * Queues a question, which is sent when all earlier ones were answered.
   * @param {(done: Done) => void} send @returns {Promise<any>}
   */
  #sendQuestion(send) {
    return new Promise((resolve, reject) => {
      if (this.isDown) throw this.explainEnd();
      this.#questions.push({ send, resolve, reject });
      if (this.#questions.length > 1) return;
      this.#client.ref();
      this.#send();
    });
  }

  /** Sends the first question; its answer sends the next one. */
  #send() {
    const [question] = this.#questions;
    /** @type {Done} */
    const done = (error, result) => {
      if (error) question.reject(explain(error, this.#schema));
      else question.resolve(result);
      // If the connection has failed, all its questions were rejected already.
      if (this.#questions[0] !== question) return;
      this.#questions.shift();
      if (this.#questions.length > 0) this.#send();
      else this.#client.unref();
    };
    try {
      question.send(done);
    } catch (error) {
      done(error);
    }
  }

  /** @override @param {unknown} [error] */
  explainEnd(error = new Error('the connection ended')) {
    return explain(error, this.#schema);
  }

  /** @override @param {unknown} why */
  end(why) {
    this.onNotification = () => {};
    for (const { reject } of this.#questions.splice(0)) reject(why);
    this.#client.discard(why);
  }

  /**
   * Ends the connection if a commit did not wait for the synchronous standby.
   * @param {{ routine?: string }} notice
   */
  #handleNotice = ({ routine }) => {
    if (routine === NOT_WAITED && this.#questions.length > 0) this.fail(notReplicatedError());
  };
}

/**
 * SQL that makes grants wait for the disk and a synchronous standby, whatever the role has set.
 * @param {boolean} isLocal to the transaction
 */
const waitForDisk = (isLocal) => `
  SELECT set_config('synchronous_commit', 'on', ${isLocal})
    WHERE current_setting('synchronous_commit') IN ('off', 'local')`;

/**
 * SQL for the settings that the statements need, whatever the role has set. Older servers lack
 * some of the timeouts, so these are set only if they exist. Queues must be read in the order of
 * their index, up to the wanted row; a bitmap scan would read and sort a whole queue.
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

module.exports = { PostgresLink, callBack, waitForDisk };
