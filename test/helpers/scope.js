'use strict';

/**
 * Tests of the conformance suite import this instead of the library: it has the library's exports,
 * but `locks`, `openBucket` and the like belong to the scope that WEB_LOCKS_TEST_SCOPE names
 * (test/conformance/scopes.js). In the scope `process` they are the library's own.
 */

const { randomUUID } = require('node:crypto');
const { after } = require('node:test');
const { chosen, scope } = require('../conformance/scopes.js');
const { turn } = require('./locks.js');
const { needs } = require('./needs.js');

const library = scope.library();
const isProcess = chosen === 'process';

/** Each file has a bucket of its own, which its workers and processes inherit. */
process.env.WEB_LOCKS_TEST_BUCKET ??= randomUUID();

/** The end of the file closes the buckets that it opened, so that the process can end. */
const opened = [];

function openBucket(name) {
  const bucket = scope.openBucket(name);
  opened.push(bucket);
  return bucket;
}

const locks = isProcess ? library.locks : openBucket(process.env.WEB_LOCKS_TEST_BUCKET).locks;

if (!isProcess) after(() => Promise.all(opened.map((bucket) => bucket.close())));

/** Derives a class such as Mutex whose named locks belong to the scope. */
const ofScope = (Class) =>
  class extends Class {
    constructor(name, options, ...rest) {
      super(name, typeof name === 'string' ? inScope(options) : options, ...rest);
    }
  };

function inScope(options) {
  const { bucket, locks: given } = options ?? {};
  if (bucket === undefined && given === undefined) return { ...options, locks };
  return typeof bucket === 'string' ? { ...options, bucket: openBucket(bucket) } : options;
}

/** Waits for everything that is due after the requests of this thread, like `turn` of locks.js. */
async function turnOfScope() {
  await locks.query();
  await turn();
}

const { Mutex, RWLock, Semaphore } = library;

module.exports = {
  ...library,
  ...(!isProcess && {
    Mutex: ofScope(Mutex),
    RWLock: ofScope(RWLock),
    Semaphore: ofScope(Semaphore),
  }),
  clientId: scope.clientId,
  locks,
  /** The length of a very long name in code units. */
  LONG: scope.long,
  /** A number of requests on one name that counts as many. */
  MANY: scope.many,
  needs,
  openBucket: isProcess ? library.openBucket : openBucket,
  turn: scope.lacks.turns ? turnOfScope : turn,
};
