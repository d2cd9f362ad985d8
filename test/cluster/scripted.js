'use strict';

/** A session with an engine whose every answer, and its time, is up to the test; and its scripts. */

const assert = require('node:assert/strict');
require('../../lib/index.js');
const { ENDED, NOT_MARKED, QUEUED, busy, granted } = require('../../lib/cluster/adapter.js');
const { TrackedRequest } = require('../../lib/cluster/session/tracked-request.js');
const { Session } = require('../../lib/cluster/session/session.js');
const { TTL } = require('./setup.js');
const { Machine, World, settle } = require('./world.js');

const CALLS = ['open', 'hello', 'step', 'renew', 'sweep', 'close', 'query', 'marked', 'dispose'];

const UNKNOWN = /^The server did not say whether the lock was stolen/;

const MEANING = { DEAD: 'dead', FATAL: 'fatal', REFUSED: 'refused' };

const dead = () => Object.assign(new Error('dead'), { code: 'DEAD' });

/** What `renew` answers. */
const renewal = (mine = [], more = {}) => ({
  alive: true,
  mine: new Map(mine),
  nextExpiryIn: Number.POSITIVE_INFINITY,
  grantsIn: 0,
  ...more,
});

class Scripted {
  world = new World();
  machine = new Machine(this.world, { random: () => 0.5 });
  /** InFlightCalls that are not answered: `{ call, args, answer, fail }`. */
  calls = [];
  /** What the session told: `[what, owner of the place, detail]`. */
  told = [];
  /** What requests failed with. */
  errors = [];
  states = [];

