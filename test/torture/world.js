'use strict';

/** The program of a round in simulated time: see memory.js. */

const { AsyncLocalStorage } = require('node:async_hooks');
const timers = require('node:timers');
const { Machine, World } = require('../world/world.js');
const { Random } = require('./random.js');

const plan = JSON.parse(process.argv[2]);
const seed = `${plan.seed} ${plan.round}`;
const random = new Random(seed, 'world');

const world = new World();
/** The machine whose code runs. @type {AsyncLocalStorage<any>} */
const running = new AsyncLocalStorage();

/** A machine whose code can find out which machine it runs on. */
class Own extends Machine {
  run(work) {
    super.run(() => running.run(this, work));
  }
}

const outside = new Own(world, { random: () => random.number() });
const machine = () => running.getStore() ?? outside;

/** A timer of the machine that runs; the library uses it like one of Node.js. */
class Timer {
  constructor(callback, milliseconds, rest) {
    this.machine = machine();
    this.own = this.machine.setTimeout(() => callback(...rest), Math.max(milliseconds, 1));
  }

  ref() {
    return this;
  }

  unref() {
    this.machine.unref(this.own);
    return this;
  }
}

// The library is loaded after this, and has only the world's time.
timers.setTimeout = (callback, milliseconds = 1, ...rest) =>
  new Timer(callback, milliseconds, rest);
timers.clearTimeout = (timer) => timer?.machine.clearTimeout(timer.own);
performance.now = () => machine().monotonic();
process.hrtime.bigint = () => BigInt(Math.round(machine().monotonic() * 1e6));
Math.random = () => random.number();

const library = require('../../lib/index.js');
const { ClusterBackend } = require('../../lib/cluster/backend.js');
const { createLockManager } = require('../../lib/extensions/manager/lock-manager.js');
const { scopedLocks } = require('../../lib/extensions/objects/scoped.js');
const { MemoryAdapter, MemoryServer, Network } = require('../cluster/memory.js');
const { Recorder } = require('./history.js');
const { TTL, scopes } = require('./scopes.js');
const { SharedSet } = require('./set.js');
const { states } = require('./table.js');
const { User } = require('./user.js');

const BUCKET = 'memory';
/** A little longer than a time-out waits for the holders in its error (lib/cluster/backend.js). */
const LOOK = 1100;
/** How many milliseconds of the world count as a second of the plan. */
const PACE = 5_000;

const recorderOf = (actor) => new Recorder(plan.folder, actor, () => world.now);
const recorder = recorderOf('world');
const fault = (judge, what, more = {}) => recorder.record('fault', { judge, what, ...more });

process.removeAllListeners('warning');
process.on('warning', (warning) => {
  if (warning.name !== 'LockWarning') fault('quiet', `a warning: ${warning.stack}`);
});
process.on('unhandledRejection', (error) =>
  fault('quiet', `an unhandled rejection: ${error?.stack}`),
);

const server = new MemoryServer(new Own(world, { rate: random.pick([0.95, 1, 1.05]) }), {
  ttl: TTL,
});

/** Opens a bucket at the server, over a network of its own. */
function open(own, name) {
  const network = new Network(world, own, server);
  const adapter = new MemoryAdapter(network);
  const seen = new Set();
  const onChange = ({ state }) => {
    if (!states.includes(state)) fault('errors', `${name} is ${state}, which no table has`);
    if (!seen.has(state)) recorder.record('state', { whom: name, state });
    seen.add(state);
  };
  const info = { clientId: name };
  const backend = new ClusterBackend(adapter, { ttl: TTL, clock: own, info, onChange });
  const close = () => backend.close();
  const locks = createLockManager(backend);
  return { locks, backend, network, close, [Symbol.asyncDispose]: close };
}

const clients = [];

function start() {
  const id = `p${clients.length + 1}.t0`;
  const own = new Own(world, { rate: random.pick([0.96, 1, 1.04]), random: () => random.number() });
  const client = { id, machine: own, isKilled: false, networks: new Set(), timers: 0 };
  /** Sets a timer of the torture's own, which is not counted as left. */
  const after = (ms, call) => {
    client.timers++;
    return own.setTimeout(() => {
      client.timers--;
      call();
    }, ms);
  };
  running.run(own, () => {
    const openOne = () => {
      const opened = open(own, id);
      client.networks.add(opened.network);
      return opened;
    };
    const bucket = openOne();
    const place = { bucket: BUCKET, locks: bucket.locks, asBucket: bucket, open: openOne };
    const stage = {
      id,
      set: new SharedSet(plan.folder),
      library: { ...library, ...scopedLocks({}) },
      places: [{ ...place, close: bucket.close }],
      now: () => world.now,
      recorder: recorderOf(id),
      isMain: true,
      lacks: scopes.memory.lacks,
      canBeAway: true,
      sleep: (ms) => new Promise((resolve) => after(ms, resolve)),
      later: (ms, call) => own.unref(after(ms, call)),
      turn: () => new Promise((resolve) => after(0, resolve)),
      collect() {},
      block: (ms) => {
        if (own.isStopped) return;
        own.stop();
        world.after(ms, () => client.isKilled || own.resume());
      },
      end() {},
    };
    client.stage = stage;
    client.user = new User(stage, {
      id,
      seed,
      names: plan.names ?? 12,
      loops: plan.loops ?? random.pick([1, 2, 4]),
      only: plan.only,
      pace: plan.pace ?? random.pick([20, 200]),
    });
    client.run = client.user.run().then(() => {
      client.isDone = true;
    });
  });
  clients.push(client);
  return client;
}

