// slow: 5

'use strict';

/** Whatever the types have, the torture asks for: each option and each member has its row. */

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const ts = require('typescript-oldest');
const { OPTIONS } = require('../../lib/extensions/options.js');
const table = require('./table.js');

const FOLDER = path.join(__dirname, '..', '..', 'types');

/** What asks for locks as another package does: test/host/lockfile.test.js. */
const OTHERS = 'lockfile.d.ts';

/** Classes and interfaces that say what is told, and ask for nothing. */
const TOLD = [
  'LockInfo',
  'LockManagerSnapshot',
  'LockDetails',
  'PendingDetails',
  'DetailedSnapshot',
  'LockError',
  'LockStolenError',
  'LockLostError',
  'LockTimeoutError',
  'LockQueueFullError',
  'DeadlockError',
  'SessionEvent',
  'Profile',
  'ProfileSummary',
  // What is used of others' packages.
  'PostgresPool',
  'PostgresSql',
  'RedisClient',
  'OpenTelemetryApi',
  'PrometheusClient',
  'PrometheusRegister',
  'LocksDynamicModule',
];

/** The properties of all types that are exported, as `Type.member`; of symbols, the last word. */
function membersOfTypes(folder) {
  const files = fs.readdirSync(folder).filter((file) => file.endsWith('.d.ts') && file !== OTHERS);
  const program = ts.createProgram(
    files.map((file) => path.join(folder, file)),
    { strict: true, noLib: false, target: ts.ScriptTarget.ES2022, types: ['node'] },
  );
  const checker = program.getTypeChecker();
  const found = new Set();
  const wordOf = (name) => name.replace(/^__@(\w+)@.*$/, '$1');
  for (const source of program.getSourceFiles()) {
    if (path.dirname(source.fileName) !== folder) continue;
    const module = checker.getSymbolAtLocation(source);
    for (const symbol of module ? checker.getExportsOfModule(module) : []) {
      const kinds = ts.SymbolFlags.Interface | ts.SymbolFlags.TypeAlias | ts.SymbolFlags.Class;
      if (!(symbol.flags & kinds)) continue;
      const type = checker.getDeclaredTypeOfSymbol(symbol);
      const isPlain = type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection);
      const parts = type.isUnion() ? type.types : isPlain ? [type] : [];
      for (const part of parts.filter((one) => one.flags & ts.TypeFlags.Object || isPlain)) {
        for (const property of checker.getPropertiesOfType(part)) {
          // Members of others' types: of functions, errors and events.
          const own = property.declarations?.some((declaration) => {
            return path.dirname(declaration.getSourceFile().fileName) === folder;
          });
          if (own) found.add(`${symbol.name}.${wordOf(property.name)}`);
        }
      }
    }
  }
  return found;
}

/** What has no row, of what types have. */
function missing(found) {
  const faults = [];
  for (const entry of found) {
    const [type, member] = entry.split('.');
    const calls = table.interfaces[type];
    const rows = table.members[type] ?? [];
    if (TOLD.includes(type) || entry in table.leftOut || rows.includes(member)) continue;
    if (['LockGrantedCallback', 'EtcdFetch', 'Waiting', 'WaitOptions', 'OnceResult'].includes(type))
      continue;
    // Of a type that others extend.
    const inherits = { LockHandle: 'Lock', ClusterBucket: 'StorageBucket' }[type];
    if (inherits && table.members[inherits].includes(member)) continue;
    if (calls?.every((call) => table.options[member]?.takes.includes(call))) continue;
    faults.push(entry);
  }
  return faults;
}

describe('the table of the torture', () => {
  const found = membersOfTypes(FOLDER);

  it('has a row for each option and each member in the types', () => {
    assert.ok(
      found.has('LockOptions.maxPending') && found.has('LockManager.elect'),
      `${[...found]}`,
    );
    assert.deepEqual(missing(found), []);
  });

  it('misses an option that is new in the types', () => {
    const more = new Set([...found, 'LockOptions.patience', 'Mutex.toggle', 'NewOptions.a']);
    assert.deepEqual(missing(more), ['LockOptions.patience', 'Mutex.toggle', 'NewOptions.a']);
  });

  it('has no row of what is not in the types', () => {
    const faults = [];
    for (const [type, members] of Object.entries(table.members)) {
      for (const member of members)
        if (!found.has(`${type}.${member}`)) faults.push(`${type}.${member}`);
    }
    for (const [type, calls] of Object.entries(table.interfaces)) {
      for (const [option, { takes }] of Object.entries(table.options)) {
        const isTaken = calls.some((call) => takes.includes(call));
        if (isTaken && !found.has(`${type}.${option}`)) faults.push(`${type}.${option}`);
      }
    }
    for (const entry of Object.keys(table.leftOut)) if (!found.has(entry)) faults.push(entry);
    assert.deepEqual(faults, []);
  });

  it('has the states of a bucket in a cluster', () => {
    const text = fs.readFileSync(path.join(FOLDER, 'postgres.d.ts'), 'utf8');
    const [, union] = /readonly state:([^;]*);/.exec(text);
    assert.deepEqual(
      union.split('|').map((state) => state.trim().slice(1, -1)),
      table.states,
    );
  });

  it('has the options that the library describes', () => {
    assert.deepEqual(Object.keys(table.options).sort(), Object.keys(OPTIONS).sort());
  });
});
