// slow: 9

'use strict';

/**
 * Declarations and documents must agree with lib/extensions/options.js.
 * test/extensions/options.test.js tests each call with each option.
 */

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { FOR_EVER } = require('../../lib/backend/contract.js');
const { Request } = require('../../lib/extensions/request/request.js');
const {
  CALLS,
  OPTIONS,
  SCOPES_OF_CALLS,
  checkRequest,
  defaultOptions,
  toOptions,
} = require('../../lib/extensions/options.js');
const { fieldsOf, optionsOf } = require('../helpers/declared.js');

const NAMES = Object.keys(OPTIONS);
const KINDS = Object.keys(CALLS);
const optionsFor = (kind) => NAMES.filter((name) => OPTIONS[name].calls.includes(kind));
const SCOPES = ['process', 'host', 'cluster'];

const { signal } = new AbortController();
const BOOLEAN = {
  good: [
    [1, true],
    ['', false],
    [null, false],
  ],
  bad: [],
};
const COUNT = { good: [[1], [2 ** 31 - 1]], bad: [0, 1.5, '1', null, 2 ** 31] };
const DURATION = { good: [[0.5], [1e9]], bad: [0, -1, '5', null, Infinity, NaN] };
const WAIT = { good: [[0], [1.5]], bad: [-1, '5', null, Infinity, NaN] };

/** Values of each option: good ones, with what they are converted to, and bad ones. */
const VALUES = {
  ifAvailable: BOOLEAN,
  mode: { good: [['shared'], [new String('exclusive'), 'exclusive']], bad: ['Shared', null] },
  signal: { good: [[signal]], bad: [null, {}] },
  steal: BOOLEAN,
  blocking: BOOLEAN,
  deadlock: { good: [['reject']], bad: [true, 'Reject', null] },
  holdTimeout: DURATION,
  keep: { good: [[0.5], [3e12], [Infinity, FOR_EVER]], bad: [0, -1, '5', null, 4e12, NaN] },
  label: { good: [['x'], [5, '5'], [null, 'null']], bad: [Symbol('label')] },
  limit: COUNT,
  maxTotal: DURATION,
  maxPending: { good: [[0], [2 ** 31 - 1]], bad: [-1, 1.5, '1', null, 2 ** 31] },
  priority: {
    good: [[7], [-(2 ** 31)], [2 ** 31 - 1], [0], [-0, 0]],
    bad: [1.5, '1', null, 2 ** 31, -(2 ** 31) - 1, NaN, Infinity],
  },
  reentrant: BOOLEAN,
  timeout: WAIT,
  warnAfter: WAIT,
  weight: COUNT,
};

/** A value of each option that is given together with another one. */
const TOGETHER = {
  ...{ ifAvailable: true, signal, steal: true, deadlock: 'reject', holdTimeout: 1, label: 'x' },
  ...{ maxPending: 0, maxTotal: 1, priority: 1, reentrant: true, timeout: 0, blocking: false },
  ...{ warnAfter: 1, limit: 2, weight: 2 },
};

/** Whether options that are valid separately are refused together. */
function isRefused(options) {
  try {
    checkRequest(options);
    return false;
  } catch {
    return true;
  }
}

describe('the table of options', () => {
  it('has an option for each that is converted, and no other', () => {
    assert.deepEqual(Object.keys(defaultOptions).sort(), [...NAMES].sort());
    assert.deepEqual(Object.keys(VALUES).sort(), [...NAMES].sort());
  });

  for (const name of NAMES) {
    it(`'${name}' is converted, and what cannot be is a TypeError that names it`, () => {
      const { good, bad } = VALUES[name];
      for (const [value, wanted = value] of good) {
        const options = toOptions({ [name]: value }, 'a test');
        assert.deepEqual(options, { ...defaultOptions, [name]: wanted });
      }
      for (const value of bad) {
        assert.throws(() => toOptions({ [name]: value }, 'a test'), {
          name: 'TypeError',
          message: new RegExp(`^Failed to execute a test: The '${name}' option is `),
        });
      }
      assert.deepEqual(toOptions({ [name]: undefined }, 'a test'), defaultOptions);
    });
  }

  it('is read in its order, each option once, the options of the standard first', () => {
    const read = [];
    const options = new Proxy({}, { get: (_, name) => void read.push(name) });
    toOptions(options, 'a test');
    const of = (isStandard) =>
      NAMES.filter((name) => Boolean(OPTIONS[name].isStandard) === isStandard).sort();
    assert.deepEqual(read, [...of(true), ...of(false)]);
  });

  it('gives the defaults, frozen and always the same, if there are no options', () => {
    for (const none of [undefined, null]) assert.equal(toOptions(none, 'x'), defaultOptions);
    assert.ok(Object.isFrozen(defaultOptions));
  });

  it('says which options cannot be given together, of each of both', () => {
    for (const one of Object.keys(TOGETHER)) {
      for (const other of Object.keys(TOGETHER)) {
        if (one === other) continue;
        const given = { [one]: TOGETHER[one], [other]: TOGETHER[other] };
        const units = given.limit || given.weight;
        const needed = units ? { mode: 'shared', limit: 2 } : {};
        const excludes =
          (OPTIONS[one].not?.includes(other) ?? false) || Boolean(units && given.steal);
        const options = { ...toOptions(given, 'x'), ...needed };
        assert.equal(isRefused(options), excludes, `${one} and ${other}`);
      }
    }
  });

  it('says which options need another one', () => {
    const lacking = [{ weight: 1, mode: 'shared' }, { limit: 1 }, { steal: true, mode: 'shared' }];
    for (const options of lacking) assert.ok(isRefused(toOptions(options, 'x')));
    const needing = NAMES.filter((name) => OPTIONS[name].needs);
    assert.deepEqual(needing, ['steal', 'limit', 'weight']);
  });

  it('says which options a backend looks at, and a request has them', () => {
    const backend = { findsDeadlocks: false };
    for (const name of NAMES) {
      const [[value]] = VALUES[name].good;
      const needed = name === 'weight' ? { limit: 2 ** 31 - 1 } : {};
      const options = { ...defaultOptions, ...needed, [name]: value, deadlock: undefined };
      const request = new Request(backend, 'a', options);
      assert.equal(request.hasExtensions, Boolean(OPTIONS[name].isForBackend), name);
      if (OPTIONS[name].isForBackend) assert.equal(request[name], value);
    }
  });
});

