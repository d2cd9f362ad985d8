// slow: 30; long; waits

'use strict';

/** The programs of docs/FINDING-OUT.md print what the page says. */

const assert = require('node:assert/strict');
const { after, before, describe, it } = require('node:test');
const { blocksOf } = require('./blocks.js');
const { finish, prepare, runBlock, skipOf } = require('./programs.js');

const PAGE = 'docs/FINDING-OUT.md';
const blocks = blocksOf(PAGE);
const with_ = (text) => blocks.find(({ code }) => code.join('\n').includes(text));

/** @returns the reason why it cannot be run: a package is missing */
const without = (block) => skipOf({ ...block, keys: {} });

/** @returns {Promise<string>} the output of a program that contains the block */
async function run(block, first, last) {
  const program = {
    ...block,
    before: [
      "import { setImmediate as turn } from 'node:timers/promises';",
      "import { locks, LockTimeoutError } from 'web-locks';",
      ...first.split('\n'),
    ],
    after: last.split('\n'),
  };
  const { code, stderr, stdout } = await runBlock(program, []);
  assert.equal(stderr, '');
  assert.equal(code, 0);
  return stdout;
}

describe(PAGE, () => {
  before(prepare);
  after(finish);

  it('lists waiters and their holders', async () => {
    const output = await run(
      with_('blockedBy'),
      `let release;
       locks.request('a', { label: 'report' }, () => new Promise((r) => { release = r; }));
       locks.request('a', { label: 'order' }, () => {});
       locks.request('a', () => {});
       await turn();`,
      'release();',
    );
    assert.match(output, /^order waits for a for \d+ ms, blocked by report$/m);
    assert.match(output, /^thread 0 waits for a for \d+ ms, blocked by report$/m);
  });

  it('profiles a part of a program', async () => {
    const work = "const importEverything = () => locks.request('a', turn);";
    assert.equal(
      await run(with_('startProfile'), work, ''),
      "{ file: 'import.json', requests: 1, dropped: 0 }\n",
    );
  });

  const prometheus = with_('prom-client');

  it('counts waits, holds and thefts for Prometheus', { skip: without(prometheus) }, async () => {
    const output = await run(
      prometheus,
      '',
      `await locks.request('a', async () => {
         const options = { label: 'late', timeout: 20 };
         await locks.request('a', options, turn).catch((error) => {
           if (!(error instanceof LockTimeoutError)) throw error;
         });
         await locks.request('a', { label: 'late', ifAvailable: true }, turn);
       });
       const slow = locks.request('a', { label: 'order' }, () => new Promise(() => {}));
       slow.catch(() => {});
       await turn();
       await locks.request('a', { label: 'order', steal: true }, turn);
       console.log(await client.register.metrics());`,
    );
    assert.match(output, /^lock_wait_seconds_count\{lock="order",outcome="granted"\} 2$/m);
    assert.match(output, /^lock_hold_seconds_count\{lock="order"\} 2$/m);
    assert.match(output, /^lock_lost_total\{lock="order"\} 1$/m);
    assert.match(output, /^lock_wait_seconds_count\{lock="late",outcome="failed"\} 1$/m);
    const [, waited] = /^lock_wait_seconds_sum\{lock="late",outcome="failed"\} (\S+)/m.exec(output);
    assert.ok(waited >= 0.02, waited);
    assert.match(output, /^lock_wait_seconds_count\{lock="late",outcome="unavailable"\} 1$/m);
    assert.doesNotMatch(output, /^lock_(hold_seconds_count|lost_total)\{lock="late"\}/m);
    assert.doesNotMatch(output, /undefined/);
  });

  const telemetry = with_('opentelemetry');

  it('makes spans and metrics of OpenTelemetry', { skip: without(telemetry) }, async () => {
    const output = await run(
      telemetry,
      `import { metrics, trace } from '@opentelemetry/api';
       import * as ofMetrics from '@opentelemetry/sdk-metrics';
       import * as ofTraces from '@opentelemetry/sdk-trace-base';
       const spans = new ofTraces.InMemorySpanExporter();
       const spanProcessors = [new ofTraces.SimpleSpanProcessor(spans)];
       trace.setGlobalTracerProvider(new ofTraces.BasicTracerProvider({ spanProcessors }));
       const exporter = new ofMetrics.InMemoryMetricExporter(0);
       const reader = new ofMetrics.PeriodicExportingMetricReader({ exporter });
       metrics.setGlobalMeterProvider(new ofMetrics.MeterProvider({ readers: [reader] }));`,
      `const slow = locks.request('a', { label: 'order' }, () => new Promise(() => {}));
       slow.catch(() => {});
       await turn();
       await locks.request('a', { label: 'order', steal: true }, async () => {
         await locks.request('a', { ifAvailable: true }, turn);
       });
       await locks.request('b', async () => { throw new Error('no'); }).catch(() => {});
       await turn();
       for (const { attributes, events, name, status } of spans.getFinishedSpans()) {
         const [mode, told] = [attributes['lock.mode'], events.map((event) => event.name)];
         console.log(name, mode, status.code, told.join());
       }
       await reader.forceFlush();
       for (const { descriptor, dataPoints } of exporter.getMetrics()[0].scopeMetrics[0].metrics) {
         for (const { attributes, value } of dataPoints) {
           console.log(descriptor.name, Object.values(attributes).join(), value.count ?? value);
         }
       }
       await reader.shutdown();`,
    );
    assert.deepEqual(output.trim().split('\n'), [
      'lock order exclusive 2 granted,lost,exception',
      'lock a exclusive 0 unavailable',
      'lock order exclusive 0 granted',
      'lock b exclusive 2 granted,exception',
      'lock.wait.duration order,granted 2',
      'lock.wait.duration unlabelled,unavailable 1',
      'lock.wait.duration unlabelled,granted 1',
      'lock.hold.duration order 2',
      'lock.hold.duration unlabelled 1',
      'lock.lost order 1',
    ]);
  });

  it('has no other program of this kind', () => {
    const own = blocks.filter(({ keys }) => keys['tested by']?.endsWith('finding-out.test.js'));
    assert.equal(own.length, 4);
  });
});
