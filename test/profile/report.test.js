// slow: 33; long

'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { pathToFileURL } = require('node:url');
const { report } = require('../../lib/profile/report.js');
const { writeTrace } = require('../../lib/profile/trace.js');
const { Browser, checkContrasts } = require('./browser.js');
const { freshDirectory } = require('../helpers/process.js');
const { lacks } = require('../helpers/programs.js');

const skip = lacks.chromium;

/** The modifier of a pressed control key in the browser's protocol. */
const CTRL = 2;

const HOSTILE = '</script><img src=x onerror="document.title=1"><!--<script>{{data}}\u202e';

/** Requests for some locks: for each lock, each request waits for the one before. */
function recorded(count, names = ['stock', 'prices', HOSTILE], more = () => ({})) {
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
      ...more(i),
    };
  });
  all.forEach((request, i) => {
    request.blockers = request.contended ? [all[i - names.length]] : [];
  });
  return all;
}

/** @returns {{ file: string, page: string, url: string }} a profile of so many requests */
function profileFile(t, count, names, more) {
  const folder = freshDirectory(t);
  const file = path.join(folder, 'profile.json');
  const requests = recorded(count, names, more);
  const threads = [0, 1, 2, 3].map((id) => ({ id, dropped: 0 }));
  const about = { producer: 'web-locks', version: 1, seconds: 1, dropped: 3 };
  writeTrace(file, requests, { ...about, requests: count, threads }, 0);
  const page = path.join(folder, 'page.html');
  return { file, page, url: pathToFileURL(page).href };
}

