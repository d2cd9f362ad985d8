'use strict';

/**
 * A copy of the tree, in which tests are run, and defects planted one at a time.
 */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { root } = require('./about.js');
const { mutated } = require('./c.js');
const { runProgram } = require('./program.js');

/** @typedef {import('./c.js').Mutant} Mutant */
/** @typedef {import('./program.js').End} End */

/** Milliseconds for a compiler. */
const BUILD_LIMIT = 300_000;

/** What C programs run, or load. */
const COMPANIONS = new Map([
  ['host:processes_test', ['actor', 'actor-next']],
  ['host:harm_test', ['actor', 'actor-next']],
  ['host:between_test', ['actor']],
  ['host:faults_test', ['actor']],
]);

class Copy {
  #folder;
  #root;
  #temporary;
  /** The file that has a defect, without it. */
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
   * @returns {Promise<End & { isBuilt: boolean }>}
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
    const makefile = fs.readFileSync(path.join(cwd, 'Makefile'), 'utf8');
    const isOwn = house === 'core' || new RegExp(`/${name}\\b`).test(makefile);
    const build = `../../build/mutants-${house}${isOwn ? '' : '-processes'}`;
    const targets = [name, ...(COMPANIONS.get(test) ?? [])].map((file) => `${build}/${file}`);
    const making = ['-s', '-f', isOwn ? 'Makefile' : 'processes.mk', `BUILD=${build}`, ...targets];
    const made = await runProgram('make', making, { cwd, env, limit: BUILD_LIMIT });
    if (made.how !== 'passed') return { ...made, isBuilt: false };
    return { ...(await runProgram(`${build}/${name}`, args, { cwd, env, limit })), isBuilt: true };
  }

  /**
   * Plants a defect, until `heal`.
   * @param {Mutant} mutant
   */
  plant(mutant) {
    const file = path.join(this.#root, mutant.file);
    this.#healthy = fs.readFileSync(file);
    fs.writeFileSync(file, mutated(this.#healthy, mutant));
  }

  /** @param {Mutant} mutant that is planted */
  heal({ file }) {
    fs.writeFileSync(path.join(this.#root, file), this.#healthy);
  }

  remove() {
    fs.rmSync(this.#folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

module.exports = { Copy };
