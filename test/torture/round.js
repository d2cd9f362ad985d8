'use strict';

/**
 * One round of a torture: actors of a scope, who ask for locks for some seconds, while faults come;
 * then all comes to its end, and the judges look at the history.
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
const { root } = require('../helpers/root.js');

const PROGRAM = path.join(__dirname, 'actor.js');
/** How often it is looked whether all goes on. */
const LOOK_MS = 100;
/** How many looks without any event are too many, if those who are looked at go round their loops. */
const PATIENCE = 80;
/** Milliseconds after which a process that does not answer hangs, whatever the machine does. */
const SILENCE_MS = 60_000;

/** What Node.js prints where a promise is rejected at the end of the stack: the line and the error. */
const FULL_STACK =
  /^Exception in PromiseRejectCallback:\n[^\n]*\n[^\n]*\n[^\n]*\n+RangeError: Maximum call stack size exceeded\n+/gm;
/** The same where there was no stack left to say the line, the error, or both. */
const NO_STACK =
  /^Exception in PromiseRejectCallback:\n+(?:[^\n]*:\d+\n[^\n]*\n *\^+\n+)?(?:RangeError: Maximum call stack size exceeded\n*)?/gm;
/** What a thread prints that ends by an error, as actors do. */
const END_OF_ACTOR = /^.*the end of an actor[\s\S]*?\n\n.*\n?/gm;

/** What an actor printed that nobody expects. */
function unexpectedIn(output) {
  return output.replace(END_OF_ACTOR, '').replace(NO_STACK, '').trim();
}

/** An actor's process. */
class Actor {
  isReady = false;
  isDoomed = false;
  isFinished = false;
  statuses = {};
  pongs = 0;
  output = '';
  #waiting = [];

  constructor(name, plan, env) {
    this.name = name;
    // `gc` by the flag, not from a new context: Node.js 22 prints "Exception thrown during
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
    this.child.on('message', (message) => this.#hear(message));
    this.child.on('error', () => {});
    this.exited = new Promise((resolve) => {
      this.child.on('exit', (code, signal) => {
        this.end = { code, signal };
        resolve(this.end);
        this.#news();
      });
    });
  }

  #hear(message) {
    if (message.ready) this.isReady = true;
    if (message.finished) this.isFinished = true;
    if (message.pong) {
      this.pongs++;
      this.statuses = message.statuses;
    }
    if (message.found) this.found = message.found;
    this.#news();
  }

  #news() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  async until(condition) {
    while (!this.end && !condition()) await new Promise((resolve) => this.#waiting.push(resolve));
  }

  tell(what, more = {}) {
    if (this.child.connected) this.child.send({ do: what, ...more }, () => {});
  }

  get isDone() {
    // It is asked when it was told to stop: before, it has said nothing.
    return this.pongs > 0 && Object.values(this.statuses).every(({ isDone }) => isDone);
  }

  get count() {
    return Object.values(this.statuses).reduce((sum, { count }) => sum + count, 0);
  }
}

class Round {
  actors = [];
  #numbers = 0;
  #isStopping = false;
  #pings = 0;

  /**
   * @param {any} plan `scope`, `seed`, `round`, `seconds`, and what may be given: `actors`,
   *   `threads`, `names`, `loops`, `faults`, `harms`, `only`, `pace`
   */
  constructor(plan) {
    this.scope = scopes[plan.scope];
    this.seed = `${plan.seed} ${plan.round}`;
    this.random = new Random(this.seed, 'round');
    const { random } = this;
    // Now and then nothing goes wrong, and more is promised.
    const isCalm = plan.faults ? plan.faults.length === 0 : random.chance(0.2);
    this.plan = {
      ...plan,
      isCalm,
      // In most rounds what takes long is rare, so that more happens.
      slowness: plan.slowness ?? random.pick([1, 0.05, 0.05]),
      hasHostile: plan.hostile ?? random.chance(0.25),
      seed: this.seed,
      names: plan.names ?? random.pick([6, 12, 40]),
      loops: plan.loops ?? random.pick([1, 4, 8]),
      pace: plan.pace ?? random.pick([0, 0, 0.5, 5]),
      buckets: plan.buckets ?? this.scope.buckets,
      threads: plan.threads ?? this.scope.threads,
    };
    this.folder = fs.mkdtempSync(path.join(root, 'torture-'));
    for (const name of ['history', 'gate', 'above']) fs.mkdirSync(path.join(this.folder, name));
    this.directory = path.join(this.folder, 'above', 'locks');
    fs.mkdirSync(this.directory, { mode: 0o700 });
    this.recorder = new Recorder(path.join(this.folder, 'history', 'round.jsonl'), 'round');
    const { isHarmed } = plan;
    const hasGate = this.scope.gate !== false && !isHarmed;
    const isFiles = this.scope.processes > 1 || this.plan.threads === 0;
    this.gate = hasGate ? (isFiles ? 'files' : 'atomics') : undefined;
    this.isHarmed = isHarmed;
    this.hasDefault = plan.hasDefault ?? (!isHarmed && random.chance(0.3));
  }

  record(type, more) {
    return this.recorder.record(type, more);
  }

