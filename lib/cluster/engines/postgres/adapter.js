'use strict';

/**
 * The adapter of PostgreSQL (../../adapter.js). It keeps one connection (link.js), and calls the
 * functions of sql/ over it. A step is one statement, and so one transaction, whose NOTIFYs
 * announce its grants and thefts. The adapter creates the schema on first use.
 */

const { createHash, randomBytes } = require('node:crypto');

const { NO_EVENTS, busy, failed, isRequest } = require('../../adapter.js');
const { DEAD, STALE, answerOf, emitHint } = require('../wire.js');
const SCRIPT = require('./postgres.sql.js');
const { Links } = require('../links.js');
const { deadError, staleError } = require('../errors.js');
const { rowInTransaction, sourceOf } = require('./clients.js');
const { PostgresLink, waitForDisk } = require('./link.js');
const { argumentError, describe } = require('../../../platform/errors.js');
const {
  classify,
  explain,
  guardedError,
  lacksTables,
  noTablesError,
  oldSnapshotError,
  schemaError,
} = require('./errors.js');

/** @import { Adapter, Answer, Op, Seen, SessionInfo } from '../../adapter.js' */
/** @import { Pool } from './pg.js' */
/** @import { Sql } from './postgres-js.js' */
/** @import { Guard } from './errors.js' */
/** @typedef {InstanceType<typeof PostgresLink>} Link */

/** Increase this whenever the schema or its meaning changes. */
const VERSION = 9;

/**
 * The most names of a group. Each name takes an entry of the server's lock table, which all clients
 * of the server share.
 */
const MOST_NAMES = 1_000;

/** @type {Record<Op['kind'], number>} */
const KINDS = {
  request: 0,
  ifAvailable: 1,
  steal: 2,
  end: 3,
  pass: 4,
  passIfAvailable: 5,
  publish: 6,
};

/** The code that the server returns for a lock that a user guards. */
const GUARDED = '-7';

/**
 * The codes that functions of older versions of this library return for a publication, which they
 * take for a request. They are there if an older version has restored a table that was dropped.
 */
const UNKNOWN = ['-1', '-9'];

/** UTF-16LE keeps lone surrogates. @param {string} text */
const bytes = (text) => Buffer.from(text, 'utf16le');
/**
 * A bytea in SQL. It contains no backslash, because the meaning of a backslash depends on settings.
 * @param {Buffer} value
 */
const literal = (value) => `decode('${value.toString('hex')}', 'hex')`;
/** SQL for a text in ASCII. @param {string} value */
const textLiteral = (value) => `encode(${literal(Buffer.from(value))}, 'escape')`;
/** @param {string} hex a bytea as `\\x` and digits */
const text = (hex) => Buffer.from(hex.slice(2), 'hex').toString('utf16le');
/** JSON in ASCII, which every database encoding can represent. @param {unknown} value */
const asciiOf = (value) =>
  JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
/** @param {string | null} array of numbers, like `{1,2}` @returns {string[]} [] for null */
const listOf = (array) => (array === null || array === '{}' ? [] : array.slice(1, -1).split(','));

/**
 * The frequent statements of a connection. Their texts contain the session, so that it need not be
 * sent with each call. The functions for a single operation cost a third less than `step`.
 * @param {string} schema @param {string} session @param {number} number of the connection
 */
const statementsOf = (schema, session, number) => {
  /** @param {string} name @param {number} count of values */
  const callSql = (name, count) => {
    const values = Array.from({ length: count }, (_, i) => `$${i + 1}`);
    return `${schema}.${name}(${[session, number, ...values]})`;
  };
  /** @param {string} name @param {number} count of values */
  const selectSql = (name, count) => `SELECT ${callSql(name, count)}`;
  return {
    step: selectSql('step', 14),
    request: selectSql('request_alone', 5),
    requestWith: selectSql('request_alone', 12),
    end: selectSql('end_alone', 3),
    renew: `SELECT * FROM ${callSql('renew', 3)}`,
  };
};

