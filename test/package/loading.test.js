// slow: 22; long

'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const vm = require('node:vm');
const { locks } = require('../../lib/index.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');
const { freshDirectory } = require('../helpers/process.js');
const { RemoteAgent } = require('../helpers/remote.js');

const root = path.join(__dirname, '..', '..');
const entry = path.join(root, 'lib', 'index.js');
const BINARY = path.join('build', 'Release', 'web_locks.node');

/** Copies what the package needs at run time to a folder of its own. */
function copyPackage(t) {
  const folder = fs.realpathSync(freshDirectory(t));
  fs.cpSync(path.join(root, 'lib'), path.join(folder, 'lib'), { recursive: true });
  fs.cpSync(path.join(root, BINARY), path.join(folder, BINARY));
  return { folder, entry: path.join(folder, 'lib', 'index.js'), binary: path.join(folder, BINARY) };
}

/** Changes a binary at the place of a text. */
function patch(binary, text, change) {
  const bytes = fs.readFileSync(binary);
  const at = bytes.indexOf(text, 'latin1');
  assert.ok(at > 0);
  change(bytes, at);
  fs.writeFileSync(binary, bytes);
}

/** @returns {Promise<string>} the output of Node.js with these arguments */
async function run(args, env = {}, cwd = undefined) {
  const options = { cwd, env: { ...process.env, ...env } };
  return (await promisify(execFile)(process.execPath, args, options)).stdout;
}
const requiring = (file) => `require(${JSON.stringify(file)})`;

/** Evaluates the package's files again, as test runners do. @returns the other instance */
function requireAnew(file, isCleared) {
  const kept = new Map();
  for (const key of Object.keys(require.cache).filter(isCleared)) {
    kept.set(key, require.cache[key]);
    delete require.cache[key];
  }
  const exports = require(file);
  for (const [key, module] of kept) require.cache[key] = module;
  return exports;
}

/** Checks that two lock managers are views of the same one. */
async function checkOne(one, other) {
  const name = freshName();
  const held = await hold(one, name);
  assert.deepEqual(await stateOf(other, name), { held: ['exclusive'], pending: [] });
  const next = hold(other, name);
  assert.deepEqual(await stateOf(one, name), { held: ['exclusive'], pending: ['exclusive'] });
  await held.release();
  await (await next).release();
  const robbed = await hold(one, name);
  const thief = await hold(other, name, { steal: true });
  // The holder is another agent, whose lock does not keep the event loop alive until the steal.
  const alive = setInterval(() => {}, 1e6);
  await assert.rejects(robbed.released, { name: 'AbortError' });
  clearInterval(alive);
  await thief.release();
  assert.deepEqual(await stateOf(one, name), FREE);
}

