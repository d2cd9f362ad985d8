'use strict';

/** The tables of locks, of the selected lock's blockers, and of the waits between processes. */

const model = require('./model.js');
const {
  ROWS,
  fillTable,
  make,
  makeHead,
  makeOutcomeList,
  whole,
  timeFormatter,
} = require('./show.js');

const { data, processName, severalProcesses, shownLabel, siteOf, waitingBetween } = model;

const isNumber = (value) => typeof value === 'number';

/** `write` gets all values of a column, and returns a function that formats one of them. */
const COLUMNS = [
  { key: 'name', title: 'Lock', group: '' },
  { key: 'count', title: 'all', group: 'Requests', write: () => whole },
  { key: 'contended', title: 'had to wait', group: 'Requests', write: percentFormatter },
  { key: 'troubles', title: 'outcomes', group: 'Requests' },
  { key: 'waiting', title: 'sum', group: 'Wait, ms', write: timeFormatter },
  { key: 'wait50', title: 'p50', group: 'Wait, ms', write: timeFormatter },
  { key: 'wait99', title: 'p99', group: 'Wait, ms', write: timeFormatter },
  { key: 'wait100', title: 'max', group: 'Wait, ms', write: timeFormatter },
  { key: 'hold50', title: 'p50', group: 'Hold, ms', write: timeFormatter },
  { key: 'hold99', title: 'p99', group: 'Hold, ms', write: timeFormatter },
  { key: 'hold100', title: 'max', group: 'Hold, ms', write: timeFormatter },
  { key: 'worst', title: 'Worst blocker', group: '' },
];

function percentFormatter() {
  return (part) => `${part.toFixed(1)} %`;
}

/** The listed locks, the number of rows, the selected lock (or -1), and the order. */
const shown = {
  summaries: [],
  rows: ROWS,
  lock: -1,
  sorting: { key: 'waiting', descending: true },
};
/** Called with the summary of a lock that you select. */
let onChoose = (_summary) => {};

/** Sorts by a column; if the table is sorted by it already, reverses the order. */
function sortBy(key) {
  const isText = key === 'name' || key === 'worst';
  const { sorting } = shown;
  const wasDescending = sorting.key === key ? sorting.descending : isText;
  shown.sorting = { key, descending: !wasDescending };
  draw();
}

function makeLocksHead(onLockChosen) {
  onChoose = onLockChosen;
  const [groups, titles] = document.querySelectorAll('#names thead tr');
  for (const { key, title, group, write } of COLUMNS) {
    const cell = make('th', '', write ? 'number' : '');
    cell.scope = 'col';
    const button = make('button', title);
    button.type = 'button';
    button.dataset.key = key;
    button.addEventListener('click', () => sortBy(key));
    cell.append(button);
    const last = groups.lastElementChild;
    if (group === '') {
      cell.rowSpan = 2;
      groups.append(cell);
      continue;
    }
    button.ariaLabel = `${group}: ${title}`;
    titles.append(cell);
    if (last?.textContent === group) {
      last.colSpan++;
    } else {
      cell.classList.add('first');
      const over = make('th', group, 'group first');
      over.scope = 'colgroup';
      groups.append(over);
    }
  }
}

function showLocks(summaries) {
  Object.assign(shown, { summaries, rows: ROWS });
  draw();
}

function showMoreLocks() {
  shown.rows += 10 * ROWS;
  draw();
}

function markLock(lock) {
  shown.lock = lock;
  for (const row of document.querySelectorAll('#names tbody tr')) {
    row.ariaCurrent = Number(row.dataset.lock) === lock ? 'true' : null;
  }
}

function draw() {
  const { summaries, rows } = shown;
  const { key, descending } = shown.sorting;
  const compare = (a, b) => (a[key] < b[key] ? -1 : Number(a[key] > b[key]));
  summaries.sort((a, b) => (descending ? compare(b, a) : compare(a, b)));
  for (const button of document.querySelectorAll('#names thead button')) {
    const way = descending ? 'descending' : 'ascending';
    button.parentElement.ariaSort = button.dataset.key === key ? way : 'none';
  }
  const writers = COLUMNS.map(({ key, write }) => write?.(summaries.map((one) => one[key])));
  fillTable('names', 'more', summaries, rows, (one) => rowOfLock(one, writers), 'locks');
}

function rowOfLock(summary, writers) {
  const row = document.createElement('tr');
  row.dataset.lock = summary.lock;
  if (summary.lock === shown.lock) row.ariaCurrent = 'true';
  COLUMNS.forEach(({ key }, i) => {
    if (key === 'name') {
      const cell = make('th', '', 'text');
      cell.scope = 'row';
      const button = make('button', summary.name);
      button.type = 'button';
      button.title = summary.name;
      button.addEventListener('click', () => onChoose(summary));
      cell.append(button);
      row.append(cell);
    } else if (key === 'troubles') {
      const cell = make('td');
      cell.append(makeOutcomeList(summary.outcomes));
      row.append(cell);
    } else if (isNumber(summary[key])) {
      row.append(make('td', writers[i](summary[key]), 'number'));
    } else {
      row.append(make('td', summary[key], 'text'));
    }
  });
  return row;
}

function makeBlockersHead() {
  makeHead('blockers', [
    ...(severalProcesses ? [['process', '']] : []),
    ['label', ''],
    ['call site', ''],
    ['requests it blocked', 'number'],
    ['their waiting, ms', 'number'],
  ]);
}

function showBlockers(blockers) {
  const worst = blockers.slice(0, 20);
  const write = timeFormatter(worst.map(({ waiting }) => waiting));
  const rows = worst.map(({ request, count, waiting }) => {
    const row = document.createElement('tr');
    const process = severalProcesses
      ? [make('td', processName(data.process[request]), 'text')]
      : [];
    row.append(...process, make('td', shownLabel(request) ?? '', 'text'));
    row.append(make('td', siteOf(request), 'text'), make('td', whole(count), 'number'));
    row.append(make('td', write(waiting), 'number'));
    return row;
  });
  if (rows.length === 0) {
    const row = document.createElement('tr');
    row.append(make('td', 'Nobody.', 'text'));
    rows.push(row);
  }
  document.querySelector('#blockers tbody').replaceChildren(...rows);
}

/** Shows how long each process waited for each process, itself included. */
function showProcesses() {
  document.getElementById('processes').hidden = !severalProcesses;
  if (!severalProcesses) return;
  const between = waitingBetween();
  const write = timeFormatter(between.flat());
  const names = data.processes.map((_, index) => processName(index));
  const head = document.querySelector('#between thead tr');
  head.append(make('td'), ...names.map((name) => make('th', name, 'number')));
  for (const cell of head.querySelectorAll('th')) cell.scope = 'col';
  const rows = between.map((times, index) => {
    const row = document.createElement('tr');
    const name = make('th', names[index], 'text');
    name.scope = 'row';
    row.append(name, ...times.map((time) => make('td', write(time), 'number')));
    return row;
  });
  document.querySelector('#between tbody').replaceChildren(...rows);
}

module.exports = {
  makeBlockersHead,
  makeLocksHead,
  markLock,
  showBlockers,
  showLocks,
  showMoreLocks,
  showProcesses,
};
