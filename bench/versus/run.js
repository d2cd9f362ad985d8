/**
 * Compares Node.js's own locks with these, for docs/NODES-OWN.md: `npm run versus -- VERSION…` runs
 * each row on each of these versions of Node.js (by npx), and writes docs/nodes-own.json and the
 * table.
 *
 *   --check VERSION   runs a version of docs/nodes-own.json, and fails if one of our outcomes is
 *                     wrong, or one of Node.js's has changed that does not vary from run to run
 */

const { spawn, spawnSync } = require('node:child_process');
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const { constants } = require('node:os');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { root: memory } = require('../../test/helpers/root.js');
const { ROWS } = require('./rows.js');

const root = path.join(__dirname, '..', '..');
const JSON_FILE = path.join(root, 'docs', 'nodes-own.json');
const PAGE = path.join(root, 'docs', 'NODES-OWN.md');
const TABLE = /(?<=<!-- table -->\n)[\s\S]*(?=<!-- end of the table -->)/;
/** A row that has not ended by then hangs. */
const LIMIT_MS = 20_000;
/** How often rows run that vary from run to run; the worst outcome counts. */
const RUNS = { turns: 3, exclusion: 2 };

/** For each row, what it tests, and the right outcome. */
const TITLES = {
  processes: ['an exclusive lock, asked for by two processes', 'one'],
  holders: ['who holds a lock, and since when', 'told'],
  query: ['`query()`', 'all'],
  exclusion: ['exclusive, `ifAvailable`, three workers, 3 s', 'kept'],
  turns: ['one name, three workers that wait, 5 s', 'fair'],
  theft: ['three workers that steal one lock, 300 times each', 'told'],
  terminated: ['a worker that holds a lock is terminated', 'granted'],
  throws: ['a callback throws', 'released'],
  aborted: ['a pending request is aborted', 'left'],
};

/** @returns {string} the program of a version of Node.js */
function nodeOf(version) {
  const args = ['--yes', `node@${version}`, '-p', 'process.execPath'];
  // On Windows npx is a batch file, which only a shell starts.
  const shell = process.platform === 'win32';
  const { stdout, status } = spawnSync('npx', args, { encoding: 'utf8', cwd: '/', shell });
  if (status !== 0) throw new Error(`there is no node@${version}`);
  return stdout.trim();
}

/** @returns {Promise<{ is: string, text: string }>} the outcome of one row */
async function runOnce(node, row, whose) {
  const directory = mkdtempSync(path.join(memory, 'web-locks-versus-'));
  const child = spawn(node, [path.join(__dirname, 'rows.js'), row, whose], {
    env: { ...process.env, WEB_LOCKS_DIRECTORY: directory },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const limit = setTimeout(() => child.kill('SIGKILL'), LIMIT_MS);
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  const [code, signal] = await new Promise((resolve) => {
    child.once('close', (...end) => resolve(end));
  });
  clearTimeout(limit);
  rmSync(directory, { recursive: true, force: true });
  if (code === 0 && output) return JSON.parse(output);
  if (signal === 'SIGKILL') return { is: 'hangs', text: 'does not end' };
  // A shell of npx reports a signal as 128 plus its number.
  const number = signal ? constants.signals[signal] : code - 128;
  const name = Object.keys(constants.signals).find((one) => constants.signals[one] === number);
  return {
    is: 'crashes',
    text: name ? `the process ends by ${name}` : `the process ends with ${code}`,
  };
}

/** @returns {Promise<{ is: string, text: string }>} the worst outcome of its runs */
async function runRow(node, row, whose) {
  const [, right] = TITLES[row];
  let worst;
  for (let i = 0; i < (RUNS[row] ?? 1); i++) {
    const outcome = await runOnce(node, row, whose);
    if (!worst || (worst.is === right && outcome.is !== right)) worst = outcome;
  }
  return worst;
}

/**
 * @param {string} node
 * @param {boolean} isCheck whether rows of Node.js's own locks that vary are left out
 * @returns {Promise<{ version: string, own: object, ours: object }>} the rows on one Node.js
 */
async function runAll(node, isCheck) {
  const version = spawnSync(node, ['-p', 'process.versions.node'], {
    encoding: 'utf8',
  }).stdout.trim();
  const result = { version, own: {}, ours: {} };
  for (const row of ROWS) {
    for (const whose of ['own', 'ours']) {
      if (isCheck && whose === 'own' && RUNS[row]) continue;
      const outcome = await runRow(node, row, whose);
      result[whose][row] = outcome;
      console.log(`${version}  ${row}  ${whose}: ${outcome.text}`);
    }
  }
  return result;
}

/** @returns {string} the table in Markdown */
function tableOf(results) {
  const columns = results.map(({ version }) => `Node.js ${version}`);
  const lines = ROWS.map((row) => {
    const [title] = TITLES[row];
    const own = results.map((result) => result.own[row].text);
    // It is right on all versions, or the table would not be written.
    return `| ${[title, ...own, results[0].ours[row].text].join(' | ')} |`;
  });
  return [
    `| | ${[...columns, 'web-locks'].join(' | ')} |`,
    `|${' --- |'.repeat(columns.length + 2)}`,
    ...lines,
    '',
  ].join('\n');
}

/** @returns {string[]} rows in which our outcome is wrong */
const wrongOf = ({ version, ours }) =>
  ROWS.filter((row) => ours[row].is !== TITLES[row][1]).map(
    (row) => `web-locks on ${version}, ${row}: ${ours[row].text}`,
  );

/** @returns {string[]} rows of Node.js's own locks that do not vary, but differ from the file */
function changedOf({ own, version }) {
  const known = JSON.parse(readFileSync(JSON_FILE, 'utf8')).find((one) => one.version === version);
  if (!known) return [`docs/nodes-own.json has no ${version}`];
  return ROWS.filter((row) => !RUNS[row] && own[row].is !== known.own[row].is).map(
    (row) => `Node.js ${version}, ${row}: '${own[row].text}', and was '${known.own[row].text}'`,
  );
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { check: { type: 'string' } },
  });
  const versions = values.check ? [values.check] : positionals;
  if (versions.length === 0) throw new Error('usage: npm run versus -- VERSION…');
  const results = [];
  for (const version of versions)
    results.push(await runAll(nodeOf(version), Boolean(values.check)));
  const faults = results.flatMap(wrongOf);
  if (values.check) faults.push(...results.flatMap(changedOf));
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length > 0 ? 1 : 0;
  if (values.check || faults.length > 0) return;
  writeFileSync(JSON_FILE, `${JSON.stringify(results, null, 2)}\n`);
  writeFileSync(
    PAGE,
    readFileSync(PAGE, 'utf8').replace(TABLE, () => tableOf(results)),
  );
}

main();
