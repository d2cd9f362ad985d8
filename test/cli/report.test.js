// slow: 4

'use strict';

/** `web-locks report`; test/profile tests the content of the page. */

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');
const { PROGRAM, check } = require('./command.js');

/** Runs `web-locks report` without an addon; the engine does not matter. */
function run(folder, ...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, 'report', ...args], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, WEB_LOCKS_BINARY: '/none', WEB_LOCKS_AT: 'redis://nowhere' },
  });
  return { code: status, stdout, stderr };
}

/** Writes a profile of one request. */
function write(folder, file, { dropped = 0 } = {}) {
  const args = { id: 1, lock: 'a', mode: 'shared', thread: 0, outcome: 'granted' };
  const times = { waited: 0, held: 1, contended: false, blockers: [] };
  const event = { ph: 'X', cat: 'request', ts: 0, dur: 1, args: { ...args, ...times } };
  const otherData = { producer: 'web-locks', version: 1, seconds: 1, dropped, threads: [] };
  fs.writeFileSync(path.join(folder, file), JSON.stringify({ otherData, traceEvents: [event] }));
}

describe('web-locks report', () => {
  it('makes a page, named as the profile or by --output, and counts the requests', (t) => {
    const folder = freshDirectory(t);
    for (const [file, page, dropped, ...words] of [
      ['profile.json', 'page.html', 0, 'profile.json', '-o', 'page.html'],
      ['-profile.json', '-profile.html', 3, '--', '-profile.json'],
    ]) {
      write(folder, file, { dropped });
      const more = dropped > 0 ? `, and ${dropped} more were dropped` : '';
      const stderr = `web-locks: ${page}: 1 request${more}\n`;
      check(run(folder, ...words), { code: 0, stdout: '', stderr });
      assert.match(fs.readFileSync(path.join(folder, page), 'utf8'), /^<!doctype html>/i);
    }
  });

  it('ends with 66 if a file is not a profile', (t) => {
    const folder = freshDirectory(t);
    for (const [file, content, message] of [
      ['other.json', '{"traceEvents":[]}', 'is not a profile of web-locks'],
      ['cut.json', '{"traceEvents":[', 'is not JSON: it ends too early'],
      ['empty.json', '', 'is empty'],
      ['text.json', 'a text', 'is not JSON'],
      ['none.json', undefined, 'cannot be read: no such file or directory'],
      ['.', undefined, 'cannot be read: illegal operation on a directory'],
    ]) {
      if (content !== undefined) fs.writeFileSync(path.join(folder, file), content);
      const stderr = `web-locks: ${file} ${message}.\n`;
      check(run(folder, file), { code: 66, stdout: '', stderr });
    }
    assert.ok(fs.readdirSync(folder).every((file) => file.endsWith('.json')));
  });

  it('refuses to write the page over the profile, or where it cannot', (t) => {
    const folder = freshDirectory(t);
    write(folder, 'profile.json');
    const before = fs.readFileSync(path.join(folder, 'profile.json'), 'utf8');
    fs.linkSync(path.join(folder, 'profile.json'), path.join(folder, 'link'));
    for (const output of ['profile.json', './profile.json', 'link']) {
      const stderr =
        `web-locks: --output is ${output}, which is the profile itself; expected another file.\n` +
        'See: web-locks report --help\n';
      check(run(folder, 'profile.json', '-o', output), { code: 64, stderr });
    }
    assert.equal(fs.readFileSync(path.join(folder, 'profile.json'), 'utf8'), before);
    const stderr = 'web-locks: none/page.html cannot be written: no such file or directory.\n';
    check(run(folder, 'profile.json', '-o', 'none/page.html'), { code: 66, stderr });
  });
});
