'use strict';

/** `web-locks run`: a command that runs while a lock is held. */

const { PATIENCE_MS, doJob } = require('./job.js');
const { LATE, noAnswer, within } = require('./places.js');

/** @param {import('./arguments.js').Request} request */
const run = (request) => doJob(request, ask);

/**
 * Also rejects if whether it is available is not answered in time.
 * @type {import('./job.js').Ask}
 */
async function ask(job) {
  let answer = () => {};
  /** @type {Promise<void>} */
  const answered = new Promise((resolve) => {
    answer = resolve;
  });
  const request = job.locks.request(job.name, optionsOf(job), (/** @type {any} */ lock) => {
    answer();
    return job.hold(lock);
  });
  if (job.doesNotWait) {
    const first = await within(Promise.race([request, answered]), job.patience);
    job.isOver = first === LATE;
    if (job.isOver) {
      request.catch(() => {});
      throw noAnswer(PATIENCE_MS);
    }
  }
  await request;
}

/** @param {Parameters<import('./job.js').Ask>[0]} job */
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
