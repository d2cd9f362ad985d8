/** Runs benches until all have ended or one fails. */

const { Missing } = require('./missing.js');

/** The longest bench takes far less. */
const LIMIT_MS = 30 * 60_000;

/**
 * Runs benches one after another. If one fails or hangs, the process exits with code 1 at once,
 * because what it left open may never close. Servers end with the process
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
    // The timer keeps the process alive, which would exit silently if a promise never settled.
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