describe('a process has one lock manager for each bucket, whatever reloads the package:', () => {
  it('a cleared require cache, also where native addons are kept', async () => {
    for (const folder of [root, path.join(root, 'lib')]) {
      const again = requireAnew(entry, (key) => key.startsWith(folder));
      assert.notEqual(again.locks, locks);
      await checkOne(locks, again.locks);
    }
  });

  it('a vm context without the platform’s globals', async () => {
    const context = vm.createContext({});
    const registry = new Map();
    const load = (file) => {
      if (registry.has(file)) return registry.get(file).exports;
      const module = { exports: {} };
      registry.set(file, module);
      const parameters = 'exports, require, module, __filename, __dirname';
      const source = `(function (${parameters}) {${fs.readFileSync(file)}\n})`;
      const nodeRequire = createRequire(file);
      const localRequire = (id) => {
        const target = nodeRequire.resolve(id);
        return target.startsWith(path.join(root, 'lib')) ? load(target) : nodeRequire(id);
      };
      const evaluate = vm.runInContext(source, context, { filename: file });
      evaluate(module.exports, localRequire, module, file, path.dirname(file));
      return module.exports;
    };
    const { locks: inContext } = load(entry);
    await checkOne(locks, inContext);
    const aborted = inContext.request(freshName(), { signal: AbortSignal.abort() }, () => {});
    await assert.rejects(aborted, { name: 'AbortError' });
  });

  it('two copies of the package on disk in one thread', async (t) => {
    const copy = require(copyPackage(t).entry);
    assert.notEqual(copy.locks, locks);
    await checkOne(locks, copy.locks);
  });

  it('two copies of the package on disk in different threads', async (t) => {
    const remote = await RemoteAgent.start(t, { entry: copyPackage(t).entry });
    const name = freshName();
    const there = await remote.hold(name);
    assert.deepEqual(await stateOf(locks, name), { held: ['exclusive'], pending: [] });
    const robbed = await hold(locks, name, { steal: true });
    assert.equal((await there.settled).error.name, 'AbortError');
    const waiting = await remote.request(name);
    await robbed.release();
    await waiting.granted;
    const next = hold(locks, name);
    await remote.end('terminate');
    await (await next).release();
  });

  it('copies that only short-lived workers load', async (t) => {
    const { entry: copied } = copyPackage(t);
    for (let i = 0; i < 10; i++) {
      const name = freshName();
      const [one, other] = await Promise.all([
        RemoteAgent.start(t, { entry: copied }),
        RemoteAgent.start(t),
      ]);
      await one.hold(name);
      const waiting = await other.request(name);
      await one.end('terminate');
      await waiting.granted;
      await other.end('terminate');
    }
  });

  it('copies that two threads load at the same moment', async (t) => {
    const program = `
      const { Worker } = require('node:worker_threads');
      const memory = new Int32Array(new SharedArrayBuffer(8));
      for (const entry of ${JSON.stringify([entry, copyPackage(t).entry])}) new Worker(\`
        const { memory, entry } = require('node:worker_threads').workerData;
        Atomics.add(memory, 0, 1);
        while (Atomics.load(memory, 0) < 2);
        const { locks } = require(entry);
        Atomics.add(memory, 0, 1);
        while (Atomics.load(memory, 0) < 4);
        if (locks.tryAcquireSync('a')) Atomics.add(memory, 1, 1);
        Atomics.add(memory, 0, 1);
        while (Atomics.load(memory, 0) < 6);
        if (memory[1] !== 1) throw new Error(memory[1] + ' have the lock');
      \`, { eval: true, workerData: { memory, entry } });`;
    for (let i = 0; i < 10; i++) await run(['-e', program]);
  });

  it('refuses a copy whose core is incompatible, with the paths of both', async (t) => {
    const { binary, entry: copied } = copyPackage(t);
    // The core's version follows its magic words (struct wlk_process, src/core/records.h).
    patch(binary, 'web-locks core\0\0', (bytes, at) =>
      bytes.writeUInt32LE(bytes.readUInt32LE(at + 16) + 1, at + 16),
    );
    const isRight = ({ code, message }) =>
      code === 'ERR_WEB_LOCKS_INCOMPATIBLE' &&
      [binary, path.join(root, BINARY)].every((file) => message.includes(file));
    assert.throws(() => require(copied), isRight);
    await locks.request(freshName(), () => {});
  });
});

