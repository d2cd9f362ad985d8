'use strict';

/** The command line `web-locks` (docs/CLI.md). */

require('./environment.js');
const { parseCommandLine } = require('./arguments.js');
const { help } = require('./help.js');
const { flush, print } = require('./output.js');
const { endBySignal } = require('./signals.js');
const { Failure, STATUS, say } = require('./status.js');
const { version } = require('../../package.json');

/** @typedef {import('./status.js').Ending} Ending */
/** @typedef {import('./arguments.js').ParsedCommand} ParsedCommand */

/**
 * The commands are loaded when needed, so that the help works without the addon.
 * @type {Record<string, () => (request: ParsedCommand) => Promise<Ending>>}
 */
const COMMAND_LOADERS = {
  run: () => require('./run.js').run,
  once: () => require('./once.js').once,
  elect: () => require('./elect.js').elect,
  query: () => require('./query.js').query,
  top: () => require('./top.js').top,
  publish: () => require('./publish.js').publish,
  steal: () => require('./steal.js').steal,
  report: () => require('./report.js').report,
  completion: () => require('./completion.js').completion,
};

/** @param {ParsedCommand} request */
async function runCommand(request) {
  if (request.command === 'version') return printAnswer(`${version}\n`);
  if (request.command === 'help') return printAnswer(help(request.of));
  if (request.command === 'usage') {
    process.stderr.write(help());
    return { status: STATUS.usage };
  }
  return COMMAND_LOADERS[request.command]()(request);
}

/** Resolves to the ending of a success. @param {string} text */
async function printAnswer(text) {
  await print(text);
  return { status: STATUS.ok };
}

/** Returns how the program ends. @param {unknown} error @param {string | undefined} command */
function reportError(error, command) {
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

/** Ends the process once its output is written. @param {Ending} ending */
async function endProcess(ending) {
  await flush();
  if (ending.signal) endBySignal(ending.signal);
  else process.exit(ending.status);
}

/** Ends the process in any case. @param {string[]} argv the arguments without the program */
async function main(argv) {
  /** @type {ParsedCommand | undefined} */
  let request;
  /** @type {Ending} */
  let ending;
  // If the terminal is gone, nobody reads stderr, but the program must still end in an orderly way.
  process.stderr.on('error', () => {});
  try {
    request = parseCommandLine(argv, process.env);
    ending = await runCommand(request);
  } catch (error) {
    ending = reportError(
      error,
      request?.command ?? (Object.hasOwn(COMMAND_LOADERS, argv[0]) ? argv[0] : undefined),
    );
  }
  await endProcess(ending);
}

module.exports = { main };
