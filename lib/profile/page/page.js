'use strict';

/**
 * The script of the report: tables of the locks and of who made others wait, and a timeline of one
 * lock. Everything that users chose is put into text nodes, or drawn.
 */

const data = JSON.parse(document.getElementById('data').textContent);
const element = (id) => document.getElementById(id);
const count = data.asked.length;

/** So many rows are shown at first. */
const ROWS = 200;

const ms = (micro) => (micro / 1000).toFixed(micro < 10_000 ? 3 : 1);
const nameOf = (lock) => data.names[lock];

/** The value that this part of the sorted numbers does not exceed. */
const at = (sorted, part) => sorted[Math.max(Math.ceil(sorted.length * part) - 1, 0)] ?? 0;

/** @returns {object[]} of each lock: what the table shows, and the indices of its requests */
function summarize() {
  const locks = data.names.map((_, lock) => ({ lock, requests: [] }));
  for (let i = 0; i < count; i++) locks[data.name[i]].requests.push(i);
  for (const summary of locks) {
    const { requests } = summary;
    const waits = requests.map((i) => data.waited[i]).sort((a, b) => a - b);
    const held = requests.filter((i) => data.held[i] > 0);
    const holds = held.map((i) => data.held[i]).sort((a, b) => a - b);
    summary.name = nameOf(summary.lock);
    summary.count = requests.length;
    summary.waiting = waits.reduce((sum, wait) => sum + wait, 0);
    const contended = requests.filter((i) => data.contended[i]).length;
    summary.contended = (100 * contended) / requests.length;
    [summary.wait50, summary.wait99, summary.wait100] = [0.5, 0.99, 1].map((p) => at(waits, p));
    [summary.hold50, summary.hold99, summary.hold100] = [0.5, 0.99, 1].map((p) => at(holds, p));
    summary.blockers = blockersOf(requests);
    const worst = summary.blockers[0]?.request;
    summary.worst = worst === undefined ? '' : labelOf(worst) || siteOf(worst) || threadOf(worst);
  }
  return locks;
}

/**
 * Who made these requests wait, the worst first: several share the wait that they are to blame for.
 */
function blockersOf(requests) {
  const found = new Map();
  for (const i of requests) {
    const blockers = data.blockers[i];
    for (const blocker of blockers) {
      const key = `${data.label[blocker]} ${data.site[blocker]}`;
      const entry = found.get(key) ?? { request: blocker, count: 0, waiting: 0 };
      entry.count++;
      entry.waiting += data.waited[i] / blockers.length;
      found.set(key, entry);
    }
  }
  return [...found.values()].sort((a, b) => b.waiting - a.waiting);
}

const labelOf = (i) => data.texts[data.label[i]];
const siteOf = (i) => data.texts[data.site[i]];
const threadOf = (i) => (data.thread[i] === 0 ? 'main thread' : `thread ${data.thread[i]}`);
const whoIs = ({ request }) => [labelOf(request), siteOf(request)].filter(Boolean).join(', ');

const COLUMNS = [
  { key: 'name', title: 'lock' },
  { key: 'count', title: 'requests', show: String },
  { key: 'contended', title: 'had to wait', show: (part) => `${part.toFixed(1)} %` },
  { key: 'waiting', title: 'waiting, all', show: ms },
  { key: 'wait50', title: 'wait 50 %', show: ms },
  { key: 'wait99', title: '99 %', show: ms },
  { key: 'wait100', title: '100 %', show: ms },
  { key: 'hold50', title: 'hold 50 %', show: ms },
  { key: 'hold99', title: '99 %', show: ms },
  { key: 'hold100', title: '100 %', show: ms },
  { key: 'worst', title: 'worst blocker' },
];

/** The most characters of a name that are shown: of the others only its title has the middle. */
const LONGEST = 200;
const HEAD = 140;

/** @returns {string} of names and labels, a few lines at the most */
const brief = (text) =>
  text.length > LONGEST ? `${text.slice(0, HEAD)}…${text.slice(HEAD + 1 - LONGEST)}` : text;

/** @returns {HTMLElement} a new one, with text */
function make(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = brief(text);
  if (text.length > LONGEST) made.title = text;
  if (className) made.className = className;
  return made;
}

const summaries = summarize();
let sorting = { key: 'waiting', descending: true };
let showsAll = false;
let chosen;

