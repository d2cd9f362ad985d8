'use strict';

/** The rules of sessions and of servers, each of which can be taken away to see that it matters. */

const { mock } = require('node:test');
const { RequestTable } = require('../../lib/cluster/session/request-table.js');
const { MemoryAdapter } = require('../cluster/memory.js');
const { LeaseCells } = require('../../lib/cluster/session/lease-cells.js');
const { TTL } = require('../cluster/setup.js');

/** R2: of a group each request is granted, and asked for again, by itself. */
const isNoGroup = () => mock.method(RequestTable.prototype, 'groupOf', (place) => [place]);

/** A keeper does not know that its session is cut off. */
const isNeverCutOff = () => mock.getter(LeaseCells.prototype, 'isOpen', () => true);

/** R3: what the server refuses is as a network that fails. */
const refusesNothing = (adapter) =>
  Object.assign(adapter, {
    classify(error) {
      const kind = MemoryAdapter.prototype.classify.call(adapter, error);
      return kind === 'refused' ? 'retry' : kind;
    },
  });

/** R3: which step was the last that the server has done is not known. */
function missesNothing(adapter) {
  const renew = adapter.renew.bind(adapter);
  return Object.assign(adapter, {
    renew: async (seen) => ({ ...(await renew(seen)), step: undefined }),
  });
}

/**
 * Options of a Trial that take a rule away, with less `patience` where clients then try for ever;
 * `replace` is called before.
 */
const RULES = {
  margin: { rules: { margin: 1.1 } },
  compares: { rules: { compares: false } },
  quarantine: { server: { quarantine: false } },
  // A step that was replaced is old by its number, too, but for what was refused meanwhile.
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
  /** Of keepers. */
  keeper: { keeper: false },
  epochs: { server: { epochs: false } },
  'max blocked': { maxBlocked: Number.POSITIVE_INFINITY },
  'cut off': { replace: isNeverCutOff },
};

/**
 * @param rule its name
 * @param judge called with options of a Trial, while the rule is away
 */
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
