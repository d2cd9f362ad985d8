'use strict';

/** A session with an engine whose answers and time the test controls, and scripts for it. */

const assert = require('node:assert/strict');
require('../../lib/index.js');
const { ENDED, NOT_HELD, NOT_MARKED, PUBLISHED } = require('../../lib/cluster/adapter.js');
const { QUEUED, QUEUE_FULL, busy, failed, granted } = require('../../lib/cluster/adapter.js');
const { isLocal } = require('../../lib/cluster/engines/errors.js');
const { TrackedRequest } = require('../../lib/cluster/session/tracked-request.js');
const { Session } = require('../../lib/cluster/session/session.js');
const { TTL } = require('./setup.js');
const { Machine, World, settle } = require('../world/world.js');

const CALLS = ['open', 'hello', 'step', 'renew', 'sweep', 'close', 'query', 'marked', 'dispose'];

const UNKNOWN = /^The server did not say whether the lock was stolen/;

const MEANING = { DEAD: 'dead', FATAL: 'fatal', MISUSE: 'misuse', REFUSED: 'refused' };

const errorOf = (code) => Object.assign(new Error(code), { code });

const dead = () => errorOf('DEAD');

/** @returns an answer to `renew` */
const renewal = (mine = [], more = {}) => ({
  alive: true,
  mine: new Map(mine),
  nextExpiryIn: Number.POSITIVE_INFINITY,
  grantsIn: 0,
  ...more,
});

/** A closed session leaves no timer, and its promise resolves. */
const NOTHING_LEFT = { error: undefined, value: undefined, timers: 0, refs: 0 };

class Scripted {
  world = new World();
  /** The calls without an answer: `{ call, args, answer, fail }`. */
  calls = [];
  /** The announcements of the session: `[what, owner of the place, detail]`. */
  told = [];
  /** The errors of requests. */
  errors = [];

  /**
   * @param answers functions that answer calls at once, by call
   * @param can further abilities of the adapter
   * @param clock options of the machine
   */
  constructor(answers = {}, can = {}, clock = {}) {
    this.machine = new Machine(this.world, { random: () => 0.5, ...clock });
    this.answers = answers;
    this.adapter = { can: { limits: true, groups: true, marks: true, ...can } };
    for (const call of CALLS) this.adapter[call] = (...args) => this.#called(call, args);
    this.adapter.classify = (error) => MEANING[error.code] ?? (isLocal(error) ? 'local' : 'retry');
    const tell =
      (what) =>
      ({ owner }, detail) =>
        this.told.push([what, owner, ...(detail === undefined ? [] : [detail])]);
    this.session = new Session(
      { adapter: this.adapter, info: { clientId: 'me' }, ttl: TTL, clock: this.machine },
      {
        granted: (place) => tell('granted')(place, place.token),
        denied: (place, { code }) => tell('denied')(place, code),
        stolen: tell('stolen'),
        lost: tell('lost'),
        failed: (place, error) => {
          this.errors.push(error);
          tell(UNKNOWN.test(error.message) ? 'unknown' : 'failed')(place);
        },
        changed: () => {},
        unopened: (why) => this.told.push(['unopened', why?.message]),
        hasPendingAnswers: () => false,
        settled: () => this.told.at(-1)?.[0] !== 'settled' && this.told.push(['settled']),
      },
    );
  }

