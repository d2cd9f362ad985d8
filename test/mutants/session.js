'use strict';

/** The session of the cluster scope: leases, places, what is said again, who is told what. */

const scripted = 'test/cluster/scripted.test.js';
const session = 'test/cluster/session.test.js';
const clock = 'test/cluster/clock.test.js';
const backend = 'test/cluster/backend.test.js';
const rules = 'test/cluster/rules.test.js';
const once = 'test/cluster/once.test.js';

/** @type {import('../../scripts/mutants/data.js').Mutant[]} */
module.exports = [
  // Leases and clocks.
  {
    file: 'lib/cluster/session/lease.js',
    before: 'return Math.min(',
    after: 'return Math.max(',
    why: 'a lease ends when all clocks say so, so a machine that slept goes on with its locks',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/lease.js',
    before: '      this.#continuousEnd - clock.continuous(),\n',
    after: '',
    why: 'whose wall clock is set back while the machine sleeps has his lock with the next one',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/lease.js',
    before: '      this.#wallEnd - clock.wall(),\n',
    after: '',
    why: 'where there is no continuous clock a machine that slept goes on with its locks',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/lease.js',
    before: '      this.#end - clock.monotonic(),\n',
    after: '',
    why: 'a wall clock that is set back makes leases longer where no other clock goes on',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/lease.js',
    before: 'this.#continuousEnd = continuousSent + time;',
    after: 'this.#continuousEnd = continuousSent + ttl;',
    why: 'after sleep the lease ends here as late as at the server, and two can hold the lock',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/lease.js',
    before: 'this.#wallEnd = wallSent + time;',
    after: 'this.#wallEnd = wallSent + ttl;',
    why: 'the same, where there is no continuous clock',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/clock.js',
    before: 'if (continuousNow() >= 0) return continuousNow;',
    after: 'if (continuousNow() < 0) return continuousNow;',
    why: 'no process ever has a clock that counts the time that the machine sleeps',
    tests: [clock],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: '{ margin: 0.9, compares: true }',
    after: '{ margin: 1, compares: true }',
    why: 'no margin is left for clocks that differ, and two can hold the lock',
    tests: [scripted, session, rules, 'test/cluster/model.test.js'],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'this.#extend(times);\n    this.#attempts = 0;',
    after: 'this.#extend(this.#lease.times());\n    this.#attempts = 0;',
    why: 'a renewal counts from its answer, so with a slow server the lease ends here too late',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'this.#grants.forgetEnds();\n    this.#extend(times);',
    after: 'this.#grants.forgetEnds();\n    this.#extend(this.#lease.times());',
    why: 'the first lease counts from the answer of a slow server, and ends here too late',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'this.#ttl = ttl;\n    this.#grants.forgetEnds();',
    after: 'this.#grants.forgetEnds();',
    why: 'a shorter lease that the server imposes is not kept to, and two hold the lock',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'if (rest <= 0) this.#expire();',
    after: 'if (rest < -1000) this.#expire();',
    why: 'what happens after the end of the lease counts as if it were in time',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: "else this.#agenda.setBy('deadline', this.#now() + rest);",
    after: '',
    why: 'who slept is told of the end of the lease much too late',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'if (this.#lease.rest() <= 0) {\n      this.#closeOld();',
    after: 'if (this.#lease.rest() <= -1e9) {\n      this.#closeOld();',
    why: 'a session whose lease was over when it was opened is taken for open',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'this.#expire();\n    this.#settleSoon();\n    return 0;',
    after: 'this.#expire();\n    return 0;',
    why: 'a lock whose end lock.held has found is not told lost until the next event',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: "this.#agenda.set('renew', times.sent + this.#ttl / 3);\n    this.#calls.make(",
    after: "this.#agenda.set('renew', times.sent + this.#ttl);\n    this.#calls.make(",
    why: 'one renewal that is late costs all locks',
    tests: [scripted, session],
  },

  // What is compared at a renewal.
  {
    file: 'lib/cluster/session/grants.js',
    before: 'if (place.news > news) continue;',
    after: '',
    why: 'a grant heard while a renewal was under way is taken back, and the lock is lost',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/grants.js',
    before: 'if (thief) this.#listener.stolen(place, thief);\n        else this',
    after: 'if (!place) this.#listener.stolen(place, String(thief));\n        else this',
    why: 'a theft that the server remembers is told as a loss by failover',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/grants.js',
    before: '} else if (place.state === WAITING && token) {\n        this.#grant(place, token);',
    after: '} else if (place.state === WAITING && token) {\n        continue;',
    why: 'a grant whose hint was lost is never found, and everybody waits for this process',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/grants.js',
    before: '} else if (place.state === WAITING && token === undefined) {',
    after: '} else if (place.state === WAITING && !place) {',
    why: 'a request that a failover has lost waits for ever',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/grants.js',
    before: 'if (!this.#places.get(ref) && !this.#ended.has(ref)) this.#forget(ref, undefined);',
    after: '',
    why: 'a lock that the server has and nobody knows is kept for as long as the process lives',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'if (this.#rules.compares) this.#grants.compare(renewal, news);',
    after: "if (this.state === 'suspect') this.#grants.compare(renewal, news);",
    why: 'hints that get lost while the connection stays are never found',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'this.#renewAgain = true;',
    after: '',
    why: 'changes that the engine tells of during a renewal are forgotten until the next',
    tests: [scripted, session],
  },

  // Sweeps.
  {
    file: 'lib/cluster/session/sweeps.js',
    before: 'const isOver = this.#isQuarantined && grantsIn <= 0;',
    after: 'const isOver = false;',
    why: 'after a quarantine that ended between a sweep and its renewal nobody is granted anything',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/sweeps.js',
    before: 'const rest = Math.min(nextExpiryIn, grants);',
    after: 'const rest = grants;',
    why: 'who waits for a dead holder waits for ever',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/sweeps.js',
    before: 'this.#last + ttl / 20',
    after: 'this.#last',
    why: 'what cannot be swept yet is swept without a pause, and the server has no rest',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/sweeps.js',
    before: 'if (this.#isFirst) return now;',
    after: '',
    why: 'what dead sessions have left is never tidied by who waits for nothing',
    tests: [scripted, session],
  },

  // Losing.
  {
    file: 'lib/cluster/session/session.js',
    before: 'for (const group of grouped(pending)) this.#grants.askAgain(group);',
    after: 'for (const place of pending) this.#grants.askAgain([place]);',
    why: 'a group is asked for again one by one, and two groups can wait for each other for ever',
    tests: [scripted, session, backend],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: "this.#agenda.clear('deadline');\n    this.#outbox.clear();",
    after: "this.#agenda.clear('deadline');",
    why: 'what was asked in a dead session is said in the next one, with refs of nobody',
    tests: [scripted, session, backend],
  },
  {
    file: 'lib/cluster/session/fates.js',
    before: "if (state === ENDING && keep > 0) return 'lost';",
    after: "if (end === 'closed' && state === ENDING && keep > 0) return 'lost';",
    why: 'once says that it ran and was marked, though the mark was lost with the session',
    tests: [scripted, once, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'if (this.#attempts++ === 0) this.#open();\n    else this.#openLater(cause);',
    after: 'this.#open();',
    why: 'a session that is always dead is opened without a pause',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/announcements.js',
    before: 'this.#isLosing ||= fromEvents;',
    after: '',
    why: 'who hears that the session is lost finds that signals of its locks are not aborted',
    tests: [scripted],
  },
  {
    file: 'lib/cluster/announcements.js',
    before: 'if (this.#losses.length > 0) {',
    after: 'if (this.#losses.length > 0 && this.#changes.length === 0) {',
    why: 'who hears that the session is lost still sees its locks as held',
    tests: [scripted, session, backend],
  },

  // Steps.
  {
    file: 'lib/cluster/session/outbox.js',
    before: 'if (this.#step.length > 0) return this.#step;',
    after: 'if (this.#step.length > 0) return this.#step.slice(0, 1);',
    why: 'of a step that is sent again all but the first request are forgotten',
    tests: [scripted, session, backend],
  },
  {
    file: 'lib/cluster/session/outbox.js',
    before: 'if (this.#step.length > 0) return this.#step;',
    after: 'if (this.#step.length > 0) return this.#step.slice(0, MOST);',
    why: 'of a group that is sent again what is over 100 is forgotten',
    tests: [scripted, session, backend],
  },
  {
    file: 'lib/cluster/session/outbox.js',
    before: 'count > 0 && count + unit.ops.size > MOST',
    after: 'count > MOST',
    why: 'a step has more operations than an engine takes',
    tests: [scripted, backend, session],
  },
  {
    file: 'lib/cluster/session/outbox.js',
    before: 'if (unit.reached || (count > 0',
    after: 'if ((count > 0',
    why: 'query tells what was asked after it, and not what was asked before',
    tests: [scripted, backend, session],
  },
  {
    file: 'lib/cluster/session/outbox.js',
    before: 'for (const { reached } of units) reached?.();',
    after: '',
    why: 'a query never settles when the session is lost before its turn',
    tests: [scripted, session, backend],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'if (place.state === ASKED && this.#outbox.remove(place.op)) {',
    after: 'if (place.state === ASKED) {',
    why: 'a request that is taken back while it is under way stays at the server',
    tests: [scripted, session, backend],
  },
  {
    file: 'lib/cluster/session/calls.js',
    before: 'if (connection !== this.connection) return;\n      this.#calls.delete(call);',
    after: 'this.#calls.delete(call);',
    why: 'an answer that came after the end of the lease counts for the next session',
    tests: [scripted, session],
  },

  // Grants and thefts.
  {
    file: 'lib/cluster/session/grants.js',
    before: "if (place.op.kind === 'steal') this.#robOurselves(place);",
    after: '',
    why: 'a thief runs while the lock it stole in the same thread still says that it is held',
    tests: [scripted, backend, session],
  },
  {
    file: 'lib/cluster/session/grants.js',
    before: 'if (place.token < thief.token) this.#rob(place, this.#clientId);',
    after: 'if (place !== thief) this.#rob(place, this.#clientId);',
    why: 'who was granted the lock after a theft is told that it was stolen',
    tests: [scripted, session, backend],
  },
  {
    file: 'lib/cluster/session/grants.js',
    before: 'if (place.thief && place.thiefConnection === this.#calls.connection) {',
    after: 'if (place.thief) {',
    why: 'a theft heard on an old connection takes the lock that was granted after it',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/grants.js',
    before: 'if (thief && thiefConnection === this.#calls.connection) this',
    after: 'if (thief) this',
    why: 'a mark that was not set is blamed on a theft of a connection that was replaced',
    tests: [scripted, session, once],
  },
  {
    file: 'lib/cluster/session/grants.js',
    before: '// It was stolen before the answer came.\n    if (place.thief &&',
    after: 'if (!place.thief &&',
    why: 'a theft that is heard before the grant is forgotten, and two hold the lock',
    tests: [scripted, session, backend],
  },
  {
    file: 'lib/cluster/session/grants.js',
    before:
      'if (place && (place.state === ASKED || place.state === WAITING)) this.#grant(place, token);',
    after: 'if (place && place.state === WAITING) this.#grant(place, token);',
    why: 'a grant that is heard before the answer of its step waits for the next renewal',
    tests: [scripted, session, backend],
  },
  {
    file: 'lib/cluster/session/grants.js',
    before: '} else if (place?.state === WAITING) {\n      // That',
    after: '} else if (!place) {\n      // That',
    why: 'who is robbed of a lock before it heard that it was granted waits for ever',
    tests: [scripted, session],
  },

  // The end.
  {
    file: 'lib/cluster/session/session.js',
    before: 'const opened = opening && (await this.#within(opening, patience));',
    after: '/** @type {{ session: string } | undefined} */ const opened = undefined;',
    why: 'who closes while it opens leaves a session, and its locks, for a ttl',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'const last = opened?.session || session;',
    after: 'const last = session;',
    why: 'who closes while it opens leaves a session, and its locks, for a ttl',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'const patience = Math.max(this.#hasLease ? this.#lease.rest() : 0, this.#ttl / 3);',
    after: 'const patience = Number.POSITIVE_INFINITY;',
    why: 'close waits for ever for a server that does not answer',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/fates.js',
    before: "if (state === ENDING && keep > 0) return 'lost';",
    after: "if (end === 'lost' && state === ENDING && keep > 0) return 'lost';",
    why: 'once says that it was marked, though the bucket was closed before',
    tests: [scripted, once, session],
  },
  {
    file: 'lib/cluster/session/session.js',
    before: 'if (end > now) {\n        next = Math.min(next, end);\n        continue;\n      }',
    after: 'if (end > now) continue;',
    why: 'who does not want to wait waits for ever if another one has asked before it',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/agenda.js',
    before: 'const rest = Math.max(Math.ceil(at - clock.monotonic()), 0);',
    after: 'const rest = Math.max(Math.floor(at - clock.monotonic()), 0);',
    why: 'a timer is early by a fraction and runs over and over until the time has come',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/agenda.js',
    before: 'Math.min(rest, LONGEST_TIMER)',
    after: 'rest',
    why: 'a time of more than 24 days is due at once, over and over',
    tests: [scripted, session],
  },
  {
    file: 'lib/cluster/session/keep-alive.js',
    before: 'const isWanted = this.#busy > 0 || this.#isWanted();',
    after: 'const isWanted = this.#isWanted();',
    why: 'a process ends while its query or its close is under way',
    tests: [scripted, session, backend],
  },
  {
    file: 'lib/cluster/session/places.js',
    before: 'if (state === HELD) this.unheld--;',
    after: '',
    why: 'a process that holds a lock never ends by itself',
    tests: [scripted, backend, session],
  },
  {
    file: 'lib/cluster/backend.js',
    before: 'Number(asIntN(32, token >> 32n)) >>> 0);',
    after: '0);',
    why: 'a token above 2^32 is told as a smaller one, and fencing refuses its holder',
    tests: [scripted, backend, session],
  },
  {
    file: 'lib/cluster/snapshot.js',
    before: 'known.held, known.ahead++',
    after: 'known.held, known.ahead',
    why: 'details say of all who wait that nobody is ahead of them',
    tests: [scripted, backend],
  },
];
