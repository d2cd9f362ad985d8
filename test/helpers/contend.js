'use strict';

const NAMES = ['a', 'b', 'c'];

/**
 * Loops that request the same few locks, every other time with the time limit 0.
 * @param {any} locks
 * @param {{ loops: number, rounds: number }} size
 * @returns {Promise<Record<string, number>>} how often a request was granted, and by the name of
 *   their error how many were not
 */
async function contend(locks, { loops, rounds }) {
  const counts = { granted: 0 };
  const loop = async (seed) => {
    for (let i = 0; i < rounds; i++) {
      const name = NAMES[(seed + i) % NAMES.length];
      const mode = i % 3 === 0 ? 'shared' : 'exclusive';
      const options = i % 2 === 0 ? { mode, timeout: 0 } : { mode };
      try {
        await locks.request(name, options, () => new Promise((resolve) => setImmediate(resolve)));
        counts.granted++;
      } catch (error) {
        counts[error.name] = (counts[error.name] ?? 0) + 1;
      }
    }
  };
  await Promise.all(Array.from({ length: loops }, (_, seed) => loop(seed)));
  return counts;
}

module.exports = { contend };
