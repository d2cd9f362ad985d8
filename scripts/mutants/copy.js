'use strict';

/**
 * A copy of the tree, in which tests are run, and defects planted one at a time.
 */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { mutated, root } = require('./data.js');
const { runProgram } = require('./program.js');

/** @typedef {import('./data.js').Mutant} Mutant */
/** @typedef {import('./program.js').End} End */

/** Milliseconds for a compiler. */
const BUILD_LIMIT = 300_000;

/** What a test in TAP says when it fails; one that is to be done is none. */
const NOT_OK = /^\s*not ok (?!.*# TODO)/;

const ADDON = path.join('build', 'Release', 'web_locks.node');

/** The C programs that want arguments. */
const ARGUMENTS = new Map([
  ['core:process_test', ['../../build/mutants-core']],
  ['core:stress_test', ['2000']],
  ['host:torn_test', ['997']],
  ['host:compare', ['500']],
  ['host:damage', ['500']],
  ['host:steps_test', ['997']],
  ['host:torture', ['5']],
]);

/** What C programs run, or load. */
const COMPANIONS = new Map([
  ['core:process_test', ['copy_one.so', 'copy_two.so', 'copy_other.so']],
  ['host:processes_test', ['actor', 'actor-next']],
  ['host:harm_test', ['actor', 'actor-next']],
  ['host:between_test', ['actor']],
]);

class Copy {
  #folder;
  #root;
  #temporary;
  /** The file that has a defect, without it. */
  #healthy = '';
  /** Whether the addon is not of the sources as they are. */
  #isStale = false;
  /** Whether there is a defect that the addon has when it is built. */
  #isNative = false;
  /** Whether it has makefiles of the addon. */
  #isConfigured = false;

  constructor() {
    // Servers that tests start run as another user, and have folders in it.
    this.#folder = fs.mkdtempSync(path.join(os.tmpdir(), 'mutants-'));
    fs.chmodSync(this.#folder, 0o755);
    this.#root = path.join(this.#folder, 'tree');
    this.#temporary = path.join(this.#folder, 't');
    const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
    const files = String(execFileSync('git', list, { cwd: root }))
      .split('\0')
      .filter(Boolean);
    for (const file of files) {
      const from = path.join(root, file);
      if (fs.existsSync(from)) copy(from, path.join(this.#root, file));
    }
    fs.symlinkSync(path.join(root, 'node_modules'), path.join(this.#root, 'node_modules'));
    copy(path.join(root, ADDON), path.join(this.#root, ADDON));
  }

  /**
   * @param {string} test
   * @param {number} limit milliseconds
   * @returns {Promise<End & { isBuilt: boolean }>}
   */
  async run(test, limit) {
    fs.mkdirSync(this.#temporary);
    fs.chmodSync(this.#temporary, 0o1777);
    const env = { ...process.env, TMPDIR: this.#temporary };
    delete env.NODE_TEST_CONTEXT;
    try {
      const [, house] = /^(core|host):/.exec(test) ?? [];
      if (house) return await this.#runProgram(house, test, env, limit);
      const made = this.#isNative && !this.#isStale ? await this.#build() : undefined;
      if (made && made.how !== 'passed') return { ...made, isBuilt: false };
      const args = ['--test-reporter=tap', test];
      const options = { cwd: this.#root, env, limit, failure: NOT_OK };
      return { ...(await runProgram(process.execPath, args, options)), isBuilt: true };
    } finally {
      fs.rmSync(this.#temporary, { recursive: true, force: true, maxRetries: 10 });
    }
  }

  /**
   * @param {string} house
   * @param {string} test
   * @param {NodeJS.ProcessEnv} env
   * @param {number} limit
   */
  async #runProgram(house, test, env, limit) {
    const cwd = path.join(this.#root, 'test', house);
    const [name, ...given] = test.slice(house.length + 1).split(' ');
    const makefile = fs.readFileSync(path.join(cwd, 'Makefile'), 'utf8');
    const isOwn = house === 'core' || new RegExp(`/${name}\\b`).test(makefile);
    const build = `../../build/mutants-${house}${isOwn ? '' : '-processes'}`;
    const targets = [name, ...(COMPANIONS.get(`${house}:${name}`) ?? [])].map(
      (file) => `${build}/${file}`,
    );
    const args = ['-s', '-f', isOwn ? 'Makefile' : 'processes.mk', `BUILD=${build}`, ...targets];
    const made = await runProgram('make', args, { cwd, env, limit: BUILD_LIMIT });
    if (made.how !== 'passed') return { ...made, isBuilt: false };
    const options = { cwd, env, limit };
    const own = given.length > 0 ? given : (ARGUMENTS.get(`${house}:${name}`) ?? []);
    return { ...(await runProgram(`${build}/${name}`, own, options)), isBuilt: true };
  }

  /**
   * Plants a defect, until `heal`.
   * @param {Mutant} mutant
   */
  plant(mutant) {
    const file = path.join(this.#root, mutant.file);
    this.#healthy = fs.readFileSync(file, 'utf8');
    fs.writeFileSync(file, mutated(this.#healthy, mutant));
    this.#isNative = mutant.file.startsWith('src/');
  }

  /** @returns {Promise<End>} how the addon was built of the sources as they are */
  async #build() {
    this.#isStale = true;
    // The makefiles have paths that are of a folder, so the copy has its own.
    const script = this.#isConfigured ? 'build' : 'rebuild';
    const options = { cwd: this.#root, env: process.env, limit: BUILD_LIMIT };
    const made = await runProgram('npm', ['run', '--silent', script], options);
    this.#isConfigured ||= made.how === 'passed';
    return made;
  }

  /** @param {Mutant} mutant that is planted */
  heal({ file }) {
    fs.writeFileSync(path.join(this.#root, file), this.#healthy);
    this.#isNative = false;
    if (!this.#isStale) return;
    copy(path.join(root, ADDON), path.join(this.#root, ADDON));
    this.#isStale = false;
  }

  remove() {
    fs.rmSync(this.#folder, { recursive: true, force: true, maxRetries: 10 });
  }
}

/** @param {string} from @param {string} to */
function copy(from, to) {
  fs.cpSync(from, to, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
}

module.exports = { Copy };
