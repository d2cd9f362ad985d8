'use strict';

/**
 * Starts real servers in temporary folders. Each is ended by its own pid: by `stop`, by an `after`
 * hook of the test file, or at the exit of the process. PostgreSQL does not run as root; then it
 * runs as the user `postgres` or `nobody`.
 */

const assert = require('node:assert/strict');
const { execFile, execFileSync, spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const { promisify } = require('node:util');
const { lacks, programs } = require('../helpers/programs.js');
const { Disk } = require('./disk.js');

const { etcd, faketime, pgbouncer, postgres: bin, redis: redisServer } = programs;

/** The user that runs the servers if this process is root. */
const user = (() => {
  if (process.getuid?.() !== 0) return {};
  for (const name of ['postgres', 'nobody']) {
    try {
      const id = (option) => Number(execFileSync('id', [option, name], { stdio: 'pipe' }));
      return { uid: id('-u'), gid: id('-g') };
    } catch {}
  }
  return {};
})();

/** @returns {string} a new folder that the servers' user owns */
function newFolder() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'web-locks-'));
  if (user.uid !== undefined) fs.chownSync(folder, user.uid, user.gid);
  folders.add(folder);
  return folder;
}

/** @type {Set<string>} */
const folders = new Set();
/** @type {Set<import('node:child_process').ChildProcess>} */
const children = new Set();

process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
});

/**
 * Returns a free port. Test files run beside one another, so a socket with an abstract name
 * reserves each port until this process ends, even while no server uses it.
 */
async function freePort() {
  for (;;) {
    const server = net.createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address();
    const isOurs = await reserve(port);
    server.close();
    await once(server, 'close');
    if (isOurs) return port;
  }
}

/** Reserves a port. Resolves to false if another process has. Only Linux has abstract names. */
async function reserve(port) {
  if (process.platform !== 'linux') return true;
  const sign = net.createServer().listen(`\0web-locks tests: port ${port}`);
  sign.unref();
  const [error] = await once(sign, 'listening').catch((reason) => [reason]);
  if (error && error.code !== 'EADDRINUSE') throw error;
  return !error;
}

/** @returns {Disk} a disk for a server of this process */
const newDisk = () => new Disk(newFolder(), path.join(os.tmpdir(), 'web-locks-'));

/** Runs a program of PostgreSQL asynchronously, because it may use a proxy of this process. */
const tool = (name, args) =>
  run(path.join(bin, name), args, { ...user, cwd: '/', env: environment });
const run = promisify(execFile);
const environment = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };

/** The wall clock of a server, which can be set; its other clocks are unaffected. */
class ServerClock {
  #file = path.join(newFolder(), 'offset');

  constructor() {
    this.set(0);
  }

