'use strict';

/**
 * Tests the addon without lib/: what its calls guarantee to a thread whose stack is full. It uses
 * no helper that loads the library, which would start the agent of this thread.
 */

const assert = require('node:assert/strict');
const { createHook } = require('node:async_hooks');
const { mkdtempSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { loadBinary } = require('../../lib/backend/binary.js');
const { lacksHost } = require('../helpers/host-scope.js');

const addon = loadBinary();

// The exchange (src/binding/environment.h), with room for a few events.
const {
  EXCHANGE_EVENT_COUNT: EVENT_COUNT,
  EXCHANGE_TAG: TAG,
  EXCHANGE_MODE: MODE,
  EXCHANGE_OPTION: OPTION,
  EXCHANGE_LIMIT: LIMIT,
  EXCHANGE_WEIGHT: WEIGHT,
  EXCHANGE_MAX_PENDING: MAX_PENDING,
  EXCHANGE_STATUS: STATUS,
  EXCHANGE_EVENTS: EVENTS,
  EVENT_TAG,
  EVENT_NEWS,
  EVENT_SIZE,
} = addon;
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

function ask(tag, name, mode = addon.EXCLUSIVE) {
  exchange[TAG] = tag;
  exchange[MODE] = mode;
  exchange[OPTION] = addon.WAIT;
  addon.request(manager, name);
  return exchange[STATUS];
}

function release(tag) {
  exchange[TAG] = tag;
  addon.release();
  return exchange[STATUS];
}

/** Takes the events of the last call, as pairs of tag and news. */
function take() {
  const events = [];
  for (let i = 0; i < exchange[EVENT_COUNT]; i++) {
    const at = EVENTS + EVENT_SIZE * i;
    events.push([exchange[at + EVENT_TAG], exchange[at + EVENT_NEWS]]);
  }
  exchange[EVENT_COUNT] = 0;
  return events;
}

/** Calls `act`, then takes the events of the following wake-ups until there are `count`. */
function eventsAfter(act, count) {
  const alive = setInterval(() => {}, 2 ** 30);
  const promise = new Promise((resolve) => {
    const events = [];
    drain = () => {
      events.push(...take());
      addon.drain(true);
      events.push(...take());
      if (events.length >= count) resolve(events);
    };
  });
  act();
  return promise.finally(() => clearInterval(alive));
}

/** Waits until no wake-up of another test is under way. */
async function quiet() {
  await eventsAfter(() => addon.undo(2 ** 32 - 1), 0);
  // More events may follow right behind it.
  await new Promise((resolve) => setImmediate(resolve));
}

const isEmpty = () => {
  const { locks } = addon.snapshot(manager);
  return locks.byteLength === 0;
};

describe('undo', () => {
  const granted = addon.NEWS_GRANTED;
  after(() => assert.ok(isEmpty()));

  it('ends a lock, takes no events, and has them handed over from the event loop', async () => {
    assert.equal(ask(1, 'a'), addon.GRANTED);
    assert.equal(ask(2, 'a'), addon.PENDING);
    const events = await eventsAfter(() => {
      assert.equal(addon.undo(1), addon.OK);
      assert.equal(exchange[EVENT_COUNT], 0);
    }, 1);
    assert.deepEqual(events, [[2, granted]]);
    assert.equal(release(2), addon.OK);
  });

  it('makes an event that was not taken say nothing', () => {
    assert.equal(ask(1, 'a'), addon.GRANTED);
    assert.equal(ask(2, 'a'), addon.PENDING);
    assert.equal(release(1), addon.OK);
    addon.undo(2);
    assert.deepEqual(take(), [[2, 0]]);
    assert.ok(isEmpty());
  });

  it('of what has ended, or never was, is harmless', () => {
    assert.equal(addon.undo(1), addon.OK);
    assert.equal(addon.undo(2 ** 32 - 1), addon.OK);
  });

  it('works at the end of the stack', () => {
    assert.equal(ask(1, 'a'), addon.GRANTED);
    // If even this throws, the next frame has more room.
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
    await quiet();
    [...'aabb'].forEach((name, i) => {
      ask(i + 1, name);
    });
    const events = await eventsAfter(() => {
      release(1);
      assert.deepEqual([exchange[EVENT_COUNT], exchange[EVENTS + EVENT_TAG]], [1, 2]);
      release(3);
      assert.deepEqual([exchange[EVENT_COUNT], exchange[EVENTS + EVENT_TAG]], [1, 2]);
    }, 2);
    assert.deepEqual(
      events.map(([tag]) => tag),
      [2, 4],
    );
    for (const tag of [2, 4]) assert.equal(release(tag), addon.OK);
    assert.ok(isEmpty());
  });
});

describe('the host scope', { skip: lacksHost }, () => {
  /** Opens a bucket in a folder of its own. */
  async function openHost(t) {
    const directory = mkdtempSync(path.join(tmpdir(), 'web-locks-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const opening = addon.hostOpen('bucket', '0.0.0', 0, '', directory, true);
    assert.equal(typeof opening, 'object');
    exchange[TAG] = 7;
    if (addon.hostReady(opening) === addon.PENDING) await eventsAfter(() => {}, 1);
    t.after(() => addon.close(opening));
    return opening;
  }

  function askForState(opening, tag) {
    exchange[TAG] = tag;
    assert.equal(addon.hostSnapshot(opening, undefined), addon.PENDING);
  }

  async function eventOf(tag) {
    for (;;) {
      const events = await eventsAfter(() => {}, 1);
      const [, news] = events.find(([other]) => other === tag) ?? [];
      if (news !== undefined) return news;
    }
  }

  it('does not end a request of the process whose tag it has an answer for', async (t) => {
    const opening = await openHost(t);
    askForState(opening, 5);
    addon.undo(5);
    assert.equal(ask(6, 'a'), addon.GRANTED);
    assert.equal(ask(5, 'a'), addon.PENDING);
    const [[tag, news]] = await eventsAfter(() => {}, 1);
    assert.deepEqual([tag, news & addon.NEWS_OF_HOST], [5, addon.NEWS_OF_HOST]);
    assert.equal(release(6), addon.OK);
    assert.deepEqual(take(), [[5, addon.NEWS_GRANTED]]);
    assert.equal(release(5), addon.OK);
  });

  it('closes a bucket with the last of those who opened it', (t) => {
    const directory = mkdtempSync(path.join(tmpdir(), 'web-locks-'));
    t.after(() => rmSync(directory, { recursive: true }));
    const open = () => addon.hostOpen('bucket', '0.0.0', 0, '', directory, true);
    const [one, two] = [open(), open()];
    const id = addon.hostClientId(one);
    addon.close(one);
    assert.equal(addon.hostClientId(two), id);
    addon.close(two);
    const again = open();
    // Client ids start again at 1.
    assert.match(addon.hostClientId(again), /-1$/);
    addon.close(again);
  });

  it('wakes again for what comes after events that had no room', async (t) => {
    const opening = await openHost(t);
    await quiet();
    const tags = [1, 2, 3, 4];
    assert.equal(ask(5, 'a'), addon.GRANTED);
    for (const tag of tags) assert.equal(ask(tag, 'a', addon.SHARED), addon.PENDING);
    const woken = new Promise((resolve) => {
      drain = resolve;
    });
    askForState(opening, 8);
    await woken;
    addon.undo(5);
    addon.drain(true);
    assert.deepEqual(
      take().map(([tag]) => tag),
      tags,
    );
    await eventsAfter(() => {}, 1);
    for (const tag of tags) assert.equal(release(tag), addon.OK);
    await quiet();
    askForState(opening, 9);
    assert.ok((await eventOf(9)) & addon.NEWS_SNAPSHOT);
    addon.undo(8);
    addon.undo(9);
  });

  it('has a reference while a release is not done', async (t) => {
    const opening = await openHost(t);
    // A call after a query is deferred, unless the query was answered meanwhile.
    for (let status = addon.OK; status !== addon.PENDING; ) {
      exchange[TAG] = 8;
      exchange[MODE] = addon.EXCLUSIVE;
      exchange[OPTION] = addon.WAIT;
      addon.request(opening, 'a');
      if (exchange[STATUS] === addon.PENDING) await eventOf(8);
      await quiet();
      askForState(opening, 9);
      exchange[TAG] = 8;
      addon.release();
      status = exchange[STATUS];
      exchange[TAG] = 9;
      addon.hostEndJob(); // an undo() would have a reference of its own
    }
    assert.equal(resource.hasRef(), true);
    assert.ok((await eventOf(8)) & addon.NEWS_RELEASED);
    assert.equal(resource.hasRef(), false);
  });
});

describe('the counts of requestExtra', () => {
  const askExtra = (tag, [limit, weight, maxPending]) => {
    Object.assign(exchange, { [TAG]: tag, [MODE]: addon.SHARED, [OPTION]: addon.WAIT });
    Object.assign(exchange, { [LIMIT]: limit, [WEIGHT]: weight, [MAX_PENDING]: maxPending });
    addon.requestExtra(manager, 'a', '', undefined);
    return exchange[STATUS];
  };
  const most = 2 ** 32 - 1;

  it('may be any numbers: no weight, more than the limit, more than there can be', () => {
    assert.equal(askExtra(1, [2, 0, most]), addon.GRANTED);
    assert.equal(askExtra(2, [2, most, most]), addon.PENDING);
    assert.equal(askExtra(3, [3, 1, most]), addon.OTHER_LIMIT);
    assert.equal(exchange[LIMIT], 2);
    assert.equal(askExtra(3, [2, 1, 1]), addon.QUEUE_FULL);
    for (const tag of [1, 2]) assert.equal(release(tag), addon.OK);
    take();
    assert.equal(askExtra(1, [most, most, most]), addon.GRANTED);
    assert.equal(release(1), addon.OK);
    assert.ok(isEmpty());
  });
});

describe('a manager that is closed', () => {
  it('answers that it is closed, also when it is closed again', () => {
    const closed = addon.openManager('test/closed');
    assert.equal(addon.close(closed), addon.OK);
    assert.equal(addon.close(closed), addon.OK);
    assert.equal(addon.snapshot(closed), addon.BUCKET_CLOSED);
    assert.equal(addon.holders(closed, 'a'), addon.BUCKET_CLOSED);
    for (const call of [addon.request, addon.requestExtra]) {
      exchange[TAG] = 1;
      call(closed, 'a', '', undefined);
      assert.equal(exchange[STATUS], addon.BUCKET_CLOSED);
    }
  });
});

describe('the locks that requestExtra is made inside of', () => {
  const askInside = (tag, name, tags) => {
    Object.assign(exchange, { [TAG]: tag, [MODE]: addon.EXCLUSIVE, [OPTION]: addon.WAIT });
    Object.assign(exchange, { [LIMIT]: 0, [WEIGHT]: 1, [MAX_PENDING]: 2 ** 32 - 1 });
    return addon.requestExtra(manager, name, '', Uint32Array.from(tags));
  };

  it('are those of the tags that there are; others are left out', () => {
    askInside(1, 'a', []);
    assert.equal(exchange[STATUS], addon.GRANTED);
    askInside(2, 'a', [3, 2 ** 32 - 1]);
    assert.equal(exchange[STATUS], addon.PENDING);
    const { locks } = askInside(3, 'a', [2 ** 32 - 1, 1]);
    assert.equal(exchange[STATUS], addon.DEADLOCK);
    assert.equal(locks.byteLength, 2 * 4 * addon.INFO_SIZE);
    release(1);
    take();
    release(2);
    assert.ok(isEmpty());
  });
});

describe('the async resource of the wake-up', () => {
  it('has a reference from an undo() to the wake-up that it leads to', async (t) => {
    t.after(() => {
      drain = () => {};
    });
    const woken = new Promise((resolve) => {
      drain = resolve;
    });
    addon.undo(2 ** 32 - 1);
    assert.equal(resource.hasRef(), true);
    await woken;
    assert.equal(resource.hasRef(), false);
  });

  it('has a reference while requests are pending, and only then', () => {
    assert.equal(resource.hasRef(), false);
    ask(1, 'a');
    assert.equal(resource.hasRef(), false);
    ask(2, 'a');
    assert.equal(resource.hasRef(), true);
    addon.abort();
    assert.equal(exchange[STATUS], addon.OK);
    assert.equal(resource.hasRef(), false);
    ask(2, 'a');
    release(1);
    assert.equal(resource.hasRef(), false);
    take();
    release(2);
  });
});
