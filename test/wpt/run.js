'use strict';

/**
 * Runs the Web Platform Tests of web-locks: `npm run test:wpt -- DIR`, where DIR is a checkout of
 * the Web Platform Tests, or has its folders `web-locks`, `resources` and `interfaces`. Each file
 * runs in the main thread and in a worker, in the scopes of process, host and memory.
 *
 *   --scope SCOPE      runs one scope (test/conformance/scopes.js)
 *   --program COMMAND  runs the files by another runtime, such as 'npx -y node@26' or 'npx -y bun'
 *   --own              judges the runtime's own `navigator.locks` instead, and only counts
 *
 * expected.json lists the subtests that fail, with the reason and, if they do not fail everywhere,
 * with the scopes, the runtime, or the runtime in which they pass (`except`). The exit code is 1 if
 * another one fails, or if one of these passes.
 */

const { execFile } = require('node:child_process');
const { existsSync, readdirSync } = require('node:fs');
const path = require('node:path');
const { parseArgs, promisify } = require('node:util');
const { scopes } = require('../conformance/scopes.js');
const expected = require('./expected.json');

const execute = promisify(execFile);
const HARNESS = path.join(__dirname, 'harness.js');

/** Stands for a scope: the runtime's own locks. */
const OWN = "the runtime's own";

/** A file without an answer for so long (in milliseconds) has failed. */
const LIMIT = 120_000;

/** The pages that need no frames. The others test browsers. */
const PAGES = ['workers.https.html'];

/** @param {string} folder @returns {string[]} files that can run without a browser */
const filesOf = (folder) =>
  readdirSync(path.join(folder, 'web-locks'))
    .filter((file) => file.endsWith('.https.any.js') || PAGES.includes(file))
    .map((file) => path.join(folder, 'web-locks', file));

/** @returns {Promise<{ name: string, passed: boolean, message?: string }[]>} */
async function resultsOf([program, ...parameters], folder, file, { scope, thread }) {
  const own = scope === OWN ? { WEB_LOCKS_TEST_OWN: '1' } : {};
  const env = {
    ...process.env,
    WEB_LOCKS_TEST_SCOPE: scope === OWN ? 'process' : scope,
    NO_COLOR: '1',
    ...own,
  };
  const args = [...parameters, HARNESS, folder, file, thread];
  try {
    const { stdout } = await execute(program, args, { env, timeout: LIMIT });
    return stdout
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line));
  } catch (error) {
    return [{ name: 'the file itself', passed: false, message: error.stderr || error.message }];
  }
}

/**
 * @param {{ scopes?: string[], runtime?: string, except?: string } | undefined} failure
 * @param {string} scope @param {string} command that runs the file
 */
const isExpected = (failure, scope, command) =>
  failure !== undefined &&
  (failure.scopes?.includes(scope) ?? true) &&
  command.includes(failure.runtime ?? '') &&
  !(failure.except && command.includes(failure.except));

/** @returns {Promise<{ passed: number, failed: number, known: number }>} */
async function runFile(command, folder, file, where) {
  const base = path.basename(file);
  const counts = { passed: 0, failed: 0, known: 0 };
  const results = await resultsOf(command, folder, file, where);
  if (results.length === 0) results.push({ name: 'no subtest ran', passed: false });
  for (const { name, passed, message = '' } of results) {
    const isKnown =
      where.scope !== OWN && isExpected(expected[base]?.[name], where.scope, command.join(' '));
    if (isKnown && !passed) counts.known++;
    else if (passed && !isKnown) counts.passed++;
    else {
      counts.failed++;
      const what = passed ? 'passed, but expected.json has it' : message;
      console.log(`✖ ${base} (${where.scope}, ${where.thread}): ${name}: ${what}`);
    }
  }
  return counts;
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      scope: { type: 'string' },
      program: { type: 'string', default: process.execPath },
      own: { type: 'boolean', default: false },
    },
  });
  const folder = positionals[0] && path.resolve(positionals[0]);
  if (!folder || !existsSync(path.join(folder, 'web-locks'))) {
    console.error('usage: npm run test:wpt -- DIR [--scope SCOPE] [--program COMMAND]');
    process.exitCode = 2;
    return;
  }
  const command =
    values.program === process.execPath ? [values.program] : values.program.split(' ');
  const chosen = values.scope ? [values.scope] : ['process', 'host', 'memory'];
  for (const scope of values.own ? [OWN] : chosen) {
    const sums = { passed: 0, failed: 0, known: 0 };
    for (const file of filesOf(folder)) {
      // A page's own worker must see its locks.
      if (PAGES.includes(path.basename(file)) && scopes[scope]?.lacks.threads) continue;
      for (const thread of ['main', 'worker']) {
        const counts = await runFile(command, folder, file, { scope, thread });
        for (const key of Object.keys(sums)) sums[key] += counts[key];
      }
    }
    const { passed, failed, known } = sums;
    console.log(`${scope}: ${passed} passed, ${failed} failed, ${known} expected failures`);
    if (failed > 0 && scope !== OWN) process.exitCode = 1;
  }
}

main();