  fault(judgeName, what, more = {}) {
    this.record('fault', { judge: judgeName, what, ...more });
  }

  /** Starts an actor and has it act. */
  async start() {
    const name = `p${++this.#numbers}`;
    const { folder, directory } = this;
    const buckets = Array.from({ length: this.plan.buckets }, (_, i) => bucketOf(i));
    const own = {
      ...this.plan,
      process: name,
      folder,
      directory,
      gate: this.gate,
      hasDefault: this.hasDefault,
      bucketNames: ['default', ...buckets],
    };
    const { proxy, ...more } = (await this.scope.planOf?.(this)) ?? {};
    const actor = new Actor(name, { ...own, ...more }, { WEB_LOCKS_DIRECTORY: directory });
    actor.more = { proxy };
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

  /** What it has is nobody's from now on. */
  doom(actor) {
    actor.isDoomed = true;
    this.record('doomed', { whom: actor.name });
    if (this.gate === 'files')
      new FileGate(path.join(this.folder, 'gate'), 'round').doom(actor.name);
  }

  get alive() {
    return this.actors.filter(({ end, isDoomed }) => !end && !isDoomed);
  }

  /** @returns {Promise<{ faults: any[], events: any[] }>} */
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
    if (isDone) await this.#look();
    if (isDone) await this.#finish();
    for (const { child, end } of this.actors) {
      if (!end) child.kill('SIGKILL');
    }
    await Promise.all(this.actors.map(({ exited }) => exited));
    if (isDone) await this.scope.left?.(this);
    await this.scope.end?.(this);
    this.#ends();
    this.recorder.close();
    const history = path.join(this.folder, 'history');
    const events = readHistory(fs.readdirSync(history).map((file) => path.join(history, file)));
    return { events, faults: judge(events, promisesOf(this.plan)) };
  }

  async #act() {
    const { random } = this;
    const end = performance.now() + this.plan.seconds * 1000;
    const usable = this.plan.isCalm ? [] : (this.plan.faults ?? this.scope.faults);
    const left = () => end - performance.now();
    while (left() > 0) {
      // Now and then nothing happens for a while.
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
      // Somebody else was faster: it is gone, or there is more in it.
      if (error.code !== 'ENOENT' && error.code !== 'ENOTEMPTY') throw error;
    }
    this.record('harm', { name });
  }

  /**
   * Waits until something is so, as long as anything goes on.
   * @returns {Promise<boolean>} false if nothing goes on any more
   */
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
      await this.#hang(judgeName);
      return false;
    }
  }

  /** Tells what hangs: who waits for what, and what the locks are. */
  async #hang(judgeName) {
    for (const actor of this.alive) {
      for (const [id, { open, isDone }] of Object.entries(actor.statuses)) {
        if (!isDone) this.fault(judgeName, `${id} hangs`, { open: open.slice(0, 20) });
      }
      this.fault(judgeName, `${actor.name}: ${this.#threadsOf(actor)}`, {
        locks: await this.#locksOf(actor),
      });
    }
  }

  /** What the threads of a process do. */
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
    await within(
      3000,
      actor.until(() => actor.found),
    );
    return actor.found ?? 'a query is not answered';
  }

  /** All is given back. */
  async #look() {
    const [actor] = this.alive;
    if (!actor) return;
    let found;
    for (let i = 0; i < 30; i++) {
      found = await this.#locksOf(actor);
      if (
        typeof found !== 'string' &&
        found.every(({ held, pending }) => held.length + pending.length === 0)
      )
        return;
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
      // Who wants to run and has hardly been let is not at fault: the machine has too much to do.
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

  #ends() {
    for (const { name, end, isDoomed, output } of this.actors) {
      const how = `${end.code ?? end.signal}`;
      if (!isDoomed && how !== '0' && how !== 'SIGKILL')
        this.fault('quiet', `${name} ends with ${how}`);
      const rest = unexpectedIn(output);
      if (rest !== '') this.fault('quiet', `${name} prints: ${rest.slice(0, 3000)}`);
    }
  }

  remove() {
    fs.rmSync(this.folder, { recursive: true, force: true });
    const parent = path.dirname(this.folder);
    const own = path.basename(this.folder);
    for (const entry of fs.readdirSync(parent)) {
      if (entry.startsWith(own))
        fs.rmSync(path.join(parent, entry), { recursive: true, force: true });
    }
  }
}

/** @returns {number} milliseconds for which a process has run, to 10; NaN once it has ended */
function processorTimeOf({ child: { pid } }) {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [user, system] = stat.slice(stat.lastIndexOf(')')).split(' ').slice(12, 14);
    return 10 * (Number(user) + Number(system));
  } catch {
    return Number.NaN;
  }
}

/** What a scope promises where nothing goes wrong, wherever the locks are kept. */
const CALM = { order: 'actor', queue: true, callbacks: true };

/** What a round has to keep. */
function promisesOf({ scope, isHarmed, isCalm }) {
  const { promises } = scopes[scope];
  // Where files are harmed, more goes wrong than in a calm round, even if nothing else does.
  if (isHarmed) return { ...promises, forgets: true };
  return isCalm ? { ...CALM, ...promises } : promises;
}

module.exports = { Round, promisesOf, unexpectedIn };
