'use strict';

/**
 * Tests what `locks.once` does without marks in a cluster. The world tests that a function which
 * has run is marked, whatever gets lost (model.test.js).
 */

const assert = require('node:assert/strict');
const { afterEach, beforeEach, test } = require('node:test');
const { settling } = require('./scripted.js');
const { Cluster, TTL } = require('./setup.js');

/** @type {Cluster} */
let cluster;
let client;
beforeEach(async () => {
  cluster = new Cluster();
  client = await cluster.client();
});
afterEach(() => cluster.close());

test('a call that loses the lock before it knows of the mark does not run', async () => {
  client.adapter.marked = () => new Promise(() => {});
  const { hello } = client.adapter;
  client.adapter.hello = () => new Promise(() => {});
  let hasRun = false;
  const run = () => {
    hasRun = true;
  };
  const asked = settling(client.locks.once('a', { keep: 3_600_000 }, run));
  await cluster.world.until(() => asked.isSettled);
  assert.equal(asked.error.reason, 'unreachable');
  await cluster.world.advance(TTL);
  assert.equal(hasRun, false);
  client.adapter.hello = hello;
});

test('a call is refused where the engine has no marks', async () => {
  const wrap = (adapter) => Object.assign(adapter, { can: { limits: true, groups: true } });
  const { locks } = await cluster.client({ wrap });
  const refused = locks.once('a', { keep: 1 }, () => {});
  await assert.rejects(refused, { name: 'NotSupportedError' });
});
