'use strict';

/** The examples of docs/FINDING-OUT.md do what it says: each runs as it stands there. */

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { folderFor, root } = require('./run.js');

const document = fs.readFileSync(path.join(root, 'docs', 'FINDING-OUT.md'), 'utf8');
const examples = [...document.matchAll(/```javascript\n(.*?)```/gs)].map(([, code]) => code);

/** @returns {string} what a program prints with an example of the document in it */
function run(t, find, before, after) {
  const example = examples.find((code) => code.includes(find));
  const folder = folderFor(t);
  // So that packages are found by their names.
  fs.symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
  const code = example
    .replaceAll("'web-locks/profile'", JSON.stringify(path.join(root, 'lib', 'profile.js')))
    .replace(/^/gm, '  ');
  const program = `
    const { setImmediate: turn } = require('node:timers/promises');
    const { locks } = require(${JSON.stringify(root)});
    (async () => {
      ${before}
      ${code}
      ${after}
    })();`;
  fs.writeFileSync(path.join(folder, 'program.js'), program);
  const options = { cwd: folder, encoding: 'utf8' };
  const { stdout, stderr } = spawnSync(process.execPath, ['program.js'], options);
  assert.equal(stderr, '');
  return stdout;
}

/** Whether a package that an example needs is there. */
const without = (name) =>
  fs.existsSync(path.join(root, 'node_modules', name)) ? false : `no package ${name}`;

describe('docs/FINDING-OUT.md', () => {
  it('tells who waits and who holds', (t) => {
    const output = run(
      t,
      'blockedBy',
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

  it('profiles a part of a program', (t) => {
    const work = "const importEverything = () => locks.request('a', turn);";
    assert.equal(
      run(t, 'startProfile', work, ''),
      "{ file: 'import.json', requests: 1, dropped: 0 }\n",
    );
  });

  it('tells Prometheus', { skip: without('prom-client') }, (t) => {
    const output = run(
      t,
      'prom-client',
      '',
      `const slow = locks.request('a', { label: 'order' }, () => new Promise(() => {}));
       slow.catch(() => {});
       await turn();
       await locks.request('a', { label: 'order', steal: true }, turn);
       console.log(await require('prom-client').register.metrics());`,
    );
    assert.match(output, /^lock_wait_seconds_count\{lock="order"\} 2$/m);
    assert.match(output, /^lock_hold_seconds_count\{lock="order"\} 2$/m);
    assert.match(output, /^lock_lost_total\{lock="order"\} 1$/m);
  });

  it('tells OpenTelemetry', { skip: without('@opentelemetry/api') }, (t) => {
    const output = run(
      t,
      'opentelemetry',
      `const told = [];
       const span = (name) => ({
         addEvent: (event) => told.push(name + ': ' + event),
         recordException: (error) => told.push(name + ': ' + error.message),
         end: () => told.push(name + ': end'),
       });
       const startSpan = (name, { attributes }) => {
         told.push(name + ': ' + JSON.stringify(attributes));
         return span(name);
       };
       const { trace: api } = require('@opentelemetry/api');
       api.setGlobalTracerProvider({ getTracer: () => ({ startSpan }) });`,
      `await locks.request('a', { label: 'order' }, turn);
       await locks.request('b', async () => { throw new Error('no'); }).catch(() => {});
       console.log(told.join('\\n'));`,
    );
    assert.deepEqual(output.trim().split('\n'), [
      'lock order: {"name":"a","mode":"exclusive"}',
      'lock order: granted',
      'lock order: end',
      'lock b: {"name":"b","mode":"exclusive"}',
      'lock b: granted',
      'lock b: no',
      'lock b: end',
    ]);
  });

  it('has no other example', () => assert.equal(examples.length, 4));
});
