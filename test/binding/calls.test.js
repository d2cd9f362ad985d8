'use strict';

/** The addon without lib/: what its calls promise to a thread whose stack is full. */

const assert = require('node:assert/strict');
const { createHook } = require('node:async_hooks');
const { after, before, describe, it } = require('node:test');
const { loadBinary } = require('../../lib/backend/binary.js');
const { deferred } = require('../helpers/locks.js');

const addon = loadBinary();

// The exchange, see src/binding/environment.h; with room for a few events.
const [EVENT_COUNT, TAG, MODE, OPTION, , , TOKEN, , LIMIT, WEIGHT, MAX_PENDING, STATUS, EVENTS] =
  Array(13).keys();
const EVENT_SIZE = 6;
const exchange = new Uint32Array(EVENTS + 4 * EVENT_SIZE);

let drain = () => {};
let manager;
let resource;

before(() => {
  const hook = createHook({
    init(_id, type, _trigger, object) {
      if (type === 'web-locks') resource = object;
    },
  }).enable();
  addon.start('test-', 0, '', exchange.buffer, () => drain());
  hook.disable();
  manager = addon.openManager('test/binding');
});

function ask(tag, name, mode = addon.WLK_EXCLUSIVE) {
  exchange[TAG] = tag;
  exchange[MODE] = mode;
  exchange[OPTION] = addon.WLK_WAIT;
  addon.request(manager, name);
  return exchange[STATUS];
}

function release(tag) {
  exchange[TAG] = tag;
  addon.release();
  return exchange[STATUS];
}

/** Takes the events of the last call: each its tag and its news. */
function take() {
  const events = [];
  for (let i = 0; i < exchange[EVENT_COUNT]; i++) {
    const at = EVENTS + EVENT_SIZE * i;
    events.push([exchange[at], exchange[at + 1]]);
  }
  exchange[EVENT_COUNT] = 0;
  return events;
}

/** Does `act`, then takes events in the wake-ups that follow until there are `count`. */
function eventsAfter(act, count) {
  const alive = setInterval(() => {}, 2 ** 30);
  const { promise, resolve } = deferred();
  const events = [];
  drain = () => {
    events.push(...take());
    addon.drain(true);
    events.push(...take());
    if (events.length >= count) resolve(events);
  };
  act();
  return promise.finally(() => clearInterval(alive));
}

const isEmpty = () => {
  const { locks } = addon.snapshot(manager);
  return locks.byteLength === 0;
};

describe('undo', () => {
  const granted = addon.WLK_NEWS_GRANTED;
  after(() => assert.ok(isEmpty()));

  it('ends a lock, takes no events, and has them handed over from the event loop', async () => {
    assert.equal(ask(1, 'a'), addon.WLK_GRANTED);
    assert.equal(ask(2, 'a'), addon.WLK_PENDING);
    const events = await eventsAfter(() => {
      assert.equal(addon.undo(1), addon.WLK_OK);
      assert.equal(exchange[EVENT_COUNT], 0);
    }, 1);
    assert.deepEqual(events, [[2, granted]]);
    assert.equal(release(2), addon.WLK_OK);
  });

  it('ends a pending request, and those behind it go on', async () => {
    assert.equal(ask(1, 'a', addon.WLK_SHARED), addon.WLK_GRANTED);
    assert.equal(ask(2, 'a'), addon.WLK_PENDING);
    assert.equal(ask(3, 'a', addon.WLK_SHARED), addon.WLK_PENDING);
    assert.deepEqual(await eventsAfter(() => addon.undo(2), 1), [[3, granted]]);
    // Its tag is free.
    assert.equal(ask(2, 'b'), addon.WLK_GRANTED);
    for (const tag of [1, 2, 3]) assert.equal(release(tag), addon.WLK_OK);
  });

  it('makes an event that was not taken say nothing', () => {
    assert.equal(ask(1, 'a'), addon.WLK_GRANTED);
    assert.equal(ask(2, 'a'), addon.WLK_PENDING);
    assert.equal(release(1), addon.WLK_OK);
    addon.undo(2);
    assert.deepEqual(take(), [[2, 0]]);
    assert.ok(isEmpty());
  });

  it('of what has ended, or never was, is harmless', () => {
    assert.equal(addon.undo(1), addon.WLK_OK);
    assert.equal(addon.undo(2 ** 32 - 1), addon.WLK_OK);
  });

  it('works at the end of the stack', () => {
    assert.equal(ask(1, 'a'), addon.WLK_GRANTED);
    // Where even this throws, the next frame has more room.
    const overflow = () => {
      try {
        overflow();
      } finally {
        addon.undo(1);
      }
    };
    assert.throws(overflow, RangeError);
    assert.ok(isEmpty());
  });
});

describe('events that were not taken', () => {
  it('are left as they are by the next call, whose own are handed over later', async () => {
    for (const [tag, name] of [
      [1, 'a'],
      [2, 'a'],
      [3, 'b'],
      [4, 'b'],
    ]) {
      ask(tag, name);
    }
    const events = await eventsAfter(() => {
      release(1);
      assert.deepEqual([exchange[EVENT_COUNT], exchange[EVENTS]], [1, 2]);
      release(3);
      assert.deepEqual([exchange[EVENT_COUNT], exchange[EVENTS]], [1, 2]);
    }, 2);
    assert.deepEqual(
      events.map(([tag]) => tag),
      [2, 4],
    );
    for (const tag of [2, 4]) assert.equal(release(tag), addon.WLK_OK);
    assert.ok(isEmpty());
  });
});

describe('the counts of requestExtra', () => {
  const askExtra = (tag, [limit, weight, maxPending]) => {
    Object.assign(exchange, { [TAG]: tag, [MODE]: addon.WLK_SHARED, [OPTION]: addon.WLK_WAIT });
    Object.assign(exchange, { [LIMIT]: limit, [WEIGHT]: weight, [MAX_PENDING]: maxPending });
    addon.requestExtra(manager, 'a', '', undefined);
    return exchange[STATUS];
  };
  const most = 2 ** 32 - 1;

  it('may be any numbers: no weight, more than the limit, more than there can be', () => {
    assert.equal(askExtra(1, [2, 0, most]), addon.WLK_GRANTED);
    assert.equal(askExtra(2, [2, most, most]), addon.WLK_PENDING);
    assert.equal(askExtra(3, [3, 1, most]), addon.WLK_OTHER_LIMIT);
    assert.equal(exchange[LIMIT], 2);
    assert.equal(askExtra(3, [2, 1, 1]), addon.WLK_QUEUE_FULL);
    for (const tag of [1, 2]) assert.equal(release(tag), addon.WLK_OK);
    take();
    assert.equal(askExtra(1, [most, most, most]), addon.WLK_GRANTED);
    assert.equal(release(1), addon.WLK_OK);
    assert.ok(isEmpty());
  });

  it('come back with the token of a lock', () => {
    ask(1, 'a');
    const first = exchange[TOKEN];
    ask(2, 'a');
    release(1);
    assert.equal(exchange[EVENTS + 4], first + 1);
    take();
    release(2);
  });
});

describe('the async resource of the wake-up', () => {
  it('has a reference while requests are pending, and only then', () => {
    assert.equal(resource.hasRef(), false);
    ask(1, 'a');
    assert.equal(resource.hasRef(), false);
    ask(2, 'a');
    assert.equal(resource.hasRef(), true);
    release(1);
    assert.equal(resource.hasRef(), false);
    take();
    release(2);
  });
});
