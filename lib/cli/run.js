'use strict';

/** `web-locks run`: runs a command while it holds a lock. */

const { PATIENCE_MS, runUnderLock } = require('./runner.js');
const { LATE, noAnswerFailure, within } = require('./bucket.js');

/** @param {import('./arguments.js').ParsedCommand} request */
const run = (request) => runUnderLock(request, requestLock);

/** @type {import('./runner.js').RequestLock} */
async function requestLock(runner) {
  let answer = () => {};
  /** @type {Promise<void>} */
  const answered = new Promise((resolve) => {
    answer = resolve;
  });
  const request = runner.locks.request(
    runner.name,
    optionsOf(runner),
    (/** @type {any} */ lock) => {
      answer();
      return runner.runCommand(lock);
    },
  );
  if (runner.doesNotWait) {
    const first = await within(Promise.race([request, answered]), runner.patience);
    runner.isOver = first === LATE;
    if (runner.isOver) {
      request.catch(() => {});
      throw noAnswerFailure(PATIENCE_MS);
    }
  }
  await request;
}

/** @param {Parameters<import('./runner.js').RequestLock>[0]} runner */
function optionsOf({ doesNotWait, label, values }) {
  const { shared, limit, weight, priority, timeout, steal } = values;
  return {
    mode: shared || limit !== undefined ? 'shared' : 'exclusive',
    ifAvailable: doesNotWait,
    steal,
    limit,
    weight,
    priority,
    timeout: doesNotWait ? undefined : timeout,
    label,
  };
}

module.exports = { run };