/** @implements {Adapter} */
class PostgresAdapter {
  /** @type {string} */
  id;
  can = Object.freeze({
    limits: true,
    priorities: true,
    groups: true,
    marks: true,
    data: true,
    most: MOST_NAMES,
  });
  /** @type {import('../../adapter.js').AdapterEvents} */
  events = NO_EVENTS;
  classify = classify;

  #schema;
  #durability;
  #bucket;
  /** The keys of recently used names. @type {Map<string, Buffer>} */
  #keys = new Map();
  /** @type {InstanceType<typeof Links<Link>>} */
  #links = new Links();
  #source;
  /** The current connection's statements. @type {ReturnType<typeof statementsOf>} */
  #statements = statementsOf('', '', 0);
  /** The session that `open` started last; '' for none. */
  #session = '';
  #ttl = 0;
  /** Whether the schema of the connection's server has what publications need. */
  #isMigrated = false;
  /** Whether the functions of the schema turned out to be of an older version. */
  #isOutdated = false;
  /**
   * The last step with publications, and the answer to these if they were not sent. The server
   * finds its answers by the step's number, so a repeated step must contain the same operations.
   * @type {{ number: number, denial: Answer | undefined } | undefined}
   */
  #decision;
  #requestSteps = 0;
  /** The value of `#requestSteps` at the last renewal that found no request of the session. */
  #idleAt = -1;
  /** The refs of thefts that a renewal listed; the next one confirms them. @type {number[]} */
  #knownThefts = [];

  /**
   * @param {string} bucket @param {{ pool?: Pool, sql?: Sql, listen?: Pool | Sql, schema?: string,
   *   durability?: 'logged' | 'unlogged' }} options `pool` or `sql` is required
   */
  constructor(bucket, { pool, sql, listen, schema = 'web_locks', durability }) {
    if (typeof schema !== 'string' || !/^[a-z_][a-z0-9_]{0,62}$/.test(schema)) {
      throw argumentError(
        `'schema' is ${describe(schema)}; expected up to 63 lower-case letters, digits and _.`,
      );
    }
    if (durability !== undefined && durability !== 'logged' && durability !== 'unlogged') {
      throw argumentError(
        `'durability' is ${describe(durability)}; expected 'logged' or 'unlogged'.`,
      );
    }
    this.#source = sourceOf({ pool, sql, listen }, schema);
    this.#schema = schema;
    this.#durability = durability;
    this.#bucket = bytes(bucket);
    this.id = `postgres ${schema} ${bucket}`;
  }