describe('the report', () => {
  it('has no markup in names and labels, and loads nothing', (t) => {
    const { file, page } = profileFile(t, 10);
    report([file], page);
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

  const opened = async (t, { count = 60, names, more, ...options } = {}) => {
    const { file, page, url } = profileFile(t, count, names, more);
    report([file], page);
    const tab = await browser.open(url, options);
    t.after(async () => {
      await tab.close();
      assert.deepEqual(tab.errors, []);
    });
    return tab;
  };
  const focus = (page) => page.of('#timeline', 'focus()');
  const rows = (page, table) => page.rows(`#${table}`);
  const all = (page, selector, part) =>
    page.value(`[...document.querySelectorAll('${selector}')].map((one) => one.${part})`);
  const view = (page) => page.value('({ ...document.querySelector("#timeline").dataset })');
  const width = async (page) => {
    const { from, to } = await view(page);
    return to - from;
  };

  it('lists the locks by their waiting, and shows names, labels and sites as text', async (t) => {
    const page = await opened(t);
    const locks = await rows(page, 'names');
    assert.deepEqual(
      locks.map(([name]) => name),
      [HOSTILE, 'prices', 'stock'],
    );
    assert.deepEqual(locks[2].slice(1, 5), ['20', '95.0 %', '20 granted', '79.00']);
    const about = await page.text('#about');
    assert.match(about, /^profile\.json: 60 requests of 4 threads in 1\.0 s\. 3 more were dropped/);
    assert.equal(await page.value('document.title'), 'Locks: who waited for whom');
    assert.equal(await page.value('document.querySelectorAll("img").length'), 0);
    const blockers = await rows(page, 'blockers');
    assert.ok(blockers.some(([label]) => label === HOSTILE));
    assert.ok(blockers.every(([, site]) => site === `sell (${HOSTILE}:1:1)`));
    await page.value('[...document.querySelectorAll("#names tbody button")].at(-1).click()');
    assert.equal(await page.text('#timeline-title'), 'Who held and who waited: stock');
    assert.equal(await page.of('[aria-current]', 'dataset.lock'), '0');
  });

  it('says that nothing was recorded', async (t) => {
    const page = await opened(t, { count: 0 });
    const text = await page.of('main', 'innerText');
    assert.equal(text.trim(), 'No requests were recorded.');
    const about = await page.text('#about');
    assert.match(about, /: 0 requests of 4 threads in /);
  });

  it('cuts long names in the middle, and shows an empty label as one', async (t) => {
    const name = `${'x'.repeat(500)}${'y'.repeat(500)}`;
    const more = (i) => ({ label: i === 0 ? '' : undefined });
    const page = await opened(t, { count: 2, names: [name], more });
    const [[shown]] = await rows(page, 'names');
    assert.equal(shown, `${'x'.repeat(140)}…${'y'.repeat(59)}`);
    assert.equal(await page.of('#names tbody button', 'title'), name);
    const labels = (await rows(page, 'requests')).map(([, , label]) => label);
    assert.deepEqual(labels, ['""', '']);
  });

  it('sorts by each column, in both directions, by keyboard', async (t) => {
    const page = await opened(t);
    const header = '#names thead button[data-key="name"]';
    await page.of(header, 'focus()');
    await page.press('Enter');
    const names = async () => (await rows(page, 'names')).map(([name]) => name);
    const sorted = () => page.of(header, 'parentElement.ariaSort');
    // In some browsers a key press already is a click.
    if ((await sorted()) === 'none') await page.click(header);
    assert.deepEqual(await names(), [HOSTILE, 'prices', 'stock']);
    assert.equal(await sorted(), 'ascending');
    await page.click(header);
    assert.deepEqual(await names(), ['stock', 'prices', HOSTILE]);
    assert.equal(await sorted(), 'descending');
    for (const key of await all(page, '#names thead button', 'dataset.key'))
      await page.click(`[data-key="${key}"]`);
  });

  it('zooms and moves by wheel, by dragging, and by keyboard', async (t) => {
    const page = await opened(t);
    const all = await view(page);
    const { x, y } = await page.value(
      `{ const box = document.querySelector('#timeline').getBoundingClientRect();
         ({ x: box.x + 300, y: box.y + 50 }) }`,
    );
    await page.mouse('mouseWheel', x, y, { deltaX: 0, deltaY: -400, modifiers: CTRL });
    const zoomed = await view(page);
    assert.ok(zoomed.to - zoomed.from < all.to - all.from);
    assert.ok(Number(zoomed.from) > Number(all.from) && Number(zoomed.to) < Number(all.to));
    await page.mouse('mousePressed', x, y, { button: 'left', clickCount: 1 });
    await page.mouse('mouseMoved', x - 60, y, { button: 'left' });
    await page.mouse('mouseReleased', x - 60, y, { button: 'left', clickCount: 1 });
    const moved = await view(page);
    assert.ok(Number(moved.from) > Number(zoomed.from));
    await focus(page);
    const before = await width(page);
    await page.press('+');
    assert.ok((await width(page)) < before);
    await page.press('ArrowLeft');
    assert.ok(Number((await view(page)).from) < Number(moved.to));
    await page.press('0');
    assert.deepEqual(await view(page), all);
    await page.click('#in');
    await page.frame();
    assert.ok((await width(page)) < all.to - all.from);
  });

  it('describes a request that is chosen by keyboard', async (t) => {
    const page = await opened(t);
    await focus(page);
    for (let i = 0; i < 4; i++) await page.press('ArrowDown');
    const text = await page.text('#request');
    assert.match(text, /thread \d: granted · waited [\d.]+ ms · held 5\.000 ms/);
    const marked = 'document.querySelector("#requests [aria-current]").dataset.request';
    assert.equal(await page.value(marked), '11');
    assert.match(text, /blocked by /);
  });

  const OUTCOMES = ['timed out', 'threw', 'granted', 'aborted'];
  const outcome = (i) => {
    const name = OUTCOMES[i % OUTCOMES.length];
    const got = name === 'granted' || name === 'threw';
    return {
      outcome: name,
      ...(got ? {} : { granted: Number.POSITIVE_INFINITY, ended: i * 2 + 1 }),
      ...(name === 'threw' ? { error: 'TypeError: no stock' } : {}),
    };
  };

  it('shows outcomes in words and signs, selects by them, and searches requests', async (t) => {
    const page = await opened(t, { more: outcome });
    assert.equal((await rows(page, 'names'))[2][3], '5 threw5 timed out5 aborted5 granted');
    const shapes = await all(page, '#outcomes .sign', 'style.clipPath');
    assert.equal(new Set(shapes).size, OUTCOMES.length);
    const texts = await all(page, '#outcomes button', 'textContent');
    assert.deepEqual(texts, [' 15 threw', ' 15 timed out', ' 15 aborted', ' 15 granted']);
    assert.ok((await rows(page, 'requests')).some((row) => row.at(-1) === 'TypeError: no stock'));

    const press = (name) => page.click(`#outcomes [data-outcome="${name}"]`);
    const counts = async () => (await rows(page, 'names')).map(([, count]) => count).join();
    await press('threw');
    assert.equal((await rows(page, 'names'))[0][3], '5 threw');
    assert.equal((await rows(page, 'requests')).length, 5);
    await press('aborted');
    assert.equal(await counts(), '10,10,10');
    await press('threw');
    await press('aborted');
    assert.equal(await counts(), '20,20,20');

    const search = async (text) => {
      await page.set('#search', text, 'input');
      return (await rows(page, 'names')).map(([name, count]) => [name, count]);
    };
    // Two of the names do not contain it, but errors of their requests do.
    assert.deepEqual(await search('STOCK'), [
      ['stock', '20'],
      [HOSTILE, '5'],
      ['prices', '5'],
    ]);
    assert.deepEqual(await search('prices'), [['prices', '20']]);
    assert.deepEqual(await search('nowhere'), []);
    assert.equal(await page.of('#none', 'hidden'), false);
    assert.equal((await search('')).length, 3);
  });

  it('scrolls its timeline to the request that is chosen, the last of many', async (t) => {
    // All request at once, and are granted one after another.
    const more = (i) => ({ asked: 0, contended: i > 0, granted: 5 * i, ended: 5 * i + 5 });
    const page = await opened(t, { count: 154, names: ['a'], more });
    const top = () => page.of('#rows', 'scrollTop');
    assert.equal(await top(), 0);
    await focus(page);
    for (let i = 0; i < 154; i++) await page.press('ArrowDown');
    const { rest, seen } = await page.value(`{
      const box = document.querySelector('#rows');
      ({ rest: box.scrollHeight - box.clientHeight - box.scrollTop, seen: box.clientHeight });
    }`);
    assert.ok((await top()) > 1000 && rest < seen, `${rest}`);
    const text = await page.text('#request');
    assert.match(text, /waited 765\.\d+ ms/);
    assert.equal((await rows(page, 'requests')).length, 154);
  });

  it('prints whole tables, without the controls', async (t) => {
    const page = await opened(t);
    await page.send('Emulation.setEmulatedMedia', { media: 'print' });
    const style = (selector) =>
      page.value(`({ ...getComputedStyle(document.querySelector('${selector}')) })`);
    assert.equal((await style('.scroll')).maxHeight, 'none');
    assert.equal((await style('#filter')).display, 'none');
  });

  it('has texts with a contrast of 4.5, in the light and in the dark', async (t) => {
    const pairs = ['text ground', 'text raised', 'dim ground', 'dim raised', 'accent ground'];
    pairs.push('on-bar held', 'on-bar waiting');
    await checkContrasts((scheme) => opened(t, { scheme }), pairs);
  });

  it('is light or dark as the reader prefers, and redraws when that changes', async (t) => {
    const page = await opened(t, { scheme: 'light' });
    const looks = async () => [
      await page.value('getComputedStyle(document.body).backgroundColor'),
      await page.of('#timeline', 'toDataURL()'),
    ];
    const [lightGround, light] = await looks();
    assert.equal(lightGround, 'rgb(255, 255, 255)');
    await page.setScheme('dark');
    await page.frame();
    const [darkGround, dark] = await looks();
    assert.equal(darkGround, 'rgb(20, 24, 29)');
    const other = await opened(t, { scheme: 'dark' });
    assert.notEqual(dark, light);
    assert.equal(dark, await other.of('#timeline', 'toDataURL()'));
  });

  it('fits a phone, and every control has a name and can be focused', async (t) => {
    const page = await opened(t, { width: 375, height: 700 });
    assert.equal(await page.value('document.documentElement.scrollWidth'), 375);
    const canvas = await page.of('#timeline', 'clientWidth');
    assert.ok(canvas > 300 && canvas < 375);
    const { nodes } = await page.send('Accessibility.getFullAXTree');
    const controls = nodes.filter(({ role }) => role?.value === 'button');
    assert.ok(controls.length > 10);
    for (const { name } of controls) assert.notEqual(name.value, '');
    assert.ok(nodes.some(({ name }) => name?.value === 'Timeline'));
  });

  it('is usable with 100,000 requests for thousands of locks', async (t) => {
    const names = Array.from({ length: 5000 }, (_, i) => `user ${i}`);
    const many = await opened(t, { count: 100_000, names });
    await focus(many);
    await many.press('+');
    await many.press('ArrowRight');
    assert.equal((await rows(many, 'names')).length, 200);
    await many.click('#more');
    assert.equal((await rows(many, 'names')).length, 2200);
  });
});
