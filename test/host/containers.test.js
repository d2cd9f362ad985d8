// slow: 3; waits

'use strict';

/**
 * Runs the recipes of docs/HOST.md for containers with what containers consist of: a process with
 * PID, network, IPC and host name spaces of its own, and a shared mounted volume.
 */

const assert = require('node:assert/strict');
const { execFile, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const process = require('node:process');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');
const { lacksHost } = require('../helpers/host-scope.js');
const { RemoteProcess, freshBucket, freshDirectory } = require('../helpers/process.js');

const execute = promisify(execFile);

const MOUNTS = ['--mount', '--propagation', 'private'];
const CONTAINER = ['--pid', '--net', '--ipc', '--uts', '--fork'];

/** The reason why containers cannot be made here, or false. */
const skip = (() => {
  if (lacksHost) return lacksHost;
  const tried = ['unshare', [...MOUNTS, 'unshare', ...CONTAINER, 'mount', '--version']];
  return spawnSync(...tried).status === 0 ? false : 'needs root, and unshare and mount';
})();

const library = path.join(__dirname, '..', '..', 'lib', 'host.js');

/** The values that the page gives to `docker volume create` as `o=`, in its order. */
const page = fs.readFileSync(path.join(__dirname, '..', '..', 'docs', 'HOST.md'), 'utf8');
const recipes = [...page.matchAll(/docker volume create .*--opt o=(\S+)/g)].map(([, o]) => o);

/** Runs in each container, as the user: takes the lock, or prints that it waits for it. */
const program = `
  const { locks } = require(${JSON.stringify(library)});
  const [user, group, ...groups] = process.argv.slice(1).map(Number);
  process.setgroups(groups);
  process.setgid(group);
  process.setuid(user);
  process.stdin.resume().on('end', () => process.exit()); // the parent has ended
  locks.request('a', { ifAvailable: true }, async (lock) => {
    console.log(lock ? 'holds it' : 'waits', process.pid);
    if (lock) await new Promise(() => setInterval(() => {}, 1000));
  })
    .then(() => locks.request('a', () => console.log('has it')))
    .catch(({ code, message }) => console.log(code, message));`;

/**
 * Mounts a volume, starts a container whose process holds a lock and one whose process waits for
 * it, and kills the first. Prints their output.
 */
const play = `
  const { execFileSync, spawn } = require('node:child_process');
  const { createInterface } = require('node:readline');
  const [volume, options, directory, first, second, prepare] = process.argv.slice(1);
  execFileSync('mount', ['-t', 'tmpfs', ...(options ? ['-o', options] : []), 'tmpfs', volume]);
  if (prepare) execFileSync('sh', ['-c', prepare]);
  const start = async function* (user) {
    const child = spawn('unshare', [${CONTAINER.map((option) => `'${option}'`)},
      process.execPath, '-e', ${JSON.stringify(program)}, '--', ...user.split(':')],
      {
        env: { ...process.env, WEB_LOCKS_DIRECTORY: directory },
        stdio: ['pipe', 'pipe', 'inherit'],
        detached: true,
      });
    try {
      for await (const line of createInterface({ input: child.stdout })) {
        console.log(line);
        yield line;
      }
    } finally {
      process.kill(-child.pid, 'SIGKILL'); // and the process in it
    }
  };
  (async () => {
    const holder = start(first);
    const { value } = await holder.next();
    if (!value.startsWith('holds')) return holder.return();
    const waiter = start(second);
    await waiter.next();
    await holder.return();
    await waiter.next();
    await waiter.return();
  })();`;

/**
 * @param {string} options mount options of the volume
 * @param {string} directory its path in the volume
 * @param {string[]} users the numbers of each container's user, group and further groups
 * @param {(volume: string) => string} [prepare] returns a command that makes the directory
 */
async function share(t, options, directory, users, prepare = () => '') {
  const volume = freshDirectory(t);
  fs.chmodSync(volume, 0o755);
  const command = [process.execPath, '-e', play, '--', volume, options];
  const { stdout } = await execute(
    'unshare',
    [...MOUNTS, ...command, path.join(volume, directory), ...users, prepare(volume)],
    { timeout: 60_000, killSignal: 'SIGKILL' },
  );
  return stdout;
}

const SHARED = 'holds it 1\nwaits 1\nhas it\n';
/** A number from the page. */
const numberIn = (text, what) => new RegExp(`${what}[=: ]+(\\d+)`).exec(text)[1];

describe('containers', { skip }, () => {
  const [, makeDirectory] = /command: \[sh, -c, "(mkdir [^"]+)"\]/.exec(page);
  const [user, group, ofPod] = [
    numberIn(recipes[0], 'uid'),
    numberIn(recipes[1], 'gid'),
    numberIn(page, 'fsGroup'),
  ];
  for (const [where, options, directory, users, prepare] of [
    ['a volume of their user', recipes[0], '', [`${user}:${user}`, `${user}:${user}`]],
    ['a volume of their group', recipes[1], '', [`1001:${group}`, `1002:${group}`]],
    [
      'a directory of a volume that everybody may write',
      '',
      'web-locks',
      ['1000:1000', '1000:1000'],
    ],
    [
      'a directory of the group that a pod’s users have in common',
      `mode=2777,gid=${ofPod}`, // as the kubelet makes it
      'web-locks',
      [`1001:1001:${ofPod}`, `1002:1002:${ofPod}`],
      (volume) => makeDirectory.replaceAll('/locks/', `${volume}/`),
    ],
  ]) {
    it(`share locks in ${where}`, async (t) => {
      assert.equal(await share(t, options, directory, users, prepare), SHARED);
    });
  }

  it('are refused in a volume that everybody may write, with the reason', async (t) => {
    const said = await share(t, '', '', ['1000:1000', '1000:1000']);
    assert.match(said, /^ERR_WEB_LOCKS_SCOPE_UNSUPPORTED .*(writable by others|belongs to user)/);
  });

  /** Runs a program in name spaces that `unshare` makes. @returns its findings about a bucket */
  async function look(where, unshare) {
    const source = `
      const { openBucket } = require(${JSON.stringify(library)});
      const directory = ${JSON.stringify(where.directory)};
      const { locks } = openBucket(${JSON.stringify(where.bucket)}, { directory });
      (async () => {
        const { isFree, token } = await locks.request('a', { ifAvailable: true }, (lock) => ({
          isFree: lock !== null,
          token: String(lock?.token),
        }));
        const { held } = await locks.query({ details: true });
        console.log(JSON.stringify({ isFree, token, ages: held.map((lock) => lock.held) }));
        process.exit();
      })();`;
    const { stdout } = await execute('unshare', [...unshare, process.execPath, '-e', source]);
    return JSON.parse(stdout);
  }

  it('share locks although they have a clock of their own, by which they tell ages', async (t) => {
    const { where } = freshBucket(t);
    const other = await RemoteProcess.start(t, where);
    await other.hold('a');
    const days = 60 * 86_400;
    const { isFree, ages } = await look(where, ['--time', '--fork', '--monotonic', `${days}`]);
    assert.equal(isFree, false);
    // This needs more than 32 bits of milliseconds.
    assert.ok(ages.length === 1 && ages[0] >= days * 1000 && ages[0] < (days + 3600) * 1000, ages);
  });

  /** A command that mounts something first. */
  const withMount = (mount) => [...MOUNTS, 'sh', '-c', `mount ${mount} && exec "$@"`, 'sh'];

  for (const [what, bootId] of [
    // LXC and systemd-nspawn give containers one.
    ['a name of their own', '12345678-1234-4321-8888-aabbccddeeff\n'],
    ['no name', ''],
  ]) {
    it(`share locks, and tokens go on, although they have ${what} for the boot`, async (t) => {
      const file = path.join(freshDirectory(t), 'boot_id');
      fs.writeFileSync(file, bootId);
      const withOwnBoot = withMount(`--bind ${file} /proc/sys/kernel/random/boot_id`);
      const { locks, where } = freshBucket(t);
      const other = await RemoteProcess.start(t, where);
      await other.hold('a');
      const { held } = await locks.query({ details: true });
      assert.equal((await look(where, withOwnBoot)).isFree, false);
      other.kill();
      await other.exited;
      // Nothing proves that it is the same boot.
      const { isFree, token } = await look(where, withOwnBoot);
      assert.equal(isFree, true);
      assert.ok(BigInt(token) > held[0].token);
    });
  }

  // The plain variant of the port (run.sh) reaches no socket through /proc.
  const needsNone = process.env.WEB_LOCKS_TEST_PORT === 'plain' && 'the plain port is tested';
  it('are refused without /proc, with the advice to mount it', { skip: needsNone }, (t) =>
    assert.rejects(look(freshBucket(t).where, withMount('-t tmpfs tmpfs /proc')), {
      stderr: /: \/proc is not mounted, .* Mount it\.\n/,
    }),
  );
});
