'use strict';

/** Draws the states that the server sends, filtered and sorted as the page's inputs say. */

const { element, make, plural } = require('../../page/elements.js');
const { drawAll, drawTimes, forgetMissing, idOf, makeHead } = require('./rows.js');
const { Stream } = require('./stream.js');

/** Texts of the statuses; `%` stands for the message of the server. */
const STATUSES = {
  asked: 'connecting …',
  live: 'live',
  silent: 'no answer for more than 5 seconds; this may be out of date',
  lost: 'the connection is lost: web-locks has ended, or cannot be reached; trying again …',
  failed: 'the locks cannot be reached (%); trying again …',
  paused: 'paused',
};

/** The last state. `since` is the time at which the hold or the wait of a row began. */
let groups = [];
/** The time at which the last state arrived; 0 before the first one. */
let receivedAt = 0;
let status = '';
/** The time at which the page last stopped being live: until it is live again, ages do not grow. */
let stopped = 0;

/** The time for which ages are shown. It stands still while the page is not live. */
const now = () => (status === 'live' ? performance.now() : stopped);

/** Keeps the order in which the groups arrive, which is by name. */
const arrivalOrder = () => 0;

/** Groups that compare as equal keep the order in which they arrive. */
const ORDERS = {
  name: arrivalOrder,
  pending: (a, b) => b.pending - a.pending,
  age: (a, b) => earliestSince(a) - earliestSince(b),
};

const earliestSince = ({ rows }) =>
  rows.reduce((least, { since }) => Math.min(least, since ?? Infinity), Infinity);

function searchMatcher() {
  const text = element('search').value.trim().toLowerCase();
  return (value) => `${value}`.toLowerCase().includes(text);
}

/** The columns that a search looks at, besides the name. */
const SEARCHED = ['label', 'host', 'pid', 'thread', 'data'];

/** If a name matches, all its entries are shown; otherwise only the matching entries. */
function matchingGroups() {
  const has = searchMatcher();
  return groups
    .map((group) => ({
      group,
      entries: has(group.name)
        ? group.rows
        : group.rows.filter((row) => SEARCHED.some((key) => has(row[key]))),
    }))
    .filter(({ group, entries }) => entries.length > 0 || has(group.name));
}

function draw() {
  const order = ORDERS[element('order').value];
  const all = matchingGroups().sort((a, b) => order(a.group, b.group));
  drawAll(all);
  drawTimes(now());
  const sum = (key) => groups.reduce((all, group) => all + group[key], 0);
  const holders = sum('held');
  const names = groups.reduce((all, group) => all + (group.names ?? 1), 0);
  element('counts').textContent =
    groups.length > 0
      ? `${plural(names, 'name')}: ${plural(holders, 'lock')} held, ` +
        `${plural(sum('pending'), 'request')} waiting`
      : '';
  element('locks').hidden = all.length === 0;
  const nothing = groups.length > 0 ? 'No lock matches.' : 'No locks are held, and nobody waits.';
  element('none').textContent = all.length > 0 || receivedAt === 0 ? '' : nothing;
}

/** Stores the state, and shows its notes. `draw` shows the rest. */
function receiveState(state) {
  receivedAt = performance.now();
  groups = state.groups;
  element('notes').replaceChildren(...state.notes.map((note) => make('p', note)));
  for (const { rows } of groups) {
    let place = 0;
    for (const row of rows) {
      row.since = row.age === null ? null : receivedAt - row.age;
      if (!row.isHeld) row.place = ++place;
    }
  }
  forgetMissing(new Set(groups.map(idOf)));
}

function handleStatus(next, message = '') {
  const text = STATUSES[next].replace('%', () => message);
  if (status === 'live' && next !== 'live') stopped = performance.now();
  if (status !== next) document.body.dataset.status = next;
  status = next;
  // Screen readers announce each change, so equal texts are not written again.
  if (element('status').textContent !== text) element('status').textContent = text;
  if (next === 'live') {
    const time = new Date();
    element('time').dateTime = time.toISOString();
    element('time').textContent = time.toLocaleString('sv');
  }
}

element('about').textContent = JSON.parse(element('data').textContent).about;
makeHead(draw);
const stream = new Stream((state) => {
  receiveState(state);
  handleStatus('live');
  draw();
}, handleStatus);
element('pause').addEventListener('click', () => {
  stream.isPaused = !stream.isPaused;
  element('pause').ariaPressed = `${stream.isPaused}`;
});
element('search').addEventListener('input', draw);
element('order').addEventListener('change', draw);
setInterval(() => drawTimes(now()), 1000);
