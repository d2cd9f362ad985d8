'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { pathToFileURL } = require('node:url');
const { report } = require('../../lib/profile/report.js');
const { writeTrace } = require('../../lib/profile/trace.js');
const { Browser, command } = require('./browser.js');
const { folderFor } = require('./run.js');

const skip = command ? false : 'no chromium';

const HOSTILE = '</script><img src=x onerror="document.title=1"><!--<script>{{data}}\u202e';

/** Requests of some locks, one after the other in each: each waits for the one before. */
function recorded(count, names = ['stock', 'prices', HOSTILE]) {
  const all = Array.from({ length: count }, (_, i) => {
    const asked = i * 2;
    const granted = asked + 1 + (i % names.length) + (i % 7);
    return {
      id: i + 1,
      thread: { id: i % 4 },
      name: names[i % names.length],
      manager: 'process ',
      mode: 'exclusive',
      label: i % 5 ? 'order' : HOSTILE,
      site: `sell (${HOSTILE}:1:1)`,
      contended: i >= names.length,
      asked,
      granted,
      ended: granted + 5,
      outcome: 'granted',
    };
  });
  all.forEach((request, i) => {
    request.blockers = request.contended ? [all[i - names.length]] : [];
  });
  return all;
}

/** @returns {{ file: string, page: string, url: string }} a profile of so many requests */
function profileFile(t, count, names) {
  const folder = folderFor(t);
  const file = path.join(folder, 'profile.json');
  const requests = recorded(count, names);
  const threads = [0, 1, 2, 3].map((id) => ({ id, dropped: 0 }));
  const about = { producer: 'web-locks', version: 1, seconds: 1, dropped: 3 };
  writeTrace(file, requests, { ...about, requests: count, threads }, 0);
  const page = path.join(folder, 'page.html');
  return { file, page, url: pathToFileURL(page).href };
}

