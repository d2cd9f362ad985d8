'use strict';

/** A session with an engine whose every answer, and its time, is up to the test. */

const assert = require('node:assert/strict');
require('../../lib/index.js');
const { TrackedRequest } = require('../../lib/cluster/session/tracked-request.js');
const { Session } = require('../../lib/cluster/session/session.js');
const { TTL } = require('./setup.js');
const { Machine, World, settle } = require('./world.js');

const CALLS = ['open', 'hello', 'step', 'renew', 'sweep', 'close', 'query', 'marked', 'dispose'];

const MEANING = { DEAD: 'dead', REFUSED: 'refused' };

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
          tell('failed')(place);
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

  /** Makes a request, or a group of them. */
  ask(...requests) {
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
    return places[0];
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
  async reconnect(mine = [], more = {}) {
    this.adapter.events.down(new Error('cut'));
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

/** What becomes of a promise. */
function settling(promise) {
  const known = { isSettled: false, error: undefined };
  const note = (what) => (value) => Object.assign(known, { isSettled: true, [what]: value });
  promise.then(note('value'), note('error'));
  return known;
}

module.exports = { Scripted, dead, renewal, settling };
