// slow: 9

'use strict';

/**
 * What is written about options elsewhere than in lib/extensions/options.js is what that says. Each
 * call with each option: test/extensions/options.test.js.
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
const SCOPES = ['process', 'host', 'cluster'];
/** Those of clusters, as the table and as docs/API.md name them. */
const ENGINES = { postgres: 'PostgreSQL', redis: 'Redis', etcd: 'etcd' };

/** Values of each option: good ones, with what they are converted to, and bad ones. */
const { signal } = new AbortController();
const VALUES = {
  ifAvailable: {
    good: [
      [1, true],
      ['', false],
    ],
    bad: [],
  },
  mode: { good: [['shared'], [new String('exclusive'), 'exclusive']], bad: ['Shared', null] },
  signal: { good: [[signal]], bad: [null, {}] },
  steal: {
    good: [
      [{}, true],
      [0, false],
    ],
    bad: [],
  },
  blocking: { good: [[true], [false], [0, false], [null, false]], bad: [] },
  deadlock: { good: [['reject']], bad: [true, 'Reject', null] },
  holdTimeout: { good: [[0.5], [1e9]], bad: [0, -1, '5', null, Infinity, NaN] },
  keep: { good: [[0.5], [3e12], [Infinity, FOR_EVER]], bad: [0, -1, '5', null, 4e12, NaN] },
  label: { good: [['x'], [5, '5'], [null, 'null']], bad: [Symbol('label')] },
  limit: { good: [[1], [2 ** 31 - 1]], bad: [0, 1.5, '1', null, 2 ** 31] },
  maxTotal: { good: [[0.5], [1e9]], bad: [0, -1, '5', null, Infinity, NaN] },
  maxPending: { good: [[0], [2 ** 31 - 1]], bad: [-1, 1.5, '1', null, 2 ** 31] },
  priority: {
    good: [[7], [-(2 ** 31)], [2 ** 31 - 1], [0], [-0, 0]],
    bad: [1.5, '1', null, 2 ** 31, -(2 ** 31) - 1, NaN, Infinity],
  },
  reentrant: {
    good: [
      ['x', true],
      [null, false],
    ],
    bad: [],
  },
  timeout: { good: [[0], [1.5]], bad: [-1, '5', null, Infinity, NaN] },
  warnAfter: { good: [[0], [1.5]], bad: [-1, '5', null, Infinity, NaN] },
  weight: { good: [[1], [2 ** 31 - 1]], bad: [0, 1.5, '1', null, 2 ** 31] },
};

/** Whether options are refused that are fit by themselves. */
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

  it('each is read once: those of the standard first, both in their order', () => {
    const read = [];
    const options = new Proxy({}, { get: (_, name) => void read.push(name) });
    toOptions(options, 'a test');
    const of = (isStandard) =>
      NAMES.filter((name) => Boolean(OPTIONS[name].isStandard) === isStandard).sort();
    assert.deepEqual(read, [...of(true), ...of(false)]);
  });

  it('no options are the defaults, frozen and always the same', () => {
    for (const none of [undefined, null]) assert.equal(toOptions(none, 'x'), defaultOptions);
    assert.ok(Object.isFrozen(defaultOptions));
  });

  it('says of two options in both places that they exclude each other', () => {
    for (const name of NAMES) {
      for (const other of OPTIONS[name].not ?? []) assert.ok(OPTIONS[other].not?.includes(name));
    }
  });

  it('says which options cannot be given together', () => {
    const together = {
      ...{ ifAvailable: true, signal, steal: true, deadlock: 'reject', holdTimeout: 1, label: 'x' },
      ...{
        maxPending: 0,
        maxTotal: 1,
        priority: 1,
        reentrant: true,
        timeout: 0,
        blocking: false,
        warnAfter: 1,
        limit: 2,
        weight: 2,
      },
    };
    for (const one of Object.keys(together)) {
      for (const other of Object.keys(together)) {
        if (one === other) continue;
        const options = toOptions({ [one]: together[one], [other]: together[other] }, 'x');
        const units = options.limit || options.weight;
        // What it needs.
        const needed = units ? { mode: 'shared', limit: 2 } : {};
        const excludes =
          (OPTIONS[one].not?.includes(other) ?? false) ||
          Boolean(units && [one, other].includes('steal'));
        assert.equal(isRefused({ ...options, ...needed }), excludes, `${one} and ${other}`);
      }
    }
  });

  it('says which need another one', () => {
    for (const options of [
      { weight: 1, mode: 'shared' },
      { limit: 1 },
      { steal: true, mode: 'shared' },
    ]) {
      assert.ok(isRefused(toOptions(options, 'x')));
    }
    const needing = NAMES.filter((name) => OPTIONS[name].needs);
    assert.deepEqual(needing, ['steal', 'limit', 'weight']);
  });

  it('says what a backend has to look at, and a request shows it', () => {
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
    const names = NAMES.filter((name) => OPTIONS[name].calls.includes(kind)).sort();
    for (const operation of CALLS[kind]) {
      it(`${operation} has the options of the table`, () => {
        const [, method, of] = /^'(\w+)' on '(\w+)'$/.exec(operation);
        assert.deepEqual(optionsOf(of, method), names);
      });
    }
  }
});

