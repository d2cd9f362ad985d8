'use strict';

/** Wrong usage, the help, and the manual page. */

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const { existsSync, readFileSync } = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { COMMANDS, parseCommandLine } = require('../../lib/cli/arguments.js');
const { help } = require('../../lib/cli/help.js');
const { STATUS } = require('../../lib/cli/status.js');
const { PROGRAM, check, root } = require('./command.js');

const MANUAL = path.join(root, 'man', 'web-locks.1');

/** Runs `web-locks`; these commands need no lock. */
function run(args, env = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], {
    encoding: 'utf8',
    env: { ...process.env, WEB_LOCKS_AT: '', WEB_LOCKS_BINARY: '/none', ...env },
  });
  return { code: status, stdout, stderr };
}

/** Words, cut at spaces, and the message that refuses them. */
const WRONG = [
  ['walk', /unknown command 'walk'/],
  ['--walk', /unknown option '--walk'/],
  ['toString', /unknown command 'toString'/],
  ['help walk', /unknown command 'walk'/],
  ['run -- true', /the name of the lock is missing/],
  ['elect', /the name of the lock is missing/],
  ['run a', /a command is missing: give it after --/],
  ['once a --keep 1h --', /a command is missing: give it after --/],
  ['run a true -- true', /unexpected argument 'true'\. Write the command after --/],
  ['run a --walk -- true', /Unknown option '--walk'/],
  ['run a --timeout -- true', /--timeout <value>' argument missing/],
  ['run a --shared=1 -- true', /does not take an argument/],
  ['run a --timeout 1s -- true', /--timeout is '1s'; expected seconds/],
  ['run a --timeout=-1 -- true', /--timeout is '-1'; expected seconds/],
  ['run a -w -1 -- true', /--timeout is '-1'; expected seconds/],
  ['run a -w 9999999 -- true', /expected at most 2147483 seconds/],
  ['run a -l -x -- true', /'-x' looks like an option.*write --label=-x/],
  ['run a -p -1 -- true', /'-1' looks like an option.*write --priority=-1/],
  ['run a -p 1.5 -- true', /expected a whole number from -2147483648/],
  ['run a -p 2147483648 -- true', /--priority is '2147483648'; expected/],
  ['run a --at redis://x --ttl 1 -- true', /expected 2 to 3600 seconds/],
  ['run a --at redis://x --ttl 3601 -- true', /expected 2 to 3600 seconds/],
  ['run a --limit 0 -- true', /expected a whole number from 1 to/],
  ['run a --limit 2147483648 -- true', /expected a whole number from 1 to/],
  ['run a -E 256 -- true', /'256'; expected a whole number from 0 to 255/],
  ['run a --weight 2 -- true', /--weight requires --limit/],
  ['run a --weight 2 --limit 1 -- true', /--weight is 2; expected at most --limit, which is 1/],
  ['run a -n -w 1 -- true', /--if-available and --timeout cannot be used together/],
  ['run a --steal -p 1 -- true', /--steal and --priority cannot be used/],
  ['run a --steal -s -- true', /--steal and --shared cannot be used together/],
  ['run a -c true -- true', /--command and -- cannot be used together/],
  ['run a -c ', /--command is empty/],
  ['run a -q -v -- true', /--quiet and --verbose/],
  ['run a -d /x --at redis://x -- true', /--directory and --at cannot be used together/],
  ...['ttl 3', 'schema x', 'shards 2', 'prefix dev:'].map((option) => [
    `run a --${option} -- true`,
    new RegExp(`--${option.split(' ')[0]} requires --at`),
  ]),
  ['once a -- true', /--keep is missing; .* in seconds, or with a unit \(ms, s, m, h, d\)/],
  ['once a --keep 1w -- true', /--keep is '1w'; expected a time in seconds, .*such as 90s/],
  ['once a --keep 0 -- true', /--keep is '0'; expected a time/],
  [`once a --keep ${'9'.repeat(400)} -- true`, /--keep is '9+'; expected a time/],
  ['elect a -n -- true', /Unknown option '-n'/],
  ['query --all -b x', /--all and --bucket cannot be used together/],
  ['query --all --at redis://x', /--all shows the locks of this machine/],
  ['query --directory ', /--directory is empty/],
  ['query --at redis://x --shards 65', /expected a whole number from 1 to 64/],
  ['completion', /the shell is missing/],
  ['top a', /unexpected argument 'a'/],
  ['top --port 8080', /--port requires --web/],
  ['top --web --port 65536', /expected a whole number from 1 to 65535/],
  ['steal -- -a', /is '-a'; it must not begin with -/],
  ['report', /the file is missing/],
  ['report a.json ', /the file is missing/],
  ['report a.json -o ', /--output is empty/],
  ['report a.json --at redis://x', /Unknown option '--at'/],
];

describe('the command line', () => {
  for (const [words, message] of WRONG) {
    it(`refuses: web-locks ${words}`, () => {
      assert.throws(() => parseCommandLine(words.split(' '), {}), {
        status: STATUS.usage,
        message,
      });
    });
  }

  it('says what is wrong, in which option or variable, and where to read more', () => {
    const host = { WEB_LOCKS_BINARY: undefined };
    for (const [words, env, stderr] of [
      ['walk', {}, "unknown command 'walk'.\nSee: web-locks --help\n"],
      ['run', {}, 'the name of the lock is missing.\nSee: web-locks run --help\n'],
      [
        'completion tcsh',
        {},
        "the shell is 'tcsh'; expected one of bash, zsh, fish.\nSee: web-locks completion --help\n",
      ],
      ['query', { ...host, WEB_LOCKS_AT: 'x' }, /: WEB_LOCKS_AT is 'x'; expected a URL/],
      ['query --at x', { ...host, WEB_LOCKS_AT: 'redis://x' }, /: --at is 'x'; expected a URL/],
      ['query', { WEB_LOCKS_DIRECTORY: 'x' }, /WEB_LOCKS_DIRECTORY is 'x'; expected an absolute/],
    ]) {
      const expected = typeof stderr === 'string' ? `web-locks: ${stderr}` : stderr;
      check(run(words.split(' '), env), { code: 64, stdout: '', stderr: expected });
    }
  });

  it('makes no directory for a command that only shows or takes locks', () => {
    const none = path.join(__dirname, 'none');
    for (const words of ['query', 'steal a -y', 'top --web']) {
      const ending = run([...words.split(' '), '-d', none], { WEB_LOCKS_BINARY: undefined });
      check(ending, { code: 69, stderr: /--directory is '.*none', which does not exist/ });
      assert.equal(existsSync(none), false);
    }
  });

  it('looks at this machine for query --all, even if the environment names a server', () => {
    // The addon is missing.
    const ending = run(['query', '--all'], { WEB_LOCKS_AT: 'redis://x' });
    check(ending, { code: 69, stderr: /^web-locks: no native binary .*\n {2}\/none: not there/ });
  });

  it('prints its usage, its help and its version', () => {
    check(run([]), { code: 64, stdout: '', stderr: help() });
    check(run(['--help']), { code: 0, stdout: help(), stderr: '' });
    check(run(['help', 'run']), { code: 0, stdout: help('run'), stderr: '' });
    const { version } = require('../../package.json');
    check(run(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' });
  });

  it('--help lists the commands, and the options of each, in 80 columns', () => {
    for (const [command, { options }] of Object.entries(COMMANDS)) {
      assert.match(help(), new RegExp(`^  ${command} `, 'm'));
      for (const words of [`${command} --help`, `${command} -h`, `help ${command}`]) {
        const parsed = parseCommandLine(words.split(' '), {});
        assert.deepEqual([parsed.command, parsed.of], ['help', command]);
      }
      for (const option of Object.keys(options))
        assert.match(help(command), RegExp(`--${option}\\b`));
      for (const line of help(command).split('\n')) assert.ok(line.length <= 80, line);
    }
  });

  /** Runs the help with its stdout somewhere. */
  const helpTo = (where) => {
    const script = `set -o pipefail; "$0" "$1" --help ${where}`;
    return spawnSync('bash', ['-c', script, process.execPath, PROGRAM], { encoding: 'utf8' });
  };
  const noShell = spawnSync('bash', ['-c', ':']).error ? 'bash is not installed' : false;
  const noFull = noShell || (existsSync('/dev/full') ? false : 'there is no /dev/full');

  it('ends quietly when no process reads what it prints', { skip: noShell }, () => {
    check(helpTo('| exec 0<&-'), { status: 0, stderr: '' });
  });

  it('ends with 66 and says why if what it prints cannot be written', { skip: noFull }, () => {
    const stderr = /^web-locks: the output cannot be written: ENOSPC.*\n$/;
    check(helpTo('> /dev/full'), { status: 66, stderr });
  });
});

describe('the documents of the command line', () => {
  for (const file of [MANUAL, path.join(root, 'docs', 'CLI.md')]) {
    it(`${path.basename(file)} names every option`, () => {
      const text = readFileSync(file, 'utf8').replaceAll('\\-', '-');
      for (const [command, { options }] of Object.entries(COMMANDS))
        for (const option of Object.keys(options))
          assert.ok(text.includes(`--${option}`), `${command} --${option}`);
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
