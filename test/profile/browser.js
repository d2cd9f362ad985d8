'use strict';

/** Controls a real browser through a pipe with its own protocol. Without one, tests are skipped. */

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { programs } = require('../helpers/programs.js');

const FLAGS =
  '--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run';

class Browser {
  #child;
  #folder = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-browser-'));
  #calls = new Map();
  #listeners = new Set();
  #count = 0;
  #rest = '';

  constructor() {
    const flags = [...FLAGS.split(' '), '--remote-debugging-pipe'];
    this.#child = spawn(programs.chromium, [...flags, `--user-data-dir=${this.#folder}`], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
    });
    this.#child.stdio[4].setEncoding('utf8').on('data', (text) => this.#hear(text));
    this.#child.on('exit', () => {
      for (const { reject } of this.#calls.values()) reject(new Error('The browser ended.'));
    });
  }

  /** Messages end with a zero byte. */
  #hear(text) {
    const messages = (this.#rest + text).split('\0');
    this.#rest = messages.pop();
    for (const message of messages) {
      const { id, result, error, ...event } = JSON.parse(message);
      const call = this.#calls.get(id);
      this.#calls.delete(id);
      if (error) call?.reject(new Error(error.message));
      else if (call) call.resolve(result);
      else for (const listener of this.#listeners) listener(event);
    }
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.#count;
    this.#child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }));
  }

  /** @returns {() => void} a function that removes the listener */
  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close() {
    const exit = new Promise((resolve) => this.#child.on('exit', resolve));
    this.send('Browser.close').catch(() => {});
    await exit;
    fs.rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }

  /**
   * Opens a page of this width and height in pixels, and waits until it is loaded.
   * @param {{ width?: number, height?: number, scheme?: 'light' | 'dark' }} [options]
   * @returns {Promise<Page>}
   */
  async open(url, { width = 1100, height = 900, scheme = 'light' } = {}) {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    const attached = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, attached.sessionId, targetId);
    for (const domain of ['Page', 'Runtime', 'Log']) await page.send(`${domain}.enable`);
    const screen = { width, height, deviceScaleFactor: 1, mobile: false };
    await page.send('Emulation.setDeviceMetricsOverride', screen);
    await page.setScheme(scheme);
    const loaded = page.event('Page.loadEventFired');
    await page.send('Page.navigate', { url });
    await loaded;
    await page.frame();
    return page;
  }
}

class Page {
  /** The errors of the page. @type {string[]} */
  errors = [];

  constructor(browser, sessionId, targetId) {
    this.browser = browser;
    this.sessionId = sessionId;
    this.targetId = targetId;
    browser.listen(({ sessionId, method, params }) => {
      if (sessionId !== this.sessionId) return;
      if (method === 'Runtime.exceptionThrown') {
        this.errors.push(params.exceptionDetails.exception?.description ?? 'an exception');
      }
      if (method === 'Log.entryAdded') this.errors.push(params.entry.text);
      if (method === 'Runtime.consoleAPICalled') this.errors.push(JSON.stringify(params.args));
    });
  }

  send(method, params) {
    return this.browser.send(method, params, this.sessionId);
  }

  event(name) {
    return new Promise((resolve) => {
      const stop = this.browser.listen(({ sessionId, method, params }) => {
        if (sessionId !== this.sessionId || method !== name) return;
        stop();
        resolve(params);
      });
    });
  }

  setScheme(value) {
    const features = [{ name: 'prefers-color-scheme', value }];
    return this.send('Emulation.setEmulatedMedia', { features });
  }

  /** @returns {Promise<any>} the value of an expression in the page, awaited */
  async value(expression) {
    const options = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', options);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description);
    return result.value;
  }

  /** Waits until an expression in the page is true, evaluating it after each change of the page. */
  until(expression) {
    return this.value(`new Promise((done) => {
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
  }

  /** @returns a part of the first match, such as `textContent`, or the result of a call */
  of(selector, part) {
    return this.value(`document.querySelector(${JSON.stringify(selector)}).${part}`);
  }

  text(selector) {
    return this.of(selector, 'textContent');
  }

  click(selector) {
    return this.of(selector, 'click()');
  }

  /** Sets the value of a control. */
  set(selector, value, event) {
    return this.value(`{ const one = document.querySelector('${selector}');
      one.value = ${JSON.stringify(value)};
      one.dispatchEvent(new Event('${event}')); }`);
  }

  /** @returns the texts of the cells of all rows of a table's body */
  rows(table, part = 'textContent') {
    return this.value(`[...document.querySelectorAll('${table} tbody tr')].map((row) =>
      [...row.children].map((cell) => cell.${part}.trim()))`);
  }

  /** Waits until the page has been painted. */
  frame() {
    return this.value(
      'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))',
    );
  }

  async press(key) {
    const text = key.length === 1 ? key : { Enter: '\r' }[key];
    const code = { Enter: 13 }[key];
    const down = { type: 'keyDown', key, text, windowsVirtualKeyCode: code };
    await this.send('Input.dispatchKeyEvent', down);
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', key });
    await this.frame();
  }

  async mouse(type, x, y, more = {}) {
    await this.send('Input.dispatchMouseEvent', { type, x, y, ...more });
    await this.frame();
  }

  /** @returns {Promise<Buffer>} a PNG */
  async screenshot() {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' });
    return Buffer.from(data, 'base64');
  }

  close() {
    return this.browser.send('Target.closeTarget', { targetId: this.targetId });
  }
}

/** The contrast of two colors, according to WCAG 2. */
function contrast(...colors) {
  const light = (color) => {
    const [r, g, b] = color.match(/[0-9a-f]{2}/g).map((part) => {
      const value = Number.parseInt(part, 16) / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [dark, bright] = colors.map(light).sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
}

/**
 * Checks in light and dark that texts have a contrast of at least 4.5 to 1 with their backgrounds.
 * @param {(scheme: 'light' | 'dark') => Promise<Page>} open
 * @param {string[]} pairs names of two colors each
 */
async function checkContrasts(open, pairs) {
  for (const scheme of ['light', 'dark']) {
    const page = await open(scheme);
    const colors = await page.value(`{
      const style = getComputedStyle(document.documentElement);
      (${JSON.stringify(pairs)}).map((pair) =>
        pair.split(' ').map((name) => style.getPropertyValue('--' + name)));
    }`);
    colors.forEach(([one, other], i) => {
      const ratio = contrast(one, other);
      assert.ok(ratio >= 4.5, `${scheme}, ${pairs[i]}: ${ratio}`);
    });
  }
}

module.exports = { Browser, checkContrasts };
