'use strict';

/** A process that does with locks what it is told: the other one of host.js. */

const host = require('../../lib/host.js');

const buckets = new Map();
/** By number: what ends it. */
const holds = new Map();

const bucketOf = ({ bucket = '', directory }) => {
  const key = `${bucket}\0${directory}`;
  if (!buckets.has(key)) buckets.set(key, host.openBucket(bucket, { directory }));
  return buckets.get(key);
};

const doers = {
  /** Answers when it is granted, or not available. */
  hold: (message) =>
    new Promise((resolve, reject) => {
      const { locks } = bucketOf(message);
      const { name, id, options = {} } = message;
      const hold = (lock) => {
        resolve(lock ? 'granted' : 'not available');
        return lock && new Promise((release) => holds.set(id, release));
      };
      locks.request(name, options, hold).catch(reject);
    }),
  release: ({ id }) => holds.get(id)(),
  query: async (message) => {
    const { held, pending } = await bucketOf(message).locks.query();
    return { held: held.length, pending: pending.length };
  },
  close: (message) => bucketOf(message).close(),
  /** As many names as given, in each of as many buckets. */
  async fill({ directory, count, names }) {
    for (let i = 0; i < count; i++) {
      const { locks } = bucketOf({ bucket: `bucket ${i}`, directory });
      for (let k = 0; k < names; k++) await locks.request(`name ${k}`, () => {});
    }
  },
  /** Asks for as many locks at once, and holds those it gets until all are. */
  async crowd({ directory, count }) {
    const { locks } = bucketOf({ directory });
    let granted = 0;
    const release = [];
    const all = Array.from({ length: count }, (_, i) =>
      locks.request(`${'a long name '.repeat(10)}${i}`, () => {
        granted++;
        if (granted === count) for (const go of release) go();
        return granted === count || new Promise((resolve) => release.push(resolve));
      }),
    );
    await Promise.all(all);
    return granted;
  },
};

process.on('message', async (message) => {
  try {
    process.send({ id: message.id, answer: (await doers[message.do](message)) ?? null });
  } catch (error) {
    process.send({ id: message.id, error: error.message, code: error.code });
  }
});
process.send({ ready: true });
