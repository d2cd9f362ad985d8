'use strict';

/**
 * `web-locks query`: who holds and who waits, as a table or as JSON, once or again and again. No
 * scope pushes other clients' changes, so `--watch` looks each second.
 */

const { output, printAll } = require('./output.js');
const { Place } = require('./places.js');
const { Screen } = require('./screen.js');
const { STATUS } = require('./status.js');
const { identity, json, table } = require('./table.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/** @typedef {import('./status.js').Ending} Ending */
/** @typedef {import('./arguments.js').Request} Request */

/** From one look to the next. */
const PERIOD_MS = 1000;

/**
 * @param {Request} request
 * @returns {Promise<Ending>}
 */
async function query({ values }) {
  const place = new Place(values);
  try {
    await place.ready();
    if (!values.watch) await tell(await place.look(values.name), values.json);
    else if (output().isTTY && !values.json) return await watch(place, values.name);
    else await follow(place, values.name, values.json);
    return { status: STATUS.ok };
  } finally {
    await place.close();
  }
}

/**
 * @param {DetailedSnapshot} state
 * @param {boolean | undefined} asJson
 * @param {string} [before]
 * @returns {Promise<void>} resolves when it is written
 */
function tell(state, asJson, before = '') {
  return printAll(partsOf(state, asJson, before));
}

/**
 * @param {DetailedSnapshot} state
 * @param {boolean | undefined} asJson
 * @param {string} before
 */
function* partsOf(state, asJson, before) {
  yield before;
  if (asJson) {
    yield* json(state, Date.now());
    yield '\n';
    return;
  }
  for (const line of table(state, terminal())) yield `${line}\n`;
}

function terminal() {
  const { isTTY, columns } = output();
  const { NO_COLOR, TERM } = process.env;
  // Some terminals do not know their size, and say 0.
  return { columns: (isTTY && columns) || undefined, color: isTTY && !NO_COLOR && TERM !== 'dumb' };
}

/**
 * Writes a snapshot, and one after each change, into a pipe, until its reader goes.
 * @param {InstanceType<typeof Place>} place
 * @param {string | undefined} name
 * @param {boolean | undefined} asJson
 */
async function follow(place, name, asJson) {
  let before;
  for (;;) {
    const state = await place.look(name);
    const now = identity(state);
    if (now !== before) await tell(state, asJson, before === undefined || asJson ? '' : '\n');
    before = now;
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
  }
}

/**
 * Paints a terminal until its user has seen enough.
 * @param {InstanceType<typeof Place>} place
 * @param {string | undefined} name
 * @returns {Promise<Ending>}
 */
async function watch(place, name) {
  let state = await place.look(name);
  const paint = () => {
    const { rows: lines } = screen.size;
    screen.show([...table(state, { ...terminal(), lines })]);
  };
  const screen = new Screen(process.stdin, output(), paint);
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const failed = new Promise((_, reject) => {
    const next = async () => {
      try {
        state = await place.look(name);
      } catch (error) {
        reject(error);
        return;
      }
      paint();
      timer = setTimeout(next, PERIOD_MS);
    };
    paint();
    timer = setTimeout(next, PERIOD_MS);
  });
  try {
    const signal = /** @type {NodeJS.Signals | undefined} */ (
      await Promise.race([screen.ended, failed])
    );
    return signal ? { signal } : { status: STATUS.ok };
  } finally {
    clearTimeout(timer);
    screen.close();
  }
}

module.exports = { query };
