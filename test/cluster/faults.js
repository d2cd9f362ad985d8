'use strict';

/**
 * Several processes share the locks of an engine while processes, servers and networks fail. A
 * judge (test/world/check.js) examines the history.
 */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const path = require('node:path');
const { inspect, promisify } = require('node:util');
const { after, afterEach, before, test } = require('node:test');

const { valuesOf } = require('../helpers/locks.js');
const { Stage, now } = require('./actors.js');
const { check } = require('../world/check.js');
const { FaultyProxy } = require('./proxy.js');
const { stopAll } = require('./servers.js');

/** A short lease, which a test ends by faults of a process or of its connection. */
const TTL = 2_000;
/** A lease that must not end, however slow the machine is. */
const LONG = 60_000;
/**
 * Within this time after the last fault a waiter is served. Only a defect takes longer, not a busy
 * machine.
 */
const WITHIN = 120_000;

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * @typedef {object} FaultyEngine
 * @property {string} name of actor.js
 * @property {(options?: { isDurable?: boolean }) => Promise<any>} start a server: `port`, `crash`,
 *   `start`, `signal`, `stop`; durable: a crash loses nothing
 * @property {boolean} [forgets] whether a crash loses data, unless it is durable
 * @property {(port: number) => any} configOf the configuration for the clients of a port
 * @property {(server: any, stage: any) => Promise<Record<string, number>>} left what is left at a
 *   server, at least of a stage
 * @property {boolean} [marksOutlast] whether marks may last longer than requested, after a restart
 */

const stages = [];
let buckets = 0;

/**
 * Processes on a server; each stage has a bucket of its own.
 * @param {FaultyEngine} engine
 * @param {number} port
 */
function stageOf(engine, port, options = {}) {
  const { name, configOf } = engine;
  const bucket = `bucket ${++buckets}`;
  const stage = new Stage({ engine: name, ttl: TTL, bucket, config: configOf(port), ...options });
  stages.push(stage);
  if (engine.marksOutlast) stage.note('marks outlast');
  return stage;
}

const judge = (stage, more = {}) =>
  assert.deepEqual(check(stage.events, { within: WITHIN, ...more }), []);

const lossesOf = (stage) => stage.events.filter(({ type }) => type === 'told');

/** Closes the processes of a stage, and judges them. They must leave nothing at the server. */
async function finish(engine, server, stage) {
  await stage.close();
  judge(stage, { left: await engine.left(server, stage) });
}

/** Starts a process that holds a lock, and another one that waits for it. */
async function holderAndWaiter(stage, { ofHolder = {} } = {}) {
  const [holder, waiter] = await Promise.all([stage.actor(ofHolder), stage.actor()]);
  const held = holder.request('name');
  await held.granted();
  const next = waiter.request('name', {}, TTL);
  await next.asked();
  return { holder, waiter, held, next };
}

/**
 * Waits until nothing is left at a server, which may learn late that a process has ended.
 * @param {() => Promise<Record<string, number>>} look
 */
async function leftInTheEnd(look) {
  const end = now() + WITHIN;
  for (;;) {
    const left = await look();
    if (Object.values(left).every((count) => count === 0) || now() > end) return left;
    await wait(50);
  }
}

const timeOf = (stage, type, client) =>
  stage.events.find((event) => event.type === type && event.id?.startsWith(client.name))?.time;

/**
 * A server that crashed returns without its data, and grants nothing for a while.
 * @param {FaultyEngine} engine
 * @param {any} own a server of the test's own; it is stopped
 * @param {object} [options] of the stage
 */
async function losesLocks(engine, own, options) {
  const stage = stageOf(engine, own.port, options);
  const { waiter, held, next } = await holderAndWaiter(stage);
  stage.fault();
  await own.crash();
  await own.start();
  stage.fault();
  const from = now();
  await next.granted();
  assert.ok(timeOf(stage, 'granted', waiter) - from > TTL / 2, 'a quarantine');
  await Promise.all([held.settled(), next.settled()]);
  await finish(engine, own, stage);
  await own.stop();
}

/** @param {any} own a server with a disk, which loses what was not synced */
async function cutPower(own, stage) {
  stage.fault();
  await own.crash();
  await own.start();
  stage.fault();
}

