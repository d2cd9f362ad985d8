'use strict';

/**
 * One round of a torture: for some seconds, actors of a scope use locks while faults happen; then
 * all of them end, and the judges examine the history.
 */

const { fork } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { FileGate } = require('./gate.js');
const { Recorder, readHistory } = require('./history.js');
const { judge } = require('./judges.js');
const { Random } = require('./random.js');
const { faults, filesIn, harms, wait, within } = require('./faults.js');
const { bucketOf, scopes } = require('./scopes.js');
const { readSets } = require('./set.js');
const { root } = require('../helpers/root.js');

const PROGRAM = path.join(__dirname, 'actor.js');
/** How often the round looks whether its actors make progress. */
const LOOK_MS = 100;
/** An actor hangs after so many looks without an event, if its event loop runs. */
const PATIENCE = 80;
/** After so many milliseconds a process that does not answer hangs, however busy the machine is. */
const SILENCE_MS = 60_000;
/** How long a hanging actor may take to query its locks. */
const LOCKS_MS = 3000;

/** Node.js prints the line and the error if a promise is rejected when the stack overflows. */
const FULL_STACK =
  /^Exception in PromiseRejectCallback:\n[^\n]*\n[^\n]*\n[^\n]*\n+RangeError: Maximum call stack size exceeded\n+/gm;
/** The same, if no stack was left to print the line, the error, or both. */
const NO_STACK =
  /^Exception in PromiseRejectCallback:\n+(?:[^\n]*:\d+\n[^\n]*\n *\^+\n+)?(?:RangeError: Maximum call stack size exceeded\n*)?/gm;
/** A thread prints this if an error ends it, as actors do. */
const END_OF_ACTOR = /^.*the end of an actor[\s\S]*?\n\n.*\n?/gm;

/** The unexpected part of what an actor printed. */
function unexpectedIn(output) {
  return output.replace(END_OF_ACTOR, '').replace(NO_STACK, '').trim();
}

/** An actor's process. */
class Actor {
  isReady = false;
  isDoomed = false;
  statuses = {};
  pongs = 0;
  output = '';
  #waiting = [];

  constructor(name, plan, env) {
    this.name = name;
    // `gc` comes from the flag, not from a new context: Node.js 22 prints "Exception thrown during
    // bootstrapping" if a thread is terminated while it makes a context that has a `gc`.
    this.child = fork(PROGRAM, [JSON.stringify(plan)], {
      execArgv: [...process.execArgv, '--expose-gc'],
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env: { ...process.env, ...env },
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on('data', (chunk) => {
        const output = (this.output + chunk).replaceAll('\r\n', '\n');
        this.output = output.replace(FULL_STACK, '').slice(-20_000);
      });
    }
    this.child.on('message', (message) => this.#receive(message));
    this.child.on('error', () => {});
    this.exited = new Promise((resolve) => {
      this.child.on('exit', (code, signal) => {
        this.end = { code, signal };
        resolve(this.end);
        this.#notify();
      });
    });
  }

  #receive(message) {
    if (message.ready) this.isReady = true;
    if (message.pong) {
      this.pongs++;
      this.statuses = message.statuses;
    }
    if (message.found) this.found = message.found;
    this.#notify();
  }

  #notify() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  async until(condition) {
    while (!this.end && !condition()) await new Promise((resolve) => this.#waiting.push(resolve));
  }

  tell(what, more = {}) {
    if (this.child.connected) this.child.send({ do: what, ...more }, () => {});
  }

  get isDone() {
    // The round pings it only after it sent 'stop'.
    return this.pongs > 0 && Object.values(this.statuses).every(({ isDone }) => isDone);
  }

  get count() {
    return Object.values(this.statuses).reduce((sum, { count }) => sum + count, 0);
  }
}

/** The common part of all rounds: a folder with the history, which is judged at the end. */
class BasicRound {
  constructor(plan) {
    this.plan = plan;
    this.folder = fs.mkdtempSync(path.join(root, 'torture-'));
    fs.mkdirSync(path.join(this.folder, 'history'));
    this.recorder = new Recorder(this.folder, 'round');
  }

  record(type, more) {
    return this.recorder.record(type, more);
  }

  fault(judgeName, what, more = {}) {
    this.record('fault', { judge: judgeName, what, ...more });
  }

  /** @returns {{ faults: any[], events: any[] }} */
  judge() {
    this.record('sets', { lines: [...readSets(this.folder), ...(this.lines ?? [])] });
    this.recorder.close();
    const events = readHistory(path.join(this.folder, 'history'));
    return { events, faults: judge(events, promisesOf(this.plan)) };
  }

