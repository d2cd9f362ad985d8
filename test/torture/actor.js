'use strict';

/**
 * The program of an actor: a process with a user in its main thread and in each worker. It obeys
 * the messages of the round (round.js) and reports on its users.
 */

const timers = require('node:timers');

/** The library's pending timers. The functions are replaced before the library is loaded. */
const live = new Set();
for (const [name, isOnce] of Object.entries({ setTimeout: true, setInterval: false })) {
  const original = timers[name];
  timers[name] = (callback, ...rest) => {
    const timer = original(
      (...given) => {
        if (isOnce) live.delete(timer);
        callback(...given);
      },
      ...rest,
    );
    live.add(timer);
    return timer;
  };
}
for (const name of ['clearTimeout', 'clearInterval']) {
  const original = timers[name];
  timers[name] = (timer) => {
    live.delete(timer);
    original(timer);
  };
}

const fs = require('node:fs');
const path = require('node:path');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { AtomicGate, FileGate } = require('./gate.js');
const { Recorder, now } = require('./history.js');
const { scopes } = require('./scopes.js');
const { SharedSet } = require('./set.js');
const { away, kinds } = require('./table.js');
const { User, namesOf } = require('./user.js');

/** The actor's own timers are not counted. */
const { setImmediate, setTimeout, setInterval, clearInterval } = globalThis;
/** From --expose-gc: see round.js. */
const { gc } = globalThis;

const BEAT_MS = 20;
/** This folder lists the open descriptors of the process. */
const DESCRIPTORS = process.platform === 'darwin' ? '/dev/fd' : '/proc/self/fd';
/** How often an ending actor looks for leftovers, every 10 ms. */
const LAST_LOOKS = 600;
/** The message of the error that ends a thread. */
const LAST_WORDS = 'the end of an actor';

const pause = new Int32Array(new SharedArrayBuffer(4));

/** The descriptors of the process, and what keeps the event loop alive. */
function resources() {
  const count = {};
  for (const one of process.getActiveResourcesInfo()) count[one] = (count[one] ?? 0) + 1;
  return { descriptors: fs.readdirSync(DESCRIPTORS).length, active: count };
}

// Otherwise they would open, or keep the process alive, only after the first count.
if (isMainThread) {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  process.channel.ref();
}

/** This thread with its user. */
class Thread {
  #plan;
  #beat;
  #before;

  constructor(plan, gate) {
    this.#plan = plan;
    const { id, folder } = plan;
    this.#before = resources();
    this.recorder = new Recorder(folder, id);
    this.#listen();
    const scope = scopes[plan.scope];
    const { library, places, end, guarded } = scope.open(plan);
    this.places = places;
    this.endScope = end;
    for (const { bucket, asBucket } of places) {
      asBucket?.addEventListener?.('lost', () => this.recorder.record('session lost', { bucket }));
    }
    const stage = {
      id,
      gate,
      // After harm to files, lost locks protect nothing. On Wine, appends overwrite one another.
      set: plan.isHarmed || process.platform === 'win32' ? undefined : new SharedSet(folder),
      guarded,
      library,
      places,
      now,
      recorder: this.recorder,
      isMain: isMainThread,
      lacks: scope.lacks,
      canBeAway: scope.promises.losses,
      sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      later: (ms, call) => setTimeout(call, ms).unref(),
      turn: () => new Promise((resolve) => setImmediate(resolve)),
      collect: gc,
      block: (ms) => Atomics.wait(pause, 0, 0, ms),
      end: (how) => this.end(how),
    };
    this.user = new User(stage, plan);
    this.isDone = false;
  }

