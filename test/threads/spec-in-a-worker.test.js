// slow: 12

'use strict';

const assert = require('node:assert/strict');
const { once } = require('node:events');
const { readdirSync } = require('node:fs');
const path = require('node:path');
const { text } = require('node:stream/consumers');
const { describe, it } = require('node:test');
const { Worker } = require('node:worker_threads');

const SPEC = path.join(__dirname, '..', 'spec');

describe('the tests of the specification, in a worker', () => {
  for (const file of readdirSync(SPEC).filter((name) => name.endsWith('.test.js'))) {
    it(file, async (t) => {
      const { NODE_TEST_CONTEXT: _, ...env } = process.env; // it would report to this test's parent
      const worker = new Worker(path.join(SPEC, file), { stdout: true, env });
      t.after(() => worker.terminate());
      const [output, [code]] = await Promise.all([text(worker.stdout), once(worker, 'exit')]);
      assert.equal(code, 0, output);
      assert.match(output, /[#ℹ] pass [1-9]/);
      assert.match(output, /[#ℹ] fail 0/);
    });
  }
});
