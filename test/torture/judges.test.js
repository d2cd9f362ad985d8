'use strict';

/** Shows each judge a history with a fault, and a similar one without. */

const assert = require('node:assert/strict');
const { describe, it, test } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');
const { AtomicGate, FileGate } = require('./gate.js');
const { judge } = require('./judges.js');
const { promisesOf, unexpectedIn } = require('./round.js');
const { SharedSet, lossesIn, readSets } = require('./set.js');

const ALL = { order: 'all', queue: true, callbacks: true, settled: true };

/**
 * @param {string} id
 * @param {[asked: number, granted?: number, ended?: number, token?: number]} times
 * @param {any} [more] a `call`, `options` …
 * @returns the events of a request
 */
function request(id, [asked, granted, ended, token], more = {}) {
  const { actor = 'p1.t0', mode = 'exclusive', held = true, last = ended, kind = 'rough' } = more;
  const { call = 'request', name = 'rough 1', options = {}, ran, reason, facts = {}, inner } = more;
  const { code, error, expected, grantsIn, holders, message = '' } = more;
  const lock = { k: 0, name, mode, token: token?.toString(), held, inner };
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

function faultsOf(parts, promises = ALL) {
  const events = parts.flat().sort((one, other) => one.at - other.at);
  return judge(events, promises).map(({ judge: name }) => name);
}

function finds(name, parts, promises) {
  const faults = faultsOf(parts, promises);
  assert.ok(faults.includes(name), `${faults}`);
}

const passes = (parts, promises) => assert.deepEqual(faultsOf(parts, promises), []);

const first = request('x', [0, 1, 5, 1]);
const other = { actor: 'p2.t0' };
/** A request of another actor. */
const otherOne = (times, more) => request('y', times, { ...other, ...more });
const shared = { mode: 'shared' };
const steals = { options: { steal: true } };
const failed = (error, more) => request('x', [0], { error, ...more });
const timedOut = (more) => failed('TimeoutError', { options: { timeout: 0 }, ...more });
const doomed = { type: 'doomed', actor: 'round', whom: 'p1', at: 3 };
/** The beats of an actor whose event loop runs. */
const beatsOf = (actor, count) =>
  Array.from({ length: count }, (_, i) => ({ type: 'beat', actor, at: 20 * i }));
const infoOf = (mode, more) => ({ name: 'rough 1', limit: 0, weight: 0, label: '', mode, ...more });
const snapshot = (held, pending = [], more = {}) => [
  { type: 'snapshot', actor: 'p1.t0', at: 3, bucket: 'b', held, pending, ...more },
];

describe('the judge', () => {
  it('passes a history in which nothing is wrong', () => {
    passes([first, otherOne([2, 6, 9, 2])]);
  });

  it("'exclusion' finds an exclusive lock beside another lock", () => {
    for (const more of [{}, shared]) finds('exclusion', [first, otherOne([2, 4, 9, 2], more)]);
  });

  it("'exclusion' passes a lock beside one that is not held", () => {
    passes([first, otherOne([2, 4, 9, 2], { held: false })]);
    passes([request('x', [0, 1, 9, 1], { last: 3 }), otherOne([2, 4, 9, 2])]);
  });

  it("'exclusion' passes a lock that another session stole before its holder can know", () => {
    const thief = (more) => request('y', [2, 4, 6, 2], { ...steals, ...more });
    const stolen = request('x', [0, 1, 5, 1], { error: 'AbortError' });
    finds('exclusion', [stolen, thief({})]);
    passes([stolen, thief(other)]);
    // In a cluster, another bucket object is another session.
    const apart = [stolen, thief({ facts: { isClosing: true } })];
    finds('exclusion', apart);
    passes(apart, { losses: true });
    // A theft that must be refused takes no lock.
    const expected = ['NotSupportedError'];
    const refused = request('z', [1], { ...steals, ...other, expected, error: expected[0] });
    finds('exclusion', [first, refused, otherOne([2, 4, 9, 2])]);
  });

  it("'exclusion' takes a request that another lock serves for the same lock", () => {
    const inner = (last) => request('i', [2, 3, 9, 1], { last, inner: 'x' });
    passes([first, inner(4)]);
    // A function that releases has no token.
    passes([first, request('i', [2, 3, 4], { inner: 'x' })]);
    finds('exclusion', [first, inner(8), otherOne([2, 6, 8, 2])]);
  });

  it("'exclusion' finds more units than the limit", () => {
    const units = (weight) => ({ ...shared, options: { mode: 'shared', limit: 3, weight } });
    const two = request('x', [0, 1, 5, 1], units(2));
    passes([two, otherOne([2, 3, 9, 2], units(1))]);
    finds('exclusion', [two, otherOne([2, 3, 9, 2], units(2))]);
  });

  it("'unlocks' finds a lock that is still held when the wait for its unlock is over", () => {
    const waits = (settled) =>
      request('w', [2], { ...other, settled, call: 'Mutex.waitForUnlock' });
    passes([first, waits(6)]);
    finds('unlocks', [first, waits(4)]);
  });

  it("'tokens' finds a token that is not greater, or comes twice", () => {
    for (const token of [0, 1]) finds('tokens', [first, otherOne([2, 6, 9, token])]);
    finds('tokens', [first, otherOne([2, 4, 9, 1], { held: false })]);
    passes([first, otherOne([2, 6, 9, 2])]);
  });

  it("'fifo' finds a request that is granted before an earlier one", () => {
    const early = request('x', [0, 6, 7, 2]);
    const overtaking = otherOne([1, 2, 3, 1]);
    finds('fifo', [early, overtaking]);
    passes([early, overtaking], { ...ALL, order: 'actor', callbacks: false });
    finds('fifo', [early, request('y', [1, 2, 3, 1])], { order: 'actor' });
    // A request that steals does not wait in the queue.
    passes([early, otherOne([1, 2, 3, 1], steals)]);
  });

  for (const [early, late, isFault] of [
    [1, 0, true],
    [1, 1, true],
    [0, -1, true],
    [0, 1, false],
    [-1, undefined, false],
  ]) {
    const verb = isFault ? 'finds' : 'passes';
    it(`'fifo' ${verb} priority ${late} that is granted before an earlier ${early}`, () => {
      const both = [
        request('x', [0, 6, 7, 2], { options: { priority: early } }),
        otherOne([1, 2, 3, 1], { options: { priority: late } }),
      ];
      if (isFault) finds('fifo', both);
      else passes(both);
    });
  }

  it("'callbacks' finds callbacks of a thread in another order than the grants", () => {
    finds('callbacks', [request('x', [0, 6, 7, 2], shared), request('y', [1, 5, 8, 3], shared)]);
    // In simulated time, both callbacks run at once: the order of the events counts.
    const atOnce = [
      request('x', [0, 5, 7, 3], shared),
      request('y', [1, 5, 8, 2], { ...shared, options: { priority: 1 } }),
    ];
    finds('callbacks', atOnce);
    passes(atOnce.reverse());
  });

  it("'notified' finds a request whose lock is stolen and whose promise resolves", () => {
    const thief = otherOne([2, 3, 4, 2], steals);
    const stolen = (error, ended = 5) => request('x', [0, 1, ended, 1], { last: 1, error });
    finds('notified', [stolen(), thief]);
    passes([stolen('AbortError'), thief]);
    const inner = (last) => request('i', [0, 1, 5, 1], { last, inner: 'x' });
    finds('notified', [inner(1), thief]);
    passes([inner(5), thief]);
    // In a cluster, the lock may have ended before its session could be notified of the theft.
    passes([stolen(), thief], { losses: true });
    finds('notified', [stolen(undefined, 20_000), thief], { losses: true });
  });

  it("'errors' finds an error that nothing explains, and a call that is not refused", () => {
    for (const name of ['RangeError', 'TimeoutError', 'AbortError'])
      finds('errors', [failed(name)]);
    passes([timedOut()]);
    finds('errors', [failed('AbortError', { reason: 'closed' })]);
    const expected = ['TypeError'];
    finds('errors', [request('x', [0, 1, 2, 1], { expected })]);
    passes([failed('TypeError', { expected })]);
  });

  it("'errors' passes a loss where files are harmed, unless they are unsupported", () => {
    const lost = (code, message) =>
      failed('Error', { code: `ERR_WEB_LOCKS_SCOPE_${code}`, message });
    const harm = [{ type: 'harm', actor: 'round', at: 1 }];
    finds('errors', [lost('LOST')]);
    passes([lost('LOST'), harm]);
    finds('errors', [lost('UNSUPPORTED', 'it cannot be opened'), harm]);
    passes([lost('UNSUPPORTED', 'Its parent directory must exist: create that'), harm]);
  });

  it("'errors' passes a time-out of tryAcquireSync only while somebody is stopped", () => {
    const tried = failed('TimeoutError', { settled: 1000, call: 'tryAcquireSync' });
    const stop = (from, to) => [
      { type: 'stopped', whom: 'p2', at: from },
      { type: 'resumed', whom: 'p2', at: to },
    ];
    for (const [from, to] of [
      [2000, 3000],
      [-5, -1],
    ])
      finds('errors', [tried, beatsOf('p2.t0', 50), stop(from, to)]);
    passes([tried, beatsOf('p2.t0', 50), stop(-1, 1002)]);
    // The machine let no actor run.
    passes([tried, beatsOf('p2.t0', 20)]);
  });

  it("'errors' finds a list of holders that does not fit its count, or can be changed", () => {
    const tells = (...holders) => [timedOut({ message: ', and 11 more', holders })];
    passes(tells(10, 12, true));
    finds('errors', tells(12, 12, true));
    finds('errors', tells(10, 12, false));
    finds('errors', tells(10, 13, true));
    finds('errors', tells(0, 1, true));
  });

  for (const [name, tells] of Object.entries({
    snapshots: (grantsIn) => snapshot([], [], { grantsIn }),
    errors: (grantsIn) => timedOut({ grantsIn }),
  })) {
    it(`'${name}' finds a pause that the server cannot have`, () => {
      const promises = { ...ALL, pause: 2000 };
      passes([tells(undefined)]);
      passes([tells(2000)], promises);
      finds(name, [tells(1)]);
      for (const wrong of [0, -1, 1.5, 2001, null]) finds(name, [tells(wrong)], promises);
    });
  }

  it("'settles' finds a request that never settles, unless its actor was about to end", () => {
    const never = request('x', [0], { settled: Infinity });
    finds('settles', [never]);
    passes([never, doomed]);
  });

  it("'seen' repeats what an actor saw, but for errors at its end", () => {
    const saw = (judgeName, at) => [
      { type: 'fault', actor: 'p1.t0', judge: judgeName, what: 'x', at },
      doomed,
    ];
    finds('errors', [saw('errors', 2)]);
    passes([saw('errors', 4)]);
    finds('quiet', [saw('quiet', 4)]);
    finds('gate', [saw('gate', 1)]);
  });

  it("'late' finds a time limit that ends late while the event loop turns", () => {
    const given = { settled: 2000, error: 'TimeoutError', options: { timeout: 5 } };
    const beats = beatsOf('p1.t0', 100);
    finds('late', [request('x', [0], given), beats]);
    // The machine or the thread was busy.
    passes([request('x', [0], given), beats.slice(0, 3)]);
    // A request of `once` that has the lock reads the mark without a time limit.
    const lost = { ...given, call: 'once', error: 'AbortError', reason: 'unreachable' };
    passes([request('x', [0], lost), beats], { losses: true });
    const found = { ...given, call: 'once', error: undefined, ran: false };
    passes([request('x', [0], found), beats], { forgets: true });
  });

  it("'once' finds a run that comes too early, and a mark that nobody made", () => {
    const run = (id, times, more) =>
      request(id, times, { call: 'once', kind: 'job', options: { keep: 100 }, ran: true, ...more });
    const done = run('x', [0, 1, 5, 1]);
    const none = run('y', [6], { ran: false, settled: 8 });
    finds('once', [done, run('y', [6, 7, 8, 2])]);
    passes([done, none]);
    passes([done, run('y', [110, 111, 112, 2])]);
    finds('once', [none]);
  });

  it("'once' expects no marks where files are harmed, even in a calm round", () => {
    for (const isCalm of [false, true])
      assert.ok(promisesOf({ scope: 'host', isHarmed: true, isCalm }).forgets);
  });

  it("'published' finds data that a lock did not publish last, and data of a waiter", () => {
    const common = { actor: 'p1.t0', id: 'x', k: 0 };
    const publish = (n, asked, done, data) => [
      {
        ...common,
        type: 'publishes',
        n,
        at: asked,
        bucket: 'b',
        name: 'rough 1',
        token: '5',
        data,
      },
      { ...common, type: 'published', n, at: done, done: true },
    ];
    const lock = request('x', [0, 1, 9, 5]);
    const history = [lock, publish(1, 2, 3, 'x 0 1'), publish(2, 4, 6, 'x 0 2')];
    const removed = [...history, publish(3, 7, 7.5, undefined)];
    const info = (data) => infoOf('exclusive', { token: '5', data });
    const tells = (data, began, at, events = history) => [
      ...events,
      snapshot([info(data)], [], { began, at }),
    ];
    passes(tells(undefined, 1.5, 1.6));
    passes(tells(undefined, 2.5, 3.5));
    passes(tells('x 0 1', 2.5, 2.6));
    passes(tells('x 0 1', 5, 5.1));
    passes(tells('x 0 2', 5, 5.1));
    passes(tells('x 0 2', 7, 7.1));
    finds('published', tells(undefined, 3.5, 3.6));
    finds('published', tells('x 0 1', 7, 7.1));
    finds('published', tells('x 0 2', 3.1, 3.5));
    finds('published', tells('y 0 1', 5, 5.1));
    passes(tells(undefined, 8, 8.1, removed));
    const forgotten = snapshot([info(undefined)], [], { began: 7, at: 7.1, grantsIn: 5 });
    passes([...history, forgotten], { forgets: true, pause: 10 });
    finds('published', [...history, forgotten], { pause: 10 });
    finds('published', tells('x 0 2', 8, 8.1, removed));
    const waits = { ...info('x 0 2'), token: '0', ahead: 0 };
    finds('published', [...history, snapshot([info('x 0 2')], [waits], { began: 7, at: 7.1 })]);
    const shared = (label) => snapshot([infoOf('shared', { token: '5', label })], [], { at: 8 });
    finds('published', [...history, shared('x')]);
    // Two locks that are granted together may have one token.
    passes([...history, shared('y')]);
  });

  it("'snapshots' finds a state in which locks cannot be", () => {
    const waiting = [0, 1].map((ahead) => infoOf('exclusive', { ahead, priority: ahead - 1 }));
    passes([snapshot([infoOf('shared'), infoOf('shared')])]);
    for (const [held, pending] of [
      [[infoOf('shared'), infoOf('exclusive')]],
      [[infoOf('shared', { limit: 1, weight: 2 })]],
      [[infoOf('shared')], [infoOf('exclusive', { ahead: 1 })]],
      [[], [infoOf('exclusive', { ahead: 0 })]],
      [[infoOf('exclusive')], waiting],
    ])
      finds('snapshots', [snapshot(held, pending)]);
    const waiter = request('w', [2], { ...other, settled: 6, call: 'Mutex.waitForUnlock' });
    finds('snapshots', [waiter, snapshot([infoOf('exclusive', { label: 'w' })])]);
  });

  it("'snapshots' finds a request that overtakes another one of its queue", () => {
    const queue = ['x', 'y'].map((label, ahead) => infoOf('exclusive', { label, ahead }));
    const shown = snapshot([infoOf('exclusive')], queue);
    const history = [shown, request('x', [0, 6, 7, 3]), otherOne([0, 4, 5, 2])];
    const lost = (actor, at) => [{ type: 'session lost', actor, at, bucket: 'b' }];
    finds('snapshots', history);
    finds('snapshots', [...history, lost('p1.t0', 6.5)]);
    finds('snapshots', [...history, lost('p2.t0', 1.5)]);
    // The next session made the request again, behind the other one.
    passes([...history, lost('p1.t0', 1.5)]);
  });

  it("'updates' finds an element that is lost, though its lock or a fence protected it", () => {
    const plain = { kind: 'plain' };
    const locks = (more) => [
      request('x', [0, 1, 5, 1], more),
      otherOne([2, 6, 9, 2], { ...more, ...other }),
    ];
    const write = (id, token, before) => {
      const element = `${id} 0`;
      return { place: 'b / plain 1', token, element, plain: before, fenced: before };
    };
    const sets = (...lines) => [{ type: 'sets', actor: 'round', at: 10, lines }];
    const updated = (id) => [{ type: 'updated', id, element: `${id} 0`, held: true, at: 9 }];
    passes([...locks(plain), sets(write('x', '1'), write('y', '2', 'x 0'))]);
    finds('updates', [...locks({}), sets(write('x', '1'), write('y', '2'))]);
    // Its lease ended before it wrote.
    const late = [...locks(plain), updated('y'), sets(write('y', '2'), write('x', '1'))];
    passes(late, { losses: true });
    finds('updates', late);
    finds('updates', [...late, updated('x')], { losses: true });
  });

  it("'quiet' expects what Node.js prints at the end of the stack, and nothing else", () => {
    const head = 'Exception in PromiseRejectCallback:\n';
    const line = '/a/user.js:12\n    reject(error);\n    ^\n\n';
    const error = 'RangeError: Maximum call stack size exceeded\n\n';
    for (const text of [head, `${head}\n\n`, head + line, head + error, head + line + error]) {
      assert.equal(unexpectedIn(text.repeat(2)), '');
      assert.equal(unexpectedIn(`${text}Error: mine\n${text}`), 'Error: mine');
    }
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

test('a set loses what a former holder overwrites, but not behind a fence', (t) => {
  const folder = freshDirectory(t);
  const [one, two] = [new SharedSet(folder), new SharedSet(folder)];
  const writes = [one.read('a', '1'), two.read('a', '2')];
  writes[1]('second');
  writes[0]('first');
  const losses = [...lossesIn(readSets(folder))].map(({ how, lost }) => [how, lost.element]);
  assert.deepEqual(losses, [
    ['refused', 'first'],
    ['plain', 'second'],
  ]);
  two.read('a', '2')('third');
  assert.equal(readSets(folder).at(-1).fenced, 'second');
});

for (const [kind, make] of Object.entries(gates)) {
  describe(`a gate of ${kind}`, () => {
    const alone = { what: 'a', mode: 'exclusive' };
    const some = (weight) => ({ what: 'a', mode: 'shared', limit: 4, weight });

    it('sees two holders inside that exclude each other', (t) => {
      const { one, two } = make(t);
      const { leave, wrong } = one.enter(alone);
      assert.equal(wrong, undefined);
      for (const lock of [some(1), alone]) {
        const entered = two.enter(lock);
        assert.match(entered.wrong, /exclusively/);
        entered.leave();
      }
      leave();
    });

    it('sees more units than the limit', (t) => {
      const { one, two } = make(t);
      const both = [one.enter(some(2)), two.enter(some(2))];
      assert.deepEqual(
        both.map(({ wrong }) => wrong),
        [undefined, undefined],
      );
      assert.match(two.enter(some(1)).wrong, /5 of 4/);
    });

    it('does not count a holder that left or died', (t) => {
      const { one, two, doomOne } = make(t);
      one.enter(alone).leave();
      one.enter(alone);
      doomOne();
      assert.equal(two.enter(alone).wrong, undefined);
    });
  });
}
