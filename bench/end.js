/** Runs benches to the end of each, or to the first that fails. */

const { Missing } = require('./missing.js');

/** Far more than the longest one takes. */
const LIMIT_MS = 30 * 60_000;

/**
 * Runs one after the other. One that fails, or does not end, ends the process with exit code 1:
 * not in order, since what it has left open may never close. Servers end with the process
 * (test/cluster/servers.js).
 * @param {{ name: string, run: () => Promise<void> }[]} benches
 * @param {number} [limit] milliseconds for each
 */
async function runAll(benches, limit = LIMIT_MS) {
  const fail = (name, why) => {
    console.error(`\nThe bench '${name}' failed: ${why}`);
    process.exit(1);
  };
  for (const { name, run } of benches) {
    // It keeps the process alive, which would end without a word where a promise never settles.
    const timer = setTimeout(() => fail(name, `it has not ended in ${limit / 1000} s`), limit);
    try {
      await run();
    } catch (error) {
      if (error instanceof Missing) console.log(`\n${name}: ${error.message}`);
      else fail(name, error?.stack ?? error);
    }
    clearTimeout(timer);
  }
}

module.exports = { runAll };
