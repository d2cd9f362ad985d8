'use strict';

/** The requests of the selected lock: a table of all, and the details of one request. */

const model = require('./model.js');
const {
  ROWS,
  element,
  fillTable,
  make,
  makeHead,
  makeSign,
  ms,
  timeFormatter,
} = require('./show.js');
const timeline = require('./timeline.js');

const { data, errorOf, outcomeOf, processName, severalProcesses } = model;
const { shownLabel, siteOf, threadOf, describeRequester } = model;

/** The listed requests, the number of rows, and the request whose details are shown, or -1. */
const shown = { requests: [], rows: ROWS, current: -1 };

function makeRequestsHead() {
  makeHead('requests', [
    ['at, ms', 'number'],
    ...(severalProcesses ? [['process', '']] : []),
    ['thread', ''],
    ['label', ''],
    ['call site', ''],
    ['outcome', ''],
    ['wait, ms', 'number'],
    ['hold, ms', 'number'],
    ['blocked by, or error', ''],
  ]);
}

/** Fills the table, and shows the details of no request. */
function showRequests(requests) {
  Object.assign(shown, { requests, rows: ROWS });
  showDetails(-1);
  draw();
}

function showMoreRequests() {
  shown.rows += 10 * ROWS;
  draw();
}

function draw() {
  const { requests, rows } = shown;
  const [times, waits, holds] = [data.asked, data.waited, data.held].map((column) =>
    timeFormatter(requests.map((i) => column[i])),
  );
  const rowOf = (i) => {
    const row = document.createElement('tr');
    row.dataset.request = i;
    if (i === shown.current) row.ariaCurrent = 'true';
    const outcome = make('td', '', 'whole');
    outcome.append(makeSign(outcomeOf(i)), ` ${outcomeOf(i)}`);
    const time = make('td', '', 'number');
    const button = make('button', times(data.asked[i]));
    button.type = 'button';
    button.addEventListener('click', () => showAndReveal(i));
    time.append(button);
    row.append(
      time,
      make('td', threadOf(i), 'text'),
      make('td', shownLabel(i) ?? '', 'text'),
      make('td', siteOf(i), 'text'),
      outcome,
      make('td', waits(data.waited[i]), 'number'),
      make('td', data.held[i] > 0 ? holds(data.held[i]) : '', 'number'),
      make('td', errorOf(i) ?? describeBlockers(i), 'text'),
    );
    if (severalProcesses) {
      row.children[1].replaceWith(
        make('td', processName(data.process[i]), 'text'),
        make('td', threadOf(i).replace(`${processName(data.process[i])}, `, ''), 'text'),
      );
    }
    return row;
  };
  fillTable('requests', 'more-requests', requests, rows, rowOf, 'requests');
}

const describeBlockers = (i) => data.blockers[i].map(describeRequester).join('; ');

/** Shows the details of a request; of none if `i` is -1. */
function showDetails(i) {
  if (i === shown.current) return;
  shown.current = i;
  timeline.markRequest(i);
  for (const row of document.querySelectorAll('#requests tbody tr')) {
    row.ariaCurrent = Number(row.dataset.request) === i ? 'true' : null;
  }
  if (i < 0) {
    element('request').textContent = '';
    return;
  }
  const who = [shownLabel(i), siteOf(i), threadOf(i)].filter(Boolean).join(', ');
  const facts = [
    `${who}: ${outcomeOf(i)}`,
    ...(data.shared[i] ? ['shared'] : []),
    ...(errorOf(i) ? [errorOf(i)] : []),
    `waited ${ms(data.waited[i])}`,
    `held ${ms(data.held[i])}`,
  ];
  const blockers = describeBlockers(i);
  if (blockers) facts.push(`blocked by ${blockers}`);
  element('request').textContent = facts.join(' · ');
}

function showAndReveal(i) {
  showDetails(i);
  timeline.reveal(i);
}

/** @param {number} by 1 for the next request, -1 for the previous one */
function showNext(by) {
  const { requests, current } = shown;
  if (requests.length === 0) return;
  const before = requests.indexOf(current);
  const first = by > 0 ? -1 : requests.length;
  const next = (before < 0 ? first : before) + by;
  showAndReveal(requests[Math.min(Math.max(next, 0), requests.length - 1)]);
}

module.exports = { makeRequestsHead, showMoreRequests, showRequests, showNext, showDetails };
