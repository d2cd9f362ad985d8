// slow: 20; long; waits; needs: etcd
'use strict';

/** Sessions of etcd that wait far from the head of a queue (far-waits.js). */

const assert = require('node:assert/strict');
const { after, before, describe, test } = require('node:test');
const { EtcdAdapter } = require('../../lib/cluster/engines/etcd/adapter.js');
const { Random } = require('../torture/random.js');
const { clientOf, disposeAfterEach, end, fresh, request } = require('./contract.js');
const { startEtcd, stopAll } = require('./servers.js');

/** @type {Awaited<ReturnType<typeof startEtcd>>} */
let server;

/** @param {number} near see EtcdAdapter @param {any} [options] */
const client = (near, options = {}) =>
  clientOf(new EtcdAdapter('bucket', { endpoints: server.endpoints, ...options }, near));

/** Whether a call watches a name, or one of its requests. */
function isWatchOf({ what, options, url }) {
  if (!url.endsWith('/watch')) return false;
  const { key, range_end: rangeEnd } = JSON.parse(options.body).create_request;
  const isRequest = Buffer.from(key, 'base64').toString().includes('/q/');
  return isRequest && (what === 'name') === (rangeEnd !== undefined);
}

/** A `fetch` whose watches of names or of requests pass through `through`. */
const fetchThrough = (what, through) => async (url, options) => {
  const response = await fetch(url, options);
  return isWatchOf({ what, options, url }) ? through(response) : response;
};

/** The same response; `take` says which of its chunks are passed on. */
function filtered(response, take) {
  const filter = new TransformStream({
    transform(chunk, controller) {
      if (take(Buffer.from(chunk).toString())) controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(filter), response);
}

/** What a queue is by the specification: its clients with their requests, those that hold first. */
class Model {
  queue = [];

  get holders() {
    const first = this.queue.findIndex(({ op }) => op.mode === 'exclusive');
    if (first === 0) return this.queue.slice(0, 1);
    return first === -1 ? this.queue : this.queue.slice(0, first);
  }

  /** Resolves when each holder was told of its grant. */
  async settle() {
    for (const one of this.holders) {
      while (!one.isHeld) {
        const { granted } = await one.client.next();
        for (const other of this.queue) {
          if (other.client === one.client && other.op.ref === granted) other.isHeld = true;
        }
      }
    }
  }

  remove(one) {
    this.queue.splice(this.queue.indexOf(one), 1);
  }
}

/** Four clients with a request each, and a fifth one that waits behind them. */
async function queueBefore(through) {
  const name = fresh();
  const clients = await Promise.all(Array.from({ length: 4 }, () => client(1)));
  const ops = clients.map(() => request(name));
  for (const [i, one] of clients.entries()) await one.answers(ops[i]);
  const last = await client(1, { fetch: through });
  const waiting = request(name);
  assert.deepEqual(await last.answers(waiting), ['queued']);
  // A renewal resolves once the watches have delivered what was written.
  await last.renew();
  return { clients, ops, last, waiting };
}

describe('a session that waits far from the head of a queue', () => {
  // The connections of a bucket keep no process alive.
  const alive = setInterval(() => {}, 1000);
  before(async () => {
    server = await startEtcd();
  });
  after(() => clearInterval(alive));
  after(stopAll);
  disposeAfterEach();

  test('is sent few of the changes ahead of it', async () => {
    const name = fresh();
    const clients = await Promise.all(Array.from({ length: 20 }, () => client(2)));
    const ops = clients.map(() => request(name));
    for (const [i, one] of clients.entries()) await one.answers(ops[i]);
    let heard = 0;
    const count = (chunk) => {
      if (chunk.includes('"events"')) heard++;
      return true;
    };
    const through = (response) => filtered(response, count);
    const last = await client(2, { fetch: fetchThrough('name', through) });
    const waiting = request(name);
    assert.deepEqual(await last.answers(waiting), ['queued']);
    await last.renew();
    for (const [i, one] of clients.entries()) {
      await one.answers(end(ops[i]));
      if (i + 1 < clients.length)
        assert.equal((await clients[i + 1].next()).granted, ops[i + 1].ref);
    }
    assert.equal((await last.next()).granted, waiting.ref);
    assert.ok(heard <= 6, `${heard} of 20 changes`);
  });

  /** Whether each session asks again, which takes the key of the request that it has ended. */
  for (const isAgain of [false, true])
    test(`is granted if what it watches has gone before the watch began (${isAgain})`, async () => {
      let pass = () => {};
      const passed = new Promise((resolve) => {
        pass = resolve;
      });
      const late = async (url, options) => {
        if (isWatchOf({ what: 'request', options, url })) await passed;
        return await fetch(url, options);
      };
      const { ops, clients, last, waiting } = await queueBefore(late);
      for (const [i, one] of clients.entries()) {
        await one.answers(end(ops[i]));
        if (isAgain) await one.answers(request(waiting.name));
      }
      pass();
      assert.equal((await last.next()).granted, waiting.ref);
    });

  test('finds out with a renewal if a watch is silent', async () => {
    const withoutEvents = (response) => filtered(response, (chunk) => !chunk.includes('"events"'));
    const { ops, clients, last, waiting } = await queueBefore(
      fetchThrough('request', withoutEvents),
    );
    for (const [i, one] of clients.entries()) await one.answers(end(ops[i]));
    const { mine } = await last.renew();
    assert.ok(mine.get(waiting.ref) > 0n);
  });

  for (const seed of [1, 2, 3, 4, 5, 6])
    test(`is granted in its turn, whatever happens ahead of it (seed ${seed})`, async () => {
      const random = new Random(seed);
      const name = fresh();
      const model = new Model();
      const ask = async (one) => {
        const mode = random.chance(0.2) ? 'shared' : 'exclusive';
        const added = { client: one, op: request(name, { mode }), isHeld: false };
        model.queue.push(added);
        const isFirst = model.holders.includes(added);
        assert.deepEqual(await one.answers(added.op), [isFirst ? 'granted' : 'queued']);
        added.isHeld = isFirst;
      };
      const near = random.pick([1, 2]);
      for (let i = 0; i < 12; i++) await ask(await client(near));
      const acts = {
        end: async (one) => {
          model.remove(one);
          await one.client.answers(end(one.op));
          if (random.chance(0.2)) await ask(one.client);
        },
        ask: ({ client: one }) => ask(one),
        reconnect: ({ client: { hello } }) => hello(),
        renew: ({ client: { renew } }) => renew(),
        die: async (one) => {
          for (const other of [...model.queue]) {
            if (other.client === one.client) model.remove(other);
          }
          await server.call('lease/revoke', { ID: one.client.session });
        },
      };
      let steps = 0;
      while (model.queue.length > 0) {
        const one = random.chance(0.5) ? model.queue[0] : random.pick(model.queue);
        if (++steps > 60) acts.ask = acts.end;
        await acts[random.pick(['end', 'end', 'end', 'ask', 'reconnect', 'renew', 'die'])](one);
        await model.settle();
      }
    });
});
