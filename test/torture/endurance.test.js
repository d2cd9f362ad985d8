// slow: 36; long

'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');

const NATIVE = require.resolve('../../lib/backend/native.js');

describe('endurance', () => {
  it('memory stays flat over many requests and many short-lived workers', async () => {
    // This runs in a process of its own, because the test runner's memory would count.
    const program = `
      const { endure } = require(${JSON.stringify(require.resolve('./endurance.js'))});
      const { liveBlocks } = require(${JSON.stringify(NATIVE)});
      const requests = liveBlocks ? 20_000 : 200_000; // a checked build takes its time
      endure({ requests, workers: liveBlocks ? 40 : 160 })
        .then((result) => console.log(JSON.stringify(result)));
    `;
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ['-e', program]);
    assert.equal(stderr, '');
    const { measurements, left } = JSON.parse(stdout);
    assert.equal(left, 0);
    const [first, last] = [measurements[2], measurements[9]];
    // V8 may keep resident memory, so the test compares the used heap and, in a checked build, the
    // core's allocations. One object kept per request would be megabytes.
    const heaps = measurements.map(({ heap }) => heap.toFixed(2));
    assert.ok(last.heap - first.heap < 1, `heap used, in MB: ${heaps}`);
    assert.equal(last.blocks, first.blocks);
  });
});
