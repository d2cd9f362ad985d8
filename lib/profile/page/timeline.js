'use strict';

/**
 * The timeline of one lock: the length of its queue, and below it rows of holders and of waiters.
 * There may be more rows than fit, so the box around the canvas scrolls while the canvas stays.
 */

const model = require('./model.js');
const { SHAPES, element, whole } = require('./show.js');

const { PLAIN, boundsOf, cssNameOf, data, endOf, outcomeOf, shownLabel, siteOf, waitEndOf } = model;

const canvas = element('timeline');
const box = element('rows');
const context = canvas.getContext('2d');
const CHART = 70;
const AXIS = 20;
const ROW = 16;

/** The whole time and the visible part of it, in microseconds. */
const [begin, end] = boundsOf();
let view = { from: begin, to: end };
/** The bars that are drawn, with their rows, sorted by time. */
let bars = [];
/** The changes of the queue's length, and the greatest length. */
let steps = [];
let longest = 0;
/** The bars of each request that is drawn, sorted by time. @type {Map<number, object[]>} */
let barsOf = new Map();
/** The request under the pointer, or -1. */
let current = -1;

/**
 * Makes a bar for each request of a list that is sorted by `from`, in the row that has been free
 * the longest.
 */
function assignRows(list, from, to, more) {
  /** The rows, in a heap by the time at which they become free. */
  const heap = [];
  const swap = (a, b) => {
    [heap[a], heap[b]] = [heap[b], heap[a]];
  };
  const sink = () => {
    for (let at = 0; ; ) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < heap.length && heap[child].end < heap[least].end) least = child;
      }
      if (least === at) return;
      swap(at, least);
      at = least;
    }
  };
  const rise = () => {
    for (let at = heap.length - 1; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (heap[parent].end <= heap[at].end) return;
      swap(at, parent);
      at = parent;
    }
  };
  const bars = list.map((i) => {
    const bar = { i, from: from(i), to: to(i), row: heap.length, ...more };
    if (heap.length > 0 && heap[0].end <= bar.from) {
      bar.row = heap[0].row;
      heap[0].end = bar.to;
      sink();
    } else {
      heap.push({ row: bar.row, end: bar.to });
      rise();
    }
    return bar;
  });
  return { bars, rows: heap.length };
}

/** Lays out the rows of holds, and below them those of waits and of requests without a grant. */
function layOut(requests) {
  const asked = (i) => data.asked[i];
  const granted = requests.filter((i) => data.held[i] > 0);
  granted.sort((a, b) => waitEndOf(a) - waitEndOf(b));
  const others = requests.filter((i) => data.contended[i] || !(data.held[i] > 0));
  const holds = assignRows(granted, waitEndOf, endOf, { held: true });
  const waits = assignRows(others, asked, waitEndOf, { held: false });
  for (const bar of waits.bars) bar.row += holds.rows;
  bars = [...holds.bars, ...waits.bars].sort((a, b) => a.from - b.from);
  barsOf = new Map();
  for (const bar of bars) barsOf.set(bar.i, [...(barsOf.get(bar.i) ?? []), bar]);
  element('space').style.height = `${(holds.rows + waits.rows) * ROW + 12}px`;
  box.scrollTop = 0;
  layOutQueue(others.filter((i) => data.contended[i]));
}

function layOutQueue(waited) {
  const changes = waited.flatMap((i) => [
    { time: data.asked[i], by: 1 },
    { time: waitEndOf(i), by: -1 },
  ]);
  changes.sort((a, b) => a.time - b.time || b.by - a.by);
  let length = 0;
  steps = changes.map(({ time, by }) => {
    length += by;
    return { time, length };
  });
  longest = steps.reduce((most, step) => Math.max(most, step.length), 0);
}

/** How many pixels a microsecond takes. */
const scale = () => canvas.clientWidth / (view.to - view.from);
const xOf = (time) => (time - view.from) * scale();
const TOP = CHART + AXIS + 4;
const topOf = (row) => TOP + row * ROW - box.scrollTop;

let isAsked = false;
/** Draws once before the next frame, even if it is called several times. */
function redraw() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
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
  context.save();
  context.beginPath();
  context.rect(0, CHART + AXIS, width, height);
  context.clip();
  drawBars(width, height, color);
  context.restore();
  canvas.dataset.from = view.from;
  canvas.dataset.to = view.to;
  canvas.dataset.top = box.scrollTop;
}

