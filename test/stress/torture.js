'use strict';

/**
 * Tortures a lock manager from many threads and checks, in shared memory, what it promises. By
 * hand:
 *
 *   npm run torture -- --minutes 30 --workers 4 --seed 7
 *
 * Options: --minutes or --seconds, --seed, --workers (2 to 32), --names (1 to 1000), --buckets,
 * --loops (in each thread), --no-kills, --no-steal, --no-waiting (every request says
 * `ifAvailable`), --hostile (every other worker is a hostile user, hostile.js),
 * --subject node (Node.js's own `worker_threads.locks`, as a control; it does not survive kills and
 * steals for long). The seed fixes the decisions of each thread, not how threads interleave.
 */

const path = require('node:path');
const { parseArgs } = require('node:util');
const { Worker } = require('node:worker_threads');
const { Actor, generator } = require('./actor.js');
const { Board } = require('./board.js');

/** What a lock manager may take to call back after a grant, in turns of the thread's event loop. */
const PATIENCE_BEATS = 100;
const STALL_MS = 2000;

const EXPECTED_END = /^the end of an actor$/;

class Torture {
  #random;
  #threads = 0;
  #lives = new Map();
  #suspects = new Map();
  #stalledAt;
  #lastGrants = 0;

  constructor(options) {
    this.options = options;
    this.board = new Board({ slots: options.workers + 1, names: options.names });
    this.#random = generator(options.seed);
    // The main thread is the actor in slot 0, and sees all lock managers.
    this.board.clean(0, ++this.#threads);
    this.actor = new Actor(this.board, this.#actorData(0));
    this.failures = [];
    this.liveBlocks = subjectOf(options).liveBlocks;
  }

  #actorData(slot) {
    const { subject, buckets, names, steal, waiting, kills, hostile, seed } = this.options;
    const own =
      (seed ^ Math.imul(slot + 1, 0x9e3779b1) ^ Math.imul(this.#threads, 0x85ebca6b)) >>> 0;
    const shape = { subject, buckets, names, steal, waiting };
    const [ends, isHostile] = [kills && slot > 0, hostile && slot % 2 === 1];
    return { slot, seed: own, ...shape, ends, hostile: isHostile };
  }

  async run() {
    const started = performance.now();
    // The first request leaves a record with the agent for the next one: it belongs to the baseline.
    await this.actor.managers[0].request('baseline', () => {});
    const baseline = this.liveBlocks?.();
    for (let slot = 1; slot < this.board.slots; slot++) this.#spawn(slot);
    const acting = this.actor.run(this.options.loops);
    const timers = [setInterval(() => this.#watch(), 200)];
    if (this.options.kills) timers.push(setInterval(() => this.#kill(), 20));
    if (this.options.verbose) timers.push(setInterval(() => this.#print(started), 10_000));
    await new Promise((resolve) => setTimeout(resolve, this.options.seconds * 1000));
    timers.forEach(clearInterval);

    Atomics.store(this.board.stop, 0, 1);
    const finished = Promise.all([
      acting,
      ...[...this.#lives.values()].map(({ exited }) => exited),
    ]);
    await Promise.race([finished, this.#deadline(10_000)]);
    await this.#checkEmpty();
    this.#checkMemory(baseline);
    return {
      ...this.board.report(),
      failures: this.failures,
      seconds: (performance.now() - started) / 1000,
    };
  }

  #deadline(ms) {
    return new Promise((resolve) => {
      setTimeout(() => {
        const slots = [...this.#lives.keys()].join();
        this.#fail('lost', `not finished ${ms} ms after the end; still there: ${slots}`);
        resolve();
      }, ms).unref();
    });
  }

  #fail(kind, message) {
    this.board.count(kind);
    this.failures.push(message);
    console.error(message);
  }

  // Workers, their lives and ends

  #spawn(slot) {
    this.board.clean(slot, ++this.#threads);
    const worker = new Worker(path.join(__dirname, 'actor.js'), {
      workerData: {
        board: this.board.shape,
        actor: this.#actorData(slot),
        loops: this.options.loops,
      },
    });
    const life = { worker, beats: 0 };
    life.exited = new Promise((resolve) => {
      worker.on('exit', () => {
        this.#lives.delete(slot);
        if (!this.board.stopped) this.#spawn(slot);
        resolve();
      });
    });
    worker.on('error', (error) => {
      if (!EXPECTED_END.test(error.message)) this.#fail('crash', `a worker failed: ${error.stack}`);
    });
    worker.on('message', (message) => {
      if (message === 'hangs') setTimeout(() => worker.terminate(), 20);
    });
    this.#lives.set(slot, life);
  }

  /**
   * Terminates a random worker, whatever it is doing: loading, requesting, inside a callback,
   * exiting.
   */
  #kill() {
    if (this.#random() > 0.2) return;
    const lives = [...this.#lives];
    if (lives.length === 0) return;
    const [slot, { worker }] = lives[Math.floor(this.#random() * lives.length)];
    this.board.doom(slot);
    this.board.count('kills');
    worker.terminate();
  }

  // Lost wake-ups

  /**
   * A lock that the manager gave to a thread, while that thread turned its event loop many times
   * and was not told.
   */
  async #watch() {
    // Node.js's own does not know the option, and gives its locks no tokens.
    const snapshots = await Promise.all(
      this.actor.managers.map((manager) => manager.query({ details: true })),
    );
    if (this.board.stopped) return;
    this.#watchStall(snapshots.some(({ pending }) => pending.length > 0));
    const seen = new Map();
    for (const info of snapshots.flatMap(({ held }) => held)) this.#suspect(info, seen);
    this.#suspects = seen;
  }

  #suspect({ name: title, clientId, token }, seen) {
    const name = Number(title.split(' ')[1]);
    const slot = this.#slotOf(clientId);
    if (slot === undefined || (this.options.steal && name % 4 === 3)) return;
    if (this.board.isInside(slot, name) || this.board.isDoomed(slot)) return;
    const beat = Atomics.load(this.board.heartbeat, slot);
    // The token: of a name that many want, its thread may just have been granted the next lock.
    const key = `${title} ${clientId} ${token}`;
    const since = this.#suspects.get(key) ?? { beat };
    seen.set(key, since);
    if (beat - since.beat < PATIENCE_BEATS) return;
    this.#fail(
      'lost',
      `${clientId} holds '${title}' and was not told in ${beat - since.beat} turns`,
    );
    seen.delete(key);
  }

  #slotOf(clientId) {
    const threadId = Number(clientId.split('-')[2]);
    if (threadId === 0) return 0;
    for (const [slot, { worker }] of this.#lives) if (worker.threadId === threadId) return slot;
    return undefined;
  }

  #watchStall(isPending) {
    const { grants } = this.board.report();
    const now = performance.now();
    if (grants !== this.#lastGrants || !isPending) this.#stalledAt = now;
    this.#lastGrants = grants;
    if (now - (this.#stalledAt ?? now) < STALL_MS) return;
    this.#fail('lost', `no grant for ${STALL_MS} ms while requests are pending`);
    this.#stalledAt = now;
  }

  // The end

  async #checkEmpty() {
    for (const manager of this.actor.managers) {
      const { held, pending } = await manager.query();
      if (held.length + pending.length > 0) {
        this.#fail(
          'lost',
          `not empty at the end: ${JSON.stringify({ held, pending }).slice(0, 500)}`,
        );
      }
    }
  }

  /** In a checked build (docs/RELIABILITY.md), which counts: all that the workers made is gone. */
  #checkMemory(baseline) {
    const blocks = this.liveBlocks?.();
    if (blocks === baseline) return;
    this.#fail('leak', `${baseline} native allocations before, ${blocks} after`);
  }

  #print(started) {
    const seconds = ((performance.now() - started) / 1000).toFixed(0);
    console.log(`${seconds.padStart(5)} s  ${summary(this.board.report())}`);
  }
}

/** The module that counts native allocations, if it does. */
const subjectOf = ({ subject }) =>
  subject === 'node' ? {} : require('../../lib/backend/native.js');

const summary = (report) =>
  Object.entries(report)
    .filter(([, value]) => typeof value === 'number')
    .map(([key, value]) => `${key} ${Number.isInteger(value) ? value : value.toFixed(1)}`)
    .join(', ');

/**
 * @param {object} options seconds, and any of seed, workers, names, buckets, kills, steal, hostile,
 *   subject, verbose
 * @returns what happened: counts by kind, faults by kind, and `failures` in words
 */
function torture({
  seconds,
  seed = 1,
  workers = 4,
  names = 20,
  buckets = 2,
  loops = 4,
  ...others
}) {
  const defaults = {
    kills: true,
    steal: true,
    waiting: true,
    hostile: false,
    subject: 'web-locks',
    verbose: false,
  };
  const usable = others.subject === 'node' ? 1 : buckets;
  const options = { ...defaults, ...others, seconds, seed, workers, loops, buckets: usable };
  options.names = Math.ceil(names / usable) * usable;
  return new Torture(options).run();
}

async function main() {
  const number = { type: 'string' };
  const { values } = parseArgs({
    options: {
      minutes: number,
      seconds: number,
      seed: number,
      workers: number,
      names: number,
      buckets: number,
      loops: number,
      'no-kills': { type: 'boolean' },
      'no-steal': { type: 'boolean' },
      'no-waiting': { type: 'boolean' },
      hostile: { type: 'boolean' },
      subject: number,
    },
  });
  const { minutes, seconds = minutes === undefined ? 60 : minutes * 60, subject, ...rest } = values;
  const numbers = ['seed', 'workers', 'names', 'buckets', 'loops'].filter((key) => key in rest);
  const options = {
    ...Object.fromEntries(numbers.map((key) => [key, Number(rest[key])])),
    seconds: Number(seconds),
    kills: !values['no-kills'],
    steal: !values['no-steal'],
    waiting: !values['no-waiting'],
    hostile: Boolean(values.hostile),
    subject: subject ?? 'web-locks',
    verbose: true,
  };
  options.seed ??= Math.floor(Math.random() * 2 ** 31);
  console.log(`Node.js ${process.version}, ${JSON.stringify(options)}`);
  const report = await torture(options);
  const { exclusion, units, fifo, lost, crash, leak } = report;
  const faults = exclusion + units + fifo + lost + crash + leak;
  console.log(`${summary(report)}\n${faults === 0 ? 'passed' : 'FAILED'}`);
  process.exitCode = faults > 0 ? 1 : 0;
}

if (require.main === module) main();

module.exports = { torture };
