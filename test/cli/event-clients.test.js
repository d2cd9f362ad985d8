'use strict';

/** The queries of `top --web` and the events for its pages, without a server. */

const assert = require('node:assert/strict');
const { EventEmitter } = require('node:events');
const { beforeEach, describe, it } = require('node:test');
const { EventClients } = require('../../lib/cli/event-clients.js');
const { turn } = require('../helpers/locks.js');
const { skip } = require('./command.js');

/** A page's connection: it records what is written, and may have no room. */
class Response extends EventEmitter {
  writableNeedDrain = false;
  events = [];

  write(data) {
    const [event] = `${data}`.split('\n');
    if (!event.startsWith('retry')) this.events.push(event);
  }

  /** The events since the last call: the labels of a state, or the name of the event. */
  taken() {
    return this.events.splice(0).map((event) => {
      const [kind, data] = event.split(/: (.*)/s);
      if (kind === 'event') return data;
      return JSON.parse(data).groups.flatMap(({ rows }) => rows.map(({ label }) => label));
    });
  }
}

const entry = (label) => ({
  ...{ name: 'a', label, clientId: 'c', mode: 'exclusive', host: 'h', pid: 1, threadId: 0 },
  ...{ threadName: '', held: 1, waited: 0, limit: 0, weight: 0, token: 1n },
});
const stateOf = (label) => ({ held: [entry(label)], pending: [] });

describe('the clients of a page', { skip }, () => {
  let looks, look, clients, tick;

  beforeEach((t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    looks = 0;
    look = async () => stateOf('first');
    clients = new EventClients(() => {
      looks++;
      return look();
    });
    tick = async () => {
      t.mock.timers.tick(1000);
      await turn();
    };
  });

  const join = async () => {
    const page = new Response();
    clients.add(page);
    await turn();
    return page;
  };

  it('looks once a second for all pages, and not while none is open', async () => {
    await tick();
    assert.equal(looks, 0);
    const pages = [await join(), await join(), await join()];
    assert.equal(looks, 1);
    await tick();
    assert.equal(looks, 2);
    const events = pages.map((page) => page.taken());
    assert.deepEqual(events, [[['first'], 'same'], [['first']], [['first']]]);
    for (const page of pages) page.emit('close');
    await tick();
    await tick();
    assert.equal(looks, 2);
    await join();
    assert.equal(looks, 3);
  });

  it('does not look again before the query is answered', async () => {
    let answer;
    look = () => new Promise((resolve) => (answer = resolve));
    const first = await join();
    const second = await join();
    for (const page of [first, second]) page.emit('close');
    // The pages are reloaded.
    const pages = [await join(), await join()];
    await tick();
    assert.equal(looks, 1);
    answer(stateOf('late'));
    await turn();
    const events = [first, second, ...pages].map((page) => page.taken());
    assert.deepEqual(events, [[], [], [['late']], [['late']]]);
    await tick();
    assert.equal(looks, 2);
    answer(stateOf('later'));
    await turn();
  });

  it('keeps no states for a page that does not read; later it gets the current one', async () => {
    const page = await join();
    const other = await join();
    await tick();
    page.taken();
    other.taken();
    page.writableNeedDrain = true;
    for (const label of ['second', 'third', 'fourth']) {
      look = async () => stateOf(label);
      await tick();
    }
    assert.deepEqual(page.taken(), []);
    assert.deepEqual(other.taken(), [['second'], ['third'], ['fourth']]);
    page.writableNeedDrain = false;
    await tick();
    assert.deepEqual(page.taken(), [['fourth']]);
    assert.deepEqual(other.taken(), ['same']);
  });

  it('reports that a query failed, and then the state again', async () => {
    const page = await join();
    const before = look;
    look = async () => {
      throw new Error('no server');
    };
    await tick();
    await tick();
    look = before;
    await tick();
    assert.deepEqual(page.taken(), [['first'], 'failure', 'same', ['first']]);
  });
});
