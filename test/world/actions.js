'use strict';

/** What may happen in a trial: arbitraries of fast-check for actions, and for rates of clocks. */

const fc = require('fast-check');
const { TTL } = require('../cluster/setup.js');

const anyMode = fc.constantFrom('exclusive', 'exclusive', 'shared');
const soon = fc.nat({ max: 20 });
/** At once, or so late that leases end meanwhile. */
const soonOrLater = (max = TTL) => fc.oneof(soon, fc.nat({ max }));

/** An action of one of some clients, on one of some names. */
const action = (
  what,
  {
    clients = 2,
    names = ['a'],
    ms = 2 * TTL,
    mode = fc.constant('exclusive'),
    flag = fc.constant(false),
    pause = soon,
    ...more
  },
) =>
  fc.record({
    what: typeof what[0] === 'string' ? fc.constantFrom(...what) : fc.oneof(...what),
    i: fc.nat({ max: clients - 1 }),
    name: fc.constantFrom(...names),
    ms: fc.nat({ max: ms }),
    mode,
    ...more,
    flag,
    pause,
  });

const weighted = (weight, ...whats) => ({ weight, arbitrary: fc.constantFrom(...whats) });
const anything = action(
  [
    weighted(10, 'request', 'request', 'limited', 'ifAvailable', 'once', 'pass'),
    weighted(5, 'abort', 'steal', 'overtake', 'all', 'all', 'refused', 'few'),
    weighted(5, 'publish', 'publish', 'read'),
    weighted(
      ...[5, 'cut', 'drop', 'away', 'unwelcome', 'delay', 'narrow', 'twice', 'heal', 'stop'],
      ...['wall', 'block'],
    ),
    weighted(
      ...[3, 'restart', 'failOver', 'stopServer', 'kill', 'close', 'guard', 'backup', 'failBack'],
    ),
  ],
  {
    clients: 3,
    names: ['a', 'b'],
    mode: anyMode,
    priority: fc.constantFrom(0, 0, 0, 1, 2, -1),
    flag: fc.boolean(),
    pause: soonOrLater(),
  },
);

/** Groups that conflict with one another and with thefts, while hints are lost. */
const meeting = action(
  ['all', 'all', 'all', 'steal', 'overtake', 'request', 'pass', 'drop', 'cut', 'heal'],
  { clients: 3, names: ['a', 'b'] },
);

/** Requests beside others that always fail, however often they are sent. */
const refusing = fc
  .constantFrom('refused', 'unheard')
  .chain((never) =>
    fc.array(
      action(['request', 'limited', 'all', never], { names: ['a', 'b'], ms: 20, mode: anyMode }),
      { maxLength: 40 },
    ),
  );

/** The holder of a lock sleeps, and wall clocks are set back. */
const sleeping = action(['hold', 'hold', 'wall back', 'sleep'], { pause: soonOrLater() });

/** The event loops of a client with a keeper and of one without are blocked. */
const hanging = ['hold', 'hold', 'request', 'block', 'block', 'block'];
const blocking = fc
  .constantFrom([], ['failOver', 'request'], ['away', 'heal'], ['steal', 'cut'])
  .chain((faults) =>
    fc.array(action([...hanging, ...faults], { flag: fc.boolean(), pause: soonOrLater(3 * TTL) }), {
      maxLength: 15,
    }),
  );

const holding = { what: 'hold', i: 0, name: 'a', ms: 0, mode: 'exclusive', flag: false, pause: 5 };

/** The connections of a holder and its keeper, or one of them, fail again and again. */
const pausing = { clients: 1, pause: fc.nat({ max: TTL }) };
const long = { ...pausing, pause: fc.oneof(pausing.pause, fc.constant(3.1 * TTL)) };
const failing = fc
  .array(
    fc.tuple(
      fc.constant(holding),
      action(['drop', 'away', 'unwelcome'], long),
      action(['heal'], pausing),
    ),
    { maxLength: 5, size: 'max' },
  )
  .map((turns) => turns.flat());

/** Another server takes over, grants, and is gone again, while some clients are away (R5). */
const returning = action(
  ['request', 'request', 'hold', 'steal', 'backup', 'failBack', 'failBack', 'away', 'heal'],
  // Some pauses are longer than a quarantine.
  { clients: 3, pause: fc.oneof(soon, fc.nat({ max: TTL }), fc.constant(1.1 * TTL)) },
);

/** Users' transactions guard names, without other faults (R4). */
const guarding = action(
  [
    ...['request', 'request', 'ifAvailable', 'once', 'abort', 'few'],
    ...['steal', 'steal', 'guard', 'guard'],
  ],
  { names: ['a', 'b'], mode: anyMode, pause: fc.nat({ max: TTL / 10 }) },
);

/** A holder publishes, replies to it are lost, and others read the data. */
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

/** Functions run once, while releases and replies to them get lost. */
const marking = action(
  [
    ...['once', 'once', 'once', 'once', 'once', 'once', 'steal', 'close'],
    ...['drop', 'drop', 'cut', 'narrow', 'delay', 'heal', 'heal'],
  ],
  {
    names: ['a', 'b', 'c', 'd', 'e'],
    flag: fc.boolean(),
    pause: fc.oneof(soon, fc.nat({ max: TTL / 10 }), soonOrLater()),
  },
);

// The rates of two clocks differ by less than 10 %.
const rate = fc.constantFrom(0.96, 1, 1.04);
const several = (weight, one, maxLength) => ({
  weight,
  arbitrary: fc.array(one, { maxLength, size: 'max' }),
});

const story = fc.tuple(
  fc.tuple(rate, rate, rate, rate),
  fc.oneof(
    several(6, anything, 40),
    several(2, meeting, 40),
    { weight: 1, arbitrary: refusing },
    several(1, sleeping, 20),
    { weight: 2, arbitrary: blocking },
    { weight: 1, arbitrary: failing },
    several(1, returning, 20),
    several(1, guarding, 20),
    { weight: 2, arbitrary: publishing },
    several(2, marking, 20),
  ),
);

module.exports = { story };