  #called(call, args) {
    const { [call]: answer } = this.answers;
    if (answer) return Promise.resolve(answer(...args));
    return new Promise((resolve, reject) => {
      this.calls.push({ call, args, answer: resolve, fail: reject });
    });
  }

  /** @returns the oldest unanswered call of a kind that no other call has replaced */
  async take(call) {
    await settle();
    const ofKind = this.calls.filter((one) => one.call === call);
    assert.ok(ofKind.length > 0, `no ${call}, but: ${this.calls.map((one) => one.call).join()}`);
    const isAlone = ['open', 'hello', 'renew'].includes(call);
    const gone = isAlone ? ofKind : ofKind.slice(0, 1);
    this.calls = this.calls.filter((one) => !gone.includes(one));
    return gone.at(-1);
  }

  async answer(call, value) {
    const taken = await this.take(call);
    taken.answer(value);
    await settle();
    return taken.args[0];
  }

  async fail(call, error) {
    (await this.take(call)).fail(error);
    await settle();
  }

  async open({ ttl = TTL, session = 's1' } = {}) {
    this.session.start();
    await this.answer('open', { session, ttl });
    return this;
  }

  /** Makes a request, or a group of them. @returns the first */
  ask(...requests) {
    return this.askAll(...requests)[0];
  }

  askAll(...requests) {
    const places = requests.map(
      ({ owner, ...op }) =>
        new TrackedRequest(owner, {
          kind: 'request',
          ref: 0,
          name: 'a',
          mode: 'exclusive',
          limit: 0,
          weight: 0,
          maxPending: -1,
          priority: 0,
          label: '',
          group: 0,
          ...op,
        }),
    );
    this.session.request(places);
    return places;
  }

  /** @returns the next step under way */
  async step() {
    const { args, answer, fail } = await this.take('step');
    const [ops, number, before] = args;
    const say = async (settleIt, value) => {
      settleIt(value);
      await settle();
    };
    return {
      number,
      before,
      ops: ops.map(({ kind, ref, data = '' }) => `${kind} ${ref} ${data}`.trim()),
      answer: (...answers) => say(answer, answers),
      fail: (code) => say(fail, errorOf(code)),
    };
  }

  /** A renewal finds that the session has expired. */
  async lose() {
    this.adapter.events.changed();
    await this.answer('renew', { ...renewal(), alive: false });
  }

  async reopen(session = 's2') {
    await this.answer('open', { session, ttl: TTL });
    await this.answer('close');
  }

  /** The connection is cut, and the next renewal answers `mine` and `more`. */
  async reconnect(mine, more) {
    this.adapter.events.down(new Error('cut'));
    await this.connect(mine, more);
  }

  async connect(mine = [], more = {}) {
    this.calls = [];
    await this.world.advance(100);
    await this.answer('hello');
    await this.answer('renew', renewal(mine, more));
  }

  /** Fails all calls and closes the session, of which nothing may go on afterwards. */
  async end() {
    Object.assign(this.answers, { close: () => {}, dispose: () => {} });
    const closing = settling(this.session.close());
    for (const { fail } of this.calls) fail(errorOf('away'));
    await this.world.advance(10 * TTL);
    const { timers, refs } = this.machine;
    assert.deepEqual({ ...closing, timers, refs }, { isSettled: true, ...NOTHING_LEFT });
  }

  /** @returns the announcements since the last call */
  news() {
    const told = this.told.filter(([what]) => what !== 'settled');
    this.told = [];
    return told;
  }
}

/** `x of a priority 5` */
const REQUEST = /^(\w+)(?: of (\w+))?(?: priority (-?\d+))?$/;

/** A step takes at most two requests for this name. */
const LONG_NAME = 'long'.repeat(30_000);

const ASKING = /^(request|steal|ifAvailable|end) /;

const ANSWERS = {
  queued: QUEUED,
  full: QUEUE_FULL,
  ended: ENDED,
  notMarked: NOT_MARKED,
  published: PUBLISHED,
  notHeld: NOT_HELD,
  failed: failed(errorOf('REFUSED')),
  busy: busy(errorOf('GUARDED')),
};

function answerOf(text) {
  const [code, token] = text.split(' ');
  return code === 'granted' ? granted(BigInt(token)) : ANSWERS[code];
}

/**
 * `3=7`: our request 3 has the token 7. `other=9`: another client's request 9 has the token 9;
 * clients number their requests independently.
 */
function entryOf(word) {
  const [ref, token, priority = 0] = word.split(/[=,]/);
  const clientId = ref === 'other' ? ref : 'me';
  return {
    ref: Number(ref === 'other' ? token : ref),
    clientId,
    name: 'a',
    token: BigInt(token),
    priority: Number(priority),
  };
}

/**
 * Parses a renewal: `1=7` for the token of a request, `1>thief` for a theft, `step A`, `life x`,
 * `grantsIn 600`.
 */
