'use strict';

/** Queries of the holders of a lock are shared by requests: holder-queries.js. */

const { clock } = require('../helpers/clock.js');
const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { turn } = require('../helpers/locks.js');
const { Random } = require('../torture/random.js');
const { queryHolders, sharedHoldersNow } = require('../../lib/extensions/watch/holder-queries.js');

/** The holders are unknown after so many milliseconds without an answer. */
const LIMIT_MS = 200;

/** A backend whose holders change, and that answers when the test says so. */
class Backend {
  /** The holder of all locks: a number that grows. */
  holder = 0;
  /** The names of the queries under way, with functions that answer them. */
  asked = [];

  holders = (name) => [{ name, label: `${this.holder}` }];

  askHolders = (name) => {
    const list = this.holders(name);
    return new Promise((resolve) => this.asked.push({ name, answer: () => resolve(list) }));
  };
}

describe('questions for holders', () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    it(`have answers that are no older, one at a time for a name (${seed})`, async () => {
      const random = new Random('questions', seed);
      const backend = new Backend();
      const made = [];
      const known = { answers: 0, none: 0 };
      const ask = (name) => {
        const { holder } = backend;
        const question = { since: clock.now(), isOpen: true };
        const check = (holders) => {
          question.isOpen = false;
          known[holders ? 'answers' : 'none']++;
          if (!holders) return assert.ok(clock.now() - question.since >= LIMIT_MS);
          assert.deepEqual([holders.count, holders.list[0].name], [1, name]);
          assert.ok(Number(holders.list[0].label) >= holder, 'older than the question');
        };
        made.push(Object.assign(queryHolders(backend, name).then(check), { question }));
      };
      let holderInThisTurn = 0;
      const acts = {
        look() {
          const { list } = sharedHoldersNow(backend, 'a', false);
          assert.ok(Number(list[0].label) >= holderInThisTurn, 'older than the turn');
        },
        ask: () => ask(random.pick(['a', 'b'])),
        change: () => backend.holder++,
        answer: () => backend.asked.splice(random.below(backend.asked.length), 1)[0]?.answer(),
        async turn() {
          await turn();
          holderInThisTurn = backend.holder;
        },
        pass: () => clock.advance(random.pick([1, LIMIT_MS / 2, LIMIT_MS])),
      };
      const drawn = ['ask', 'ask', 'look', 'change', 'answer', 'answer', 'turn', 'turn', 'turn'];
      for (let i = 0; i < 500; i++) {
        await acts[random.chance(0.05) ? 'pass' : random.pick(drawn)]();
        const names = backend.asked.map(({ name }) => name);
        assert.ok(known.none > 0 || names.length === new Set(names).size, `${names}`);
      }
      while (made.some(({ question }) => question.isOpen)) {
        for (const { answer } of backend.asked.splice(0)) answer();
        await turn();
      }
      await Promise.all(made);
      assert.ok(known.answers > 50 && known.none > 0, JSON.stringify(known));
    });
  }
});