  /**
   * @param answers calls that are answered at once, by functions
   * @param can what else the adapter can
   */
  constructor(answers = {}, can = {}) {
    this.answers = answers;
    this.adapter = { can: { limits: true, groups: true, marks: true, ...can } };
    for (const call of CALLS) this.adapter[call] = (...args) => this.#called(call, args);
    this.adapter.classify = ({ code }) => MEANING[code] ?? 'retry';
    const tell =
      (what) =>
      ({ owner }, detail) =>
        this.told.push([what, owner, ...(detail === undefined ? [] : [detail])]);
    this.session = new Session(
      { adapter: this.adapter, info: { clientId: 'me' }, ttl: TTL, clock: this.machine },
      {
        granted: (place) => tell('granted')(place, place.token),
        refused: (place, { code }) => tell('refused')(place, code),
        stolen: tell('stolen'),
        lost: tell('lost'),
        failed: (place, error) => {
          this.errors.push(error);
          tell(UNKNOWN.test(error.message) ? 'unknown' : 'failed')(place);
        },
        changed: (state) => this.states.push(state),
        unopened: (why) => this.told.push(['unopened', why]),
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

  /** The oldest call of a kind that is not answered. */
  async take(call) {
    await settle();
    const i = this.calls.findIndex((one) => one.call === call);
    assert.ok(i >= 0, `no ${call}, but: ${this.calls.map((one) => one.call).join()}`);
    return this.calls.splice(i, 1)[0];
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

  /** The next step that is under way. */
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
      ops: ops.map(({ kind, ref }) => `${kind} ${ref}`),
      answer: (...answers) => say(answer, answers),
      fail: (code) => say(fail, Object.assign(new Error(code), { code })),
    };
  }

  /** The next renewal is under way. */
  async renewing() {
    await this.world.advance(Math.ceil(TTL / 3));
    return this.take('renew');
  }

  /** The server says that the session is dead. */
  async lose() {
    (await this.renewing()).answer({ ...renewal(), alive: false });
  }

  /** The next session opens. */
  async reopen(session = 's2') {
    await this.answer('open', { session, ttl: TTL });
    await this.answer('close');
  }

  /** The connection is cut, and the next one has what is said: `mine`, and more of a renewal. */
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

  /** What was told, without what came before it. */
  news() {
    const told = this.told.filter(([what]) => what !== 'settled');
    this.told = [];
    return told;
  }
}

const ASKING = /^(request|steal|ifAvailable|end) /;

const ANSWERS = { queued: QUEUED, ended: ENDED, notMarked: NOT_MARKED, busy: busy() };

function answerOf(text) {
  const [code, token] = text.split(' ');
  return code === 'granted' ? granted(BigInt(token)) : ANSWERS[code];
}

/** The words of a renewal: `1=7` for the token of a request, `step A`, `life x`, `grantsIn 600`. */
function renewalOf(words, steps) {
  const mine = [];
  const more = {};
  for (let i = 0; i < words.length; i++) {
    const [ref, token] = words[i].split('=');
    if (token !== undefined) mine.push([Number(ref), BigInt(token)]);
    else if (ref === 'step') more.step = steps.get(words[++i])?.number ?? 0;
    else if (ref === 'life') more.life = words[++i];
    else more[ref] = Number(words[++i]);
  }
  return [mine, more];
}

/**
 * Plays a script: statements, between semicolons. Behind the colon of a statement stands all that
 * the session tells its listener meanwhile, or the operations of a step.
 *
 *   request x                  makes a request, for the name `a` unless it says `of b`; so do
 *                              `steal x` and `ifAvailable x`, and `request x of a and y of b` a group
 *   end x                      withdraws or releases it; with `keep 1000` it is to be marked
 *   sent A: request 1, end 2   the next step. Its number and the step before it are always judged
 *   sent A again               the same step, over the next connection
 *   A answers granted 7, queued
 *   A fails REFUSED            or FATAL, DEAD, EARLY
 *   hint granted 1 7           or `hint stolen 1 thief`, or `hint changed`
 *   renewal asked              a renewal is sent; the next `renewal 1=7` answers it
 *   cut                        the connection
 *   connected 1=7 step A       the next connection, and the renewal over it
 *   lost                       a renewal finds the session dead
 *   reopen                     the next session opens
 *   sweep                      is asked for, and answered
 *   wait 600                   milliseconds; or `wait 0.1 ttl`
 *   nothing is asked           no call is under way; or `no step is sent`
 */
class Play {
  #stage;
  #window;
  #requests = new Map();
  #steps = new Map();
  /** The steps whose answers the session cannot have applied. */
  #open = [];
  #lastNumber = 0;
  #renewal;

  constructor(stage) {
    this.#stage = stage;
    this.#window = stage.adapter.can.window ?? 1;
  }

  async run(script) {
    for (const statement of script.split(/;\s*/)) {
      const [what, expected = ''] = statement.split(': ');
      const result = this.#do(what.split(' '));
      // What is asked together is sent together.
      if (ASKING.test(statement)) continue;
      const told = await result;
      await settle();
      const news = this.#stage.news().map((one) => one.join(' '));
      assert.equal([...told, ...news].join(', '), expected, statement);
    }
  }

  /** @returns the operations of a step, and what promises tell */
  async #do([verb, ...words]) {
    const { events } = this.#stage.adapter;
    if (['request', 'steal', 'ifAvailable'].includes(verb)) this.#ask(verb, words);
    else if (verb === 'end') this.#end(...words);
    else if (verb === 'sent') return this.#sent(...words);
    else if (words[0] === 'answers') await this.#answer(verb, words.slice(1).join(' '));
    else if (words[0] === 'fails') await this.#fail(verb, words[1]);
    else if (verb === 'hint' && words[0] === 'granted') events.granted(+words[1], BigInt(words[2]));
    else if (verb === 'hint' && words[0] === 'stolen') events.stolen(+words[1], words[2]);
    else if (verb === 'hint') events.changed();
    else if (verb === 'cut') events.down(new Error('cut'));
    else if (verb === 'connected') await this.#connect(words);
    else if (verb === 'renewal') await this.#renew(words);
    else if (verb === 'lost') await this.#lose();
    else if (verb === 'reopen') await this.#stage.reopen();
    else if (verb === 'sweep') await this.#stage.answer('sweep');
    else if (verb === 'wait') await this.#stage.world.advance(words[0] * (words[1] ? TTL : 1));
    else await this.#expectNoCall(verb === 'no' ? 'step' : undefined);
    return [];
  }

  #ask(kind, words) {
    const all = words.join(' ').split(' and ');
    const requests = all.map((one) => {
      const [owner, name = 'a'] = one.split(' of ');
      return { owner, name, kind, group: all.length > 1 ? this.#requests.size + 1 : 0 };
    });
    for (const [i, place] of this.#stage.askAll(...requests).entries())
      this.#requests.set(requests[i].owner, place);
  }

  async #end(owner, _keep, keep = 0) {
    await this.#stage.session.end(this.#requests.get(owner), Number(keep));
    this.#stage.told.push(['ended', owner]);
  }

  async #sent(letter, again) {
    const step = await this.#stage.step();
    if (again) {
      const { number, ops } = this.#steps.get(letter);
      assert.deepEqual([step.number, step.ops], [number, ops], 'a step comes again as it was');
    } else {
      assert.ok(step.number > this.#lastNumber, 'no number is used twice');
      this.#lastNumber = step.number;
      this.#open.push(step);
    }
    const known = again ? this.#steps.get(letter) : step;
    this.#steps.set(letter, Object.assign(known, step));
    const before = this.#open[this.#open.indexOf(known) - 1]?.number ?? 0;
    assert.equal(step.before, before, 'a step says which one it comes after');
    const distance = step.number - this.#open[0].number;
    assert.ok(distance < this.#window, 'the server remembers as many numbers as the window has');
    return again ? [] : step.ops;
  }

  #answer(letter, text) {
    const step = this.#steps.get(letter);
    step.isAnswered = true;
    while (this.#open[0]?.isAnswered) this.#open.shift();
    return step.answer(...text.split(', ').map(answerOf));
  }

  #fail(letter, code) {
    const step = this.#steps.get(letter);
    if (code === 'DEAD') this.#forget();
    else if (this.#open.includes(step) && !step.isDone) this.#open.splice(this.#open.indexOf(step));
    return step.fail(code);
  }

  /** The steps of the next session have numbers of their own. */
  #forget() {
    this.#open = [];
    this.#lastNumber = 0;
  }

  async #connect(words) {
    const [mine, more] = renewalOf(words, this.#steps);
    const { step: done = Number.POSITIVE_INFINITY } = more;
    if (more.step !== undefined) this.#open = this.#open.filter(({ number }) => number <= done);
    for (const step of this.#open) {
      step.isAnswered = false;
      step.isDone ||= more.step !== undefined;
    }
    await this.#stage.connect(mine, more);
  }

  async #renew(words) {
    this.#renewal ??= await this.#stage.take('renew');
    if (words[0] === 'asked') return;
    this.#renewal.answer(renewal(...renewalOf(words, this.#steps)));
    this.#renewal = undefined;
  }

  async #lose() {
    this.#forget();
    this.#stage.adapter.events.changed();
    (await this.#stage.take('renew')).answer({ ...renewal(), alive: false });
  }

  async #expectNoCall(kind) {
    await settle();
    const calls = this.#stage.calls.filter(({ call }) => (kind ?? call) === call);
    assert.deepEqual(
      calls.map(({ call }) => call),
      [],
    );
  }
}

/** What becomes of a promise. */
function settling(promise) {
  const known = { isSettled: false, error: undefined };
  const note = (what) => (value) => Object.assign(known, { isSettled: true, [what]: value });
  promise.then(note('value'), note('error'));
  return known;
}

module.exports = { Play, Scripted, dead, renewal, settling };
