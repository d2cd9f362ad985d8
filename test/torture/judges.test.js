'use strict';

/** The judges of the torture see what is wrong: each is shown a history with a fault, and one without. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');
const { AtomicGate, FileGate } = require('./gate.js');
const { judge } = require('./judges.js');
const { promisesOf, unexpectedIn } = require('./round.js');

const ALL = { order: 'all', queue: true, callbacks: true, settled: true };

/**
 * What a request does to a history.
 * @param {string} id
 * @param {[asked: number, granted?: number, ended?: number, token?: number]} times
 * @param {any} [more] a `call`, `options` …
 */
function request(id, [asked, granted, ended, token], more = {}) {
  const { actor = 'p1.t0', mode = 'exclusive', held = true, last = ended, kind = 'rough' } = more;
  const { call = 'request', name = 'rough 1', options = {}, ran, reason, facts = {}, inner } = more;
  const { code, error, expected, grantsIn, holders, message = '' } = more;
  const lock = {
    k: 0,
    name,
    mode,
    token: token === undefined ? undefined : `${token}`,
    held,
    inner,
  };
  const how = { error, grantsIn, holders, ran, reason, code, message };
  const events = [
    { type: 'asked', at: asked, bucket: 'b', kind, names: [name], call, options, facts, expected },
    { type: 'made', at: asked + 0.1 },
    { type: 'granted', at: granted, ...lock },
    { type: 'ended', k: 0, at: ended, last },
    { type: 'settled', at: more.settled ?? (ended ?? asked) + 0.1, ...how },
  ];
  return events.filter(({ at }) => at < Infinity).map((event) => ({ actor, id, ...event }));
}

const faultsOf = (parts, promises = ALL) => {
  const events = parts.flat().sort((one, other) => one.at - other.at);
  return judge(events, promises).map(({ judge: name }) => name);
};

const finds = (name, parts, promises) =>
  assert.ok(faultsOf(parts, promises).includes(name), `${faultsOf(parts, promises)}`);
const passes = (parts, promises) => assert.deepEqual(faultsOf(parts, promises), []);

const other = { actor: 'p2.t0' };
/** A request of another actor. */
const otherOne = (times, more) => request('y', times, { ...other, ...more });
const shared = { mode: 'shared' };
const steals = { options: { steal: true } };
const units = (weight) => ({ ...shared, options: { mode: 'shared', limit: 3, weight } });
/** Of an actor that goes round its loop every 20 ms. */
const beatsOf = (actor, count) =>
  Array.from({ length: count }, (_, i) => ({ type: 'beat', actor, at: 20 * i }));
const snapshot = (held, pending = [], more = {}) => [
  { type: 'snapshot', actor: 'p1.t0', at: 3, bucket: 'b', held, pending, ...more },
];

