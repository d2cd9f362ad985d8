// slow: 5

'use strict';

/** Each rule matters: with it a trial goes well, without it the judge sees what it is there for. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { without } = require('./rules.js');
const { Trial } = require('./trial.js');
const { TTL } = require('./setup.js');

const SAME_RATES = [1, 1, 1];

/**
 * @param story what happens
 * @param rule that is taken away
 * @param pattern what is wrong then
 */
function matters(title, story, rule, pattern) {
  test(title, async () => {
    const judge = async (options) => {
      const trial = new Trial(SAME_RATES, options);
      await trial.world.advance(10);
      await story(trial);
      return trial.judge();
    };
    assert.deepEqual(await judge({}), []);
    assert.match((await without(rule, judge)).join('\n'), pattern);
  });
}

matters(
  'a lease ends here before it does at the server',
  async (trial) => {
    trial.request(0, 'a', {}, 3 * TTL);
    await trial.world.advance(10);
    trial.request(1, 'a', {}, TTL);
    trial.client(0).network.drops.call = true;
    await trial.world.advance(2 * TTL);
  },
  'margin',
  /is held when client 2/,
);

matters(
  'a lease ends by a clock that counts sleep and that nobody sets',
  async (trial) => {
    trial.request(0, 'a', {}, 3 * TTL);
    await trial.world.advance(10);
    trial.request(1, 'a', {}, TTL);
    trial.client(0).network.isCut = true;
    trial.client(0).machine.setWallBy(-0.4 * TTL);
    trial.stop(0, 0.7 * TTL, true);
    await trial.world.advance(2 * TTL);
  },
  'clock',
  /is held when client 2/,
);

matters(
  'what the server has is compared with what is known here',
  async (trial) => {
    trial.request(0, 'a', {}, 3 * TTL);
    await trial.world.advance(10);
    trial.fault();
    trial.cluster.server.failOver(() => true);
    trial.request(1, 'a', {}, TTL);
    await trial.world.advance(2 * TTL);
  },
  'compares',
  /is held when client 2/,
);

matters(
  'nothing is granted for a ttl after grants may have been lost',
  async (trial) => {
    trial.request(0, 'a', {}, 3 * TTL);
    await trial.world.advance(10);
    trial.client(0).network.isCut = true;
    trial.cluster.server.restart({ data: false });
    await trial.world.advance(100);
    trial.request(1, 'a', {}, TTL);
    await trial.world.advance(2 * TTL);
  },
  'quarantine',
  /is held when client 2/,
);

matters(
  'what comes by a connection that was replaced changes nothing',
  async (trial) => {
    const { network } = trial.client(0);
    network.delay = 2000;
    trial.request(0, 'a', { steal: true }, 5);
    await trial.world.advance(0);
    network.delay = 1;
    network.cut();
    await trial.world.advance(500);
    trial.request(1, 'a', {}, TTL);
    await trial.world.advance(TTL);
  },
  'connections',
  /stolen by nobody/,
);

matters(
  'R1: a theft that is asked for again is done once',
  async (trial) => {
    trial.client(0).network.drops.reply = true;
    trial.request(0, 'a', { steal: true }, TTL);
    await trial.world.advance(10);
    trial.request(1, 'a', { steal: true }, TTL);
    await trial.world.advance(10);
    trial.client(0).network.drops.reply = false;
    trial.client(0).network.cut();
    await trial.world.advance(2 * TTL);
  },
  'records',
  /is granted twice/,
);

matters(
  'R1: a theft is done once, also if another step was under way behind it',
  async (trial) => {
    const { network } = trial.client(0);
    network.drops.reply = true;
    trial.request(0, 'a', { steal: true }, TTL);
    await trial.world.advance(1);
    trial.request(0, 'b', {}, TTL);
    await trial.world.advance(10);
    trial.request(1, 'a', { steal: true }, TTL);
    await trial.world.advance(10);
    network.drops.reply = false;
    network.cut();
    await trial.world.advance(2 * TTL);
  },
  'record',
  /not all are served|is granted twice/,
);

matters(
  'R1: a step that got lost is done before those behind it',
  async (trial) => {
    const { network } = trial.client(0);
    trial.request(0, 'a', {}, 50);
    await trial.world.advance(10);
    network.drops.call = true;
    trial.request(0, 'a', {}, 50);
    await trial.world.advance(1);
    network.drops.call = false;
    trial.request(0, 'a', {}, 50);
    await trial.world.advance(2 * TTL);
  },
  'orders',
  /not all are served|is granted before/,
);

