'use strict';

/**
 * A lock is stolen right after the call that granted it: the thread has more events than one call
 * returns, and another thread steals before it has fetched the rest.
 */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { addon } = require('../../lib/backend/addon.js');
const { openBucket } = require('../../lib/index.js');
const { startBeside } = require('../helpers/beside.js');

/** More events than an exchange has room for. */
const MANY = 300;
const BUCKET = 'overtaken events';

/** Starts a thread that steals while this one is blocked. */
function startThief(t) {
  const source = `
    const { locks } = require(library).openBucket(bucket);
    const steal = (name) => locks.request(name, { steal: true }, () => {});
    for (let i = 0; i < ${MANY}; i++) await steal('many ' + i);
    say(1);
    waitWhile(1);
    await steal('last');
    say(3);`;
  const thief = startBeside(t, source, { bucket: BUCKET });
  return {
    stealMany: () => thief.waitWhile(0),
    stealLast() {
      thief.say(2);
      thief.waitWhile(2);
    },
  };
}

describe('a theft that comes with the rest of the events of a call', () => {
  it('is not undone by the grant that the call answered', async (t) => {
    const { locks } = openBucket(BUCKET);
    const many = Array.from({ length: MANY }, (_, i) => locks.tryAcquireSync(`many ${i}`));
    const thief = startThief(t);
    thief.stealMany();
    const { drain } = addon;
    t.after(() => {
      addon.drain = drain;
    });
    addon.drain = (...args) => {
      addon.drain = drain;
      thief.stealLast();
      return drain(...args);
    };
    const seen = [];
    const released = locks.request('last', (lock) => seen.push(lock.held));
    await assert.rejects(released, { name: 'AbortError' });
    assert.equal(addon.drain, drain, 'the events had no room');
    assert.deepEqual(
      many.filter(({ held }) => held),
      [],
    );
    assert.deepEqual(
      seen.filter((held) => held),
      [],
    );
  });
});
