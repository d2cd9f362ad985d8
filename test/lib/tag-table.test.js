'use strict';

/** The table of a thread's requests by their tags: what it costs to look through it, counted in reads. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { NO_TAG } = require('../../lib/backend/contract.js');
const { TagTable } = require('../../lib/backend/tag-table.js');
const { turn } = require('../helpers/locks.js');

const backend = { id: 'a bucket' };

/** A table with requests for names of their own, and how often a place of it was read. */
function makeTable(count) {
  let reads = 0;
  const places = new Proxy([], {
    get(target, key) {
      reads++;
      return target[key];
    },
  });
  const table = new TagTable(places);
  const requests = Array.from({ length: count }, (_, i) => ({
    backend,
    name: `${i}`,
    tag: NO_TAG,
  }));
  for (const request of requests) table.add(request);
  /** @param {() => void} what */
  const readsOf = (what) => {
    const before = reads;
    what();
    return reads - before;
  };
  return { table, requests, readsOf };
}

describe('the requests of a bucket', () => {
  it('are found without reading the tags that a burst has left', () => {
    for (const kept of [0, 1000, 19_999]) {
      const { table, requests, readsOf } = makeTable(20_000);
      const [only] = requests.splice(kept, 1);
      for (const request of requests) table.remove(request);
      const reads = readsOf(() => assert.deepEqual(table.requestsOf(backend), [only]));
      assert.ok(reads <= 256, `${reads} reads for one request`);
    }
  });

  it('are all found, in the order of their tags, after any of them ended', () => {
    const { table, requests } = makeTable(3000);
    const left = requests.filter((_, i) => i % 7 === 3);
    for (const request of requests) if (!left.includes(request)) table.remove(request);
    assert.deepEqual(table.requestsOf(backend), left);
    assert.deepEqual(table.requestsOf({ id: 'a bucket' }), []);
    for (const request of left) table.remove(request);
    assert.deepEqual(table.requestsOf(backend), []);
    table.add(requests[0]);
    assert.deepEqual(table.requestsOf(backend), [requests[0]]);
  });
});

describe('the requests for a name', () => {
  it('are found by one walk for all names that are asked for together', () => {
    const { table, requests, readsOf } = makeTable(1000);
    const reads = readsOf(() => {
      for (const request of requests)
        assert.deepEqual(table.requestsOn(backend, request.name), [request]);
    });
    assert.ok(reads <= 2 * requests.length, `${reads} reads for ${requests.length} requests`);
  });

  it('are those of the moment, also where others came and went since the walk', async () => {
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
