'use strict';

/**
 * The package in a bundle: a program that uses every entry is bundled as docs/INSTALL.md says, and
 * runs where there is no node_modules. The tests of the package also run it without a bundle.
 */

const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { promisify } = require('node:util');
const { lacks, startPostgres, startRedis } = require('../cluster/servers.js');
const { blocksOf, root } = require('../documents/blocks.js');

const execute = promisify(execFile);

/**
 * By the word after `npx` in docs/INSTALL.md: the packages to install, the bundles that it makes,
 * and whether it copies the binary.
 * @type {Record<string, { packages: string[], makes: string[], copies?: boolean }>}
 */
const BUNDLERS = {
  esbuild: { packages: ['esbuild'], makes: ['app.js', 'app.mjs'], copies: true },
  webpack: {
    packages: ['webpack', 'webpack-cli', 'node-loader'],
    makes: ['app.cjs'],
    copies: true,
  },
  rollup: {
    packages: ['rollup', ...['node-resolve', 'commonjs', 'json'].map((p) => `@rollup/plugin-${p}`)],
    makes: ['app.mjs'],
  },
  vite: { packages: ['vite'], makes: ['app.mjs'] },
};

/** Packs the package into a folder. @returns {Promise<string>} the tarball */
async function pack(folder) {
  const parameters = ['pack', '--json', '--pack-destination', folder];
  const { stdout } = await execute('npm', parameters, { cwd: root });
  return path.join(folder, JSON.parse(stdout)[0].filename);
}

/** Starts the servers that are installed. @returns the environment of a program that uses them */
async function startServers() {
  const postgres = lacks.postgres ? undefined : await startPostgres();
  const redis = lacks.redis ? undefined : await startRedis();
  return {
    // The folder with the clients of servers, which are not bundled.
    CLIENTS: path.join(root, 'package.json'),
    POSTGRES_URL: postgres ? `postgres://postgres@127.0.0.1:${postgres.port}/postgres` : '',
    REDIS_URL: redis ? `redis://127.0.0.1:${redis.port}` : '',
  };
}

/** @returns {string[]} the expected output of the program */
const printed = ({ POSTGRES_URL, REDIS_URL }) => [
  'threads: 400',
  'machine: granted',
  ...(POSTGRES_URL ? ['postgres: granted'] : []),
  ...(REDIS_URL ? ['redis: granted'] : []),
  'etcd: opened',
  'navigator: machine',
  'profile: 1 request',
  `others: ${Array(5).fill('function').join(' ')}`,
];

/** The program starts itself as its workers. Bundlers would examine an import of createRequire. */
const PROGRAM = `
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { Worker, isMainThread, workerData } from 'node:worker_threads';
import { locks } from 'web-locks';
import { oncePerTick } from 'web-locks/cron';
import { openBucket as openEtcd } from 'web-locks/etcd';
import { locks as locksOfMachine, openBucket as openHost } from 'web-locks/host';
import 'web-locks/host/register';
import install from 'web-locks/install';
import { Locked } from 'web-locks/nest';
import { runCoordinator } from 'web-locks/node-cron';
import { instrument } from 'web-locks/otel';
import { openBucket as openPostgres } from 'web-locks/postgres';
import { startProfile } from 'web-locks/profile';
import { collectMetrics } from 'web-locks/prometheus';
import { openBucket as openRedis } from 'web-locks/redis';

const COUNT = 200;
const { CLIENTS, POSTGRES_URL, REDIS_URL } = process.env;

async function contend() {
  const memory = new Int32Array(new SharedArrayBuffer(4));
  const workers = [1, 2].map(() => new Worker(process.argv[1], { workerData: memory }));
  const ended = workers.map((worker) => new Promise((resolve, reject) => {
    worker.once('exit', resolve).once('error', reject);
  }));
  await Promise.all(ended);
  console.log('threads:', memory[0]);
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

async function use(what, bucket) {
  console.log(what + ':', await bucket.locks.request('a', (lock) => lock && 'granted'));
  await bucket.close();
}

async function main() {
  await contend();
  await use('machine', openHost('test', { directory: fs.mkdtempSync('host-') }));
  const load = (name) => process.getBuiltinModule('node:module').createRequire(CLIENTS)(name);
  if (POSTGRES_URL) {
    const pool = new (load('pg').Pool)({ connectionString: POSTGRES_URL });
    pool.on('error', () => {});
    await use('postgres', openPostgres('bundled', { pool }));
    await pool.end();
  }
  if (REDIS_URL) {
    const client = load('redis').createClient({ url: REDIS_URL });
    await use('redis', openRedis('bundled', { client }));
  }
  const etcd = openEtcd('bundled', { endpoints: 'http://127.0.0.1:1' });
  etcd.ready.catch(() => {});
  await etcd.close();
  console.log('etcd: opened');
  console.log('navigator:', navigator.locks === locksOfMachine ? 'machine' : 'another');
  install()();
  const profile = startProfile({ file: 'profile.json' });
  await locks.request('profiled', () => {});
  const { requests } = profile.stop();
  console.log('profile:', requests, 'request');
  const others = [collectMetrics, instrument, Locked, oncePerTick, runCoordinator];
  console.log('others:', ...others.map((exported) => typeof exported));
}

if (isMainThread) main();
else work(workerData);
`;

