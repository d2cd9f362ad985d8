// slow: 5

'use strict';

/** Each rule matters: without it, the judge finds the fault that the rule prevents. */

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { without } = require('./rules.js');
const { Trial } = require('./trial.js');
const { TTL } = require('../cluster/setup.js');

const SAME_RATES = [1, 1, 1];

/** Parses `50` or `3 ttl`. */
const timeOf = ([time, unit]) => time * (unit === 'ttl' ? TTL : 1);

/** Parses `a for 50`, `a and b for 3 ttl` or `a urgently for 50`. */
function request(trial, client, words, options = {}) {
  const at = words.indexOf('for');
  const [name, more, other] = words.slice(0, at);
  const duration = timeOf(words.slice(at + 1));
  if (more === 'and') trial.requestAll(client, [name, other], options, duration);
  else trial.request(client, name, more === 'urgently' ? { priority: 1 } : options, duration);
}

/** Actions of a client, and what happens to it. */
const OF_CLIENT = {
  requests: request,
  steals: (trial, client, words) => request(trial, client, words, { steal: true }),
  away: (trial, client) => trial.away(client),
  sleeps: (trial, client, words) => trial.stop(client, timeOf(words), true),
  blocked: (trial, client, words) => trial.block(client, timeOf(words)),
  resets: (trial, client, words) => trial.client(client).machine.setWallBy(timeOf(words)),
};

/** What happens to the network of a client. */
const OF_NETWORK = {
  cut: (network) => network.cut(),
  back: (network) => Object.assign(network, { isCut: false }),
  delays: (network, [time]) => Object.assign(network, { delay: Number(time) }),
  loses: (network, [what]) =>
    Object.assign(network.drops, { call: what === 'calls', reply: what === 'replies' }),
};

/** What happens to the server, and to all clients. */
const OF_ALL = {
  wait: (trial, words) => trial.world.advance(timeOf(words)),
  fault: (trial) => trial.fault(),
  guard: (trial, [name, ...words]) => trial.guard(name, timeOf(words)),
  forget: (trial) => trial.cluster.server.restart({ data: false }),
  failOver: (trial) => trial.cluster.server.failOver(() => true),
  save: (trial) => Object.assign(trial, { saved: trial.cluster.server.snapshot() }),
  restore: (trial) => trial.cluster.server.restore(trial.saved),
  backup: (trial) => trial.backup(),
  failBack: (trial) => trial.failBack(),
};

async function tell(trial, story) {
  await trial.world.advance(10);
  for (const statement of story) {
    const [first, ...words] = statement.split(' ');
    const [what, ...rest] = words;
    if (OF_ALL[first]) await OF_ALL[first](trial, words);
    else if (OF_NETWORK[what]) OF_NETWORK[what](trial.client(Number(first)).network, rest);
    else OF_CLIENT[what](trial, Number(first), rest);
  }
}