/**
 * The power of a server is cut after a release that it need not sync. The release is undone, and
 * the process releases the lock again. Then the power is cut after a mark.
 * @param {FaultyEngine} engine
 * @param {any} own a server of the test's own, with a disk
 * @param {boolean} undoes whether the server undoes a release
 */
async function losesRelease(engine, own, undoes) {
  const keep = 3_600_000;
  const stage = stageOf(engine, own.port, { ttl: engine.forgets ? 8 * TTL : LONG });
  const [one, other] = await Promise.all([stage.actor(), stage.actor()]);
  // A session that has just connected renews, which would also sync the release.
  await one.request('released', {}, 0).settled();
  await cutPower(own, stage);
  if (undoes) assert.ok(own.disk.forgotten > 0, 'what was not synced is forgotten');
  await other.request('released', {}, 0).settled();
  await one.request('job', { keep }, 0).settled();
  await cutPower(own, stage);
  await other.request('job', { keep }, 0).settled();
  await finish(engine, own, stage);
  assert.deepEqual(lossesOf(stage), []);
}

/**
 * The power of a server is cut after grants whose holder cannot reach it afterwards, while no other
 * client has seen their tokens.
 * @param {FaultyEngine} engine
 * @param {any} own a server of the test's own, with a disk
 * @param {() => Promise<unknown>} [keepBucket] makes the server sync what came before the grants
 */
async function losesGrants(engine, own, keepBucket = async () => {}) {
  const proxy = await FaultyProxy.open(own.port);
  // The server returns long before the lease ends.
  const stage = stageOf(engine, own.port, { ttl: 6 * TTL });
  const holder = await stage.actor({ config: engine.configOf(proxy.port) });
  await holder.request('early', {}, 0).settled();
  await keepBucket();
  const names = ['first', 'second', 'third'];
  const held = names.map((name) => holder.request(name));
  for (const one of held) await one.granted();
  proxy.refuse();
  await cutPower(own, stage);
  const stranger = await stage.actor();
  const next = names.map((name) => stranger.request(name, {}, 1));
  for (const one of [...held, ...next]) await one.settled();
  proxy.heal();
  stage.fault();
  await finish(engine, own, stage);
  await proxy.close();
}

/**
 * The wall clock of a server is set ahead by an hour, and back by two.
 * @param {FaultyEngine} engine
 * @param {any} own a server of the test's own; it is stopped
 * @param {{ set: (seconds: number) => void }} clock of the server
 */
async function clockJumps(engine, own, clock) {
  const ttl = 5 * TTL;
  const stage = stageOf(engine, own.port, { ttl });
  const [holder, waiter] = await Promise.all([stage.actor(), stage.actor()]);
  for (const seconds of [3_600, -3_600]) {
    const killed = await stage.actor({ ttl: TTL });
    const held = holder.request('name');
    await Promise.all([held.granted(), killed.request('of the dead').granted()]);
    const next = waiter.request('name', {}, 1);
    const behind = waiter.request('of the dead', {}, 1);
    await Promise.all([next.asked(), behind.asked()]);
    const many = Array.from({ length: 40 }, (_, i) =>
      [holder, waiter][i % 2].request(`many ${i % 3}`, {}, 1),
    );
    clock.set(seconds);
    stage.fault();
    // By then no renewed lease has ended, and every other lease has.
    await killed.kill();
    const past = wait(1.2 * ttl);
    for (const one of many) await one.settled();
    await behind.settled();
    await past;
    assert.equal(held.known.settled, false, inspect(holder.states));
    held.release();
    await Promise.all([held.settled(), next.settled()]);
    stage.fault();
  }
  await finish(engine, own, stage);
  assert.deepEqual(lossesOf(stage), []);
  await own.stop();
}

/**
 * A server with older data returns, while a holder that cannot reach it still believes in a grant
 * of the newer one. Clients that were there meanwhile report it (R5); a stranger cannot.
 * @param {FaultyEngine} engine
 * @param {number} port of the server that has the data at first
 * @param {() => Promise<number>} replace replaces it by another server. Resolves to its port
 * @param {() => Promise<number>} putBack replaces that by one with the earlier data. Resolves to
 * its port
 * @returns the stage, closed
 */