describe('require throws an error that says what to do about a binary', () => {
  const BUILD = 'npx node-gyp rebuild --directory=node_modules/web-locks/src';
  const noBuild = ({ folder }) => fs.rmSync(path.join(folder, 'build'), { recursive: true });
  const flags = process.allowedNodeEnvironmentFlags;
  const permission = flags.has('--permission') ? '--permission' : '--experimental-permission';
  const withoutAddons = [/ERR_WEB_LOCKS_NOT_LOADED/, /with --allow-addons/, /^(?![\s\S]*node-gyp)/];
  /** Makes a binary that claims a later version. */
  const writeLater = ({ folder }) => {
    const real = requiring(path.join(root, BINARY));
    const source = `module.exports = { ...${real}, AGREEMENT: ${real}.AGREEMENT + 1 };`;
    fs.writeFileSync(path.join(folder, 'later.cjs'), source);
  };

  /** For each title: how a copy is harmed, what the error contains, flags, and the binary. */
  for (const [title, harm, texts, { args = [], named } = {}] of [
    [
      'that is missing',
      noBuild,
      [/NOT_LOADED/, /web_locks\.node: not there/, `${process.platform}-${process.arch}`, BUILD],
    ],
    [
      'of an older version, which lacks an export',
      ({ binary }) =>
        patch(binary, 'AGREEMENT\0', (bytes, at) => bytes.write('DIFFERENT', at, 'latin1')),
      [/ERR_WEB_LOCKS_INCOMPATIBLE/, /different versions of web-locks/, BUILD],
    ],
    [
      'of a later version, which WEB_LOCKS_BINARY names',
      writeLater,
      [/ERR_WEB_LOCKS_INCOMPATIBLE/, /WEB_LOCKS_BINARY names this file/, 'later.cjs'],
      { named: 'later.cjs' },
    ],
    [
      'that WEB_LOCKS_BINARY names, and tries no other',
      () => {},
      ['other.node', /^(?![\s\S]*build.Release)/],
      { named: 'other.node' },
    ],
    [
      'that the loader refuses',
      ({ binary }) => fs.writeFileSync(binary, 'not a binary'),
      [/ERR_WEB_LOCKS_NOT_LOADED/, /web_locks\.node: (?!not there)\S/],
    ],
    ['under --no-addons', () => {}, withoutAddons, { args: ['--no-addons'] }],
    [
      'under the permission model',
      () => {},
      withoutAddons,
      { args: [permission, '--allow-fs-read=*'] },
    ],
  ]) {
    it(title, async (t) => {
      const copy = copyPackage(t);
      harm(copy);
      const env = named ? { WEB_LOCKS_BINARY: path.join(copy.folder, named) } : {};
      const running = run([...args, '-e', requiring(copy.entry)], env);
      const { stderr } = await running.then(assert.fail, (error) => error);
      for (const text of texts) {
        if (text instanceof RegExp) assert.match(stderr, text);
        else assert.ok(stderr.includes(text), stderr);
      }
    });
  }
});

describe('the binary of the package', {
  skip: process.platform !== 'linux' && 'Linux only',
}, () => {
  /** Runs a program in a copy of the package whose only binary is for `libc`: '' or '-musl'. */
  const loads = async (t, libc, program) => {
    const { folder, binary, entry: copied } = copyPackage(t);
    const prebuild = path.join(folder, 'prebuilds', `linux-${process.arch}${libc}`);
    fs.mkdirSync(prebuild, { recursive: true });
    fs.renameSync(binary, path.join(prebuild, 'web_locks.node'));
    const prelude = `const program = ${JSON.stringify(path.join(folder, 'program'))};
      const write = (text) => require('node:fs').writeFileSync(program, text);`;
    const show = `console.log(String(${requiring(copied)}.locks));`;
    assert.equal(await run(['-e', prelude + program + show]), '[object LockManager]\n');
  };
  const { glibcVersionRuntime } = process.report.getReport().header;
  const libc = glibcVersionRuntime === undefined ? '-musl' : '';

  it('is chosen by the loader of the running program, without a diagnostic report', (t) =>
    loads(t, libc, `process.report.getReport = () => { throw new Error('asked for a report'); };`));

  for (const [loader, chosen] of [
    ['/lib/ld-musl-x86_64.so.1', '-musl'],
    ['/lib64/ld-linux-x86-64.so.2', ''],
    ['/nix/store/0-glibc-2.40/lib/ld-linux-aarch64.so.1', ''],
  ]) {
    it(`is linux-${process.arch}${chosen} for ${loader}`, (t) =>
      loads(t, chosen, `write('\\x7fELF\\0${loader}\\0'); process.execPath = program;`));
  }

  it('is chosen by a diagnostic report if the program’s loader is unknown', async (t) => {
    for (const program of ["''", 'program'])
      await loads(t, libc, `write('no loader'); process.execPath = ${program};`);
  });
});

it('a relative WEB_LOCKS_BINARY is the same file in workers after process.chdir()', async () => {
  const program = `
    const { Worker } = require('node:worker_threads');
    ${requiring(entry)};
    process.chdir(require('node:os').tmpdir());
    new Worker('console.log(String(${requiring(entry)}.locks))', { eval: true });`;
  const stdout = await run(['-e', program], { WEB_LOCKS_BINARY: BINARY }, root);
  assert.equal(stdout, '[object LockManager]\n');
});
