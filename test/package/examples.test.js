// slow: 21; long

'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, describe, it } = require('node:test');
const { promisify } = require('node:util');
const { locks: nodeLocks } = require('node:worker_threads');
const { lacksHost } = require('../helpers/host-scope.js');

const run = promisify(execFile);

const expected = {
  'handles.js': 'holds report\nanother one, if it is free: null\nreleased: true\n',
  'timeout.js': 'TimeoutError held by a long document\n',
  'losing.js': 'the first leads\nthe first lost leader\na thief leads\nthe first stops\n',
  'several.js': '{ alice: 50, bob: 150 }\n',
  'hold-timeout.js':
    'TimeoutError held at least 50 ms: true\nthe next one has it\nthe slow one stops\n',
  'reentrant.js': '1 lock for all\n{ alice: 57, bob: 150 }\n',
  'mutex.js': '0 1 2 3 4\nif it is free: null\nTimeoutError\nlocked: false\n',
  'details.js':
    'held for: nightly run\nwaits: on demand, blocked by: nightly run\n' +
    'ended: report, nightly run\nended: report, on demand\n',
  'sync.js': '200 lines, in pairs: true\n',
  'semaphore.js': 'most at a time: 4\navailable: 1\ntwo more: null\none more: true\n',
  'fencing.js': 'the thief: saved\nthe slow writer: refused\nnew\n',
  'back-pressure.js':
    '1 prints, 2 wait\none: printed\ntwo: printed\nthree: printed\nfour: come back later\n',
  'priority.js': 'prints a ticket\nprints a letter\nprints another letter\nprints a newsletter\n',
  'publish.js':
    "imports one: { at: 'http://10.0.0.7:8080', done: 0, of: 3 }\n" +
    "imports two: { at: 'http://10.0.0.7:8080', done: 1, of: 3 }\n" +
    "imports three: { at: 'http://10.0.0.7:8080', done: 2, of: 3 }\n" +
    'imports nothing: nobody holds the lock\n',
  'cluster.js': 'needs the package pg, and DATABASE_URL=postgres://user@host/database\n',
  'deadlock.js': 'had both\ncycle: a a b b\n',
};

if (!lacksHost) {
  expected['processes.js'] =
    'the first holds the printer\nthe first has it: true\n' +
    'waiting: the second, the third\nthe first is killed\nthe second holds the printer\n' +
    'the third holds the printer\nleft: 0\n';
}

/** The output of examples/why.js about one module. */
const why = (module, seen, granted) =>
  `${module}:\n` +
  `  locks that query() sees of another thread: ${seen}\n` +
  `  a request whose holder was terminated: ${granted}\n` +
  `  a request after a callback that threw: ${granted}\n`;

expected['why.js'] =
  (nodeLocks
    ? why('node:worker_threads', 0, 'never granted')
    : 'this Node.js has no locks of its own\n') + why('web-locks', 1, 'granted');

describe('the examples print what they say', () => {
  // The locks are separate from those of concurrent runs of this test.
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-examples-'));
  const env = { ...process.env, WEB_LOCKS_DIRECTORY: path.join(directory, 'locks') };
  after(() => fs.rmSync(directory, { recursive: true }));

  for (const [file, output] of Object.entries(expected)) {
    it(file, async () => {
      const script = path.join(__dirname, '..', '..', 'examples', file);
      const { stdout, stderr } = await run(process.execPath, [script], { env });
      assert.equal(stderr, '');
      assert.equal(stdout, output);
    });
  }
});
