'use strict';

/**
 * Enforces the rule for code that applies events (lib/backend/contract.js): it changes fields, and
 * calls neither a backend, nor the addon, nor anything that announces to users. It is active in
 * every test that loads test/helpers/locks.js, except the programs of test/helpers/program.js,
 * which replace globals before the library is loaded. A violation ends the process at once, with a
 * message and its stack, because an exception could be caught.
 */

const { writeSync } = require('node:fs');
const { addon, calls } = require('../../lib/backend/addon.js');
const { AddonBackend } = require('../../lib/backend/addon-backend.js');
const { HostBackend } = require('../../lib/backend/host.js');
const { NativeBackend, agent } = require('../../lib/backend/native.js');
const { ClusterBackend } = require('../../lib/cluster/backend.js');
const { Session } = require('../../lib/cluster/session/session.js');
const { Once } = require('../../lib/extensions/manager/once.js');
const { ReentrantParent } = require('../../lib/extensions/reentrancy/reentrant-parent.js');
const { Request } = require('../../lib/extensions/request/request.js');
const { Deadline } = require('../../lib/extensions/watch/deadline.js');
const { TimeLimits } = require('../../lib/extensions/watch/time-limits.js');
const { Warning } = require('../../lib/extensions/watch/warnings.js');
const { Watch } = require('../../lib/extensions/watch/watch.js');
const { LockRequest } = require('../../lib/standard/lock-request.js');
const { Announcer } = require('../../lib/backend/announcer.js');
const { MEMBERS } = require('./members.js');

/** The methods of each class that code which applies events may call. */
const ALLOWED = new Map([
  [LockRequest, MEMBERS],
  [Request, MEMBERS],
  [Once, MEMBERS],
  [Watch, ['noteGrant', 'noteRelease', 'waitDuration', 'holdDuration']],
  [TimeLimits, []],
  [Warning, []],
  [Deadline, []],
  [AddonBackend, ['applyEvent']],
  [NativeBackend, []],
  [HostBackend, []],
  [ClusterBackend, []],
  [ReentrantParent, []],
  [Session, []],
  [agent.constructor, ['applyEvents', 'applyLoss', 'applyPass', 'remove', 'applyTheft']],
  [Announcer, ['addAnswer', 'addLoss']],
]);

const { apply } = Reflect;

/** How many nested calls apply events, and the name of the outermost. */
let depth = 0;
let applied = '';

/** @param {string} what the called function */
function mustNotApply(what) {
  const { stack } = new Error(`${what} was called while events were applied: ${applied}`);
  writeSync(2, `${stack}\n`);
  process.kill(process.pid, 'SIGKILL');
}

/** @returns {Function} a wrapper of a method that applies events */
const applies = (what, method) =>
  function applying(...args) {
    if (depth === 0) applied = what;
    depth++;
    try {
      return apply(method, this, args);
    } finally {
      depth--;
    }
  };

/** @returns {Function} a wrapper of a method that code which applies events must not call */
const forbids = (what, method) =>
  function guarded(...args) {
    if (depth > 0) mustNotApply(what);
    return apply(method, this, args);
  };

function replace(owner, key, make, what) {
  const { value: method, ...attributes } = Object.getOwnPropertyDescriptor(owner, key);
  const value = make(what, method);
  Object.defineProperty(value, 'name', { value: key });
  Object.defineProperty(value, 'length', { value: method.length });
  Object.defineProperty(owner, key, { ...attributes, value });
}

/** @returns {string[]} the names of the methods */
const methodsOf = (prototype) =>
  Object.getOwnPropertyNames(prototype).filter((key) => {
    const { value } = Object.getOwnPropertyDescriptor(prototype, key);
    return key !== 'constructor' && typeof value === 'function';
  });

for (const [{ prototype, name }, allowed] of ALLOWED) {
  for (const key of methodsOf(prototype)) {
    const what = `${name}#${key}`;
    if (MEMBERS.includes(key) && allowed === MEMBERS) replace(prototype, key, applies, what);
    else if (!allowed.includes(key)) replace(prototype, key, forbids, what);
  }
}

// `applyEvents` asks for events that had no room, and for a wake-up if it had no stack left.
const MAY_BE_CALLED = ['drain', 'undo'];
const { prototype: agentPrototype } = agent.constructor;
replace(agentPrototype, 'applyEvents', applies, 'Agent#applyEvents');
replace(agentPrototype, 'applyEvents', forbids, 'Agent#applyEvents');
for (const owner of [addon, calls]) {
  for (const key of Object.keys(owner)) {
    if (typeof owner[key] !== 'function' || MAY_BE_CALLED.includes(key)) continue;
    replace(owner, key, forbids, `addon.${key}`);
  }
}
