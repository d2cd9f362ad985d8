'use strict';

/**
 * The table: of each name those who hold it, and the queue. A row that is shown already stays, so
 * that a
 * reader can select it and tab through it while the rest changes.
 */

const { duration } = require('../../page/duration.js');
const { brief, element, make, plural, whole } = require('../../page/elements.js');

/** So many rows of a name are shown at first, and so many more each time. */
const FEW = 10;
const MORE = 500;
/** The same of names. */
const NAMES = 500;

/** The columns after that of the name. `title`: what a narrow page writes before it. */
const COLUMNS = [
  { key: 'state', head: 'State' },
  { key: 'age', head: 'For', className: 'number' },
  { key: 'label', head: 'Label', className: 'text' },
  { key: 'pid', head: 'PID', title: 'pid ', className: 'number' },
  { key: 'thread', head: 'Thread', title: 'thread ' },
  { key: 'host', head: 'Host', title: 'on ', className: 'text' },
  { key: 'mode', head: 'Mode' },
  { key: 'token', head: 'Token', title: 'token ', className: 'number' },
];

const table = element('locks');
/** What is there of each name that is shown, by its id. @type {Map<string, object>} */
let shown = new Map();
/** How many rows of a name are shown, if they are not the few. @type {Map<string, number>} */
const wanted = new Map();
let names = NAMES;
/** Is called if more are to be shown. */
let redraw = () => {};

const idOf = ({ id, name }) => id ?? name;

/** @returns {HTMLElement} with what a browser takes away where a row is no row for the eye */
function cellOf(tag, role, className) {
  const cell = make(tag, '', className);
  cell.role = role;
  return cell;
}

function makeHead(onMore) {
  redraw = onMore;
  const cells = [{ head: 'Lock' }, ...COLUMNS].map(({ head, className = '' }) => {
    const cell = make('th', head, className === 'number' ? className : '');
    cell.scope = 'col';
    cell.role = 'columnheader';
    return cell;
  });
  table.tHead.rows[0].append(...cells);
  element('more').addEventListener('click', () => {
    names += NAMES;
    redraw();
  });
}

/** Writes only what differs: what is selected stays so. */
function write(node, text) {
  const short = brief(text);
  if (node.textContent !== short) node.textContent = short;
  const title = short === text ? '' : text;
  if (node.title !== title) node.title = title;
}

/** @returns {object} a name, without rows */
function makeGroup(id) {
  const body = document.createElement('tbody');
  body.role = 'rowgroup';
  const name = cellOf('th', 'rowheader', 'name');
  name.scope = 'rowgroup';
  name.append(make('span', '', 'text'), make('span', '', 'hint'));
  const more = document.createElement('tr');
  more.role = 'row';
  const cell = cellOf('td', 'cell', 'rest');
  cell.colSpan = COLUMNS.length;
  const button = make('button', '', 'more');
  button.type = 'button';
  button.addEventListener('click', () => {
    wanted.set(id, (wanted.get(id) ?? FEW) + MORE);
    redraw();
  });
  const hint = make('span', '', 'hint');
  cell.append(button, hint);
  more.append(cell);
  return { body, name, more, button, hint, rows: [] };
}

/** @returns {object} a row, empty */
function makeRow() {
  const row = document.createElement('tr');
  row.role = 'row';
  const cells = COLUMNS.map(({ key, title, className }) => {
    const cell = cellOf('td', 'cell', className);
    cell.dataset.key = key;
    if (title) cell.dataset.title = title;
    return cell;
  });
  const sign = make('i', '', 'sign');
  sign.ariaHidden = 'true';
  const state = document.createElement('span');
  cells[0].append(sign, state);
  row.append(...cells);
  return { row, cells, state };
}

function fillRow({ row, cells, state }, entry) {
  row.className = entry.isHeld ? 'held' : 'waits';
  write(state, entry.isHeld ? 'held' : `waits, #${whole(entry.place)}`);
  COLUMNS.forEach(({ key }, i) => {
    if (key === 'state' || key === 'age') return;
    // 0: not known, as its session is gone.
    const text = String(key === 'pid' ? entry.pid || '?' : entry[key]);
    write(cells[i], text);
    cells[i].classList.toggle('empty', text === '');
  });
}

/** @returns {string} how many hold and wait, and of a semaphore its units */
function summary({ held, pending, limit, units }) {
  const parts = [];
  if (limit > 0) parts.push(`${whole(units)} of ${plural(limit, 'unit')} held`);
  if (held > 1) parts.push(plural(held, 'holder'));
  if (held === 0) parts.push('nobody holds it');
  if (pending > 0) parts.push(plural(pending, 'waiter'));
  return parts.join(', ');
}

/**
 * @param {object} group
 * @param {object[]} entries those of its rows that match
 */
function draw(group, entries) {
  const id = idOf(group);
  const view = shown.get(id) ?? makeGroup(id);
  const { body, name, more, button, hint, rows } = view;
  const visible = entries.slice(0, wanted.get(id) ?? FEW);
  while (rows.length > visible.length) rows.pop().row.remove();
  while (rows.length < visible.length) rows.push(makeRow());
  visible.forEach((entry, i) => {
    fillRow(rows[i], entry);
    if (body.rows[i] !== rows[i].row) body.insertBefore(rows[i].row, body.rows[i] ?? null);
    rows[i].entry = entry;
  });
  write(name.firstChild, group.name);
  write(name.lastChild, summary(group));
  const rest = entries.length - visible.length;
  const unknown = group.held + group.pending - group.rows.length;
  button.hidden = rest === 0;
  write(button, `Show ${whole(Math.min(rest, MORE))} more`);
  write(hint, unknown > 0 ? `${whole(unknown)} are too many for this page` : '');
  if (rest > 0 || unknown > 0) body.append(more);
  else more.remove();
  name.rowSpan = body.rows.length;
  if (body.rows[0].firstChild !== name) body.rows[0].prepend(name);
  return view;
}

/**
 * Shows these, in their order, and nothing else.
 * @param {{ group: object, entries: object[] }[]} groups of each the rows that match
 */
function drawAll(groups) {
  const next = new Map();
  for (const { group, entries } of groups.slice(0, names)) {
    const id = idOf(group);
    const view = draw(group, entries);
    const at = table.tBodies[next.size];
    if (at !== view.body) table.insertBefore(view.body, at ?? null);
    next.set(id, view);
  }
  for (const [id, { body }] of shown) if (!next.has(id)) body.remove();
  shown = next;
  const rest = groups.length - next.size;
  element('more').hidden = rest <= 0;
  element('more').textContent = `Show ${whole(Math.min(rest, NAMES))} more names`;
}

/** Forgets the names that are gone. @param {Set<string>} ids of those that there are */
function forget(ids) {
  for (const id of wanted.keys()) if (!ids.has(id)) wanted.delete(id);
}

/** Shows the times, as they are now. @param {number} now */
function drawTimes(now) {
  for (const { rows } of shown.values()) {
    for (const { cells, entry } of rows) {
      write(cells[1], duration(entry.since === null ? Number.NaN : Math.max(now - entry.since, 0)));
    }
  }
}

module.exports = { drawAll, drawTimes, forget, idOf, makeHead };
