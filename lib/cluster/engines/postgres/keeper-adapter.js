'use strict';

/** Describes the user's Pool or `sql`, and makes one like it in the keeper's thread. */

const { argumentError } = require('../../../platform/errors.js');
const { INSTEAD, cloneableOptions, fileOfClass, findFile } = require('../../client-options.js');
const { PostgresAdapter } = require('./adapter.js');
const { isSql } = require('./postgres-js.js');

/** @import { Pool } from './pg.js' */
/** @import { Sql } from './postgres-js.js' */

/**
 * How to make a Pool or a `sql` like the user's. `classFile` is the file of pg's Client.
 * @typedef {{ file: string, classFile?: string, options: any }} ClientPlan
 */

/** Options of a Pool that only the user's own clients need. */
const UNUSED_BY_POOL = [
  ...['Client', 'Promise', 'log', 'verify', 'onConnect', 'types'],
  ...['min', 'idleTimeoutMillis', 'maxUses', 'maxLifetimeSeconds'],
];

/** Options of a `sql` that its connections need. The others are functions, or concern results. */
const USED_OF_SQL = [
  ...['host', 'port', 'path', 'database', 'user', 'pass', 'ssl', 'socket', 'connection'],
  ...['keep_alive', 'fetch_types'],
];

/**
 * @param {{ pool?: Pool, sql?: Sql, listen?: Pool | Sql }} options of `openBucket`
 * @returns {ClientPlan}
 * @throws {TypeError} if the client cannot be made in another thread
 */
function clientPlanOf({ pool, sql, listen }) {
  /** @type {any} */
  const client = listen ?? sql ?? pool;
  if (isSql(client)) {
    const unused = Object.keys(client.options).filter((name) => !USED_OF_SQL.includes(name));
    return {
      file: fileOfPostgresJs(),
      options: cloneableOptions(client.options, unused),
    };
  }
  const { password, ssl } = client.options;
  // In a Pool's options, `password` and `ssl.key` are not enumerable, so `...` does not copy them.
  const options = { ...client.options, password, ssl: ssl?.key ? { ...ssl, key: ssl.key } : ssl };
  return {
    file: fileOfClass(Object.getPrototypeOf(client), /pg|postgres/i),
    classFile: fileOfClass(client.Client?.prototype, /pg|postgres/i),
    options: cloneableOptions(options, UNUSED_BY_POOL),
  };
}

/** @returns {string} */
function fileOfPostgresJs() {
  const file = findFile(
    /postgres/,
    (exported) => typeof exported === 'function' && 'PostgresError' in exported,
  );
  if (file !== undefined) return file;
  throw argumentError(
    "'keeper' cannot find the file of postgres.js, which was bundled or imported as an ES " +
      `module. An ES module can load it by createRequire(import.meta.url)('postgres'). ${INSTEAD}`,
  );
}

/**
 * @param {ClientPlan} plan
 * @param {(file: string) => any} load the `require` of thread.js. (This file may be bundled, and a
 *   bundler cannot resolve the `require` of a variable.)
 */
function makeClient({ file, classFile, options }, load) {
  const exportOf = (/** @type {string} */ name) => load(name).default ?? load(name);
  const make = exportOf(file);
  if (classFile === undefined) return make(options);
  return new make({ ...options, max: 2 }, exportOf(classFile));
}

/** The options of the keeper's adapters. @param {{ schema?: string }} options of `openBucket` */
const adapterOptionsOf = ({ schema }) => ({ schema });

const ignore = () => {};

/** @param {string} bucket @param {any} client @param {{ schema?: string }} options */
function makeAdapter(bucket, client, { schema }) {
  if (isSql(client)) return new PostgresAdapter(bucket, { sql: client, schema });
  // Without a listener, an error of an idle client would end the thread.
  if (client?.listeners?.('error').includes(ignore) === false) client.on('error', ignore);
  return new PostgresAdapter(bucket, { pool: client, schema });
}

module.exports = { adapterOptionsOf, clientPlanOf, makeAdapter, makeClient };
