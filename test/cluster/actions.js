'use strict';

/** What may happen in a trial: lists of actions, and how fast the clocks go, as fast-check makes them. */

const fc = require('fast-check');
const { TTL } = require('./setup.js');

const mode = fc.constantFrom('exclusive', 'exclusive', 'shared');
const what = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.constantFrom('request', 'request', 'limited', 'ifAvailable', 'once', 'pass'),
  },
  { weight: 5, arbitrary: fc.constantFrom('abort', 'steal', 'all', 'all', 'refused', 'few') },
  { weight: 5, arbitrary: fc.constantFrom('publish', 'publish', 'read') },
  {
    weight: 5,
    arbitrary: fc.constantFrom(
      ...[
        'cut',
        'drop',
        'away',
        'unwelcome',
        'delay',
        'narrow',
        'twice',
        'heal',
        'stop',
        'wall',
        'block',
      ],
    ),
  },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      ...['restart', 'failOver', 'stopServer', 'kill', 'close', 'guard', 'backup', 'failBack'],
    ),
  },
);
const action = fc.record({
  what,
  i: fc.nat({ max: 2 }),
  name: fc.constantFrom('a', 'b'),
  ms: fc.nat({ max: 2 * TTL }),
  mode,
  priority: fc.constantFrom(0, 0, 0, 1, 2, -1),
  flag: fc.boolean(),
  pause: fc.oneof(fc.nat({ max: 20 }), fc.nat({ max: TTL })),
});
// A second of one is that of another to less than 10 %.
const rate = fc.constantFrom(0.96, 1, 1.04);
const rates = fc.tuple(rate, rate, rate, rate);

/** Groups that meet one another and thieves, where hints get lost. */
const meeting = fc.record({
  what: fc.constantFrom(
    ...['all', 'all', 'all', 'steal', 'steal', 'request', 'pass', 'drop', 'cut', 'heal'],
  ),
  i: fc.nat({ max: 2 }),
  name: fc.constantFrom('a', 'b'),
  ms: fc.nat({ max: 2 * TTL }),
  mode: fc.constant('exclusive'),
  flag: fc.constant(false),
  pause: fc.nat({ max: 20 }),
});

/** Requests beside those that cannot be done, however often they are sent. */
const refusing = fc.constantFrom('refused', 'unheard').chain((never) =>
  fc.array(
    fc.record({
      what: fc.constantFrom('request', 'limited', 'all', never),
      i: fc.nat({ max: 1 }),
      name: fc.constantFrom('a', 'b'),
      ms: fc.nat({ max: 20 }),
      mode,
      flag: fc.constant(false),
      pause: fc.nat({ max: 20 }),
    }),
    { maxLength: 40 },
  ),
);

/** Who holds a lock sleeps, and wall clocks are set back. */
const sleeping = fc.record({
  what: fc.constantFrom('hold', 'hold', 'wall back', 'sleep'),
  i: fc.nat({ max: 1 }),
  name: fc.constant('a'),
  ms: fc.nat({ max: 2 * TTL }),
  mode: fc.constant('exclusive'),
  flag: fc.constant(false),
  pause: fc.oneof(fc.nat({ max: 20 }), fc.nat({ max: TTL })),
});

/** Event loops are blocked, of a client that has a keeper and of one that has none. */
const hanging = ['hold', 'hold', 'request', 'block', 'block', 'block'];
const blocking = fc
  .constantFrom([], ['failOver', 'request'], ['away', 'heal'], ['steal', 'cut'])
  .chain((faults) =>
    fc.array(
      fc.record({
        what: fc.constantFrom(...hanging, ...faults),
        i: fc.nat({ max: 1 }),
        name: fc.constant('a'),
        ms: fc.nat({ max: 2 * TTL }),
        mode: fc.constant('exclusive'),
        flag: fc.boolean(),
        pause: fc.oneof(fc.nat({ max: 20 }), fc.nat({ max: 3 * TTL })),
      }),
      { maxLength: 15 },
    ),
  );

/** Another server takes over, grants, and is gone again, while some are away (R5). */
const returning = fc.record({
  what: fc.constantFrom(
    ...['request', 'request', 'hold', 'steal', 'backup', 'failBack', 'failBack', 'away', 'heal'],
  ),
  i: fc.nat({ max: 2 }),
  name: fc.constant('a'),
  ms: fc.nat({ max: 2 * TTL }),
  mode: fc.constant('exclusive'),
  flag: fc.constant(false),
  // Longer than a quarantine, too.
  pause: fc.oneof(fc.nat({ max: 20 }), fc.nat({ max: TTL }), fc.constant(1.1 * TTL)),
});

/** Users' transactions guard names, and nothing else is in the way (R4). */
const guarding = fc.record({
  what: fc.constantFrom(
    ...['request', 'request', 'ifAvailable', 'once', 'abort', 'few'],
    ...['steal', 'steal', 'guard', 'guard'],
  ),
  i: fc.nat({ max: 1 }),
  name: fc.constantFrom('a', 'b'),
  ms: fc.nat({ max: 2 * TTL }),
  mode,
  flag: fc.constant(false),
  pause: fc.nat({ max: TTL / 10 }),
});

/** A holder publishes, answers to it get lost, and others ask for that. */
const holding = { what: 'hold', i: 0, name: 'a', ms: 0, mode: 'exclusive', flag: false, pause: 5 };
const publishing = fc
  .array(
    fc.record({
      what: fc.constantFrom(
        ...['hold', 'publish', 'publish', 'publish', 'publish', 'read', 'read', 'read', 'heal'],
        ...['drop', 'cut', 'heal', 'twice', 'delay', 'narrow', 'steal', 'backup', 'failBack'],
      ),
      i: fc.constantFrom(0, 0, 1),
      name: fc.constant('a'),
      ms: fc.nat({ max: TTL }),
      mode: fc.constant('exclusive'),
      flag: fc.boolean(),
      pause: fc.oneof(fc.nat({ max: 2 }), fc.nat({ max: 5 }), fc.nat({ max: TTL / 10 })),
    }),
    { maxLength: 30 },
  )
  .map((actions) => [holding, ...actions]);

/** What one trial is. */
const story = fc.tuple(
  rates,
  fc.oneof(
    { weight: 6, arbitrary: fc.array(action, { maxLength: 40 }) },
    { weight: 2, arbitrary: fc.array(meeting, { maxLength: 40 }) },
    { weight: 1, arbitrary: refusing },
    { weight: 1, arbitrary: fc.array(sleeping, { maxLength: 20 }) },
    { weight: 2, arbitrary: blocking },
    { weight: 1, arbitrary: fc.array(returning, { maxLength: 20 }) },
    { weight: 1, arbitrary: fc.array(guarding, { maxLength: 20 }) },
    { weight: 2, arbitrary: publishing },
  ),
);

module.exports = { story };
