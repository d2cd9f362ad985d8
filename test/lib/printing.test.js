'use strict';

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { it } = require('node:test');

const LIBRARY = path.join(__dirname, '../../lib/index.js');

it('process.send takes what query({ details: true }) tells, a lock and an error', async () => {
  const source = `
    const { locks } = require(${JSON.stringify(LIBRARY)});
    locks.request('a', { label: 'mine' }, async (lock) => {
      const state = await locks.query({ details: true });
      const error = await locks.acquire('a', { timeout: 1 }).catch((reason) => reason);
      process.send({ state, lock, error });
      process.disconnect();
    });`;
  const child = spawn(process.execPath, ['-e', source], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const [{ state, lock, error }] = await once(child, 'message');
  const [{ token, label }] = state.held;
  assert.match(token, /^[1-9]\d*$/);
  assert.deepEqual([label, lock.token, error.holders[0].token], ['mine', token, token]);
  await once(child, 'exit');
});
