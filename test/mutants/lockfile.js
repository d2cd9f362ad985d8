'use strict';

/** lib/lockfile.js and lib/lockfile: the drop-in for proper-lockfile. */

const tests = ['test/host/lockfile.test.js'];

/** @type {import('../../scripts/mutants/data.js').Mutant[]} */
module.exports = [
  {
    file: 'lib/lockfile/file-lock.js',
    before: '    this.forget();\n    try {',
    after: '    try {',
    why: 'a lock that was lost is still this thread’s',
    tests,
  },
  {
    file: 'lib/lockfile/file-lock.js',
    before: 'await this.giveBack();\n    this.#throwIfLost();',
    after: 'await this.giveBack();',
    why: 'who releases a lock that was stolen is told that all is well',
    tests,
  },
  {
    file: 'lib/lockfile/file-lock.js',
    before: 'return locks.get(this.name) === this && locks.delete(this.name);',
    after: 'return locks.delete(this.name);',
    why: 'what released a lock releases the next one of the file',
    tests,
  },
  {
    file: 'lib/lockfile/path.js',
    before: 'const directory = yield path.dirname(name);',
    after: 'const directory = path.dirname(name);',
    why: 'two ways to one lock file are two locks',
    tests,
  },
  {
    file: 'lib/lockfile/options.js',
    before: 'time += left * Math.min(pause, maxTimeout);',
    after: 'time += Math.min(pause, maxTimeout);',
    why: 'the retries after the longest pause are not waited for',
    tests,
  },
  {
    file: 'src/host/waiting.c',
    before: 'agent->awaited = find_errand(agent, tag);',
    after: 'agent->awaited = NULL;',
    why: 'who blocks for a snapshot does not wait for it, but asks again and again',
    tests: ['test/host/later.test.js'],
  },
];
