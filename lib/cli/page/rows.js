'use strict';

/**
 * The table: the holders and the queue of each name. A row that is already shown stays, so that you
 * can select it and tab through it while the rest changes.
 */

const { duration } = require('../../page/duration.js');
const { brief, element, make, plural, whole } = require('../../page/elements.js');

/** The number of rows of a name that are shown at first, and that each click adds. */
const FEW = 10;
const MORE = 500;
/** The number of names that are shown at first, and that each click adds. */
const NAMES = 500;

/** The columns after the name. A narrow page writes `title` before the value. */
const COLUMNS = [
  { key: 'state', head: 'State' },
  { key: 'age', head: 'For', className: 'number' },
  { key: 'label', head: 'Label', className: 'text' },
  { key: 'pid', head: 'PID', title: 'pid ', className: 'number' },
  { key: 'thread', head: 'Thread', title: 'thread ' },
  { key: 'host', head: 'Host', title: 'on ', className: 'text' },
  { key: 'mode', head: 'Mode' },
  { key: 'token', head: 'Token', title: 'token ', className: 'number' },
  { key: 'data', head: 'Data', className: 'text' },
];

const table = element('locks');
/** The elements of each name that is shown, keyed by its id. @type {Map<string, object>} */
let shown = new Map();
/** The number of rows of each name that shows more than FEW. @type {Map<string, number>} */
const wanted = new Map();
let names = NAMES;
let redraw = () => {};

const idOf = ({ id, name }) => id ?? name;

/** The role is explicit, because browsers drop it if CSS changes the layout of a row. */
function cellOf(tag, role, className) {
  const cell = make(tag, '', className);
  cell.role = role;
  return cell;
}

/** A click on a button that shows more calls `onMore`. */
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

/**
 * Writes only a changed text, so that a selection survives. If the text is long, it is truncated,
 * and the title has all of it.
 */
function setText(node, text) {
  const short = brief(text);
  if (node.textContent !== short) node.textContent = short;
  const title = short === text ? '' : text;
  if (node.title !== title) node.title = title;
}

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

/** Leaves out the age, which `drawTimes` writes. */
function fillRow({ row, cells, state }, entry) {
  row.className = entry.isHeld ? 'held' : 'waits';
  setText(state, entry.isHeld ? 'held' : `waits, #${whole(entry.place)}`);
  COLUMNS.forEach(({ key }, i) => {
    if (key === 'state' || key === 'age') return;
    // The pid is 0 if the session of the request no longer exists.
    const text = String(key === 'pid' ? entry.pid || '?' : entry[key]);
    setText(cells[i], text);
    cells[i].classList.toggle('empty', text === '');
  });
}

function summary({ held, pending, limit, units }) {
  const parts = [];
  if (limit > 0) parts.push(`${whole(units)} of ${plural(limit, 'unit')} held`);
  if (held > 1) parts.push(plural(held, 'holder'));
  if (held === 0) parts.push('nobody holds it');
  if (pending > 0) parts.push(plural(pending, 'waiter'));
  return parts.join(', ');
}

/**
 * Returns the elements of the group, which `drawAll` puts into the table.
 * @param {object} group @param {object[]} entries the rows that match the search
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
  setText(name.firstChild, group.name);
  setText(name.lastChild, summary(group));
  const rest = entries.length - visible.length;
  const unknown = group.held + group.pending - group.rows.length;
  button.hidden = rest === 0;
  setText(button, `Show ${whole(Math.min(rest, MORE))} more`);
  setText(hint, unknown > 0 ? `${whole(unknown)} are too many for this page` : '');
  if (rest > 0 || unknown > 0) body.append(more);
  else more.remove();
  name.rowSpan = body.rows.length;
  if (body.rows[0].firstChild !== name) body.rows[0].prepend(name);
  return view;
}

/** Shows these groups in their order, and nothing else. */
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

/** Forgets how many rows a missing name shows. @param {Set<string>} ids of the present names */
function forgetMissing(ids) {
  for (const id of wanted.keys()) if (!ids.has(id)) wanted.delete(id);
}

function drawTimes(now) {
  for (const { rows } of shown.values()) {
    for (const { cells, entry } of rows) {
      setText(
        cells[1],
        duration(entry.since === null ? Number.NaN : Math.max(now - entry.since, 0)),
      );
    }
  }
}

module.exports = { drawAll, drawTimes, forgetMissing, idOf, makeHead };
