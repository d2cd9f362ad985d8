'use strict';

/**
 * The faults of a round, by name. Each is called with the round, a random source and an actor's
 * process, and returns when it is over.
 */

const fs = require('node:fs');
const path = require('node:path');

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Settles like the promise, or after a time; its timer keeps no process running. */
async function within(milliseconds, promise) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** How long an actor may take to end on its own. */
const EXIT_MS = 2000;

/** Ends a worker of a process. */
const ofThreads = (how) => (_round, random, actor) =>
  actor.tell('end', { how, which: random.below(64) });

async function endAndReplace(round, actor) {
  actor.child.kill('SIGKILL');
  await actor.exited;
  await round.start();
}

const faults = {
  /** `worker.terminate()`, whatever the worker does. */
  terminate: ofThreads('terminate'),
  /** `process.exit()` in a worker that holds a lock. */
  threadExit: ofThreads('threadExit'),
  /** An uncaught exception in a worker. */
  threadThrow: ofThreads('threadThrow'),

  /** `process.exit()` in a main thread that holds a lock. */
  async exit(round, _random, actor) {
    actor.isDoomed = true;
    actor.tell('end', { how: 'exit' });
    // It may hold nothing and wait for locks of others.
    await within(EXIT_MS, actor.exited);
    if (!actor.end) round.doom(actor);
    await endAndReplace(round, actor);
  },

  async kill(round, _random, actor) {
    round.doom(actor);
    await endAndReplace(round, actor);
  },

  /** SIGSTOP, and SIGCONT later. */
  async stop(round, random, actor) {
    round.record('stopped', { whom: actor.name });
    actor.child.kill('SIGSTOP');
    await wait(random.pick([1, 10, 50, 300, 1500]) * random.number());
    actor.child.kill('SIGCONT');
    round.record('resumed', { whom: actor.name });
  },
};

/** The files of the buckets in a directory, which may be missing. */
const filesIn = (directory) =>
  (fs.existsSync(directory) ? fs.readdirSync(directory) : [])
    .map((entry) => path.join(directory, entry, 'bucket'))
    .filter((file) => fs.existsSync(file));

/** @param {string} file @param {'header' | 'rest' | 'whole'} which part to zero */
function writeZeros(file, which) {
  const { size } = fs.statSync(file);
  const page = Math.min(size, 4096);
  const from = which === 'rest' ? page : 0;
  const to = which === 'header' ? page : size;
  const open = fs.openSync(file, 'r+');
  fs.writeSync(open, Buffer.alloc(to - from), 0, undefined, from);
  fs.closeSync(open);
}

/**
 * Harms to files. They have rounds of their own, since they take locks away. A holder is notified
 * at once, or at its next call.
 */
const harms = {
  remove(directory, random) {
    fs.rmSync(random.pick(filesIn(directory)));
  },
  /** Removes everything, even what is just being opened or created. */
  removeAll(directory) {
    fs.rmSync(directory, { recursive: true, force: true });
  },
  truncate(directory, random) {
    const file = random.pick(filesIn(directory));
    fs.truncateSync(file, random.pick([0, 64, 4096, fs.statSync(file).size - 4096]));
  },
  /** Writes zeros, as if the file had been truncated and extended, at times during a reopening. */
  async zero(directory, random) {
    const file = random.pick(filesIn(directory));
    const which = random.pick(['header', 'rest', 'whole']);
    for (let times = random.pick([1, 1, 50]); times > 0; times--) {
      writeZeros(file, which);
      await wait(random.number());
    }
  },
  /** Moves all buckets by moving their directory. */
  moveAll(directory, random) {
    fs.renameSync(directory, `${directory}-moved-${random.below(1e9)}`);
  },
  /** Moves the parent of their directory, which the kernel reports to no process. */
  moveAbove(directory, random) {
    const above = path.dirname(directory);
    fs.renameSync(above, `${above}-moved-${random.below(1e9)}`);
    fs.mkdirSync(above);
  },
  move(directory, random) {
    const folder = path.dirname(random.pick(filesIn(directory)));
    fs.renameSync(folder, `${directory}-moved-${random.below(1e9)}`);
  },
};

module.exports = { faults, filesIn, harms, wait, within };
