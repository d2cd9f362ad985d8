'use strict';

/** Controls an agent in another process (test/fixtures/process.js) as if it were in this one. */

const { fork } = require('node:child_process');
const { once } = require('node:events');
const { cpSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { openBucket } = require('../../lib/host.js');
const { endAll, endWith } = require('./ending.js');
const { RemoteClient } = require('./remote-client.js');
const { root: directories } = require('./root.js');

const ROOT = path.join(__dirname, '..', '..');
const FIXTURES = path.join('test', 'fixtures');

class RemoteProcess extends RemoteClient {
  /**
   * Starts a process and waits until it has loaded the package.
   * @param {any} t the test, which kills it at its end
   * @param {{ bucket?: string, directory?: string, options?: object, root?: string }} [where]
   * `root`: of another copy of the package
   */
  static async start(t, { options, root = ROOT, ...where } = {}) {
    const child = fork(path.join(root, FIXTURES, 'process.js'), [JSON.stringify(where)], {
      stdio: 'inherit',
      serialization: 'advanced',
      ...options,
    });
    const remote = new RemoteProcess(child);
    endWith(t, child);
    await once(child, 'message');
    child.on('message', (message) => remote.receive(message));
    return remote;
  }

  constructor(child) {
    super((message) => child.send(message));
    this.child = child;
    this.pid = child.pid;
    /** Resolves to `{ code, signal }`. */
    this.exited = new Promise((resolve) => {
      child.once('exit', (code, signal) => resolve({ code, signal }));
    });
  }

  kill(signal = 'SIGKILL') {
    this.child.kill(signal);
  }
}

/** A directory that is removed when the test and its processes end; in memory, like the default. */
function freshDirectory(t) {
  const directory = mkdtempSync(path.join(directories, 'web-locks-test-'));
  t.after(async () => {
    await endAll(t);
    // On Windows a file exists until its last handle is closed, which is late for a killed process.
    rmSync(directory, { recursive: true, force: true, maxRetries: 10 });
  });
  return directory;
}

/**
 * A bucket of this test alone: opened here, and as `where` for `RemoteProcess.start`.
 * @returns {{ bucket: any, locks: any, where: { bucket: string, directory: string } }}
 */
function freshBucket(t, name = 'bucket') {
  // Hooks run in order: the bucket is closed before its directory is removed.
  let bucket;
  t.after(() => bucket.close());
  const where = { bucket: name, directory: freshDirectory(t) };
  bucket = openBucket(name, { directory: where.directory });
  return { bucket, locks: bucket.locks, where };
}

/** A copy of the package with another version. @returns {string} its root */
function copyOfVersion(t, version) {
  const root = freshDirectory(t);
  for (const part of ['lib', path.join(FIXTURES, 'process.js'), path.join(FIXTURES, 'serve.js')]) {
    cpSync(path.join(ROOT, part), path.join(root, part), { recursive: true });
  }
  for (const binaries of ['build', 'prebuilds']) {
    symlinkSync(path.join(ROOT, binaries), path.join(root, binaries));
  }
  const manifest = { ...require('../../package.json'), version };
  writeFileSync(path.join(root, 'package.json'), JSON.stringify(manifest));
  return root;
}

/** Queries a name until a condition holds. It pauses in between, so that others can run. */
async function untilQuery(locks, name, isSo) {
  for (;;) {
    const found = await locks.query({ name });
    if (isSo(found)) return found;
    await sleep(2);
  }
}

/** Waits until `locks` has at least `count` requests pending on a name. */
const pendingOn = async (locks, name, count = 1) =>
  (await untilQuery(locks, name, ({ pending }) => pending.length >= count)).pending;

/** Waits until `locks` has exactly `count` requests pending on a name. */
const pendingIs = (locks, name, count) =>
  untilQuery(locks, name, ({ pending }) => pending.length === count);

module.exports = {
  RemoteProcess,
  copyOfVersion,
  freshBucket,
  freshDirectory,
  pendingIs,
  pendingOn,
};
