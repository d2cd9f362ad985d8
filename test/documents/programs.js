'use strict';

/**
 * Runs blocks as they are printed: JavaScript in a file and a process of its own; shell commands by
 * bash; SQL by a client. Servers start when the first block needs them, and each block has a
 * database of its own.
 */

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const { createRequire, isBuiltin } = require('node:module');
const os = require('node:os');
const path = require('node:path');
const servers = require('../cluster/servers.js');
const { root } = require('./blocks.js');
const { startS3 } = require('./s3.js');

/** The folder is inside the package, so that it and its dependencies can be resolved by name. */
const FOLDER = path.join(root, 'build', 'pages', String(process.pid));
/** The packages of the benches, and those that users migrate from. */
const BENCH = path.join(root, 'bench');

/** The module beside each program that fragments import. */
const APPLICATION = 'application.mjs';

const LIMIT = 60_000;

/** The servers that blocks share, by name, with functions that start them. */
const SERVERS = {
  postgres: () => servers.startPostgres({ settings: ['fsync=off'] }),
  redis: () => servers.startRedis({ settings: ['--databases', '64'] }),
  etcd: () => servers.startEtcd(),
  pgbouncer: async () => servers.startPgbouncer(await server('postgres'), 'transaction'),
  s3: startS3,
};

/** @type {Map<string, Promise<any>>} */
const started = new Map();

/** @param {string} name one of SERVERS @returns the server; the first call starts it */
function server(name) {
  if (!started.has(name)) started.set(name, SERVERS[name]());
  return started.get(name);
}

let databases = 0;

/** The environment variables by which programs find a server. */
const ENVIRONMENT = {
  async postgres() {
    const { config, port } = await server('postgres');
    const name = `page_${++databases}`;
    await withClient(config, (client) => client.query(`CREATE DATABASE ${name}`));
    const { host, user } = config;
    const DATABASE_URL = `postgres://${user}@${host}:${port}/${name}`;
    return { PGHOST: host, PGPORT: `${port}`, PGUSER: user, PGDATABASE: name, DATABASE_URL };
  },
  /** A pooler in front of the same database. */
  async pgbouncer() {
    const { port } = await server('pgbouncer');
    const { config } = await server('postgres');
    const urlOf = (at) => `postgres://postgres@127.0.0.1:${at}/postgres`;
    return { POOLER_URL: urlOf(port), DATABASE_URL: urlOf(config.port) };
  },
  async redis() {
    const { port } = await server('redis');
    return { REDIS_URL: `redis://127.0.0.1:${port}/${++databases % 64}` };
  },
  async etcd() {
    const { members } = await server('etcd');
    return { ETCD_URL: `http://127.0.0.1:${members[0].port}` };
  },
  async s3() {
    const { url } = await server('s3');
    return {
      AWS_ENDPOINT_URL_S3: url,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'id',
      AWS_SECRET_ACCESS_KEY: 'secret',
      // Otherwise the SDK may send a body in chunks, which s3.js cannot read.
      AWS_REQUEST_CHECKSUM_CALCULATION: 'when_required',
      // The SDK warns about versions of Node.js that it will stop supporting.
      NODE_NO_WARNINGS: '1',
    };
  },
};