describe('the report', () => {
  it('has no markup of what users chose, and nothing that is loaded', (t) => {
    const { file, page } = profileFile(t, 10);
    report(file, page);
    const html = fs.readFileSync(page, 'utf8');
    assert.ok(!html.includes('<img'));
    assert.equal(html.match(/<\/script>/g).length, 2);
    assert.ok(!/\b(?:src|href)=["']/.test(html));
    assert.ok(!/https?:/.test(html));
  });
});

describe('the report, in a browser', { skip }, () => {
  /** @type {Browser} */
  let browser;
  before(() => {
    browser = new Browser();
  });
  after(() => browser.close());

  const opened = async (t, { count = 60, names, ...options } = {}) => {
    const { file, page, url } = profileFile(t, count, names);
    report(file, page);
    const tab = await browser.open(url, options);
    t.after(() => tab.close());
    return tab;
  };
  const rows = (page, table) =>
    page.value(
      `[...document.querySelectorAll('#${table} tbody tr')].map((row) =>
        [...row.children].map((cell) => cell.textContent))`,
    );
  const view = (page) => page.value('({ ...document.querySelector("#timeline").dataset })');
  const width = async (page) => {
    const { from, to } = await view(page);
    return to - from;
  };

  it('opens, with the locks by their waiting, and no error', async (t) => {
    const page = await opened(t);
    const locks = await rows(page, 'names');
    assert.deepEqual(
      locks.map(([name]) => name),
      [HOSTILE, 'prices', 'stock'],
    );
    const [, count, contended, waiting] = locks[2];
    assert.deepEqual([count, contended, waiting], ['20', '95.0 %', '79.0']);
    const about = await page.value('document.querySelector("#about").textContent');
    assert.match(about, /^profile\.json: 60 requests of 4 threads in 1\.0 s\. 3 more were dropped/);
    assert.deepEqual(page.errors, []);
  });

  it('shows what users chose as text', async (t) => {
    const page = await opened(t);
    assert.equal(await page.value('document.title'), 'Locks: who waited for whom');
    assert.equal(await page.value('document.querySelectorAll("img").length'), 0);
    const blockers = await rows(page, 'blockers');
    assert.ok(blockers.some(([label]) => label === HOSTILE));
    assert.ok(blockers.every(([, site]) => site === `sell (${HOSTILE}:1:1)`));
    assert.deepEqual(page.errors, []);
  });

  it('says that nothing was recorded', async (t) => {
    const page = await opened(t, { count: 0 });
    const text = await page.value('document.querySelector("main").innerText');
    assert.equal(text.trim(), 'No requests were recorded.');
    const about = await page.value('document.querySelector("#about").textContent');
    assert.match(about, /: 0 requests of 4 threads in /);
    assert.deepEqual(page.errors, []);
  });

  it('shows the beginning and the end of names that are long, and all on pointing', async (t) => {
    const name = `${'x'.repeat(500)}${'y'.repeat(500)}`;
    const page = await opened(t, { count: 10, names: [name] });
    const [[shown]] = await rows(page, 'names');
    assert.equal(shown, `${'x'.repeat(140)}…${'y'.repeat(59)}`);
    const title = await page.value('document.querySelector("#names tbody button").title');
    assert.equal(title, name);
    assert.deepEqual(page.errors, []);
  });

  it('sorts by each column, both ways, by keyboard', async (t) => {
    const page = await opened(t);
    const header = '#names thead button[data-key="name"]';
    await page.value(`document.querySelector('${header}').focus()`);
    await page.press('Enter');
    const names = async () => (await rows(page, 'names')).map(([name]) => name);
    const sorted = () => page.value(`document.querySelector('${header}').parentElement.ariaSort`);
    // A key press is a click where the browser makes it one.
    if ((await sorted()) === 'none')
      await page.value(`document.querySelector('${header}').click()`);
    assert.deepEqual(await names(), [HOSTILE, 'prices', 'stock']);
    assert.equal(await sorted(), 'ascending');
    await page.value(`document.querySelector('${header}').click()`);
    assert.deepEqual(await names(), ['stock', 'prices', HOSTILE]);
    assert.equal(await sorted(), 'descending');
    const keys = await page.value(
      '[...document.querySelectorAll("#names thead button")].map((b) => b.dataset.key)',
    );
    for (const key of keys) {
      await page.value(`document.querySelector('[data-key="${key}"]').click()`);
    }
    assert.deepEqual(page.errors, []);
  });

  it('zooms and moves by wheel, by dragging, and by keyboard', async (t) => {
    const page = await opened(t);
    const all = await view(page);
    const { x, y } = await page.value(
      `{ const box = document.querySelector('#timeline').getBoundingClientRect();
         ({ x: box.x + 300, y: box.y + 50 }) }`,
    );
    await page.mouse('mouseWheel', x, y, { deltaX: 0, deltaY: -400 });
    const zoomed = await view(page);
    assert.ok(zoomed.to - zoomed.from < all.to - all.from);
    assert.ok(Number(zoomed.from) > Number(all.from) && Number(zoomed.to) < Number(all.to));
    await page.mouse('mousePressed', x, y, { button: 'left', clickCount: 1 });
    await page.mouse('mouseMoved', x - 60, y, { button: 'left' });
    await page.mouse('mouseReleased', x - 60, y, { button: 'left', clickCount: 1 });
    const moved = await view(page);
    assert.ok(Number(moved.from) > Number(zoomed.from));
    await page.value('document.querySelector("#timeline").focus()');
    const before = await width(page);
    await page.press('+');
    assert.ok((await width(page)) < before);
    await page.press('ArrowLeft');
    assert.ok(Number((await view(page)).from) < Number(moved.to));
    await page.press('0');
    assert.deepEqual(await view(page), all);
    await page.value('document.querySelector("#in").click()');
    await page.frame();
    assert.ok((await width(page)) < all.to - all.from);
    assert.deepEqual(page.errors, []);
  });

  it('tells of a request, by keyboard', async (t) => {
    const page = await opened(t);
    await page.value('document.querySelector("#timeline").focus()');
    for (let i = 0; i < 4; i++) await page.press('ArrowDown');
    const text = await page.value('document.querySelector("#request").textContent');
    assert.match(text, /thread \d: granted · waited [\d.]+ ms · held 5\.000 ms/);
    assert.match(text, /blocked by /);
    assert.deepEqual(page.errors, []);
  });

  it('shows the lock that is chosen', async (t) => {
    const page = await opened(t);
    await page.value('[...document.querySelectorAll("#names tbody button")].at(-1).click()');
    const title = await page.value('document.querySelector("#timeline-title").textContent');
    assert.equal(title, 'Who held and who waited: stock');
    assert.equal(await page.value('document.querySelector("[aria-current]").dataset.lock'), '0');
  });

  /** How many colors there are in the timeline, and its ground. */
  const COLORS = `{
    const canvas = document.querySelector('#timeline');
    const { width, height } = canvas;
    const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const pixels = copy.getImageData(0, 0, width, height).data;
    const seen = new Set();
    for (let i = 0; i < pixels.length; i += 4) {
      if (pixels[i + 3] === 255) seen.add([...pixels.slice(i, i + 3)].join());
    }
    ({ seen: [...seen], ground: getComputedStyle(document.body).backgroundColor })
  }`;

  it('is light or dark as the reader has it, also when that changes', async (t) => {
    const page = await opened(t, { scheme: 'light' });
    const light = await page.value(COLORS);
    assert.equal(light.ground, 'rgb(255, 255, 255)');
    assert.ok(light.seen.includes('11,98,196') && light.seen.includes('217,115,13'));
    await page.setScheme('dark');
    await page.frame();
    const dark = await page.value(COLORS);
    assert.equal(dark.ground, 'rgb(20, 24, 29)');
    assert.ok(dark.seen.includes('88,166,255') && dark.seen.includes('240,153,62'));
    assert.deepEqual(page.errors, []);
  });

  it('fits a phone', async (t) => {
    const page = await opened(t, { width: 375, height: 700 });
    assert.equal(await page.value('document.documentElement.scrollWidth'), 375);
    const canvas = await page.value('document.querySelector("#timeline").clientWidth');
    assert.ok(canvas > 300 && canvas < 375);
  });

  it('every control has a name, and can be focused', async (t) => {
    const page = await opened(t);
    const { nodes } = await page.send('Accessibility.getFullAXTree');
    const controls = nodes.filter(({ role }) => role?.value === 'button');
    assert.ok(controls.length > 10);
    for (const { name } of controls) assert.notEqual(name.value, '');
    assert.ok(nodes.some(({ name }) => name?.value === 'Timeline'));
  });

  it('is usable with 100,000 requests, and with thousands of locks', async (t) => {
    const page = await opened(t, { count: 100_000 });
    assert.equal((await rows(page, 'names'))[2][1], '33334');
    await page.value('document.querySelector("#timeline").focus()');
    await page.press('+');
    await page.press('ArrowRight');
    const names = Array.from({ length: 5000 }, (_, i) => `user ${i}`);
    const many = await opened(t, { count: 20_000, names });
    assert.equal((await rows(many, 'names')).length, 200);
    await many.value('document.querySelector("#more").click()');
    assert.equal((await rows(many, 'names')).length, 5000);
    assert.deepEqual([...page.errors, ...many.errors], []);
  });

  it('opens with nothing in it', async (t) => {
    const page = await opened(t, { count: 0 });
    assert.deepEqual(await rows(page, 'names'), []);
    assert.deepEqual(page.errors, []);
  });
});