/** For each test, the rule that is removed, the fault that the judge then finds, and the story. */
const STORIES = {
  'a lease ends here before it does at the server': [
    'margin',
    /is held when client 2/,
    '0 requests a for 3 ttl; wait 10; 1 requests a for 1 ttl; 0 loses calls; wait 2 ttl',
  ],
  'a lease ends by a clock that counts sleep and that nobody sets': [
    'clock',
    /is held when client 2/,
    '0 requests a for 3 ttl; wait 10; 1 requests a for 1 ttl; 0 away; 0 resets -0.4 ttl',
    '0 sleeps 0.7 ttl; wait 2 ttl',
  ],
  'what the server has is compared with what is known here': [
    'compares',
    /is held when client 2/,
    '0 requests a for 3 ttl; wait 10; fault; failOver; 1 requests a for 1 ttl; wait 2 ttl',
  ],
  'nothing is granted for a ttl after grants may have been lost': [
    'quarantine',
    /is held when client 2/,
    '0 requests a for 3 ttl; wait 10; 0 away; forget; wait 100; 1 requests a for 1 ttl',
    'wait 2 ttl',
  ],
  'a call over a connection that was replaced changes nothing': [
    'connections',
    /stolen by nobody/,
    '0 delays 2000; 0 steals a for 5; wait 0; 0 delays 1; 0 cut; wait 500',
    '1 requests a for 1 ttl; wait 1 ttl',
  ],
  'R1: a theft that is sent again is executed once': [
    'records',
    /is granted twice/,
    '0 loses replies; 0 steals a for 1 ttl; wait 10; 1 steals a for 1 ttl; wait 10',
    '0 loses nothing; 0 cut; wait 2 ttl',
  ],
  'R1: a theft is executed once, even if another step was under way behind it': [
    'record',
    /not all are served|is granted twice/,
    '0 loses replies; 0 steals a for 1 ttl; wait 1; 0 requests b for 1 ttl; wait 10',
    '1 steals a for 1 ttl; wait 10; 0 loses nothing; 0 cut; wait 2 ttl',
  ],
  'R1: a lost step is executed before the steps behind it': [
    'orders',
    /not all are served|is granted before/,
    '0 requests a for 50; wait 10; 0 loses calls; 0 requests a for 50; wait 1',
    '0 loses nothing; 0 requests a for 50; wait 2 ttl',
  ],
  // It is granted the other lock, too, loses that to a thief, and is notified of neither.
  'R2: a group that has lost one of its locks keeps none that others wait for': [
    'groups',
    /not all are served/,
    '2 requests b for 100; wait 10; 0 requests a and b for 50; wait 10',
    '1 requests b and a for 50; wait 10; fault; 0 loses replies; wait 100; 2 steals b for 1 ttl',
    'wait 10',
  ],
  'R4: a client that cannot steal a guarded name gets another one': [
    'busy',
    /^b: client 2's client 2 3 waits/m,
    '0 requests a for 3 ttl; wait 10; guard a 2 ttl; 1 steals a for 50; wait 10',
    '1 requests b for 50; wait 1 ttl',
  ],
  'more priority is granted first, even to a request that is made again in another session': [
    'priorities',
    /overtook/,
    '0 requests a for 3 ttl; wait 10; 0 requests a for 50; 1 requests a urgently for 50; wait 10',
    '1 away; wait 1.5 ttl; 1 back; wait 2 ttl',
  ],
  // The holder reached this server before the other client did, and is cut off.
  'R5: a server that returns without grants of another one grants nothing for a ttl': [
    'listens',
    /is held when client 2|token/,
    'save; 0 requests a for 3 ttl; wait 10; 1 away; fault; restore; wait 200; 0 away; 1 back',
    '1 requests a for 1 ttl; wait 3 ttl',
  ],
  // A client reports the other server, which had granted it nothing.
  'R5: a server that returns grants no token again that nobody tells of': [
    'leaps',
    /comes twice/,
    'backup; wait 1.2 ttl; 1 requests a for 3 ttl; wait 10; 1 away; failBack',
    '0 requests a for 1 ttl; wait 3 ttl',
  ],
  'a keeper keeps the locks of an event loop that is blocked for longer than a lease': [
    'keeper',
    /is lost in spite of a keeper/,
    '0 requests a for 5 ttl; wait 10; 0 blocked 3 ttl; 1 requests a for 50; wait 4 ttl',
  ],
  'a keeper extends no lease in an epoch that its session has not seen': [
    'epochs',
    /client 2 2 \(token \d+\) is held when client 1/,
    '0 requests a for 5 ttl; wait 10; 0 blocked 2 ttl; fault; failOver; 1 requests a for 5 ttl',
    'wait 3 ttl',
  ],
  'an event loop that is blocked for longer than its keeper allows loses its locks': [
    'max blocked',
    /hangs, and is kept/,
    '0 requests a for 1 ttl; wait 10; 0 blocked 10 ttl; 1 requests a for 50; wait 9 ttl',
  ],
  'a keeper keeps nothing for a session that is cut off': [
    'cut off',
    /is cut off, and is kept/,
    '0 requests a for 1 ttl; wait 10; fault; 0 away; 1 requests a for 50; wait 6 ttl',
  ],
};

for (const [title, [rule, pattern, ...story]] of Object.entries(STORIES)) {
  test(title, async () => {
    const judge = async (options) => {
      const trial = new Trial(SAME_RATES, options);
      await tell(trial, story.join('; ').split('; '));
      return trial.judge();
    };
    assert.deepEqual(await judge({}), []);
    assert.match((await without(rule, judge)).join('\n'), pattern);
  });
}