function drawAxis(width, color) {
  const rough = (view.to - view.from) / Math.max(width / 110, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  context.fillStyle = color('dim');
  context.strokeStyle = color('line');
  const digits = Math.max(0, Math.ceil(-Math.log10(step / 1000)));
  const format = new Intl.NumberFormat('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  for (let time = Math.ceil(view.from / step) * step; time <= view.to; time += step) {
    const x = Math.round(xOf(time)) + 0.5;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, canvas.clientHeight);
    context.stroke();
    context.fillText(`${format.format(time / 1000)} ms`, x + 3, CHART + 14);
  }
}

/** Each pixel shows the greatest length of the queue during the time of the pixel. */
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
  context.fillText(`at most ${whole(longest)} waiting`, 4, 12);
}

function drawBars(width, height, color) {
  const colors = { true: color('held'), false: color('waiting') };
  const text = color('on-bar');
  /** The end of the filled part of each row. */
  const filled = [];
  const { from, to } = view;
  const pixels = scale();
  for (const bar of bars) {
    if (bar.from > to) break;
    if (bar.to < from) continue;
    const top = topOf(bar.row);
    if (top > height || top < TOP - ROW) continue;
    // Bars end at whole pixels, so that of several bars within one pixel only the first is filled.
    const left = Math.max(Math.floor((bar.from - from) * pixels), 0);
    const right = Math.min(Math.max(Math.ceil((bar.to - from) * pixels), left + 1), width);
    if (right > (filled[bar.row] ?? 0)) {
      filled[bar.row] = right;
      context.fillStyle = colors[bar.held];
      context.fillRect(left, top, right - left - (right - left > 4 ? 1 : 0), ROW - 3);
    }
    drawEnd(bar, right, top, color);
    if (right - left < 60) continue;
    context.save();
    context.beginPath();
    context.rect(left, top, right - left - 16, ROW);
    context.clip();
    context.fillStyle = text;
    context.fillText((shownLabel(bar.i) || siteOf(bar.i)).slice(0, 200), left + 3, top + 10.5);
    context.restore();
  }
  drawCurrent(color);
}

/** Draws the sign of an unusual outcome at the end of a request's last bar. */
function drawEnd({ i, held }, right, top, color) {
  const outcome = outcomeOf(i);
  if (PLAIN.has(outcome) || (!held && data.held[i] > 0)) return;
  const size = ROW - 4;
  const left = Math.max(right - size, 0);
  context.fillStyle = color('ground');
  context.fillRect(left - 1, top - 1, size + 2, ROW - 1);
  context.fillStyle = color(cssNameOf(outcome));
  context.beginPath();
  for (const point of SHAPES[outcome].split(', ')) {
    const [x, y] = point.split(' ').map((part) => part / 100);
    context.lineTo(left + x * size, top + y * (ROW - 3));
  }
  context.fill();
}

function drawCurrent(color) {
  context.strokeStyle = color('text');
  context.lineWidth = 2;
  for (const bar of barsOf.get(current) ?? []) {
    const left = xOf(bar.from);
    context.strokeRect(left, topOf(bar.row), Math.max(xOf(bar.to) - left, 2), ROW - 3);
  }
  context.lineWidth = 1;
}

/** Keeps the view inside the whole time. */
function setView(from, to) {
  const width = Math.min(Math.max(to - from, 10), end - begin);
  const start = Math.min(Math.max(from, begin), end - width);
  view = { from: start, to: start + width };
  redraw();
}

/** A factor below 1 zooms in. @param around the time that keeps its place on the screen */
function zoom(factor, around = (view.from + view.to) / 2) {
  setView(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

/** Moves the view by a part of its width; to earlier times if the part is negative. */
function pan(part) {
  const by = (view.to - view.from) * part;
  setView(view.from + by, view.to + by);
}

function markRequest(i) {
  current = i;
  redraw();
}

/** Scrolls and moves the view so that a request is visible. */
function reveal(i) {
  const [bar] = barsOf.get(i) ?? [];
  if (!bar) return;
  const { from, to, row } = bar;
  const width = view.to - view.from;
  if (from > view.to || to < view.from) setView(from - width / 2, from + width / 2);
  const room = box.clientHeight - TOP - ROW;
  const top = row * ROW;
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top > box.scrollTop + room) box.scrollTop = top - room;
}

const timeAt = (x) => view.from + x / scale();

/** @returns {number} the request at this point, or -1 */
function requestAt(x, y) {
  if (y < TOP) return -1;
  const time = timeAt(x);
  const slack = 3 / scale();
  const row = Math.floor((y - topOf(0)) / ROW);
  const found = bars.find(
    (bar) => bar.row === row && bar.from - slack <= time && time <= bar.to + slack,
  );
  return found?.i ?? -1;
}

const resetView = () => setView(begin, end);

module.exports = {
  box,
  canvas,
  layOut,
  resetView,
  markRequest,
  pan,
  redraw,
  requestAt,
  reveal,
  timeAt,
  zoom,
};
