// slow: 22; long

'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} = require('node:fs');
const { createRequire } = require('node:module');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const vm = require('node:vm');
const { locks } = require('../../lib/index.js');
const { FREE, freshName, hold, stateOf } = require('../helpers/locks.js');
const { RemoteAgent } = require('../helpers/remote.js');

const root = path.join(__dirname, '..', '..');
const entry = path.join(root, 'lib', 'index.js');
const BINARY = path.join('build', 'Release', 'web_locks.node');

/** Copies what the package needs at run time to a folder of its own, and returns its entry. */
function copyPackage(t) {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'web-locks-copy-')));
  t.after(() => rmSync(folder, { recursive: true }));
  cpSync(path.join(root, 'lib'), path.join(folder, 'lib'), { recursive: true });
  cpSync(path.join(root, BINARY), path.join(folder, BINARY));
  return { folder, entry: path.join(folder, 'lib', 'index.js') };
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
  it('a cleared require cache', async () => {
    const again = requireAnew(entry, (key) => key.startsWith(root));
    assert.notEqual(again.locks, locks);
    await areOne(locks, again.locks);
  });

  it('a module registry that keeps native addons', async () => {
    const again = requireAnew(entry, (key) => key.startsWith(path.join(root, 'lib')));
    assert.notEqual(again.locks, locks);
    await areOne(again.locks, locks);
  });

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
      vm.runInContext(source, context, { filename: file })(
        module.exports,
        localRequire,
        module,
        file,
        path.dirname(file),
      );
      return module.exports;
    };
    const { locks: inContext } = load(entry);
    await areOne(locks, inContext);
    const { signal } = new AbortController();
    assert.equal(await inContext.request(freshName(), { signal }, () => 7), 7);
    await assert.rejects(
      inContext.request('-', () => {}),
      { name: 'NotSupportedError' },
    );
    await assert.rejects(
      inContext.request(freshName(), { signal: AbortSignal.abort() }, () => {}),
      { name: 'AbortError' },
    );
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

  it('a copy whose core is incompatible fails to load with an error that names both paths', async (t) => {
    const { folder, entry: copied } = copyPackage(t);
    // The core's version stands behind its magic words (struct wlk_process, src/core/records.h).
    const binary = path.join(folder, BINARY);
    const bytes = readFileSync(binary);
    const at = bytes.indexOf('web-locks core\0\0', 'latin1');
    assert.ok(at > 0);
    bytes.writeUInt32LE(bytes.readUInt32LE(at + 16) + 1, at + 16);
    writeFileSync(binary, bytes);
    assert.throws(
      () => require(copied),
      (error) => {
        assert.equal(error.code, 'ERR_WEB_LOCKS_INCOMPATIBLE');
        assert.ok(error.message.includes(binary), error.message);
        assert.ok(error.message.includes(path.join(root, BINARY)), error.message);
        return true;
      },
    );
    const name = freshName();
    await locks.request(name, () => {});
  });
});

describe('a binary that cannot be loaded', () => {
  const load = (file) =>
    promisify(execFile)(process.execPath, ['-e', `require(${JSON.stringify(file)})`]);

  it('missing: require throws what was tried, for which platform, and the command that builds it', async (t) => {
    const { folder, entry: copied } = copyPackage(t);
    rmSync(path.join(folder, 'build'), { recursive: true });
    await assert.rejects(load(copied), ({ stderr }) => {
      assert.match(stderr, /ERR_WEB_LOCKS_NOT_LOADED/);
      assert.ok(stderr.includes(`${process.platform}-${process.arch}`));
      assert.ok(stderr.includes(path.join(folder, BINARY)));
      assert.match(stderr, /web_locks\.node: not there/);
      assert.ok(stderr.includes('npx node-gyp rebuild --directory=node_modules/web-locks/src'));
      return true;
    });
  });

  it('of another version: require throws which one it is, and what to do', async (t) => {
    const { folder, entry: copied } = copyPackage(t);
    // The name of an export: a binary without it is an older one.
    const binary = path.join(folder, BINARY);
    const bytes = readFileSync(binary);
    const at = bytes.indexOf('AGREEMENT\0', 'latin1');
    assert.ok(at > 0);
    bytes.write('DIFFERENT', at, 'latin1');
    writeFileSync(binary, bytes);
    await assert.rejects(load(copied), ({ stderr }) => {
      assert.match(stderr, /ERR_WEB_LOCKS_INCOMPATIBLE/);
      assert.match(stderr, /different versions of web-locks/);
      assert.ok(stderr.includes(binary), stderr);
      assert.ok(stderr.includes(path.join(folder, 'lib')), stderr);
      assert.ok(stderr.includes('npx node-gyp rebuild --directory=node_modules/web-locks/src'));
      return true;
    });
  });

  it('of a later version, named by WEB_LOCKS_BINARY: require throws that it does', async (t) => {
    const { folder } = copyPackage(t);
    const later = path.join(folder, 'later.cjs');
    writeFileSync(
      later,
      `const real = require(${JSON.stringify(path.join(root, BINARY))});
       module.exports = { ...real, AGREEMENT: real.AGREEMENT + 1 };`,
    );
    const env = { ...process.env, WEB_LOCKS_BINARY: later };
    const code = `require(${JSON.stringify(entry)})`;
    await assert.rejects(
      promisify(execFile)(process.execPath, ['-e', code], { env }),
      ({ stderr }) => {
        assert.match(stderr, /ERR_WEB_LOCKS_INCOMPATIBLE/);
        assert.ok(stderr.includes(later), stderr);
        assert.match(stderr, /WEB_LOCKS_BINARY names this file/);
        return true;
      },
    );
  });

  it('WEB_LOCKS_BINARY names the one that is loaded, and no other is tried', async (t) => {
    const { folder, entry: copied } = copyPackage(t);
    rmSync(path.join(folder, 'build'), { recursive: true });
    const run = (binary) =>
      promisify(execFile)(process.execPath, ['-p', `require(${JSON.stringify(copied)}).locks`], {
        env: { ...process.env, WEB_LOCKS_BINARY: binary },
      });
    assert.match((await run(path.join(root, BINARY))).stdout, /LockManager/);
    await assert.rejects(run(path.join(folder, 'other.node')), ({ stderr }) => {
      assert.ok(stderr.includes(path.join(folder, 'other.node')));
      assert.ok(!stderr.includes(BINARY));
      return true;
    });
  });

  it('addons are not allowed: require throws which flag allows them', async () => {
    const flags = process.allowedNodeEnvironmentFlags;
    const permission = flags.has('--permission') ? '--permission' : '--experimental-permission';
    const code = `require(${JSON.stringify(entry)})`;
    for (const given of [[permission, '--allow-fs-read=*'], ['--no-addons']]) {
      const run = promisify(execFile)(process.execPath, [...given, '-e', code]);
      await assert.rejects(run, ({ stderr }) => {
        assert.match(stderr, /ERR_WEB_LOCKS_NOT_LOADED/);
        assert.match(stderr, /with --allow-addons/);
        assert.doesNotMatch(stderr, /node-gyp/);
        return true;
      });
    }
  });

  it('damaged: require throws why the loader refused it', async (t) => {
    const { folder, entry: copied } = copyPackage(t);
    writeFileSync(path.join(folder, BINARY), 'not a binary');
    await assert.rejects(load(copied), ({ stderr }) => {
      assert.match(stderr, /ERR_WEB_LOCKS_NOT_LOADED/);
      assert.match(stderr, /web_locks\.node: (?!not there)\S/);
      return true;
    });
  });
});

