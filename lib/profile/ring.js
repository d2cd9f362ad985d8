'use strict';

/**
 * The record of one thread: a ring of entries in shared memory, which another thread can read even
 * if the writer was terminated in the middle of a write. The entries from TAIL to HEAD are always
 * complete: the writer moves TAIL past the entries that it will overwrite, writes, and then moves
 * HEAD. A reader stops the writer first, so at most one write is still under way while the reader
 * copies; if TAIL moved in the meantime, the reader copies again. An entry consists of 64-bit
 * floats: its length, its kind, numbers, and then text of 16-bit code units. An entry never wraps:
 * if it does not fit before the end of the ring, a 0 stands there, and the entry is at the start.
 */

/** Indices of the header's 32-bit integers. */
const HEAD = 0;
const TAIL = 1;
const DROPPED = 2;
const STOPPED = 3;
const HEADER_BYTES = 16;

/** The kinds of entries. */
const START = 1;
const GRANT = 2;
const END = 3;

/** The least size of a ring in bytes, which is many times the size of the longest entry. */
const LEAST = 2 ** 16;

class Ring {
  /** @param {SharedArrayBuffer} shared */
  constructor(shared) {
    this.shared = shared;
    this.header = new Int32Array(shared, 0, HEADER_BYTES / 4);
    this.words = new Float64Array(shared, HEADER_BYTES);
    this.bytes = Buffer.from(shared, HEADER_BYTES);
  }

  /** @param {number} size bytes, valid for `isSize` */
  static create(size) {
    return new Ring(new SharedArrayBuffer(HEADER_BYTES + size));
  }

  get stopped() {
    return Atomics.load(this.header, STOPPED) === 1;
  }

  /** Sets a flag that the writer must check before each entry. */
  stop() {
    Atomics.store(this.header, STOPPED, 1);
  }

  /** Only one thread may write. @param {number} kind @param {number[]} numbers */
  write(kind, numbers, text = '') {
    const textAt = 2 + numbers.length;
    const length = textAt + Math.ceil(text.length / 4);
    const { words } = this;
    const at = this.#claim(length);
    words[at] = length;
    words[at + 1] = kind;
    for (let i = 0; i < numbers.length; i++) words[at + 2 + i] = numbers[i];
    if (text) this.bytes.write(text, (at + textAt) * 8, 'utf16le');
    Atomics.store(this.header, HEAD, at + length);
  }

  /**
   * Drops the oldest entries until there is room.
   * @param {number} length @returns {number} the index of `length` + 1 free words
   */
  #claim(length) {
    const { header, words } = this;
    const head = header[HEAD];
    if (head + length < words.length) {
      while (header[TAIL] > head && header[TAIL] <= head + length) this.#drop();
      return head;
    }
    while (header[TAIL] > head) this.#drop();
    words[head] = 0;
    while (header[TAIL] !== head && header[TAIL] <= length) this.#drop();
    return 0;
  }

  /** Drops the oldest entry, and counts its request if it is a START. */
  #drop() {
    const { header, words } = this;
    const tail = header[TAIL];
    if (words[tail + 1] === START && words[tail] !== 0) Atomics.add(header, DROPPED, 1);
    Atomics.store(header, TAIL, words[tail] === 0 ? 0 : tail + words[tail]);
  }

  /**
   * Another thread may call this function only after `stop`; the writer may call it at any time.
   * @returns {{ words: Float64Array, dropped: number }} a copy of the entries, oldest first, and
   *   the number of requests whose start was dropped
   */
  read() {
    const { header } = this;
    for (;;) {
      const tail = Atomics.load(header, TAIL);
      const words = this.#copy(tail, Atomics.load(header, HEAD));
      const dropped = Atomics.load(header, DROPPED);
      if (Atomics.load(header, TAIL) === tail) return { words, dropped };
    }
  }

  /** @param {number} tail @param {number} head */
  #copy(tail, head) {
    if (tail <= head) return this.words.slice(tail, head);
    // Finds the 0 after which the entries continue at the start.
    let end = tail;
    while (lengthAt(this.words, end) > 0) end += lengthAt(this.words, end);
    // If an entry is being overwritten, the length read from it may point beyond the ring.
    end = Math.min(Math.floor(end), this.words.length);
    const copy = new Float64Array(end - tail + head);
    copy.set(this.words.subarray(tail, end));
    copy.set(this.words.subarray(0, head), end - tail);
    return copy;
  }
}

/**
 * The length of the entry at `at`; 0 if there is none. In a half-overwritten entry, text may be
 * read as the length: a number that can be so small that adding it would make no progress.
 * @param {Float64Array} words @param {number} at
 */
const lengthAt = (words, at) => (words[at] >= 1 ? words[at] : 0);

/**
 * Yields the entries. The `numbers` of an entry also contain its text: see `textOf`.
 * @param {Float64Array} words the result of `read`
 */
function* entriesOf(words) {
  // `lengthAt` makes the loop end whatever the words are: it may run while the process exits.
  for (let at = 0; lengthAt(words, at) > 0; at += words[at]) {
    yield { kind: words[at + 1], numbers: words.subarray(at + 2, at + words[at]) };
  }
}

/**
 * Splits the text of an entry, which begins at the index `from` of its numbers.
 * @param {Float64Array} numbers @param {number} from
 * @param {number[]} lengths of the parts, in code units; -1 for a missing part
 */
function textOf({ buffer, byteOffset }, from, lengths) {
  const bytes = Buffer.from(buffer);
  let at = byteOffset + from * 8;
  return lengths.map((length) => {
    if (length < 0) return undefined;
    const text = bytes.toString('utf16le', at, at + length * 2);
    at += length * 2;
    return text;
  });
}

/** Whether a ring can have this size: a multiple of 8 bytes, in limits. @param {unknown} size */
const isSize = (size) =>
  typeof size === 'number' && size % 8 === 0 && size >= LEAST && size <= 2 ** 30;

module.exports = { END, GRANT, LEAST, Ring, START, entriesOf, isSize, textOf };
