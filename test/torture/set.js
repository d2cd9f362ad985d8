'use strict';

/**
 * Sets that only locks protect, one for each name. A user that has the exclusive lock reads the
 * set, and writes it back with one more element. If two users do so at a time, elements are lost.
 *
 * One file holds the sets of all names. It is only appended to, so that it orders all reads and
 * writes. A line of a write has the new element, and the last element of the set that was read; the
 * rest of that set follows from there. It has this for two stores:
 * - `plain` accepts every write
 * - `fenced` refuses a token smaller than one it has seen. A reader shows its token, too: otherwise
 *   a former holder could still write between another one's read and write.
 */

const fs = require('node:fs');
const path = require('node:path');

const VIEWS = ['plain', 'fenced'];

/** The last elements that the two stores accepted for a name. */
class Last {
  #greatest = 0n;
  plain;
  fenced;

  /** @returns {boolean} whether the fence accepts the line */
  take({ element, token }) {
    const isTaken = BigInt(token) >= this.#greatest;
    if (isTaken) this.#greatest = BigInt(token);
    if (element === undefined) return isTaken;
    this.plain = element;
    if (isTaken) this.fenced = element;
    return isTaken;
  }
}

/** @param {Map<string, Last>} names */
function lastOf(names, { place }) {
  if (!names.has(place)) names.set(place, new Last());
  return names.get(place);
}

const fileOf = (folder) => path.join(folder, 'set.jsonl');

/** The file as one user has read it. */
class SharedSet {
  #file;
  #names = new Map();
  #offset = 0;

  constructor(folder) {
    this.#file = fileOf(folder);
  }

  /** @returns {(element: string) => void} writes the set of a name with one more element */
  read(place, token) {
    this.#append({ place, token });
    this.#readOn();
    const { plain, fenced } = lastOf(this.#names, { place });
    return (element) => this.#append({ place, token, element, plain, fenced });
  }

  #append(line) {
    fs.appendFileSync(this.#file, `${JSON.stringify(line)}\n`);
  }

  #readOn() {
    const file = fs.openSync(this.#file, 'r');
    const more = Buffer.alloc(fs.fstatSync(file).size - this.#offset);
    const length = fs.readSync(file, more, 0, more.length, this.#offset);
    fs.closeSync(file);
    // The last line may be incomplete while another user writes it.
    const end = more.subarray(0, length).lastIndexOf('\n') + 1;
    this.#offset += end;
    for (const line of linesIn(more.toString('utf8', 0, end))) lastOf(this.#names, line).take(line);
  }
}

/** A set in the database of the locks: each update is a transaction that guards its lock. */
class GuardedSet {
  #config;

  /** @param {any} config of pg, for connections without network faults */
  constructor(config) {
    this.#config = config;
  }

  async #connected(work) {
    const client = new (require('pg').Client)(this.#config);
    client.on('error', () => {});
    try {
      await client.connect();
      return await work(client);
    } finally {
      client.end().catch(() => {});
    }
  }

  async create() {
    await this.#connected((client) => client.query(CREATE));
  }

  /** @param {() => void} pause called between reading and writing */
  async add(place, element, lock, pause) {
    await this.#connected(async (client) => {
      // A crash of the server loses no committed update.
      await client.query('BEGIN; SET LOCAL synchronous_commit = on');
      await lock.guard(client);
      const { rows } = await client.query(LAST, [place]);
      pause();
      await client.query(ADD, [place, element, rows[0]?.element]);
      await client.query('COMMIT');
    });
  }

  /** @returns {Promise<any[]>} the lines of a bucket as in the file; all have the same token */
  async lines(bucket) {
    const { rows } = await this.#connected((client) => client.query(ALL, [bucket]));
    return rows.map(({ place, element, before }) => {
      const views = { plain: before ?? undefined, fenced: before ?? undefined };
      return { place: `${place} (guarded)`, token: '0', element, ...views };
    });
  }
}

const CREATE = 'CREATE TABLE torture (n bigserial, place text, element text, before text)';
const LAST = 'SELECT element FROM torture WHERE place = $1 ORDER BY n DESC LIMIT 1';
const ADD = 'INSERT INTO torture (place, element, before) VALUES ($1, $2, $3)';
const ALL = 'SELECT * FROM torture WHERE starts_with(place, $1) ORDER BY n';

const linesIn = (text) =>
  text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line));

/** @returns {any[]} the lines of a folder, in order */
function readSets(folder) {
  const file = fileOf(folder);
  return fs.existsSync(file) ? linesIn(fs.readFileSync(file, 'utf8')) : [];
}

/** Yields each write, and whether the fence accepted it. */
function* writesIn(lines) {
  const names = new Map();
  for (const line of lines) {
    const isTaken = lastOf(names, line).take(line);
    if (line.element !== undefined) yield { line, isTaken };
  }
}

/**
 * Yields the losses: another write overwrote an element in a store (`plain`, `fenced`), or the
 * fence refused it (`refused`).
 */
function* lossesIn(lines) {
  /** The writes of each view and name. */
  const all = new Map();
  for (const { line, isTaken } of writesIn(lines)) {
    if (!isTaken) yield { how: 'refused', lost: line, by: line };
    for (const how of isTaken ? VIEWS : ['plain']) {
      const key = `${how} ${line.place}`;
      if (!all.has(key)) all.set(key, []);
      const before = all.get(key);
      const read = before.findLastIndex(({ element }) => element === line[how]);
      for (const lost of before.slice(read + 1)) yield { how, lost, by: line };
      before.push(line);
    }
  }
}

module.exports = { GuardedSet, SharedSet, lossesIn, readSets, writesIn };