  /** @param {SessionInfo} info @param {number} ttl @param {Seen} seen */
  async open(info, ttl, seen) {
    const session = newSessionId();
    const generation = this.#dropLinks();
    this.#decision = undefined;
    const link = await this.#makeLink(generation, session, ttl);
    try {
      await link.open(this.#source, ttl, ttl, 'SELECT', false);
      const { clientId } = info;
      // `awake`, which `open` has also called, returns the end of a quarantine that `open` may have
      // begun. A read of the table would not see what `open` wrote in the same statement.
      const [{ life, pause }] = await this.#withTables(link, {
        text: `SELECT ${this.#schema}.open($1, $2, $3, $4, $5, $6, $7) AS life,
          extract(epoch FROM ${this.#schema}.awake('', 0) - clock_timestamp()) * 1000 AS pause`,
        values: [session, this.#bucket, clientId, asciiOf(info), ttl, seen.life, seen.token],
      });
      this.#useLink(generation, link, session, 1, ttl);
      return { session, ttl, life, grantsIn: Math.max(Number(pause), 0) };
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  /**
   * Replaces the session's connection; rejects if the session is dead.
   * @param {Seen} seen
   */
  async hello({ life, token }) {
    const session = this.#session;
    // The session waits a quarter of the lease for `hello`.
    const time = this.#ttl / 4;
    const generation = this.#dropLinks();
    const link = await this.#makeLink(generation, session, time);
    try {
      const asked = `${session}, ${this.#ttl}, ${textLiteral(life)}, ${token}`;
      const statement = `SELECT ${this.#schema}.hello(${asked}) AS number`;
      const [{ number }] = await link.open(this.#source, this.#ttl, time, statement, true);
      if (number === null) throw deadError();
      this.#useLink(generation, link, session, Number(number), this.#ttl);
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  /** @param {Op[]} ops @param {number} number */
  async step(ops, number) {
    if (!ops.some(isPublication)) return this.#execute(ops, number);
    if (this.#decision?.number !== number)
      this.#decision = { number, denial: await this.#migrate() };
    const { denial } = this.#decision;
    if (denial === undefined) return this.#execute(ops, number);
    const rest = /** @type {Op[]} */ (ops.filter((op) => !isPublication(op)));
    const answers = rest.length > 0 ? await this.#execute(rest, number) : [];
    return ops.map((op) => (isPublication(op) ? denial : answers[rest.indexOf(op)]));
  }

  /**
   * Makes sure that the schema has what publications need, which a schema of an older version
   * lacks. Returns the answer to publications if that is impossible now.
   */
  async #migrate() {
    if (this.#isMigrated) return undefined;
    const [{ is }] = await this.#requireConnection().run(
      `SELECT EXISTS (SELECT FROM pg_attribute WHERE attname = 'data' AND NOT attisdropped
        AND attrelid = to_regclass('${this.#schema}.request')) AS is`,
    );
    try {
      // The session's connection must not wait, because it renews the lease.
      if (is === 'f' || this.#isOutdated) await this.#runScript();
      this.#isMigrated = true;
      this.#isOutdated = false;
      return undefined;
    } catch (why) {
      const error = explain(why, this.#schema);
      return classify(error) === 'retry' ? busy(error) : failed(error);
    }
  }

  #runScript() {
    const script = scriptOf(this.#schema, this.#durability ?? 'logged');
    const begin = `${BEGIN}; SET LOCAL standard_conforming_strings TO on;
      SET LOCAL lock_timeout TO 1000`;
    return this.#source.query(`${begin}; ${script}`, this.#ttl / 4);
  }

  /** @param {Op[]} ops @param {number} number */
  async #execute(ops, number) {
    const link = this.#requireConnection();
    const asks = ops.some(isRequest);
    if (asks) this.#requestSteps++;
    const listens = asks && !link.isListening;
    const [statement, values] = this.#callOf(ops, number, listens);
    const codes = codesOf((await link.row(statement, values))[0]);
    if (listens) link.isListening = true;
    if (codes[0] === DEAD) throw deadError();
    if (codes[0] === STALE) throw staleError();
    const guarded = ops.filter((_, i) => codes[i] === GUARDED);
    const guards = guarded.length > 0 ? await this.#findGuards(guarded) : [];
    return codes.map((code, i) => {
      if (code === GUARDED) return busy(guardedError(guards.find(isBlockedBy(ops[i]))));
      if (isPublication(ops[i]) && UNKNOWN.includes(code)) return this.#handleOutdated();
      return answerOf(code, ops[i]);
    });
  }

  /** The session sends the publication again, after another migration. */
  #handleOutdated() {
    this.#isMigrated = false;
    this.#isOutdated = true;
    return busy();
  }

  /** Finds the guards that the role may see. @param {Op[]} ops @returns {Promise<Guard[]>} */
  async #findGuards(ops) {
    const keys = ops.map(({ name }) => (name === undefined ? 'NULL' : literal(this.#keyOf(name))));
    const refs = ops.map(({ ref }) => ref);
    const isMine = `session = ${this.#session}`;
    try {
      const rows = await this.#overAnyClient(
        `SELECT CASE WHEN ${isMine} THEN ref END AS ref, name, pid,
          application_name AS application,
          extract(epoch FROM clock_timestamp() - xact_start)::int AS seconds
        FROM ${this.#schema}.request r JOIN pg_locks l ON l.transactionid = r.xmax AND l.granted
          LEFT JOIN pg_stat_activity a USING (pid)
        WHERE token IS NOT NULL AND (key IN (${keys}) OR ${isMine} AND ref IN (${refs}))
        ORDER BY xact_start`,
      );
      return rows.map((/** @type {any} */ row) => ({ ...row, name: text(row.name) }));
    } catch {
      return [];
    }
  }

  /**
   * @param {Op[]} ops @param {number} number
   * @param {boolean} listens whether the connection must begin to LISTEN with this step
   * @returns {[statement: string, values: unknown[]]}
   */
  #callOf(ops, number, listens) {
    const { end, request, requestWith, step } = this.#statements;
    const [op] = ops;
    const isEnd = op.kind === 'end';
    const isPlain = op.kind === 'request' || op.kind === 'ifAvailable' || isEnd;
    if (ops.length > 1 || !isPlain || (isEnd && (op.name === undefined || op.keep > 0)))
      return [step, this.#arraysOf(ops, number, listens)];
    const key = this.#keyOf(/** @type {string} */ (op.name));
    if (isEnd) return [end, [number, op.ref, key]];
    const { kind, label, limit, maxPending, mode, name, priority, ref, weight } = op;
    const values = [number, kind === 'request', ref, key, bytes(name)];
    const isShared = mode === 'shared';
    if (!listens && !isShared && !label && maxPending < 0 && priority === 0)
      return [request, values];
    const its = [isShared, limit, weight, maxPending, priority, label ? bytes(label) : NOTHING];
    return [requestWith, [...values, ...its, listens]];
  }

  /** @param {Op[]} ops @param {number} number @param {boolean} listens */
  #arraysOf(ops, number, listens) {
    const requests = /** @type {any[]} */ (ops);
    /** @param {(op: any) => unknown} f */
    const each = (f) => requests.map(f);
    return [
      number,
      each((op) => KINDS[/** @type {Op['kind']} */ (op.kind)]),
      each((op) => op.ref),
      each((op) => (op.name === undefined ? null : this.#keyOf(op.name))),
      each((op) => (isRequest(op) ? bytes(op.name) : NOTHING)),
      each((op) => op.mode === 'shared'),
      each((op) => op.limit ?? 0),
      each((op) => op.weight ?? 0),
      each((op) => op.maxPending ?? -1),
      each((op) => op.priority ?? 0),
      each(({ data, label }) => (label ? bytes(label) : data ? Buffer.from(data) : NOTHING)),
      each((op) => op.group ?? 0),
      each((op) => op.keep ?? 0),
      listens,
    ];
  }

  /**
   * Also stops listening if the last renewal found no requests of the session, and none followed.
   * @param {Seen} seen
   */
  async renew({ life, token }) {
    const link = this.#requireConnection();
    const { renew } = this.#statements;
    const asked = this.#requestSteps;
    const { generation } = this.#links;
    if (asked === this.#idleAt) link.unlisten();
    const row = await link.row(renew, [life, token, `{${this.#knownThefts}}`]);
    const [alive, refs, tokens, nextExpiryIn, grantsIn, its, step, thefts] = row;
    const ofToken = listOf(tokens);
    const mine = new Map(listOf(refs).map((ref, i) => [Number(ref), BigInt(ofToken[i])]));
    if (mine.size === 0) this.#idleAt = asked;
    /** @type {[string, string][]} */
    const byRef = Object.entries(JSON.parse(thefts ?? '{}'));
    const stolen = new Map(byRef.map(([ref, thief]) => [Number(ref), thief]));
    if (this.#links.isLatest(generation)) this.#knownThefts = [...stolen.keys()];
    return {
      alive: alive === 't',
      mine,
      stolen,
      nextExpiryIn: nextExpiryIn === null ? Number.POSITIVE_INFINITY : Number(nextExpiryIn),
      grantsIn: Number(grantsIn),
      life: its,
      step: Number(step),
    };
  }

  /** The session's id, for `extend`; '' before the first session. */
  keeperTicket() {
    return this.#session;
  }

  /**
   * Extends another adapter's session; returns false if the server's epoch is not that of `seen`.
   * @param {string} session @param {Seen} seen
   */
  async extend(session, { life, token }) {
    const me = `id = ${BigInt(session)}`;
    // `awake` would begin an epoch, maybe in another database than the session's.
    const isSeen = `EXISTS (SELECT FROM ${this.#schema}.epoch
      WHERE life = ${textLiteral(life)} AND identity = ${this.#schema}.identity()
        AND ${token} <= (SELECT last_value FROM ${this.#schema}.token))`;
    const rows = await this.#overKeepersPool(
      `SELECT FROM ${this.#schema}.session WHERE ${me} FOR NO KEY UPDATE;
      SELECT ${this.#schema}.grace();
      WITH extended AS (
        UPDATE ${this.#schema}.session
          SET expires = clock_timestamp() + ttl, renewed = clock_timestamp(), graced = false
          WHERE ${me} AND expires > clock_timestamp() AND ${isSeen} RETURNING id)
      SELECT EXISTS (SELECT FROM extended) AS extended, ${isSeen} AS seen`,
    );
    const [{ extended, seen }] = rows;
    if (extended !== 't' && seen === 't') throw deadError();
    return extended === 't';
  }

  /** Runs the statement of `extend`; missing tables are another epoch. @param {string} statement */
  async #overKeepersPool(statement) {
    try {
      return await this.#overPool(statement);
    } catch (error) {
      // Another database may have no tables.
      if (lacksTables(error)) return [{ extended: 'f', seen: 'f' }];
      throw error;
    }
  }

  async sweep() {
    const session = this.#session;
    await inPages((beyond) =>
      this.#requireConnection().run(`SELECT ${this.#schema}.sweep(${session}, ${beyond}) AS last`),
    );
  }

  /** @param {string} session */
  async close(session) {
    const me = BigInt(session);
    await inPages((beyond) =>
      this.#runUntilDone(`SELECT ${this.#schema}.close(${me}, ${beyond}) AS last`),
    );
  }

  /**
   * § 4.5 "snapshot the lock state":
   * https://www.w3.org/TR/2023/WD-web-locks-20230105/#snapshot-the-lock-state
   * @param {string} [name] @param {'held'} [which]
   */
  async query(name, which) {
    const held = which === 'held' ? 'AND token IS NOT NULL' : '';
    // With OFFSET, the server reads a queue by its key, and not all requests of some session.
    const key = name === undefined ? '' : `WHERE key = ${literal(this.#keyOf(name))} OFFSET 0`;
    // If an older version of this library has created the table, it has no column `data`: then
    // `data` means that of `none`.
    // A transaction that guards a lock keeps it held even after the lock's session has expired.
    const isGuarded =
      'token IS NOT NULL AND EXISTS (SELECT FROM pg_stat_activity WHERE backend_xid = locker)';
    const rows = await this.#overAnyClient(
      `SELECT r.ref, r.name, shared, token, label, lim, weight, priority, info,
        extract(epoch FROM coalesce(granted, clock_timestamp()) - asked)::float8 * 1000 AS waited,
        extract(epoch FROM clock_timestamp() - granted)::float8 * 1000 AS held, published
      FROM (SELECT NULL::bytea AS data) none CROSS JOIN LATERAL
        (SELECT *, xmax AS locker, data AS published FROM ${this.#schema}.request ${key}) r
        JOIN ${this.#schema}.session s ON s.id = r.session
      WHERE bucket = ${literal(this.#bucket)} ${held}
        AND (expires > clock_timestamp() OR ${isGuarded})
      ORDER BY key, rank, ticket`,
    );
    return rows.map(entryOf);
  }

  /** @param {string} name */
  async marked(name) {
    const rows = await this.#overAnyClient(
      `SELECT EXISTS (SELECT FROM ${this.#schema}.mark
        WHERE key = ${literal(this.#keyOf(name))} AND until > clock_timestamp()) AS is`,
    );
    return rows[0].is === 't';
  }

  async dispose() {
    this.events = NO_EVENTS;
    this.#dropLinks();
    this.#source.end();
  }

  /**
   * Keeps a lock held until the user's transaction ends; returns false if it is not held now.
   * @param {any} client in a transaction @param {{ ref: number, token: bigint }} lock
   */
  async guard(client, { ref, token }) {
    const isHeld = `SELECT token FROM ${this.#schema}.request
      WHERE session = ${this.#session} AND ref = ${Number(ref)} AND token = ${BigInt(token)}`;
    // Outside a transaction, now() equals statement_timestamp(): both are the time of the message
    // that contains the query. (A query without values is a single message.)
    const [inside, isolation, seen] = await rowInTransaction(
      client,
      `SELECT now() <> statement_timestamp(), current_setting('transaction_isolation'),
        (${isHeld} FOR KEY SHARE)`,
    );
    if (inside !== 't') {
      throw argumentError('lock.guard() needs a client in a transaction: run BEGIN first.');
    }
    if (seen !== null) return true;
    // If the transaction's snapshot is older than the grant, it does not show the lock.
    if (isolation !== 'read committed' && (await this.#overAnyClient(isHeld)).length > 0) {
      throw oldSnapshotError(isolation);
    }
    return false;
  }

  /** Drops the connection, even one that is still being made, and returns the new generation. */
  #dropLinks() {
    // The answer to the last renewal may be lost. Then the session does not know the thefts in it,
    // so the next renewal must not confirm them.
    this.#knownThefts = [];
    this.#source.cancel();
    return this.#links.begin();
  }

  /** @param {number} generation @param {string} session @param {number} time limit in ms */
  async #makeLink(generation, session, time) {
    const link = new PostgresLink(await this.#source.take(time), session, this.#schema);
    link.onNotification = (payload) => {
      if (this.#links.isLatest(generation)) emitHint(this.events, payload);
    };
    return this.#links.prepare(generation, link);
  }

  /**
   * Makes the new connection and its session current; throws if it is outdated.
   * @param {number} generation @param {Link} link @param {string} session
   * @param {number} number @param {number} ttl
   */
  #useLink(generation, link, session, number, ttl) {
    this.#links.use(generation, link);
    this.#session = session;
    this.#statements = statementsOf(this.#schema, session, number);
    this.#idleAt = -1;
    this.#isMigrated = false;
    this.#ttl = ttl;
    link.onDown = (error) => {
      if (this.#links.lose(link)) this.events.down(error);
    };
  }

  #requireConnection() {
    if (!this.#links.current)
      throw explain(new Error('there is no connection to PostgreSQL'), this.#schema);
    return this.#links.current;
  }

  /** Runs a SELECT without values over any connection. @param {string} statement */
  async #overAnyClient(statement) {
    return this.#links.current ? this.#links.current.run(statement) : this.#overPool(statement);
  }

  /**
   * Runs a SELECT without values over a connection of its own. This connection has the user's
   * settings, and its server may be in an epoch that this session does not know. `before` runs
   * first, in a transaction of its own.
   * @param {string} statement @param {string} [before]
   */
  async #overPool(statement, before = 'SELECT') {
    const its = [before, statement].map((one) => `${BEGIN}; ${one}; COMMIT`);
    try {
      return await this.#source.query(its.join(';'));
    } catch (error) {
      throw explain(error, this.#schema);
    }
  }

  /**
   * Runs a statement that is harmless to repeat. If there is no connection, or if it is replaced
   * meanwhile, the statement runs over another one. The statement may grant locks, so `awake` first
   * checks the epoch of that connection's server.
   * @param {string} statement
   */
  async #runUntilDone(statement) {
    const link = this.#links.current;
    try {
      if (link) return await link.run(statement);
    } catch (error) {
      if (link === this.#links.current) throw error;
    }
    return this.#overPool(statement, `SELECT ${this.#schema}.awake('', 0)`);
  }

  /**
   * Runs a query; if the tables are missing, it first creates them.
   * @param {Link} link @param {Parameters<Link['run']>[0]} query begins a session
   */
  async #withTables(link, query) {
    try {
      await this.#examine(link);
      return await link.run(query);
    } catch (error) {
      if (!lacksTables(error)) throw error;
    }
    await link.run(scriptOf(this.#schema, this.#durability ?? 'logged'));
    await this.#examine(link);
    return link.run(query);
  }

  /** Rejects if tables are missing, or have another version or durability. @param {Link} link */
  async #examine(link) {
    const rows = await link.run(
      `SELECT version, durability FROM ${this.#schema}.lasting WHERE version <> ${VERSION}
        OR NOT EXISTS (SELECT FROM unnest(ARRAY['epoch', 'session', 'request', 'theft',
            'lapsed', 'mark', 'token']) t
          WHERE to_regclass('${this.#schema}.' || t) IS NULL)`,
    );
    if (rows.length === 0) throw noTablesError(this.#schema);
    const [{ durability, version }] = rows;
    if (Number(version) !== VERSION) {
      throw schemaError(
        this.#schema,
        `has version ${version}, but this version of web-locks needs version ${VERSION}`,
        'version of web-locks',
      );
    }
    if (this.#durability !== undefined && durability !== this.#durability) {
      throw schemaError(
        this.#schema,
        `has durability '${durability}', not '${this.#durability}'`,
        "'durability'",
      );
    }
  }

  /** The SHA-256 of bucket and name. @param {string} name */
  #keyOf(name) {
    const known = this.#keys.get(name);
    if (known) return known;
    const key = createHash('sha256')
      .update(createHash('sha256').update(this.#bucket).digest())
      .update(bytes(name))
      .digest();
    if (this.#keys.size >= 1_000) this.#keys.clear();
    this.#keys.set(name, key);
    return key;
  }
}

const NOTHING = Buffer.alloc(0);

/** Begins a transaction over a client that lacks our settings: see `settings` in link.js. */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL bytea_output TO hex;
  SET LOCAL enable_bitmapscan TO off; ${waitForDisk(true)}`;

/** @param {string} answer a number or an array */
const codesOf = (answer) => (answer[0] === '{' ? listOf(answer) : [answer]);

/**
 * Calls until `last` is null in the result; each call gets the last key of the page before.
 * @param {(beyond: string) => Promise<any>} call
 */
async function inPages(call) {
  let beyond = literal(NOTHING);
  for (;;) {
    const rows = await call(beyond);
    if (rows[0].last === null) return;
    beyond = literal(Buffer.from(rows[0].last.slice(2), 'hex'));
  }
}

/** Whether a guard blocks an operation. @param {Op} op @returns {(guard: Guard) => boolean} */
const isBlockedBy =
  (op) =>
  ({ name, ref }) =>
    op.kind === 'end' ? Number(ref) === op.ref : name === op.name;

/** @param {Op} op @returns {op is import('../../adapter.js').PublishOp} */
const isPublication = (op) => op.kind === 'publish';

const newSessionId = () => String(BigInt.asUintN(63, randomBytes(8).readBigUInt64LE()));

/** @param {any} row @returns {import('../../adapter.js').Entry} */
function entryOf({ held, info, label, lim, name, published, ref, shared, token, ...its }) {
  const { clientId, host, pid, threadId, threadName, program } = JSON.parse(info);
  const limit = shared === 't' ? Number(lim) : 0;
  return {
    ref: Number(ref),
    name: text(name),
    mode: shared === 't' ? 'shared' : 'exclusive',
    token: BigInt(token ?? 0),
    clientId,
    host,
    pid,
    threadId,
    threadName,
    program,
    label: text(label),
    waited: Number(its.waited),
    held: Number(held ?? 0),
    limit,
    weight: limit > 0 ? Number(its.weight) : 0,
    priority: Number(its.priority),
    data: published === null ? '' : Buffer.from(published.slice(2), 'hex').toString(),
  };
}

/** @param {string} schema @param {'logged' | 'unlogged'} durability */
function scriptOf(schema, durability) {
  return SCRIPT.replaceAll('web_locks', schema)
    .replaceAll('/*unlogged*/', durability === 'unlogged' ? 'UNLOGGED' : '')
    .replaceAll("'logged'/*durability*/", `'${durability}'`);
}

module.exports = { PostgresAdapter, scriptOf };
