'use strict';

/** The judges of the torture see what is wrong: each is shown a history with a fault, and one without. */

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { AtomicGate, FileGate } = require('./gate.js');
const { judge } = require('./judges.js');
const { unexpectedIn } = require('./round.js');

const ALL = { order: 'all', queue: true, callbacks: true, settled: true };

/**
 * What a request does to a history.
 * @param {string} id
 * @param {any} given `asked`, `granted`, `ended`, `token`; a `call`, `options` …
 */
function request(id, given) {
  const { asked, made = asked + 0.1, granted, ended, token, told, error, ...more } = given;
  const { actor = 'p1.t0', mode = 'exclusive', held = true, last = ended, kind = 'rough' } = more;
  const { call = 'request', name = 'rough 1', options = {}, ran, reason, facts = {}, inner } = more;
  const base = { actor, id };
  const { expected } = more;
  const events = [
    {
      ...base,
      type: 'asked',
      at: asked,
      call,
      bucket: 'b',
      kind,
      names: [name],
      options,
      facts,
      expected,
    },
    { ...base, type: 'made', at: made },
  ];
  if (granted !== undefined) {
    const lock = {
      k: 0,
      name,
      mode,
      token: token === undefined ? undefined : String(token),
      held,
      inner,
    };
    events.push({ ...base, type: 'granted', at: granted, ...lock });
  }
  if (told !== undefined) events.push({ ...base, type: 'told', k: 0, at: told });
  if (ended !== undefined) events.push({ ...base, type: 'ended', k: 0, at: ended, last });
  const at = more.settled ?? (ended ?? asked) + 0.1;
  const { code, grantsIn, holders, message = '' } = more;
  const how = { error, grantsIn, holders, ran, reason, code, message };
  const settled = { ...base, type: 'settled', at, ...how };
  if (at < Infinity) events.push(settled);
  return events;
}

const faultsOf = (parts, promises = ALL) =>
  judge(
    parts.flat().sort((one, other) => one.at - other.at),
    promises,
  ).map(({ judge: name }) => name);

const finds = (name, parts, promises) =>
  assert.ok(faultsOf(parts, promises).includes(name), `${faultsOf(parts, promises)}`);
const passes = (parts, promises) => assert.deepEqual(faultsOf(parts, promises), []);

