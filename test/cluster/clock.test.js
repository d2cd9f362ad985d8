'use strict';

/** Tests the clocks of this process, which sessions use. */

const assert = require('node:assert/strict');
const { execFileSync, spawnSync } = require('node:child_process');
const path = require('node:path');
const { test } = require('node:test');

const root = path.join(__dirname, '..', '..');

/** With these options, `unshare` shows a process a machine that slept for long since its start. */
const SLEPT = ['--map-root-user', '--time', '--boottime', '1000000'];
const canSleep = spawnSync('unshare', [...SLEPT, 'true']).status === 0;

/** Evaluates an expression of `clock` in a process of its own. */
function evaluate(expression, { command = [], env = {} } = {}) {
  const program = `
    const { systemClock: clock } = require('./lib/cluster/session/clock.js');
    console.log(JSON.stringify(${expression}));`;
  const [file, ...args] = [...command, process.execPath, '-e', program];
  return JSON.parse(execFileSync(file, args, { cwd: root, env: { ...process.env, ...env } }));
}

test('the continuous clock counts the time that the machine slept', { skip: !canSleep }, () => {
  const awake = evaluate('clock.continuous()');
  const slept = evaluate('clock.continuous()', { command: ['unshare', ...SLEPT] });
  assert.ok(slept >= awake + 1e9, `${awake} and ${slept}`);
});

test('the continuous clock is the monotonic one only without the addon', () => {
  const expression = 'clock.continuous() > 0 && clock.continuous === clock.monotonic';
  assert.equal(evaluate(expression), false);
  assert.equal(evaluate(expression, { env: { WEB_LOCKS_BINARY: '/nowhere.node' } }), true);
});