function renewalOf(words, steps) {
  const mine = [];
  const more = { stolen: new Map() };
  for (let i = 0; i < words.length; i++) {
    const [ref, token] = words[i].split('=');
    const [robbed, thief] = words[i].split('>');
    if (token !== undefined) mine.push([Number(ref), BigInt(token)]);
    else if (thief !== undefined) more.stolen.set(Number(robbed), thief);
    else if (ref === 'step') more.step = steps.get(words[++i])?.number ?? 0;
    else if (ref === 'life') more.life = words[++i];
    else more[ref] = Number(words[++i]);
  }
  return [mine, more];
}

/**
 * Plays a script: statements separated by semicolons. After the colon of a statement stands what
 * the session announces meanwhile, or the operations of a step.
 *
 *   request x of b             makes a request, for the name `a` by default; also `steal x`,
 *                              `ifAvailable x`, and `request x of a and y of b` for a group; a step
 *                              has at most two requests `of long`
 *   hold x                     makes a request for `a`, which is granted; `queue x`: which waits
 *   end x                      withdraws or releases it; with `keep 1000` it is to be marked
 *   publish x 1                publishes a text with a lock; announces `published 1`, `unpublished
 *                              1` if the lock has ended, or `refused 1`
 *   sent A: request 1, end 2   the next step. Its number and the step before it are always checked
 *   sent A again               the same step, over the next connection
 *   A answers granted 7, queued; or `nonsense`
 *   A fails REFUSED            or FATAL, DEAD, EARLY
 *   hint granted 1 7           or `hint stolen 1 thief`, or `hint changed`
 *   renewal asked              a renewal is sent; the next `renewal 1=7` answers it
 *   cut                        cuts the connection
 *   connected 1=7 step A       the next connection, and the renewal over it; or `hello` alone
 *   lost                       a renewal finds that the session has expired
 *   opened s2                  the next session is open; with `ttl 6000`, `grantsIn 600`
 *   opening fails FATAL        also `connecting` and `renewing`
 *   ended s1                   the end of a session, which is answered
 *   sweep                      a sweep is called and answered
 *   ready                      is read; announces `ready`, or `ready rejects` and the reason
 *   query                      is answered by `listed 1=7 other=8`, the requests it finds; also
 *                              `holders`, whose tokens are announced; `marked x` reads a mark
 *   progress x, outage x       announces the progress of a request, or why it is not answered
 *   close                      disposes the adapter, which is answered by `disposed`
 *   wait 600                   milliseconds; or `wait 0.1 ttl`; `sleep 600`: the machine sleeps
 *   wall -600                  sets the wall clock; `frozen`: the continuous clock stops
 *   no step is sent            nor a call of another kind; `no call is made`
 *   state open                 of the session; also `remaining 600`, `grantsIn 600`, and `refs 1`,
 *                              how many timers keep the process alive
 */
