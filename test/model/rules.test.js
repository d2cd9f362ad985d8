// slow: 11; waits

'use strict';

/**
 * Each rule of the model matters: a model without the rule differs from the lock manager, and the
 * comparison of test/model/model.test.js notices it.
 */

const assert = require('node:assert/strict');
const { describe, it } = require('node:test');
const { SessionAgent } = require('./agents.js');
const { compare } = require('./comparison.js');
const { LockManagerModel } = require('./model.js');

/** The sequences of steps are always the same. */
const RUNS = 1000;
const SEED = 1;

const heldOf = (model, { name }) => [...model.heldLockSet].filter((lock) => lock.name === name);

/** A model that changes the options of requests. */
const asking = (change) =>
  class extends LockManagerModel {
    requestALock(agent, id, name, mode, ifAvailable, steal, more) {
      const asked = change({ ifAvailable, ...more });
      return super.requestALock(agent, id, name, mode, asked.ifAvailable, steal, asked);
    }
  };

/** A model whose agents leave something behind when they end. */
const ending = (...methods) => {
  class Model extends LockManagerModel {
    terminateRemainingLocksAndRequests(agent) {
      this.isTerminating = true;
      super.terminateRemainingLocksAndRequests(agent);
      this.isTerminating = false;
    }
  }
  for (const method of methods) {
    Model.prototype[method] = function (...args) {
      if (!this.isTerminating) LockManagerModel.prototype[method].apply(this, args);
    };
  }
  return Model;
};

/** For each rule, a model without it. */
const WITHOUT = {
  '4.4: an exclusive lock is alone': class extends LockManagerModel {
    isGrantable(request) {
      const isFirst = this.placeOf(request) === 0;
      return request.mode === 'exclusive' ? isFirst : super.isGrantable(request);
    }
  },
  '4.4: a shared request waits for an exclusive lock': class extends LockManagerModel {
    isGrantable(request) {
      if (request.mode === 'exclusive') return super.isGrantable(request);
      return this.placeOf(request) === 0;
    }
  },
  '4.4: shared locks are held together': class extends LockManagerModel {
    isGrantable(request) {
      return this.placeOf(request) === 0 && heldOf(this, request).length === 0;
    }
  },
  '4.4: no request overtakes one before it': class extends LockManagerModel {
    processTheLockRequestQueue(queue) {
      for (const request of [...queue]) {
        const others = queue.splice(0);
        const isGrantable = super.isGrantable(request);
        queue.push(...others);
        if (!isGrantable) continue;
        queue.splice(queue.indexOf(request), 1);
        this.heldLockSet.add(request);
        request.token = ++this.token;
        this.tell(request.agent, request.id, 'granted');
      }
    }
  },
  '4.4: all that are grantable are granted': class extends LockManagerModel {
    processTheLockRequestQueue(queue) {
      const [first] = queue;
      super.processTheLockRequestQueue(first ? [first] : []);
      if (first && this.heldLockSet.has(first)) queue.shift();
    }
  },
  '4.1: ifAvailable is not queued': asking((asked) => ({ ...asked, ifAvailable: false })),
  '4.1: a theft goes before all that wait': class extends LockManagerModel {
    requestALock(agent, id, name, mode, ifAvailable, steal, more) {
      if (steal) for (const lock of heldOf(this, { name })) this.#stealFrom(lock);
      return super.requestALock(agent, id, name, mode, ifAvailable, false, more);
    }

    #stealFrom(lock) {
      this.heldLockSet.delete(lock);
      this.tell(lock.agent, lock.id, 'stolen');
    }
  },
  '4.1: a theft takes all locks of the name': class extends LockManagerModel {
    requestALock(agent, id, name, mode, ifAvailable, steal, more) {
      const [, ...others] = steal ? heldOf(this, { name }) : [];
      for (const lock of others) this.heldLockSet.delete(lock);
      return super.requestALock(agent, id, name, mode, ifAvailable, steal, more);
    }
  },
  '4.2: a release grants the next': class extends LockManagerModel {
    releaseTheLock(lock) {
      this.heldLockSet.delete(lock);
    }
  },
  '4.3: an abort grants what waited behind it': class extends LockManagerModel {
    abortTheRequest(request) {
      const queue = this.getTheLockRequestQueue(request.name);
      if (queue.includes(request)) queue.splice(queue.indexOf(request), 1);
    }
  },
  '4.3: an abort after the grant is ignored': class extends LockManagerModel {
    signalToAbortTheRequest(request) {
      if (this.heldLockSet.has(request)) this.releaseTheLock(request);
      else super.signalToAbortTheRequest(request);
    }
  },
  '2.6: what a terminated agent held is released': ending('releaseTheLock'),
  '2.6: what a terminated agent waited for is aborted': ending('abortTheRequest'),
  'a higher priority goes first': asking((asked) => ({ ...asked, priority: 0 })),
  'no more wait than maxPending says': asking((asked) => ({ ...asked, maxPending: undefined })),
  'the units that are held keep to the limit': class extends LockManagerModel {
    isGrantable(request) {
      return super.isGrantable({ ...request, weight: 0, limit: Number.POSITIVE_INFINITY });
    }
  },
  'a request weighs what it says': asking((asked) => ({ ...asked, weight: asked.limit && 1 })),
  'all of a name say the same limit': class extends LockManagerModel {
    agreesOnTheLimit() {
      return true;
    }
  },
};

describe('a rule that is taken away from the model is missed', () => {
  for (const [rule, Model] of Object.entries(WITHOUT)) {
    const canEnd = rule.startsWith('2.6');
    it(rule, () =>
      assert.rejects(
        compare(SessionAgent, 4, RUNS, { canEnd, Model, first: true, seed: SEED }),
        /Property failed/,
      ),
    );
  }
});
