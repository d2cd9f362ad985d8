'use strict';

/**
 * The adapter of PostgreSQL (adapter.js): calls of the functions of postgres.sql.js, by a client
 * of the user's pg Pool that it keeps for itself (link.js).
 *
 * A step is one statement, and so one transaction. It is told of grants and thefts by NOTIFY in the
 * transaction that made them. The schema is made on first use.
 */

const { createHash, randomBytes } = require('node:crypto');

const { NO_EVENTS, busy } = require('../../adapter.js');
const { DEAD, STALE, answerOf, tell } = require('../words.js');
const SCRIPT = require('./postgres.sql.js');
const { Link, Source, prepared, raw, waitForDisk } = require('./link.js');
const { argumentError, describe } = require('../../../platform/errors.js');
const {
  classify,
  deadError,
  explain,
  guardedError,
  lacksTables,
  noTablesError,
  oldSnapshotError,
  schemaError,
  smallPoolError,
  staleError,
} = require('./errors.js');

/** @typedef {import('../../adapter.js').Adapter} Adapter */
/** @typedef {import('../../adapter.js').Op} Op */
/** @typedef {InstanceType<typeof Link>} OpenLink */
/** @typedef {import('./link.js').Pool} Pool */
/** @typedef {import('./errors.js').Guard} Guard */

/** Of the schema. Another one that changes what it means has another number. */
const VERSION = 9;

/**
 * So many names of a group; each takes a place in a table of locks that all of the server share.
 */
const MOST_NAMES = 1_000;

/** @type {Record<Op['kind'], number>} */
const KINDS = { request: 0, ifAvailable: 1, steal: 2, end: 3, pass: 4, passIfAvailable: 5 };

/** Instead of an answer: a user guards the lock. */
const GUARDED = '-7';

/**
 * @param {string} text UTF-16 code units
 * @returns {Buffer} the same, little endian; lone surrogates, too
 */
const bytes = (text) => Buffer.from(text, 'utf16le');
/**
 * Without a backslash, whose meaning a role can set.
 * @param {Buffer} value
 * @returns {string} an expression of SQL
 */
const literal = (value) => `decode('${value.toString('hex')}', 'hex')`;
/** @param {string} hex of bytea: `\\x` and hexadecimal digits */
const text = (hex) => Buffer.from(hex.slice(2), 'hex').toString('utf16le');
/**
 * @param {unknown} value
 * @returns {string} JSON that any encoding of a database has
 */
