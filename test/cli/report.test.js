// slow: 4

'use strict';

/** `web-locks report`; what is on the page is tested in test/profile. */

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { PROGRAM } = require('./command.js');

/** @returns {string} a folder that is removed after the test */
function folderFor(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-report-'));
  t.after(() => fs.rmSync(folder, { recursive: true }));
  return folder;
}

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
    const folder = folderFor(t);
    write(folder, 'profile.json');
    const { code, stdout, stderr } = run(folder, 'profile.json', '-o', 'page.html');
    assert.equal(stderr, 'web-locks: page.html: 1 request\n');
    assert.deepEqual([code, stdout], [0, '']);
    assert.match(fs.readFileSync(path.join(folder, 'page.html'), 'utf8'), /^<!doctype html>/i);
  });

  it('calls the page as the profile, and says how much that has lost', (t) => {
    const folder = folderFor(t);
    write(folder, '-profile.json', { dropped: 3 });
    const { code, stderr } = run(folder, '--', '-profile.json');
    assert.equal(stderr, 'web-locks: -profile.html: 1 request, and 3 more were dropped\n');
    assert.equal(code, 0);
    assert.ok(fs.existsSync(path.join(folder, '-profile.html')));
  });

  it('refuses what is not a profile, and ends with 66', (t) => {
    const folder = folderFor(t);
    fs.writeFileSync(path.join(folder, 'other.json'), '{"traceEvents":[]}');
    fs.writeFileSync(path.join(folder, 'broken.json'), '{');
    write(folder, 'whole.json');
    const cut = fs.readFileSync(path.join(folder, 'whole.json'), 'utf8').slice(0, -10);
    fs.writeFileSync(path.join(folder, 'cut.json'), cut);
    fs.rmSync(path.join(folder, 'whole.json'));
    fs.writeFileSync(path.join(folder, 'empty.json'), '');
    fs.writeFileSync(path.join(folder, 'text.json'), 'a text');
    for (const [file, message] of [
      ['other.json', /^web-locks: other\.json is not a profile of web-locks\.\n$/],
      ['broken.json', /^web-locks: broken\.json is not JSON: it ends too early\.\n$/],
      ['cut.json', /^web-locks: cut\.json is not JSON: it ends too early\.\n$/],
      ['empty.json', /^web-locks: empty\.json is empty\.\n$/],
      ['text.json', /^web-locks: text\.json is not JSON\.\n$/],
      ['none.json', /^web-locks: none\.json cannot be read: no such file or directory\.\n$/],
      ['.', /^web-locks: \. cannot be read: illegal operation on a directory\.\n$/],
    ]) {
      const { code, stdout, stderr } = run(folder, file);
      assert.match(stderr, message);
      assert.deepEqual([code, stdout], [66, '']);
    }
    assert.ok(fs.readdirSync(folder).every((file) => file.endsWith('.json')));
  });

  it('does not write the page over the profile', (t) => {
    const folder = folderFor(t);
    write(folder, 'profile.json');
    const before = fs.readFileSync(path.join(folder, 'profile.json'), 'utf8');
    fs.linkSync(path.join(folder, 'profile.json'), path.join(folder, 'link'));
    for (const output of ['profile.json', './profile.json', 'link']) {
      const { code, stderr } = run(folder, 'profile.json', '-o', output);
      assert.equal(
        stderr,
        `web-locks: --output is ${output}, which is the profile itself; expected another file.\n` +
          'See: web-locks report --help\n',
      );
      assert.equal(code, 64);
    }
    assert.equal(fs.readFileSync(path.join(folder, 'profile.json'), 'utf8'), before);
  });

  it('ends with 66 if the page cannot be written', (t) => {
    const folder = folderFor(t);
    write(folder, 'profile.json');
    const { code, stderr } = run(folder, 'profile.json', '-o', 'none/page.html');
    assert.equal(
      stderr,
      'web-locks: none/page.html cannot be written: no such file or directory.\n',
    );
    assert.equal(code, 66);
  });
});