matters(
  'R2: a group that has lost one of its locks keeps none that others wait for',
  async (trial) => {
    const { network } = trial.client(0);
    trial.request(2, 'b', {}, 100);
    await trial.world.advance(10);
    trial.requestAll(0, ['a', 'b'], {}, 50);
    await trial.world.advance(10);
    trial.requestAll(1, ['b', 'a'], {}, 50);
    await trial.world.advance(10);
    // It is granted the other one, too, and robbed of it, and hears of neither.
    trial.fault();
    network.drops.reply = true;
    await trial.world.advance(100);
    trial.request(2, 'b', { steal: true }, TTL);
    await trial.world.advance(10);
  },
  'groups',
  /not all are served/,
);

matters(
  'R4: who cannot steal a name that a transaction guards gets another one',
  async (trial) => {
    trial.request(0, 'a', {}, 3 * TTL);
    await trial.world.advance(10);
    trial.guard('a', 2 * TTL);
    trial.request(1, 'a', { steal: true }, 50);
    await trial.world.advance(10);
    trial.request(1, 'b', {}, 50);
    await trial.world.advance(TTL);
  },
  'busy',
  /^b: client 2's client 2 3 waits/m,
);

matters(
  'who has more priority goes first, also if it is asked for again in another session',
  async (trial) => {
    trial.request(0, 'a', {}, 3 * TTL);
    await trial.world.advance(10);
    trial.request(0, 'a', {}, 50);
    trial.request(1, 'a', { priority: 1 }, 50);
    await trial.world.advance(10);
    trial.client(1).network.isCut = true;
    await trial.world.advance(1.5 * TTL);
    trial.client(1).network.isCut = false;
    await trial.world.advance(2 * TTL);
  },
  'priorities',
  /overtook/,
);

matters(
  'R5: a server that comes back without what another one has granted grants nothing for a ttl',
  async (trial) => {
    const { server } = trial.cluster;
    const before = server.snapshot();
    trial.request(0, 'a', {}, 3 * TTL);
    await trial.world.advance(10);
    trial.client(1).network.isCut = true;
    trial.fault();
    server.restore(before);
    await trial.world.advance(200);
    // Who has the lock has been there by now, and is cut off.
    trial.client(0).network.isCut = true;
    trial.client(1).network.isCut = false;
    trial.request(1, 'a', {}, TTL);
    await trial.world.advance(3 * TTL);
  },
  'listens',
  /is held when client 2|token/,
);

matters(
  'R5: nor does it grant a token again of which nobody tells who is there',
  async (trial) => {
    trial.backup();
    await trial.world.advance(1.2 * TTL);
    trial.request(1, 'a', {}, 3 * TTL);
    await trial.world.advance(10);
    trial.client(1).network.isCut = true;
    // By one who knows the other server, and was granted nothing there.
    trial.failBack();
    trial.request(0, 'a', {}, TTL);
    await trial.world.advance(3 * TTL);
  },
  'leaps',
  /comes twice/,
);

matters(
  'a keeper keeps the locks of an event loop that is blocked for longer than a lease',
  async (trial) => {
    trial.request(0, 'a', {}, 5 * TTL);
    await trial.world.advance(10);
    trial.block(0, 3 * TTL);
    trial.request(1, 'a', {}, 50);
    await trial.world.advance(4 * TTL);
  },
  'keeper',
  /is lost in spite of a keeper/,
);

matters(
  'a keeper extends no lease in an epoch that its session has not seen',
  async (trial) => {
    trial.request(0, 'a', {}, 5 * TTL);
    await trial.world.advance(10);
    trial.block(0, 2 * TTL);
    trial.fault();
    trial.cluster.server.failOver(() => true);
    trial.request(1, 'a', {}, 5 * TTL);
    await trial.world.advance(3 * TTL);
  },
  'epochs',
  /client 2 2 \(token \d+\) is held when client 1/,
);

matters(
  'an event loop that hangs for longer than its keeper allows loses its locks',
  async (trial) => {
    trial.request(0, 'a', {}, TTL);
    await trial.world.advance(10);
    trial.block(0, 10 * TTL);
    trial.request(1, 'a', {}, 50);
    await trial.world.advance(9 * TTL);
  },
  'max blocked',
  /hangs, and is kept/,
);

matters(
  'a keeper keeps nothing for a session that is cut off',
  async (trial) => {
    trial.request(0, 'a', {}, TTL);
    await trial.world.advance(10);
    trial.fault();
    trial.away(0);
    trial.request(1, 'a', {}, 50);
    await trial.world.advance(6 * TTL);
  },
  'cut off',
  /is cut off, and is kept/,
);
