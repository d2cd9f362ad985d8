// slow: 14; long

'use strict';

/** A bench that fails ends the run, and reports the reason. */

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const { once } = require('node:events');
const net = require('node:net');
const path = require('node:path');
const { describe, it } = require('node:test');
const { together } = require('../../bench/cluster.js');
const { measure } = require('../../bench/measure.js');
const { lacks } = require('../cluster/servers.js');

const ROOT = path.join(__dirname, '..', '..');

/** Runs a program that calls `runAll` in a process of its own. */
const run = (body) => {
  const program = `const { runAll } = require('./bench/end.js');
    const { Missing } = require('./bench/missing.js');
    const { startRedis } = require('./test/cluster/servers.js');
    ${body}`;
  return spawnSync(process.execPath, ['-e', program], { cwd: ROOT, encoding: 'utf8' });
};

/** Waits until no process listens at a port: each attempt to connect is an event. */
async function closed(port) {
  for (;;) {
    const socket = net.connect(port, '127.0.0.1');
    try {
      await once(socket, 'connect');
    } catch (error) {
      assert.equal(error.code, 'ECONNREFUSED');
      return;
    }
    socket.destroy();
  }
}

describe('a run of benches', () => {
  it('ends with the first that fails, and says which and why', () => {
    const { status, stderr, stdout } = run(`runAll([
      { name: 'the good', run: async () => console.log('good') },
      { name: 'the bad', run: async () => { throw new Error('12 arguments'); } },
      { name: 'the ugly', run: async () => console.log('ugly') },
    ])`);
    assert.equal(status, 1);
    assert.match(stderr, /The bench 'the bad' failed: Error: 12 arguments\n +at run/);
    assert.equal(stdout, 'good\n');
  });

  it('ends with its servers, though what is connected to them is never closed', {
    skip: lacks.redis,
  }, async () => {
    const { status, stderr, stdout } = run(`runAll([{ name: 'redis', async run() {
      const server = await startRedis();
      const Redis = require('ioredis');
      await new Redis(server.port).ping();
      console.log(server.port);
      throw new Error('no more');
    } }])`);
    assert.equal(status, 1);
    assert.match(stderr, /no more/);
    assert.match(stdout, /^\d+\n$/);
    await closed(Number(stdout));
  });

  it('ends where a promise never settles', () => {
    const { status, stderr } = run(
      `runAll([{ name: 'the endless', run: () => new Promise(() => {}) }], 50)`,
    );
    assert.equal(status, 1);
    assert.match(stderr, /The bench 'the endless' failed: it has not ended in 0.05 s/);
  });

  it('goes on after what is missing on the machine', () => {
    const { status, stdout } = run(`runAll([
      { name: 'first', run: async () => { throw new Missing('it is not installed'); } },
      { name: 'second', run: async () => console.log('second') },
    ])`);
    assert.equal(status, 0);
    assert.match(stdout, /first: it is not installed\nsecond\n/);
  });

  it('fails if none has the name that was asked for', () => {
    const { status, stderr } = spawnSync(
      process.execPath,
      ['bench/run.js', '--only', 'no such bench'],
      { cwd: ROOT, encoding: 'utf8' },
    );
    assert.equal(status, 1);
    assert.match(stderr, /none has 'no such bench' in its name/);
  });
});

describe('a measurement', () => {
  it('of a subject that fails says what it wrote', () => {
    assert.throws(() => measure('sequential', 'nobody', 60_000), /no such subject: nobody/);
  });

  it('of a subject whose process dies rejects', async () => {
    const options = { subject: 'nobody', config: {}, milliseconds: 1 };
    await assert.rejects(together(1, options), /cluster\.js ended with 1/);
  });
});
