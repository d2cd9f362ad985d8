'use strict';

/**
 * `web-locks query`: prints the holders and the waiters as a table or as JSON, once or repeatedly.
 * No scope notifies a client of changes by other clients, so `--watch` queries each second.
 */

const { capitalize } = require('../platform/errors.js');
const { circlesOf, narrow } = require('./circles.js');
const { useStdout, printAll } = require('./output.js');
const { OpenBucket, checkDirectory } = require('./bucket.js');
const { describeLook, describePlace, listOthers, lookAtOthersInUse } = require('./others.js');
const { Screen } = require('./screen.js');
const { STATUS } = require('./status.js');
const { fingerprint, json, table } = require('./table.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */
/** @typedef {InstanceType<typeof OpenBucket>} OpenBucketType */

const PERIOD_MS = 1000;

/**
 * The result of a query, with options of `table` and further members for `json`.
 * @typedef {{ state: DetailedSnapshot, how: object, more: Record<string, unknown> }} View
 */

/** @param {import('./arguments.js').ParsedCommand} request */
async function query({ values }) {
  checkDirectory(values);
  const opened = new OpenBucket(values);
  const look = () => (values.all ? lookAtAll(opened, values.name) : lookAtOne(opened, values));
  try {
    await opened.ready();
    if (!values.watch) await printView(await look(), values.json);
    else if (useStdout().isTTY && !values.json) return await paintChanges(look);
    else await printChanges(look, values.json);
    return { status: STATUS.ok };
  } finally {
    await opened.close();
  }
}

/**
 * Names the other buckets in use, too, unless the query is repeated.
 * @param {OpenBucketType} opened @param {import('./arguments.js').Values} values
 */
async function lookAtOne(opened, { name, watch: again }) {
  const state = await opened.look(name);
  const { where } = opened;
  // Querying the other buckets each second would cost too much.
  const looks = again ? [] : await lookAtOthersInUse(opened, name);
  const about = ` ${describePlace(where)}`;
  const isEmpty = state.held.length + state.pending.length === 0;
  const notes = again
    ? []
    : [...(isEmpty && !where.at ? [OF_PROCESSES] : []), ...listOthers(looks, OTHERS)];
  const others = again || where.at ? undefined : looks.map(summaryOf);
  return { state, how: { about, notes }, more: { ...where, others, circles: circlesIn(state) } };
}

const OTHERS = 'Other buckets in use (--all shows all buckets, --bucket NAME shows one):';
const OF_PROCESSES =
  "Locks of require('web-locks') are not listed: only their own process can see them.";

/** @param {OpenBucketType} opened @param {string | undefined} name */
async function lookAtAll(opened, name) {
  const { bucket, directory } = opened.where;
  const looks = [{ bucket, state: await opened.look() }, ...(await opened.lookAtOtherBuckets())];
  /** @type {DetailedSnapshot} */
  const all = { held: [], pending: [] };
  const notes = [];
  for (const look of looks) {
    if (!look.state) {
      notes.push(`${capitalize(describeLook(look))}.`);
      continue;
    }
    const entry = { bucket: look.bucket };
    for (const one of look.state.held) all.held.push({ ...one, ...entry });
    for (const one of look.state.pending) all.pending.push({ ...one, ...entry });
  }
  // A circle can span several buckets and names, so `narrow` needs the state of all of them.
  const state = name === undefined ? all : narrow(all, name);
  const how = { about: ` in any bucket of ${directory}`, notes, isAll: true };
  return { state, how, more: { directory, circles: circlesIn(state) } };
}

/** Returns the circles for JSON; undefined for none. @param {import('./circles.js').State} state */
function circlesIn(state) {
  const circles = circlesOf(state);
  if (circles.length === 0) return undefined;
  return circles.map((circle) =>
    circle.map(({ holder: { bucket, clientId, host, label, name, pid, threadId }, waitsFor }) => {
      return { clientId, host, pid, threadId, label, bucket, holds: name, waitsFor: waitsFor.name };
    }),
  );
}

/** @param {import('./bucket.js').Look} look */
const summaryOf = ({ bucket, failure, state }) =>
  failure
    ? { bucket, failure }
    : { bucket, held: state?.held.length, pending: state?.pending.length };

/**
 * @param {View} view @param {boolean | undefined} asJson
 * @param {string} [before] a text that is printed first
 */
function printView(view, asJson, before = '') {
  return printAll(partsOf(view, asJson, before));
}

/** @param {View} view @param {boolean | undefined} asJson @param {string} before */
function* partsOf({ state, how, more }, asJson, before) {
  yield before;
  if (asJson) {
    yield* json(state, Date.now(), more);
    yield '\n';
    return;
  }
  for (const line of table(state, { ...terminalOptions(), ...how })) yield `${line}\n`;
}

function terminalOptions() {
  const { isTTY, columns } = useStdout();
  const { NO_COLOR, TERM } = process.env;
  // Some terminals do not know their size, and report 0.
  return { columns: (isTTY && columns) || undefined, color: isTTY && !NO_COLOR && TERM !== 'dumb' };
}

/**
 * Writes a snapshot, and another one after each change, until the reader closes the output.
 * @param {() => Promise<View>} look @param {boolean | undefined} asJson
 */
async function printChanges(look, asJson) {
  let before;
  for (;;) {
    const view = await look();
    const now = fingerprint(view.state);
    if (now !== before) await printView(view, asJson, before === undefined || asJson ? '' : '\n');
    before = now;
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
  }
}

/** Paints a terminal until the user ends the program. @param {() => Promise<View>} look */
async function paintChanges(look) {
  let view = await look();
  const paint = () => {
    const { rows: lines } = screen.size;
    screen.show([...table(view.state, { ...terminalOptions(), ...view.how, lines })]);
  };
  const screen = new Screen(process.stdin, useStdout(), paint);
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const failed = new Promise((_, reject) => {
    const next = async () => {
      try {
        view = await look();
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
