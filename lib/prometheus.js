'use strict';

/** `web-locks/prometheus`: Prometheus metrics of this thread's locks (docs/FINDING-OUT.md). */

const { followRequests, metricLabelOf } = require('./monitor/requests.js');
const { describe, typeError } = require('./platform/errors.js');

/**
 * @typedef {object} Client the members of prom-client that this file uses
 * @property {new (configuration: any) => any} Counter
 * @property {new (configuration: any) => any} Histogram @property {any} register
 */

/**
 * @param {Client} client what `prom-client` exports
 * @param {{ register?: any }} [options] the registry, by default that of the client
 * @returns {() => void} ends the collection, and removes the metrics from the registry
 */
function collectMetrics(client, options = {}) {
  if (typeof client?.Counter !== 'function' || typeof client.Histogram !== 'function') {
    throw typeError(
      "'collectMetrics'",
      `'client' is ${describe(client)}; expected what prom-client exports. Pass ` +
        "require('prom-client').",
    );
  }
  const { Counter, Histogram } = client;
  const { register = client.register } = options;
  const registers = [register];
  const wait = new Histogram({
    name: 'lock_wait_seconds',
    help: 'Time from the request until it is granted or fails',
    labelNames: ['lock', 'outcome'],
    registers,
  });
  const hold = new Histogram({
    name: 'lock_hold_seconds',
    help: 'Time from the grant until the lock is released or lost',
    labelNames: ['lock'],
    registers,
  });
  const lost = new Counter({
    name: 'lock_lost_total',
    help: 'Locks that were stolen, lost, or held for too long',
    labelNames: ['lock'],
    registers,
  });
  const stop = followRequests({
    onWaited: (message, outcome) =>
      wait.observe({ lock: metricLabelOf(message), outcome }, message.waited / 1e3),
    onLost: (message) => lost.inc({ lock: metricLabelOf(message) }),
    onEnd(message, wasHeld) {
      if (wasHeld) hold.observe({ lock: metricLabelOf(message) }, message.held / 1e3);
    },
  });
  return () => {
    stop();
    for (const { name } of [wait, hold, lost]) register.removeSingleMetric(name);
  };
}

module.exports = { collectMetrics };
