'use strict';

/** Connects the inputs of the page with its parts. */

const locks = require('./locks.js');
const { count, data, filter, outcomesOf, summarize } = require('./model.js');
const {
  makeRequestsHead,
  showMoreRequests,
  showRequests,
  showNext,
  showDetails,
} = require('./requests.js');
const { brief, element, make, makeSign, ms, plural, whole } = require('./show.js');
const timeline = require('./timeline.js');

const { box, canvas, layOut, resetView, pan, redraw, requestAt, timeAt, zoom } = timeline;

const KEYS = {
  ArrowLeft: () => pan(-0.2),
  ArrowRight: () => pan(0.2),
  ArrowUp: () => showNext(-1),
  ArrowDown: () => showNext(1),
  PageUp: () => box.scrollBy(0, -box.clientHeight / 2),
  PageDown: () => box.scrollBy(0, box.clientHeight / 2),
  '+': () => zoom(0.5),
  '=': () => zoom(0.5),
  '-': () => zoom(2),
  0: resetView,
};

function listenToTimeline() {
  /** The horizontal position of each pointer (mouse or finger) that is down. */
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
      const isAcross = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      // Without Ctrl or Meta, the wheel scrolls the rows, and at their end the page.
      if (!isAcross && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      if (isAcross) pan(event.deltaX / canvas.clientWidth);
      else zoom(1.0015 ** event.deltaY, timeAt(event.offsetX));
    },
    { passive: false },
  );
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, event.offsetX);
    const i = requestAt(event.offsetX, event.offsetY);
    if (i >= 0) showDetails(i);
  });
  canvas.addEventListener('pointermove', (event) => {
    const before = down.get(event.pointerId);
    const x = event.offsetX;
    if (before === undefined) {
      const i = requestAt(x, event.offsetY);
      if (i >= 0) showDetails(i);
      return;
    }
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    down.set(event.pointerId, x);
    if (other === undefined) pan((before - x) / canvas.clientWidth);
    else zoom(Math.abs(before - other) / Math.max(Math.abs(x - other), 1), timeAt(other));
  });
  for (const type of ['pointerup', 'pointercancel']) {
    canvas.addEventListener(type, (event) => down.delete(event.pointerId));
  }
  box.addEventListener('scroll', redraw);
  new ResizeObserver(redraw).observe(canvas);
  for (const query of ['(prefers-color-scheme: dark)', 'print']) {
    matchMedia(query).addEventListener('change', redraw);
  }
}

function listen() {
  listenToTimeline();
  element('in').addEventListener('click', () => zoom(0.5));
  element('out').addEventListener('click', () => zoom(2));
  element('all').addEventListener('click', resetView);
  element('more').addEventListener('click', locks.showMoreLocks);
  element('more-requests').addEventListener('click', showMoreRequests);
  element('search').addEventListener('input', () => {
    filter.text = element('search').value.trim().toLowerCase();
    showAll();
  });
}

/** Makes a button for each outcome that occurs. */
function makeFilter() {
  const all = outcomesOf(Array.from({ length: count }, (_, i) => i));
  for (const [outcome, n] of all) {
    const button = make('button', '', 'chip');
    button.type = 'button';
    button.ariaPressed = 'false';
    button.dataset.outcome = outcome;
    button.append(makeSign(outcome), ` ${whole(n)} ${outcome}`);
    button.addEventListener('click', () => {
      const { outcomes } = filter;
      if (!outcomes.delete(outcome)) outcomes.add(outcome);
      button.ariaPressed = String(outcomes.has(outcome));
      showAll();
    });
    element('outcomes').append(button);
  }
}

/** The index of the selected lock, or -1. */
let chosen = -1;

/** Shows the locks that the filter selects, and one of them in detail. */
function showAll() {
  const summaries = summarize();
  locks.showLocks(summaries);
  const summary = summaries.find(({ lock }) => lock === chosen) ?? summaries[0];
  element('none').hidden = summary !== undefined;
  element('lock').hidden = summary === undefined;
  if (summary) showLock(summary);
}

function showLock({ lock, name, requests, blockers }) {
  chosen = lock;
  element('timeline-title').textContent = `Who held and who waited: ${brief(name)}`;
  locks.markLock(lock);
  layOut(requests);
  showRequests(requests);
  locks.showBlockers(blockers);
}

function showAbout() {
  element('about').replaceChildren(
    ...data.processes.map(({ about, file, offset }, index) => {
      const { began, command, dropped, host, node, pid, requests, seconds, threads } = about;
      const when = began ? new Date(began).toISOString().replace('T', ' ').slice(0, 19) : '';
      const facts = [
        `${file}: ${plural(requests, 'request')} of ${plural(threads.length, 'thread')} in ` +
          `${seconds.toFixed(1)} s.`,
        ...(dropped > 0
          ? [`${whole(dropped)} more were dropped: there was no room for them.`]
          : []),
        ...(when ? [`Begun ${when} UTC on ${host}, process ${pid}, Node.js ${node}.`] : []),
        ...(command ? [command] : []),
        ...(index > 0 ? [clockOf(offset)] : []),
      ];
      const line = document.createElement('p');
      line.append(facts.join(' '));
      return line;
    }),
  );
}

/** Says how exactly the clock of a process is known relative to the clock of the first process. */
function clockOf({ from, within }) {
  if (from === 'same') return 'It shares the clock of the first process.';
  if (from === 'day') return 'Its clock is known only from the time of day.';
  const width = Number.isFinite(within) && within !== null ? ` to ±${ms(within * 1000)}` : '';
  return `Its clock is known from the tokens of locks${width}.`;
}

function main() {
  showAbout();
  if (count === 0) {
    element('content').replaceChildren(make('p', 'No requests were recorded.'));
    return;
  }
  locks.makeLocksHead(showLock);
  makeRequestsHead();
  locks.makeBlockersHead();
  makeFilter();
  listen();
  locks.showProcesses();
  showAll();
}

main();
