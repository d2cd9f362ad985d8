'use strict';

/**
 * Parses the command line with tables of the commands and their options, from which the help is
 * also made. Every mistake throws a Failure with the exit status of wrong usage.
 */

const path = require('node:path');
const { parseArgs } = require('node:util');
const { TTL } = require('../cluster/adapter.js');
const { LEAST_PRIORITY } = require('../extensions/options.js');
const { SCHEMES } = require('./engines.js');
const { Failure, STATUS } = require('./status.js');

/**
 * An option: `short` is one letter, `value` is the name of its value in the help (a switch has
 * none), `completes` is what a shell completes as the value, and `read` converts the value.
 * @typedef {{ short?: string, value?: string, help: string, completes?: 'file' | 'folder',
 *   read?: (text: string, option: string) => any }} Option
 */

/** @typedef {Record<string, any>} Values keyed by the name of the option */

/**
 * A command. `takes` describes its first argument, `takesMore` allows further arguments of the same
 * kind, and `takesCommand` requires a command line after `--`. `check` throws if options contradict
 * each other.
 * @typedef {{ usage: string, summary: string, details: string, takes?: string, takesMore?: boolean,
 *   takesCommand?: boolean, options: Record<string, Option>, check?: (values: Values) => void
 * }} Command
 */

/** @param {string} message */
const usageError = (message) => new Failure(STATUS.usage, message);

/** The longest time that a Node.js timer accepts. */
const LONGEST_MS = 2 ** 31 - 1;

/** @param {string} text @param {string} option @returns {number} milliseconds */
function readSeconds(text, option) {
  if (!/^(\d+\.?\d*|\.\d+)$/.test(text)) {
    throw usageError(`--${option} is '${text}'; expected seconds, such as 10 or 0.5.`);
  }
  const milliseconds = Number(text) * 1000;
  if (milliseconds > LONGEST_MS) {
    const most = Math.floor(LONGEST_MS / 1000);
    throw usageError(`--${option} is '${text}'; expected at most ${most} seconds.`);
  }
  return milliseconds;
}

/** @param {string} text @param {string} option @returns {number} milliseconds */
function readLease(text, option) {
  const milliseconds = readSeconds(text, option);
  if (milliseconds >= TTL.least && milliseconds <= TTL.most) return milliseconds;
  const range = `${TTL.least / 1000} to ${TTL.most / 1000} seconds`;
  throw usageError(`--${option} is '${text}'; expected ${range}.`);
}

/** @type {(least: number, most: number) => (text: string, option: string) => number} */
const wholeNumberReader = (least, most) => (text, option) => {
  const number = Number(text);
  if (!/^-?\d+$/.test(text) || number < least || number > most) {
    const range = `a whole number from ${least} to ${most}`;
    throw usageError(`--${option} is '${text}'; expected ${range}.`);
  }
  return number;
};

const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const A_TIME = `a time in seconds, or with a unit (${Object.keys(UNITS).join(', ')})`;

/**
 * A number without a unit counts as seconds.
 * @param {string} text @param {string} option @returns {number} milliseconds
 */
function readDuration(text, option) {
  const [, number, unit = 's'] = /^(\d+\.?\d*|\.\d+)(ms|[smhd])?$/.exec(text) ?? [];
  const milliseconds = Number(number) * UNITS[/** @type {keyof typeof UNITS} */ (unit)];
  if (milliseconds > 0 && milliseconds < Number.POSITIVE_INFINITY) return milliseconds;
  throw usageError(`--${option} is '${text}'; expected ${A_TIME}, such as 90s, 30m, 1h or 7d.`);
}

/**
 * @param {string} text a duration, or `forever`
 * @param {string} option @returns {number} milliseconds; Infinity for `forever`
 */
const readKeep = (text, option) =>
  text === 'forever' ? Number.POSITIVE_INFINITY : readDuration(text, option);

/** The highest number of units, and the highest priority. */
const MOST = 2 ** 31 - 1;
const readUnits = wholeNumberReader(1, MOST);

