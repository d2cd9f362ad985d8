'use strict';

/**
 * Runs the tests in Bun and Deno from npm, after a build: `npm run test:runtimes`. The tests of the
 * specification run in the main thread and in a worker. It needs the npm registry.
 *
 *   --all   also runs the tests of the extensions, which hardly differ between runtimes
 */

const { execFile } = require('node:child_process');
const { mkdtempSync, readdirSync, rmSync } = require('node:fs');
const { tmpdir } = require('node:os');
const path = require('node:path');
const { promisify } = require('node:util');

const versions = require('./versions.js');

const execute = promisify(execFile);
const root = path.join(__dirname, '..', '..');
const HARNESS = path.join(__dirname, 'harness.js');
const RUNTIMES = [
  { name: 'bun', parameters: [] },
  { name: 'deno', parameters: ['run', '--quiet', '--allow-all'] },
];

/** The test files of a folder, each in the given kinds of threads. */
const filesOf = (folder, ...threads) =>
  readdirSync(path.join(root, 'test', folder))
    .filter((file) => file.endsWith('.test.js') && file !== 'spec-in-a-worker.test.js')
    .flatMap((file) => threads.map((thread) => [path.join('test', folder, file), thread]));

const FILES = [
  ...filesOf('spec', 'main', 'worker'),
  ...filesOf('threads', 'main'),
  ...(process.argv.includes('--all') ? filesOf('extensions', 'main') : []),
];

/** @returns {Promise<boolean>} whether all tests of the file passed */
async function runFile(program, parameters, file, thread) {
  const count = (output, word) => output.split(`\n${word}: `).length - 1;
  try {
    const { stdout } = await execute(
      program,
      [...parameters, HARNESS, path.join(root, file), thread],
      // A file that hangs fails instead of blocking the others.
      { cwd: root, env: { ...process.env, NO_COLOR: '1' }, timeout: 600_000 },
    );
    const output = `\n${stdout}`;
    const passed = count(output, 'passed');
    const left = count(output, 'left out');
    console.log(`${file} (${thread}): ${passed} passed${left ? `, ${left} left out` : ''}`);
    return passed > 0;
  } catch (error) {
    console.log(`${file} (${thread}): ${error.message}\n${error.stdout}`);
    return false;
  }
}

async function main() {
  const folder = mkdtempSync(path.join(tmpdir(), 'web-locks-runtimes-'));
  try {
    const packages = RUNTIMES.map(({ name }) => `${name}@${versions[name]}`);
    await execute('npm', ['install', '--no-audit', '--no-fund', '--prefix', folder, ...packages]);
    for (const { name, parameters } of RUNTIMES) {
      console.log(`\n${name} ${versions[name]}`);
      const program = path.join(folder, 'node_modules', '.bin', name);
      for (const [file, thread] of FILES) {
        if (!(await runFile(program, parameters, file, thread))) process.exitCode = 1;
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

main();
