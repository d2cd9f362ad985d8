'use strict';

/**
 * `web-locks steal`: shows the holders of a lock, asks for confirmation, takes the lock from them,
 * and releases it at once for the next waiter.
 */

const { createHash } = require('node:crypto');
const { createInterface } = require('node:readline');
const { describeHolder, quoted } = require('./format.js');
const { printAll } = require('./output.js');
const { OpenBucket, checkDirectory, checkName, toFailure } = require('./bucket.js');
const { describePlace, listOthers, lookAtOthersInUse } = require('./others.js');
const { Failure, STATUS, say } = require('./status.js');

/** @typedef {import('../backend/contract.js').DetailedSnapshot} DetailedSnapshot */

/** @param {import('./arguments.js').ParsedCommand} request */
async function steal({ name = '', values }) {
  if (!values.yes && !process.stdin.isTTY) {
    const message = 'steal asks for confirmation, but standard input is not a terminal.';
    throw new Failure(STATUS.usage, message, 'Use --yes to take the lock without asking.');
  }
  checkName(name, values);
  checkDirectory(values);
  const bucket = new OpenBucket(values);
  try {
    await bucket.ready();
    return { status: await stealLock(bucket, name, values) };
  } catch (error) {
    throw toFailure(error);
  } finally {
    await bucket.close();
  }
}

/**
 * @param {InstanceType<typeof OpenBucket>} bucket @param {string} name
 * @param {import('./arguments.js').Values} values @returns {Promise<number>} the exit status
 */
async function stealLock(bucket, name, { yes, label = 'web-locks steal' }) {
  const { locks } = bucket;
  const look = () => locks.query({ details: true, name });
  let state = await look();
  const agreed = yes;
  for (;;) {
    if (state.held.length === 0) {
      await reportNobody(bucket, name);
      return STATUS.ok;
    }
    showHolders(name, state);
    if (agreed) break;
    if (!(await askToSteal())) return STATUS.conflict;
    // The holders may have changed while the user decided, so they are queried again.
    const before = state;
    state = await look();
    if (fingerprint(state) === fingerprint(before)) break;
    say('the holders have changed in the meantime, so nothing was stolen yet.');
  }
  await locks.request(name, { steal: true, label }, () => {});
  await printAll(stolenLines(state));
  // The errors of the former holders name the id of this process. It is printed, because nobody can
  // look up the id once this process has ended.
  say(`process ${process.pid} took lock ${quoted(name)} from them.`);
  return STATUS.ok;
}

const OTHERS = 'Other buckets with locks or requests of this name (--bucket NAME chooses one):';

/**
 * Lists the other buckets in which the name is in use, too.
 * @param {InstanceType<typeof OpenBucket>} bucket @param {string} name
 */
async function reportNobody(bucket, name) {
  say(`nobody holds lock ${quoted(name)} ${describePlace(bucket.where)}.`);
  const lines = listOthers(await lookAtOthersInUse(bucket, name), OTHERS);
  for (const line of lines) process.stderr.write(`${line}\n`);
}

/** @param {DetailedSnapshot} state */
function* stolenLines({ held }) {
  for (const holder of held) yield `stolen from ${describeHolder(holder)}\n`;
}

/** Returns a text that changes with the holders. @param {DetailedSnapshot} state */
function fingerprint({ held }) {
  const hash = createHash('sha256');
  const holders = held.map(({ clientId, token }) => `${clientId} ${token}\n`).sort();
  for (const holder of holders) hash.update(holder);
  return hash.digest('base64');
}

/** @param {string} name @param {DetailedSnapshot} state */
function showHolders(name, { held, pending }) {
  say(`lock ${quoted(name)} is held by:`);
  for (const holder of held) process.stderr.write(`  ${describeHolder(holder)}\n`);
  if (pending.length > 0) process.stderr.write(`Waiting requests: ${pending.length}.\n`);
}

/** Resolves to false if the input ends without an answer. */
async function askToSteal() {
  process.stderr.write('Steal it from them? [y/N] ');
  const lines = createInterface({ input: process.stdin, terminal: false });
  try {
    const answer = await new Promise((resolve) => {
      lines.once('line', resolve);
      lines.once('close', () => resolve(''));
    });
    return /^\s*y(es)?\s*$/i.test(answer);
  } finally {
    lines.close();
    process.stdin.pause();
  }
}

module.exports = { steal };
