'use strict';

/**
 * Finds out which library the user's objects come from: a Pool of pg (pg.js) or a `sql` of
 * postgres.js (postgres-js.js). For other objects, the error says what they seem to be, and what to
 * write.
 */

const { argumentError, describe } = require('../../../platform/errors.js');
const { smallPoolError } = require('./errors.js');
const pg = require('./pg.js');
const postgresJs = require('./postgres-js.js');

/** @import { Source } from './link.js' */

const isFunction = (/** @type {unknown} */ value) => typeof value === 'function';

/** @param {any} value */
const isClientOfPg = (value) => 'processID' in value;
/** @param {any} value */
const isPool = (value) =>
  !isClientOfPg(value) && isFunction(value.connect) && isFunction(value.query);

const PG = 'openBucket(name, { pool: new Pool({ connectionString }) }) with pg';
const BESIDE =
  'openBucket(name, { pool: new Pool({ connectionString }) }) with a separate Pool of pg';
const SQL = 'openBucket(name, { sql: postgres(connectionString) }) with postgres.js';

/**
 * Objects that users may pass. The first entry that fits says what the object is, and what to pass.
 * @type {[fits: (value: any) => unknown, what: string, instead: string][]}
 */
const KNOWN = [
  [postgresJs.isSql, 'the `sql` of postgres.js', 'openBucket(name, { sql })'],
  [
    postgresJs.isTransaction,
    'a postgres.js transaction',
    'openBucket(name, { sql }), where `sql` is what postgres() returns',
  ],
  [isClientOfPg, 'a Client of pg, which has only one connection', PG],
  [
    (value) => isFunction(value.$pool?.connect),
    'a pg-promise database',
    'openBucket(name, { pool: db.$pool })',
  ],
  [
    (value) => '$client' in value && isFunction(value.transaction),
    'a Drizzle ORM database',
    'openBucket(name, { pool: db.$client }) or openBucket(name, { sql: db.$client }), whichever ' +
      'it was made with',
  ],
  [(value) => isFunction(value.$queryRaw), 'a Prisma client', BESIDE],
  [(value) => isFunction(value.raw) && value.client, 'a Knex instance', BESIDE],
  [
    (value) => isFunction(value.getExecutor),
    'a Kysely instance',
    'openBucket(name, { pool }), where `pool` is its Pool of pg',
  ],
  [(value) => isFunction(value.createQueryRunner), 'a TypeORM DataSource', BESIDE],
  [(value) => isFunction(value.authenticate), 'a Sequelize instance', BESIDE],
  [(value) => isFunction(value.unsafe) && value.reserve, "Bun's SQL client", `${PG} or ${SQL}`],
  [isPool, 'a Pool of pg', 'openBucket(name, { pool })'],
];

const SETTINGS = ['connectionString', 'host', 'database', 'user'];

/** @param {any} value @returns {[what: string, instead: string]} */
function identify(value) {
  if (typeof value === 'string') return ['a string', `${PG}, or ${SQL}`];
  if (value !== null && /^(object|function)$/.test(typeof value)) {
    const known = KNOWN.find(([fits]) => fits(value));
    if (known) return [known[1], known[2]];
    if (SETTINGS.some((name) => typeof value[name] === 'string')) {
      return ['an object of settings', 'openBucket(name, { pool: new Pool(settings) }) with pg'];
    }
  }
  return [describe(value), `${PG}, or ${SQL}`];
}

/** @param {string} option @param {any} value @param {string} expected */
function clientError(option, value, expected) {
  const [what, instead] = identify(value);
  return argumentError(`'${option}' is ${what}; expected ${expected}. Write ${instead}.`);
}

const POOL = 'a Pool of pg 8';
const SQL_OF = 'the `sql` of postgres.js 3';

/**
 * The source of clients over `listen`, or else `sql` or `pool`; throws if an option is unfit.
 * @param {{ pool?: any, sql?: any, listen?: any }} options @param {string} schema
 * @returns {Source}
 */
function sourceOf({ pool, sql, listen }, schema) {
  if (sql !== undefined && pool !== undefined) {
    throw argumentError("Both 'pool' and 'sql' are given; expected one of them.");
  }
  if (sql !== undefined && !postgresJs.isSql(sql)) throw clientError('sql', sql, SQL_OF);
  if (sql === undefined && !isPool(Object(pool))) throw clientError('pool', pool, POOL);
  if (listen === undefined) {
    if (sql) return new postgresJs.SqlSource(sql);
    if (Number(pool.options?.max) < 2) throw smallPoolError();
    return new pg.PgSource(pool, schema);
  }
  if (postgresJs.isSql(listen)) return new postgresJs.SqlSource(listen);
  if (isPool(Object(listen))) return new pg.PgSource(listen, schema);
  throw clientError('listen', listen, `${POOL}, or ${SQL_OF}`);
}

/**
 * Runs a query over the user's client; rejects objects that are not a client of one connection.
 * @param {any} client of `lock.guard` @param {string} text @returns {Promise<any[]>} the row
 */
async function rowInTransaction(client, text) {
  if (postgresJs.isSql(client)) {
    throw argumentError(
      'lock.guard() was given the `sql` of all connections. Pass that of a transaction: ' +
        'sql.begin(async (tx) => { await lock.guard(tx); … }).',
    );
  }
  if (typeof client === 'function' && postgresJs.isTransaction(client)) {
    return postgresJs.rowInTransaction(client, text);
  }
  if (!isFunction(client?.query)) {
    throw argumentError(
      'lock.guard() needs a client of pg, or the `sql` of a transaction of postgres.js: ' +
        'lock.guard(client).',
    );
  }
  if ('totalCount' in client) {
    throw argumentError(
      'lock.guard() was given a Pool, which runs each query on any of its clients. Pass one ' +
        'client in a transaction: `const client = await pool.connect()`, then BEGIN.',
    );
  }
  return pg.rowInTransaction(client, text);
}

module.exports = { rowInTransaction, sourceOf };
