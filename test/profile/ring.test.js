// slow: 2

'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');
const { requestsOf } = require('../../lib/profile/requests.js');
const { END, LEAST, Ring, START, entriesOf, isSize, textOf } = require('../../lib/profile/ring.js');

/** @returns {{ kind: number, number: number, text: string }[]} the entries of a ring */
function read(ring) {
  return [...entriesOf(ring.read().words)].map(({ kind, numbers }) => ({
    kind,
    number: numbers[0],
    text: textOf(numbers, 2, [numbers[1]])[0],
  }));
}

/** A number whose bytes are this text. Tests write it where a length is expected. */
const asWord = (text) => new Float64Array(Uint16Array.from(text, (c) => c.charCodeAt(0)).buffer)[0];

/** Indices of the header, as in ring.js. */
const HEAD = 0;
const TAIL = 1;

const write = (ring, number, text) => ring.write(START, [number, text.length], text);

describe('a ring', () => {
  // Entries of whole units begin where older ones did, so that old words look like beginnings.
  for (const unit of [1, 16]) {
    it(`keeps the newest entries, whole, of any kinds and texts: lengths of ${unit}`, () => {
      const ring = Ring.create(LEAST);
      const odd = '\ud800 alone 名前</script>\0'.repeat(100);
      const entryOf = (number) => {
        const length = (number * 7919) % 1500;
        const text = odd.slice(0, length - (length % unit));
        return { kind: number % 3 ? START : END, number, text };
      };
      let starts = 0;
      for (let i = 0; i < 10_000; i++) {
        const { kind, text } = entryOf(i);
        ring.write(kind, [i, text.length], text);
        if (kind === START) starts++;
        if (i % 97) continue;
        const entries = read(ring);
        const first = i - entries.length + 1;
        const expected = entries.map((_, at) => entryOf(first + at));
        assert.deepEqual(entries, expected);
        const kept = entries.filter((entry) => entry.kind === START).length;
        assert.equal(ring.read().dropped, starts - kept);
        if (i > 1000) assert.ok(entries.length > 10);
      }
    });
  }

  it('is copied again if an entry was overwritten meanwhile', () => {
    const ring = Ring.create(LEAST);
    for (let i = 0; i < 10; i++) write(ring, i, 'x');
    let last = 10;
    ring.words.slice = function (...args) {
      delete this.slice; // only once
      for (; last < LEAST / 16; last++) write(ring, last, 'long'.repeat(last % 7));
      return this.slice(...args);
    };
    const entries = read(ring);
    assert.ok(entries.length > 10);
    entries.forEach(({ number, text }, i) => {
      assert.equal(number, last - entries.length + i);
      assert.equal(text, 'long'.repeat(number % 7));
    });
  });

  it('is copied in finite time, whatever is written over it', () => {
    for (const word of [asWord('aaaa'), asWord('\0\0\0\u4000'), 1e300, Infinity, Number.NaN]) {
      const ring = Ring.create(LEAST);
      // The oldest entry is then behind the newest one.
      for (let i = 0; ring.header[TAIL] <= ring.header[HEAD]; i++) write(ring, i, 'x'.repeat(99));
      const tail = ring.header[TAIL];
      ring.words[tail + ring.words[tail]] = word;
      assert.equal(read(ring).at(0).text.length, 99);
    }
  });

  it('can be read while another thread writes, and after that was terminated', async (t) => {
    for (let round = 0; round < 5; round++) {
      const ring = Ring.create(LEAST);
      const worker = new Worker(
        `const { parentPort, workerData } = require('node:worker_threads');
         const { Ring, START } = require(workerData.file);
         const ring = new Ring(workerData.shared);
         for (let i = 0; i < 2e6 && !ring.stopped; i++) {
           const text = String.fromCharCode(97 + i % 26).repeat(i % 1000);
           ring.write(START, [i, text.length], text);
           if (i === 5000) parentPort.postMessage('full');
         }`,
        {
          eval: true,
          workerData: { file: require.resolve('../../lib/profile/ring.js'), shared: ring.shared },
        },
      );
      t.after(() => worker.terminate());
      await once(worker, 'message');
      if (round % 2) await worker.terminate();
      ring.stop();
      const entries = read(ring);
      assert.ok(entries.length > 10);
      entries.forEach(({ number, text }, at) => {
        assert.equal(number, entries[0].number + at);
        assert.equal(text, String.fromCharCode(97 + (number % 26)).repeat(number % 1000));
      });
      await worker.terminate();
    }
  });

  it('has no entries in words that are no lengths', () => {
    for (const word of [0, -1, Number.NaN, 0.5, asWord('aaaa')]) {
      assert.equal([...entriesOf(new Float64Array(8).fill(word))].length, 0, `${word}`);
      const behindOne = new Float64Array(8).fill(word).fill(3, 0, 1);
      assert.equal([...entriesOf(behindOne)].length, 1, `${word}`);
    }
  });

  it('has a size of whole words', () => {
    const sizes = [LEAST, 2 ** 24, LEAST - 8, LEAST + 1, Number.NaN, '65536', 2 ** 31];
    assert.deepEqual(sizes.map(isSize), [true, true, false, false, false, false, false]);
  });
});

const PENDING = 2;

/** The requests of a ring, each written as `[asked, flags, waited, held]`; all are for one name. */
function recorded(requests) {
  const ring = Ring.create(LEAST);
  requests.forEach(([asked, flags, waited, held], number) => {
    ring.write(START, [number, asked, asked + waited, flags, 1, -1, 0, 0], 'a');
    ring.write(END, [number, 1, waited, held]);
  });
  return requestsOf([{ thread: { id: 0 }, words: ring.read().words, end: 100 }]);
}

for (const [title, blocker, ...requests] of [
  ['the holder at that time', 0, [0, 0, 1, 10], [5, PENDING, 7, 1]],
  [
    'the request that was granted next, if its grant was not yet known',
    ...[1, [0, 0, 1, 3], [2, PENDING, 4, 2], [5, PENDING, 4, 1]],
  ],
  [
    'the last one that released, if no other can be',
    ...[1, [0, 0, 1, 1], [3, 0, 1, 1], [5.5, PENDING, 1, 1]],
  ],
]) {
  it(`the blocker of a request is ${title}`, () => {
    const all = recorded(requests);
    assert.deepEqual(all.at(-1).blockers, [all[blocker]]);
  });
}
