// slow: 3

'use strict';

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { randomUUID } = require('node:crypto');
const { before, describe, it } = require('node:test');
const fc = require('fast-check');
const { DeadlockError, locks } = require('../../lib/index.js');
const { deferred, turn } = require('../helpers/locks.js');
const { LockManagerModel, closesACycle } = require('./model.js');

/** More runs by hand, as in model.test.js. */
const RUNS = Number(process.env.MODEL_RUNS ?? 1500);
const SEED = process.env.MODEL_SEED === undefined ? undefined : Number(process.env.MODEL_SEED);
const TASKS = 4;

/** Tasks that nest requests. A step of a task that waits can only abort; of one that does not, not. */
const step = fc.record({
  task: fc.nat(TASKS - 1),
  command: fc.constantFrom(...new Array(8).fill('request'), 'release', 'abort'),
  name: fc.constantFrom('a', 'b', 'c'),
  mode: fc.constantFrom('exclusive', 'shared'),
  declares: fc.constantFrom(true, true, true, false),
  priority: fc.constantFrom(0, 0, 0, 1, -1),
  steal: fc.constantFrom(...new Array(23).fill(false), true),
});

/**
 * How most of those cycles begin that somebody closes who has no lock: a reader waits, inside of
 * what another reader waits for, behind a writer that counts for nothing, since it does not declare.
 */
const opening = fc
  .tuple(
    fc.shuffledSubarray(['a', 'b', 'c'], { minLength: 2 }),
    fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }),
    fc.constantFrom(0, 1, -1),
  )
  .map(([[a, b], [one, two, three, four], priority]) => {
    const ask = (task, name, mode, declares = true) => {
      return { task, command: 'request', name, mode, declares, priority: 0, steal: false };
    };
    return [
      ask(one, a, 'shared'),
      ask(two, b, 'exclusive'),
      ask(three, a, 'exclusive', false),
      ask(two, a, 'shared'),
      ask(one, b, 'shared'),
      { ...ask(four, a, 'exclusive'), priority },
    ];
  });

const sequence = fc
  .tuple(
    fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: opening }),
    fc.array(step, { maxLength: 40 }),
  )
  .map(([first, rest]) => [...first, ...rest]);

class Task {
  /** Innermost last: { model: request of the model, real: what to release, enter: its context }. */
  held = [];
  /** The request that waits. */
  waiting;
}

class Comparison {
  #prefix = randomUUID();
  tasks = Array.from({ length: TASKS }, () => new Task());
  model = new LockManagerModel((task, id, what) => this.#told(task, id, what));
  granted = new Set();
  deadlocks = 0;
  overtakings = 0;

  #told(_task, id, what) {
    if (what === 'granted') this.granted.add(id);
  }

  async step({ task: index, command, ...given }) {
    const task = this.tasks[index];
    if (command === 'abort' && task.waiting) this.#abort(task);
    else if (command === 'release' && !task.waiting && task.held.length > 0) this.#release(task);
    else if (command === 'request' && !task.waiting) await this.#request(task, given);
    await turn();
    this.#settle();
  }

  /** Moves what the model granted from waiting to held, and looks that the same was granted. */
  #settle() {
    for (const task of this.tasks) {
      if (!task.waiting) continue;
      const { id, called } = task.waiting;
      assert.equal(called.done, this.granted.has(id), 'granted, or not, unlike the model');
      if (!called.done) continue;
      task.held.push(task.waiting);
      task.waiting = undefined;
    }
  }

  async #request(task, { name, mode, declares, steal, priority }) {
    const id = Symbol(name);
    const model = {
      id,
      name,
      mode: steal ? 'exclusive' : mode,
      declares,
      priority: steal ? 0 : priority,
      inside: task.held.map((lock) => lock.model).filter((lock) => lock.declares),
    };
    const grantable = this.model.isGrantable(model);
    const expected = declares && !steal && !grantable && closesACycle(this.model, model);
    const overtaken = this.#queue(name).slice(this.model.placeOf(model));
    const real = this.#ask(task, model, steal);
    await turn();
    assert.equal(real.error instanceof DeadlockError, expected, 'a deadlock, unlike the model');
    if (expected) {
      this.deadlocks++;
      this.#checkCycle(real.error.cycle, [
        ...task.held.map((lock) => lock.model),
        ...overtaken.flatMap(({ inside }) => inside),
      ]);
      if (model.inside.length === 0) this.overtakings++;
      return;
    }
    real.model = Object.assign(
      this.model.requestALock(task, id, name, model.mode, false, steal, model),
      model,
    );
    // The model made a request of its own; it is the one in the queue.
    task.waiting = real;
  }

  #queue(name) {
    return this.model.getTheLockRequestQueue(name);
  }

  #ask(task, { id, name, mode, declares, priority }, steal) {
    const controller = new AbortController();
    const options = { mode, priority, ...(declares ? { deadlock: 'reject' } : {}) };
    if (steal) options.steal = true;
    else options.signal = controller.signal;
    const end = deferred();
    const real = { id, called: { done: false }, controller, end };
    const enter = task.held.at(-1)?.enter ?? ((run) => run());
    const released = enter(() =>
      locks.request(`${this.#prefix} ${name}`, options, () => {
        real.called.done = true;
        real.enter = AsyncLocalStorage.snapshot();
        return end.promise;
      }),
    );
    released.catch((error) => {
      real.error = error;
    });
    return real;
  }

  /** Each request waits for the lock after it, of the same name; the last lock is one of `own`. */
  #checkCycle(cycle, own) {
    assert.ok(cycle.length >= 2 && cycle.length % 2 === 0);
    for (let i = 0; i < cycle.length; i += 2) assert.equal(cycle[i].name, cycle[i + 1].name);
    assert.ok(own.some(({ name }) => `${this.#prefix} ${name}` === cycle.at(-1).name));
  }

  #release(task) {
    const lock = task.held.pop();
    lock.end.resolve();
    // A stolen lock is not in the model's set any more.
    if (this.model.heldLockSet.has(lock.model)) this.model.releaseTheLock(lock.model);
  }

  #abort(task) {
    task.waiting.controller.abort();
    this.model.abortTheRequest(task.waiting.model);
    task.waiting = undefined;
  }

  async end() {
    for (const task of this.tasks) {
      if (task.waiting) this.#abort(task);
    }
    await turn();
    for (const task of this.tasks) while (task.held.length > 0) this.#release(task);
    await turn();
  }
}

describe('deadlock detection agrees with its definition', () => {
  before(() => locks.request('activates the context', { deadlock: 'reject' }, () => {}));

  it('for random sequences of nested requests, releases, aborts and thefts', async () => {
    let deadlocks = 0;
    let overtakings = 0;
    await fc.assert(
      fc.asyncProperty(sequence, async (steps) => {
        const comparison = new Comparison();
        try {
          for (const one of steps) await comparison.step(one);
        } finally {
          await comparison.end();
          deadlocks += comparison.deadlocks;
          overtakings += comparison.overtakings;
        }
      }),
      { numRuns: RUNS, seed: SEED },
    );
    assert.ok(deadlocks > RUNS / 10, `only ${deadlocks} deadlocks in ${RUNS} runs`);
    assert.ok(overtakings > 0, 'no deadlock by a request that gets ahead of others');
  });
});
