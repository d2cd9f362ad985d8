'use strict';

/**
 * Checks that imports, includes and calls go down and not in circles (docs/ARCHITECTURE.md, "The
 * rooms"; docs/internals/architecture.md, "The core"): a file may use those of its own storey and
 * of those below it, and of other houses what `uses` names. Types do not count. A C module is its
 * header and its source together. It uses each module of its house that defines a function which it
 * names, whatever header declares that.
 *
 *   node scripts/rooms.js [ROOT]           checks; of another tree for the test
 *   node scripts/rooms.js --count [ROOT]   prints the rooms, floors and arrows of each folder, too
 *
 * A room is a sub-folder or a module of a folder. An arrow leads from a room to one that it uses. A
 * floor is a step of the longest chain of arrows.
 */

const fs = require('node:fs');
const path = require('node:path');

/**
 * Each house lists its storeys from the top to the bottom. An entry is a file without its
 * extension, or `*` for all other files of its folder. A folder `*` is any other sub-folder.
 */
const HOUSES = {
  lib: {
    storeys: [
      ['cli/main'],
      ['cli/top'],
      [
        'cli/run',
        'cli/once',
        'cli/elect',
        'cli/query',
        'cli/steal',
        'cli/report',
        'cli/web',
        'cli/publish',
      ],
      ['cli/event-clients'],
      ['cli/runner'],
      ['cli/command', 'cli/publishing'],
      ['cli/bucket'],
      ['cli/*'],
      ['cli/page/*'],
      ['*'],
      ['lockfile/*'],
      ['monitor/*'],
      ['profile/*'],
      ['profile/page/*'],
      ['page/*'],
      ['extensions/buckets/*', 'extensions/objects/*'],
      ['extensions/manager/*'],
      ['extensions/request/*'],
      ['extensions/watch/*'],
      ['extensions/errors/*', 'extensions/reentrancy/*', 'extensions/sites/*', 'extensions/*'],
      ['standard/*'],
      ['cluster/keeper/*'],
      ['cluster/engines/*/*'],
      ['cluster/engines/*'],
      ['cluster/backend'],
      ['cluster/session/session'],
      ['cluster/session/*'],
      ['cluster/*'],
      ['backend/*'],
      ['platform/*'],
    ],
  },
  'src/binding': {
    storeys: [
      ['all'],
      ['addon'],
      ['host_jobs'],
      ['host'],
      ['process', 'requests', 'process_group'],
      ['scope'],
      ['calls'],
      ['values'],
      ['environment'],
    ],
    uses: ['src/core/weblocks', 'src/host/host'],
  },
  'src/core': {
    storeys: [
      ['all'],
      ['manager'],
      ['deadlock', 'snapshot', 'resource', 'mark'],
      ['section'],
      ['check'],
      ['agent', 'store'],
      ['process', 'declaration', 'queue', 'layout'],
      ['records'],
      ['table', 'hash', 'pool'],
      ['list', 'held_set', 'alloc', 'port', 'port_posix', 'port_windows', 'weblocks'],
    ],
  },
  'src/host': {
    storeys: [
      ['all'],
      ['member/agent_request', 'member/agent_release', 'member/agent_wait', 'member/bucket'],
      ['member/agents', 'member/helper'],
      ['member/job', 'member/membership', 'member/self_check'],
      ['member/section'],
      ['member/deferred'],
      ['member/mailbox'],
      ['member/wake_up'],
      ['member/events'],
      ['member/records'],
      ['port/posix/paths', 'port/posix/sockets', 'port/posix/locks'],
      ['port/posix/memory'],
      ['port/posix/linux_calls', 'port/posix/plain_calls'],
      ['port/posix/threads'],
      ['port/posix/linux', 'port/posix/darwin'],
      ['port/posix/descriptors'],
      ['port/posix/failures', 'port/posix/forks'],
      ['port/windows/paths', 'port/windows/threads'],
      ['port/windows/peers'],
      ['port/windows/memory'],
      ['port/windows/locks'],
      ['port/windows/files'],
      ['port/windows/access'],
      ['port/windows/failures'],
      ['port/windows/parts'],
      ['port/failures', 'port/none/unavailable'],
      ['port/posix/parts'],
      ['port/port'],
      ...[
        'arena members requests verify view',
        'rebuild',
        'queue',
        'marks',
        'names',
        'lists pool',
      ].map((row) => row.split(' ').map((name) => `segment/${name}`)),
      ['segment/store'],
      ['segment/cells'],
      ['segment/segment', 'host'],
    ],
    uses: ['table', 'hash', 'held_set', 'list', 'alloc', 'port', 'weblocks'].map(
      (module) => `src/core/${module}`,
    ),
  },
};

