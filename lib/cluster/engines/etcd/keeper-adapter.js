'use strict';

/** Makes an etcd adapter in the keeper's thread, with the `fetch` of the user's module, if any. */

const { cloneableOptions } = require('../../client-options.js');
const { EtcdAdapter } = require('./adapter.js');

/** @import { Auth, Fetch } from './gateway.js' */

/**
 * @param {{ fetch?: Fetch }} options of `openBucket`
 * @throws {TypeError} if there is a `fetch`, because a function cannot be sent to another thread
 */
const clientPlanOf = ({ fetch }) => cloneableOptions({ fetch }, []);

/** Without a `fetch`, the adapter uses its own HTTP client. */
const makeClient = () => undefined;

/**
 * Each new adapter begins with the next endpoint, because the keeper makes a new adapter after a
 * failure.
 * @param {string} bucket @param {Fetch | undefined} fetch
 * @param {{ endpoints: string[], auth?: Auth }} options
 */
function makeAdapter(bucket, fetch, { endpoints, auth }) {
  const adapter = new EtcdAdapter(bucket, { endpoints: [...endpoints], auth, fetch });
  endpoints.push(String(endpoints.shift()));
  return adapter;
}

module.exports = { clientPlanOf, makeAdapter, makeClient };
