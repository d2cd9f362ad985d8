// slow: 29; long

'use strict';

/** Wrong usages, the help, the manual page. */

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const { existsSync, readFileSync } = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { COMMANDS } = require('../../lib/cli/arguments.js');
const { PROGRAM, root } = require('./command.js');

const MANUAL = path.join(root, 'man', 'web-locks.1');

/** Runs `web-locks`; nothing of this needs a lock. */
function run(args, env = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], {
    encoding: 'utf8',
    env: { ...process.env, WEB_LOCKS_AT: '', WEB_LOCKS_BINARY: '/none', ...env },
  });
  return { code: status, stdout, stderr };
}

const WRONG = [
  [['walk'], /unknown command 'walk'/],
  [['--walk'], /unknown option '--walk'/],
  [['toString'], /unknown command 'toString'/],
  [['help', 'walk'], /unknown command 'walk'/],
  [['run'], /the name of the lock is missing/],
  [['run', '--', 'true'], /the name of the lock is missing/],
  [['run', 'a'], /a command is missing: give it after --/],
  [['run', 'a', '--'], /a command is missing: give it after --/],
  [['run', 'a', 'true', '--', 'true'], /unexpected argument 'true'\. Write the command after --/],
  [['run', 'a', '--walk', '--', 'true'], /Unknown option '--walk'/],
  [['run', 'a', '--timeout', '--', 'true'], /--timeout <value>' argument missing/],
  [['run', 'a', '--shared=1', '--', 'true'], /does not take an argument/],
  [['run', 'a', '--timeout', '1s', '--', 'true'], /--timeout is '1s'; expected seconds/],
  [['run', 'a', '--timeout=-1', '--', 'true'], /--timeout is '-1'; expected seconds/],
  [['run', 'a', '--timeout', '-1', '--', 'true'], /--timeout is '-1'; expected seconds/],
  [['run', 'a', '-w', '-1', '--', 'true'], /--timeout is '-1'; expected seconds/],
  [['run', 'a', '-l', '-x', '--', 'true'], /'-x' looks like an option.*write --label=-x/],
  [['run', 'a', '--at', 'redis://x', '--ttl', '1', '--', 'true'], /expected 2 to 3600 seconds/],
  [['run', 'a', '--at', 'redis://x', '--ttl', '3601', '--', 'true'], /expected 2 to 3600 seconds/],
  [['run', 'a', '-w', '9999999', '--', 'true'], /expected at most 2147483 seconds/],
  [['run', 'a', '--limit', '0', '--', 'true'], /expected a whole number from 1 to/],
  [['run', 'a', '--limit', '2147483648', '--', 'true'], /expected a whole number from 1 to/],
  [['run', 'a', '-E', '256', '--', 'true'], /'256'; expected a whole number from 0 to 255/],
  [['run', 'a', '--weight', '2', '--', 'true'], /--weight requires --limit/],
  [
    ['run', 'a', '--weight', '2', '--limit', '1', '--', 'true'],
    /--weight is 2; expected at most --limit, which is 1/,
  ],
  [
    ['run', 'a', '-n', '-w', '1', '--', 'true'],
    /--if-available and --timeout cannot be used together/,
  ],
  [['run', 'a', '--steal', '-p', '1', '--', 'true'], /--steal and --priority cannot be used/],
  [['run', 'a', '-p', '1.5', '--', 'true'], /expected a whole number from -2147483648/],
  [['run', 'a', '-p', '2147483648', '--', 'true'], /--priority is '2147483648'; expected/],
  [['run', 'a', '-p', '-1', '--', 'true'], /'-1' looks like an option.*write --priority=-1/],
  [['run', 'a', '--steal', '-s', '--', 'true'], /--steal and --shared cannot be used together/],
  [
    ['run', 'a', '-d', '/x', '--at', 'redis://x', '--', 'true'],
    /--directory and --at cannot be used together/,
  ],
  [['run', 'a', '--ttl', '3', '--', 'true'], /--ttl requires --at/],
  [['query', 'a'], /unexpected argument 'a'/],
  [['query', '--all', '-b', 'x'], /--all and --bucket cannot be used together/],
  [['query', '--all', '--at', 'redis://x'], /--all shows the locks of this machine/],
  [['query', '--directory', ''], /--directory is empty/],
  [['run', 'a', '-c', 'true', '--', 'true'], /--command and -- cannot be used together/],
  [['run', 'a', '-c', ''], /--command is empty/],
  [['run', 'a', '-q', '-v', '--', 'true'], /--quiet and --verbose/],
  [['run', 'a', '--schema', 'x', '--', 'true'], /--schema requires --at/],
  [['run', 'a', '--shards', '2', '--', 'true'], /--shards requires --at/],
  [['run', 'a', '--prefix', 'dev:', '--', 'true'], /--prefix requires --at/],
  [['query', '--at', 'redis://x', '--shards', '65'], /expected a whole number from 1 to 64/],
  [['once', 'a', '--', 'true'], /--keep is missing/],
  [['once', 'a', '--keep', '1w', '--', 'true'], /--keep is '1w'; expected a time, such as 90s/],
  [['once', 'a', '--keep', '0', '--', 'true'], /--keep is '0'; expected a time/],
  [['once', 'a', '--keep', '1h'], /a command is missing: give it after --/],
  [['elect', '--', 'true'], /the name of the lock is missing/],
  [['elect', 'a'], /a command is missing: give it after --/],
  [['elect', 'a', '-n', '--', 'true'], /Unknown option '-n'/],
  [['completion'], /the shell is missing/],
  [['completion', 'tcsh'], /the shell is 'tcsh'; expected one of bash, zsh, fish/],
  [['top', 'a'], /unexpected argument 'a'/],
  [['top', '--port', '8080'], /--port requires --web/],
  [['top', '--web', '--port', '65536'], /expected a whole number from 1 to 65535/],
  [['steal'], /the name of the lock is missing/],
  [['steal', 'a', 'b'], /unexpected argument 'b'/],
  [['steal', '--', '-a'], /is '-a'; it must not begin with -/],
  [['report'], /the file is missing/],
  [['report', ''], /the file is missing/],
  [['report', 'a.json', ''], /the file is missing/],
  [['report', 'a.json', '-o', ''], /--output is empty/],
  [['report', 'a.json', '--at', 'redis://x'], /Unknown option '--at'/],
];

describe('the command line', () => {
  for (const [args, pattern] of WRONG) {
    it(`is wrong: web-locks ${args.join(' ')}`, () => {
      const { code, stdout, stderr } = run(args);
      assert.deepEqual({ code, stdout }, { code: 64, stdout: '' });
      assert.match(stderr, pattern);
      assert.match(stderr, /^web-locks: .*\nSee: web-locks ([a-z]+ )?--help\n$/);
    });
  }

  for (const [args, env, pattern] of [
    [['query'], { WEB_LOCKS_AT: 'x' }, /: WEB_LOCKS_AT is 'x'; expected a URL/],
    [['query', '--at', 'x'], { WEB_LOCKS_AT: 'redis://x' }, /: --at is 'x'; expected a URL/],
    [['query'], { WEB_LOCKS_DIRECTORY: 'x' }, /WEB_LOCKS_DIRECTORY is 'x'; expected an absolute/],
  ]) {
    it(`blames what is wrong: ${JSON.stringify(env)} web-locks ${args.join(' ')}`, () => {
      const { code, stderr } = run(args, { WEB_LOCKS_BINARY: undefined, ...env });
      assert.equal(code, 64);
      assert.match(stderr, pattern);
    });
  }

  it('what only looks makes no directory', () => {
    const none = path.join(__dirname, 'none');
    for (const command of [['query'], ['steal', 'a', '-y'], ['top'], ['top', '--web']]) {
      const env = { WEB_LOCKS_BINARY: undefined };
      const { code, stderr } = run([...command, '-d', none], env);
      assert.deepEqual([code, existsSync(none)], [69, false]);
      assert.match(stderr, /--directory is '.*none', which does not exist/);
    }
  });

  it('query --all is of this machine, also where the environment names a server', () => {
    const { code, stderr } = run(['query', '--all'], { WEB_LOCKS_AT: 'redis://x' });
    assert.equal(code, 69);
    assert.match(stderr, /\/none/);
  });

  it('without a command prints its usage, which is a wrong usage', () => {
    const { code, stdout, stderr } = run([]);
    assert.deepEqual({ code, stdout }, { code: 64, stdout: '' });
    assert.equal(stderr, run(['--help']).stdout);
  });

  it('--version prints the version', () => {
    const { version } = require('../../package.json');
    assert.deepEqual(run(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' });
  });

  it('--help names the commands, and each tells its options, in 80 columns', () => {
    const { code, stdout } = run(['--help']);
    assert.equal(code, 0);
    for (const [command, { options }] of Object.entries(COMMANDS)) {
      assert.match(stdout, new RegExp(`^  ${command} `, 'm'));
      const help = run([command, '--help']);
      assert.equal(help.code, 0);
      assert.equal(run(['help', command]).stdout, help.stdout);
      for (const option of Object.keys(options))
        assert.match(help.stdout, RegExp(`--${option}\\b`));
      for (const line of help.stdout.split('\n')) assert.ok(line.length <= 80, line);
    }
  });

  /** Runs the help with its stdout somewhere. */
  const helpTo = (where) =>
    spawnSync(
      'bash',
      ['-c', `set -o pipefail; "$0" "$1" --help ${where}`, process.execPath, PROGRAM],
      {
        encoding: 'utf8',
      },
    );
  const noShell = spawnSync('bash', ['-c', ':']).error ? 'bash is not installed' : false;
  const noFull = noShell || (existsSync('/dev/full') ? false : 'there is no /dev/full');

  it('ends quietly when nobody reads what it prints', { skip: noShell }, () => {
    const { status, stderr } = helpTo('| exec 0<&-');
    assert.deepEqual({ status, stderr }, { status: 0, stderr: '' });
  });

  it('says that what it prints cannot be written, and ends with 66', { skip: noFull }, () => {
    const { status, stderr } = helpTo('> /dev/full');
    assert.match(stderr, /^web-locks: the output cannot be written: ENOSPC.*\n$/);
    assert.equal(status, 66);
  });

  it('says that the addon is missing', () => {
    const { code, stderr } = run(['query'], { WEB_LOCKS_BINARY: '/none' });
    assert.equal(code, 69);
    assert.match(stderr, /^web-locks: /);
  });
});

describe('the documents of the command line', () => {
  for (const [title, file] of [
    ['the manual page', MANUAL],
    ['docs/CLI.md', path.join(root, 'docs', 'CLI.md')],
  ]) {
    it(`${title} has every option`, () => {
      const text = readFileSync(file, 'utf8').replaceAll('\\-', '-');
      for (const [command, { options }] of Object.entries(COMMANDS)) {
        for (const option of Object.keys(options)) {
          assert.ok(text.includes(`--${option}`), `${command} --${option}`);
        }
      }
    });
  }

  const lacks = (tool) => spawnSync(tool, ['--version']).error && `${tool} is not installed`;

  it('mandoc finds nothing wrong with the manual page', { skip: lacks('mandoc') }, () => {
    const args = ['-Tlint', '-Wwarning', MANUAL];
    const { stdout, stderr } = spawnSync('mandoc', args, { encoding: 'utf8' });
    // The page is of every version, and has no date.
    const found = (stdout + stderr).split('\n').filter((line) => !line.includes('missing date'));
    assert.deepEqual(found, ['']);
  });

  it('man shows the manual page', { skip: lacks('man') }, () => {
    const env = { ...process.env, MANWIDTH: '80', LC_ALL: 'C.UTF-8' };
    const text = execFileSync('man', ['--warnings', '-l', MANUAL], { encoding: 'utf8', env });
    assert.match(text, /--conflict-exit-code/);
  });
});