function sortBy(key) {
  const wasDescending =
    sorting.key === key ? sorting.descending : key === 'name' || key === 'worst';
  sorting = { key, descending: !wasDescending };
  showNames();
}

function makeHeader() {
  for (const { key, title, show } of COLUMNS) {
    const cell = make('th', '', show ? 'number' : '');
    cell.scope = 'col';
    const button = make('button', title);
    button.type = 'button';
    button.dataset.key = key;
    button.addEventListener('click', () => sortBy(key));
    cell.append(button);
    document.querySelector('#names thead tr').append(cell);
  }
}

function showNames() {
  const { key, descending } = sorting;
  const compare = (a, b) => (a[key] < b[key] ? -1 : Number(a[key] > b[key]));
  summaries.sort((a, b) => (descending ? compare(b, a) : compare(a, b)));
  for (const button of document.querySelectorAll('#names thead button')) {
    const sorted = descending ? 'descending' : 'ascending';
    button.parentElement.ariaSort = button.dataset.key === key ? sorted : 'none';
  }
  const shown = showsAll ? summaries : summaries.slice(0, ROWS);
  document.querySelector('#names tbody').replaceChildren(...shown.map(rowOf));
  element('more').hidden = shown.length === summaries.length;
  element('more').textContent = `Show all ${summaries.length} locks`;
}

function rowOf(summary) {
  const row = document.createElement('tr');
  row.dataset.lock = summary.lock;
  if (summary === chosen) row.ariaCurrent = 'true';
  for (const { key, show } of COLUMNS) {
    if (key !== 'name') {
      row.append(make('td', show ? show(summary[key]) : summary[key], show ? 'number' : 'text'));
      continue;
    }
    const cell = document.createElement('th');
    cell.scope = 'row';
    const button = make('button', summary.name);
    button.type = 'button';
    button.addEventListener('click', () => choose(summary));
    cell.append(button);
    row.append(cell);
  }
  return row;
}

function showBlockers({ blockers }) {
  const rows = blockers.slice(0, 20).map(({ request, count, waiting }) => {
    const row = document.createElement('tr');
    row.append(make('td', labelOf(request), 'text'), make('td', siteOf(request), 'text'));
    row.append(make('td', String(count), 'number'), make('td', ms(waiting), 'number'));
    return row;
  });
  if (rows.length === 0) {
    const row = document.createElement('tr');
    row.append(make('td', 'Nobody.', 'text'));
    rows.push(row);
  }
  document.querySelector('#blockers tbody').replaceChildren(...rows);
}

// The timeline.

const canvas = element('timeline');
const context = canvas.getContext('2d');
const CHART = 70;
const AXIS = 20;
const ROW = 16;

/** All there is to see, and what is seen of it, in microseconds. */
const [begin, end] = bounds();
let view = { from: begin, to: end };
/** What is drawn: bars with their row, and the steps of the queue's length. */
let bars = [];
let steps = [];
let longest = 0;
/** The request that was pointed at, an index into `bars`. */
let current = -1;

function bounds() {
  let last = 0;
  for (let i = 0; i < count; i++) {
    last = Math.max(last, data.asked[i] + data.waited[i] + data.held[i]);
  }
  const first = data.asked[0] ?? 0;
  return [first, Math.max(first + 1, last)];
}

/** The bars of a lock: first the rows of who held, then of who waited. */
function layOut({ requests }) {
  const granted = requests.filter((i) => data.held[i] > 0);
  const start = (i) => data.asked[i] + data.waited[i];
  granted.sort((a, b) => start(a) - start(b));
  const waited = requests.filter((i) => data.contended[i]);
  const holds = inRows(granted, start, (i) => start(i) + data.held[i], 0);
  const waits = inRows(waited, (i) => data.asked[i], start, rowsOf(holds));
  for (const bar of holds) bar.held = true;
  bars = [...holds, ...waits].sort((a, b) => a.from - b.from);
  const changes = waited.flatMap((i) => [
    { time: data.asked[i], by: 1 },
    { time: start(i), by: -1 },
  ]);
  changes.sort((a, b) => a.time - b.time || b.by - a.by);
  let length = 0;
  steps = changes.map(({ time, by }) => {
    length += by;
    return { time, length };
  });
  longest = steps.reduce((most, step) => Math.max(most, step.length), 0);
}

