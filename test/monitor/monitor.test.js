'use strict';

/** `web-locks/prometheus` and `web-locks/otel` check that they get a client. */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { instrument } = require('../../lib/otel.js');
const { collectMetrics } = require('../../lib/prometheus.js');

const CASES = [undefined, null, 7, {}, () => {}];

describe('the argument is checked by', () => {
  for (const [call, module, what] of [
    [collectMetrics, 'prom-client', 'client'],
    [instrument, '@opentelemetry/api', 'api'],
  ]) {
    it(call.name, () => {
      for (const value of CASES) {
        assert.throws(() => call(value), {
          name: 'TypeError',
          errorCode: 'ERR_WEB_LOCKS_INVALID_ARGUMENT',
          message: new RegExp(`'${call.name}': '${what}' is .*; expected what ${module} exports`),
        });
      }
    });
  }
});