const API = fs.readFileSync(path.join(__dirname, '../../docs/API.md'), 'utf8');

/** The kinds of calls as the columns of the table in docs/API.md. */
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

const row = (cells) => `| ${cells.join(' | ')} |`;
const code = (name) => `\`${name}\``;

/** @param {string} page in docs/ @param {string} text that it must contain; the message has it to be pasted */
function assertHas(page, text) {
  const there = fs.readFileSync(path.join(__dirname, '../../docs', page), 'utf8');
  assert.ok(there.includes(text), `docs/${page} lacks\n\n${text}\n`);
}

const conditionsOf = ({ not = [], needs }) =>
  [...not.map(code), ...(needs ? [`needs ${needs}`] : [])].join(', ');

const tableOf = (rows) =>
  rows.map(row).join('\n').replaceAll('|  |', '| |').replaceAll('|  |', '| |');

describe('docs/OPTIONS.md', () => {
  it('has a row for each option and a column for each call, as the table has them', () => {
    const head = ['option', ...KINDS.map((kind) => COLUMNS[kind])];
    const rows = NAMES.map((name) => [
      code(name),
      ...KINDS.map((kind) => (OPTIONS[name].calls.includes(kind) ? '✓' : '')),
    ]);
    assertHas('OPTIONS.md', tableOf([head, head.map(() => '---'), ...rows]));
  });
});

describe('docs/API.md', () => {
  it('says what each option does, and with which it cannot be given', () => {
    const head = ['option', 'what it does', 'not with'];
    const rows = NAMES.map((name) => [code(name), OPTIONS[name].does, conditionsOf(OPTIONS[name])]);
    assertHas('API.md', tableOf([head, head.map(() => '---'), ...rows]));
  });

  it('lists the options of each call', () => {
    const lines = KINDS.map((kind) => {
      const taken = NAMES.filter((name) => OPTIONS[name].calls.includes(kind)).map(code);
      return `- ${COLUMNS[kind]}: ${taken.join(', ')}`;
    });
    assertHas('API.md', lines.join('\n'));
  });

  it('names each field of query({ details: true })', () => {
    const [section] = /^### Who holds what\n[\s\S]*?\n### /m.exec(API);
    for (const field of fieldsOf('PendingDetails')) {
      if (fieldsOf('LockInfo').includes(field)) continue;
      assert.ok(section.includes(code(field)), field);
    }
  });

  it('has a row for each that some scope has not got', () => {
    const names = (scopes, notIn) =>
      SCOPES.map((scope) => {
        if (!scopes.includes(scope)) return '';
        if (!notIn || scope !== 'cluster') return '✓';
        const engines = Object.keys(ENGINES).filter((engine) => !notIn.includes(engine));
        return engines.map((engine) => ENGINES[engine]).join(', ');
      });
    const limited = [
      ...KINDS.filter((kind) => SCOPES_OF_CALLS[kind].length < SCOPES.length).map((kind) => [
        COLUMNS[kind],
        SCOPES_OF_CALLS[kind],
      ]),
      ...NAMES.filter((name) => OPTIONS[name].scopes).map((name) => [
        code(name),
        OPTIONS[name].scopes,
        OPTIONS[name].notIn,
      ]),
    ];
    for (const [title, scopes, notIn] of limited) {
      const text = row([title, ...names(scopes, notIn)])
        .replaceAll('|  |', '| |')
        .replaceAll('|  |', '| |');
      assertHas('API.md', text);
    }
  });
});