const rowsOf = (list) => list.reduce((most, { row }) => Math.max(most, row + 1), 0);

/** Rows further down than these cannot be seen: what overlaps so much shares the last one. */
const MOST_ROWS = 40;

function inRows(list, from, to, first) {
  const ends = [];
  return list.map((i) => {
    let row = ends.findIndex((time) => time <= from(i));
    if (row < 0) row = Math.min(ends.length, MOST_ROWS - 1);
    ends[row] = Math.max(ends[row] ?? 0, to(i));
    return { i, from: from(i), to: to(i), row: first + row, held: false };
  });
}

const scale = () => canvas.clientWidth / (view.to - view.from);
const xOf = (time) => (time - view.from) * scale();
const topOf = (row) => CHART + AXIS + 4 + row * ROW;

let asked = false;
/** Draws before the next frame, once. */
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}

function draw() {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = '12px system-ui, sans-serif';
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`);
  drawAxis(width, color);
  drawQueue(width, color);
  drawBars(width, height, color);
  canvas.dataset.from = view.from;
  canvas.dataset.to = view.to;
}

function drawAxis(width, color) {
  const rough = (view.to - view.from) / Math.max(width / 110, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  context.fillStyle = color('dim');
  context.strokeStyle = color('line');
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    const x = Math.round(xOf(time)) + 0.5;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, canvas.clientHeight);
    context.stroke();
    const digits = Math.max(0, Math.ceil(-Math.log10(step / 1000)));
    context.fillText(`${(time / 1000).toFixed(digits)} ms`, x + 3, CHART + 14);
  }
}

/** The queue's length, of each pixel the greatest. */
function drawQueue(width, color) {
  if (longest === 0) return;
  context.fillStyle = color('queue');
  const height = (length) => (length / longest) * (CHART - 16);
  let length = 0;
  let x = 0;
  let most = 0;
  const pixels = scale();
  const fillTo = (to) => {
    context.fillRect(x, CHART - height(most), Math.max(to - x, 1), height(most));
  };
  for (const step of steps) {
    const next = Math.min(Math.floor((step.time - view.from) * pixels), width);
    if (next > x) {
      fillTo(next);
      x = next;
      most = length;
    }
    length = step.length;
    most = x >= 0 && step.time >= view.from ? Math.max(most, length) : length;
    if (next >= width) break;
  }
  context.fillStyle = color('dim');
  context.fillText(`at most ${longest} waiting`, 4, 12);
}

function drawBars(width, height, color) {
  const colors = { true: color('held'), false: color('waiting') };
  const ground = color('ground');
  /** Of each row: up to where it is filled. */
  const filled = [];
  const { from, to } = view;
  const pixels = scale();
  for (const bar of bars) {
    if (bar.from > to) break;
    if (bar.to < from) continue;
    // Whole pixels: what is in the same one is drawn once.
    const left = Math.max(Math.floor((bar.from - from) * pixels), 0);
    const right = Math.min(Math.max(Math.ceil((bar.to - from) * pixels), left + 1), width);
    const top = topOf(bar.row);
    if (top > height || right <= (filled[bar.row] ?? 0)) continue;
    filled[bar.row] = right;
    context.fillStyle = colors[bar.held];
    context.fillRect(left, top, right - left - (right - left > 4 ? 1 : 0), ROW - 3);
    if (right - left < 60) continue;
    context.save();
    context.beginPath();
    context.rect(left, top, right - left - 3, ROW);
    context.clip();
    context.fillStyle = ground;
    context.fillText((labelOf(bar.i) || siteOf(bar.i)).slice(0, 200), left + 3, top + 10.5);
    context.restore();
  }
  const bar = bars[current];
  if (!bar) return;
  context.strokeStyle = color('text');
  context.lineWidth = 2;
  const left = xOf(bar.from);
  context.strokeRect(left, topOf(bar.row), Math.max(xOf(bar.to) - left, 2), ROW - 3);
  context.lineWidth = 1;
}

function look(from, to) {
  const width = Math.min(Math.max(to - from, 10), end - begin);
  const start = Math.min(Math.max(from, begin), end - width);
  view = { from: start, to: start + width };
  redraw();
}

/** @param around a time that stays where it is */
function zoom(factor, around = (view.from + view.to) / 2) {
  look(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

function move(part) {
  const by = (view.to - view.from) * part;
  look(view.from + by, view.to + by);
}

/** Tells of a request, and shows it. */
function tell(index) {
  current = index;
  redraw();
  const bar = bars[index];
  if (!bar) return;
  const { i } = bar;
  const facts = [
    `${threadOf(i)}${data.shared[i] ? ', shared' : ''}: ${data.outcomes[data.outcome[i]]}`,
    `waited ${ms(data.waited[i])} ms`,
    `held ${ms(data.held[i])} ms`,
  ];
  const blockers = data.blockers[i].map((request) => whoIs({ request }) || threadOf(request));
  if (blockers.length > 0) facts.push(`blocked by ${blockers.join('; ')}`);
  element('request').textContent = [whoIs({ request: i }), ...facts].filter(Boolean).join(' · ');
}

function step(by) {
  if (bars.length === 0) return;
  const next = Math.min(Math.max(current + by, 0), bars.length - 1);
  const { from, to } = bars[next];
  const width = view.to - view.from;
  if (from > view.to || to < view.from) look(from - width / 2, from + width / 2);
  tell(next);
}

const KEYS = {
  ArrowLeft: () => move(-0.2),
  ArrowRight: () => move(0.2),
  ArrowUp: () => step(-1),
  ArrowDown: () => step(1),
  '+': () => zoom(0.5),
  '=': () => zoom(0.5),
  '-': () => zoom(2),
  0: () => look(begin, end),
};

const timeAt = (x) => view.from + x / scale();

function barAt(x, y) {
  const time = timeAt(x);
  const slack = 3 / scale();
  const row = Math.floor((y - topOf(0)) / ROW);
  return bars.findIndex(
    (bar) => bar.row === row && bar.from - slack <= time && time <= bar.to + slack,
  );
}

function listen() {
  /** Of the fingers, or the mouse, that are down: where they are. */
  const down = new Map();
  canvas.addEventListener('keydown', (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  canvas.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / canvas.clientWidth);
      else zoom(1.0015 ** event.deltaY, timeAt(event.offsetX));
    },
    { passive: false },
  );
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, event.offsetX);
    const found = barAt(event.offsetX, event.offsetY);
    if (found >= 0) tell(found);
  });
  canvas.addEventListener('pointermove', (event) => {
    const before = down.get(event.pointerId);
    const x = event.offsetX;
    if (before === undefined) {
      const found = barAt(x, event.offsetY);
      if (found >= 0 && found !== current) tell(found);
      return;
    }
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    down.set(event.pointerId, x);
    if (other === undefined) move((before - x) / canvas.clientWidth);
    else zoom(Math.abs(before - other) / Math.max(Math.abs(x - other), 1), timeAt(other));
  });
  for (const type of ['pointerup', 'pointercancel']) {
    canvas.addEventListener(type, (event) => down.delete(event.pointerId));
  }
  element('in').addEventListener('click', () => zoom(0.5));
  element('out').addEventListener('click', () => zoom(2));
  element('all').addEventListener('click', () => look(begin, end));
  element('more').addEventListener('click', () => {
    showsAll = true;
    showNames();
  });
  new ResizeObserver(redraw).observe(canvas);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
}

function choose(summary) {
  chosen = summary;
  current = -1;
  element('request').textContent = '';
  element('timeline-title').textContent = `Who held and who waited: ${brief(summary.name)}`;
  for (const row of document.querySelectorAll('#names tbody tr')) {
    row.ariaCurrent = Number(row.dataset.lock) === summary.lock ? 'true' : null;
  }
  layOut(summary);
  showBlockers(summary);
  redraw();
}

const plural = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;

function main() {
  const { file, seconds, requests, dropped, threads } = data.about;
  const lost = dropped > 0 ? ` ${dropped} more were dropped: there was no room for them.` : '';
  const what = `${plural(requests, 'request')} of ${plural(threads.length, 'thread')}`;
  element('about').textContent = `${file}: ${what} in ${seconds.toFixed(1)} s.${lost}`;
  if (summaries.length === 0) {
    element('content').replaceChildren(make('p', 'No requests were recorded.'));
    return;
  }
  makeHeader();
  showNames();
  listen();
  choose(summaries[0]);
}

main();