  /** Records warnings and unhandled rejections as faults. */
  #listen() {
    const fault = (what) => this.recorder.record('fault', { judge: 'quiet', what });
    process.removeAllListeners('warning');
    process.on('warning', (warning) => {
      if (warning.name !== 'LockWarning') fault(`a warning: ${warning.code} ${warning.stack}`);
    });
    process.on('unhandledRejection', (error) => {
      fault(`an unhandled rejection: ${error?.stack ?? error}`);
    });
  }

  async go() {
    this.#beat = setInterval(() => this.recorder.record('beat'), BEAT_MS);
    this.#beat.unref();
    await this.user.run();
    this.isDone = true;
  }

  get status() {
    const { user, recorder, isDone } = this;
    return { isDone: isDone && user.open.size === 0, count: recorder.count, open: [...user.open] };
  }

  /** Ends this thread, whatever it holds or waits for. */
  end(how) {
    const whom = how === 'exit' ? this.#plan.process : this.#plan.id;
    this.recorder.record('doomed', { whom });
    const { gate } = this.user.stage;
    gate?.doom(gate instanceof FileGate ? whom : undefined);
    if (how === 'threadThrow') {
      this.user.ending = undefined;
      process.nextTick(() => {
        throw new Error(LAST_WORDS);
      });
      return;
    }
    process.exit(0);
  }

  /** Closes everything, and checks that nothing is left. */
  async finish() {
    clearInterval(this.#beat);
    const record = (what) => this.recorder.record('finishes', { what });
    await this.user.close();
    record('what it opened later');
    await Promise.all(this.places.map((place) => place.close?.()));
    record('its buckets');
    await this.endScope();
    record('the clients of its buckets');
    // Handles close in the next turns of the event loop, connections of `fetch` after seconds.
    let left = this.#left;
    let recorded = '';
    for (let i = 0; i < LAST_LOOKS && left !== ''; i++) {
      // On a busy machine this actor may be killed before its last look.
      if (left !== recorded) record(`all but ${left}`);
      recorded = left;
      gc();
      await new Promise((resolve) => setTimeout(resolve, 10));
      left = this.#left;
    }
    if (left === '') record('all');
    else this.recorder.record('fault', { judge: 'left', what: `left: ${left}` });
  }

  /** @returns {string} what there is now and was not before; '' if nothing */
  get #left() {
    const words = live.size > 0 ? [`${live.size} timers: ${[...live].map(String)}`] : [];
    // Other threads of the process may still have descriptors.
    if (!isMainThread || this.#plan.hasDefault) return words.join(', ');
    const after = resources();
    const { active, descriptors } = this.#before;
    // The history has one descriptor more.
    const more = after.descriptors - descriptors - 1;
    if (more > 0) words.push(`${more} descriptors`);
    const isMore = (kind) => kind !== 'Timeout' && after.active[kind] > (active[kind] ?? 0);
    return [...words, ...Object.keys(after.active).filter(isMore)].join(', ');
  }
}

/** The process, in its main thread. */
class Process {
  #plan;
  #memory;
  #thread;
  #workers = new Map();
  #numbers = 1;
  #stopped = false;

