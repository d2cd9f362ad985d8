'use strict';

/** The schema of a bucket's tables and functions, which the adapter creates and migrates. */

const { busy, failed } = require('../../adapter.js');
const { argumentError, describe } = require('../../../platform/errors.js');
const { sourceOf } = require('./clients.js');
const { waitForDisk } = require('./link.js');
const SCRIPT = require('./postgres.sql.js');
const { classify, explain, lacksTables, noTablesError, schemaError } = require('./errors.js');

/** @typedef {InstanceType<typeof import('./link.js').PostgresLink>} Link */

/** Increase this whenever the schema or its meaning changes. */
const VERSION = 9;

/** Begins a transaction over a client that lacks our settings: see `settings` in link.js. */
const BEGIN = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL bytea_output TO hex;
  SET LOCAL enable_bitmapscan TO off; ${waitForDisk(true)}`;

class Schema {
  #durability;
  /** Whether the schema of the connection's server has what publications need. */
  isMigrated = false;
  /** Whether the functions of the schema turned out to be of an older version. */
  #isOutdated = false;

  /**
   * @param {unknown} name @param {'logged' | 'unlogged' | undefined} durability
   * @param {Parameters<typeof sourceOf>[0]} clients of the user
   */
  constructor(name, durability, clients) {
    if (typeof name !== 'string' || !/^[a-z_][a-z0-9_]{0,62}$/.test(name)) {
      throw argumentError(
        `'schema' is ${describe(name)}; expected up to 63 lower-case letters, digits and _.`,
      );
    }
    if (durability !== undefined && durability !== 'logged' && durability !== 'unlogged') {
      throw argumentError(
        `'durability' is ${describe(durability)}; expected 'logged' or 'unlogged'.`,
      );
    }
    this.name = name;
    this.#durability = durability;
    this.source = sourceOf(clients, name);
  }

  /** SQL that tells whether the schema has the procedures of then_notify.sql, which are newer. */
  get canNotifyLater() {
    const procedure = `to_regproc('${this.name}.step_then_notify')::oid`;
    return `has_function_privilege(${procedure}, 'EXECUTE')`;
  }

  get #script() {
    return scriptOf(this.name, this.#durability ?? 'logged');
  }

  /**
   * Runs a query; if the tables are missing, it first creates them.
   * @param {Link} link @param {Parameters<Link['run']>[0]} query begins a session
   */
  async runWithTables(link, query) {
    try {
      await this.#examine(link);
      return await link.run(query);
    } catch (error) {
      if (!lacksTables(error)) throw error;
    }
    await link.run(this.#script);
    await this.#examine(link);
    return link.run(query);
  }

  /** Rejects if tables are missing, or have another version or durability. @param {Link} link */
  async #examine(link) {
    const { name } = this;
    const rows = await link.run(
      `SELECT version, durability FROM ${name}.lasting WHERE version <> ${VERSION}
        OR NOT EXISTS (SELECT FROM unnest(ARRAY['epoch', 'session', 'request', 'theft',
            'lapsed', 'mark', 'token']) t
          WHERE to_regclass('${name}.' || t) IS NULL)`,
    );
    if (rows.length === 0) throw noTablesError(name);
    const [{ durability, version }] = rows;
    if (Number(version) !== VERSION) {
      throw schemaError(
        name,
        `has version ${version}, but this version of web-locks needs version ${VERSION}`,
        'version of web-locks',
      );
    }
    if (this.#durability !== undefined && durability !== this.#durability) {
      const problem = `has durability '${durability}', not '${this.#durability}'`;
      throw schemaError(name, problem, "'durability'");
    }
  }

  /**
   * A function took a publication for a request. The session sends the publication again, after
   * another migration.
   */
  handleOutdated() {
    this.isMigrated = false;
    this.#isOutdated = true;
    return busy();
  }

  /**
   * Makes sure that the schema has what publications need, which a schema of an older version
   * lacks. Returns the answer to publications if that is impossible now.
   * @param {Link} link @param {number} time the time limit of a migration in milliseconds
   */
  async migrate(link, time) {
    if (this.isMigrated) return undefined;
    const [{ is }] = await link.run(
      `SELECT EXISTS (SELECT FROM pg_attribute WHERE attname = 'data' AND NOT attisdropped
        AND attrelid = to_regclass('${this.name}.request')) AS is`,
    );
    try {
      const begin = `${BEGIN}; SET LOCAL standard_conforming_strings TO on;
        SET LOCAL lock_timeout TO 1000`;
      // The session's connection must not wait, because it renews the lease.
      if (is === 'f' || this.#isOutdated)
        await this.source.query(`${begin}; ${this.#script}`, time);
      this.isMigrated = true;
      this.#isOutdated = false;
      return undefined;
    } catch (why) {
      const error = explain(why, this.name);
      return classify(error) === 'retry' ? busy(error) : failed(error);
    }
  }
}

/** @param {string} schema @param {'logged' | 'unlogged'} durability */
function scriptOf(schema, durability) {
  return SCRIPT.replaceAll('web_locks', schema)
    .replaceAll('/*unlogged*/', durability === 'unlogged' ? 'UNLOGGED' : '')
    .replaceAll("'logged'/*durability*/", `'${durability}'`);
}

module.exports = { BEGIN, Schema, scriptOf };
