'use strict';

/** Formats numbers and outcomes, and makes parts of tables. */

const { brief, element, make, plural, whole } = require('../../page/elements.js');
const { cssNameOf } = require('./model.js');

/** The number of rows that are shown at first; each click adds ten times this number. */
const ROWS = 200;

/** How many decimals the numbers of a column get: the fewer, the larger the greatest of them is. */
const decimalsFor = (most) => [10, 1000, 100_000].filter((limit) => most < limit).length;

function numberFormatter(numbers) {
  const most = numbers.reduce((a, b) => Math.max(a, b), 0);
  const digits = decimalsFor(most);
  const format = new Intl.NumberFormat('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
  return (number) => format.format(number);
}

/** Returns a function that formats microseconds as milliseconds. */
function timeFormatter(micros) {
  const write = numberFormatter(micros.map((micro) => micro / 1000));
  return (micro) => write(micro / 1000);
}

const ms = (micro) => `${timeFormatter([micro])(micro)} ms`;

/**
 * The signs of outcomes, as points in a square of size 100. The signs differ in shape for readers
 * who cannot distinguish the colors.
 */
const SHAPES = {
  threw: '50 0, 100 100, 0 100',
  failed: '30 0, 70 0, 100 30, 100 70, 70 100, 30 100, 0 70, 0 30',
  lost: '0 0, 100 0, 50 100',
  stolen: '50 0, 100 50, 50 100, 0 50',
  'held too long': '0 0, 100 50, 0 100',
  'timed out': '0 0, 100 0, 60 50, 100 100, 0 100, 40 50',
  aborted: '0 25, 25 0, 50 25, 75 0, 100 25, 75 50, 100 75, 75 100, 50 75, 25 100, 0 75, 25 50',
  'not available': '0 35, 100 35, 100 65, 0 65',
  pending: '0 70, 100 70, 100 100, 0 100',
  held: '0 0, 100 0, 100 100, 0 100',
  granted: '0 55, 20 35, 40 60, 85 10, 100 30, 40 95',
};

function makeSign(outcome) {
  const sign = make('i', '', 'sign');
  const points = SHAPES[outcome].replace(/\d+/g, '$&%');
  sign.style.clipPath = `polygon(${points})`;
  sign.style.background = `var(--${cssNameOf(outcome)})`;
  sign.ariaHidden = 'true';
  return sign;
}

function makeOutcomeList(outcomes) {
  const list = make('span', '', outcomes.length > 3 ? 'outcomes many' : 'outcomes');
  for (const [outcome, n] of outcomes) {
    const entry = make('span', '', 'outcome');
    entry.title = `${plural(n, 'request')}: ${outcome}`;
    entry.append(makeSign(outcome), make('span', whole(n)), make('span', ` ${outcome}`, 'unseen'));
    list.append(entry);
  }
  return list;
}

function makeHead(table, titles) {
  const cells = titles.map(([title, className]) => make('th', title, className));
  for (const cell of cells) cell.scope = 'col';
  document.querySelector(`#${table} thead tr`).append(...cells);
}

/** Fills a table with the first `shown` rows; the button below it is visible if there are more. */
function fillTable(table, button, all, shown, rowOf, what) {
  const body = document.querySelector(`#${table} tbody`);
  body.replaceChildren();
  for (const one of all.slice(0, shown)) body.append(rowOf(one));
  const more = all.length - shown;
  element(button).hidden = more <= 0;
  element(button).textContent = `Show ${whole(Math.min(more, 10 * ROWS))} more ${what}`;
}

module.exports = {
  ROWS,
  SHAPES,
  brief,
  element,
  fillTable,
  make,
  makeHead,
  makeOutcomeList,
  makeSign,
  ms,
  plural,
  whole,
  timeFormatter,
};