  constructor(plan) {
    this.#plan = plan;
    const names = namesOf(plan.names).filter(({ kind }) => kinds[kind].isSafe);
    if (plan.gate === 'atomics') {
      this.#memory = AtomicGate.memory(
        plan.bucketNames.flatMap((bucket) => names.map(({ name }) => `${bucket}~${name}`)),
      );
    }
    const own = `${plan.process}.t0`;
    this.#thread = new Thread({ ...plan, id: own }, gateOf(plan, own, this.#memory, 1, 0));
    process.on('message', (message) => this[message.do](message));
  }

  async ready() {
    await Promise.all(this.#thread.places.map(({ asBucket }) => this.#open(asBucket)));
    process.send({ ready: true });
  }

  async #open(bucket) {
    for (;;) {
      try {
        return await bucket?.ready;
      } catch (error) {
        // The server is away, or the files were harmed: retry.
        const isAnnounced = away.includes(error?.code) || /^ERR_WEB_LOCKS_SCOPE/.test(error?.code);
        if (!isAnnounced) throw error;
      }
    }
  }

  go() {
    for (let i = 1; i <= this.#plan.threads; i++) this.#spawn(i, 1);
    this.#thread.go();
  }

  #spawn(i, life) {
    const number = ++this.#numbers;
    const id = `${this.#plan.process}.t${i}-${life}`;
    const isHostile = this.#plan.hasHostile && i % 2 === 1;
    const plan = { ...this.#plan, id, isHostile };
    const worker = new Worker(__filename, {
      workerData: { plan, memory: this.#memory, number, slot: i },
    });
    const one = { id, number, worker, status: { isDone: false, count: 0, open: [] } };
    this.#workers.set(i, one);
    one.exited = new Promise((resolve) => {
      worker.on('exit', (code) => {
        if (!one.isDoomed && code !== 0) this.#fault(`${id} ends with ${code}`);
        if (!this.#stopped) this.#spawn(i, life + 1);
        else this.#workers.delete(i);
        resolve();
      });
    });
    worker.on('message', (message) => {
      if (message.status) one.status = message.status;
      if (message.doomed) one.isDoomed = true;
    });
    worker.on('error', (error) => {
      one.isDoomed = true;
      if (error.message !== LAST_WORDS) this.#fault(`${id} fails: ${error.stack}`);
    });
  }

  #fault(what) {
    this.#thread.recorder.record('fault', { judge: 'quiet', what });
  }

  stop() {
    this.#stopped = true;
    this.#thread.user.stop();
    for (const { worker } of this.#workers.values()) worker.postMessage({ do: 'stop' });
  }

  ping({ number }) {
    const statuses = { [`${this.#plan.process}.t0`]: this.#thread.status };
    for (const { id, status } of this.#workers.values()) statuses[id] = status;
    process.send({ pong: number, statuses });
  }

  /** Blocks the event loop at once, or as soon as the user has a lock. */
  block({ milliseconds, isHeld }) {
    const { recorder, user } = this.#thread;
    const whom = this.#plan.process;
    const block = () => {
      recorder.record('stopped', { whom });
      user.stage.block(milliseconds);
      recorder.record('resumed', { whom });
    };
    if (isHeld) user.onHold = block;
    else block();
  }

  /** Ends a thread: a worker, or the process. */
  end({ how, which }) {
    const all = [...this.#workers.values()];
    if (how === 'exit') {
      this.#thread.user.ending = how;
      return;
    }
    if (all.length === 0 || this.#stopped) return;
    const one = all[which % all.length];
    one.isDoomed = true;
    if (how !== 'terminate') {
      one.worker.postMessage({ do: 'end', how });
      return;
    }
    this.#thread.recorder.record('doomed', { whom: one.id });
    const { gate } = this.#thread.user.stage;
    gate?.doom(gate instanceof FileGate ? one.id : one.number);
    one.worker.terminate();
  }

  /** Sends the locks that are held or pending, as this process sees them. */
  async look() {
    try {
      process.send({ found: await this.#find() });
    } catch (error) {
      process.send({ found: `a query fails: ${error.message}` });
    }
  }

  async #find() {
    const found = [];
    for (const { bucket, locks } of this.#thread.places) {
      const { held, pending } = await locks.query({ details: true });
      const plain = ({ blockedBy, token, ...info }) => ({ ...info, token: String(token) });
      found.push({ bucket, held: held.map(plain), pending: pending.map(plain) });
    }
    return found;
  }

  async finish() {
    const exits = [...this.#workers.values()].map(({ exited }) => exited);
    for (const { worker } of this.#workers.values()) worker.postMessage({ do: 'finish' });
    await Promise.all(exits);
    await this.#thread.finish();
    process.disconnect();
  }
}

/** @returns {any} */
function gateOf(plan, id, memory, number, slot) {
  if (plan.gate === 'atomics') return new AtomicGate(memory, number, slot);
  return plan.gate === 'files' ? new FileGate(path.join(plan.folder, 'gate'), id) : undefined;
}

/** Runs an actor's worker. */
function work({ plan, memory, number, slot }) {
  const thread = new Thread(plan, gateOf(plan, plan.id, memory, number, slot));
  const tell = setInterval(() => parentPort.postMessage({ status: thread.status }), 100);
  tell.unref();
  const does = {
    stop: () => thread.user.stop(),
    end({ how }) {
      parentPort.postMessage({ doomed: true });
      thread.user.ending = how;
    },
    async finish() {
      clearInterval(tell);
      await thread.finish();
      parentPort.close();
    },
  };
  parentPort.on('message', (message) => does[message.do](message));
  thread.go();
}

if (isMainThread) new Process(JSON.parse(process.argv[2])).ready();
else work(workerData);