describe('the binary of the package', {
  skip: process.platform !== 'linux' && 'Linux only',
}, () => {
  /** Runs a program in a copy of the package whose only binary is for `libc`: '' or '-musl'. */
  const runWith = async (t, libc, program) => {
    const { folder, entry: copied } = copyPackage(t);
    const prebuild = path.join(folder, 'prebuilds', `linux-${process.arch}${libc}`);
    mkdirSync(prebuild, { recursive: true });
    renameSync(path.join(folder, BINARY), path.join(prebuild, 'web_locks.node'));
    const prelude = `const entry = ${JSON.stringify(copied)};
      const program = ${JSON.stringify(path.join(folder, 'program'))};`;
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', prelude + program]);
    return stdout;
  };
  const { glibcVersionRuntime } = process.report.getReport().header;
  const libc = glibcVersionRuntime === undefined ? '-musl' : '';

  it('is chosen by the loader that this process’s program names, without a diagnostic report', async (t) => {
    const stdout = await runWith(
      t,
      libc,
      `process.report.getReport = () => { throw new Error('asked for a report'); };
       console.log(String(require(entry).locks));`,
    );
    assert.equal(stdout, '[object LockManager]\n');
  });

  for (const [loader, chosen] of [
    ['/lib/ld-musl-x86_64.so.1', '-musl'],
    ['/lib64/ld-linux-x86-64.so.2', ''],
    ['/nix/store/0-glibc-2.40/lib/ld-linux-aarch64.so.1', ''],
  ]) {
    it(`is that of linux-${process.arch}${chosen} for ${loader}`, async (t) => {
      const stdout = await runWith(
        t,
        chosen,
        `require('node:fs').writeFileSync(program, '\\x7fELF\\0${loader}\\0');
         process.execPath = program;
         console.log(String(require(entry).locks));`,
      );
      assert.equal(stdout, '[object LockManager]\n');
    });
  }

  it('is chosen by a diagnostic report where the program names no loader, or cannot be read', async (t) => {
    for (const program of ["''", 'program']) {
      const stdout = await runWith(
        t,
        libc,
        `require('node:fs').writeFileSync(program, 'no loader');
         process.execPath = ${program};
         console.log(String(require(entry).locks));`,
      );
      assert.equal(stdout, '[object LockManager]\n');
    }
  });
});

describe('a relative WEB_LOCKS_BINARY', () => {
  it('names the same file for workers after the process changed its directory', async () => {
    const program = `
      const { Worker } = require('node:worker_threads');
      require(${JSON.stringify(entry)});
      process.chdir(require('node:os').tmpdir());
      new Worker('console.log(String(require(${JSON.stringify(entry)}).locks))', { eval: true });`;
    const { stdout } = await promisify(execFile)(process.execPath, ['-e', program], {
      cwd: root,
      env: { ...process.env, WEB_LOCKS_BINARY: BINARY },
    });
    assert.equal(stdout, '[object LockManager]\n');
  });
});
