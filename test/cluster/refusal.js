'use strict';

const assert = require('node:assert/strict');

/** The lease is short, because no lock is held. */
const TTL = 2_000;

/** Resolves when a bucket is open, however often an attempt fails. */
const isOpen = async (bucket) => {
  for (;;) {
    try {
      await bucket.ready;
      return;
    } catch {}
  }
};

/**
 * Checks that requests of an open bucket fail while its server refuses it, and are served
 * afterwards.
 * @param bucket
 * @param {string} code of the errors meanwhile
 * @param {() => Promise<unknown>} refuse makes the server refuse, even on existing connections
 * @param {() => Promise<unknown>} serve
 */
async function outlivesRefusal(bucket, code, refuse, serve) {
  await isOpen(bucket);
  await refuse();
  await assert.rejects(
    bucket.locks.request('asked', () => {}),
    { code },
  );
  await serve();
  await isOpen(bucket);
  await bucket.locks.request('asked', () => {});
  await bucket.close();
}

module.exports = { TTL, isOpen, outlivesRefusal };
