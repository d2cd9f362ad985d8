'use strict';

/**
 * The scopes that are tortured: who the actors are, how they open their buckets, what the scope
 * lacks, what it promises, and what can happen to it (faults.js).
 *
 * What a scope can lack: see test/conformance/scopes.js; and `collect`: handles cannot be leaked;
 * `guard`: there is no database.
 *
 * What it can promise:
 * - `order`: first come, first served: of `all` actors, since a request has its place when the call
 *   returns; or of each `actor`
 * - `queue`: what a snapshot tells of a queue is the order of the grants
 * - `callbacks`: those of a thread come in the order of grants
 * - `settled`: nobody waits for a lock that nobody holds, at any time
 * - `losses`: locks can be lost by what happens to servers
 * - `forgets`: so can marks
 * - `pause`: milliseconds for which a server grants nothing at most; else it always grants
 */

const path = require('node:path');
const { engines, scopeOf } = require('./engines.js');

const ROOT = path.join(__dirname, '..', '..');
const load = (entry) => require(path.join(ROOT, 'lib', `${entry}.js`));

/** The lease of the cluster in memory, of its own time. */
const TTL = 10_000;

const bucketOf = (i) => `torture ${i}`;

/** The default bucket, which nobody closes. */
const defaultPlace = ({ locks }) => ({ bucket: 'default', locks });

/** @param {() => any} open opens one more bucket object of the same bucket */
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
    isLinux: true,
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

  /** A cluster in memory, in a world with its own time: see memory.js. */
  memory: {
    isWorld: true,
    lacks: { ...LATER, collect: true, guard: true },
    promises: { losses: true, forgets: true, pause: TTL },
    faults: [
      'cut',
      'drop',
      'away',
      'refuse',
      'delay',
      'twice',
      'wall',
      'restart',
      'failOver',
      'stop',
      'sleep',
      'kill',
      'stopServer',
    ],
  },
};

for (const name of Object.keys(engines)) {
  const { entry = name } = engines[name];
  const lacks = { ...LATER, guard: entry !== 'postgres', priority: entry === 'etcd' };
  scopes[name] = scopeOf(name, { lacks, load, placeOf });
}

module.exports = { TTL, bucketOf, scopes };
