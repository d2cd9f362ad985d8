'use strict';

/**
 * The scopes of the torture: their actors, how they open their buckets, what the scope lacks, what
 * it promises, and what can happen to it (faults.js).
 *
 * test/conformance/scopes.js lists what a scope can lack; added here are `collect` (forgotten
 * handles are not collected) and `guard` (there is no database).
 *
 * A scope can promise:
 * - `order`: requests are served first come, first served: among `all` actors, by when the call
 *   returned, or among the requests of each `actor`
 * - `queue`: locks are granted in the order of the queue that a snapshot shows
 * - `callbacks`: callbacks of a thread are called in the order of the grants
 * - `settled`: no request waits for a lock that nobody holds
 * - `losses`: what happens to servers can lose locks
 * - `forgets`: it can lose marks, too
 * - `pause`: the longest time in milliseconds in which a server grants nothing; without it, it
 *   always grants
 */

const path = require('node:path');
const { engines, scopeOf } = require('./engines.js');

const ROOT = path.join(__dirname, '..', '..');
const load = (entry) => require(path.join(ROOT, 'lib', `${entry}.js`));

/** The lease of the cluster in memory, in simulated time. */
const TTL = 10_000;

const bucketOf = (i) => `torture ${i}`;

/** The default bucket, which is never closed. */
const defaultPlace = ({ locks }) => ({ bucket: 'default', locks });

/** @param {() => any} open opens one more object of the same bucket */
function placeOf(bucket, open, asBucket) {
  const opened = open();
  const { locks } = opened;
  return { bucket, locks, asBucket: asBucket ?? opened, open, close: () => opened.close() };
}

const LATER = { sync: true, deadlock: true, state: true, oneByOne: true };

const scopes = {
  /** Threads of a process. */
  threads: {
    processes: 1,
    threads: 4,
    buckets: 3,
    lacks: { guard: true },
    promises: { order: 'all', queue: true, callbacks: true, settled: true },
    faults: ['terminate', 'threadExit', 'threadThrow'],
    open({ buckets }) {
      const library = load('index');
      const places = [defaultPlace(library)];
      for (let i = 1; i < buckets; i++) {
        const open = () => library.openBucket(bucketOf(i));
        places.push(placeOf(bucketOf(i), open, bucketOf(i)));
      }
      return { library, places, end() {} };
    },
  },

  /** Threads and processes of a machine. */
  host: {
    processes: 4,
    threads: 1,
    buckets: 2,
    lacks: { deadlock: true, state: true, guard: true },
    promises: { order: 'actor', queue: true, callbacks: true },
    faults: ['terminate', 'threadExit', 'threadThrow', 'kill', 'stop', 'exit'],
    harms: ['remove', 'removeAll', 'truncate', 'zero', 'move', 'moveAll', 'moveAbove'],
    open({ buckets, directory, hasDefault }) {
      const library = load('host');
      const places = hasDefault ? [defaultPlace(library)] : [];
      for (let i = places.length; i < buckets; i++) {
        places.push(placeOf(bucketOf(i), () => library.openBucket(bucketOf(i), { directory })));
      }
      return { library, places, end() {} };
    },
  },

  /** A cluster in memory, in simulated time: memory.js. */
  memory: {
    isWorld: true,
    lacks: { ...LATER, collect: true, guard: true },
    promises: { losses: true, forgets: true, pause: TTL },
    faults: [
      ...['cut', 'drop', 'away', 'refuse', 'delay', 'twice', 'wall', 'restart', 'failOver'],
      ...['stop', 'sleep', 'kill', 'stopServer'],
    ],
  },
};

for (const name of Object.keys(engines)) {
  const { entry = name } = engines[name];
  const lacks = { ...LATER, guard: entry !== 'postgres' };
  scopes[name] = scopeOf(name, { lacks, load, placeOf });
}

module.exports = { TTL, bucketOf, scopes };
