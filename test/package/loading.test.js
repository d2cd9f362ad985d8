// slow: 22; long

'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const {
  cpSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} = require('node:fs');
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
  const folder = realpathSync(freshDirectory(t));
  cpSync(path.join(root, 'lib'), path.join(folder, 'lib'), { recursive: true });
  cpSync(path.join(root, BINARY), path.join(folder, BINARY));
  return { folder, entry: path.join(folder, 'lib', 'index.js'), binary: path.join(folder, BINARY) };
}

/** Changes a binary where a text stands in it. */
function patch(binary, text, change) {
  const bytes = readFileSync(binary);
  const at = bytes.indexOf(text, 'latin1');
  assert.ok(at > 0);
  change(bytes, at);
  writeFileSync(binary, bytes);
}

/** Runs Node.js. @returns {Promise<string>} its output */
async function run(args, env = {}, cwd = undefined) {
  const options = { cwd, env: { ...process.env, ...env } };
  return (await promisify(execFile)(process.execPath, args, options)).stdout;
}
const requiring = (file) => `require(${JSON.stringify(file)})`;

/** Checks that a program fails, and that its errors have these texts. */
async function fails(running, ...texts) {
  const { stderr } = await running.then(assert.fail, (error) => error);
  for (const text of texts) {
    if (text instanceof RegExp) assert.match(stderr, text);
    else assert.ok(stderr.includes(text), stderr);
  }
}

/** Evaluates the package's files anew, as test runners do, and returns the other instance. */
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
async function areOne(one, other) {
  const name = freshName();
  const held = await hold(one, name);
  assert.deepEqual(await stateOf(other, name), { held: ['exclusive'], pending: [] });
  const next = hold(other, name);
  assert.deepEqual(await stateOf(one, name), { held: ['exclusive'], pending: ['exclusive'] });
  await held.release();
  await (await next).release();
  const robbed = await hold(one, name);
  const thief = await hold(other, name, { steal: true });
  // They are two agents, and a held lock does not keep its agent's event loop alive to hear of a
  // steal.
  const alive = setInterval(() => {}, 1e6);
  await assert.rejects(robbed.released, { name: 'AbortError' });
  clearInterval(alive);
  await thief.release();
  assert.deepEqual(await stateOf(one, name), FREE);
}

