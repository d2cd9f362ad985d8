'use strict';

/** What the specification asks for, in JavaScript, and what runs it against a backend. */

const request = ['test/spec/3.2.1-request.test.js'];
const backend = 'test/lib/backend.test.js';
const native = 'test/lib/native.test.js';

/** @type {import('../../scripts/mutants/data.js').Mutant[]} */
module.exports = [
  {
    file: 'lib/standard/lock-manager.js',
    before: "if (steal && mode !== 'exclusive') {",
    after: 'if (!mode) {',
    why: 'a theft can be shared, and is granted beside others',
    tests: request,
  },
  {
    file: 'lib/standard/lock-manager.js',
    before: 'const aborted = abortedReason(signal);\n  if (aborted) throw aborted.reason;',
    after: '',
    why: 'a request whose signal is aborted already is made',
    tests: [...request, 'test/spec/4.3-abort-the-request.test.js'],
  },
  {
    file: 'lib/standard/lock-manager.js',
    before: 'checkName(resourceName);',
    after: '',
    why: 'names that the specification reserves can be locked',
    tests: [...request, 'test/spec/2.1-resource-names.test.js'],
  },
  {
    file: 'lib/standard/webidl.js',
    before: "if (name[0] === '-') {",
    after: "if (name === '-') {",
    why: 'names that the specification reserves can be locked',
    tests: [...request, 'test/spec/2.1-resource-names.test.js'],
  },
  {
    file: 'lib/standard/webidl.js',
    before: "givenMode === undefined ? 'exclusive'",
    after: "(givenMode ?? undefined) === undefined ? 'exclusive'",
    why: 'a mode of null, which a browser refuses, locks exclusively',
    tests: request,
  },
  {
    file: 'lib/standard/abort.js',
    before: 'if (error instanceof RangeError) throw error;',
    after: '',
    why: 'near the end of the stack a good signal is refused as none',
    tests: ['test/hostile/stack.test.js'],
  },
  {
    file: 'lib/standard/abort.js',
    before: 'if (!getAborted(signal)) return;',
    after: '',
    why: 'anybody can end a request by an event that he made up',
    tests: ['test/hostile/events.test.js', 'test/spec/4.3-abort-the-request.test.js'],
  },
  {
    file: 'lib/standard/abort.js',
    before: 'if (sizeOf(following.followers) === 0) stop(signal, following);',
    after: '',
    why: 'a signal that lives long keeps a listener for each request that there was',
    tests: ['test/hostile/collected.test.js', 'test/spec/4.3-abort-the-request.test.js'],
  },
  {
    file: 'lib/standard/abort.js',
    before:
      'unfinished[unfinished.length] = follower;\n        follower.backend.undo(follower.tag);',
    after: '',
    why: 'a request that was aborted without any stack left is pending for ever',
    tests: ['test/hostile/stack.test.js', 'test/hostile/giving-up.test.js'],
  },
  {
    file: 'lib/standard/lock.js',
    before: "if (arguments[0] !== own) throw new TypeError('Illegal constructor');",
    after: '',
    why: 'anybody can make an object that passes for a lock',
    tests: ['test/spec/2.4-locks.test.js', 'test/hostile/globals.test.js'],
  },

  // What runs it against a backend.
  {
    file: 'lib/standard/lock-request.js',
    before: 'if (this.options.steal) this.backend.announce();',
    after: '',
    why: 'a thief runs before the robbed of its thread hears that it lost the lock',
    tests: ['test/spec/4.1-request-a-lock.test.js', 'test/hostile/thefts.test.js'],
  },
  {
    file: 'lib/standard/lock-request.js',
    before: 'if (this.state !== PENDING && this.state !== GRANTED) return false;',
    after: 'if (this.state !== PENDING) return false;',
    why: 'a request that is aborted after its grant runs all the same',
    tests: [
      'test/spec/4.3-abort-the-request.test.js',
      ...request,
      'test/hostile/giving-up.test.js',
    ],
  },
  {
    file: 'lib/standard/lock-request.js',
    before: 'this.backend.withdraw(this);\n    this.state = ENDED;\n    this.disarm();',
    after: 'this.state = ENDED;\n    this.disarm();',
    why: 'an aborted request stays in the queue, and gets a lock that nobody releases',
    tests: ['test/spec/4.3-abort-the-request.test.js'],
  },
  {
    file: 'lib/standard/lock-request.js',
    before: 'return undefined;\n    return this.handBack();',
    after: 'return undefined;\n    this.state = ENDED;\n    return this.handBack();',
    why: 'a lock is held for ever whose release found no stack for a call between',
    tests: [backend],
  },
  {
    file: 'lib/standard/lock-request.js',
    before: '} else if (this.state === LOST) {\n      this.backend.withdraw(this);',
    after: '} else if (this.state === LOST) {',
    why: 'a lock that was held too long, and could not be released for want of stack, is held for ever',
    tests: [backend],
  },
  {
    file: 'lib/backend/agent.js',
    before: 'if (!hasStack) throw error;',
    after: '',
    why: 'what could not be told for want of stack is never told, and a promise never settles',
    tests: ['test/hostile/stack.test.js'],
  },
  {
    file: 'lib/backend/agent.js',
    before: 'if (--this.#live > 0 || this.#requests.length < LEAST_TO_DROP) return;',
    after: 'if (this.#requests.length < LEAST_TO_DROP) return;',
    why: 'requests that go on lose their tag when another one of many ends',
    tests: [native, backend],
  },
  {
    file: 'lib/backend/agent.js',
    before: 'if (count < EVENT_CAPACITY) return;',
    after: 'if (count > 0) return;',
    why: 'of many thefts at a time some locks still say that they are held, beside the thief',
    tests: [native, backend],
  },
  {
    file: 'lib/backend/native.js',
    before: 'if (exchange[STATUS] !== WLK_OK) releaseLock();',
    after: '',
    why: 'a lock that was granted when its request was given up is never released',
    tests: ['test/hostile/giving-up.test.js', 'test/spec/4.3-abort-the-request.test.js', backend],
  },
  {
    file: 'lib/backend/native.js',
    before: 'addon.releaseAndMark(Math.ceil(keep))',
    after: 'addon.releaseAndMark(Math.floor(keep))',
    why: 'once with a keep of less than a millisecond marks nothing',
    tests: [native, 'test/extensions/once.test.js'],
  },
  {
    file: 'lib/backend/snapshots.js',
    before: 'ahead.set(on, before + 1);',
    after: '',
    why: 'details say of all who wait that nobody is ahead of them',
    tests: ['test/extensions/details.test.js'],
  },
  {
    file: 'lib/backend/snapshots.js',
    before: 'waited: isHeld ? 0 : age,',
    after: 'waited: age,',
    why: 'details say of a lock that it still waits',
    tests: ['test/extensions/details.test.js'],
  },
  {
    file: 'lib/backend/host.js',
    before: "const directory = this.#directory || process.env.WEB_LOCKS_DIRECTORY || '';",
    after: "const directory = this.#directory || '';",
    why: 'a thread with another environment locks in another directory than it says',
    tests: ['test/host/scoped.test.js', 'test/host/messages.test.js', 'test/host/files.test.js'],
  },
  {
    file: 'lib/backend/host.js',
    before: 'if (status === WLH_PENDING) addon.hostEnd();',
    after: '',
    why: 'the end of a lock of a bucket that was closed ends the request that has its number now',
    tests: ['test/host/later.test.js', 'test/host/scoped.test.js'],
  },
  {
    file: 'lib/backend/host.js',
    before:
      "    });\n    // Not in there: what it throws would be the promise's, and nobody would undo the release.\n    this.#releases.set(lock, resolve);",
    after: '      this.#releases.set(lock, resolve);\n    });',
    why: 'a release that found no stack rejects, and the lock is held for ever',
    tests: ['test/host/stack.test.js'],
  },
  {
    file: 'lib/backend/host.js',
    before: 'if (request instanceof Errand || this.#releases.has(request)) {',
    after: 'if (request instanceof Errand) {',
    why: 'who closes a bucket waits for ever for a release that was put off',
    tests: ['test/host/later.test.js'],
  },
  {
    file: 'lib/backend/host.js',
    before: 'if (request instanceof Errand) request.told(WLH_OK);\n      else this',
    after: 'if (!(request instanceof Errand)) this',
    why: 'a query never settles when its bucket is closed before the answer',
    tests: ['test/host/later.test.js'],
  },
  {
    file: 'lib/backend/host.js',
    before: 'if (request instanceof Errand) addon.hostTakeSnapshot(this.#open());',
    after: '',
    why: 'a query is answered with what was asked before, by a bucket that was closed since',
    tests: ['test/host/later.test.js'],
  },
  {
    file: 'lib/backend/host.js',
    before: '      addon.drain(false);\n      agent.collect();\n      return;',
    after: '      return;',
    why: 'a grant that comes just before its bucket is closed is told without its token',
    tests: ['test/host/later.test.js'],
  },
  {
    file: 'lib/backend/host.js',
    before:
      'agent.stolen(request, thief);\n      return;\n    }\n    agent.remove(request);\n    if (status === WLH_OK)',
    after: '}\n    agent.remove(request);\n    if (status === WLH_OK)',
    why: 'who is robbed just before its bucket is closed does not hear by whom',
    tests: ['test/host/later.test.js'],
  },
  {
    file: 'lib/backend/agent.js',
    before: 'if (isFirst && !this.#isUnheard) return false;',
    after: 'return false;',
    why: 'callbacks are called in another order than the locks were granted in',
    tests: ['test/extensions/order.test.js'],
  },
  {
    file: 'lib/backend/binary.js',
    before: 'if (exports.AGREEMENT !== AGREEMENT) throw otherVersionError(file);',
    after: '',
    why: 'a binary of another version is loaded, and its requests are never granted',
    tests: ['test/package/loading.test.js'],
  },
];
