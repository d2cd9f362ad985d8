'use strict';

/** lib/extensions: locks as objects, several locks, elections, run once, reentrancy, time limits. */

const election = 'test/extensions/election.test.js';
const backend = 'test/lib/backend.test.js';
const details = 'test/extensions/details.test.js';
const holdTimeout = 'test/extensions/hold-timeout.test.js';
const maxTotal = 'test/extensions/max-total.test.js';
const messages = 'test/lib/messages.test.js';
const mutex = 'test/extensions/mutex.test.js';
const once = 'test/extensions/once.test.js';
const options = 'test/extensions/options.test.js';
const printing = 'test/extensions/printing.test.js';
const reentrant = 'test/extensions/reentrant.test.js';
const scoped = 'test/host/scoped.test.js';
const semaphore = 'test/extensions/semaphore.test.js';
const several = 'test/extensions/several.test.js';

/** @type {import('../../scripts/mutants/data.js').Mutant[]} */
module.exports = [
  // Priorities.
  {
    file: 'lib/extensions/options.js',
    before: 'value >= LEAST_PRIORITY && value <= MOST && value % 1 === 0)',
    after: 'value >= LEAST_PRIORITY && value % 1 === 0)',
    why: 'a priority that is too great becomes one that is below 0',
    tests: ['test/lib/options.test.js'],
  },
  {
    file: 'lib/extensions/options.js',
    before: 'if (steal && priority !== 0) {',
    after: 'if (steal && priority > 2) {',
    why: 'a theft with a priority is taken, which means nothing',
    tests: ['test/lib/options.test.js', 'test/extensions/priority.test.js'],
  },
  {
    file: 'lib/extensions/request.js',
    before: '      options.priority !== 0\n',
    after: '      options.priority > 0\n',
    why: 'a priority below 0 is lost where it is all that is asked for',
    tests: ['test/extensions/priority.test.js'],
  },
  {
    file: 'lib/extensions/named-lock.js',
    before: 'new HeldRequest(this.#backend, this.#name, BEHIND_ALL)',
    after: 'new HeldRequest(this.#backend, this.#name, defaultOptions)',
    why: 'after a resize more units are held than there are',
    tests: ['test/extensions/semaphore.test.js'],
  },
  {
    file: 'lib/backend/snapshots.js',
    before: 'priority: numbers[i + PRIORITY] | 0,',
    after: 'priority: numbers[i + PRIORITY],',
    why: 'a priority below 0 is shown as a large one',
    tests: ['test/extensions/priority.test.js'],
  },
  // Locks as objects.
  {
    file: 'lib/extensions/mutex.js',
    before: "call(on('acquireExclusive', 'RWLock'), 'exclusive')",
    after: "call(on('acquireExclusive', 'RWLock'), 'shared')",
    why: 'a writer shares the lock with readers',
    tests: [mutex],
  },
  {
    file: 'lib/extensions/mutex.js',
    before: "call(on('runExclusive', 'RWLock'), 'exclusive')",
    after: "call(on('runExclusive', 'RWLock'), 'shared')",
    why: 'a writer shares the lock with readers',
    tests: [mutex],
  },
  {
    file: 'lib/extensions/named-lock.js',
    before: 'const { label = this.#label } = given;',
    after: 'const { label } = given;',
    why: 'the label of a Mutex shows nowhere',
    tests: [mutex],
  },
  {
    file: 'lib/extensions/semaphore.js',
    before: 'units -= holders[i].weight;',
    after: 'units--;',
    why: 'heavy holders count as light ones: more is said to be available than there is',
    tests: [semaphore],
  },
  {
    file: 'lib/extensions/scoped.js',
    before: 'if (locks && bucket === undefined) return { ...options, locks };',
    after: 'if (locks && bucket === undefined) return options;',
    why: 'a Mutex of web-locks/host excludes nobody in other processes',
    tests: [scoped],
  },
  {
    file: 'lib/extensions/named-lock.js',
    before: '    this.#checkRoom(options);\n',
    after: '',
    why: 'while a semaphore is resized more requests wait than a request allows',
    tests: [semaphore],
  },
  {
    file: 'lib/extensions/waiting.js',
    before: 'for (let i = requests.length - 1; i >= 0; i--) {',
    after: 'for (let i = 0; i < requests.length; i++) {',
    why: 'cancel grants a lock to some of those whom it should reject',
    tests: [mutex],
  },
  {
    file: 'lib/extensions/named-lock.js',
    before: '    this.#limit = limit;\n    await undefined;',
    after: '    await undefined;',
    why: 'resize changes nothing',
    tests: [semaphore],
  },
  {
    file: 'lib/extensions/named-lock.js',
    before: '    await granted;\n    this.#forget(last);',
    after: '    this.#forget(last);',
    why: 'a semaphore that is resized has the old and the new number of holders at a time',
    tests: [semaphore],
  },
  {
    file: 'lib/extensions/named-lock.js',
    before: 'if (servedBy(this.#backend, name) !== this.#backend) return name;',
    after: '',
    why: 'a reentrant request waits for ever for the lock that it is inside of, after a resize',
    tests: [semaphore],
  },
  {
    file: 'lib/extensions/named-lock.js',
    before: 'count += Math.max(this.#pendingOn(this.#former[i].name) - 1, 0);',
    after: 'count += this.#pendingOn(this.#former[i].name);',
    why: 'a resize counts as one that waits for units',
    tests: [semaphore],
  },
  {
    file: 'lib/extensions/named-lock.js',
    before: '      declareInside(next, last);\n',
    after: '',
    why: 'what waits for itself by way of a resize is not found to be a deadlock',
    tests: [semaphore],
  },
  {
    file: 'lib/extensions/named-lock.js',
    before: `    const given = toOptions(value, operation);
    takeOnly(value, TAKEN[kind], operation);
    // Those that are inherited.
    refuseOthers(given, kind, operation);
    const { label = this.#label } = given;
    // The limit last: what is read above can change it.
    const options = { ...given, ...fixed, label, limit: this.#limit };`,
    after: `    const limit = this.#limit;
    const given = toOptions(value, operation);
    takeOnly(value, TAKEN[kind], operation);
    refuseOthers(given, kind, operation);
    const { label = this.#label } = given;
    const options = { ...given, ...fixed, label, limit };`,
    why: 'a getter of options that resizes has the semaphore refuse all other requests',
    tests: [semaphore],
  },
  {
    file: 'lib/extensions/lock-handle.js',
    before: '    if (this.why) throw this.failure();',
    after: '',
    why: 'a resize that is rejected takes effect, beside those who hold the old units',
    tests: ['test/extensions/environment.test.js'],
  },
  {
    file: 'lib/extensions/lock-handle.js',
    before: '    this.observer = undefined;\n    try {',
    after: '    try {',
    why: 'subscribers of channels hear of requests that nobody made',
    tests: [semaphore],
  },
  {
    file: 'lib/extensions/watch.js',
    before: 'return Math.min(this.#granted + holdTimeout, this.#asked + maxTotal);',
    after: 'return Math.min(this.#granted + holdTimeout, this.#granted + maxTotal);',
    why: 'maxTotal is a limit on each, not on both together',
    tests: [maxTotal],
  },
  // Several locks.
  {
    file: 'lib/extensions/several.js',
    before: 'return one.name < other.name ? -1 : 1;',
    after: 'return one.name.localeCompare(other.name);',
    why: 'the order depends on the locale: two processes wait for each other for ever',
    tests: [several],
  },
  {
    file: 'lib/extensions/several.js',
    before: "if (parts[i].mode === 'exclusive') last.mode = 'exclusive';",
    after: 'last.mode = parts[i].mode;',
    why: 'a name that is given twice is locked in the weaker mode',
    tests: [several],
  },
  {
    file: 'lib/extensions/several.js',
    before: 'if (this.#failure) throw this.#failure.error;',
    after: '',
    why: 'the callback runs though one of the locks was stolen while others were waited for',
    tests: [several],
  },
  {
    file: 'lib/extensions/several.js',
    before: 'this.settle?.reject(this.#failure.error);',
    after: '',
    why: 'the loss of one of several locks is never told',
    tests: [several],
  },
  {
    file: 'lib/extensions/several.js',
    before: 'const timeout = options.timeout && Math.max(end - now(), 0);',
    after: 'const { timeout } = options;',
    why: 'each of several names has the whole timeout: the wait is as many times as long',
    tests: [several],
  },
  {
    file: 'lib/extensions/several.js',
    before: 'if (request.backend === backend) {',
    after: 'if (request) {',
    why: 'several names of which one is held already wait for that one for ever',
    tests: [backend],
  },
  {
    file: 'lib/extensions/several.js',
    before: 'if (!isRefused) this.#ask(backend, others, answers);',
    after: 'this.#ask(backend, others, answers);',
    why: 'who could never have all of several names waits for the rest of them, and keeps others waiting',
    tests: [backend],
  },
  {
    file: 'lib/extensions/several.js',
    before: 'i < parts.length && available && !this.#failure',
    after: 'i < parts.length && available',
    why: 'who asks for several names waits for the second one, though the first one is lost already',
    tests: [several],
  },
  {
    file: 'lib/extensions/several.js',
    before: 'if (!isOfAll || !this.group.timedOut()) super.heldTooLong();',
    after: 'super.heldTooLong();',
    why: 'who waits for several until maxTotal is told that a lock was held too long that it never used',
    tests: [several],
  },
  {
    file: 'lib/extensions/several.js',
    before: 'if (obstruction(requests[i]) > obstruction(most)) most = requests[i];',
    after: '',
    why: 'who does not get several locks is told that nobody holds the lock that it waits for',
    tests: [backend],
  },
  {
    file: 'lib/extensions/several.js',
    before: "if (backend.progress?.(request) === 'allotted') return 0;",
    after: '',
    why: 'who does not get several locks is told of readers with whom it shares one',
    tests: [backend],
  },
  {
    file: 'lib/extensions/several.js',
    before: "if (options.mode === 'exclusive' || holders[i].mode === 'exclusive') return 4;",
    after: 'return 4;',
    why: 'who does not get several locks is told of readers with whom it could share one',
    tests: [backend],
  },
  {
    file: 'lib/extensions/several.js',
    before: 'if (!this.#failure) mostBlocked(this.#late).failLate();',
    after: 'mostBlocked(this.#late).failLate();',
    why: 'a limit is told of on the channel for a call that failed for another reason',
    tests: [backend],
  },
  {
    file: 'lib/extensions/watch.js',
    before: "if (!this.#granted && backend.progress?.(this.#request) === 'allotted') return;",
    after: '',
    why: 'who waits for several is warned of a lock that nobody holds',
    tests: [backend],
  },
  // Elections.
  {
    file: 'lib/extensions/election.js',
    before: '      await this.#term;\n',
    after: '',
    why: 'who has lost leads again while its callback still leads from before',
    tests: [election],
  },
  {
    file: 'lib/extensions/election.js',
    before: 'this.signal = signal ? AbortSignal.any([lost, signal]) : lost;',
    after: 'this.signal = signal ?? lost;',
    why: 'a leader that can be ended by a signal never hears that it has lost',
    tests: [election],
  },
  {
    file: 'lib/extensions/election.js',
    before: 'pause = Math.min(2 * pause, LONGEST_PAUSE);',
    after: '',
    why: 'two who rob each other do so ten times a second',
    tests: [election],
  },
  // Run once.
  {
    file: 'lib/extensions/once.js',
    before: 'const value = await super.call(callback, lock);\n    this.keep = this.options.keep;',
    after: 'this.keep = this.options.keep;\n    const value = await super.call(callback, lock);',
    why: 'what fails counts as done, and is not done for a day',
    tests: [once],
  },
  {
    file: 'lib/extensions/once.js',
    before: 'if (!this.holds) throw this.lossReason();',
    after: '',
    why: 'it runs without the lock, beside the thief, if that was stolen while the mark was asked for',
    tests: [backend],
  },
  {
    file: 'lib/extensions/once.js',
    before: 'if (aborted) throw aborted.reason;',
    after: '',
    why: 'it runs though it was given up while the mark was asked for',
    tests: [backend],
  },
  // Reentrancy.
  {
    file: 'lib/extensions/outer-lock.js',
    before: 'if (served.requests.length > 0 || !served.isAwaited) return undefined;',
    after: 'if (!served.isAwaited) return undefined;',
    why: 'the lock is released while an inner request still uses it',
    tests: [reentrant],
  },
  {
    file: 'lib/extensions/outer-lock.js',
    before: "if (lock.mode === 'shared' && request.mode === 'exclusive') {",
    after: 'if (false) {',
    why: 'a writer inside of a shared lock runs beside its readers',
    tests: [reentrant],
  },
  {
    file: 'lib/extensions/inside.js',
    before: '|| lock.backend.id !== backend.id) continue;',
    after: ') continue;',
    why: 'a lock of one bucket serves requests of another, which nobody holds',
    tests: [reentrant],
  },
  {
    file: 'lib/extensions/inside.js',
    before: 'if (!lock.held || !outer.held) continue;',
    after: 'if (!lock.held || !outer.held) return new OuterLock(outer, backend);',
    why: 'a lock that was released serves requests, which have no lock then',
    tests: [reentrant],
  },
  {
    file: 'lib/extensions/inside.js',
    before: '    outer.backend.catchUp?.(outer);\n',
    after: '',
    why: 'a lock that another thread or process has stolen serves requests: both hold it',
    tests: ['test/extensions/robbed.test.js', 'test/host/robbed.test.js'],
  },
  {
    file: 'lib/extensions/inside.js',
    before: 'if (lock.holds && outer.holds) return',
    after: 'if (lock.held && outer.held) return',
    why: 'a lock whose lease has ended serves requests: another machine can have it',
    tests: [backend],
  },
  {
    file: 'lib/backend/host.js',
    before:
      "if (status === WLH_STOLEN) agent.stolen(lock, thief);\n    else if (status === WLH_LOST) agent.lost(lock, 'destroyed', () => this.#lossError());\n  }\n\n  announce() {",
    after: '}\n\n  announce() {',
    why: 'a theft that a reentrant request was told of is forgotten, and never told',
    tests: ['test/host/robbed.test.js'],
  },
  {
    file: 'lib/extensions/inside.js',
    before: 'backend.closed === undefined ? (storage?.getStore() ?? []) : []',
    after: 'storage?.getStore() ?? []',
    why: 'a closed bucket grants what a lock of another one of its name serves',
    tests: [reentrant],
  },
  {
    file: 'lib/extensions/bucket.js',
    before: 'this.#closed ??= close(this.#backend);',
    after: 'this.#closed ??= this.#backend.close();',
    why: 'a closed bucket keeps what a lock of another one of its name serves',
    tests: [reentrant],
  },
  {
    file: 'lib/extensions/outer-lock.js',
    before:
      "for (let i = 0; i < lost.length; i++) lost[i].giveUp('closed');\n  const closed = backend.close();\n",
    after:
      "const closed = backend.close();\n  for (let i = 0; i < lost.length; i++) lost[i].giveUp('closed');\n",
    why: 'who hears that a bucket is closed finds locks of it that are held',
    tests: [reentrant],
  },
  // Time limits and handles.
  {
    file: 'lib/extensions/watch.js',
    before: 'const part = Math.min(Math.ceil(milliseconds), LONGEST_TIMER);',
    after: 'const part = Math.ceil(milliseconds);',
    why: 'a limit of a month takes the lock away at once: a timer that cannot wait so long does not wait',
    tests: [holdTimeout, 'test/extensions/timeout.test.js'],
  },
  {
    file: 'lib/extensions/watch.js',
    before: '      clearTimeout(this.#holdTimeout);\n',
    after: '',
    why: 'a timer of each lock that was released stays as long as its holdTimeout',
    tests: [holdTimeout],
  },
  {
    file: 'lib/extensions/watch.js',
    before: 'this.#armed + timeout - ahead - now()',
    after: 'this.#armed + timeout + 1000 - ahead - now()',
    why: 'a timeout comes a second late',
    tests: ['test/extensions/timeout.test.js'],
  },
  {
    file: 'lib/extensions/lock-handle.js',
    before: '      else this.observer?.ended();\n      this.backend.announce();',
    after: '      else this.observer?.ended();',
    why: 'the next in the same thread hears of the release of a handle only by chance',
    tests: ['test/extensions/acquire.test.js', 'test/extensions/sync.test.js'],
  },
  {
    file: 'lib/extensions/lock-handle.js',
    before: 'if (released) released = this.#givenBack(released);',
    after: 'if (released) released = Promise.resolve();',
    why: 'release() of a handle says that it is done before others can have the lock',
    tests: [backend, 'test/host/processes.test.js'],
  },
  {
    file: 'lib/extensions/lock-handle.js',
    before: '      this.backend.undo(NO_TAG);\n',
    after: '',
    why: 'a lock that a handle releases at the end of the stack is told to nobody',
    tests: [backend],
  },
  {
    file: 'lib/extensions/several.js',
    before: '      request.backend.undo(request.tag);\n',
    after: '',
    why: 'several keep what they could not wait for at the end of the stack',
    tests: [backend],
  },
  // Options, and what is told.
  {
    file: 'lib/extensions/options.js',
    before: 'if (options[names[i]] === defaultOptions[names[i]]) continue;',
    after: 'if (!options[names[i]]) continue;',
    why: '`timeout: 0` is not refused: a candidate of an election fails instead of waiting',
    tests: ['test/lib/options.test.js', options],
  },
  {
    file: 'lib/extensions/lock-manager.js',
    before: "if (options.keep !== undefined) refuseOthers(options, 'request', REQUEST);",
    after: '',
    why: '`keep` does nothing with request, without a word',
    tests: [options],
  },
  {
    file: 'lib/extensions/holders.js',
    before: '!holders?.length && grantsIn > 0',
    after: 'holders?.length === 0 && grantsIn > 0',
    why: 'it is not said that the server grants nothing if it is not known who holds the lock',
    tests: ['test/lib/messages.test.js'],
  },
  {
    file: 'lib/extensions/holders.js',
    before: 'if (!holders) return UNKNOWN_HOLDERS;',
    after: "if (!holders) return 'no longer held';",
    why: 'it is said that nobody holds the lock if nobody knows',
    tests: ['test/lib/messages.test.js'],
  },
  {
    file: 'lib/extensions/holders.js',
    before: 'if (!pid) return clientId',
    after: 'if (!pid || clientId) return clientId',
    why: 'who holds a lock is told by an id that nobody knows, and not by the number of its process',
    tests: [messages],
  },
  {
    file: 'lib/extensions/lock-errors.js',
    before: "if (maxPending === 0) return 'the request is not allowed to wait';",
    after: '',
    why: 'a request that may not wait is told that 0 or more requests are waiting already',
    tests: [messages],
  },
  {
    file: 'lib/extensions/lock-errors.js',
    before: 'if (token !== undefined) json.token =',
    after: 'if (token !== undefined) json.token = token ||',
    why: 'a logger throws where it should tell that a lock was lost',
    tests: [printing],
  },
  {
    file: 'lib/backend/details.js',
    before: 'return { ...this, token:',
    after: 'return { ...this, text:',
    why: 'process.send and loggers throw',
    tests: [printing, details],
  },
  {
    file: 'lib/extensions/request.js',
    before: 'if (this.options.timeout === 0) this.failed(lateError);',
    after: 'if (this.options.timeout === 0) this.failed(lateError, this.observer.look());',
    why: 'events are applied by what applies events: grants are lost, and all processes hang',
    tests: ['test/host/applying.test.js', 'test/lib/applying.test.js'],
  },
  {
    file: 'lib/extensions/request.js',
    before: 'if (this.leave()) this.failLate(progress);',
    after:
      'if (!this.leave()) return;\n    if (!this.backend.holders) this.failWithHolders();\n    else this.failLate(progress);',
    why: 'a time limit comes later where the question who holds the lock is not answered',
    tests: [backend],
  },
  {
    file: 'lib/extensions/watch.js',
    before: '(this.#granted || this.#ended || now()) - this.#asked',
    after: '(this.#granted || now()) - this.#asked',
    why: 'a warning counts on after the wait is over, as long as the thread is busy',
    tests: ['test/hostile/corners.test.js'],
  },
  {
    file: 'lib/extensions/watch.js',
    before: 'this.#holds ? this.#describeHold()',
    after: 'this.#granted ? this.#describeHold()',
    why: 'a wait that was too long is told as a lock that is held too long',
    tests: ['test/hostile/corners.test.js'],
  },
  {
    file: 'lib/extensions/watch.js',
    before: 'if (holders?.length) this.holders = holders;',
    after: 'this.holders = holders;',
    why: 'a request that was not granted is told that nobody holds the lock',
    tests: [backend],
  },
  {
    file: 'lib/extensions/watch.js',
    before: 'return backend.holders(name, true);',
    after: 'return backend.holders(name);',
    why: 'a warning says that a thread waits for itself, which was granted the lock just now',
    tests: ['test/lib/warnings.test.js'],
  },
  {
    file: 'lib/backend/in-the-way.js',
    before: 'if (holder.clientId === clientId && !isIn(known, holder.token)) continue;',
    after: '',
    why: 'a thread is told to be in its own way before it hears that it was granted the lock',
    tests: ['test/lib/holders.test.js'],
  },
  {
    file: 'lib/backend/in-the-way.js',
    before: 'others.length === 0 && holders.length > 0 ? undefined : others',
    after: 'others',
    why: 'who was granted a lock just now is told that nobody holds it any more',
    tests: ['test/lib/holders.test.js', 'test/lib/warnings.test.js'],
  },
  {
    file: 'lib/extensions/request.js',
    before: 'this.beLost(undefined, reason);\n    this.handBack();',
    after: 'this.handBack();\n    this.beLost(undefined, reason);',
    why: 'an inner lock says that it is held when the outer one has run out, and another process has it',
    tests: [backend],
  },
  {
    file: 'lib/extensions/request.js',
    before: '  heldTooLong() {\n    if (!this.holds) return;\n    this.giveUp(TIME);\n',
    after:
      '  async heldTooLong() {\n    if (!this.holds) return;\n    this.beLost(undefined, TIME);\n    await this.handBack();\n',
    why: 'who holds a lock too long hears of it when the server has released it, which can be never',
    tests: [backend],
  },
  {
    file: 'lib/extensions/request.js',
    before:
      'else throw notSupportedError(request.options.deadlock ? NO_DEADLOCKS : NO_DEADLOCKS_HERE);',
    after: 'else if (request.options.deadlock) throw notSupportedError(NO_DEADLOCKS);',
    why: 'WEB_LOCKS_DEADLOCK=reject does nothing where it cannot, and nobody is told',
    tests: ['test/lib/deadlock-environment.test.js'],
  },
  {
    file: 'lib/extensions/several.js',
    before: '{ ...options, timeout }',
    after: 'options',
    why: 'each of several names has the whole timeout: the wait is as many times as long',
    tests: [several],
  },
  {
    file: 'lib/extensions/request.js',
    before: 'const progress = this.backend.progress?.(this);\n    if (this.leave()) ',
    after:
      'const left = this.leave();\n    const progress = this.backend.progress?.(this);\n    if (left) ',
    why: 'of a theft that was never sent it is said that nobody knows whether it was done',
    tests: ['test/cluster/backend.test.js'],
  },
  {
    file: 'lib/extensions/request.js',
    before: 'this.options.steal ? this.theftError(progress) : this.timeoutError()',
    after: 'this.timeoutError()',
    why: 'who is told that it waited in vain has stolen the lock',
    tests: ['test/cluster/backend.test.js'],
  },
];
