'use strict';

/**
 * What becomes of tokens when an older etcd comes back, and who tells it so was granted nothing, or
 * nothing for long: by servers that answer what opening and renewing a session asks, and no more.
 */

const assert = require('node:assert/strict');
const { Readable } = require('node:stream');
const { test } = require('node:test');
require('../../lib/index.js');
const { EtcdAdapter } = require('../../lib/cluster/engines/etcd/adapter.js');

const LIFE = 'web-locks/1-life/';
const textOf = (base64) => Buffer.from(base64, 'base64').toString();

/** A server of one bucket, of which only what `open` and `renew` need is there. */
class Etcd {
  /** Those who hear of what is written for the session. */
  watches = new Set();

  constructor(cluster, revision, life) {
    Object.assign(this, { cluster, revision, life, leases: 100 });
  }

  get offset() {
    return BigInt(JSON.parse(textOf(this.life)).added);
  }
  /** That of a grant by the last write. */
  get token() {
    return BigInt(this.revision) + this.offset;
  }
  get header() {
    return { cluster_id: this.cluster, revision: String(this.revision), raft_term: '1' };
  }
  get revisions() {
    return { create_revision: String(this.revision), mod_revision: String(this.revision) };
  }
  answer(path, body) {
    if (path === 'lease/grant') return { ID: String(++this.leases), TTL: '10' };
    if (path === 'lease/revoke' || path === 'lease/keepalive') return { TTL: '10' };
    if (path === 'lease/timetolive') return { TTL: '10' };
    assert.equal(path, 'kv/txn');
    this.revision++;
    const responses = [];
    for (const op of body.success) {
      const { request_put: put, request_range: range } = op;
      const key = put && textOf(put.key);
      if (key?.startsWith(LIFE)) this.life = put.value;
      else if (put?.value) this.write({ ...put, version: '1', ...this.revisions });
      let kvs = [];
      if (range && textOf(range.key).startsWith(LIFE)) {
        kvs = [{ value: this.life, mod_revision: '1' }];
      } else if (range?.range_end) {
        kvs = [this.session];
      }
      responses.push({ response_range: { kvs } });
    }
    return { succeeded: true, responses };
  }
  write(kv) {
    this.session = kv;
    for (const body of this.watches) this.tell(body);
  }
  /** Tells what was written last. */
  tell(body) {
    const events = [{ type: 'PUT', kv: this.session }];
    body.push(`${JSON.stringify({ result: { header: this.header, events } })}\n`);
  }
  watch(signal) {
    const body = new Readable({ read: () => {} });
    this.watches.add(body);
    signal.addEventListener('abort', () => {
      this.watches.delete(body);
      body.push(null);
    });
    this.tell(body);
    return body;
  }
}
const lifeOf = (id, added = '0') =>
  Buffer.from(JSON.stringify({ layout: 4, id, added, known: [] })).toString('base64');

/** @returns an adapter that goes to whatever `world.etcd` is */
const adapterOf = (world) =>
  new EtcdAdapter('b', {
    endpoints: ['http://x'],
    fetch: async (url, { body, signal }) => {
      const path = url.slice('http://x/v3/'.length);
      const { etcd } = world;
      if (path === 'watch') {
        return { status: 200, text: async () => '', body: etcd.watch(signal) };
      }
      const answer = etcd.answer(path, JSON.parse(body));
      return { status: 200, text: async () => JSON.stringify({ header: etcd.header, ...answer }) };
    },
  });

test('R5: tokens of the next life are greater, also if who comes first was granted nothing', async () => {
  const world = {};
  // A copy took the place of the old server, by somebody who told token 950 of it: see rebirth.
  const old = new Etcd('1', 1_000, lifeOf('first'));
  const copy = new Etcd('2', 900, lifeOf('second', String(950 - 900 + 1e9)));
  world.etcd = copy;
  copy.revision = 20_000;
  const adapter = adapterOf(world);
  const info = { clientId: 'me' };
  // Its session at the copy; it was granted nothing there, the others were.
  const { life } = await adapter.open(info, 10_000, { life: '', token: 0n });
  const last = copy.token;
  // The old server comes back. The session is dead there: the next one is opened.
  world.etcd = old;
  await adapter.open(info, 10_000, { life, token: 0n });
  assert.ok(old.token > last, `${old.token} comes after ${last}`);
  await adapter.dispose();
});

for (const isGranted of [true, false])
  test(`R5: so they are if who comes first has renewed since, and been granted nothing ${isGranted ? 'more' : 'ever'}`, async () => {
    const world = { etcd: new Etcd('1', 950, lifeOf('first')) };
    const { etcd } = world;
    const adapter = adapterOf(world);
    const { life } = await adapter.open({ clientId: 'me' }, 10_000, { life: '', token: 0n });
    const seen = { life, token: isGranted ? etcd.token : 0n };
    // Others go on, for long.
    etcd.revision = 3e9;
    assert.ok((await adapter.renew(seen)).alive);
    const last = etcd.token;
    // What was written since is lost, and no connection is cut.
    etcd.revision = 900;
    const { alive, grantsIn } = await adapter.renew(seen);
    assert.deepEqual([alive, grantsIn], [false, 10_000]);
    assert.ok(etcd.token > last, `${etcd.token} comes after ${last}`);
    await adapter.dispose();
  });
