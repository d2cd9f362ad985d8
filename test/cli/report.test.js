// slow: 4

'use strict';

/** `web-locks report`; what is on the page is tested in test/profile. */

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { freshDirectory } = require('../helpers/process.js');
const { PROGRAM, check } = require('./command.js');

/** Runs it where there is no addon, and an engine that does not matter. */
function run(folder, ...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, 'report', ...args], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, WEB_LOCKS_BINARY: '/none', WEB_LOCKS_AT: 'redis://nowhere' },
  });
  return { code: status, stdout, stderr };
}

/** A file with a profile of one request. */
function write(folder, file, { dropped = 0 } = {}) {
  const args = { id: 1, lock: 'a', mode: 'shared', thread: 0, outcome: 'granted' };
  const times = { waited: 0, held: 1, contended: false, blockers: [] };
  const event = { ph: 'X', cat: 'request', ts: 0, dur: 1, args: { ...args, ...times } };
  const otherData = { producer: 'web-locks', version: 1, seconds: 1, dropped, threads: [] };
  fs.writeFileSync(path.join(folder, file), JSON.stringify({ otherData, traceEvents: [event] }));
}

describe('web-locks report', () => {
  it('makes a page, and says of how many requests', (t) => {
    const folder = freshDirectory(t);
    write(folder, 'profile.json');
    const stderr = 'web-locks: page.html: 1 request\n';
    check(run(folder, 'profile.json', '-o', 'page.html'), { code: 0, stdout: '', stderr });
    assert.match(fs.readFileSync(path.join(folder, 'page.html'), 'utf8'), /^<!doctype html>/i);
  });

  it('calls the page as the profile, and says how much that has lost', (t) => {
    const folder = freshDirectory(t);
    write(folder, '-profile.json', { dropped: 3 });
    const stderr = 'web-locks: -profile.html: 1 request, and 3 more were dropped\n';
    check(run(folder, '--', '-profile.json'), { code: 0, stderr });
    assert.ok(fs.existsSync(path.join(folder, '-profile.html')));
  });

  it('refuses what is not a profile, and ends with 66', (t) => {
    const folder = freshDirectory(t);
    write(folder, 'whole.json');
    const whole = fs.readFileSync(path.join(folder, 'whole.json'), 'utf8');
    fs.rmSync(path.join(folder, 'whole.json'));
    for (const [file, content, message] of [
      ['other.json', '{"traceEvents":[]}', 'is not a profile of web-locks'],
      ['broken.json', '{', 'is not JSON: it ends too early'],
      ['cut.json', whole.slice(0, -10), 'is not JSON: it ends too early'],
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

  it('does not write the page over the profile, or where it cannot', (t) => {
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
