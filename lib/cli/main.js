'use strict';

/** The command line `web-locks` (docs/CLI.md): reads it, does it, ends the process. */

const { read } = require('./arguments.js');
const { help } = require('./help.js');
const { allIsWritten, print } = require('./output.js');
const { dieOf } = require('./signals.js');
const { Failure, STATUS, say } = require('./status.js');
const { version } = require('../../package.json');

/** @typedef {import('./status.js').Ending} Ending */
/** @typedef {import('./arguments.js').ParsedCommand} ParsedCommand */

/**
 * What does a command; loaded when it is needed: the help works without the addon.
 * @type {Record<string, () => (request: ParsedCommand) => Promise<Ending>>}
 */
const DOERS = {
  run: () => require('./run.js').run,
  once: () => require('./once.js').once,
  elect: () => require('./elect.js').elect,
  query: () => require('./query.js').query,
  top: () => require('./top.js').top,
  steal: () => require('./steal.js').steal,
  report: () => require('./report.js').report,
  completion: () => require('./completion.js').completion,
};

/**
 * @param {ParsedCommand} request
 * @returns {Promise<Ending>}
 */
async function perform(request) {
  if (request.command === 'version') return answer(`${version}\n`);
  if (request.command === 'help') return answer(help(request.of));
  if (request.command === 'usage') {
    process.stderr.write(help());
    return { status: STATUS.usage };
  }
  return DOERS[request.command]()(request);
}

/**
 * @param {string} text
 * @returns {Promise<Ending>}
 */
async function answer(text) {
  await print(text);
  return { status: STATUS.ok };
}

/**
 * @param {unknown} error
 * @param {string | undefined} command
 * @returns {Ending}
 */
function report(error, command) {
  if (error instanceof Failure) {
    say(error.message);
    if (error.hint) process.stderr.write(`${error.hint}\n`);
    if (error.status === STATUS.usage && !error.hint) {
      process.stderr.write(`See: web-locks ${command ? `${command} ` : ''}--help\n`);
    }
    return { status: error.status };
  }
  const { code, message, stack } = /** @type {any} */ (error);
  if (String(code).startsWith('ERR_WEB_LOCKS_')) {
    say(message.replace(/^web-locks: /, ''));
    return { status: STATUS.unavailable };
  }
  say(`internal error: ${stack ?? error}`);
  return { status: STATUS.internal };
}

/**
 * Ends the process when what it has said is written; a connection that does not end does not keep
 * it.
 * @param {Ending} ending
 */
async function leave(ending) {
  await allIsWritten();
  if (ending.signal) dieOf(ending.signal);
  else process.exit(ending.status);
}

/** @param {string[]} argv without the program */
async function main(argv) {
  /** @type {ParsedCommand | undefined} */
  let request;
  /** @type {Ending} */
  let ending;
  // Nobody reads it, perhaps of a terminal that has gone: what is under way still has to be ended.
  process.stderr.on('error', () => {});
  try {
    request = read(argv, process.env);
    ending = await perform(request);
  } catch (error) {
    ending = report(
      error,
      request?.command ?? (Object.hasOwn(DOERS, argv[0]) ? argv[0] : undefined),
    );
  }
  await leave(ending);
}

module.exports = { main };