const asciiOf = (value) =>
  JSON.stringify(value).replace(
    /[\u0080-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
/**
 * @param {string | null} array of numbers: `{1,2}`
 * @returns {string[]}
 */
const listOf = (array) => (array === null || array === '{}' ? [] : array.slice(1, -1).split(','));

/**
 * The statements that a connection uses again and again. The session is a part of their texts, so
 * that it is not sent each time. Functions with one operation cost a third less than the one that
 * takes any.
 * @param {string} schema
 * @param {string} session
 * @param {number} number of the connection
 */
const statementsOf = (schema, session, number) => {
  /**
   * @param {string} name
   * @param {number} count of values
   */
  const call = (name, count) => {
    const values = Array.from({ length: count }, (_, i) => `$${i + 1}`);
    return `${schema}.${name}(${[session, number, ...values]})`;
  };
  /** @type {(name: string, count: number) => import('./link.js').Prepared} */
  const value = (name, count) => prepared(`SELECT ${call(name, count)}`);
  return {
    step: value('step', 14),
    request: value('request_alone', 5),
    requestWith: value('request_alone', 12),
    end: value('end_alone', 3),
    renew: prepared(`SELECT * FROM ${call('renew', 3)}`),
  };
};

/** @implements {Adapter} */
class PostgresAdapter {
  /** @type {string} */
  id;
  can = Object.freeze({
    limits: true,
    passes: true,
    priorities: true,
    groups: true,
    marks: true,
    most: MOST_NAMES,
  });
  /** @type {import('../../adapter.js').AdapterEvents} */
  events = NO_EVENTS;
  classify = classify;

  #schema;
  #durability;
  #bucket;
  /** @type {Map<string, Buffer>} keys by name, of names that were used last */
  #keys = new Map();
  /** The connection there is. @type {OpenLink | undefined} */
  #link;
  /** One that is not ready yet. @type {OpenLink | undefined} */
  #making;
  #source;
  /** Of that connection. @type {ReturnType<typeof statementsOf>} */
  #statements = statementsOf('', '', 0);
  /** The session that `open` started last; '' for none. */
  #session = '';
  #ttl = 0;
  /** Counts steps that ask for something. */
  #asked = 0;
  /** What it was at a renewal that found nothing held, nor waited for. */
  #idle = -1;
  /**
   * Refs of the thefts that the last renewal told of: the next one tells that we know.
   * @type {number[]}
   */
  #told = [];
  /** Counts calls of `open`, `hello` and `dispose`, of which the last counts. */
  #epoch = 0;

  /**
   * @param {string} bucket
   * @param {object} options
   * @param {Pool} options.pool
   * @param {Pool} [options.listen] one to take the client from instead
   * @param {string} [options.schema]
   * @param {'logged' | 'unlogged'} [options.durability] undefined: as the schema is; a new one:
   *   'logged'
   */
  constructor(bucket, { pool, listen, schema = 'web_locks', durability }) {
    checkPool(pool, 'pool');
    if (listen !== undefined) checkPool(listen, 'listen');
    else if (Number(pool.options?.max) < 2) throw smallPoolError();
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
    this.#source = new Source(listen ?? pool, schema);
    this.#schema = schema;
    this.#durability = durability;
    this.#bucket = bytes(bucket);
    this.id = `postgres ${schema} ${bucket}`;
  }

  /**
   * @param {import('../../adapter.js').SessionInfo} info
   * @param {number} ttl milliseconds
   * @param {import('../../adapter.js').Seen} seen
   */
  async open(info, ttl, seen) {
    const session = newSession();
    const epoch = this.#replace();
    const link = await this.#connect(epoch, ttl);
    try {
      await link.open(this.#source, session, ttl, ttl, 'SELECT', false);
      const { clientId } = info;
      // `awake` once more, for the end of a quarantine, which `open` may have begun: a function
      // sees what one before it in the statement has written, and a read of the table would not.
      const { rows } = await this.#withTables(link, {
        text: `SELECT ${this.#schema}.open($1, $2, $3, $4, $5, $6, $7) AS life,
          extract(epoch FROM ${this.#schema}.awake('', 0) - clock_timestamp()) * 1000 AS pause`,
        values: [session, this.#bucket, clientId, asciiOf(info), ttl, seen.life, seen.token],
      });
      this.#keep(epoch, link, session, 1, ttl);
      const [{ life, pause }] = rows;
      return { session, ttl, life, grantsIn: Math.max(Number(pause), 0) };
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  /** @param {import('../../adapter.js').Seen} seen */
  async hello({ life, token }) {
    const session = this.#session;
    // So long a session waits for it.
    const time = this.#ttl / 4;
    const epoch = this.#replace();
    const link = await this.#connect(epoch, time);
    try {
      const its = `encode(${literal(Buffer.from(life))}, 'escape')`;
      const asked = `${session}, ${this.#ttl}, ${its}, ${token}`;
      const statement = `SELECT ${this.#schema}.hello(${asked}) AS number`;
      const { rows } = await link.open(this.#source, session, this.#ttl, time, statement, true);
      if (rows[0].number === null) throw deadError();
      this.#keep(epoch, link, session, Number(rows[0].number), this.#ttl);
    } catch (error) {
      link.drop();
      throw error;
    }
  }

  /**
   * @param {Op[]} ops
   * @param {number} number
   */
  async step(ops, number) {
    const link = this.#current();
    const asks = ops.some(({ kind }) => kind !== 'end');
    if (asks) this.#asked++;
    const listens = asks && !link.isListening;
    const [statement, values] = this.#callOf(ops, number, listens);
    const codes = codesOf((await link.row(statement, values))[0]);
    if (listens) link.isListening = true;
    if (codes[0] === DEAD) throw deadError();
    if (codes[0] === STALE) throw staleError();
    if (!codes.includes(GUARDED)) return codes.map(answerOf);
    const guards = await this.#guards(ops.filter((_, i) => codes[i] === GUARDED));
    return codes.map((code, i) =>
      code === GUARDED ? busy(guardedError(guards.find(isOf(ops[i])))) : answerOf(code),
    );
  }

  /**
   * @param {Op[]} ops that were not done
   * @returns {Promise<Guard[]>} the transactions that guard their locks, as far as that can be
   *   found
   */
  async #guards(ops) {
    const keys = ops.map(({ name }) => (name === undefined ? 'NULL' : literal(this.#keyOf(name))));
    const refs = ops.map(({ ref }) => ref);
    const isMine = `session = ${this.#session}`;
    try {
      const { rows } = await this.#anyhow(
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
   * @param {Op[]} ops
   * @param {number} number of the step
   * @param {boolean} listens from there on
   * @returns {[statement: import('./link.js').Prepared, values: unknown[]]}
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

  /**
   * @param {Op[]} ops
   * @param {number} number of the step
   * @param {boolean} listens from there on
   */
  #arraysOf(ops, number, listens) {
    const requests = /** @type {any[]} */ (ops);
    /** @param {(op: any) => unknown} f */
    const each = (f) => requests.map(f);
    return [
      number,
      each((op) => KINDS[/** @type {Op['kind']} */ (op.kind)]),
      each((op) => op.ref),
      each((op) => (op.name === undefined ? null : this.#keyOf(op.name))),
      each((op) => (op.kind === 'end' ? NOTHING : bytes(op.name))),
      each((op) => op.mode === 'shared'),
      each((op) => op.limit ?? 0),
      each((op) => op.weight ?? 0),
      each((op) => op.maxPending ?? -1),
      each((op) => op.priority ?? 0),
      each((op) => (op.label ? bytes(op.label) : NOTHING)),
      each((op) => op.group ?? 0),
      each((op) => op.keep ?? 0),
      listens,
    ];
  }

  /** @param {import('../../adapter.js').Seen} seen */
  async renew({ life, token }) {
    const link = this.#current();
    const { renew } = this.#statements;
    const asked = this.#asked;
    const epoch = this.#epoch;
    if (asked === this.#idle) link.rest();
    const row = await link.row(renew, [life, token, `{${this.#told}}`]);
    const [alive, refs, tokens, nextExpiryIn, grantsIn, its, step, thefts] = row;
    const ofToken = listOf(tokens);
    const mine = new Map(listOf(refs).map((ref, i) => [Number(ref), BigInt(ofToken[i])]));
    if (mine.size === 0) this.#idle = asked;
    /** @type {[string, string][]} */
    const byRef = Object.entries(JSON.parse(thefts ?? '{}'));
    const stolen = new Map(byRef.map(([ref, thief]) => [Number(ref), thief]));
    if (epoch === this.#epoch) this.#told = [...stolen.keys()];
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

  async sweep() {
    const session = this.#session;
    await inPages((beyond) =>
      this.#current().run(`SELECT ${this.#schema}.sweep(${session}, ${beyond}) AS last`),
    );
  }

  /** @param {string} session */
  async close(session) {
    const me = BigInt(session);
    await inPages((beyond) =>
      this.#inAnyCase(`SELECT ${this.#schema}.close(${me}, ${beyond}) AS last`),
    );
  }

  /**
   * @param {string} [name]
   * @param {'held'} [which]
   */
  async query(name, which) {
    const held = which === 'held' ? 'AND token IS NOT NULL' : '';
    const key = name === undefined ? '' : `AND key = ${literal(this.#keyOf(name))}`;
    // A lock whose session has expired is still held while a transaction guards it.
    const isGuarded =
      'token IS NOT NULL AND EXISTS (SELECT FROM pg_stat_activity WHERE backend_xid = r.xmax)';
    const { rows } = await this.#anyhow(
      `SELECT r.ref, r.name, shared, token, label, lim, weight, priority, info,
        extract(epoch FROM coalesce(granted, clock_timestamp()) - asked)::float8 * 1000 AS waited,
        extract(epoch FROM clock_timestamp() - granted)::float8 * 1000 AS held
      FROM ${this.#schema}.request r JOIN ${this.#schema}.session s ON s.id = r.session
      WHERE bucket = ${literal(this.#bucket)} ${key} ${held}
        AND (expires > clock_timestamp() OR ${isGuarded})
      ORDER BY key, rank, ticket`,
    );
    return rows.map(entryOf);
  }

  /** @param {string} name */
  async marked(name) {
    const { rows } = await this.#anyhow(
      `SELECT EXISTS (SELECT FROM ${this.#schema}.mark
        WHERE key = ${literal(this.#keyOf(name))} AND until > clock_timestamp()) AS is`,
    );
    return rows[0].is === 't';
  }

  async dispose() {
    this.events = NO_EVENTS;
    this.#replace();
    this.#source.end();
  }

  /**
   * @param {any} client of the user, in a transaction
   * @param {{ ref: number, token: bigint }} lock
   */
  async guard(client, { ref, token }) {
    checkClient(client);
    const isHeld = `SELECT token FROM ${this.#schema}.request
      WHERE session = ${this.#session} AND ref = ${Number(ref)} AND token = ${BigInt(token)}`;
    // Without values, so that it is one message, whose time is that of its own transaction.
    const { rows } = await client.query(
      raw(`SELECT now() <> statement_timestamp() AS inside,
        current_setting('transaction_isolation') AS isolation,
        (${isHeld} FOR KEY SHARE) AS token`),
    );
    const [{ inside, isolation, token: seen }] = rows;
    if (inside !== 't') {
      throw argumentError('lock.guard() needs a client that is in a transaction: BEGIN first.');
    }
    if (seen !== null) return true;
    // A transaction that has begun to look before the grant does not see it.
    if (isolation !== 'read committed' && (await this.#anyhow(isHeld)).rows.length > 0) {
      throw oldSnapshotError(isolation);
    }
    return false;
  }

  /** Ends the connection there is, or is being made. Returns the epoch that begins. */
  #replace() {
    // Its last answer may have come too late for the session.
    this.#told = [];
    this.#link?.drop();
    this.#link = undefined;
    this.#making?.drop();
    this.#making = undefined;
    this.#source.cancel();
    return ++this.#epoch;
  }

  /**
   * @param {number} epoch
   * @param {number} time milliseconds in which it is wanted
   */
  async #connect(epoch, time) {
    const link = new Link(await this.#source.take(time), this.#schema);
    if (epoch !== this.#epoch) {
      link.drop();
      throw staleError();
    }
    this.#making = link;
    link.onNotification = (payload) => {
      if (epoch === this.#epoch) tell(this.events, payload);
    };
    return link;
  }

  /**
   * @param {number} epoch
   * @param {OpenLink} link
   * @param {string} session
   * @param {number} number
   * @param {number} ttl
   */
  #keep(epoch, link, session, number, ttl) {
    if (epoch !== this.#epoch) throw staleError();
    this.#making = undefined;
    this.#link = link;
    this.#session = session;
    this.#statements = statementsOf(this.#schema, session, number);
    this.#idle = -1;
    this.#ttl = ttl;
    link.onDown = (error) => {
      if (epoch !== this.#epoch) return;
      this.#link = undefined;
      this.events.down(error);
    };
  }

  #current() {
    if (!this.#link) throw explain(new Error('there is no connection'), this.#schema);
    return this.#link;
  }

  /**
   * By the connection there is, or another client of the pool.
   * @param {string} statement without values
   */
  async #anyhow(statement) {
    return this.#link ? this.#link.run(statement) : this.#byPool(statement);
  }

  /**
   * By a client whose settings are the user's, and whose server may have begun another life.
   * @param {string} statement without values
   * @param {string} [before] what comes before it, in a transaction of its own
   */
  async #byPool(statement, before = 'SELECT') {
    const its = [before, statement].map((one) => `${BEGIN}; ${one}; COMMIT`);
    try {
      return (await this.#source.query(its.join(';'))).at(-2);
    } catch (error) {
      throw explain(error, this.#schema);
    }
  }

  /**
   * As `#anyhow`, also if the connection is replaced meanwhile.
   * @param {string} statement without values, harmless to repeat, that may grant something
   */
  async #inAnyCase(statement) {
    const link = this.#link;
    try {
      if (link) return await link.run(statement);
    } catch (error) {
      if (link === this.#link) throw error;
    }
    return this.#byPool(statement, `SELECT ${this.#schema}.awake('', 0)`);
  }

  /**
   * Runs a statement that begins a session, after the tables are made, if some are not there, or
   * are empty.
   * @param {OpenLink} link
   * @param {Parameters<OpenLink['run']>[0]} query
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

  /**
   * Rejects if the tables are not what is needed here.
   * @param {OpenLink} link
   */
  async #examine(link) {
    const { rows } = await link.run(
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
        `is of version ${version}, and this web-locks needs ${VERSION}`,
      );
    }
    if (this.#durability !== undefined && durability !== this.#durability) {
      throw schemaError(this.#schema, `was made '${durability}', not '${this.#durability}'`);
    }
  }

  /**
   * @param {string} name
   * @returns {Buffer} SHA-256 of bucket and name
   */
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

/** Of a transaction by a client that has other settings: see `settings` in link.js. */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL bytea_output TO hex;
  SET LOCAL enable_bitmapscan TO off; ${waitForDisk(true)}`;

/**
 * @param {string} answer one, or an array
 * @returns {string[]}
 */
const codesOf = (answer) => (answer[0] === '{' ? listOf(answer) : [answer]);

/**
 * @param {any} pool
 * @param {string} option
 */
function checkPool(pool, option) {
  const isClient = pool && 'processID' in Object(pool);
  if (!isClient && typeof pool?.connect === 'function' && typeof pool.query === 'function') return;
  const what = isClient ? 'a Client of pg' : describe(pool);
  throw argumentError(`'${option}' is ${what}; expected a Pool of pg.`);
}

/** @param {any} client that was given to `lock.guard` */
function checkClient(client) {
  if (typeof client?.query !== 'function') {
    throw argumentError('lock.guard() needs a client of pg, in a transaction: lock.guard(client).');
  }
  if ('totalCount' in client) {
    throw argumentError(
      'lock.guard() was given a Pool, whose queries are made by any of its clients. Take one of ' +
        'them, `const client = await pool.connect()`, and give that, after its BEGIN.',
    );
  }
}

/**
 * Calls what does a part of its work, from an expression on, until there is no more.
 * @param {(beyond: string) => Promise<any>} call
 */
async function inPages(call) {
  let beyond = literal(NOTHING);
  for (;;) {
    const { rows } = await call(beyond);
    if (rows[0].last === null) return;
    beyond = literal(Buffer.from(rows[0].last.slice(2), 'hex'));
  }
}

/**
 * @param {Op} op
 * @returns {(guard: Guard) => boolean} whether it is in its way
 */
const isOf =
  (op) =>
  ({ name, ref }) =>
    op.kind === 'end' ? Number(ref) === op.ref : name === op.name;

/** @returns {string} a number of 63 bits that nobody else has */
const newSession = () => String(BigInt.asUintN(63, randomBytes(8).readBigUInt64LE()));

/**
 * @param {any} row
 * @returns {import('../../adapter.js').Entry}
 */
function entryOf({ held, info, label, lim, name, ref, shared, token, waited, ...its }) {
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
    waited: Number(waited),
    held: Number(held ?? 0),
    limit,
    weight: limit > 0 ? Number(its.weight) : 0,
    priority: Number(its.priority),
  };
}

/**
 * @param {string} schema
 * @param {'logged' | 'unlogged'} durability
 * @returns {string} what makes it
 */
function scriptOf(schema, durability) {
  return SCRIPT.replaceAll('web_locks', schema)
    .replaceAll('/*unlogged*/', durability === 'unlogged' ? 'UNLOGGED' : '')
    .replaceAll("'logged'/*durability*/", `'${durability}'`);
}

module.exports = { PostgresAdapter, scriptOf };
