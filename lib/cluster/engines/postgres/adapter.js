'use strict';

/**
 * The adapter of PostgreSQL (../../adapter.js). It keeps one connection (link.js), and calls the
 * functions of sql/ over it. A step is one statement, and so one transaction, whose NOTIFYs
 * announce its grants and thefts. The adapter creates the schema on first use (schema.js).
 */

const { randomBytes } = require('node:crypto');

const { busy, isRequest } = require('../../adapter.js');
const { CAN, EngineAdapter } = require('../engine-adapter.js');
const { DEAD, STALE, answerOf, emitHint, toEntry } = require('../wire.js');
const { deadError, staleError } = require('../errors.js');
const { rowInTransaction } = require('./clients.js');
const { PostgresLink } = require('./link.js');
const { BEGIN, Schema, scriptOf } = require('./schema.js');
const { NameKeys, NOTHING, Statements, asciiOf, bytes } = require('./statements.js');
const { listOf, literal, text, textLiteral, unhex } = require('./statements.js');
const { argumentError } = require('../../../platform/errors.js');
const { classify, explain, guardedError, lacksTables, oldSnapshotError } = require('./errors.js');

/** @import { Adapter, Answer, Op, Seen, SessionInfo } from '../../adapter.js' */
/** @import { Pool } from './pg.js' */
/** @import { Sql } from './postgres-js.js' */
/** @import { Guard } from './errors.js' */
/** @typedef {InstanceType<typeof PostgresLink>} Link */

/**
 * The most names of a group. Each name takes an entry of the server's lock table, which all clients
 * of the server share.
 */
const MOST_NAMES = 1_000;

/** The code that the server returns for a lock that a user guards. */
const GUARDED = '-7';

/**
 * The codes that functions of older versions of this library return for a publication, which they
 * take for a request. They are there if an older version has restored a table that was dropped.
 */
const UNKNOWN = ['-1', '-9'];

/**
 * @extends {EngineAdapter<Link>}
 * @implements {Adapter}
 */
class PostgresAdapter extends EngineAdapter {
  can = Object.freeze({ ...CAN, most: MOST_NAMES });
  /** @override */
  classify = classify;

  #bucket;
  #keys;
  #schema;
  #source;
  /** @type {InstanceType<typeof Statements>} */
  #statements;
  /** The session that `open` started last; '' for none. */
  #session = '';
  #ttl = 0;
  /**
   * The last step with publications, and the answer to these if they were not sent. The server
   * finds its answers by the step's number, so a repeated step must contain the same operations.
   * @type {{ number: number, denial: Answer | undefined } | undefined}
   */
  #decision;
  #requestSteps = 0;
  /** See `Statements`. @type {Map<string | undefined, number>} */
  #waited = new Map();
  /** The value of `#requestSteps` at the last renewal that found no request of the session. */
  #idleAt = -1;

  /**
   * @param {string} bucket @param {{ pool?: Pool, sql?: Sql, listen?: Pool | Sql, schema?: string,
   *   durability?: 'logged' | 'unlogged' }} options `pool` or `sql` is required
   */
  constructor(bucket, { schema = 'web_locks', durability, ...clients }) {
    super();
    this.#schema = new Schema(schema, durability, clients);
    this.#source = this.#schema.source;
    this.#bucket = literal(bytes(bucket));
    this.#keys = new NameKeys(bucket);
    this.#statements = new Statements('', '', 0, this.#keys);
    this.id = `postgres ${schema} ${bucket}`;
  }

