'use strict';

/** The jobs of the host scope: calls that are not about one request, and may answer later. */

const { EVENT_COUNT, EVENT_NEWS, EVENT_TOKEN, TAG, addon } = require('./addon.js');
const { agent, exchange } = require('./agent.js');
const { NO_TAG } = require('./contract.js');
const { Promise } = require('../platform/intrinsics.js');

/** @import { ManagerHandle } from './addon.js' */

const { OK, PENDING } = addon;

/** A job has a tag and ends with an event. */
class Job {
  tag = NO_TAG;
  isDone = false;
  /** Receives the status in the event. @type {(status: number) => void} */
  settle = () => {};
  /** @type {Promise<number>} */
  done = new Promise((resolve) => {
    this.settle = (status) => {
      this.isDone = true;
      resolve(status);
    };
  });

  /** @param {Jobs} backend to the agent, a job is a request of this backend */
  constructor(backend) {
    this.backend = backend;
  }
}

/** The jobs of one bucket. */
class Jobs {
  #errorOf;

  /** @param {(status: number, doing: string) => Error} errorOf */
  constructor(errorOf) {
    this.#errorOf = errorOf;
  }

  /**
   * @param {() => number} call calls the addon, which reads the tag of the job from the exchange
   * @param {string} doing
   * @returns {Job | undefined} undefined if the job is already done; otherwise the caller must
   *   `remove` it once it is done
   */
  start(call, doing) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    const job = new Job(this);
    agent.add(/** @type {any} */ (job));
    exchange[TAG] = job.tag;
    let status = -1;
    try {
      status = call();
    } finally {
      if (status !== PENDING) this.remove(job);
    }
    if (status === OK) return undefined;
    if (status !== PENDING) throw this.#errorOf(status, doing);
    return job;
  }

  /** @param {Job | undefined} job */
  remove(job) {
    if (job) agent.remove(/** @type {any} */ (job));
  }

  /** @param {Job} job @param {number} at the offset of the event in the exchange */
  applyEvent(job, at) {
    if (exchange[at + EVENT_NEWS] !== 0) job.settle(exchange[at + EVENT_TOKEN]);
  }

  /** Ends all jobs as if they had succeeded. @param {ManagerHandle} handle of the bucket */
  end(handle) {
    if (exchange[EVENT_COUNT] !== 0) agent.applyEvents();
    const jobs = /** @type {Job[]} */ (/** @type {any} */ (agent.requestsOf(this)));
    for (let i = 0; i < jobs.length; i++) {
      exchange[TAG] = jobs[i].tag;
      // Discards a snapshot that is complete but was not fetched yet.
      addon.hostTakeSnapshot(handle);
      addon.hostEndJob();
      jobs[i].settle(OK);
      this.remove(jobs[i]);
    }
  }
}

module.exports = { Jobs };
