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
const { Browser, checkContrasts } = require('../profile/browser.js');
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

  /** Opens the page of a bucket of its own in a browser. */
  async function opened(t, { prepare = async () => {}, ...options } = {}) {
    const { locks } = freshBucket(t);
    await prepare(locks);
    const more = { look: () => locks.query({ details: true }) };
    const web = new Web({ about: 'Locks', look: () => more.look() });
    t.after(() => web.close());
    /** The event stream of each connection. */
    const streams = [];
    const hear = ({ request, response }) => {
      if (request.url.endsWith('/events')) streams.push(response);
    };
    const started = channel('http.server.request.start');
    started.subscribe(hear);
    t.after(() => started.unsubscribe(hear));
    const page = await browser.open(await web.listen(0), options);
    t.after(async () => {
      await page.close();
    });
    await live(page);
    return { locks, page, streams, more };
  }

  const live = (page) => page.until('document.body.dataset.status === "live"');
  /** All rows that are shown: the name, where it begins, and the cells. */
  const rows = (page) => page.rows('#locks', 'innerText');
  const untilRows = (page, count) =>
    page.until(`document.querySelectorAll('#locks tbody tr').length === ${count}`);

  it('shows a hold, the queue and the release as they come, without a reload', async (t) => {
    const { locks, page } = await opened(t);
    assert.equal(await page.text('#none'), 'No locks are held, and nobody waits.');
    await page.value('window.isSame = true');
    const { lock, release } = await hold(locks, 'stock', { label: 'report' });
    await untilRows(page, 1);
    const [[name, state, , label, pid, thread, , mode, token]] = await rows(page);
    const seen = [name, state, label, pid, thread, mode, token];
    const { pid: own } = process;
    assert.equal(seen.join(), `stock,held,report,${own},main,exclusive,${lock.token}`);
    const waiting = [
      locks.request('stock', { label: 'second' }, () => {}),
      locks.request('stock', { label: 'third', priority: -2 }, () => {}),
    ];
    await untilRows(page, 3);
    const waiters = (await rows(page)).slice(1);
    assert.deepEqual(
      waiters.map(([state, , label, , , , mode]) => `${state} ${label} ${mode}`),
      ['waits, #1 second exclusive', 'waits, #2 third exclusive, priority -2'],
    );
    assert.equal(await page.text('.name .hint'), '2 waiters');
    assert.equal(await page.text('#counts'), '1 name: 1 lock held, 2 requests waiting');
    await release();
    await Promise.all(waiting);
    await page.until('document.querySelector("#none").textContent !== ""');
    assert.deepEqual(await rows(page), []);
    assert.equal(await page.value('window.isSame'), true);
  });

  it('counts times on while the server sends no news', async (t) => {
    const { page, streams } = await opened(t, { prepare: (locks) => hold(locks, 'a') });
    // From here on the server only reports that nothing has changed.
    const written = [];
    const { write } = streams[0];
    streams[0].write = (data) => {
      written.push(`${data}`);
      return write.call(streams[0], data);
    };
    const time = '[data-key="age"]';
    const first = await page.text(time);
    await page.until(`document.querySelector('${time}').textContent !== '${first}'`);
    assert.match(await page.text(time), /^\d.*s$/);
    assert.ok(written.every((event) => event.startsWith('event: same')));
  });

  it('shows names, labels and holders that wait for each other, all as text', async (t) => {
    const prepare = (locks) => hold(locks, HOSTILE, { label: HOSTILE });
    const { page, more } = await opened(t, { prepare });
    const [[name, , , label]] = await rows(page);
    const shown = '"</script><img src=x onerror=\\"document.title=1\\">\\u{202e}\\u{0}"';
    assert.deepEqual([name, label], [shown, shown]);
    const entry = (clientId, name) => ({
      ...{ clientId, name, mode: 'exclusive', label: HOSTILE, host: 'h', pid: 7 },
      ...{ threadId: 0, threadName: '', token: 1n, held: 9, waited: 1, limit: 0, weight: 0 },
    });
    more.look = async () => ({
      held: [entry('A', 'a'), entry('B', 'b')],
      pending: [entry('A', 'b'), entry('B', 'a')],
    });
    await page.until('document.querySelector("#notes").innerText !== ""');
    const who = `  process 7 on host "h" (${shown}) holds`;
    assert.equal(
      await page.text('#notes'),
      'These holders wait for each other, perhaps in a deadlock:' +
        `${who} "b" and waits for "a"${who} "a" and waits for "b"`,
    );
    assert.equal(await page.value('document.querySelectorAll("img").length'), 0);
    assert.equal(await page.value('document.title'), 'Locks: who holds, who waits');
    more.look = async () => ({ held: [], pending: [] });
    await page.until('document.querySelector("#notes").innerText === ""');
  });

  it('says that the connection is lost, or why there are no locks, and recovers', async (t) => {
    const { locks, page, streams, more } = await opened(t);
    await page.value(`{ window.seen = [];
      new MutationObserver(() => seen.push(document.body.dataset.status)).observe(document.body, {
        attributeFilter: ['data-status'],
      }); }`);
    streams[0].destroy();
    await page.until('document.body.dataset.status === "lost"');
    assert.match(await page.text('#status'), /^the connection is lost: /);
    await hold(locks, 'a');
    await untilRows(page, 1);
    assert.equal(streams.length, 2);
    const { look } = more;
    more.look = async () => {
      throw new Error('$& <b>');
    };
    await page.until('document.body.dataset.status === "failed"');
    const why = 'the locks cannot be reached ($& <b>); trying again …';
    assert.equal(await page.text('#status'), why);
    more.look = look;
    await live(page);
    assert.deepEqual(await page.value('window.seen'), ['lost', 'live', 'failed', 'live']);
  });

  const setHidden = (page, isHidden) =>
    page.value(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, writable: true });
      document.dispatchEvent(new Event('visibilitychange'))`);
  for (const [title, change] of [
    ['paused', (page) => page.click('#pause')],
    ['hidden', setHidden],
  ]) {
    it(`has no connection while it is ${title}`, async (t) => {
      const { locks, page, streams } = await opened(t);
      const closed = once(streams[0], 'close');
      await change(page, true);
      await closed;
      await hold(locks, 'a');
      await change(page, false);
      await untilRows(page, 1);
      assert.equal(streams.length, 2);
    });
  }

  /** A lock with 150 waiters, among others. */
  async function queue(locks) {
    for (const name of ['idle', 'other', 'stock']) await hold(locks, name, { label: `of ${name}` });
    for (let i = 0; i < 150; i++) {
      locks.request('stock', { label: `order ${i}` }, () => {}).catch(() => {});
    }
  }

  it('orders names by waiters or else, finds rows, and shows a long queue on demand', async (t) => {
    const { page } = await opened(t, { prepare: queue });
    const names = async () =>
      (await rows(page))
        .map(([name]) => name.split('\n')[0])
        .filter((name) => /^[a-z]+$/.test(name));
    assert.deepEqual(await names(), ['stock', 'idle', 'other']);
    const search = async (text) => {
      await page.set('#search', text, 'input');
      return (await rows(page)).map((row) => row.slice(0, 2));
    };
    assert.deepEqual(await search('ORDER 77'), [['stock\n150 waiters', 'waits, #78']]);
    assert.deepEqual(await search('idle'), [['idle', 'held']]);
    assert.deepEqual(await search('nowhere'), []);
    assert.equal(await page.text('#none'), 'No lock matches.');
    assert.equal((await search('')).length, 10 + 1 + 2);
    assert.equal(await page.text('.rest button'), 'Show 141 more');
    await page.click('.rest button');
    const all = await rows(page);
    assert.deepEqual([all.length, all[150][0]], [153, 'waits, #150']);
    await page.set('#order', 'name', 'change');
    assert.deepEqual(await names(), ['idle', 'other', 'stock']);
  });

  it('keeps the selection while other rows change', async (t) => {
    const { locks, page } = await opened(t, { prepare: (locks) => hold(locks, 'a') });
    await page.value('getSelection().selectAllChildren(document.querySelector(".name .text"))');
    await hold(locks, 'b');
    await untilRows(page, 2);
    assert.equal(await page.value('getSelection().toString()'), 'a');
  });

  it('fits a phone, and is a table for screen readers there, too', async (t) => {
    const prepare = async (locks) => {
      await queue(locks);
      await hold(locks, 'n'.repeat(3000), { label: 'x'.repeat(3000) });
    };
    const { page } = await opened(t, { width: 375, height: 700, prepare });
    assert.equal(await page.value('document.documentElement.scrollWidth'), 375);
    const { nodes } = await page.send('Accessibility.getFullAXTree');
    const count = (role) => nodes.filter((node) => node.role?.value === role).length;
    assert.deepEqual([count('table'), count('row'), count('rowheader')], [1, 1 + 14, 4]);
    const controls = nodes.filter(({ role }) => /button|searchbox|combobox/i.test(role?.value));
    assert.equal(controls.length, 4);
    for (const { name } of controls) assert.notEqual(name.value, '');
    await page.set('#search', 'nowhere', 'input');
    assert.equal(await page.value('document.querySelector("#locks").getClientRects().length'), 0);
  });

  it('has texts with a contrast of 4.5, in the light and in the dark', async (t) => {
    const pairs = ['text', 'dim', 'waiting', 'lost'].map((name) => `${name} ground`);
    await checkContrasts(async (scheme) => (await opened(t, { scheme })).page, pairs);
  });
});