  /** @param {SessionInfo} info @param {number} ttl @param {Seen} seen */
  async open(info, ttl, seen) {
    const session = String(BigInt.asUintN(63, randomBytes(8).readBigUInt64LE()));
    const { name } = this.#schema;
    this.#decision = undefined;
    return this.#connect(session, ttl, ttl, async (link) => {
      await link.open(this.#source, ttl, ttl, 'SELECT', false);
      // `awake`, which `open` has also called, returns the end of a quarantine that `open` may have
      // begun. A read of the table would not see what `open` wrote in the same statement.
      const [{ life, pause, later }] = await this.#schema.runWithTables(link, {
        text: `SELECT ${name}.open($1, ${this.#bucket}, $2, $3, $4, $5, $6) AS life,
          extract(epoch FROM ${name}.awake('', 0) - clock_timestamp()) * 1000 AS pause,
          ${this.#schema.canNotifyLater} AS later`,
        values: [session, info.clientId, asciiOf(info), ttl, seen.life, seen.token],
      });
      return [1, later === 't', { session, ttl, life, grantsIn: Math.max(Number(pause), 0) }];
    });
  }

  /**
   * Replaces the session's connection; rejects if the session is dead.
   * @param {Seen} seen
   */
  async hello({ life, token }) {
    const session = this.#session;
    const ttl = this.#ttl;
    // The session waits a quarter of the lease for `hello`.
    const time = ttl / 4;
    await this.#connect(session, ttl, time, async (link) => {
      const asked = `${session}, ${ttl}, ${textLiteral(life)}, ${token}`;
      const statement = `SELECT ${this.#schema.name}.hello(${asked}) AS number,
        ${this.#schema.canNotifyLater} AS later`;
      const [{ number, later }] = await link.open(this.#source, ttl, time, statement, true);
      if (number === null) throw deadError();
      return [Number(number), later === 't', undefined];
    });
  }

  /**
   * Replaces the connection, and makes the session current.
   * @template T @param {string} session @param {number} ttl @param {number} time limit in ms
   * @param {(link: Link) => Promise<[number: number, later: boolean, result: T]>} greet
   *   returns the number of the connection, `canNotifyLater` of the schema, and the result
   */
  #connect(session, ttl, time, greet) {
    return this.connect(
      async () => new PostgresLink(await this.#source.take(time), session, this.#schema.name),
      async (link) => {
        const { generation } = this;
        link.onNotification = (payload) => {
          if (generation === this.generation) emitHint(this.events, payload);
        };
        const [number, later, result] = await greet(link);
        return () => {
          this.#session = session;
          this.#ttl = ttl;
          const { name } = this.#schema;
          this.#statements = new Statements(name, session, number, this.#keys, later, this.#waited);
          this.#schema.isMigrated = false;
          this.#idleAt = -1;
          return result;
        };
      },
    );
  }

  /** @param {Op[]} ops @param {number} number */
  async step(ops, number) {
    if (!ops.some(isPublication)) return this.#execute(ops, number);
    if (this.#decision?.number !== number)
      this.#decision = {
        number,
        denial: await this.#schema.migrate(this.requireLink(), this.#ttl / 4),
      };
    const { denial } = this.#decision;
    if (denial === undefined) return this.#execute(ops, number);
    const rest = /** @type {Op[]} */ (ops.filter((op) => !isPublication(op)));
    const answers = rest.length > 0 ? await this.#execute(rest, number) : [];
    return ops.map((op) => (isPublication(op) ? denial : answers[rest.indexOf(op)]));
  }

  /** @param {Op[]} ops @param {number} number */
  async #execute(ops, number) {
    const link = this.requireLink();
    const asks = ops.some(isRequest);
    if (asks) this.#requestSteps++;
    const listens = asks && !link.isListening;
    const [statement, values] = this.#statements.stepOf(ops, number, listens);
    const codes = codesOf((await link.row(statement, values))[0]);
    if (listens) link.isListening = true;
    if (codes[0] === DEAD) throw deadError();
    if (codes[0] === STALE) throw staleError();
    this.#statements.noteWaits(ops, codes);
    const guarded = ops.filter((_, i) => codes[i] === GUARDED);
    const guards = guarded.length > 0 ? await this.#findGuards(guarded) : [];
    return codes.map((code, i) => {
      if (code === GUARDED) return busy(guardedError(guards.find(isBlockedBy(ops[i]))));
      if (isPublication(ops[i]) && UNKNOWN.includes(code)) return this.#schema.handleOutdated();
      return answerOf(code, ops[i]);
    });
  }

  /** Finds the guards that the role may see. @param {Op[]} ops @returns {Promise<Guard[]>} */
  async #findGuards(ops) {
    const keys = ops.map(({ name }) =>
      name === undefined ? 'NULL' : literal(this.#keys.of(name)),
    );
    const refs = ops.map(({ ref }) => ref);
    const isMine = `session = ${this.#session}`;
    try {
      const rows = await this.#overAnyClient(
        `SELECT CASE WHEN ${isMine} THEN ref END AS ref, name, pid,
          application_name AS application,
          extract(epoch FROM clock_timestamp() - xact_start)::int AS seconds
        FROM ${this.#schema.name}.request r
          JOIN pg_locks l ON l.transactionid = r.xmax AND l.granted
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
   * Also stops listening if the last renewal found no requests of the session, and none followed.
   * @param {Seen} seen
   */
  async renew({ life, token }) {
    const link = this.requireLink();
    const { renew } = this.#statements;
    const asked = this.#requestSteps;
    const { generation } = this;
    if (asked === this.#idleAt) link.unlisten();
    const row = await link.row(renew, [life, token, `{${this.knownThefts}}`]);
    const [alive, refs, tokens, nextExpiryIn, grantsIn, its, step, thefts] = row;
    const ofToken = listOf(tokens);
    const mine = new Map(listOf(refs).map((ref, i) => [Number(ref), BigInt(ofToken[i])]));
    if (mine.size === 0) this.#idleAt = asked;
    /** @type {[string, string][]} */
    const byRef = Object.entries(JSON.parse(thefts ?? '{}'));
    const stolen = new Map(byRef.map(([ref, thief]) => [Number(ref), thief]));
    this.noteThefts(generation, stolen);
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
    const isSeen = `EXISTS (SELECT FROM ${this.#schema.name}.epoch
      WHERE life = ${textLiteral(life)} AND identity = ${this.#schema.name}.identity()
        AND ${token} <= (SELECT last_value FROM ${this.#schema.name}.token))`;
    const rows = await this.#overPool(
      `SELECT FROM ${this.#schema.name}.session WHERE ${me} FOR NO KEY UPDATE;
      SELECT ${this.#schema.name}.grace();
      WITH extended AS (
        UPDATE ${this.#schema.name}.session
          SET expires = clock_timestamp() + ttl, renewed = clock_timestamp(), graced = false
          WHERE ${me} AND expires > clock_timestamp() AND ${isSeen} RETURNING id)
      SELECT EXISTS (SELECT FROM extended) AS extended, ${isSeen} AS seen`,
    ).catch((error) => {
      // Another database may have no tables: it is in another epoch.
      if (lacksTables(error)) return [{ extended: 'f', seen: 'f' }];
      throw error;
    });
    const [{ extended, seen }] = rows;
    if (extended !== 't' && seen === 't') throw deadError();
    return extended === 't';
  }

  async sweep() {
    const session = this.#session;
    await inPages((beyond) =>
      this.requireLink().run(`SELECT ${this.#schema.name}.sweep(${session}, ${beyond}) AS last`),
    );
  }

  /** @param {string} session */
  async close(session) {
    const { name } = this.#schema;
    const me = BigInt(session);
    // The call may grant locks, so over another connection `awake` first checks the epoch of its
    // server.
    const before = `SELECT ${name}.awake('', 0)`;
    await inPages((beyond) =>
      this.#overAnyClient(`SELECT ${name}.close(${me}, ${beyond}) AS last`, before),
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
    const key = name === undefined ? '' : `WHERE key = ${literal(this.#keys.of(name))} OFFSET 0`;
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
        (SELECT *, xmax AS locker, data AS published FROM ${this.#schema.name}.request ${key}) r
        JOIN ${this.#schema.name}.session s ON s.id = r.session
      WHERE bucket = ${this.#bucket} ${held}
        AND (expires > clock_timestamp() OR ${isGuarded})
      ORDER BY key, rank, ticket`,
    );
    return rows.map(entryOf);
  }

  /** @param {string} name */
  async marked(name) {
    const rows = await this.#overAnyClient(
      `SELECT EXISTS (SELECT FROM ${this.#schema.name}.mark
        WHERE key = ${literal(this.#keys.of(name))} AND until > clock_timestamp()) AS is`,
    );
    return rows[0].is === 't';
  }

  /** @override */
  async dispose() {
    await super.dispose();
    this.#source.end();
  }

  /**
   * Keeps a lock held until the user's transaction ends; returns false if it is not held now.
   * @param {any} client in a transaction @param {{ ref: number, token: bigint }} lock
   */
  async guard(client, { ref, token }) {
    const isHeld = `SELECT token FROM ${this.#schema.name}.request
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

  /** Stops the call that waits for a client, too. @override */
  dropLinks() {
    this.#source.cancel();
    return super.dropLinks();
  }

  /**
   * Runs a statement without values that is harmless to repeat.
   * @param {string} statement @param {string} [before] see `#overPool`
   */
  #overAnyClient(statement, before) {
    return this.overAnyLink(
      (link) => link.run(statement),
      () => this.#overPool(statement, before),
    );
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
      throw explain(error, this.#schema.name);
    }
  }
}

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
    beyond = literal(unhex(rows[0].last));
  }
}

/** Whether a guard blocks an operation. @param {Op} op @returns {(guard: Guard) => boolean} */
const isBlockedBy =
  (op) =>
  ({ name, ref }) =>
    op.kind === 'end' ? Number(ref) === op.ref : name === op.name;

/** @param {Op} op @returns {op is import('../../adapter.js').PublishOp} */
const isPublication = (op) => op.kind === 'publish';

/** @param {any} row @returns {import('../../adapter.js').Entry} */
const entryOf = ({ name, shared, token, lim, label, waited, held, published, ...row }) =>
  toEntry({
    ...row,
    ...{ name: text(name), isShared: shared === 't', token: token ?? '0', limit: lim },
    ...{ label: text(label), waited: Number(waited), held: Number(held ?? 0) },
    data: published === null ? '' : unhex(published).toString(),
  });

module.exports = { PostgresAdapter, scriptOf };
