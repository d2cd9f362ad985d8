'use strict';

/**
 * Makes docs/top.png: locks of a shop with holders, waiters, a semaphore and a priority, and a
 * screenshot of the page of `top --web` that shows them. It needs chromium, pngquant, and the host
 * scope.
 */

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { Web } = require('../lib/cli/web.js');
const { openBucket } = require('../lib/host.js');
const { Browser } = require('../test/profile/browser.js');
const { savePicture } = require('./picture.js');

/** In milliseconds; the pause makes the times on the page differ. */
const APART_MS = 700;

/** The requests, in the order in which they are made, with name and options. */
const REQUESTS = [
  ['nightly report', { label: 'report.js' }],
  ['stock', { label: 'checkout' }],
  ['gpu', { mode: 'shared', limit: 8, weight: 2, label: 'train.py' }],
  ['gpu', { mode: 'shared', limit: 8, weight: 4, label: 'embed.py' }],
  ['stock', { label: 'import' }],
  ['stock', { label: 'pricing' }],
  ['gpu', { mode: 'shared', limit: 8, weight: 4, label: 'train.py' }],
  ['stock', { label: 'refund', priority: 10 }],
];

async function main() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-picture-'));
  const bucket = openBucket('shop', { directory: folder });
  const end = new AbortController();
  const requests = [];
  for (const [name, options] of REQUESTS) {
    const isOver = new Promise((resolve) => end.signal.addEventListener('abort', resolve));
    requests.push(bucket.locks.request(name, options, () => isOver));
    await sleep(APART_MS);
  }
  const web = new Web({
    about: 'Locks of this machine (build), bucket "shop"',
    look: async () => renamed(await bucket.locks.query({ details: true })),
  });
  const browser = new Browser();
  const tab = await browser.open(await web.listen(0), { width: 1120, height: 470 });
  await tab.value(`new Promise((done) => {
    const isLive = () => document.body.dataset.status === 'live' && done();
    new MutationObserver(isLive).observe(document.body, { attributes: true });
    isLive();
  })`);
  await tab.frame();
  savePicture('top.png', await tab.screenshot());
  await browser.close();
  web.close();
  end.abort();
  await Promise.all(requests);
  await bucket.close();
  fs.rmSync(folder, { recursive: true });
}

/** Replaces the name of the machine that makes the picture. */
function renamed({ held, pending }) {
  const rename = (entries) => entries.map((entry) => ({ ...entry, host: 'build' }));
  return { held: rename(held), pending: rename(pending) };
}

main();
