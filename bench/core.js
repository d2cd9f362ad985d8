/** Runs the core without JavaScript (core.c): `npm run bench -- --only core`. */

const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { duration, size } = require('./size.js');

const BUILD = path.join(__dirname, '..', 'build', 'core-gcc');

const perRequest = ['sequential', 'readers', 'handoff', 'queue:1000', 'names:1000', 'names:100000'];
const onThreads = ['threads', 'crowd', 'turns'];

async function runCore() {
  const test = path.join(__dirname, '..', 'test', 'core');
  execFileSync('make', ['--no-print-directory', '-s', '-C', test, 'bench', `BUILD=${BUILD}`]);
  const run = (...args) => execFileSync(path.join(BUILD, 'bench'), args, { encoding: 'utf8' });
  console.log('\ncore, in C');
  for (const work of perRequest) {
    process.stdout.write(`  ${run(work, String(size(3_000_000)))}`);
  }
  for (const work of onThreads) {
    for (const count of [1, 2]) {
      const output = run(work, String(count), String(duration(2_000)), '100').trimEnd();
      console.log(`  ${work.padEnd(12)} ${output.replaceAll('\n', `\n${' '.repeat(15)}`)}`);
    }
  }
}

module.exports = { runCore };