/** The options that say where the locks are. @type {Record<string, Option>} */
const PLACE = {
  bucket: { short: 'b', value: 'NAME', help: 'use this storage bucket, a separate set of locks' },
  directory: {
    short: 'd',
    value: 'PATH',
    completes: 'folder',
    help: "the directory of this machine's lock files",
  },
  at: {
    value: 'URL',
    help:
      'use locks that several machines share, on the server at this URL, which begins with one ' +
      `of ${SCHEMES.join(', ')}; $WEB_LOCKS_AT by default`,
  },
  ttl: {
    value: 'SECONDS',
    read: readLease,
    help: 'with --at: the length of the lease, from 2 to 3600; 10 by default',
  },
  schema: {
    value: 'NAME',
    help: 'with postgres://: the schema of the tables; web_locks by default',
  },
  shards: {
    value: 'N',
    read: wholeNumberReader(1, 64),
    help: 'with redis://: spread the names over this many cluster slots; 1 by default',
  },
  prefix: { value: 'TEXT', help: 'with redis://: a prefix for all keys; none by default' },
};

/** @type {Record<string, Option>} */
const HELP = { help: { short: 'h', help: 'show this help' } };

/** @type {Option} */
const LABEL = {
  short: 'l',
  value: 'TEXT',
  help: 'the label that `query` shows; by default the name of the command',
};

/** Options that `run`, `once` and `elect` share. @type {Record<string, Option>} */
const JOB = {
  command: {
    short: 'c',
    value: 'COMMAND',
    help: 'run this command line in a shell ($SHELL), instead of a command after --',
  },
  'kill-after': {
    value: 'SECONDS',
    read: readSeconds,
    help: 'if the lock is lost, the time between SIGTERM and SIGKILL; 5 by default',
  },
  label: LABEL,
  priority: {
    short: 'p',
    value: 'N',
    read: wholeNumberReader(LEAST_PRIORITY, MOST),
    help: 'wait ahead of requests with a lower priority; 0 by default',
  },
  publish: {
    help: 'let the command tell others something: see `web-locks publish`',
  },
  verbose: {
    short: 'v',
    help: 'say who holds the lock while waiting, and when the lock is acquired',
  },
  ...PLACE,
  ...HELP,
};

/** The options of commands that may give up waiting. @type {Record<string, Option>} */
const WAITING = {
  timeout: {
    short: 'w',
    value: 'SECONDS',
    read: readSeconds,
    help: 'wait at most this long for the lock, and with --at for the server',
  },
  'conflict-exit-code': {
    short: 'E',
    value: 'N',
    read: wholeNumberReader(0, 255),
    help: 'the exit status if the lock is not acquired; 1 by default',
  },
  quiet: { short: 'q', help: 'do not report a wait, or that the lock was not acquired' },
};

const LOCK_NAME = 'the name of the lock';

