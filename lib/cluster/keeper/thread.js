'use strict';

/**
 * The program of the keeper's thread, which keeper.js starts. The thread has a LeaseKeeper for each
 * session whose lease it keeps. Each LeaseKeeper has its own adapter with its own connection.
 */

const { pathToFileURL } = require('node:url');
const { parentPort } = require('node:worker_threads');
const { clearTimeout, now, setTimeout, threadsNow } = require('../../platform/intrinsics.js');
const { argumentError, describe } = require('../../platform/errors.js');
const { systemClock } = require('../session/clock.js');
const { LeaseCells } = require('../session/lease-cells.js');
const { LeaseKeeper } = require('../session/lease-keeper.js');

/** @import { ToThread, FromThread, Plan } from './keeper.js' */

/**
 * Returns an engine's functions for the keeper. Bundles lack this file, so the path need not be
 * literal.
 * @param {string} engine
 */
const loadEngine = (engine) => require(`../engines/${engine}/keeper-adapter.js`);

/** @type {Map<number, InstanceType<typeof LeaseKeeper>>} */
const keepers = new Map();

/** @param {any} error */
const messageOf = (error) => String(error?.message ?? error);

/** @param {FromThread} message */
const post = (message) => parentPort?.postMessage(message);

/** @param {number} origin the time of `threadsNow` at which the session's monotonic clock was 0 */
function clockSince(origin) {
  const monotonic = () => threadsNow() - origin;
  const continuous = systemClock.continuous === now ? monotonic : systemClock.continuous;
  return { monotonic, continuous, wall: Date.now, setTimeout, clearTimeout };
}

/** A module makes the client instead of the engine. @param {Plan} plan */
async function makeClient({ engine, client, module }) {
  if (module === undefined) return loadEngine(engine).makeClient(client, require);
  const { default: exported } = await import(
    /^file:/.test(module) ? module : pathToFileURL(module).href
  );
  // TypeScript compiles a default export to `exports.default` of a CommonJS module.
  const make = exported?.default ?? exported;
  if (typeof make !== 'function') {
    throw argumentError(
      `The default export of 'keeper.module' (${module}) is ${describe(make)}; expected a ` +
        'function that returns a client.',
    );
  }
  return make();
}

/** Returns a function that makes adapters, all from one client. @param {Plan} plan */
function adaptersOf(plan) {
  const { engine, bucket, options } = plan;
  /** @type {Promise<any> | undefined} */
  let client;
  return async () => {
    // If the client cannot be made, the next call tries again.
    client ??= makeClient(plan).catch((error) => {
      client = undefined;
      throw error;
    });
    return loadEngine(engine).makeAdapter(bucket, await client, options);
  };
}

/** @param {ToThread} message */
async function handleMessage(message) {
  const { id } = message;
  if (message.what === 'keep') {
    const { plan, keeping, memory, origin } = message;
    const keeper = new LeaseKeeper(
      keeping,
      new LeaseCells(memory),
      clockSince(origin),
      adaptersOf(plan),
      (error) => post({ what: 'trouble', id, error: messageOf(error) }),
    );
    keepers.set(id, keeper);
    keeper.start();
  } else if (message.what === 'update') {
    keepers.get(id)?.update(message.seen);
  } else {
    const error = await keepers.get(id)?.stop();
    keepers.delete(id);
    post({ what: 'stopped', id, error: error === undefined ? undefined : messageOf(error) });
  }
}

parentPort?.on('message', handleMessage);
