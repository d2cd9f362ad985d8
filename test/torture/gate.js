'use strict';

/**
 * Judges that do not depend on the library: every holder of a lock enters a gate, which checks that
 * no conflicting holder is inside. Between processes a gate consists of links in a folder, each of
 * which the kernel lets only one process create; between threads, of atomics in shared memory.
 *
 * An actor is doomed before it ends: from then on its locks do not count.
 */

const fs = require('node:fs');
const path = require('node:path');

/** A gate between processes, for locks that cannot be lost unnoticed. */
class FileGate {
  #folder;
  #owner;
  /** A file that contains the owner's name; a link to it has that content from its beginning. */
  #marker;
  #numbers = 0;

  constructor(folder, owner) {
    this.#folder = folder;
    this.#owner = owner;
    for (const part of ['doomed', 'owners']) {
      fs.mkdirSync(path.join(folder, part), { recursive: true });
    }
    this.#marker = path.join(folder, 'owners', owner ?? 'nobody');
    fs.writeFileSync(this.#marker, String(owner));
  }

  /** @param {string} actor a thread, or a process with all its threads */
  doom(actor) {
    fs.writeFileSync(path.join(this.#folder, 'doomed', actor), '');
  }

  #isDoomed(owner) {
    const doomed = path.join(this.#folder, 'doomed');
    const process = owner.split('.')[0];
    return [owner, process].some((actor) => fs.existsSync(path.join(doomed, actor)));
  }

  #folderOf(what) {
    const folder = path.join(this.#folder, what);
    fs.mkdirSync(folder, { recursive: true });
    return folder;
  }

  /** @returns {string | undefined} the owner inside, unless it is doomed */
  #ownerOf(link) {
    try {
      const owner = fs.readFileSync(link, 'utf8');
      return this.#isDoomed(owner) ? undefined : owner;
    } catch {
      return undefined;
    }
  }

  /** @returns {any[]} the shared locks inside, each with its owner and units */
  #shares(folder) {
    return fs
      .readdirSync(folder)
      .filter((entry) => entry.startsWith('s~'))
      .map((entry) => entry.split('~'))
      .filter(([, owner]) => !this.#isDoomed(owner));
  }

  /**
   * @param {{ what: string, mode: string, limit?: number, weight?: number }} lock
   * @returns {{ leave: () => void, wrong?: string }} `wrong`: the reason why it must not be inside
   */
  enter({ what, mode, limit = 0, weight = 1 }) {
    const folder = this.#folderOf(what);
    const alone = path.join(folder, 'x');
    if (mode === 'shared') {
      const mine = path.join(folder, `s~${this.#owner}~${++this.#numbers}~${weight}`);
      fs.linkSync(this.#marker, mine);
      const owner = this.#ownerOf(alone);
      let wrong = owner && `${owner} has it exclusively`;
      const shares = limit > 0 ? this.#shares(folder) : [];
      const units = shares.reduce((sum, [, , , one]) => sum + Number(one), 0);
      if (units > limit) wrong = `${units} of ${limit} units: ${shares.join(' ')}`;
      return { wrong, leave: () => fs.unlinkSync(mine) };
    }
    let wrong;
    while (wrong === undefined) {
      try {
        fs.linkSync(this.#marker, alone);
        break;
      } catch (error) {
        if (error.code !== 'EEXIST') throw error;
      }
      const owner = this.#ownerOf(alone);
      if (owner) wrong = `${owner} has it exclusively`;
      else fs.rmSync(alone, { force: true });
    }
    const shares = this.#shares(folder);
    if (shares.length > 0) wrong = `shared by ${shares.join(' ')}`;
    return { wrong, leave: () => fs.rmSync(alone, { force: true }) };
  }
}

/** How many threads a process can start in its life. */
const THREADS = 2 ** 14;
/** How many threads can run at a time. */
const SLOTS = 64;

/** A gate between threads: a table in shared memory with a slot for each thread. */
class AtomicGate {
  #thread;
  #slot;
  #names = new Map();

  static memory(names) {
    const words = names.length * (1 + SLOTS) + SLOTS + THREADS;
    return { names, buffer: new SharedArrayBuffer(words * 4) };
  }

  /**
   * @param {{ names: string[], buffer: SharedArrayBuffer }} memory
   * @param {number} thread the thread's number in the process, from 1, never reused
   * @param {number} slot used by no other thread while it runs
   */
  constructor({ names, buffer }, thread, slot) {
    for (const [i, name] of names.entries()) this.#names.set(name, i);
    const count = names.length;
    let offset = 0;
    const part = (length) => {
      const array = new Int32Array(buffer, offset * 4, length);
      offset += length;
      return array;
    };
    /** The thread that holds each name exclusively. */
    this.owner = part(count);
    /** The units that each slot holds of each name. */
    this.units = part(count * SLOTS);
    /** The thread in each slot. */
    this.thread = part(SLOTS);
    this.doomed = part(THREADS);
    this.count = count;
    this.#thread = thread;
    this.#slot = slot;
    for (let i = 0; i < count; i++) Atomics.store(this.units, slot * count + i, 0);
    // This store is last, so that a thread that sees the new number also sees the units cleared.
    Atomics.store(this.thread, slot, thread);
  }

  /** @param {number} thread */
  doom(thread = this.#thread) {
    Atomics.store(this.doomed, thread, 1);
  }

  #isAlive(thread) {
    return thread > 0 && Atomics.load(this.doomed, thread) === 0;
  }

  #unitsOf(name) {
    let units = 0;
    for (let slot = 0; slot < SLOTS; slot++) {
      const some = Atomics.load(this.units, slot * this.count + name);
      if (some > 0 && this.#isAlive(Atomics.load(this.thread, slot))) units += some;
    }
    return units;
  }

  enter({ what, mode, limit = 0, weight = 1 }) {
    const name = this.#names.get(what);
    if (mode === 'shared') {
      const place = this.#slot * this.count + name;
      Atomics.add(this.units, place, weight);
      const owner = Atomics.load(this.owner, name);
      let wrong = this.#isAlive(owner) ? `thread ${owner} has it exclusively` : undefined;
      const units = limit > 0 ? this.#unitsOf(name) : 0;
      if (units > limit) wrong = `${units} of ${limit} units`;
      return { wrong, leave: () => Atomics.sub(this.units, place, weight) };
    }
    const before = Atomics.exchange(this.owner, name, this.#thread);
    let wrong = this.#isAlive(before) ? `thread ${before} has it exclusively` : undefined;
    const units = this.#unitsOf(name);
    if (units > 0) wrong = `${units} units are shared`;
    const leave = () => Atomics.compareExchange(this.owner, name, this.#thread, 0);
    return { wrong, leave };
  }
}

module.exports = { AtomicGate, FileGate };