describe('the judges of the torture', () => {
  it('quiet: what Node.js prints at the end of the stack is expected, whatever it had room to say', () => {
    const head = 'Exception in PromiseRejectCallback:\n';
    const line = '/a/user.js:12\n    reject(error);\n    ^\n\n';
    const error = 'RangeError: Maximum call stack size exceeded\n\n';
    for (const text of [head, `${head}\n\n`, head + line, head + error, head + line + error]) {
      assert.equal(unexpectedIn(text.repeat(2)), '');
      assert.equal(unexpectedIn(`${text}Error: mine\n${text}`), 'Error: mine');
    }
  });

  const first = request('x', [0, 1, 5, 1]);

  it('pass a history in which all is well', () => {
    passes([first, otherOne([2, 6, 9, 2])]);
  });

  it('exclusion: two have an exclusive lock, or one that is shared', () => {
    for (const more of [{}, shared]) finds('exclusion', [first, otherOne([2, 4, 9, 2], more)]);
  });

  it('unlocks: what was held when somebody began to wait for the unlock is held still', () => {
    const waits = (settled) =>
      request('w', [2], { ...other, settled, call: 'Mutex.waitForUnlock' });
    passes([first, waits(6)]);
    finds('unlocks', [first, waits(4)]);
    const info = { name: 'rough 1', mode: 'exclusive', label: 'w', weight: 0 };
    finds('snapshots', [first, waits(6), snapshot([info], [], { ...other, at: 5.5 })]);
  });

  it('exclusion: who sees that it is not held has it no more', () => {
    passes([request('x', [0, 1, 9, 1], { last: 3 }), otherOne([2, 4, 9, 2])]);
  });

  it('exclusion: a thief of the same actor finds the other one told', () => {
    const thief = (more) => request('y', [2, 4, 6, 2], { ...steals, ...more });
    const robbed = request('x', [0, 1, 5, 1], { error: 'AbortError' });
    finds('exclusion', [robbed, thief({})]);
    passes([robbed, thief(other)]);
    // Of another bucket object, which is another session in a cluster.
    const apart = [robbed, thief({ facts: { isClosing: true } })];
    finds('exclusion', apart);
    passes(apart, { losses: true });
  });

  it('exclusion: what a lock serves inside of it is the same lock, and outlives it not', () => {
    const inner = (last) => request('i', [2, 3, 9, 1], { last, inner: 'x' });
    passes([first, inner(4)]);
    finds('exclusion', [first, inner(8), otherOne([2, 6, 8, 2])]);
  });

  it('exclusion: more units than the limit', () => {
    const two = request('x', [0, 1, 5, 1], units(2));
    passes([two, otherOne([2, 3, 9, 2], units(1))]);
    finds('exclusion', [two, otherOne([2, 3, 9, 2], units(2))]);
  });

  it('tokens: one that does not grow, or comes twice', () => {
    for (const token of [0, 1]) finds('tokens', [first, otherOne([2, 6, 9, token])]);
    passes([first, otherOne([2, 6, 9, 2])]);
  });

  it('fifo: who was asked for later is granted first', () => {
    const early = request('x', [0, 6, 7, 2]);
    const overtaking = otherOne([1, 2, 3, 1]);
    finds('fifo', [early, overtaking]);
    passes([early, overtaking], { ...ALL, order: 'actor', callbacks: false });
    finds('fifo', [early, request('y', [1, 2, 3, 1])], { order: 'actor' });
    // Nobody overtakes a thief, which waits for nobody.
    passes([early, otherOne([1, 2, 3, 1], steals)]);
  });

  it('fifo: who has less priority, or the same, is granted first', () => {
    const both = (one, two) => [
      request('x', [0, 6, 7, 2], { options: { priority: one } }),
      otherOne([1, 2, 3, 1], { options: { priority: two } }),
    ];
    for (const [one, two] of [
      [1, 0],
      [1, 1],
      [0, -1],
    ])
      finds('fifo', both(one, two));
    for (const [one, two] of [
      [0, 1],
      [-1, undefined],
    ])
      passes(both(one, two));
  });

  it('callbacks: two of a thread in another order than their grants', () => {
    const both = [request('x', [0, 6, 7, 2], shared), request('y', [1, 5, 8, 3], shared)];
    finds('callbacks', both);
    // In simulated time both are called at once: what counts is the order of the events.
    const atOnce = [
      request('x', [0, 5, 7, 3], shared),
      request('y', [1, 5, 8, 2], { ...shared, options: { priority: 1 } }),
    ];
    finds('callbacks', atOnce);
    passes(atOnce.reverse());
  });

  it('told: who is robbed, and whose promise says nothing', () => {
    const thief = otherOne([2, 3, 4, 2], steals);
    const robbed = (error, ended = 5) => request('x', [0, 1, ended, 1], { last: 1, error });
    finds('told', [robbed(), thief]);
    passes([robbed('AbortError'), thief]);
    const inner = (last) => request('i', [0, 1, 5, 1], { last, inner: 'x' });
    finds('told', [inner(1), thief]);
    passes([inner(5), thief]);
    // In a cluster it may have ended before it could hear of that.
    passes([robbed(), thief], { losses: true });
    finds('told', [robbed(undefined, 20_000), thief], { losses: true });
  });

  it('errors: one that nothing explains, and what is not refused', () => {
    const failed = (error, more) => request('x', [0], { error, ...more });
    for (const name of ['RangeError', 'TimeoutError', 'AbortError'])
      finds('errors', [failed(name)]);
    passes([failed('TimeoutError', { options: { timeout: 0 } })]);
    finds('errors', [failed('AbortError', { reason: 'closed' })]);
    const expected = ['TypeError'];
    finds('errors', [request('x', [0, 1, 2, 1], { expected })]);
    passes([failed('TypeError', { expected })]);
  });

  it('settles: a request that does not, unless its actor was about to end', () => {
    const never = request('x', [0], { settled: Infinity });
    finds('settles', [never]);
    passes([never, [{ type: 'doomed', actor: 'round', whom: 'p1', at: 3 }]]);
  });

  it('seen: what an actor saw itself, but an error only before its end', () => {
    const saw = (judgeName, at) => [
      { type: 'fault', actor: 'p1.t0', judge: judgeName, what: 'x', at },
      { type: 'doomed', actor: 'round', whom: 'p1', at: 3 },
    ];
    finds('errors', [saw('errors', 2)]);
    passes([saw('errors', 4)]);
    finds('quiet', [saw('quiet', 4)]);
    finds('gate', [saw('gate', 1)]);
  });

  it('errors: where files are harmed what is away is lost, and not of a kind that does not work', () => {
    const failed = (code, message) =>
      request('x', [0], { error: 'Error', code: `ERR_WEB_LOCKS_SCOPE_${code}`, message });
    const harm = [{ type: 'harm', actor: 'round', at: 1 }];
    finds('errors', [failed('LOST')]);
    passes([failed('LOST'), harm]);
    finds('errors', [failed('UNSUPPORTED', 'it cannot be opened'), harm]);
    passes([failed('UNSUPPORTED', 'Its parent directory must exist: create that'), harm]);
  });

  it('errors: tryAcquireSync gives up where somebody stands still, and nowhere else', () => {
    const tried = request('x', [0], {
      settled: 1000,
      error: 'TimeoutError',
      call: 'tryAcquireSync',
    });
    const stop = (from, to) => [
      { type: 'stopped', whom: 'p2', at: from },
      { type: 'resumed', whom: 'p2', at: to },
    ];
    finds('errors', [tried, beatsOf('p2.t0', 50), stop(2000, 3000)]);
    passes([tried, beatsOf('p2.t0', 50), stop(-1, 1002)]);
    // The machine was too busy for all of them.
    passes([tried, beatsOf('p2.t0', 20)]);
  });

  it('late: a time limit that is over, while the loop goes round', () => {
    const given = { settled: 2000, error: 'TimeoutError', options: { timeout: 5 } };
    const beats = beatsOf('p1.t0', 100);
    finds('late', [request('x', [0], given), beats]);
    // The machine stood still, or the thread was busy.
    passes([request('x', [0], given), beats.slice(0, 3)]);
    // Who ran once has the lock, and asks whether somebody has.
    const lost = { ...given, call: 'once', error: 'AbortError', reason: 'unreachable' };
    passes([request('x', [0], lost), beats], { losses: true });
    // Who finds it marked has the lock, too, and gives it back.
    const found = { ...given, call: 'once', error: undefined, ran: false };
    passes([request('x', [0], found), beats], { forgets: true });
  });

  it('promises no marks where files are harmed, also in a calm round', () => {
    for (const isCalm of [false, true])
      assert.ok(promisesOf({ scope: 'host', isHarmed: true, isCalm }).forgets);
  });

  it('once: who runs too early, and who does not though nobody has', () => {
    const run = (id, times, more) =>
      request(id, times, { call: 'once', kind: 'job', options: { keep: 100 }, ran: true, ...more });
    const done = run('x', [0, 1, 5, 1]);
    const none = run('y', [6], { ran: false, settled: 8 });
    finds('once', [done, run('y', [6, 7, 8, 2])]);
    passes([done, none]);
    passes([done, run('y', [110, 111, 112, 2])]);
    finds('once', [none]);
  });

  it('published: what a lock has not published, or not last, and what a waiter has', () => {
    const lock = request('x', [0, 1, 9, 5]);
    const name = 'rough 1';
    const publish = (n, asked, done, data) => [
      {
        type: 'publishes',
        actor: 'p1.t0',
        id: 'x',
        k: 0,
        n,
        at: asked,
        bucket: 'b',
        name,
        token: '5',
        data,
      },
      { type: 'published', actor: 'p1.t0', id: 'x', k: 0, n, at: done, done: true },
    ];
    const history = [lock, publish(1, 2, 3, 'x 0 1'), publish(2, 4, 6, 'x 0 2')];
    const info = (data) => ({
      name,
      mode: 'exclusive',
      token: '5',
      label: '',
      limit: 0,
      weight: 0,
      data,
    });
    const told = (data, began, at) => [...history, snapshot([info(data)], [], { began, at })];
    passes(told(undefined, 1.5, 1.6));
    passes(told(undefined, 2.5, 3.5));
    passes(told('x 0 1', 2.5, 2.6));
    passes(told('x 0 1', 5, 5.1));
    passes(told('x 0 2', 5, 5.1));
    passes(told('x 0 2', 7, 7.1));
    finds('published', told(undefined, 3.5, 3.6));
    finds('published', told('x 0 1', 7, 7.1));
    finds('published', told('x 0 2', 3.1, 3.5));
    finds('published', told('y 0 1', 5, 5.1));
    const removed = [...history, publish(3, 7, 7.5, undefined)];
    passes([...removed, snapshot([info(undefined)], [], { began: 8, at: 8.1 })]);
    finds('published', [...removed, snapshot([info('x 0 2')], [], { began: 8, at: 8.1 })]);
    const waits = { ...info('x 0 2'), token: '0', ahead: 0 };
    finds('published', [...history, snapshot([info('x 0 2')], [waits], { began: 7, at: 7.1 })]);
  });

  it('snapshots: what cannot be, and an order that is not kept', () => {
    const common = { name: 'rough 1', limit: 0, weight: 0, label: '' };
    const info = (mode, more) => ({ ...common, mode, ...more });
    const alone = [info('exclusive')];
    passes([snapshot([info('shared'), info('shared')])]);
    const waiting = [0, 1].map((ahead) => info('exclusive', { ahead, priority: ahead - 1 }));
    for (const [held, pending] of [
      [[info('shared'), info('exclusive')]],
      [[info('shared', { limit: 1, weight: 2 })]],
      [[info('shared')], [info('exclusive', { ahead: 1 })]],
      [[], [info('exclusive', { ahead: 0 })]],
      [alone, waiting],
    ])
      finds('snapshots', [snapshot(held, pending)]);
    const queue = ['x', 'y'].map((label, ahead) => info('exclusive', { label, ahead }));
    const history = [snapshot(alone, queue), request('x', [0, 6, 7, 3]), otherOne([0, 4, 5, 2])];
    finds('snapshots', history);
    const lost = (actor, at) => [{ type: 'session lost', actor, at, bucket: 'b' }];
    finds('snapshots', [...history, lost('p1.t0', 6.5)]);
    finds('snapshots', [...history, lost('p2.t0', 1.5)]);
    passes([...history, lost('p1.t0', 1.5)]);
  });

  const timedOut = (more) =>
    request('x', [0], { error: 'TimeoutError', options: { timeout: 0 }, ...more });

  for (const [name, tells] of Object.entries({
    snapshots: (grantsIn) => snapshot([], [], { grantsIn }),
    errors: (grantsIn) => timedOut({ grantsIn }),
  })) {
    it(`${name}: for how long a server grants nothing`, () => {
      const promises = { ...ALL, pause: 2000 };
      passes([tells(undefined)]);
      passes([tells(2000)], promises);
      finds(name, [tells(1)]);
      for (const wrong of [0, -1, 1.5, 2001, null]) finds(name, [tells(wrong)], promises);
    });
  }

  it('errors: which holders they list', () => {
    const tells = (...holders) => [timedOut({ message: ', and 11 more', holders })];
    passes(tells(10, 12, true));
    finds('errors', tells(12, 12, true));
    finds('errors', tells(10, 12, false));
    finds('errors', tells(10, 13, true));
    finds('errors', tells(0, 1, true));
  });
});

