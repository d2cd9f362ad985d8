'use strict';

/** The events of the process's core, and the table in which a thread finds its requests. */

const assert = require('node:assert/strict');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { describe, it } = require('node:test');
const { locks, openBucket } = require('../../lib/index.js');
const { EVENT_CAPACITY, TAG, addon } = require('../../lib/backend/addon.js');
const { AddonBackend } = require('../../lib/backend/addon-backend.js');
const { agent } = require('../../lib/backend/native.js');
const { exchange } = require('../../lib/backend/agent.js');
const { Request } = require('../../lib/extensions/request/request.js');
const { NO_TAG } = require('../../lib/backend/contract.js');
const { TagTable } = require('../../lib/backend/tag-table.js');
const { deferred, freshName, hold, turn } = require('../helpers/locks.js');

const holdShared = (name) => locks.tryAcquireSync(name, { mode: 'shared' });

describe('a theft', () => {
  it('ends more locks than one call hands over at once, whatever ended before', async () => {
    const name = freshName();
    // There are so many that memory is also freed when the last one ends.
    const held = Array.from({ length: 2000 + 2 * EVENT_CAPACITY }, () => holdShared(name));
    held.pop().release();
    const stolen = locks.request(name, { steal: true }, () => {});
    assert.equal(held.filter((lock) => lock.held).length, 0);
    await stolen;
  });
});

describe('although nothing else happens', () => {
  it('a loss is announced that a subscriber of .grant has caused', async (t) => {
    const name = freshName();
    const bucket = openBucket(freshName());
    const held = await hold(bucket.locks, name);
    const handle = locks.tryAcquireSync(name);
    const close = () => bucket.close();
    subscribe('locks.request.grant', close);
    t.after(() => unsubscribe('locks.request.grant', close));
    const waiting = deferred();
    const asked = locks.request(name, () => waiting.promise);
    handle.release();
    await assert.rejects(held.released, { name: 'AbortError', reason: 'closed' });
    waiting.resolve();
    await asked;
  });

  it('a grant is announced that could not be applied for want of stack', async (t) => {
    const name = freshName();
    const handle = locks.tryAcquireSync(name);
    const asked = locks.request(name, (lock) => lock.name);
    // A release by a caller that has nothing to undo.
    const mock = t.mock.method(AddonBackend.prototype, 'release', function release(lock) {
      exchange[TAG] = lock.tag;
      addon.release();
      agent.remove(lock);
      assert.throws(() => agent.applyEvents(), RangeError);
    });
    let calls = 0;
    const { granted } = Request.prototype;
    t.mock.method(Request.prototype, 'granted', function once(...token) {
      if (calls++ === 0) throw new RangeError('Maximum call stack size exceeded');
      return granted.apply(this, token);
    });
    handle.release();
    assert.equal(calls, 1);
    mock.mock.restore();
    assert.equal(await asked, name);
  });
});

describe('locks.once', () => {
  it('marks for at least the time that is given, in whole milliseconds', async (t) => {
    const marks = t.mock.method(addon, 'releaseAndMark');
    for (const keep of [0.5, 1, 1.5]) await locks.once(freshName(), { keep }, () => {});
    const given = marks.mock.calls.map((call) => call.arguments);
    assert.deepEqual(given, [[1], [1], [2]]);
  });
});

const backend = { id: 'a bucket' };

/** A table with requests for distinct names, and a count of reads of its places. */
function makeTable(count) {
  let reads = 0;
  const places = new Proxy([], {
    get(target, key) {
      reads++;
      return target[key];
    },
  });
  const table = new TagTable(places);
  const make = (_, i) => ({ backend, name: `${i}`, tag: NO_TAG });
  const requests = Array.from({ length: count }, make);
  for (const request of requests) table.add(request);
  const readsOf = (what) => {
    const before = reads;
    what();
    return reads - before;
  };
  return { table, requests, readsOf };
}

describe('a table of requests', () => {
  it('finds the requests of a bucket without reading the places that a burst has left', () => {
    for (const kept of [0, 1000, 19_999]) {
      const { table, requests, readsOf } = makeTable(20_000);
      const [only] = requests.splice(kept, 1);
      for (const request of requests) table.remove(request);
      const reads = readsOf(() => assert.deepEqual(table.requestsOf(backend), [only]));
      assert.ok(reads <= 256, `${reads} reads for one request`);
    }
  });

  it('finds the requests for many names by one walk', () => {
    const { table, requests, readsOf } = makeTable(1000);
    const reads = readsOf(() => {
      for (const request of requests)
        assert.deepEqual(table.requestsOn(backend, request.name), [request]);
    });
    assert.ok(reads <= 2 * requests.length, `${reads} reads for ${requests.length} requests`);
  });

  it('finds requests that came since the walk, and none that went', async () => {
    const { table, requests, readsOf } = makeTable(1000);
    const other = { ...requests[0], tag: NO_TAG };
    const elsewhere = { ...other, backend: { id: 'another bucket' } };
    const names = ({ id }) => table.requestsOn({ id }, '0');
    assert.deepEqual(names(backend), [requests[0]]);
    table.add(other);
    table.add(elsewhere);
    assert.deepEqual(names(backend), [requests[0], other]);
    assert.deepEqual(names(elsewhere.backend), [elsewhere]);
    for (const request of [...requests, elsewhere]) table.remove(request);
    assert.deepEqual(names(backend), [other]);
    await turn();
    assert.ok(readsOf(() => assert.deepEqual(names(backend), [other])) > 0);
    table.remove(other);
    assert.deepEqual(names(backend), []);
  });
});