const other = { actor: 'p2.t0' };
const shared = { mode: 'shared' };
const units = (weight) => ({ ...shared, options: { mode: 'shared', limit: 3, weight } });

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

  const first = request('x', { asked: 0, granted: 1, ended: 5, token: 1 });

  it('pass a history in which all is well', () => {
    passes([first, request('y', { ...other, asked: 2, granted: 6, ended: 9, token: 2 })]);
  });

  it('exclusion: two have an exclusive lock, or one that is shared', () => {
    finds('exclusion', [
      first,
      request('y', { ...other, asked: 2, granted: 4, ended: 9, token: 2 }),
    ]);
    const reader = request('y', { ...other, ...shared, asked: 2, granted: 4, ended: 9, token: 2 });
    finds('exclusion', [first, reader]);
  });

  it('unlocks: what was held when somebody began to wait for the unlock is held still', () => {
    const waits = (settled) =>
      request('w', { ...other, asked: 2, settled, call: 'Mutex.waitForUnlock' });
    passes([first, waits(6)]);
    finds('unlocks', [first, waits(4)]);
    const snapshot = { type: 'snapshot', ...other, at: 5.5, bucket: 'b', pending: [] };
    const info = { name: 'rough 1', mode: 'exclusive', label: 'w', weight: 0 };
    finds('snapshots', [first, waits(6), { ...snapshot, held: [info] }]);
  });

  it('exclusion: who sees that it is not held has it no more', () => {
    const late = request('x', { asked: 0, granted: 1, ended: 9, last: 3, token: 1 });
    passes([late, request('y', { ...other, asked: 2, granted: 4, ended: 9, token: 2 })]);
  });

  it('exclusion: a thief of the same actor finds the other one told', () => {
    const thief = (more) =>
      request('y', { asked: 2, granted: 4, ended: 6, token: 2, options: { steal: true }, ...more });
    const robbed = request('x', { asked: 0, granted: 1, ended: 5, token: 1, error: 'AbortError' });
    finds('exclusion', [robbed, thief({})]);
    passes([robbed, thief(other)]);
    // Of another bucket object, which is another session in a cluster.
    const apart = [robbed, thief({ facts: { isClosing: true } })];
    finds('exclusion', apart);
    passes(apart, { losses: true });
  });

  it('exclusion: what a lock serves inside of it is the same lock, and outlives it not', () => {
    const inner = (last) =>
      request('i', { asked: 2, granted: 3, ended: 9, last, token: 1, inner: 'x' });
    passes([first, inner(4)]);
    const next = request('y', { ...other, asked: 2, granted: 6, ended: 8, token: 2 });
    finds('exclusion', [first, inner(8), next]);
  });

  it('exclusion: more units than the limit', () => {
    const two = request('x', { asked: 0, granted: 1, ended: 5, token: 1, ...units(2) });
    passes([
      two,
      request('y', { ...other, asked: 2, granted: 3, ended: 9, token: 2, ...units(1) }),
    ]);
    const more = request('y', { ...other, asked: 2, granted: 3, ended: 9, token: 2, ...units(2) });
    finds('exclusion', [two, more]);
  });

  it('tokens: one that does not grow, or comes twice', () => {
    const next = (token) => request('y', { ...other, asked: 2, granted: 6, ended: 9, token });
    finds('tokens', [first, next(0)]);
    finds('tokens', [first, next(1)]);
    passes([first, next(2)]);
  });

  it('fifo: who was asked for later is granted first', () => {
    const early = request('x', { asked: 0, granted: 6, ended: 7, token: 2 });
    const overtaking = request('y', { ...other, asked: 1, granted: 2, ended: 3, token: 1 });
    finds('fifo', [early, overtaking]);
    passes([early, overtaking], { ...ALL, order: 'actor', callbacks: false });
    const same = request('y', { asked: 1, granted: 2, ended: 3, token: 1 });
    finds('fifo', [early, same], { order: 'actor' });
  });

  it('fifo: who has less priority, or the same, is granted first', () => {
    const given = (priority) => ({
      asked: 0,
      granted: 6,
      ended: 7,
      token: 2,
      options: { priority },
    });
    const later = (priority) => ({
      ...{ ...other, asked: 1, granted: 2, ended: 3, token: 1 },
      options: { priority },
    });
    finds('fifo', [request('x', given(1)), request('y', later(0))]);
    finds('fifo', [request('x', given(1)), request('y', later(1))]);
    finds('fifo', [request('x', given(0)), request('y', later(-1))]);
    passes([request('x', given(0)), request('y', later(1))]);
    passes([request('x', given(-1)), request('y', later(undefined))]);
  });

  it('fifo: nobody overtakes a thief, which waits for nobody', () => {
    const early = request('x', { asked: 0, granted: 6, ended: 7, token: 2 });
    const thief = { ...other, asked: 1, granted: 2, ended: 3, token: 1, options: { steal: true } };
    passes([early, request('y', thief)]);
  });

  it('callbacks: two of a thread in another order than their grants', () => {
    const one = request('x', { asked: 0, granted: 6, ended: 7, token: 2, ...shared });
    const two = request('y', { asked: 1, granted: 5, ended: 8, token: 3, ...shared });
    finds('callbacks', [one, two]);
  });

  it('told: who is robbed, and whose promise says nothing', () => {
    const thief = { ...other, asked: 2, granted: 3, ended: 4, token: 2, options: { steal: true } };
    const robbed = (error) =>
      request('x', { asked: 0, granted: 1, ended: 5, last: 1, token: 1, error });
    finds('told', [robbed(), request('y', thief)]);
    passes([robbed('AbortError'), request('y', thief)]);
    const inner = (last) =>
      request('i', { asked: 0, granted: 1, ended: 5, last, token: 1, inner: 'x' });
    finds('told', [inner(1), request('y', thief)]);
    passes([inner(5), request('y', thief)]);
    // In a cluster it may have ended before it could hear of that.
    passes([robbed(), request('y', thief)], { losses: true });
    const long = request('x', { asked: 0, granted: 1, ended: 20_000, last: 1, token: 1 });
    finds('told', [long, request('y', thief)], { losses: true });
  });

  it('errors: one that nothing explains, and what is not refused', () => {
    finds('errors', [request('x', { asked: 0, error: 'RangeError' })]);
    finds('errors', [request('x', { asked: 0, error: 'TimeoutError' })]);
    passes([request('x', { asked: 0, error: 'TimeoutError', options: { timeout: 0 } })]);
    finds('errors', [request('x', { asked: 0, error: 'AbortError' })]);
    finds('errors', [request('x', { asked: 0, error: 'AbortError', reason: 'closed' })]);
    const expected = ['TypeError'];
    finds('errors', [request('x', { asked: 0, granted: 1, ended: 2, token: 1, expected })]);
    passes([request('x', { asked: 0, error: 'TypeError', expected })]);
  });

  it('settles: a request that does not, unless its actor was about to end', () => {
    const never = request('x', { asked: 0, settled: Infinity });
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
  });

  it('errors: where files are harmed what is away is lost, and not of a kind that does not work', () => {
    const failed = (code, message) =>
      request('x', { asked: 0, error: 'Error', code: `ERR_WEB_LOCKS_SCOPE_${code}`, message });
    const harm = [{ type: 'harm', actor: 'round', at: 1 }];
    finds('errors', [failed('LOST')]);
    passes([failed('LOST'), harm]);
    finds('errors', [failed('UNSUPPORTED', 'it cannot be opened'), harm]);
    passes([failed('UNSUPPORTED', 'Its parent directory must exist: create that'), harm]);
  });

  it('errors: tryAcquireSync gives up where somebody stands still, and nowhere else', () => {
    const given = { asked: 0, settled: 1000, error: 'TimeoutError', call: 'tryAcquireSync' };
    const tried = request('x', given);
    const beats = Array.from({ length: 50 }, (_, i) => ({
      type: 'beat',
      actor: 'p2.t0',
      at: 20 * i,
    }));
    const stop = (from, to) => [
      { type: 'stopped', whom: 'p2', at: from },
      { type: 'resumed', whom: 'p2', at: to },
    ];
    finds('errors', [tried, beats, stop(2000, 3000)]);
    passes([tried, beats, stop(-1, 1002)]);
    // The machine was too busy for all of them.
    passes([tried, beats.slice(0, 20)]);
  });

  it('late: a time limit that is over, while the loop goes round', () => {
    const given = { asked: 0, settled: 2000, error: 'TimeoutError', options: { timeout: 5 } };
    const late = request('x', given);
    const beats = Array.from({ length: 100 }, (_, i) => ({
      type: 'beat',
      actor: 'p1.t0',
      at: 20 * i,
    }));
    finds('late', [late, beats]);
    // The machine stood still, or the thread was busy.
    passes([late, beats.slice(0, 3)]);
    // Who ran once has the lock, and asks whether somebody has.
    const lost = { ...given, call: 'once', error: 'AbortError', reason: 'unreachable' };
    passes([request('x', lost), beats], { losses: true });
    // Who finds it marked has the lock, too, and gives it back.
    const found = { ...given, call: 'once', error: undefined, ran: false };
    passes([request('x', found), beats], { forgets: true });
  });

  it('once: who runs too early, and who does not though nobody has', () => {
    const run = (id, given) =>
      request(id, { call: 'once', kind: 'job', options: { keep: 100 }, ...given });
    const done = run('x', { asked: 0, granted: 1, ended: 5, token: 1, ran: true });
    finds('once', [done, run('y', { asked: 6, granted: 7, ended: 8, token: 2, ran: true })]);
    passes([done, run('y', { asked: 6, ran: false, settled: 8 })]);
    passes([done, run('y', { asked: 110, granted: 111, ended: 112, token: 2, ran: true })]);
    finds('once', [run('y', { asked: 6, ran: false, settled: 8 })]);
  });

  it('snapshots: what cannot be, and an order that is not kept', () => {
    const snapshot = (held, pending = []) => [
      { type: 'snapshot', actor: 'p1.t0', at: 3, bucket: 'b', held, pending },
    ];
    const info = (mode, more = {}) => ({
      name: 'rough 1',
      mode,
      limit: 0,
      weight: 0,
      label: '',
      ...more,
    });
    passes([snapshot([info('shared'), info('shared')])]);
    finds('snapshots', [snapshot([info('shared'), info('exclusive')])]);
    finds('snapshots', [snapshot([info('shared', { limit: 1, weight: 2 })])]);
    finds('snapshots', [snapshot([info('shared')], [info('exclusive', { ahead: 1 })])]);
    finds('snapshots', [snapshot([], [info('exclusive', { ahead: 0 })])]);
    const waiting = [0, 1].map((ahead) => info('exclusive', { ahead, priority: ahead - 1 }));
    finds('snapshots', [snapshot([info('exclusive')], waiting)]);
    const queue = ['x', 'y'].map((label, ahead) => info('exclusive', { label, ahead }));
    const x = request('x', { asked: 0, granted: 6, ended: 7, token: 3 });
    const y = request('y', { ...other, asked: 0, granted: 4, ended: 5, token: 2 });
    finds('snapshots', [snapshot([info('exclusive')], queue), x, y]);
    const lost = (actor, at) => ({ type: 'session lost', actor, at, bucket: 'b' });
    finds('snapshots', [snapshot([info('exclusive')], queue), x, y, lost('p1.t0', 6.5)]);
    finds('snapshots', [snapshot([info('exclusive')], queue), x, y, lost('p2.t0', 1.5)]);
    passes([snapshot([info('exclusive')], queue), x, y, lost('p1.t0', 1.5)]);
  });

  const tellsOfPause = {
    snapshots: (grantsIn) => [
      { type: 'snapshot', actor: 'p1.t0', at: 3, bucket: 'b', held: [], pending: [], grantsIn },
    ],
    errors: (grantsIn) =>
      request('x', { asked: 0, error: 'TimeoutError', options: { timeout: 0 }, grantsIn }),
  };
  for (const [name, tells] of Object.entries(tellsOfPause)) {
    it(`${name}: for how long a server grants nothing`, () => {
      const promises = { ...ALL, pause: 2000 };
      passes([tells(undefined)]);
      passes([tells(2000)], promises);
      finds(name, [tells(1)]);
      for (const wrong of [0, -1, 1.5, 2001, null]) finds(name, [tells(wrong)], promises);
    });
  }

  it('errors: which holders they list', () => {
    const tells = (...holders) => {
      const given = { error: 'TimeoutError', options: { timeout: 0 }, message: ', and 11 more' };
      return request('x', { asked: 0, ...given, holders });
    };
    passes([tells(10, 12, true)]);
    for (const wrong of [
      [12, 12, true],
      [10, 12, false],
      [10, 13, true],
      [0, 1, true],
    ])
      finds('errors', [tells(...wrong)]);
  });

  it('seen: what an actor saw itself', () => {
    finds('gate', [[{ type: 'fault', judge: 'gate', what: 'two', actor: 'p1.t0', at: 1 }]]);
  });
});

const gates = {
  files(t) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'gate-'));
    t.after(() => fs.rmSync(folder, { recursive: true }));
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
