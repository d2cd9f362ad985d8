'use strict';

/** Describes the user's Redis client, and makes a client and an adapter in the keeper's thread. */

const { argumentError } = require('../../../platform/errors.js');
const { INSTEAD, cloneableOptions, fileOfClass } = require('../../client-options.js');
const { RedisAdapter } = require('./adapter.js');
const { keyPrefixOf, kindOf } = require('./link.js');

/** @import { Client } from './link.js' */

/** @typedef {{ kind: 'ioredis' | 'node-redis', file: string, options: any }} ClientPlan */

/**
 * Client options that a bucket's connections replace or do not use (link.js). They are left out,
 * because some of them are functions by default, which cannot be sent to a thread.
 */
const UNUSED = {
  ioredis: [
    ...['retryStrategy', 'sentinelRetryStrategy', 'sentinelReconnectStrategy'],
    ...['reconnectOnError', 'commandTimeout', 'socketTimeout', 'keyPrefix'],
  ],
  'node-redis': [
    ...['modules', 'functions', 'scripts', 'commandOptions', 'clientSideCache', 'pingInterval'],
    ...['commandsQueueMaxLength', 'disableOfflineQueue'],
  ],
};

/**
 * @param {{ client: Client }} options of `openBucket` @returns {ClientPlan}
 * @throws {TypeError} if no thread can make the client
 */
function clientPlanOf({ client }) {
  const kind = kindOf(client);
  if (kind !== 'ioredis' && kind !== 'node-redis') {
    throw argumentError(`'keeper' cannot make a client of a cluster by itself. ${INSTEAD}`);
  }
  const file = fileOfClass(Object.getPrototypeOf(client), /redis|valkey/i);
  const { options } = /** @type {any} */ (client);
  return {
    kind,
    file,
    options: cloneableOptions(withoutOwnFunctions(kind, options), UNUSED[kind]),
  };
}

/**
 * Drops functions that the client itself has made, because a thread cannot receive them.
 * @param {ClientPlan['kind']} kind @param {any} options
 */
function withoutOwnFunctions(kind, options) {
  if (kind === 'ioredis') return options;
  const { reconnectStrategy, ...socket } = options?.socket ?? {};
  const used = { ...options, socket };
  // The user's client made this provider from its login, and the new client will make its own.
  const hasLogin = used.username !== undefined || used.password !== undefined;
  if (hasLogin) used.credentialsProvider = undefined;
  return used;
}

/**
 * @param {ClientPlan} plan
 * @param {(file: string) => any} load the `require` of thread.js. (This file may be bundled, and a
 *   bundler cannot resolve the `require` of a variable.)
 * @returns {Client}
 */
function makeClient({ kind, file, options }, load) {
  const exported = load(file);
  const Class = exported.default ?? exported;
  if (kind === 'ioredis') return new Class({ ...options, lazyConnect: true });
  return Class.create(options);
}

/** The options of the keeper's adapters. @param {any} options of `openBucket` */
const adapterOptionsOf = ({ client, shards, strict, failover, prefix }) => ({
  ...{ shards, strict, failover },
  prefix: prefix ?? keyPrefixOf(client),
});

/** @param {string} bucket @param {Client} client @param {any} options */
const makeAdapter = (bucket, client, options) => new RedisAdapter(bucket, { ...options, client });

module.exports = { adapterOptionsOf, clientPlanOf, makeAdapter, makeClient };
