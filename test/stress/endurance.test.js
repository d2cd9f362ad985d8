'use strict';

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const { describe, it } = require('node:test');
const { promisify } = require('node:util');

describe('endurance', () => {
  it('memory stays flat over many requests and many short-lived workers', async () => {
    // In a process of its own: what the test runner keeps would count.
    const program = `
      const { endure } = require(${JSON.stringify(require.resolve('./endurance.js'))});
      endure({ requests: 200_000, workers: 160 }).then((result) => console.log(JSON.stringify(result)));
    `;
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ['-e', program]);
    assert.equal(stderr, '');
    const { measurements, left } = JSON.parse(stdout);
    assert.equal(left, 0);
    const [first, last] = [measurements[2], measurements[9]];
    // A leak of a request's record for each request would be 11 MB, of a worker's agent far less:
    // that is what the checked build counts.
    assert.ok(last.rss - first.rss < 25, JSON.stringify(measurements.map(({ rss }) => rss)));
    assert.equal(last.blocks, first.blocks);
  });
});