/** @type {Record<string, Command>} */
const COMMANDS = {
  run: {
    usage: 'run NAME [options] -- COMMAND [ARGUMENT…]',
    summary: 'run a command while holding a lock',
    details:
      'Waits for the lock NAME, first come, first served, runs COMMAND while holding the lock, ' +
      'and exits with the status or signal of COMMAND. WEB_LOCKS_NAME and WEB_LOCKS_TOKEN are in ' +
      'the environment of COMMAND.',
    takes: LOCK_NAME,
    takesCommand: true,
    options: {
      shared: { short: 's', help: 'share the lock with other shared holders' },
      limit: {
        value: 'N',
        read: readUnits,
        help: 'use the lock as a semaphore of N units; implies --shared',
      },
      weight: {
        value: 'N',
        read: readUnits,
        help: 'with --limit: acquire this many units; 1 by default',
      },
      'if-available': { short: 'n', help: 'if the lock is not free, exit instead of waiting' },
      steal: { help: 'take the lock from its holders' },
      ...WAITING,
      ...JOB,
    },
    check: checkRun,
  },
  once: {
    usage: 'once NAME --keep TIME [options] -- COMMAND [ARGUMENT…]',
    summary: 'run a command unless another caller has already run it',
    details:
      'Of all callers with the same NAME, one runs COMMAND. The others wait until COMMAND ends, ' +
      'and then exit with 0 without running theirs. Callers that start within TIME after that ' +
      'also exit with 0. If COMMAND fails, the next caller runs its own.',
    takes: LOCK_NAME,
    takesCommand: true,
    options: {
      keep: {
        short: 'k',
        value: 'TIME',
        read: readKeep,
        help: 'after a success, skip other callers for this long: 90s, 30m, 1h, 7d or forever',
      },
      ...WAITING,
      ...JOB,
    },
    check: checkOnce,
  },
  elect: {
    usage: 'elect NAME [options] -- COMMAND [ARGUMENT…]',
    summary: 'run a command while elected as the leader',
    details:
      'Of all candidates for NAME, one leads and runs COMMAND. If it loses the lock, it ends ' +
      'COMMAND, becomes a candidate again, and restarts COMMAND when it leads again. If COMMAND ' +
      'exits by itself, web-locks exits with the same status, and the next candidate leads.',
    takes: LOCK_NAME,
    takesCommand: true,
    options: JOB,
    check: checkJob,
  },
  query: {
    usage: 'query [options]',
    summary: 'show who holds locks and who waits for them',
    details:
      'Prints a table of the held locks and of the requests that wait for them, in the order of ' +
      'the queue.',
    options: {
      name: { value: 'NAME', help: 'show only this name' },
      all: { short: 'a', help: 'show all buckets of the directory' },
      json: { short: 'j', help: 'print one line of JSON' },
      watch: {
        short: 'w',
        help: 'keep running and show changes; in a terminal, q or Ctrl-C ends it',
      },
      ...PLACE,
      ...HELP,
    },
    check: checkQuery,
  },
  top: {
    usage: 'top [options]',
    summary: 'show live who holds locks and who waits for them',
    details:
      'Does the same as `query --watch`. With --web, it serves a page for browsers on this ' +
      'machine instead, prints its URL, which contains a secret, and runs until Ctrl-C.',
    options: {
      name: { value: 'NAME', help: 'show only this name' },
      web: { help: 'serve a page on 127.0.0.1' },
      port: {
        value: 'N',
        read: wholeNumberReader(1, 65_535),
        help: 'with --web: listen on this port; any free port by default',
      },
      ...PLACE,
      ...HELP,
    },
    check: checkTop,
  },
  steal: {
    usage: 'steal NAME [options]',
    summary: 'take a lock from its holders',
    details:
      'Shows who holds the lock NAME, asks for confirmation, takes the lock from its holders, ' +
      'and gives it to the next waiter. Use it to recover from a holder that hangs.',
    takes: LOCK_NAME,
    options: {
      yes: { short: 'y', help: 'take the lock without asking for confirmation' },
      label: { ...LABEL, help: 'the label that `query` shows for the new holder' },
      ...PLACE,
      ...HELP,
    },
  },
  publish: {
    usage: 'publish VALUE',
    summary: 'tell others something about the lock of this command',
    details:
      'Used by a command of `web-locks run --publish`: `query` shows VALUE, a JSON value, as the ' +
      'data of the lock while the command runs. The command can also write lines of JSON to the ' +
      'descriptor $WEB_LOCKS_PUBLISH_FD itself; an empty line removes the data.',
    takes: 'the value',
    options: HELP,
  },
  report: {
    usage: 'report FILE… [options]',
    summary: 'make an HTML page from a profile',
    details:
      'Makes an HTML page from FILE, a profile of who waited for whom, recorded with ' +
      '`node --import web-locks/profile`. The profiles of several processes become one page, ' +
      'with a common clock. The page is a single file that loads nothing else.',
    takes: 'the file',
    takesMore: true,
    options: {
      output: {
        short: 'o',
        value: 'PAGE',
        completes: 'file',
        help: 'write to this file; by default the first FILE with .html instead of .json',
      },
      ...HELP,
    },
    check: checkReport,
  },
  completion: {
    usage: 'completion bash|zsh|fish',
    summary: 'print a completion script for a shell',
    details:
      'Prints a script that makes a shell complete commands and options. For bash, add this line ' +
      'to ~/.bashrc: source <(web-locks completion bash)',
    takes: 'the shell',
    options: HELP,
  },
};

