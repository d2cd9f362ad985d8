'use strict';

/** Examines the servers of a bucket before a connection is used. */

const { evictionError, noRunIdError, oldServerError, strictError } = require('./errors.js');
const { NOBODY } = require('./shards.js');

/** @import { Needs } from './shards.js' */
/** @typedef {InstanceType<typeof import('./link.js').RedisLink>} Link */
/** @typedef {InstanceType<typeof import('./shards.js').Shards>} BucketShards */

/** Keys that nobody renews expire after a week: until then, administrators can inspect them. */
const IDLE = 7 * 24 * 3_600_000;

/**
 * Rejects if a server is unfit for locks.
 * @param {Link} link @param {BucketShards} shards @param {number} ttl
 * @param {{ strict: boolean, ignoresFailover: boolean }} options of the bucket
 * @returns {Promise<{ needs: Needs, runs: string[] }>} for `runs` see steps.js
 */
async function examine(link, shards, ttl, { strict, ignoresFailover }) {
  const needs = { pause: Math.ceil(ttl), strict: 0, idle: IDLE };
  const runs = await shards.onEach(async (shard) => {
    const [server, memory, replication] = await shards.call(link, shard, NOBODY, 'examine');
    const version = infoField(server, 'redis_version');
    const [major, minor] = version.split('.').map(Number);
    if (major < 6 || (major === 6 && minor < 2)) throw oldServerError(version);
    const policy = infoField(memory, 'maxmemory_policy');
    if (policy.startsWith('allkeys-')) throw evictionError(policy);
    // With this policy the server would evict keys that have an expiry.
    if (policy.startsWith('volatile-')) needs.idle = 0;
    const runId = infoField(server, 'run_id');
    if (!ignoresFailover && !runId) throw noRunIdError();
    if (strict) {
      const { lag, replicas } = await examineReplicas(link, replication);
      needs.pause += (lag + 1) * 1_000;
      needs.strict = replicas;
    }
    return shards.isCluster ? '' : runId;
  });
  return { needs, runs };
}

/** A field of INFO; '' if it is missing. @param {string} info @param {string} name */
const infoField = (info, name) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? '';

/**
 * Throws unless the primary stops accepting writes when a network partition isolates it. For this
 * purpose its configuration must require every attached replica, because each can be promoted.
 * @param {Link} link @param {string} replication of INFO
 * @returns {Promise<{ lag: number, replicas: number }>} the primary stops after `lag` seconds, and
 *   requires `replicas` replicas
 */
async function examineReplicas(link, replication) {
  /** @param {string} name */
  const readSetting = async (name) => {
    const reply = await link.call('CONFIG', ['GET', name]);
    return Number(Array.isArray(reply) ? reply[1] : Object.values(reply)[0]);
  };
  const replicas = await readSetting('min-replicas-to-write');
  const lag = await readSetting('min-replicas-max-lag');
  const attached = Number(infoField(replication, 'connected_slaves'));
  if (!(replicas >= 1 && lag >= 1)) {
    throw strictError(
      `min-replicas-to-write is ${replicas} and min-replicas-max-lag is ${lag}; set both to 1 or ` +
        'more.',
    );
  }
  if (attached > replicas) {
    throw strictError(
      `${attached} replicas are attached, each of which can be promoted, and ` +
        `min-replicas-to-write is ${replicas}: set it to ${attached}.`,
    );
  }
  return { lag, replicas };
}

module.exports = { examine };