const blocks = blocksOf('docs/INSTALL.md').filter(
  ({ keys }) => keys['tested by'] === 'test/package/bundlers.js',
);

/** Writes the program, and the files that docs/INSTALL.md shows, into a folder. */
function writeFiles(directory) {
  fs.writeFileSync(path.join(directory, 'app.mjs'), PROGRAM);
  for (const { code, keys } of blocks) {
    if (keys.file) fs.writeFileSync(path.join(directory, keys.file), `${code.join('\n')}\n`);
  }
}

/** @returns {string} the command that docs/INSTALL.md shows for a bundler */
function commandOf(name) {
  const block = blocks.find(({ code }) => code[0].startsWith(`npx ${name} `));
  return /** @type {NonNullable<typeof block>} */ (block).code.join('\n');
}

/** @returns {string} the binary of an installed package that this machine loads */
function binaryIn(directory) {
  const folder = path.join(directory, 'node_modules', 'web-locks');
  const places = [`prebuilds/${process.platform}-${process.arch}`, 'src/build/Release'];
  const files = places.map((place) => path.join(folder, place, 'web_locks.node'));
  return /** @type {string} */ (files.find((file) => fs.existsSync(file)));
}

/**
 * @param {string} name of BUNDLERS
 * @param {string} directory where the package is installed
 * @param {string} elsewhere a missing folder, for the bundles
 * @param {Record<string, string>} env of the programs, see startServers
 * @returns {Promise<string[][]>} the lines that each bundle prints
 */
async function bundleAndRun(name, directory, elsewhere, env) {
  const { copies, makes, packages } = BUNDLERS[name];
  writeFiles(directory);
  await execute('npm', ['install', '--no-audit', '--no-fund', ...packages], { cwd: directory });
  await execute('sh', ['-ec', commandOf(name)], { cwd: directory, maxBuffer: 1e8 });
  fs.cpSync(path.join(directory, 'dist'), elsewhere, { recursive: true });
  const binary = path.join(elsewhere, 'web_locks.node');
  if (!copies) fs.copyFileSync(binaryIn(directory), binary);
  const all = { ...process.env, ...env, WEB_LOCKS_DIRECTORY: elsewhere };
  if (copies) delete all.WEB_LOCKS_BINARY;
  else all.WEB_LOCKS_BINARY = binary;
  const lines = [];
  for (const file of makes) {
    const { stdout } = await execute(process.execPath, [file], { cwd: elsewhere, env: all });
    lines.push(stdout.trim().split('\n'));
  }
  return lines;
}

module.exports = { BUNDLERS, PROGRAM, bundleAndRun, pack, printed, startServers };
