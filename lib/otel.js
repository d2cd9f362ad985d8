'use strict';

/** `web-locks/otel`: OpenTelemetry spans and metrics of this thread (docs/FINDING-OUT.md). */

const { followRequests, metricLabelOf } = require('./monitor/requests.js');
const { describe, typeError } = require('./platform/errors.js');

/**
 * @typedef {object} Api the members of `@opentelemetry/api` that this file uses
 * @property {any} trace @property {any} metrics @property {any} SpanStatusCode
 */

/** @param {import('./monitor/requests.js').Message} message */
const spanAttributesOf = ({ label, mode, name }) => ({
  'lock.name': name,
  'lock.mode': mode,
  ...(label === undefined ? {} : { 'lock.label': label }),
});

/** @param {import('./monitor/requests.js').Message} message */
const metricAttributesOf = (message) => ({ 'lock.label': metricLabelOf(message) });

/** @param {Api} api what `@opentelemetry/api` exports @returns {() => void} ends it */
function instrument(api) {
  if (typeof api?.trace?.getTracer !== 'function' || typeof api.metrics?.getMeter !== 'function') {
    throw typeError(
      "'instrument'",
      `'api' is ${describe(api)}; expected what @opentelemetry/api exports. Pass ` +
        "require('@opentelemetry/api').",
    );
  }
  const { trace, metrics, SpanStatusCode } = api;
  const tracer = trace.getTracer('web-locks');
  const meter = metrics.getMeter('web-locks');
  const seconds = { unit: 's' };
  const wait = meter.createHistogram('lock.wait.duration', seconds);
  const hold = meter.createHistogram('lock.hold.duration', seconds);
  const lost = meter.createCounter('lock.lost');
  /** The spans of requests that have not ended. @type {Map<symbol, any>} */
  const spans = new Map();
  const stop = followRequests({
    onStart(message) {
      const { id, label, name } = message;
      const attributes = spanAttributesOf(message);
      spans.set(id, tracer.startSpan(`lock ${label ?? name}`, { attributes }));
    },
    onWaited(message, outcome) {
      const { id, waited } = message;
      spans.get(id)?.addEvent(outcome);
      wait.record(waited / 1e3, { ...metricAttributesOf(message), 'lock.outcome': outcome });
    },
    onLost(message) {
      spans.get(message.id)?.addEvent('lost');
      lost.add(1, metricAttributesOf(message));
    },
    onEnd(message, wasHeld) {
      const { error, held, id } = message;
      if (wasHeld) hold.record(held / 1e3, metricAttributesOf(message));
      const span = spans.get(id);
      spans.delete(id);
      if (error !== undefined) {
        span?.recordException(error);
        span?.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
      }
      span?.end();
    },
  });
  return () => {
    stop();
    for (const span of spans.values()) span.end();
    spans.clear();
  };
}

module.exports = { instrument };
