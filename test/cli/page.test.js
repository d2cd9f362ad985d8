// slow: 32; long

'use strict';

/** The page of `top --web`, in a browser. */

const assert = require('node:assert/strict');
const { channel } = require('node:diagnostics_channel');
const { once } = require('node:events');
const { after, before, describe, it } = require('node:test');
const { Web } = require('../../lib/cli/web.js');
const { hold } = require('../helpers/locks.js');
const { freshBucket } = require('../helpers/process.js');
const { lacks } = require('../helpers/programs.js');
const { Browser, contrast } = require('../profile/browser.js');
const { skip: lacksHost } = require('./command.js');

const skip = lacksHost || lacks.chromium;

const HOSTILE = '</script><img src=x onerror="document.title=1">\u202e\0';

describe('the page of top --web', { skip }, () => {
  /** @type {Browser} */
  let browser;
  before(() => {
    browser = new Browser();
  });
  after(() => browser.close());

  /** The page, in a browser, of a bucket of its own. */
  async function opened(t, { prepare = async () => {}, ...options } = {}) {
    const { locks } = freshBucket(t);
    await prepare(locks);
    const more = { look: () => locks.query({ details: true }) };
    const web = new Web({ about: 'Locks', look: () => more.look() });
    t.after(() => web.close());
    /** Of each connection for events. */
    const streams = [];
    const hear = ({ request, response }) => {
      if (request.url.endsWith('/events')) streams.push(response);
    };
    const started = channel('http.server.request.start');
    started.subscribe(hear);
    t.after(() => started.unsubscribe(hear));
    const page = await browser.open(await web.listen(0), options);
    t.after(() => page.close());
    return { locks, page, streams, more };
  }

  /** Until an expression of the page's is true, after each change of it. */
  const until = (page, expression) =>
    page.value(`new Promise((done) => {
      const check = () => {
        if (!(${expression})) return;
        observer.disconnect();
        done();
      };
      const observer = new MutationObserver(check);
      const what = { attributes: true, characterData: true, childList: true, subtree: true };
      observer.observe(document.documentElement, what);
      check();
    })`);
  const live = (page) => until(page, 'document.body.dataset.status === "live"');
  /** Of all rows that are shown: the name, where it begins, and the cells. */
  const rows = (page) =>
    page.value(
      `[...document.querySelectorAll('#locks tbody tr')].map((row) =>
        [...row.children].map((cell) => cell.innerText.trim()))`,
    );
  const text = (page, selector) =>
    page.value(`document.querySelector(${JSON.stringify(selector)}).textContent`);
  const set = (page, selector, value, event) =>
    page.value(`{ const one = document.querySelector('${selector}');
      one.value = ${JSON.stringify(value)};
      one.dispatchEvent(new Event('${event}')); }`);
  const click = (page, selector) => page.value(`document.querySelector('${selector}').click()`);

  it('shows a hold, the queue and the release as they come, without a reload', async (t) => {
    const { locks, page } = await opened(t);
    await live(page);
    assert.equal(await text(page, '#none'), 'No locks are held, and nobody waits.');
    await page.value('window.isSame = true');
    const { lock, release } = await hold(locks, 'stock', { label: 'report' });
    await until(page, 'document.querySelectorAll("#locks tbody tr").length === 1');
    const [[name, state, , label, pid, thread, , mode, token]] = await rows(page);
    assert.deepEqual(
      [name, state, label, pid, thread, mode, token],
      ['stock', 'held', 'report', `${process.pid}`, 'main', 'exclusive', `${lock.token}`],
    );
    const waiting = [
      locks.request('stock', { label: 'second' }, () => {}),
      locks.request('stock', { label: 'third', priority: -2 }, () => {}),
    ];
    await until(page, 'document.querySelectorAll("#locks tbody tr").length === 3');
    assert.deepEqual(
      (await rows(page)).slice(1).map(([state, , label, , , , mode]) => [state, label, mode]),
      [
        ['waits, #1', 'second', 'exclusive'],
        ['waits, #2', 'third', 'exclusive, priority -2'],
      ],
    );
    assert.equal(await text(page, '.name .hint'), '2 waiters');
    assert.equal(await text(page, '#counts'), '1 name: 1 lock held, 2 requests waiting');
    await release();
    await Promise.all(waiting);
    await until(page, 'document.querySelector("#none").textContent !== ""');
    assert.deepEqual(await rows(page), []);
    assert.equal(await page.value('window.isSame'), true);
    assert.deepEqual(page.errors, []);
  });

  it('its times go on while nothing is told', async (t) => {
    const { page, streams } = await opened(t, { prepare: (locks) => hold(locks, 'a') });
    await live(page);
    // From here on the server only says that all is as it was.
    const written = [];
    const { write } = streams[0];
    streams[0].write = (data) => {
      written.push(`${data}`);
      return write.call(streams[0], data);
    };
    const time = '[data-key="age"]';
    const first = await text(page, time);
    await until(page, `document.querySelector('${time}').textContent !== '${first}'`);
    assert.match(await text(page, time), /^\d\.\ds$/);
    assert.ok(written.every((event) => event.startsWith('event: same')));
  });

  it('shows what users chose as text', async (t) => {
    const prepare = (locks) => hold(locks, HOSTILE, { label: HOSTILE });
    const { page } = await opened(t, { prepare });
    await live(page);
    const [[name, , , label]] = await rows(page);
    const shown = '"</script><img src=x onerror=\\"document.title=1\\">\\u{202e}\\u{0}"';
    assert.deepEqual([name, label], [shown, shown]);
    assert.equal(await page.value('document.querySelectorAll("img").length'), 0);
    assert.equal(await page.value('document.title'), 'Locks: who holds, who waits');
    assert.deepEqual(page.errors, []);
  });

  it('tells which holders wait for each other', async (t) => {
    const { page, more } = await opened(t);
    await live(page);
    const entry = (clientId, name) => ({
      ...{ clientId, name, mode: 'exclusive', label: HOSTILE, host: 'h', pid: 7 },
      ...{ threadId: 0, threadName: '', token: 1n, held: 9, waited: 1, limit: 0, weight: 0 },
    });
    more.look = async () => ({
      held: [entry('A', 'a'), entry('B', 'b')],
      pending: [entry('A', 'b'), entry('B', 'a')],
    });
    await until(page, 'document.querySelector("#notes").innerText !== ""');
    assert.equal(
      await text(page, '#notes'),
      [
        'These holders wait for each other, perhaps in a deadlock:',
        ...['holds "b" and waits for "a"', 'holds "a" and waits for "b"'].map(
          (what) =>
            `  process 7 on host "h" ("</script><img src=x onerror=` +
            `\\"document.title=1\\">\\u{202e}\\u{0}") ${what}`,
        ),
      ].join(''),
    );
    more.look = async () => ({ held: [], pending: [] });
    await until(page, 'document.querySelector("#notes").innerText === ""');
    assert.deepEqual(page.errors, []);
  });

  it('says that the connection is lost, and comes back by itself', async (t) => {
    const { locks, page, streams } = await opened(t);
    await live(page);
    await page.value(`{ window.seen = [];
      new MutationObserver(() => seen.push(document.body.dataset.status)).observe(document.body, {
        attributeFilter: ['data-status'],
      }); }`);
    streams[0].destroy();
    await until(page, 'document.body.dataset.status === "lost"');
    assert.match(await text(page, '#status'), /^the connection is lost: /);
    await hold(locks, 'a');
    await until(page, 'document.querySelectorAll("#locks tbody tr").length === 1');
    assert.deepEqual(await page.value('window.seen'), ['lost', 'live']);
    assert.equal(streams.length, 2);
  });

  it('says why the locks cannot be reached, and goes on when they can', async (t) => {
    const { page, more } = await opened(t);
    await live(page);
    const { look } = more;
    more.look = async () => {
      throw new Error('$& <b>');
    };
    await until(page, 'document.body.dataset.status === "failed"');
    assert.equal(
      await text(page, '#status'),
      'the locks cannot be reached ($& <b>); trying again …',
    );
    more.look = look;
    await live(page);
    assert.deepEqual(page.errors, []);
  });

  for (const [title, stop, go] of [
    ['paused', (page) => click(page, '#pause'), (page) => click(page, '#pause')],
    [
      'hidden',
      (page) =>
        page.value(`Object.defineProperty(document, 'hidden', { value: true, writable: true });
          document.dispatchEvent(new Event('visibilitychange'))`),
      (page) =>
        page.value(`document.hidden = false;
          document.dispatchEvent(new Event('visibilitychange'))`),
    ],
  ]) {
    it(`has no connection while it is ${title}`, async (t) => {
      const { locks, page, streams } = await opened(t);
      await live(page);
      const closed = once(streams[0], 'close');
      await stop(page);
      await closed;
      await hold(locks, 'a');
      await go(page);
      await until(page, 'document.querySelectorAll("#locks tbody tr").length === 1');
      assert.equal(streams.length, 2);
      assert.deepEqual(page.errors, []);
    });
  }

  /** A lock with 150 waiters, among others. */
  async function queue(locks) {
    for (const name of ['idle', 'other', 'stock']) await hold(locks, name, { label: `of ${name}` });
    for (let i = 0; i < 150; i++) {
      locks.request('stock', { label: `order ${i}` }, () => {}).catch(() => {});
    }
  }

  it('shows first who waits the most, or other orders', async (t) => {
    const { page } = await opened(t, { prepare: queue });
    await live(page);
    const names = async () =>
      (await rows(page))
        .map(([name]) => name.split('\n')[0])
        .filter((name) => /^[a-z]+$/.test(name));
    assert.deepEqual(await names(), ['stock', 'idle', 'other']);
    await set(page, '#order', 'name', 'change');
    assert.deepEqual(await names(), ['idle', 'other', 'stock']);
  });

  it('shows the beginning of a long queue, and on demand all of it', async (t) => {
    const { page } = await opened(t, { prepare: queue });
    await live(page);
    assert.equal((await rows(page)).length, 10 + 1 + 2);
    assert.equal(await text(page, '.rest button'), 'Show 141 more');
    await click(page, '.rest button');
    const all = await rows(page);
    assert.deepEqual([all.length, all[150][0]], [153, 'waits, #150']);
  });

  it('finds names, and those who hold and wait, with their place in the queue', async (t) => {
    const { page } = await opened(t, { prepare: queue });
    await live(page);
    const search = async (text) => {
      await set(page, '#search', text, 'input');
      return (await rows(page)).map((row) => row.slice(0, 2));
    };
    assert.deepEqual(await search('ORDER 77'), [['stock\n150 waiters', 'waits, #78']]);
    assert.deepEqual(await search('idle'), [['idle', 'held']]);
    assert.deepEqual(await search('nowhere'), []);
    assert.equal(await text(page, '#none'), 'No lock matches.');
    assert.equal((await search('')).length, 13);
  });

  it('keeps what is selected while the rest changes', async (t) => {
    const { locks, page } = await opened(t, { prepare: (locks) => hold(locks, 'a') });
    await live(page);
    await page.value('getSelection().selectAllChildren(document.querySelector(".name .text"))');
    await hold(locks, 'b');
    await until(page, 'document.querySelectorAll("#locks tbody tr").length === 2');
    assert.equal(await page.value('getSelection().toString()'), 'a');
  });

  it('fits a phone, and is a table for screen readers there, too', async (t) => {
    const prepare = async (locks) => {
      await queue(locks);
      await hold(locks, 'n'.repeat(3000), { label: 'x'.repeat(3000) });
    };
    const { page } = await opened(t, { width: 375, height: 700, prepare });
    await live(page);
    assert.equal(await page.value('document.documentElement.scrollWidth'), 375);
    const { nodes } = await page.send('Accessibility.getFullAXTree');
    const count = (role) => nodes.filter((node) => node.role?.value === role).length;
    assert.deepEqual([count('table'), count('row'), count('rowheader')], [1, 1 + 14, 4]);
    const controls = nodes.filter(({ role }) => /button|searchbox|combobox/i.test(role?.value));
    assert.equal(controls.length, 4);
    for (const { name } of controls) assert.notEqual(name.value, '');
    await set(page, '#search', 'nowhere', 'input');
    assert.equal(await page.value('document.querySelector("#locks").getClientRects().length'), 0);
  });

  it('text stands out from its ground by 4.5 to 1 at least, in the light and in the dark', async (t) => {
    for (const scheme of ['light', 'dark']) {
      const { page } = await opened(t, { scheme });
      const colors = await page.value(`{
        const style = getComputedStyle(document.documentElement);
        ['ground', 'text', 'dim', 'waiting', 'lost'].map((name) => style.getPropertyValue('--' + name))
      }`);
      const [ground, ...others] = colors;
      for (const color of others) {
        assert.ok(contrast(color, ground) >= 4.5, `${scheme}: ${color} on ${ground}`);
      }
    }
  });
});