describe('the declarations', () => {
  for (const kind of KINDS) {
    for (const operation of CALLS[kind]) {
      it(`of ${operation} have the options of the table`, () => {
        const [, method, of] = /^'(\w+)' on '(\w+)'$/.exec(operation);
        assert.deepEqual(optionsOf(of, method), optionsFor(kind).sort());
      });
    }
  }
});

const DOCS = path.join(__dirname, '../../docs');

/** The column of each kind of calls in the table of docs/OPTIONS.md. */
const COLUMNS = {
  request: '`request`, `acquire`',
  several: '`requestAll`, `acquireAll`',
  acquireSync: '`acquireSync`',
  tryAcquireSync: '`tryAcquireSync`',
  elect: '`elect`',
  once: '`once`',
  mutex: '`Mutex`, `RWLock`',
  tryMutex: '`tryAcquire` of `Mutex`',
  semaphore: '`Semaphore`',
  trySemaphore: 'its `tryAcquire`',
  wait: '`waitForUnlock`',
};

const code = (name) => `\`${name}\``;
const row = (cells) => `|${cells.map((cell) => (cell === '' ? ' ' : ` ${cell} `)).join('|')}|`;
const tableOf = ([head, ...rows]) => [head, head.map(() => '---'), ...rows].map(row).join('\n');

/** @param {string} page in docs/ @param {string} text must be in it; the message shows it */
function assertHas(page, text) {
  const there = fs.readFileSync(path.join(DOCS, page), 'utf8');
  assert.ok(there.includes(text), `docs/${page} lacks\n\n${text}\n`);
}

describe('docs/OPTIONS.md', () => {
  it('has a row for each option and a column for each call', () => {
    const rows = NAMES.map((name) => [
      code(name),
      ...KINDS.map((kind) => (OPTIONS[name].calls.includes(kind) ? '✓' : '')),
    ]);
    assertHas('OPTIONS.md', tableOf([['option', ...Object.values(COLUMNS)], ...rows]));
  });
});

describe('docs/API.md', () => {
  it('says what each option does, and with which it cannot be given', () => {
    const rows = Object.entries(OPTIONS).map(([name, { does, not = [], needs }]) => {
      const conditions = [...not.map(code), ...(needs ? [`needs ${needs}`] : [])];
      return [code(name), does, conditions.join(', ')];
    });
    assertHas('API.md', tableOf([['option', 'what it does', 'not with'], ...rows]));
  });

  it('lists the options of each call', () => {
    const lines = KINDS.map(
      (kind) => `- ${COLUMNS[kind]}: ${optionsFor(kind).map(code).join(', ')}`,
    );
    assertHas('API.md', lines.join('\n'));
  });

  it('names each field of query({ details: true })', () => {
    const page = fs.readFileSync(path.join(DOCS, 'API.md'), 'utf8');
    const [section] = /^### Who holds what\n[\s\S]*?\n### /m.exec(page);
    for (const field of fieldsOf('PendingDetails')) {
      if (fieldsOf('LockInfo').includes(field)) continue;
      assert.ok(section.includes(code(field)), field);
    }
  });

  it('has a row for each call and option that some scope has not got', () => {
    const rowOf = (title, scopes) =>
      row([title, ...SCOPES.map((scope) => (scopes.includes(scope) ? '✓' : ''))]);
    for (const kind of KINDS) {
      const scopes = SCOPES_OF_CALLS[kind];
      if (scopes.length < SCOPES.length) assertHas('API.md', rowOf(COLUMNS[kind], scopes));
    }
    for (const [name, { scopes }] of Object.entries(OPTIONS)) {
      if (scopes) assertHas('API.md', rowOf(code(name), scopes));
    }
  });
});