class Play {
  #stage;
  #requests = new Map();
  #steps = new Map();
  /** The steps whose answers the session cannot have applied. */
  #open = [];
  #lastNumber = 0;
  #renewal;
  #statements = {
    request: (...words) => this.#ask('request', words),
    steal: (...words) => this.#ask('steal', words),
    ifAvailable: (...words) => this.#ask('ifAvailable', words),
    hold: (owner) => this.#serve(owner, 'granted 1'),
    queue: (owner) => this.#serve(owner, 'queued'),
    end: (owner, _keep, keep = 0) => this.#follow(this.#end(owner, Number(keep))),
    publish: (owner, text) => void this.#follow(this.#publish(owner, text)),
    sent: (letter, again) => this.#expectStep(letter, again),
    hint: (kind, ref, detail) =>
      this.#stage.adapter.events[kind](Number(ref), kind === 'granted' ? BigInt(detail) : detail),
    cut: () => this.#stage.adapter.events.down(new Error('cut')),
    connected: (...words) => this.#connect(words),
    renewal: (...words) => this.#renew(words),
    lost: () => this.#stage.lose(),
    opened: (session, ...words) => this.#reopen(session, words),
    opening: (_fails, code) => this.#stage.fail('open', errorOf(code ?? 'away')),
    hello: () => this.#stage.answer('hello'),
    connecting: (_fails, code) => this.#stage.fail('hello', errorOf(code)),
    renewing: (_fails, code) => this.#stage.fail('renew', errorOf(code)),
    ready: () => void this.#follow(this.#ready()),
    ended: async (session) => assert.equal(await this.#stage.answer('close'), session),
    sweep: () => this.#stage.answer('sweep'),
    query: (name) => void this.#follow(this.#query(name)),
    holders: () => void this.#follow(this.#holders()),
    marked: (owner) => void this.#follow(this.#queryMark(owner)),
    listed: (...words) => this.#stage.answer('query', words.map(entryOf)),
    outage: (owner) => this.#outage(owner),
    progress: (owner) => this.#tell(this.#stage.session.progress(this.#requests.get(owner))),
    close: () => void this.#follow(this.#close()),
    disposed: () => this.#stage.answer('dispose'),
    wait: (time, unit) => this.#stage.world.advance(time * (unit === 'ttl' ? this.#ttl : 1)),
    sleep: (time) => this.#sleep(Number(time)),
    wall: (time) => this.#stage.machine.setWallBy(Number(time)),
    frozen: () => Object.assign(this.#stage.machine, { continuous: () => 0 }),
    no: (call) => this.#expectNo(call),
    refs: (count) => assert.equal(this.#stage.machine.refs, Number(count)),
    remaining: (time) => assert.equal(this.#stage.session.remaining(), Number(time)),
    state: (state) => assert.equal(this.#stage.session.state, state),
    grantsIn: (time) => assert.equal(this.#stage.session.grantsIn, Number(time)),
  };
  #ttl;
  /** How many promises of the session have not settled. */
  #unsettled = 0;

  constructor(stage, ttl = TTL) {
    this.#stage = stage;
    this.#ttl = ttl;
  }

  /** Plays the script, and then ends the session, which settles all promises. */
  async run(script) {
    await this.#play(script);
    await this.#stage.end();
    assert.equal(this.#unsettled, 0, 'all promises have settled');
  }

  async #follow(promise) {
    this.#unsettled++;
    await promise.finally(() => this.#unsettled--);
  }

  async #play(script) {
    for (const statement of script.split('; ')) {
      const [what, expected = ''] = statement.split(': ');
      const done = this.#do(...what.split(' '));
      // Requests of one turn are sent together.
      if (ASKING.test(statement)) continue;
      await done;
      await settle();
      const news = this.#stage.news().map((one) => one.join(' '));
      assert.equal(news.join(', '), expected, statement);
    }
  }

  #do(first, ...words) {
    if (first in this.#statements) return this.#statements[first](...words);
    const [verb, ...rest] = words;
    if (verb === 'answers') return this.#answer(first, rest.join(' '));
    return this.#fail(first, rest[0]);
  }

  #ask(kind, words) {
    const all = words.join(' ').split(' and ');
    const requests = all.map((one) => {
      const [, owner, name = 'a', priority = 0] = REQUEST.exec(one);
      const group = all.length > 1 ? this.#requests.size + 1 : 0;
      const asked = { owner, name: name === 'long' ? LONG_NAME : name, kind, group };
      return { ...asked, priority: Number(priority) };
    });
    for (const [i, place] of this.#stage.askAll(...requests).entries())
      this.#requests.set(requests[i].owner, place);
  }

  async #serve(owner, answer) {
    this.#ask('request', [owner]);
    await this.#expectStep(owner);
    await this.#answer(owner, answer);
    this.#stage.news();
  }

  async #end(owner, keep) {
    await this.#stage.session.end(this.#requests.get(owner), keep);
    this.#tell('ended', owner);
  }

  async #publish(owner, text) {
    const published = this.#stage.session.publish(this.#requests.get(owner), text);
    const what = (isPublished) => (isPublished ? 'published' : 'unpublished');
    this.#tell(await published.then(what, () => 'refused'), text);
  }

  async #ready() {
    const news = await this.#stage.session.ready.then(
      () => ['ready'],
      ({ cause, message }) => ['ready', 'rejects', (cause?.message ?? message).split(': ').at(-1)],
    );
    this.#tell(...news);
  }