  remove() {
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

class Round extends BasicRound {
  actors = [];
  #numbers = 0;
  #isStopping = false;
  #pings = 0;

  /**
   * @param {any} plan `scope`, `seed`, `round`, `seconds`; and optionally `actors`, `threads`,
   * `names`, `loops`, `faults`, `harms`, `only`, `pace`
   */
  constructor(plan) {
    const scope = scopes[plan.scope];
    const seed = `${plan.seed} ${plan.round}`;
    const random = new Random(seed, 'round');
    // Some rounds have no faults, and the scope then promises more.
    const isCalm = plan.faults ? plan.faults.length === 0 : random.chance(0.2);
    super({
      ...plan,
      isCalm,
      // In most rounds slow operations are rare, so that more happens.
      slowness: plan.slowness ?? random.pick([1, 0.05, 0.05]),
      hasHostile: plan.hostile ?? random.chance(0.25),
      seed,
      names: plan.names ?? random.pick([6, 12, 40]),
      loops: plan.loops ?? random.pick([1, 4, 8]),
      pace: plan.pace ?? random.pick([0, 0, 0.5, 5]),
      buckets: plan.buckets ?? scope.buckets,
      threads: plan.threads ?? scope.threads,
    });
    Object.assign(this, { scope, seed, random });
    for (const name of ['gate', 'above']) fs.mkdirSync(path.join(this.folder, name));
    this.directory = path.join(this.folder, 'above', 'locks');
    fs.mkdirSync(this.directory, { mode: 0o700 });
    const { isHarmed } = plan;
    const isFiles = scope.processes > 1 || this.plan.threads === 0;
    if (scope.gate !== false && !isHarmed) this.gate = isFiles ? 'files' : 'atomics';
    this.isHarmed = isHarmed;
    this.hasDefault = plan.hasDefault ?? (!isHarmed && random.chance(0.3));
  }

  /** Starts an actor. */
  async start() {
    const name = `p${++this.#numbers}`;
    const { folder, directory } = this;
    const buckets = Array.from({ length: this.plan.buckets }, (_, i) => bucketOf(i));
    const { gate, hasDefault, plan } = this;
    const own = { process: name, folder, directory, gate, hasDefault };
    const { proxies, ...more } = (await this.scope.planOf?.(this)) ?? {};
    const actor = new Actor(
      name,
      { ...plan, ...own, bucketNames: ['default', ...buckets], ...more },
      { WEB_LOCKS_DIRECTORY: directory },
    );
    actor.more = { proxies };
    this.actors.push(actor);
    await within(
      SILENCE_MS,
      actor.until(() => actor.isReady),
    );
    if (!actor.isReady && !actor.end) {
      this.fault('settles', `${name} does not open its buckets: ${this.#threadsOf(actor)}`);
      this.doom(actor);
      actor.child.kill('SIGKILL');
    }
    actor.tell('go');
    if (this.#isStopping) actor.tell('stop');
    return actor;
  }

  /** From now on, the actor's locks do not count. */
  doom(actor) {
    actor.isDoomed = true;
    this.record('doomed', { whom: actor.name });
    if (this.gate === 'files')
      new FileGate(path.join(this.folder, 'gate'), 'round').doom(actor.name);
  }

  get alive() {
    return this.actors.filter(({ end, isDoomed }) => !end && !isDoomed);
  }

  async run() {
    const { plan } = this;
    this.record('round', { plan, node: process.version });
    await this.scope.begin?.(this);
    const count = plan.actors ?? this.scope.processes;
    await Promise.all(Array.from({ length: count }, () => this.start()));
    await this.#act();
    this.#isStopping = true;
    for (const actor of this.alive) actor.tell('stop');
    await this.scope.heal?.(this);
    const isDone = await this.#until(() => this.alive.every((actor) => actor.isDone), 'settles');
    if (isDone) await this.#checkLocks();
    if (isDone) await this.#finish();
    for (const { child, end } of this.actors) {
      if (!end) child.kill('SIGKILL');
    }
    await Promise.all(this.actors.map(({ exited }) => exited));
    if (isDone) await this.scope.left?.(this);
    await this.scope.end?.(this);
    this.#judgeEnds();
    return this.judge();
  }

  async #act() {
    const { random } = this;
    const end = performance.now() + this.plan.seconds * 1000;
    const usable = this.plan.isCalm ? [] : (this.plan.faults ?? this.scope.faults);
    const left = () => end - performance.now();
    while (left() > 0) {
      // Faults pause at times.
      await wait(Math.min(left(), random.pick([5, 30, 100, 400]) * random.number()));
      const { alive } = this;
      if (left() <= 0) break;
      if (alive.length === 0) {
        await this.start();
        continue;
      }
      const actor = random.pick(alive);
      if (this.isHarmed && random.chance(0.3)) await this.#harm();
      else if (usable.length > 0) await this.#fault(random.pick(usable), actor);
    }
  }

  async #fault(name, actor) {
    const own = faults[name] ?? this.scope.ownFaults[name];
    this.record('trouble', { name, whom: actor.name });
    await own(this, this.random, actor);
    this.record('trouble', { name, whom: actor.name, isOver: true });
  }

  async #harm() {
    const name = this.random.pick(this.plan.harms ?? this.scope.harms);
    if (filesIn(this.directory).length === 0) return;
    this.record('harm', { name });
    try {
      await harms[name](this.directory, this.random);
    } catch (error) {
      // An actor was faster: the file is gone, or its folder has new files.
      if (error.code !== 'ENOENT' && error.code !== 'ENOTEMPTY') throw error;
    }
    this.record('harm', { name });
  }

