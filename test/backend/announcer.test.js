'use strict';

/** What is announced to users, and in which order. */

const assert = require('node:assert/strict');
const { it } = require('node:test');
const { Announcer } = require('../../lib/backend/announcer.js');

/** Notes when it is announced, and a microtask later. */
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

for (const [title, between] of [
  ['that were queued together', () => {}],
  ['of which one is queued when the other was announced', (announcer) => announcer.announce(true)],
])
  it(`all microtasks run between two answers ${title}`, async () => {
    const notes = [];
    const announcer = new Announcer();
    announcer.addAnswer(noting(notes, 'one'));
    between(announcer);
    announcer.addAnswer(noting(notes, 'other'));
    announcer.announce(true);
    await settled();
    assert.deepEqual(notes, ['one', "one's microtask", 'other', "other's microtask"]);
    assert.equal(announcer.count, 0);
  });