async function failsBack(engine, port, replace, putBack) {
  const [ofHolder, ofWaiter] = [await FaultyProxy.open(port), await FaultyProxy.open(port)];
  const stage = stageOf(engine, port, { ttl: 2 * TTL });
  const actor = (proxy) => stage.actor({ config: engine.configOf(proxy.port) });
  const [holder, waiter] = await Promise.all([actor(ofHolder), actor(ofWaiter)]);
  await Promise.all([holder, waiter].map((one) => one.request('early', {}, 0).settled()));
  stage.fault();
  const moved = await replace();
  for (const proxy of [ofHolder, ofWaiter]) {
    proxy.retarget(moved);
    proxy.cut();
  }
  const held = holder.request('name');
  await held.granted();
  await waiter.request('other', {}, 0).settled();
  stage.fault();
  const back = await putBack();
  ofHolder.refuse();
  ofWaiter.retarget(back);
  ofWaiter.cut();
  const next = waiter.request('name', {}, 10);
  await next.asked();
  const stranger = await stage.actor({ config: engine.configOf(back) });
  const last = stranger.request('name', {}, 10);
  await Promise.all([held.settled(), next.settled(), last.settled()]);
  ofHolder.retarget(back);
  ofHolder.heal();
  stage.fault();
  await stage.close();
  assert.deepEqual(valuesOf(lossesOf(stage), 'reason'), ['unreachable'], inspect(holder.states));
  for (const proxy of [ofHolder, ofWaiter]) await proxy.close();
  return stage;
}

/** Defines the tests; called in a `describe`. @param {FaultyEngine} engine */
function faults(engine) {
  let server;

  before(async () => {
    server = await engine.start();
  });

  afterEach(() => {
    for (const stage of stages) stage.kill();
  });

  after(stopAll);

  test('a process that is cut off loses its lock before the next grant', async () => {
    const proxy = await FaultyProxy.open(server.port);
    // It is notified a tenth of the lease before the next grant.
    const stage = stageOf(engine, server.port, { ttl: 3 * TTL });
    const ofHolder = { config: engine.configOf(proxy.port) };
    const { holder, waiter, next } = await holderAndWaiter(stage, { ofHolder });
    stage.fault();
    proxy.stall();
    await next.granted();
    assert.ok(timeOf(stage, 'told', holder) < timeOf(stage, 'granted', waiter), 'told before');
    const again = holder.request('name', {}, 10);
    proxy.heal();
    stage.fault();
    await Promise.all([again.settled(), next.settled()]);
    await finish(engine, server, stage);
    await proxy.close();
  });

  test('cuts and late answers cost no lock', async () => {
    const proxy = await FaultyProxy.open(server.port);
    const stage = stageOf(engine, proxy.port, { ttl: LONG });
    const { holder, waiter, held, next } = await holderAndWaiter(stage);
    for (let round = 0; round < 5; round++) {
      proxy.delay(20 * round);
      stage.fault();
      const states = [holder, waiter].map((one) => one.states.length);
      proxy.cut();
      const isBack = ({ states: all }, i) => all.length > states[i] && all.at(-1).state === 'open';
      await Promise.all([holder, waiter].map((one, i) => one.until(() => isBack(one, i))));
    }
    held.release();
    await Promise.all([held.settled(), next.settled()]);
    proxy.heal();
    await finish(engine, server, stage);
    await proxy.close();
    assert.deepEqual(lossesOf(stage), []);
  });

  test('a torture finds no fault', async () => {
    const program = path.join(__dirname, '..', 'torture', 'torture.js');
    // The output contains the command that repeats it.
    await promisify(execFile)(process.execPath, [
      program,
      '--scope',
      engine.name,
      '--seconds',
      '10',
    ]);
  });

  test('a server that crashes and returns costs no lock', async () => {
    const own = await engine.start({ isDurable: true });
    // A server that must not grant at first does so for the length of a lease.
    const stage = stageOf(engine, own.port, { ttl: engine.forgets ? 8 * TTL : LONG });
    const { held, next } = await holderAndWaiter(stage);
    stage.fault();
    await own.crash();
    await own.start();
    stage.fault();
    held.release();
    await Promise.all([held.settled(), next.settled()]);
    await finish(engine, own, stage);
    assert.deepEqual(lossesOf(stage), []);
    await own.stop();
  });
}

module.exports = {
  clockJumps,
  failsBack,
  LONG,
  TTL,
  faults,
  judge,
  leftInTheEnd,
  losesGrants,
  losesLocks,
  losesRelease,
  stageOf,
  timeOf,
  wait,
};