const SIDES = ['call', 'reply'];
const alive = () => clients.filter(({ isKilled }) => !isKilled);
const networkOf = ({ networks }) => random.pick([...networks]);

function heal(client) {
  for (const network of client.networks) {
    const drops = { call: false, reply: false };
    Object.assign(network, { drops, isCut: false, isRefused: false, delay: 1, isTwice: false });
  }
}

function stop(client, milliseconds, asleep) {
  const { machine: own } = client;
  if (own.isStopped) return;
  own.stop({ asleep });
  client.isAsleep = true;
  world.after(milliseconds, () => resume(client));
}

function resume(client) {
  if (client.isKilled || !client.isAsleep) return;
  client.isAsleep = false;
  client.machine.resume();
}

/** Each fault is called with a client and a number of milliseconds. */
const faults = {
  cut: (client) => networkOf(client).cut(),
  drop: (client) => Object.assign(networkOf(client).drops, { [random.pick(SIDES)]: true }),
  away: (client) => Object.assign(networkOf(client), { isCut: true }),
  refuse: (client) => Object.assign(networkOf(client), { isRefused: true }).cut(),
  delay: (client, ms) => Object.assign(networkOf(client), { delay: ms / 10 }),
  twice: (client) => Object.assign(networkOf(client), { isTwice: true }),
  wall: (client, ms) => client.machine.setWallBy(random.chance(0.5) ? ms : -ms),
  stop: (client, ms) => stop(client, ms, false),
  sleep: (client, ms) => stop(client, ms, true),
  kill(client) {
    if (alive().length < 3 || random.chance(0.7)) return;
    client.isKilled = true;
    recorder.record('doomed', { whom: client.id });
    client.machine.kill();
    for (const network of client.networks) network.cut();
    start();
  },
  stopServer(_client, ms) {
    if (server.machine.isStopped) return;
    server.machine.stop();
    world.after(ms, () => server.machine.resume());
  },
  restart: () => server.restart({ data: random.chance(0.5) }),
  failOver() {
    const isWhole = random.chance(0.5);
    server.failOver(({ ref }) => isWhole || ref % 2 === 1);
  },
};

async function act() {
  const usable = plan.isCalm ? [] : (plan.faults ?? scopes.memory.faults);
  const end = world.now + plan.seconds * PACE;
  while (world.now < end) {
    await world.advance(random.pick([5, 100, 1000, TTL / 2]) * random.number());
    if (usable.length === 0) continue;
    const name = random.pick(usable);
    const ms = 1 + random.below(2 * TTL);
    recorder.record('trouble', { name, ms });
    const client = random.pick(alive());
    faults[name](client, ms);
    if (random.chance(0.6)) heal(client);
  }
}

/** Ends all faults, waits for the end of all users, and looks what is left. */
async function end() {
  server.machine.resume();
  for (const client of alive()) {
    resume(client);
    heal(client);
    client.machine.run(() => client.user.stop());
  }
  const isDone = () => alive().every(({ isDone: done, user }) => done && user.open.size === 0);
  if (await within(isDone, 1000 * TTL)) {
    await finish();
    return;
  }
  for (const { id, user } of alive()) {
    if (user.open.size > 0) fault('settles', `${id} hangs`, { open: [...user.open].slice(0, 20) });
  }
}

async function within(isSo, milliseconds) {
  try {
    await world.until(isSo, milliseconds);
    return true;
  } catch {
    return false;
  }
}

async function finish() {
  let closed = 0;
  for (const { machine: own, stage, user } of alive()) {
    own.run(async () => {
      await user.close();
      await stage.places[0].close();
      closed++;
    });
  }
  if (!(await within(() => closed === alive().length, 10 * TTL))) {
    fault('left', 'a bucket is not closed');
    return;
  }
  // A query for holders whose connection was replaced gives up by then.
  await world.advance(LOOK);
  for (const { id, machine: own, timers } of alive()) {
    if (own.timers > timers) fault('left', `${id} has ${own.timers - timers} timers`);
  }
  // The leases of killed sessions expire.
  await world.advance(2 * TTL);
  server.sweep();
  for (const { clientId, name, ref } of server.twice) {
    fault('tokens', `request ${ref} of ${clientId} for '${name}' is granted twice`);
  }
  for (const [what, count] of Object.entries(server.left)) {
    if (count > 0) fault('left', `${count} ${what} are left`);
  }
}

async function main() {
  for (let i = 0; i < (plan.actors ?? 4); i++) start();
  await act();
  await end();
  recorder.record('over');
  process.disconnect();
}

main();
