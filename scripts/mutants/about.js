'use strict';

/** Says which tests are about a source file: those of its folder, the quickest first. */

const fs = require('node:fs');
const path = require('node:path');

const root = path.join(__dirname, '..', '..');

/**
 * The keys are beginnings of paths of source files; the longest match counts. The values are test
 * files, folders of them, or C programs with their arguments, such as `core:stress_test 2000` of
 * test/core/Makefile or `host:between_test` of test/host/Makefile.
 * @type {[string, string[]][]}
 */
const TESTS = [
  ['lib/cluster/engines/etcd/', ['test/cluster/etcd-*.test.js', 'test/cluster/transport.test.js']],
  ['lib/cluster/engines/postgres/', ['test/cluster/postgres-*.test.js']],
  ['lib/cluster/engines/redis/', ['test/cluster/redis-*.test.js']],
  [
    'lib/cluster/',
    [
      ...['clock', 'once', 'scripted', 'backend', 'bucket', 'session'].map(
        (name) => `test/cluster/${name}.test.js`,
      ),
      'test/world/',
    ],
  ],
  ['lib/backend/', ['test/backend/', 'test/binding/', 'test/spec/', 'test/host/*.test.js']],
  ['lib/extensions/', ['test/lib/', 'test/extensions/', 'test/host/life.test.js']],
  ['lib/standard/', ['test/spec/', 'test/backend/', 'test/standard/']],
  ['lib/platform/', ['test/spec/', 'test/platform/', 'test/standard/']],
  ['lib/lockfile', ['test/host/lockfile.test.js']],
  ['lib/profile', ['test/profile/']],
  ['lib/cli/', ['test/cli/']],
  ['lib/', ['test/package/loading.test.js', 'test/spec/']],
  ['src/core/', ['core:units', 'core:fuzz_corpus 1000', 'core:stress_test 300']],
  [
    'src/host/',
    ['cells_test', 'compare 500', 'damage 500']
      .concat(['turn_test', 'between_test', 'faults_test', 'harm_test'])
      .map((name) => `host:${name}`),
  ],
];

/** @param {string} pattern a test file, a folder, or files of a folder */
function filesOf(pattern) {
  const folder = pattern.endsWith('/') ? pattern : path.dirname(pattern);
  const [start, end] = pattern.endsWith('/') ? ['', ''] : path.basename(pattern).split('*');
  const names = fs.readdirSync(path.join(root, folder));
  const fitting = names.filter(
    (name) =>
      name.endsWith('.test.js') && (end === undefined ? name === start : name.startsWith(start)),
  );
  return fitting.map((name) => path.join(folder, name));
}

/**
 * @param {string} file a path from the root
 * @returns {string[]} empty if no test is about it
 */
function testsAbout(file) {
  const [, patterns = []] = TESTS.find(([prefix]) => file.startsWith(prefix)) ?? [];
  return patterns.flatMap((one) => (/^\w+:/.test(one) ? [one] : filesOf(one)));
}

module.exports = { root, testsAbout };