const [option, ...others] = process.argv.slice(2);
const isCounting = option === '--count';
const root = (isCounting ? others[0] : option) ?? path.join(__dirname, '..');
const faults = [];

/** @returns {string[]} the source files below a folder, as paths from the root */
function filesIn(folder) {
  const full = path.join(root, folder);
  if (!fs.existsSync(full)) return [];
  return fs
    .readdirSync(full, { recursive: true })
    .filter((name) => /\.(?:m?js|[ch]|cc)$/.test(name))
    .map((name) => path.posix.join(folder, name.split(path.sep).join('/')));
}

/** @returns {string} the file without its extension, which names its module */
const moduleOf = (file) => file.replace(/\.(?:[ch]|cc|m?js)$/, '');

/**
 * The files of this project that a file imports or includes. A type that a comment imports is no
 * dependency when the program runs.
 */
function importsOf(file) {
  const source = fs
    .readFileSync(path.join(root, file), 'utf8')
    .replace(/@import \{[^}]*\} from/g, '');
  const found = file.endsWith('js')
    ? source.matchAll(/(?:\brequire\(|\bfrom )'(\.[^']+\.js)'/g)
    : source.matchAll(/^\s*#\s*include\s+"([^"]+)"/gm);
  return [...found]
    .map(([, name]) => path.posix.join(path.posix.dirname(file), name))
    .filter((name) => /^(?:lib|src)\//.test(name));
}

/** @returns {string} a C source without comments, strings and preprocessor lines */
function codeOf(file) {
  return fs
    .readFileSync(path.join(root, file), 'utf8')
    .replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, ' ')
    .replace(/"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/g, '0')
    .replace(/^[ \t]*#(?:.*\\\n)*.*/gm, '');
}

/**
 * @returns {{ defines: string[], names: Set<string> }} the functions that a C source defines for
 *   others, and the identifiers in its bodies, except tags
 */
function functionsOf(file) {
  const defines = [];
  let bodies = '';
  let depth = 0;
  let head = '';
  for (const [token] of codeOf(file).matchAll(/[{};]|[^{};]+/g)) {
    if (token === '{' && depth++ === 0) {
      const [, name] = head.match(/^[\w\s*]*?\b(\w+)\s*\(/) ?? [];
      if (name && !/^\s*static\b/.test(head)) defines.push(name);
    }
    if (token === '}') depth--;
    if (depth > 0) bodies += token;
    else head = /[};]/.test(token) ? '' : token;
  }
  const names = bodies.replace(/\b(?:struct|enum|union)\s+\w+/g, '').match(/\b\w+\b/g);
  return { defines, names: new Set(names) };
}

/** The house, the storey and the used modules of each module. */
const modules = new Map();

for (const [house, { storeys }] of Object.entries(HOUSES)) {
  for (const file of filesIn(house)) {
    const module = moduleOf(file);
    const name = path.posix.relative(house, module);
    const folder = path.posix.dirname(name);
    const patterns = [name, path.posix.join(folder, '*'), path.posix.join(folder, '../*/*')];
    const [storey = -1] = patterns
      .map((pattern) => storeys.findIndex((entries) => entries.includes(pattern)))
      .filter((index) => index >= 0);
    if (storey < 0) faults.push(`${file} is in no storey of ${house}`);
    const known = modules.get(module) ?? { house, storey, uses: new Set() };
    for (const to of importsOf(file)) if (moduleOf(to) !== module) known.uses.add(moduleOf(to));
    modules.set(module, known);
  }
}

const isOfWindows = (module) => /\/port\/windows\/|port_windows/.test(module);
const isOfPosix = (module) => /\/port\/posix\/|port_posix/.test(module);

/** Ports to different systems define the same functions, so calls between them do not count. */
const areApart = (one, other) =>
  (isOfWindows(one) && isOfPosix(other)) || (isOfPosix(one) && isOfWindows(other));

for (const house of Object.keys(HOUSES)) {
  const sources = filesIn(house)
    .filter((file) => /\.[ch]$/.test(file))
    .map((file) => ({ module: moduleOf(file), ...functionsOf(file) }));
  for (const { module, defines, names } of sources) {
    for (const other of sources) {
      if (
        other.module !== module &&
        !areApart(module, other.module) &&
        other.defines.some((name) => names.has(name) && !defines.includes(name))
      )
        modules.get(module).uses.add(other.module);
    }
  }
}

for (const [module, { house, storey, uses }] of modules) {
  for (const to of uses) {
    const target = modules.get(to);
    if (!target) faults.push(`${module} uses ${to}, which is in no house`);
    else if (target.house !== house) {
      if (!HOUSES[house].uses?.includes(to))
        faults.push(`${module} uses ${to}, which is not for ${house}`);
    } else if (target.storey < storey) faults.push(`${module} uses ${to}, which is above it`);
  }
}

const done = new Set();

/** @param {string[]} way modules, each used by the one before */
function follow(way) {
  const module = way.at(-1);
  if (way.indexOf(module) < way.length - 1) {
    faults.push(`a circle: ${way.slice(way.indexOf(module)).join(' → ')}`);
    return;
  }
  if (done.has(module)) return;
  for (const to of modules.get(module)?.uses ?? []) follow([...way, to]);
  done.add(module);
}
for (const module of modules.keys()) follow([module]);

/** @returns {string | undefined} the room of the folder that contains the module */
const roomOf = (folder, module) =>
  module.startsWith(`${folder}/`) ? module.slice(folder.length + 1).split('/')[0] : undefined;

/** @returns {Map<string, Set<string>>} the rooms that each room of a folder uses */
function roomsOf(folder) {
  const rooms = new Map();
  for (const [module, { uses }] of modules) {
    const room = roomOf(folder, module);
    if (!room) continue;
    if (!rooms.has(room)) rooms.set(room, new Set());
    for (const to of uses) {
      const other = roomOf(folder, to);
      if (other && other !== room) rooms.get(room).add(other);
    }
  }
  return rooms;
}

/** @returns {string} the numbers of rooms, floors and arrows of a folder */
function countsOf(folder) {
  const rooms = roomsOf(folder);
  const heights = new Map();
  const height = (room, above = []) => {
    if (above.includes(room)) return Number.POSITIVE_INFINITY;
    const below = [...rooms.get(room)].map((to) => heights.get(to) ?? height(to, [...above, room]));
    heights.set(room, 1 + Math.max(0, ...below));
    return heights.get(room);
  };
  for (const room of rooms.keys()) height(room);
  const floors = Math.max(...heights.values());
  const arrows = [...rooms.values()].reduce((sum, uses) => sum + uses.size, 0);
  return `${folder}: ${rooms.size} rooms, ${floors} floors, ${arrows} arrows`;
}

if (isCounting) {
  const folders = new Set([...modules.keys()].map((module) => path.posix.dirname(module)));
  for (const folder of [...folders, 'lib/cluster/engines'].sort()) console.log(countsOf(folder));
}

for (const fault of faults) console.error(fault);
process.exitCode = faults.length > 0 ? 1 : 0;