  /** @returns {Promise<boolean>} true once the condition holds, false if no actor progresses */
  async #until(isSo, judgeName) {
    let count = -1;
    let pongs = new Map();
    let since = performance.now();
    for (;;) {
      this.#pings++;
      for (const actor of this.alive) actor.tell('ping', { number: this.#pings });
      await wait(LOOK_MS);
      if (isSo()) return true;
      const { alive } = this;
      const total = alive.reduce((sum, actor) => sum + actor.count, 0) + this.actors.length;
      if (total !== count) {
        count = total;
        since = performance.now();
        pongs = new Map(alive.map((actor) => [actor, actor.pongs]));
      }
      const { patience = PATIENCE } = this.scope;
      const areAwake = alive.every((actor) => actor.pongs - (pongs.get(actor) ?? 0) > patience);
      if (!areAwake && performance.now() - since < SILENCE_MS) continue;
      await this.#recordHang(judgeName);
      return false;
    }
  }

  /** Records which requests hang, and the state of the locks. */
  async #recordHang(judgeName) {
    for (const actor of this.alive) {
      for (const [id, { open, isDone }] of Object.entries(actor.statuses)) {
        if (!isDone) this.fault(judgeName, `${id} hangs`, { open: open.slice(0, 20) });
      }
      this.fault(judgeName, `${actor.name}: ${this.#threadsOf(actor)}`, {
        locks: await this.#locksOf(actor),
      });
    }
  }

  /** @returns the states of the threads of a process */
  #threadsOf({ child: { pid } }) {
    try {
      const tasks = fs.readdirSync(`/proc/${pid}/task`);
      const stateOf = (task) => {
        const [, state] = /\) (\w)/.exec(fs.readFileSync(`/proc/${pid}/task/${task}/stat`, 'utf8'));
        return `${state} ${fs.readFileSync(`/proc/${pid}/task/${task}/wchan`, 'utf8')}`;
      };
      return `process ${pid}, threads: ${tasks.map(stateOf).join(', ')}`;
    } catch (error) {
      return error.message;
    }
  }

  async #locksOf(actor) {
    actor.found = undefined;
    actor.tell('look');
    const found = actor.until(() => actor.found);
    await within(LOCKS_MS, found);
    return actor.found ?? 'a query is not answered';
  }

  /** Checks that in the end nothing is held or pending. */
  async #checkLocks() {
    const [actor] = this.alive;
    if (!actor) return;
    let found;
    for (let i = 0; i < 30; i++) {
      found = await this.#locksOf(actor);
      const isFree = ({ held, pending }) => held.length + pending.length === 0;
      if (typeof found !== 'string' && found.every(isFree)) return;
      await wait(LOOK_MS);
    }
    this.fault('left', 'there are locks or requests in the end', { found });
  }

  async #finish() {
    const { alive } = this;
    const begun = new Map(alive.map((actor) => [actor, processorTimeOf(actor)]));
    for (const actor of alive) actor.tell('finish');
    const ended = Promise.all(alive.map(({ exited }) => exited)).then(() => true);
    for (let looks = 0; looks < 10; looks++) {
      if (await within(SILENCE_MS / 2, ended)) return;
      // An actor that is runnable but has hardly run is not at fault: the machine is busy.
      const isStarved = (actor) =>
        !actor.end &&
        /: R |, R /.test(this.#threadsOf(actor)) &&
        processorTimeOf(actor) - begun.get(actor) < SILENCE_MS / 6;
      if (!alive.some(isStarved)) break;
    }
    for (const actor of alive.filter(({ end }) => !end)) {
      const used = Math.round(processorTimeOf(actor) - begun.get(actor));
      const what = `${this.#threadsOf(actor)}; it has run for ${used} ms`;
      this.fault('left', `${actor.name} does not end by itself: ${what}`);
    }
  }

  /** An actor must end without an error, unless it was doomed, and print nothing unexpected. */
  #judgeEnds() {
    for (const { name, end, isDoomed, output } of this.actors) {
      const how = `${end.code ?? end.signal}`;
      if (!isDoomed && how !== '0' && how !== 'SIGKILL')
        this.fault('quiet', `${name} ends with ${how}`);
      const rest = unexpectedIn(output);
      if (rest !== '') this.fault('quiet', `${name} prints: ${rest.slice(0, 3000)}`);
    }
  }
}

/** @returns {number} the processor time of a process in milliseconds; NaN once it has ended */
function processorTimeOf({ child: { pid } }) {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [user, system] = stat.slice(stat.lastIndexOf(')')).split(' ').slice(12, 14);
    return 10 * (Number(user) + Number(system));
  } catch {
    return Number.NaN;
  }
}

/** What every scope promises in a round without faults. */
const CALM = { order: 'actor', queue: true, callbacks: true };

/** What the scope promises in a round. */
function promisesOf({ scope, isHarmed, isCalm }) {
  const { promises } = scopes[scope];
  // Harms break promises even in a round without faults.
  if (isHarmed) return { ...promises, forgets: true };
  return isCalm ? { ...CALM, ...promises } : promises;
}

module.exports = { BasicRound, Round, promisesOf, unexpectedIn };
