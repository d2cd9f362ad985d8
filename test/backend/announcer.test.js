'use strict';

/** The order in which the library announces events to users. */

const assert = require('node:assert/strict');
const { it } = require('node:test');
const { Announcer } = require('../../lib/backend/announcer.js');

/** Adds a note when it is announced, and another one a microtask later. */
function noting(notes, name) {
  const note = async () => {
    notes.push(name);
    await null;
    notes.push(`${name}'s microtask`);
  };
  return { announceAnswer: note, announceLoss: note, isDelivered: true };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

it('losses come before changes, and changes before answers', async () => {
  const notes = [];
  const announcer = new Announcer();
  announcer.addAnswer(noting(notes, 'answer'));
  announcer.addChange(() => notes.push('change'));
  announcer.addLoss(noting(notes, 'loss'));
  announcer.announce(true);
  await settled();
  assert.deepEqual(notes, ['loss', "loss's microtask", 'change', 'answer', "answer's microtask"]);
});

it('all microtasks run between two answers that were queued together', async () => {
  const notes = [];
  const announcer = new Announcer();
  announcer.addAnswer(noting(notes, 'one'));
  announcer.addAnswer(noting(notes, 'other'));
  announcer.announce(true);
  await settled();
  assert.deepEqual(notes, ['one', "one's microtask", 'other', "other's microtask"]);
  assert.equal(announcer.count, 0);
});

it('an answer waits until user code was called with the one before', async () => {
  const notes = [];
  const announcer = new Announcer();
  const slow = {
    isDelivered: false,
    async announceAnswer() {
      await null;
      slow.isDelivered = true;
      notes.push('slow');
    },
  };
  announcer.addAnswer(slow);
  announcer.announce(true);
  announcer.addAnswer(noting(notes, 'other'));
  announcer.announce(true);
  await settled();
  assert.deepEqual(notes, ['slow', 'other', "other's microtask"]);
});

it('an answer needs no tick once user code was called with the one before', () => {
  const notes = [];
  const announcer = new Announcer();
  for (const name of ['one', 'other']) {
    announcer.addAnswer(noting(notes, name));
    announcer.announce(false);
  }
  assert.deepEqual(notes, ['one', 'other']);
});
