'use strict';

/** A copy of the tree in which tests run and defects are planted one at a time. */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { root } = require('./about.js');
const { mutated } = require('./c.js');
const { runProgram } = require('./program.js');

/** @typedef {import('./c.js').Mutant} Mutant */
/** @typedef {import('./program.js').End} End */

/** The time limit of the compiler, in milliseconds. */
const BUILD_LIMIT = 300_000;

/** Programs and libraries that the C programs run or load. */
const COMPANIONS = new Map([
  ['host:harm_test', ['actor', 'actor-next']],
  ['host:between_test', ['actor']],
  ['host:faults_test', ['actor']],
]);

class Copy {
  #folder;
  #root;
  #temporary;
  /** The contents of the changed file without the defect. */
  #healthy = Buffer.alloc(0);

  constructor() {
    this.#folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mutants-'));
    this.#root = path.join(this.#folder, 'tree');
    this.#temporary = path.join(this.#folder, 't');
    const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', 'src', 'test'];
    const files = String(execFileSync('git', list, { cwd: root }))
      .split('\0')
      .filter((file) => file && fs.existsSync(path.join(root, file)));
    for (const file of files)
      fs.cpSync(path.join(root, file), path.join(this.#root, file), { verbatimSymlinks: true });
  }

  /**
   * Builds a C program and runs it.
   * @param {string} test such as `core:stress_test 2000`
   * @param {number} limit milliseconds
   */
  async run(test, limit) {
    fs.mkdirSync(this.#temporary);
    try {
      return await this.#run(test, { ...process.env, TMPDIR: this.#temporary }, limit);
    } finally {
      fs.rmSync(this.#temporary, { recursive: true, force: true, maxRetries: 10 });
    }
  }

  /** @param {string} test @param {NodeJS.ProcessEnv} env @param {number} limit */
  async #run(test, env, limit) {
    const [house, program] = test.split(':');
    const [name, ...args] = program.split(' ');
    const cwd = path.join(this.#root, 'test', house);
    const build = `../../build/mutants-${house}`;
    const targets = [name, ...(COMPANIONS.get(test) ?? [])].map((file) => `${build}/${file}`);
    const making = ['-s', `BUILD=${build}`, ...targets];
    const made = await runProgram('make', making, { cwd, env, limit: BUILD_LIMIT });
    if (made.how !== 'passed') return { ...made, isBuilt: false };
    return { ...(await runProgram(`${build}/${name}`, args, { cwd, env, limit })), isBuilt: true };
  }

  /** Plants a defect; `heal` removes it. @param {Mutant} mutant */
  plant(mutant) {
    const file = path.join(this.#root, mutant.file);
    this.#healthy = fs.readFileSync(file);
    fs.writeFileSync(file, mutated(this.#healthy, mutant));
  }

  /** @param {Mutant} mutant the planted one */
  heal({ file }) {
    fs.writeFileSync(path.join(this.#root, file), this.#healthy);
  }

  remove() {
    fs.rmSync(this.#folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

module.exports = { Copy };
