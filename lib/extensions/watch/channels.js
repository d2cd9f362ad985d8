'use strict';

/** The diagnostics channels on which the course of each request is published. */

const { channel } = require('node:diagnostics_channel');
const { report } = require('../../platform/intrinsics.js');
const { LockLostError, LockTimeoutError } = require('../errors/lock-errors.js');

/** @typedef {InstanceType<typeof import('./watch.js').Watch>} Watch */

/** Node.js itself has the first six of these channels. */
const start = channel('locks.request.start');
const grant = channel('locks.request.grant');
const miss = channel('locks.request.miss');
const end = channel('locks.request.end');
const abort = channel('locks.request.abort');
const steal = channel('locks.request.steal');
const timeout = channel('locks.request.timeout');
const lost = channel('locks.request.lost');

const areSubscribed = () =>
  start.hasSubscribers ||
  grant.hasSubscribers ||
  miss.hasSubscribers ||
  end.hasSubscribers ||
  abort.hasSubscribers ||
  steal.hasSubscribers ||
  timeout.hasSubscribers ||
  lost.hasSubscribers;

/** @param {unknown} error of a lost lock */
function channelOfLoss(error) {
  if (error instanceof LockTimeoutError) return timeout;
  return error instanceof LockLostError ? lost : steal;
}

/**
 * @param {import('node:diagnostics_channel').Channel} to @param {Watch} watch
 * @param {object} more the fields that only messages of this channel have
 */
function publish(to, watch, more) {
  if (!to.hasSubscribers) return;
  const { asked, id, request } = watch;
  const { name, mode, backend, options } = request;
  const { label } = options;
  const waited = watch.waitDuration();
  const held = watch.holdDuration();
  try {
    to.publish({ id, name, mode, label, manager: backend.id, asked, waited, held, ...more });
  } catch (error) {
    report(error);
  }
}

module.exports = {
  abort,
  areSubscribed,
  channelOfLoss,
  end,
  grant,
  miss,
  publish,
  start,
  timeout,
};
