'use strict';

/**
 * The command line `web-locks` (docs/CLI.md): parses it, runs the command, and ends the process.
 */

const { read } = require('./arguments.js');
const { help } = require('./help.js');
const { allIsWritten, print } = require('./output.js');
const { dieOf } = require('./signals.js');
const { Failure, STATUS, say } = require('./status.js');
const { version } = require('../../package.json');

/** @typedef {import('./status.js').Ending} Ending */
/** @typedef {import('./arguments.js').ParsedCommand} ParsedCommand */

/**
 * The commands are loaded when needed, so that the help works without the addon.
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

/** @param {ParsedCommand} request */
async function perform(request) {
  if (request.command === 'version') return answer(`${version}\n`);
  if (request.command === 'help') return answer(help(request.of));
  if (request.command === 'usage') {
    process.stderr.write(help());
    return { status: STATUS.usage };
  }
  return DOERS[request.command]()(request);
}

/** @param {string} text */
async function answer(text) {
  await print(text);
  return { status: STATUS.ok };
}

/** @param {unknown} error @param {string | undefined} command */
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
 * Ends the process once its output is written, even if a connection is still open.
 * @param {Ending} ending
 */
async function leave(ending) {
  await allIsWritten();
  if (ending.signal) dieOf(ending.signal);
  else process.exit(ending.status);
}

/** @param {string[]} argv the arguments without the program */
async function main(argv) {
  /** @type {ParsedCommand | undefined} */
  let request;
  /** @type {Ending} */
  let ending;
  // The terminal may be gone. Nobody reads stderr then, but the current work must still end in
  // order.
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
