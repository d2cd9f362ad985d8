'use strict';

/** The rules of sessions and of servers. Each can be removed, to show that it matters. */

const { mock } = require('node:test');
const { RequestTable } = require('../../lib/cluster/session/request-table.js');
const { MemoryAdapter } = require('../cluster/memory.js');
const { LeaseCells } = require('../../lib/cluster/session/lease-cells.js');
const { TTL } = require('../cluster/setup.js');

/** R2: each request of a group is granted, and repeated, by itself. */
const isNoGroup = () => mock.method(RequestTable.prototype, 'groupOf', (place) => [place]);

/** A keeper does not notice that its session is cut off. */
const isNeverCutOff = () => mock.getter(LeaseCells.prototype, 'isOpen', () => true);

/** R3: a refusal by the server is treated as a network failure. */
const refusesNothing = (adapter) =>
  Object.assign(adapter, {
    classify(error) {
      const kind = MemoryAdapter.prototype.classify.call(adapter, error);
      return kind === 'refused' ? 'retry' : kind;
    },
  });

/** R3: the server does not report its last step. */
function missesNothing(adapter) {
  const renew = adapter.renew.bind(adapter);
  return Object.assign(adapter, {
    renew: async (seen) => ({ ...(await renew(seen)), step: undefined }),
  });
}

/**
 * Options of a Trial that remove a rule, with less `patience` where clients would then retry
 * forever. `replace` is called first.
 */
const RULES = {
  margin: { rules: { margin: 1.1 } },
  compares: { rules: { compares: false } },
  quarantine: { server: { quarantine: false } },
  // The number of a step shows that it was replaced, too, unless something was refused meanwhile.
  connections: { server: { connections: false, records: false } },
  priorities: { server: { priorities: false } },
  /** R1. */
  records: { server: { records: false } },
  record: { server: { records: 1 }, patience: 10 * TTL },
  orders: { server: { orders: false }, patience: 10 * TTL },
  /** R2. */
  groups: { replace: isNoGroup },
  /** R3. */
  refuses: { wrap: refusesNothing, patience: 100 * TTL },
  misses: { wrap: missesNothing, patience: 100 * TTL },
  /** R4. */
  busy: { server: { busy: false } },
  /** R5. */
  listens: { server: { listens: false } },
  leaps: { server: { leaps: false } },
  /** R6. */
  clock: { clock: { isContinuous: false } },
  /** Rules of keepers. */
  keeper: { keeper: false },
  epochs: { server: { epochs: false } },
  'max blocked': { maxBlocked: Number.POSITIVE_INFINITY },
  'cut off': { replace: isNeverCutOff },
};

/** @param rule its name @param judge called with options of a Trial while the rule is removed */
async function without(rule, judge) {
  const { replace, ...options } = RULES[rule];
  replace?.();
  try {
    return await judge(options);
  } finally {
    mock.restoreAll();
  }
}

module.exports = { RULES, without };
