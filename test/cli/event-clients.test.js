'use strict';

/** The looks of `top --web`, and what pages are told of them; on responses that are none. */

const assert = require('node:assert/strict');
const { EventEmitter } = require('node:events');
const { beforeEach, describe, it } = require('node:test');
const { EventClients } = require('../../lib/cli/event-clients.js');
const { turn } = require('../helpers/locks.js');
const { skip } = require('./command.js');

/** A page's connection: what was written to it, and whether it has room. */
class Response extends EventEmitter {
  writableNeedDrain = false;
  events = [];

  write(data) {
    const [event] = `${data}`.split('\n');
    if (!event.startsWith('retry')) this.events.push(event);
  }

  /** What it was told since it was asked last: the labels of a state, or the name of the event. */
  told() {
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

  it('looks once a second while a page is open, and not without one', async () => {
    await tick();
    assert.equal(looks, 0);
    const page = await join();
    assert.equal(looks, 1);
    await tick();
    assert.equal(looks, 2);
    page.emit('close');
    await tick();
    await tick();
    assert.equal(looks, 2);
    await join();
    assert.equal(looks, 3);
  });

  it('looks once for all pages, also for those that come between', async () => {
    const pages = [await join(), await join(), await join()];
    assert.equal(looks, 1);
    await tick();
    assert.equal(looks, 2);
    const told = pages.map((page) => page.told());
    assert.deepEqual(told, [[['first'], 'same'], [['first']], [['first']]]);
  });

  it('does not look again before it was answered', async () => {
    let answer;
    look = () => new Promise((resolve) => (answer = resolve));
    const first = await join();
    const second = await join();
    await tick();
    assert.equal(looks, 1);
    answer(stateOf('late'));
    await turn();
    assert.deepEqual([first.told(), second.told()], [[['late']], [['late']]]);
  });

  it('keeps nothing for a page that does not read: it gets the state of then', async () => {
    const page = await join();
    const other = await join();
    await tick();
    page.told();
    other.told();
    page.writableNeedDrain = true;
    for (const label of ['second', 'third', 'fourth']) {
      look = async () => stateOf(label);
      await tick();
    }
    assert.deepEqual(page.told(), []);
    assert.deepEqual(other.told(), [['second'], ['third'], ['fourth']]);
    page.writableNeedDrain = false;
    await tick();
    assert.deepEqual(page.told(), [['fourth']]);
    assert.deepEqual(other.told(), ['same']);
  });

  it('tells that it could not look, and then the state again', async () => {
    const page = await join();
    const before = look;
    look = async () => {
      throw new Error('no server');
    };
    await tick();
    await tick();
    look = before;
    await tick();
    assert.deepEqual(page.told(), [['first'], 'failure', 'same', ['first']]);
  });
});
