'use strict';

/**
 * Opens a bucket on the server that a URL names. Users install the client library themselves. It is
 * resolved from the current directory or else, for global installations, from this package.
 */

const { createRequire } = require('node:module');
const path = require('node:path');
const { Failure, STATUS } = require('./status.js');

/**
 * `ttl` is in milliseconds. `end` ends the client after the bucket was closed.
 * @typedef {{ bucket: string, ttl?: number, schema?: string, shards?: number, prefix?: string }}
 *   Settings
 * @typedef {{ locks: any, ready: Promise<void>, close(): Promise<void> }} EngineBucket
 * @typedef {{ bucket: EngineBucket, end: () => unknown }} Opened
 */

/** By the scheme of URLs. @type {Record<string, (url: string, settings: Settings) => Opened>} */
const ENGINES = {
  postgres: openPostgres,
  postgresql: openPostgres,
  redis: openRedis,
  rediss: openRedis,
  'etcd+http': openEtcd,
  'etcd+https': openEtcd,
};

/** A URL begins with one of these. */
const SCHEMES = Object.keys(ENGINES).map((scheme) => `${scheme}://`);

/** The engines that support each option; all other engines refuse it. */
const OF_ENGINES = {
  schema: [openPostgres],
  shards: [openRedis],
  prefix: [openRedis],
};

/** Drops the parts of a URL that may contain a password. @param {string} url */
const serverOf = (url) => url.replace(/^([a-z+]+:\/\/)?(?:.*@)?([^?#]*).*$/is, '$1$2');

/** @param {string} url @param {string} expected */
const urlFailure = (url, expected) =>
  new Failure(STATUS.usage, `--at is '${serverOf(url)}'; expected ${expected}.`);

/**
 * @param {string} url @param {Settings} settings
 * @param {string} source the option or variable that gave the URL @throws {Failure}
 */
function openEngine(url, settings, source) {
  try {
    return open(url, settings);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    throw new Failure(error.status, error.message.replace(/^--at\b/, source), error.hint);
  }
}

/** @param {string} url @param {Settings} settings @throws {Failure} */
function open(url, settings) {
  const scheme = /^([a-z+]+):\/\//i.exec(url)?.[1].toLowerCase() ?? '';
  if (!Object.hasOwn(ENGINES, scheme)) {
    throw urlFailure(url, `a URL that begins with one of ${SCHEMES.join(', ')}`);
  }
  for (const option of /** @type {(keyof typeof OF_ENGINES)[]} */ (Object.keys(OF_ENGINES))) {
    if (settings[option] === undefined || OF_ENGINES[option].includes(ENGINES[scheme])) continue;
    throw new Failure(STATUS.usage, `--${option} cannot be used with ${scheme}://.`);
  }
  try {
    return ENGINES[scheme](url, settings);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // The message leaves out the URL, which may contain a password.
    throw new Failure(STATUS.usage, `--at: ${error.message}.`.replace(/\.+$/, '.'));
  }
}

/**
 * Loads a module of this package by a computed path, so that bundlers do not include it.
 * @param {string} name @throws {Failure} if it is missing
 */
function requireEntry(name) {
  try {
    return require(path.join(__dirname, '..', `${name}.js`));
  } catch (error) {
    if (/** @type {any} */ (error).code !== 'MODULE_NOT_FOUND') throw error;
    throw new Failure(
      STATUS.unavailable,
      `--at needs the module ${name}.js of web-locks, which is missing. Install web-locks again.`,
    );
  }
}

/** Loads the first of the packages that is installed. @param {string[]} names @throws {Failure} */
function requireClient(...names) {
  const folder = process.cwd();
  const places = [createRequire(path.join(folder, 'web-locks')), createRequire(__filename)];
  for (const from of places) {
    const name = names.find((one) => isInstalled(from, one));
    if (name !== undefined) return { name, module: from(name) };
  }
  const which = names.join(' or ');
  throw new Failure(
    STATUS.unavailable,
    `--at needs the package ${which}, which is installed neither in ${folder} nor with web-locks.`,
    `Install it: npm install ${names[0]} (with --global if web-locks is global).`,
  );
}

/** @param {NodeJS.Require} from @param {string} name */
function isInstalled(from, name) {
  try {
    from.resolve(name);
    return true;
  } catch {
    return false;
  }
}

/** @param {string} url @param {Settings} settings */
function openPostgres(url, { bucket, schema, ttl }) {
  const { Client, Pool } = requireClient('pg').module;
  // Throws if the URL is invalid. A Pool would not throw before it connects.
  new Client({ connectionString: url });
  const pool = new Pool({ connectionString: url, max: 2 });
  // Without a listener, the loss of an idle connection, which is harmless, would end the program.
  // The bucket handles the errors of its own connection itself.
  pool.on('error', () => {});
  return {
    bucket: requireEntry('postgres').openBucket(bucket, { pool, schema, ttl }),
    end: () => pool.end(),
  };
}

/**
 * The bucket connects only duplicates of the client, so there is no connection to end.
 * @param {string} url @param {Settings} settings
 */
function openRedis(url, { bucket, prefix, shards, ttl }) {
  const { openBucket } = requireEntry('redis');
  const { name, module } = requireClient('redis', 'ioredis');
  const one =
    name === 'redis' ? module.createClient({ url }) : new module.Redis(url, { lazyConnect: true });
  one.on('error', () => {});
  return { bucket: openBucket(bucket, { client: one, prefix, shards, ttl }), end() {} };
}

/** @param {string} url @param {Settings} settings */
function openEtcd(url, { bucket, ttl }) {
  const [, scheme, user, hosts] = /^etcd\+(https?):\/\/(?:([^@/]*)@)?([^/]*)\/?$/i.exec(url) ?? [];
  if (!hosts) {
    const form = '[USER:PASSWORD@]HOST:PORT[,HOST:PORT…]';
    throw urlFailure(url, `etcd+http://${form}, or etcd+https://…`);
  }
  const [name, ...password] = (user ?? '').split(':');
  const auth = user
    ? { user: decodeURIComponent(name), password: decodeURIComponent(password.join(':')) }
    : undefined;
  const endpoints = hosts.split(',').map((host) => `${scheme.toLowerCase()}://${host}`);
  return { bucket: requireEntry('etcd').openBucket(bucket, { endpoints, auth, ttl }), end() {} };
}

module.exports = { SCHEMES, openEngine, serverOf };