const gates = {
  files(t) {
    const folder = freshDirectory(t);
    const [one, two] = ['p1.t0', 'p2.t0'].map((owner) => new FileGate(folder, owner));
    return { one, two, doomOne: () => two.doom('p1') };
  },
  atomics() {
    const memory = AtomicGate.memory(['a']);
    const [one, two] = [new AtomicGate(memory, 1, 0), new AtomicGate(memory, 2, 1)];
    return { one, two, doomOne: () => two.doom(1) };
  },
};

for (const [kind, make] of Object.entries(gates)) {
  describe(`a gate of ${kind}`, () => {
    const alone = { what: 'a', mode: 'exclusive' };
    const some = (weight) => ({ what: 'a', mode: 'shared', limit: 4, weight });

    it('sees two inside who exclude each other', (t) => {
      const { one, two } = make(t);
      const { leave, wrong } = one.enter(alone);
      assert.equal(wrong, undefined);
      assert.match(two.enter(some(1)).wrong, /exclusively/);
      assert.ok(two.enter(alone).wrong);
      leave();
    });

    it('sees more units than the limit, and lets others in', (t) => {
      const { one, two } = make(t);
      const first = one.enter(some(2));
      const second = two.enter(some(2));
      assert.equal(first.wrong ?? second.wrong, undefined);
      assert.match(two.enter(some(1)).wrong, /5 of 4/);
    });

    it('does not count who is gone, or has left', (t) => {
      const { one, two, doomOne } = make(t);
      one.enter(alone).leave();
      one.enter(alone);
      doomOne();
      assert.equal(two.enter(alone).wrong, undefined);
    });
  });
}
