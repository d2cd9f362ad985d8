'use strict';

/**
 * A round in simulated time: several users, each a client of a server in memory, with clocks that
 * go wrong, links that are cut, and a server that forgets. All of it runs in one thread of a
 * process of its own (world.js). Time passes only when there is nothing left to do, so a seed
 * repeats a round exactly.
 */

const { fork } = require('node:child_process');
const path = require('node:path');
const { Random } = require('./random.js');
const { BasicRound } = require('./round.js');

const PROGRAM = path.join(__dirname, 'world.js');
/** How many milliseconds of real time a round may take. */
const LONGEST_MS = 120_000;

class Round extends BasicRound {
  constructor(plan) {
    const isCalm = new Random(plan.seed, plan.round, 'calm').chance(0.2);
    super({ ...plan, isCalm: plan.faults ? plan.faults.length === 0 : isCalm });
  }

  async run() {
    const { folder, plan } = this;
    this.record('round', { plan, node: process.version });
    let output = '';
    const child = fork(PROGRAM, [JSON.stringify({ ...plan, folder })], {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      timeout: LONGEST_MS + plan.seconds * 1000,
      killSignal: 'SIGKILL',
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output = (output + chunk).slice(-20_000);
      });
    }
    const end = await new Promise((resolve) => {
      child.on('exit', (code, signal) => resolve(code ?? signal));
    });
    if (end !== 0) this.fault('quiet', `the world ends with ${end}`);
    if (output.trim() !== '') this.fault('quiet', `it prints: ${output}`);
    return this.judge();
  }
}

module.exports = { Round };
