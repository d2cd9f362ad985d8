'use strict';

/** The command line, and profiles. */

const run = ['test/cli/run.test.js'];
const usage = ['test/cli/usage.test.js'];
const web = ['test/cli/top.test.js'];
const audience = ['test/cli/audience.test.js'];
const ring = ['test/profile/ring.test.js', 'test/profile/profile.test.js'];
const requests = ['test/profile/requests.test.js', 'test/profile/profile.test.js'];

/** @type {import('../../scripts/mutants/data.js').Mutant[]} */
module.exports = [
  {
    file: 'lib/cli/job.js',
    before: 'if (!this.#ended) return instead ?? this.#notAvailable();',
    after:
      "if (!this.#ended || this.values['conflict-exit-code'] === 0) return this.#notAvailable();",
    why: 'with -E 0 a command that got the lock, and failed, ends with 0 and a false message',
    tests: run,
  },
  {
    file: 'lib/cli/job.js',
    before: 'return this.isLost ? { status: STATUS.lost } : ending;',
    after: 'return ending;',
    why: 'a script is told that all went well, though the lock was lost meanwhile',
    tests: run,
  },
  {
    file: 'lib/cli/command.js',
    before: "timer = setTimeout(() => child.kill('SIGKILL'), this.#killAfter);",
    after: 'timer = undefined;',
    why: 'a command that ignores SIGTERM goes on without the lock',
    tests: run,
  },
  {
    file: 'lib/cli/job.js',
    before: 'return this.#ended;\n  }',
    after: 'return undefined;\n  }',
    why: 'the lock is released when the command begins',
    tests: run,
  },
  {
    file: 'lib/cli/command.js',
    before: 'return signal ? { signal } : { status };',
    after: 'return signal ? { status: 0 } : { status };',
    why: 'a command that a signal ended counts as one that went well',
    tests: run,
  },
  {
    file: 'lib/cli/run.js',
    before: "mode: shared || limit !== undefined ? 'shared' : 'exclusive',",
    after: "mode: shared ? 'shared' : 'exclusive',",
    why: '--limit alone is refused, or makes an exclusive lock of it',
    tests: run,
  },
  {
    file: 'lib/cli/command.js',
    before: 'WEB_LOCKS_TOKEN: String(token),',
    after: 'WEB_LOCKS_TOKEN: String(Number(token)),',
    why: 'a token of more than 53 bits is rounded, and two holders have the same',
    tests: run,
  },
  {
    file: 'lib/cli/outer.js',
    before: 'host === here && outer.has(',
    after: 'host === here && outer.size === 1 && outer.has(',
    why: 'a run of a in a run of b in a run of a hangs',
    tests: run,
  },
  {
    file: 'lib/cli/outer.js',
    before: ' > limit;',
    after: ' > limit + weight;',
    why: 'a semaphore that waits for units of the command around it hangs',
    tests: run,
  },
  {
    file: 'lib/cli/job.js',
    before: 'this.signals.passOn();',
    after: '',
    why: 'SIGTERM while the command of a lost term ends is forgotten, and the command starts again',
    tests: ['test/cli/elect.test.js'],
  },
  {
    file: 'lib/cli/elect.js',
    before: 'if (!job.isLost) over.abort(ENDED);',
    after: 'if (!job.isLost) return;',
    why: 'a command that has ended runs again, if the lock is lost at that moment',
    tests: ['test/cli/elect.test.js'],
  },
  {
    file: 'lib/cli/once.js',
    before: 'if (!ending || ending.signal || ending.status !== 0) throw FAILED;',
    after: 'if (!ending || ending.signal) throw FAILED;',
    why: 'a command that failed counts as run, and nobody runs it again',
    tests: ['test/cli/engines.test.js'],
  },
  {
    file: 'lib/cli/signals.js',
    before: 'if (!comesToBoth(signal)) this.#child.kill(signal);',
    after: 'this.#child.kill(signal);',
    why: 'Ctrl-C comes twice to the command, which then ends without tidying up',
    tests: run,
  },
  {
    file: 'lib/cli/arguments.js',
    before:
      'return milliseconds;\n}\n\n/**\n * @param {string} text\n * @param {string} option\n * @returns {number} milliseconds of a lease',
    after:
      'return Number(text);\n}\n\n/**\n * @param {string} text\n * @param {string} option\n * @returns {number} milliseconds of a lease',
    why: '--timeout 10 waits for ten milliseconds',
    tests: [...usage, ...run],
  },
  {
    file: 'lib/cli/arguments.js',
    before: 'if (values.directory === undefined && at) values.at ??= at;',
    after: 'if (at) values.at ??= at;',
    why: '--directory is refused wherever WEB_LOCKS_AT is set',
    tests: [...run, ...usage],
  },
  {
    file: 'lib/cli/steal.js',
    before: 'if (identity(state) === identity(before)) break;',
    after: 'break;',
    why: 'somebody is robbed whom nobody was asked about',
    tests: ['test/cli/steal.test.js'],
  },
  {
    file: 'lib/cli/people.js',
    before: 'const UNSEEN = /[\\p{C}\\p{Zl}\\p{Zp}]/gu;',
    after: 'const UNSEEN = /[\\p{Zl}\\p{Zp}]/gu;',
    why: 'the name of a lock can write over the terminal of the person who looks',
    tests: ['test/cli/query.test.js', ...run],
  },
  {
    file: 'lib/cli/table.js',
    before: 'return Number(b.isHeld) - Number(a.isHeld);',
    after: 'return Number(a.isHeld) - Number(b.isHeld);',
    why: 'waiters are shown above holders',
    tests: ['test/cli/query.test.js', 'test/cli/screen.test.js'],
  },
  {
    file: 'lib/cli/table.js',
    before: 'token: isHeld ? String(token) : null',
    after: 'token: isHeld ? Number(token) : null',
    why: 'programs that read the JSON get a rounded token',
    tests: ['test/cli/query.test.js'],
  },
  {
    file: 'lib/cli/web.js',
    before: 'if (!this.#hosts.includes(String(headers.host).toLowerCase())) {',
    after: 'if (!headers.host) {',
    why: 'a site that gives 127.0.0.1 a name of its own reads the locks by way of a browser',
    tests: web,
  },
  {
    file: 'lib/cli/web.js',
    before: "if (!isRight || (rest !== '' && rest !== 'events')) {",
    after: "if (!secret || (rest !== '' && rest !== 'events')) {",
    why: 'all users of the machine can read names and labels',
    tests: web,
  },
  {
    file: 'lib/cli/web.js',
    before: 'this.#server.listen(wanted, ADDRESS, ',
    after: 'this.#server.listen(wanted, ',
    why: 'the page is served to the network',
    tests: web,
  },
  {
    file: 'lib/cli/top.js',
    before: '(?:.*@)?([^?#]*).*$/is',
    after: '(?:.*@)?(.*)$/is',
    why: 'the password of a server, given as an option of its URL, is in the page',
    tests: web,
  },
  {
    file: 'lib/cli/audience.js',
    before: 'if (page.writableNeedDrain) continue;',
    after: '',
    why: 'a page that does not read fills the memory',
    tests: audience,
  },
  {
    file: 'lib/cli/audience.js',
    before: 'if (this.#pages.size === 0) clearTimeout(this.#timer);',
    after: '',
    why: 'the locks are looked at for nobody',
    tests: audience,
  },
  {
    file: 'lib/cli/page/stream.js',
    before: 'else if (!document.hidden) this.#begin();',
    after: 'else this.#begin();',
    why: 'hidden pages use up the connections that a browser has for a server',
    tests: ['test/cli/page.test.js'],
  },
  {
    file: 'lib/cli/groups.js',
    before: 'if (text.length <= LONGEST) return shown(text);',
    after: 'return shown(text);',
    why: 'long names are sent to each page every second',
    tests: web,
  },
  {
    file: 'test/helpers/limit.js',
    before: 'limit: LIMIT_S * 1000',
    after: 'limit: Number.MAX_SAFE_INTEGER',
    why: 'a test that hangs hides everything that comes after it',
    tests: ['test/limit/limit.test.js'],
  },
  {
    file: 'lib/profile/ring.js',
    before: 'while (header[TAIL] > head && header[TAIL] <= head + length) this.#drop();',
    after: 'while (header[TAIL] > head && header[TAIL] < head + length) this.#drop();',
    why: 'a ring that is exactly full is read as empty',
    tests: ring,
  },
  {
    file: 'lib/profile/ring.js',
    before: 'if (Atomics.load(header, TAIL) === tail) return { words, dropped };',
    after: 'return { words, dropped };',
    why: 'what is overwritten while it is copied is read as entries',
    tests: ring,
  },
  {
    file: 'lib/profile/ring.js',
    before: 'if (words[tail + 1] === START && words[tail] !== 0) Atomics.add(header, DROPPED, 1);',
    after: 'if (words[tail] !== 0) Atomics.add(header, DROPPED, 1);',
    why: 'the profile says that more requests are missing than there were',
    tests: ring,
  },
  {
    file: 'lib/profile/requests.js',
    before: 'if (!last || holder.ended >= last.ended) last = holder;',
    after: 'if (!last) last = holder;',
    why: 'the wrong one is blamed for a wait',
    tests: requests,
  },
  {
    file: 'lib/profile/requests.js',
    before: 'const key = JSON.stringify([request.manager, request.name]);',
    after: 'const key = request.name;',
    why: 'who holds the name in another bucket is blamed for a wait',
    tests: requests,
  },
  {
    file: 'lib/profile/lanes.js',
    before: 'heap[0].end < from',
    after: 'heap[0].end <= from + 1',
    why: 'what overlaps in time is drawn one over the other',
    tests: ['test/profile/trace.test.js'],
  },
  {
    file: 'lib/profile/profile.js',
    before: 'for (const { kind } of entriesOf(words)) if (kind === START) this.#dropped++;',
    after: '',
    why: 'requests of threads that were forgotten are not said to be missing',
    tests: ['test/profile/profile.test.js'],
  },
  {
    file: 'lib/profile/recorder.js',
    before: 'if (asked === undefined) return;',
    after: '',
    why: 'locks of Node.js itself stand in the profile, with times that are not numbers',
    tests: ['test/profile/profile.test.js', 'test/profile/trace.test.js'],
  },
];