const EXCLUSIONS = [
  ['quiet', 'verbose'],
  ['if-available', 'timeout'],
  ['if-available', 'steal'],
  ['steal', 'timeout'],
  ['steal', 'shared'],
  ['steal', 'limit'],
  ['steal', 'priority'],
];

/** Checks the options that `run`, `once` and `elect` share. @param {Values} values */
function checkJob(values) {
  for (const [one, other] of EXCLUSIONS) {
    // A timeout of 0 means the same as --if-available.
    if (one === 'if-available' && other === 'timeout' && values.timeout === 0) continue;
    if (values[one] !== undefined && values[other] !== undefined) {
      throw usageError(`--${one} and --${other} cannot be used together.`);
    }
  }
  if (values.command === '') throw usageError('--command is empty; expected a command line.');
}

/** @param {Values} values */
function checkOnce(values) {
  checkJob(values);
  if (values.keep === undefined)
    throw usageError(`--keep is missing; expected ${A_TIME}, such as 90s, 30m, 1h, or forever.`);
}

/** @param {Values} values */
function checkRun(values) {
  checkJob(values);
  if (values.weight !== undefined && values.limit === undefined) {
    throw usageError('--weight requires --limit.');
  }
  if (values.weight > values.limit)
    throw usageError(
      `--weight is ${values.weight}; expected at most --limit, which is ${values.limit}.`,
    );
}

/** @param {Values} values */
function checkQuery({ all, at, bucket }) {
  if (!all) return;
  if (bucket !== undefined) throw usageError('--all and --bucket cannot be used together.');
  if (at !== undefined)
    throw usageError('--all shows the locks of this machine; it cannot be used with --at.');
}

/** @param {Values} values */
function checkTop({ port, web }) {
  if (port !== undefined && !web) throw usageError('--port requires --web.');
}

/** @param {Values} values */
function checkReport({ output }) {
  if (output === '') throw usageError('--output is empty; expected a path.');
}

/** @param {Values} values */
function checkPlace({ directory, at, ...more }) {
  if (directory !== undefined && at !== undefined) {
    throw usageError('--directory and --at cannot be used together.');
  }
  if (directory === '') throw usageError('--directory is empty; expected a path.');
  for (const option of ['ttl', 'schema', 'shards', 'prefix']) {
    if (more[option] !== undefined && at === undefined)
      throw usageError(`--${option} requires --at.`);
  }
}

/**
 * `command` is one of COMMANDS, `version`, `help` (for the command `of`), or `usage` if the command
 * line is empty. `name` is a lock or a file, `more` are further files, `words` the command to run.
 * @typedef {{ command: string, of?: string, name?: string, more?: string[], words: string[],
 *   values: Values }} ParsedCommand
 */

/** @param {string[]} argv @param {NodeJS.ProcessEnv} env @throws {Failure} */
function parseCommandLine(argv, env) {
  const [first, ...rest] = argv;
  const none = { words: [], values: {} };
  if (first === undefined) return { command: 'usage', ...none };
  if (first === '--version' || first === '-V') return { command: 'version', ...none };
  if (first === '--help' || first === '-h') return { command: 'help', ...none };
  const isHelp = first === 'help';
  const wanted = isHelp ? rest[0] : first;
  if (wanted !== undefined && !Object.hasOwn(COMMANDS, wanted)) {
    throw usageError(`unknown ${wanted.startsWith('-') ? 'option' : 'command'} '${wanted}'.`);
  }
  if (isHelp) return { command: 'help', of: wanted, ...none };
  return parseCommand(first, rest, env);
}