  /** @param {number} seconds how far it is ahead of this machine's clock */
  set(seconds) {
    // The server may read the file at any time, so it is replaced as a whole.
    fs.writeFileSync(`${this.#file}.new`, `${seconds < 0 ? '' : '+'}${seconds}\n`);
    fs.renameSync(`${this.#file}.new`, this.#file);
  }

  /** The environment variables of a program that uses this clock. */
  get environment() {
    return {
      // The allocator of Redis reads the time while the library, which allocates, is set up.
      LD_PRELOAD: `${faketime}:libc.so.6`,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    };
  }
}

/**
 * Starts a program, and waits until its output matches.
 * @param {string} program
 * @param {string[]} args
 * @param {RegExp} ready
 * @param {ServerClock | null} [clock]
 * @param {Disk} [disk]
 */
async function launch(program, args, ready, clock, disk) {
  const env = { ...environment, ...clock?.environment, ...disk?.environment };
  if (clock && disk) env.LD_PRELOAD += `:${clock.environment.LD_PRELOAD}`;
  const child = spawn(program, args, {
    ...user,
    cwd: '/',
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.add(child);
  let output = '';
  await new Promise((resolve, reject) => {
    const read = (chunk) => {
      output = (output + chunk).slice(-20_000);
      if (ready.test(output)) resolve();
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.on('error', reject);
    child.on('exit', (code) => {
      children.delete(child);
      reject(new Error(`${program} ended with ${code}:\n${output}`));
    });
  });
  child.unref();
  child.stdout.unref();
  child.stderr.unref();
  return child;
}

/** Whether no thread of a process runs; true once it has ended. @param {number} pid */
function standsStill(pid) {
  try {
    const tasks = fs.readdirSync(`/proc/${pid}/task`);
    return tasks.every((id) =>
      /\) [TZX] /.test(fs.readFileSync(`/proc/${pid}/task/${id}/stat`, 'utf8')),
    );
  } catch {
    return true;
  }
}

/**
 * Stops or continues a process, and waits until it is stopped: one of its threads handles the
 * signal, and the others run until then.
 * @param {number} pid
 * @param {'SIGSTOP' | 'SIGCONT'} name
 */
async function halt(pid, name) {
  process.kill(pid, name);
  while (name === 'SIGSTOP' && !standsStill(pid)) await setTimeout(1);
}

async function end(child, signal = 'SIGKILL') {
  if (!child || child.exitCode !== null || child.signalCode !== null) return;
  child.ref();
  const exited = once(child, 'exit');
  child.kill('SIGCONT');
  child.kill(signal);
  await exited;
}

/** @type {Set<{ stop: () => Promise<void> }>} */
const running = new Set();

/**
 * Starts a server; `stopAll` ends it.
 * @template {{ start: () => Promise<void>, stop: () => Promise<void> }} T
 * @param {T} server
 */
async function started(server) {
  running.add(server);
  await server.start();
  return server;
}

/** A program that serves a port. */
class Server {
  /** @type {import('node:child_process').ChildProcess | undefined} */
  child;

  /**
   * @param {number} port
   * @param {() => Promise<import('node:child_process').ChildProcess>} start
   */
  constructor(port, start) {
    this.port = port;
    this.launch = start;
  }

  async start() {
    this.child = await this.launch();
  }

  /** @param {NodeJS.Signals} [signal] */
  async stop(signal = 'SIGKILL') {
    await end(this.child, signal);
  }

  /** Ends it as a power loss would. Its disk, if it has one, loses what was not synced. */
  async crash() {
    await end(this.child, 'SIGKILL');
    this.disk?.forget();
  }

  async signal(name) {
    await halt(this.child.pid, name);
  }
}

/** Whether a process may still write. @param {number} pid */
function runs(pid) {
  try {
    return !/\) [ZX] /.test(fs.readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** A PostgreSQL server: a primary or a standby. */
class Postgres extends Server {
  /**
   * @param {string} folder
   * @param {number} port
   * @param {string[]} settings such as 'synchronous_commit=on'
   * @param {ServerClock} [clock]
   * @param {Disk} [disk]
   */
  constructor(folder, port, settings, clock, disk) {
    const options = [
      `port=${port}`,
      'listen_addresses=127.0.0.1',
      'unix_socket_directories=',
      'shared_buffers=16MB',
      ...settings,
    ];
    const args = ['-D', folder, ...options.flatMap((option) => ['-c', option])];
    const ready = /database system is ready to accept (read-only )?connections/;
    super(port, () => launch(path.join(bin, 'postgres'), args, ready, clock, disk));
    Object.assign(this, { folder, disk });
  }

  /** The options of `new pg.Pool`. */
  get config() {
    return { host: '127.0.0.1', port: this.port, user: 'postgres', database: 'postgres' };
  }

  /** Ends it with all its processes: by SIGINT in order, by SIGQUIT as a power loss would. */
  async stop(signal = 'SIGINT') {
    await end(this.child, signal);
  }

  async crash() {
    // The children of a killed postmaster end some time later.
    if (!this.disk) return this.stop('SIGQUIT');
    await halt(this.child.pid, 'SIGSTOP');
    const pids = this.pids();
    for (const pid of pids.filter(runs)) process.kill(pid, 'SIGKILL');
    // They are not children of this process, so no event reports their ends.
    while (pids.some(runs)) await setTimeout(1);
    await super.crash();
  }

  /** @returns all processes of the server, the postmaster first */
  pids() {
    const postmaster = this.child.pid;
    const list = execFileSync('ps', ['-o', 'pid=', '--ppid', String(postmaster)]);
    return [postmaster, ...String(list).trim().split(/\s+/).map(Number)];
  }

  /** Stops or continues all its processes. */
  async signal(name) {
    // The postmaster is first, so that it starts no others. Some of these may have ended.
    await halt(this.child.pid, name);
    await Promise.all(this.pids().map((pid) => halt(pid, name).catch(() => {})));
  }

  async promote() {
    await tool('pg_ctl', ['promote', '-w', '-D', this.folder]);
  }
}

/**
 * @param {object} [options]
 * @param {string[]} [options.settings]
 * @param {ServerClock} [options.clock]
 * @param {Disk} [options.disk]
 * @returns {Promise<Postgres>} a running primary
 */
async function startPostgres({ settings = [], clock, disk } = {}) {
  const folder = newFolder();
  const options = '-U postgres -A trust --no-sync --locale=C -EUTF8'.split(' ');
  await tool('initdb', ['-D', folder, ...options]);
  return started(new Postgres(folder, await freePort(), settings, clock, disk));
}

/**
 * @param {{ port: number }} primary or a proxy of it
 * @returns {Promise<Postgres>} a standby that follows it
 */
async function startStandby(primary) {
  const folder = newFolder();
  fs.rmdirSync(folder);
  const at = `host=127.0.0.1 port=${primary.port} user=postgres`;
  const options = '-R -X stream -c fast --no-sync'.split(' ');
  await tool('pg_basebackup', ['-D', folder, '-d', at, ...options]);
  fs.chmodSync(folder, 0o700);
  return started(new Postgres(folder, await freePort(), []));
}

/**
 * Starts a program with a file of settings that the servers' user may change.
 * @param {string} text
 * @param {number} port
 * @param {(file: string) => Promise<import('node:child_process').ChildProcess>} start
 */
function startWithFile(text, port, start) {
  const file = path.join(newFolder(), 'settings');
  fs.writeFileSync(file, text);
  if (user.uid !== undefined) fs.chownSync(file, user.uid, user.gid);
  return started(new Server(port, () => start(file)));
}

/**
 * @param {{ port: number }} server
 * @param {'transaction' | 'statement' | 'session'} mode
 * @returns {Promise<Server>} a pooler in front of a PostgreSQL server
 */
async function startPgbouncer(server, mode) {
  const port = await freePort();
  const text = `[databases]
postgres = host=127.0.0.1 port=${server.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
server_login_retry = 1
ignore_startup_parameters = extra_float_digits,options
`;
  return startWithFile(text, port, (file) => launch(pgbouncer, [file], /process up/));
}

/**
 * Starts a Redis Sentinel that watches a primary, `main`. It promotes a replica after
 * `detectFailures`; before that, a busy machine may slow the primary down as much as it likes.
 * @param {{ port: number }} primary
 * @param {RegExp} [ready] its output when it is ready: by default, once it knows a replica
 * @returns {Promise<Server>}
 */
async function startSentinel(primary, ready = /\+slave /) {
  const port = await freePort();
  const text = `port ${port}
bind 127.0.0.1
sentinel monitor main 127.0.0.1 ${primary.port} 1
sentinel down-after-milliseconds main 3600000
sentinel failover-timeout main 20000
`;
  return startWithFile(text, port, (file) => launch(redisServer, [file, '--sentinel'], ready));
}

const redisCli = () => redisServer.replace(/-server$/, '-cli');

/** Makes a Sentinel notice soon that its primary does not respond. @param {Server} sentinel */
const detectFailures = ({ port }) =>
  run(redisCli(), `-p ${port} SENTINEL SET main down-after-milliseconds 300`.split(' '));

/** A Redis server: a primary or a replica. */
class Redis extends Server {
  /**
   * @param {string} folder
   * @param {number} port
   * @param {string[]} settings such as '--appendonly', 'yes'
   * @param {ServerClock | null} [clock]
   * @param {Disk} [disk]
   */
  constructor(folder, port, settings, clock, disk) {
    const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder];
    const own = ['--save', '', '--repl-diskless-sync-delay', '0', '--repl-timeout', '60'];
    const ready = /Ready to accept connections/;
    super(port, () => launch(redisServer, [...args, ...own, ...this.settings], ready, clock, disk));
    Object.assign(this, { folder, settings, disk });
  }

  /** Ends it; by SIGTERM in order. */
  async stop(signal = 'SIGTERM') {
    if (signal === 'SIGTERM' && (await this.#shutDown())) return;
    await end(this.child, signal);
  }

  /**
   * Ends it by a command. The handler of SIGTERM reads the time, for which libfaketime allocates
   * memory: a signal during an allocation would deadlock the server.
   * @returns {Promise<boolean>} whether it has ended
   */
  async #shutDown() {
    if (!this.child || this.child.exitCode !== null) return false;
    this.child.ref();
    this.child.kill('SIGCONT');
    const exited = once(this.child, 'exit');
    const reply = await this.#send(['SHUTDOWN']).catch(() => undefined);
    if (reply?.length !== 0) return false;
    await exited;
    return true;
  }

  /** @param {string[][]} commands @returns {Promise<Buffer>} all replies */
  async #send(...commands) {
    const socket = net.connect(this.port, '127.0.0.1');
    for (const words of commands) {
      socket.write(`*${words.length}\r\n`);
      for (const word of words) socket.write(`$${Buffer.byteLength(word)}\r\n${word}\r\n`);
    }
    return Buffer.concat(await socket.toArray());
  }

  /**
   * @param {...string} args a command
   * @returns {Promise<string[]>} the reply's lines
   */
  async call(...args) {
    const replies = linesOf(await this.#send(args, ['QUIT']));
    if (replies.length < 2) throw new Error(`Redis closed the connection at ${args.join(' ')}.`);
    return replies.slice(0, -1);
  }

  /** Waits until INFO matches. */
  async until(pattern) {
    while (!pattern.test((await this.call('INFO')).join('\n'))) await setTimeout(50);
  }

  async promote() {
    await this.call('REPLICAOF', 'NO', 'ONE');
    // It does not follow after a restart either.
    if (this.settings[0] === '--replicaof') this.settings = this.settings.slice(3);
  }
}

/**
 * @param {Buffer} bytes replies of Redis (RESP 2)
 * @returns {string[]} their lines, as `redis-cli` prints them
 */
function linesOf(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; ) {
    const end = bytes.indexOf('\r\n', at);
    // The server ended in the middle of a reply.
    if (end < 0) return [];
    const head = bytes.toString('utf8', at + 1, end);
    const kind = String.fromCharCode(bytes[at]);
    at = end + 2;
    if (kind === '$' && head !== '-1') {
      const text = bytes.toString('utf8', at, at + Number(head));
      lines.push(...text.replace(/\n$/, '').split('\n'));
      at += Number(head) + 2;
    } else if (kind === '$' || (kind === '*' && Number(head) < 1)) lines.push('');
    else if (kind !== '*') lines.push(head);
  }
  return lines;
}

/**
 * @param {object} [options]
 * @param {{ port: number }} [options.primary] the primary that it follows, or a proxy of it
 * @param {string[]} [options.settings]
 * @param {ServerClock | null} [options.clock] null: this machine's clock. By default, a clock by
 * which the server has run for an hour, so that a new bucket grants at once whatever its lease;
 * without libfaketime the server has run for some seconds.
 * @param {Disk} [options.disk]
 * @returns {Promise<Redis>} a replica is up to date
 */
async function startRedis({ primary, settings = [], clock, disk } = {}) {
  const following = primary ? ['--replicaof', '127.0.0.1', String(primary.port)] : [];
  const isAged = clock === undefined && Boolean(faketime);
  const its = isAged ? new ServerClock() : clock;
  const all = [...following, ...settings];
  const server = await started(new Redis(newFolder(), await freePort(), all, its, disk));
  if (isAged) its.set(3_600);
  await server.until(isAged ? /uptime_in_seconds:3\d\d\d/ : /uptime_in_seconds:([4-9]|\d\d)/);
  if (primary) await server.until(/master_link_status:up/);
  return server;
}

/** Three primaries of a cluster, each with a third of the slots. */
class RedisCluster {
  /** @param {Redis[]} nodes */
  constructor(nodes) {
    this.nodes = nodes;
  }

  get port() {
    return this.nodes[0].port;
  }

  /**
   * @param {string} key
   * @returns {Promise<{ slot: string, owner: Redis }>} the slot of the key, and its node
   */
  async find(key) {
    const [slot] = await this.nodes[0].call('CLUSTER', 'KEYSLOT', key);
    for (const owner of this.nodes) {
      const lines = await owner.call('CLUSTER', 'NODES');
      const ranges = lines
        .find((line) => line.includes('myself'))
        .split(' ')
        .slice(8);
      const isThere = ranges.some((range) => {
        const [first, last = first] = range.split('-').map(Number);
        return first <= Number(slot) && Number(slot) <= last;
      });
      if (isThere) return { slot, owner };
    }
    throw new Error(`no node has the slot ${slot}`);
  }

  /**
   * Moves the slot of a key to another node, as `redis-cli --cluster reshard` does.
   * @param {string} key
   * @param {() => Promise<unknown>} meanwhile called before its keys are moved, and again before
   * the slot is
   */
  async move(key, meanwhile) {
    const { owner, slot } = await this.find(key);
    const [other] = this.nodes.filter((node) => node !== owner);
    const set = (node, ...how) => node.call('CLUSTER', 'SETSLOT', slot, ...how);
    const [from] = await owner.call('CLUSTER', 'MYID');
    const [to] = await other.call('CLUSTER', 'MYID');
    await set(other, 'IMPORTING', from);
    await set(owner, 'MIGRATING', to);
    await meanwhile();
    const keys = await owner.call('CLUSTER', 'GETKEYSINSLOT', slot, '100');
    const at = ['127.0.0.1', String(other.port), '', '0', '5000', 'KEYS'];
    assert.deepEqual(await owner.call('MIGRATE', ...at, ...keys), ['OK']);
    await meanwhile();
    for (const node of [other, ...this.nodes]) await set(node, 'NODE', to);
  }
}

/** @returns {Promise<RedisCluster>} a cluster that serves */
async function startRedisCluster() {
  const start = async () => {
    // By default its bus uses the port + 10,000, which may exceed the greatest port.
    const bus = String(await freePort());
    return startRedis({ settings: ['--cluster-enabled', 'yes', '--cluster-port', bus] });
  };
  const nodes = await Promise.all([start(), start(), start()]);
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
  await run(redisCli(), ['--cluster', 'create', ...addresses, '--cluster-yes']);
  for (const node of nodes) {
    while (!(await node.call('CLUSTER', 'INFO')).join().includes('cluster_state:ok'))
      await setTimeout(50);
  }
  return new RedisCluster(nodes);
}

/**
 * Makes a certificate of this machine for servers and clients, which is its own authority.
 * @returns {Promise<{ certFile: string, keyFile: string, cert: Buffer, key: Buffer }>}
 */
async function makeCertificate() {
  const folder = newFolder();
  const [certFile, keyFile] = [path.join(folder, 'cert.pem'), path.join(folder, 'key.pem')];
  const kind = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const who = ['-days', '2', '-subj', '/CN=web-locks', '-addext', 'subjectAltName=IP:127.0.0.1'];
  await run('openssl', ['req', ...kind, ...who, '-keyout', keyFile, '-out', certFile], user);
  const [cert, key] = [fs.readFileSync(certFile), fs.readFileSync(keyFile)];
  return { certFile, keyFile, cert, key };
}

/** The members of an etcd: each has a `port`, and can be stopped, restarted and halted. */
class Etcd {
  #options;
  #scheme;

  /**
   * @param {Array<{ port: number, peer: number, address: number, folder: string, child: any }>}
   *   members the others reach each at its `address`
   * @param {string[]} options of the program
   */
  constructor(members, options) {
    this.members = members;
    this.#options = options;
    this.#scheme = options.some((option) => option.startsWith('--cert-file')) ? 'https' : 'http';
  }

  get endpoints() {
    return this.members.map(({ port }) => `${this.#scheme}://127.0.0.1:${port}`);
  }

  get port() {
    return this.members[0].port;
  }

  get ports() {
    return this.members.map(({ port }) => port);
  }

  /** Starts one member, or all that do not run. */
  async start(one = undefined) {
    const chosen = one ? [one] : this.members.filter(({ child }) => !child);
    await Promise.all(chosen.map((member) => this.#start(member)));
  }

  async #start(member) {
    const { address, folder, peer, port } = member;
    const url = (at) => `http://127.0.0.1:${at}`;
    const names = this.members.map((other, i) => `m${i}=${url(other.address)}`);
    const own = `m${this.members.indexOf(member)}`;
    const ofClients = `${this.#scheme}://127.0.0.1:${port}`;
    const given = [
      ['name', own],
      ['data-dir', path.join(folder, 'data')],
      ['listen-client-urls', ofClients],
      ['advertise-client-urls', ofClients],
      ['listen-peer-urls', url(peer)],
      ['initial-advertise-peer-urls', url(address)],
      ['initial-cluster', names.join(',')],
      ['initial-cluster-token', this.members[0].folder],
    ];
    const args = [...given.map(([option, value]) => `--${option}=${value}`), ...this.#options];
    member.child = await launch(etcd, args, /ready to serve client requests/);
  }

  async stop(signal = 'SIGKILL', one = undefined) {
    for (const member of one ? [one] : this.members) {
      await end(member.child, signal);
      member.child = undefined;
    }
  }

  async crash() {
    await this.stop();
  }

  async signal(name, one = undefined) {
    for (const { child } of one ? [one] : this.members) if (child) await halt(child.pid, name);
  }

  /** @returns the reply of a member's JSON gateway */
  async call(what, body = {}, { port } = this.members[0]) {
    const options = { method: 'POST', body: JSON.stringify(body) };
    return (await fetch(`http://127.0.0.1:${port}/v3/${what}`, options)).json();
  }

  async leader() {
    for (const member of this.members) {
      const { header, leader } = await this.call('maintenance/status', {}, member);
      if (header.member_id === leader) return member;
    }
    throw new Error('no member leads');
  }
}

/**
 * @param {number} [count] of members
 * @param {string[]} [options]
 * @param {(peer: number) => Promise<number>} [publish] returns another port for that of a member
 */
async function startEtcd(count = 1, options = [], publish = async (peer) => peer) {
  const members = [];
  for (let i = 0; i < count; i++) {
    const [port, peer] = [await freePort(), await freePort()];
    const address = await publish(peer);
    members.push({ port, peer, address, folder: newFolder(), child: undefined });
  }
  return started(new Etcd(members, options));
}

/** Ends all servers, in an `after` hook. */
async function stopAll() {
  for (const server of running) await server.stop('SIGQUIT');
  running.clear();
  for (const folder of folders) fs.rmSync(folder, { recursive: true, force: true });
  assert.equal(children.size, 0, 'a server still runs');
}

module.exports = {
  ServerClock,
  detectFailures,
  freePort,
  lacks,
  makeCertificate,
  newDisk,
  startEtcd,
  startPgbouncer,
  startPostgres,
  startRedis,
  startRedisCluster,
  startSentinel,
  startStandby,
  stopAll,
};
