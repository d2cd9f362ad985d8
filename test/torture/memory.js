'use strict';

/**
 * A round in a world that has its own time: several users, each a client of a server in memory, with
 * clocks that go wrong, links that are cut and a server that forgets. Everything is in one thread of
 * a process of its own (world.js), and time goes on when nothing is left to do: so a seed repeats
 * a round exactly.
 */

const { fork } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { Recorder, readHistory } = require('./history.js');
const { judge } = require('./judges.js');
const { Random } = require('./random.js');
const { promisesOf } = require('./round.js');
const { root } = require('../helpers/root.js');

const PROGRAM = path.join(__dirname, 'world.js');
/** Milliseconds of the machine that a round may take at most. */
const LONGEST_MS = 120_000;

class Round {
  constructor(plan) {
    const isCalm = new Random(plan.seed, plan.round, 'calm').chance(0.2);
    this.plan = { ...plan, isCalm: plan.faults ? plan.faults.length === 0 : isCalm };
    this.folder = fs.mkdtempSync(path.join(root, 'torture-'));
    fs.mkdirSync(path.join(this.folder, 'history'));
  }

  async run() {
    const { folder, plan } = this;
    const history = path.join(folder, 'history');
    const recorder = new Recorder(path.join(history, 'round.jsonl'), 'round');
    recorder.record('round', { plan, node: process.version });
    let output = '';
    const child = fork(PROGRAM, [JSON.stringify({ ...plan, folder })], {
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output = (output + chunk).slice(-20_000);
      });
    }
    const limit = setTimeout(() => child.kill('SIGKILL'), LONGEST_MS + plan.seconds * 1000);
    const end = await new Promise((resolve) => {
      child.on('exit', (code, signal) => resolve(code ?? signal));
    });
    clearTimeout(limit);
    const fault = (what) => recorder.record('fault', { judge: 'quiet', what });
    if (end !== 0) fault(`the world ends with ${end}`);
    if (output.trim() !== '') fault(`it prints: ${output}`);
    recorder.close();
    const files = fs.readdirSync(history).map((file) => path.join(history, file));
    const events = readHistory(files);
    return { events, faults: judge(events, promisesOf(plan)) };
  }

  remove() {
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

module.exports = { Round };