/** @param {string} command @param {string[]} argv @param {NodeJS.ProcessEnv} env */
function parseCommand(command, argv, env) {
  const { takes, takesMore, takesCommand, options, check } = COMMANDS[command];
  const end = takesCommand ? argv.indexOf('--') : -1;
  const own = end < 0 ? argv : argv.slice(0, end);
  const { values, positionals } = parseOptions(own, options);
  if (values.help) return { command: 'help', of: command, words: [], values };
  const name = takes ? positionals[0] : undefined;
  const more = takes ? positionals.slice(1) : positionals;
  if (takes) checkArgument(takes, name);
  if (more.length > 0 && !takesMore) {
    const hint = takesCommand ? ' Write the command after --.' : '';
    throw usageError(`unexpected argument '${more[0]}'.${hint}`);
  }
  for (const other of more) checkArgument(takes ?? '', other);
  const words = takesCommand ? wordsToRun(argv, end, values, env) : [];
  check?.(values);
  if (options.at) readPlace(values, env);
  checkPlace(values);
  return { command, name, more, words, values };
}

/**
 * Sets `at` from the environment if no option gives a location, or else throws if the directory
 * from the environment is a relative path. The options `--directory` and `--all` mean the locks of
 * this machine, whatever the environment says.
 * @param {Values} values @param {NodeJS.ProcessEnv} env
 */
function readPlace(values, { WEB_LOCKS_AT: at, WEB_LOCKS_DIRECTORY: directory }) {
  if (values.directory !== undefined || values.at !== undefined) return;
  if (at && !values.all) {
    values.at = at;
    values.isAtOfEnvironment = true;
  } else if (directory && !path.isAbsolute(directory)) {
    throw usageError(`WEB_LOCKS_DIRECTORY is '${directory}'; expected an absolute path.`);
  }
}

/**
 * @param {string[]} argv @param {number} end the index of `--`, or -1
 * @param {Values} values @param {NodeJS.ProcessEnv} env @returns {string[]} the command to run
 */
function wordsToRun(argv, end, { command }, { SHELL }) {
  if (command !== undefined && end >= 0)
    throw usageError('--command and -- cannot be used together.');
  if (command !== undefined) return [SHELL || '/bin/sh', '-c', command];
  const words = end < 0 ? [] : argv.slice(end + 1);
  if (words.length === 0)
    throw usageError('a command is missing: give it after --, or with --command.');
  return words;
}

/** @param {string} takes @param {string | undefined} given */
function checkArgument(takes, given) {
  const isLock = takes === LOCK_NAME;
  // The empty string is a valid name of a lock.
  if (given === undefined || (given === '' && !isLock)) throw usageError(`${takes} is missing.`);
  if (isLock && given.startsWith('-'))
    throw usageError(`${takes} is '${given}'; it must not begin with -.`);
}

/** @param {string[]} argv @param {Record<string, Option>} options */
function parseOptions(argv, options) {
  /** @type {NonNullable<import('node:util').ParseArgsConfig['options']>} */
  const config = {};
  for (const [name, { short, value }] of Object.entries(options)) {
    config[name] = { type: value ? 'string' : 'boolean', ...(short && { short }) };
  }
  let parsed;
  try {
    parsed = parseArgs({ args: argv, options: config, allowPositionals: true });
  } catch (error) {
    const { message } = /** @type {Error} */ (error);
    if (/is ambiguous/.test(message)) explainAmbiguity(argv, options);
    throw usageError(`${message.split(/\. |\n/)[0].replace(/\.$/, '')}.`);
  }
  /** @type {Values} */
  const values = { ...parsed.values };
  for (const [name, { read: readValue }] of Object.entries(options)) {
    if (readValue && values[name] !== undefined) values[name] = readValue(values[name], name);
  }
  return { values, positionals: parsed.positionals };
}

/**
 * parseArgs rejects a value that begins with - because it looks like an option. If such a value
 * is found, this throws: the message says how to write it, or why it is not valid.
 * @param {string[]} argv @param {Record<string, Option>} options
 */
function explainAmbiguity(argv, options) {
  for (const [name, { short, value, read: readValue }] of Object.entries(options)) {
    const at = argv.findIndex((word) => word === `--${name}` || word === `-${short}`);
    const given = argv[at + 1];
    if (!value || at < 0 || !given?.startsWith('-')) continue;
    readValue?.(given, name);
    throw usageError(
      `'${given}' looks like an option. If it is the ${value}, write --${name}=${given}`,
    );
  }
}

module.exports = { COMMANDS, parseCommandLine };