  async #query(name) {
    try {
      const found = await this.#stage.session.queries.query(name);
      const isOwn = ({ clientId }) => clientId === 'me';
      const nameOf = (entry) => (isOwn(entry) ? entry.ref : entry.clientId);
      const wordOf = (entry) => nameOf(entry) + (entry.token ? `=${entry.token}` : '');
      this.#tell('found', ...found.map(wordOf));
    } catch {
      this.#tell('query', 'fails');
    }
  }

  async #queryMark(owner) {
    this.#tell('marked', await this.#stage.session.queries.queryMark(this.#requests.get(owner)));
  }

  async #sleep(milliseconds) {
    const { machine, world } = this.#stage;
    machine.stop({ asleep: true });
    await world.advance(milliseconds);
    machine.resume();
  }

  async #holders() {
    const holders = await this.#stage.session.queries.queryHolders('a', 200);
    const tokens = holders?.map(({ token }) => token);
    this.#tell('holders', ...(tokens ?? ['unknown']));
  }

  #outage(owner) {
    const { code = 'none' } = this.#stage.session.outage(this.#requests.get(owner)) ?? {};
    this.#tell(code.replace('ERR_WEB_LOCKS_', ''));
  }

  #tell(...news) {
    this.#stage.told.push(news);
  }

  async #close() {
    await this.#stage.session.close();
    this.#tell('closed');
  }

  async #expectStep(letter, again) {
    const step = await this.#stage.step();
    if (again) {
      const { number, ops } = this.#steps.get(letter);
      assert.deepEqual([step.number, step.ops], [number, ops], 'a step comes again as it was');
    } else {
      assert.ok(step.number > this.#lastNumber, 'no number is used twice');
      this.#lastNumber = step.number;
      this.#open.push(step);
      for (const op of step.ops) this.#tell(op);
    }
    const known = again ? this.#steps.get(letter) : step;
    this.#steps.set(letter, Object.assign(known, step));
    const before = this.#open[this.#open.indexOf(known) - 1]?.number ?? 0;
    assert.equal(step.before, before, 'a step says which one it comes after');
    const { window = 1 } = this.#stage.adapter.can;
    const distance = step.number - this.#open[0].number;
    assert.ok(distance < window, 'the server remembers as many numbers as the window has');
  }

  #answer(letter, text) {
    const step = this.#steps.get(letter);
    step.isAnswered = text !== 'nonsense';
    while (this.#open[0]?.isAnswered) this.#open.shift();
    return step.answer(...text.split(', ').map(answerOf));
  }

  #fail(letter, code) {
    const step = this.#steps.get(letter);
    if (this.#open.includes(step) && !step.isDone) this.#open.splice(this.#open.indexOf(step));
    return step.fail(code);
  }

  async #connect(words) {
    const [mine, more] = renewalOf(words, this.#steps);
    if (more.step !== undefined)
      this.#open = this.#open.filter(({ number }) => number <= more.step);
    for (const step of this.#open) {
      step.isAnswered = false;
      step.isDone ||= more.step !== undefined;
    }
    this.#renewal = undefined;
    await this.#stage.connect(mine, more);
  }

  async #renew(words) {
    this.#renewal ??= await this.#stage.take('renew');
    if (words[0] === 'asked') return;
    this.#renewal.answer(renewal(...renewalOf(words, this.#steps)));
    this.#renewal = undefined;
  }

  #reopen(session, words) {
    // Each session numbers its own steps.
    this.#open = [];
    this.#lastNumber = 0;
    const [, more] = renewalOf(words, this.#steps);
    return this.#stage.answer('open', { session, ttl: TTL, ...more });
  }

  async #expectNo(kind) {
    await settle();
    const calls = this.#stage.calls.map(({ call }) => call);
    assert.deepEqual(
      calls.filter((call) => kind === 'call' || kind === call),
      [],
    );
  }
}

/** Follows the outcome of a promise. */
function settling(promise) {
  const known = { isSettled: false, error: undefined };
  const note = (what) => (value) => Object.assign(known, { isSettled: true, [what]: value });
  promise.then(note('value'), note('error'));
  return known;
}

module.exports = { Play, Scripted, dead, renewal, settling };
