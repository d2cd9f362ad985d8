// slow: 5

'use strict';

/** Compares the torture's table with the types: each option and each member needs a row. */

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const ts = require('typescript-oldest');
const { OPTIONS } = require('../../lib/extensions/options.js');
const table = require('./table.js');

const FOLDER = path.join(__dirname, '..', '..', 'types');

/** Its locks are those of another package: test/host/lockfile.test.js tests them. */
const OTHERS = 'lockfile.d.ts';

/** Types that describe results, functions, or objects of other packages, not requests. */
const NOTHING_TO_ASK = [
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
  'LockGrantedCallback',
  'Waiting',
  'WaitOptions',
  'OnceResult',
  'PostgresPool',
  'PostgresSql',
  'RedisClient',
  'EtcdFetch',
  'OpenTelemetryApi',
  'PrometheusClient',
  'PrometheusRegister',
  'LocksDynamicModule',
];
const LEFT_OUT = Object.values(table.leftOut).flat();
const BASES = { LockHandle: 'Lock', ClusterBucket: 'StorageBucket' };

/** @returns the members of all exported types, as `Type.member`; a symbol by its last word */
function membersOfTypes() {
  const files = fs.readdirSync(FOLDER).filter((file) => file.endsWith('.d.ts') && file !== OTHERS);
  const program = ts.createProgram(
    files.map((file) => path.join(FOLDER, file)),
    { strict: true, noLib: false, target: ts.ScriptTarget.ES2022, types: ['node'] },
  );
  const checker = program.getTypeChecker();
  const isOurs = (source) => path.dirname(source.fileName) === FOLDER;
  // Members that functions, errors and events inherit are not ours.
  const isOwn = ({ declarations = [] }) => declarations.some((one) => isOurs(one.getSourceFile()));
  const { Interface, TypeAlias, Class } = ts.SymbolFlags;
  const { Object: AnObject, Intersection } = ts.TypeFlags;
  const partsOf = (type) => (type.isUnion() ? type.types : [type]);
  const symbols = program
    .getSourceFiles()
    .filter(isOurs)
    .map((source) => checker.getSymbolAtLocation(source))
    .flatMap((module) => (module ? checker.getExportsOfModule(module) : []))
    .filter(({ flags }) => flags & (Interface | TypeAlias | Class));
  const found = new Set();
  for (const symbol of symbols) {
    const parts = partsOf(checker.getDeclaredTypeOfSymbol(symbol));
    const objects = parts.filter(({ flags }) => flags & (AnObject | Intersection));
    for (const property of objects.flatMap((part) => checker.getPropertiesOfType(part))) {
      const word = property.name.replace(/^__@(\w+)@.*$/, '$1');
      if (isOwn(property)) found.add(`${symbol.name}.${word}`);
    }
  }
  return found;
}

function hasRow(entry) {
  const [type, member] = entry.split('.');
  if (NOTHING_TO_ASK.includes(type) || LEFT_OUT.includes(entry)) return true;
  if ([type, BASES[type]].some((one) => table.members[one]?.includes(member))) return true;
  return table.interfaces[type]?.every((call) => table.options[member]?.takes.includes(call));
}

describe('the table of the torture', () => {
  const found = membersOfTypes();
  const missing = (entries) => entries.filter((entry) => !hasRow(entry));

  it('has a row for each option and each member in the types', () => {
    for (const one of ['LockOptions.maxPending', 'LockManager.elect'])
      assert.ok(found.has(one), `${[...found]}`);
    assert.deepEqual(missing([...found]), []);
  });

  it('lacks a row for an option that is new in the types', () => {
    const added = ['LockOptions.patience', 'Mutex.toggle', 'NewOptions.a'];
    assert.deepEqual(missing([...found, ...added]), added);
  });

  it('has no row for a member that is not in the types', () => {
    const rows = Object.entries(table.members).flatMap(([type, members]) =>
      members.map((member) => `${type}.${member}`),
    );
    const optionsOf = (calls) =>
      Object.keys(table.options).filter((option) =>
        calls.some((call) => table.options[option].takes.includes(call)),
      );
    const options = Object.entries(table.interfaces).flatMap(([type, calls]) =>
      optionsOf(calls).map((option) => `${type}.${option}`),
    );
    const unknown = [...rows, ...options, ...LEFT_OUT].filter((entry) => !found.has(entry));
    assert.deepEqual(unknown, []);
  });

  it('has the states of a bucket in a cluster', () => {
    const text = fs.readFileSync(path.join(FOLDER, 'postgres.d.ts'), 'utf8');
    const [, union] = /readonly state:([^;]*);/.exec(text);
    const states = union.split('|').map((state) => state.trim().slice(1, -1));
    assert.deepEqual(states, table.states);
  });

  it('has the options that the library describes', () => {
    assert.deepEqual(Object.keys(table.options).sort(), Object.keys(OPTIONS).sort());
  });
});