async function withClient(config, use) {
  const { Client } = require('pg');
  const client = new Client(config);
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** @returns {string[]} the needs of a block */
const needsOf = ({ keys }) => keys.needs?.split(', ') ?? [];

/** @returns {string[]} the packages that a program imports */
function importsOf(text) {
  const names = text.matchAll(/(?:^import |\bfrom |\bimport\(|\brequire\()'([^'.][^']*)'/gm);
  return [...new Set([...names].map(([, name]) => name))];
}

const { devDependencies } = require('../../package.json');
const { dependencies: benched } = require('../../bench/package.json');
const KNOWN = { ...devDependencies, ...benched };

/** @returns {string | false} the reason why a package is missing; unknown ones are resolved */
function lacksPackage(specifier) {
  if (isBuiltin(specifier) || /^web-locks(\/|$)/.test(specifier)) return false;
  const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
  if (!(name in KNOWN)) return false;
  const places = [root, BENCH].map((folder) => path.join(folder, 'node_modules', name));
  return places.some((place) => fs.existsSync(place)) ? false : `no package ${name}`;
}

/** @returns {string | false} */
function lacksNeed(need) {
  if (need === 's3') return false;
  if (need === 'linux') return process.platform === 'linux' ? false : 'for Linux';
  const [, version] = /^node (\d+)$/.exec(need) ?? [];
  if (version) {
    return Number.parseInt(process.versions.node, 10) >= version ? false : `for Node.js ${version}`;
  }
  if (!(need in SERVERS)) throw new Error(`no block can need ${need}`);
  return servers.lacks[need] || (need.startsWith('p') && lacksPackage('pg'));
}

/** @returns {string | false} the reason why a block cannot be run here, for the option `skip` */
function skipOf(block) {
  const { code, keys } = block;
  if (keys['not run']) return keys['not run'];
  if (keys['tested by']) return `by ${keys['tested by']}`;
  if (block.language === 'ts') return 'npm run test:types checks it';
  if (keys.file) return 'a file of a program';
  const packages = importsOf([...block.before, ...code, ...block.after].join('\n'));
  return [...needsOf(block).map(lacksNeed), ...packages.map(lacksPackage)].find(Boolean) ?? false;
}

/** Writes the commands that programs find in their PATH. */
function linkCommands() {
  const folder = path.join(FOLDER, 'bin');
  const program = path.join(root, 'bin', 'web-locks.js');
  fs.mkdirSync(folder, { recursive: true });
  const command = `exec '${process.execPath}' '${program}' "$@"`;
  const refuse = '{ echo "npx $1 is not of this package" >&2; exit 1; }';
  const npx = `[ "$1" = web-locks ] || ${refuse}\nshift`;
  for (const [name, text] of Object.entries({ 'web-locks': command, npx: `${npx}\n${command}` }))
    fs.writeFileSync(path.join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
}

/** Empties the folder of all programs. */
function prepare() {
  fs.rmSync(FOLDER, { recursive: true, force: true });
  fs.mkdirSync(FOLDER, { recursive: true });
  const packages = path.join(BENCH, 'node_modules');
  if (fs.existsSync(packages)) fs.symlinkSync(packages, path.join(FOLDER, 'node_modules'));
  linkCommands();
}

async function finish() {
  for (const [name, starting] of started) if (name === 's3') (await starting).close();
  await servers.stopAll();
  fs.rmSync(FOLDER, { recursive: true, force: true });
}

const isCommonJs = (text) => /^[^/]*\brequire\(|\bmodule\.exports\b/m.test(text);

/** @returns {string[]} the command that runs a block in a folder */
function writeProgram({ after, before, code, language }, folder) {
  const text = `${[...before, ...code, ...after].join('\n')}\n`;
  if (language === 'sh') return ['bash', '-ec', text];
  const file = `program.${isCommonJs(text) ? 'cjs' : 'mjs'}`;
  fs.writeFileSync(path.join(folder, file), text);
  return [process.execPath, file];
}

/** Runs a command, and kills all of its processes if it takes too long. */
async function execute([program, ...args], options) {
  const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
  const end = () => process.kill(-child.pid, 'SIGKILL');
  const timer = setTimeout(end, LIMIT);
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  const [code, signal] = await once(child, 'close');
  clearTimeout(timer);
  return { stdout, stderr, code: code ?? signal };
}

let programs = 0;

/** Runs a block, beside the files of the page before it. */
async function runBlock(block, files) {
  const folder = path.join(FOLDER, `${++programs}`);
  fs.mkdirSync(folder);
  fs.copyFileSync(path.join(__dirname, APPLICATION), path.join(folder, APPLICATION));
  for (const { code, keys } of files) {
    fs.writeFileSync(path.join(folder, keys.file), `${code.join('\n')}\n`, { mode: 0o755 });
  }
  const environment = {};
  for (const need of needsOf(block)) Object.assign(environment, await ENVIRONMENT[need]?.());
  if (block.language === 'sql') return runSql(block, environment);
  // The host locks of a program are its own.
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-page-'));
  const PATH = `${path.join(FOLDER, 'bin')}:${process.env.PATH}`;
  const own = { NODE_OPTIONS: '', PATH, WEB_LOCKS_DIRECTORY: directory };
  const env = { ...process.env, ...own, ...environment };
  try {
    return await execute(writeProgram(block, folder), { cwd: folder, env, detached: true });
  } finally {
    fs.rmSync(directory, { recursive: true, force: true });
  }
}

/** The program around the block is JavaScript, with a `client` of pg and the block as `sql`. */
async function runSql({ after, before, code }, { DATABASE_URL: connectionString }) {
  const AsyncFunction = /** @type {any} */ (async () => {}).constructor;
  const then = after.length > 0 ? after : ['await client.query(sql);'];
  const run = new AsyncFunction('client', 'sql', 'require', [...before, ...then].join('\n'));
  const own = createRequire(path.join(root, 'package.json'));
  await withClient({ connectionString }, (client) => run(client, code.join('\n'), own));
  return { stdout: '', stderr: '', code: 0 };
}

module.exports = { finish, prepare, runBlock, skipOf };