describe('loading the package several times: one manager per bucket and process', () => {
  for (const [title, folder] of [
    ['a cleared require cache', root],
    ['a module registry that keeps native addons', path.join(root, 'lib')],
  ]) {
    it(title, async () => {
      const again = requireAnew(entry, (key) => key.startsWith(folder));
      assert.notEqual(again.locks, locks);
      await areOne(locks, again.locks);
    });
  }

  it('a vm context without the platform’s globals', async () => {
    const context = vm.createContext({});
    const registry = new Map();
    const load = (file) => {
      if (registry.has(file)) return registry.get(file).exports;
      const module = { exports: {} };
      registry.set(file, module);
      const source = `(function (exports, require, module, __filename, __dirname) {${readFileSync(file)}\n})`;
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
    await areOne(locks, inContext);
    const { signal } = new AbortController();
    assert.equal(await inContext.request(freshName(), { signal }, () => 7), 7);
    const refused = inContext.request('-', () => {});
    await assert.rejects(refused, { name: 'NotSupportedError' });
    const aborted = inContext.request(freshName(), { signal: AbortSignal.abort() }, () => {});
    await assert.rejects(aborted, { name: 'AbortError' });
  });

  it('two copies of the package on disk, in one thread', async (t) => {
    const copy = require(copyPackage(t).entry);
    assert.notEqual(copy.locks, locks);
    await areOne(locks, copy.locks);
    await areOne(copy.locks, locks);
  });

  it('two copies of the package on disk, in different threads', async (t) => {
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

  it('a copy whose core is incompatible fails to load with an error that names both paths', async (t) => {
    const { binary, entry: copied } = copyPackage(t);
    // The core's version stands behind its magic words (struct wlk_process, src/core/records.h).
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

describe('a binary that cannot be loaded', () => {
  const load = (file, ...more) => run(['-e', requiring(file)], ...more);
  const BUILD = 'npx node-gyp rebuild --directory=node_modules/web-locks/src';

  it('missing: require throws what was tried, for which platform, and the command that builds it', async (t) => {
    const { folder, binary, entry: copied } = copyPackage(t);
    rmSync(path.join(folder, 'build'), { recursive: true });
    const platform = `${process.platform}-${process.arch}`;
    const texts = [/ERR_WEB_LOCKS_NOT_LOADED/, /web_locks\.node: not there/, platform];
    await fails(load(copied), ...texts, binary, BUILD);
  });

  it('of another version: require throws which one it is, and what to do', async (t) => {
    const { folder, binary, entry: copied } = copyPackage(t);
    // The name of an export: a binary without it is an older one.
    patch(binary, 'AGREEMENT\0', (bytes, at) => bytes.write('DIFFERENT', at, 'latin1'));
    const texts = [/ERR_WEB_LOCKS_INCOMPATIBLE/, /different versions of web-locks/, BUILD];
    await fails(load(copied), ...texts, binary, path.join(folder, 'lib'));
  });

  it('of a later version, named by WEB_LOCKS_BINARY: require throws that it does', async (t) => {
    const later = path.join(freshDirectory(t), 'later.cjs');
    const source = `const real = ${requiring(path.join(root, BINARY))};
       module.exports = { ...real, AGREEMENT: real.AGREEMENT + 1 };`;
    writeFileSync(later, source);
    const texts = [/ERR_WEB_LOCKS_INCOMPATIBLE/, /WEB_LOCKS_BINARY names this file/];
    await fails(load(entry, { WEB_LOCKS_BINARY: later }), ...texts, later);
  });

  it('WEB_LOCKS_BINARY names the one that is loaded, and no other is tried', async (t) => {
    const { folder, entry: copied } = copyPackage(t);
    rmSync(path.join(folder, 'build'), { recursive: true });
    const show = (WEB_LOCKS_BINARY) =>
      run(['-p', `${requiring(copied)}.locks`], { WEB_LOCKS_BINARY });
    assert.match(await show(path.join(root, BINARY)), /LockManager/);
    const other = path.join(folder, 'other.node');
    await fails(show(other), other, /^(?![\s\S]*build.Release)/);
  });

  it('addons are not allowed: require throws which flag allows them', async () => {
    const flags = process.allowedNodeEnvironmentFlags;
    const permission = flags.has('--permission') ? '--permission' : '--experimental-permission';
    for (const given of [[permission, '--allow-fs-read=*'], ['--no-addons']]) {
      const texts = [/ERR_WEB_LOCKS_NOT_LOADED/, /with --allow-addons/, /^(?![\s\S]*node-gyp)/];
      await fails(run([...given, '-e', requiring(entry)]), ...texts);
    }
  });

  it('damaged: require throws why the loader refused it', async (t) => {
    const { binary, entry: copied } = copyPackage(t);
    writeFileSync(binary, 'not a binary');
    await fails(load(copied), /ERR_WEB_LOCKS_NOT_LOADED/, /web_locks\.node: (?!not there)\S/);
  });
});

describe('the binary of the package', {
  skip: process.platform !== 'linux' && 'Linux only',
}, () => {
  /** Runs a program in a copy of the package whose only binary is for `libc`: '' or '-musl'. */
  const loads = async (t, libc, program) => {
    const { folder, binary, entry: copied } = copyPackage(t);
    const prebuild = path.join(folder, 'prebuilds', `linux-${process.arch}${libc}`);
    mkdirSync(prebuild, { recursive: true });
    renameSync(binary, path.join(prebuild, 'web_locks.node'));
    const prelude = `const program = ${JSON.stringify(path.join(folder, 'program'))};
      const write = (text) => require('node:fs').writeFileSync(program, text);`;
    const show = `console.log(String(${requiring(copied)}.locks));`;
    assert.equal(await run(['-e', prelude + program + show]), '[object LockManager]\n');
  };
  const { glibcVersionRuntime } = process.report.getReport().header;
  const libc = glibcVersionRuntime === undefined ? '-musl' : '';

  it('is chosen by the loader that this process’s program names, without a diagnostic report', (t) =>
    loads(t, libc, `process.report.getReport = () => { throw new Error('asked for a report'); };`));

  for (const [loader, chosen] of [
    ['/lib/ld-musl-x86_64.so.1', '-musl'],
    ['/lib64/ld-linux-x86-64.so.2', ''],
    ['/nix/store/0-glibc-2.40/lib/ld-linux-aarch64.so.1', ''],
  ]) {
    it(`is that of linux-${process.arch}${chosen} for ${loader}`, (t) =>
      loads(t, chosen, `write('\\x7fELF\\0${loader}\\0'); process.execPath = program;`));
  }

  it('is chosen by a diagnostic report where the program names no loader, or cannot be read', async (t) => {
    for (const program of ["''", 'program'])
      await loads(t, libc, `write('no loader'); process.execPath = ${program};`);
  });
});

it('a relative WEB_LOCKS_BINARY names the same file for workers after process.chdir()', async () => {
  const program = `
    const { Worker } = require('node:worker_threads');
    ${requiring(entry)};
    process.chdir(require('node:os').tmpdir());
    new Worker('console.log(String(${requiring(entry)}.locks))', { eval: true });`;
  const stdout = await run(['-e', program], { WEB_LOCKS_BINARY: BINARY }, root);
  assert.equal(stdout, '[object LockManager]\n');
});
