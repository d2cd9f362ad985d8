'use strict';

/**
 * Makes docs/report.png: profiles a program, makes the report, and takes a screenshot of it. It
 * needs chromium and pngquant.
 */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { report } = require('../lib/profile/report.js');
const { Browser } = require('../test/profile/browser.js');
const { savePicture } = require('./picture.js');

const root = path.join(__dirname, '..');

async function main() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-picture-'));
  const file = path.join(folder, 'profile.json');
  const page = path.join(folder, 'report.html');
  const args = ['--import', './lib/profile.mjs', 'test/profile/shop.js'];
  execFileSync(process.execPath, args, {
    cwd: root,
    env: { ...process.env, WEB_LOCKS_PROFILE: file },
  });
  report([file], page);
  const browser = new Browser();
  const tab = await browser.open(pathToFileURL(page).href, { width: 1180, height: 860 });
  await tab.frame();
  savePicture('report.png', await tab.screenshot());
  await browser.close();
  fs.rmSync(folder, { recursive: true });
}

main();
