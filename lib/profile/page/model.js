'use strict';

/** The data of the report, and functions that summarize it. Nothing here changes the page. */

const data = JSON.parse(document.getElementById('data').textContent);
const count = data.asked.length;

/** The outcomes, from the worst to the best. */
const OUTCOMES = [
  'threw',
  'failed',
  'lost',
  'stolen',
  'held too long',
  'timed out',
  'aborted',
  'not available',
  'pending',
  'held',
  'granted',
];
/** The outcomes that show no problem. */
const PLAIN = new Set(['granted', 'held']);

const outcomeOf = (i) => data.outcomes[data.outcome[i]];
const cssNameOf = (outcome) => outcome.replaceAll(' ', '-');

/** Returns undefined for -1, which stands for a missing text. */
const textOf = (number) => (number < 0 ? undefined : data.texts[number]);
const labelOf = (i) => textOf(data.label[i]);
const siteOf = (i) => data.texts[data.site[i]];
const errorOf = (i) => textOf(data.error[i]);
const severalProcesses = data.processes.length > 1;

const processName = (index) => {
  const { about, file } = data.processes[index];
  return `${about.pid ? `process ${about.pid}` : file}${isOneHost ? '' : ` on ${about.host}`}`;
};
const isOneHost = data.processes.every(({ about }) => about.host === data.processes[0].about.host);

/** @returns {string} the thread of a request, with its process if the report has several */
function threadOf(i) {
  const id = data.thread[i];
  const { threads } = data.processes[data.process[i]].about;
  const name = threads?.find((thread) => thread.id === id)?.name;
  const thread = `${id === 0 ? 'main thread' : `thread ${id}`}${name ? ` (${name})` : ''}`;
  return severalProcesses ? `${processName(data.process[i])}, ${thread}` : thread;
}

/** An empty label is shown as "", in contrast to a missing label. */
const shownLabel = (i) => (labelOf(i) === '' ? '""' : labelOf(i));
const describeRequester = (i) =>
  [shownLabel(i), siteOf(i)].filter(Boolean).join(', ') || threadOf(i);

const waitEndOf = (i) => data.asked[i] + data.waited[i];
const endOf = (i) => waitEndOf(i) + data.held[i];

/** Returns the least value that the given fraction of the sorted numbers does not exceed. */
const percentile = (sorted, part) => sorted[Math.max(Math.ceil(sorted.length * part) - 1, 0)] ?? 0;
/** Sorts in place. */
const sorted = (numbers) => numbers.sort((a, b) => a - b);

/** The search text, and the selected outcomes; an empty set selects all. */
const filter = { text: '', outcomes: new Set() };

const isFound = (text) => text?.toLowerCase().includes(filter.text) ?? false;

function isChosen(i) {
  if (filter.outcomes.size > 0 && !filter.outcomes.has(outcomeOf(i))) return false;
  if (filter.text === '' || isFound(data.names[data.name[i]])) return true;
  return isFound(labelOf(i)) || isFound(siteOf(i)) || isFound(errorOf(i)) || isFound(threadOf(i));
}

/** All requests of each lock, whether or not the filter selects them. @type {number[][]} */
const requestsOf = data.names.map(() => []);
for (let i = 0; i < count; i++) requestsOf[data.name[i]].push(i);

/** Summarizes each lock that has requests which the filter selects. */
function summarize() {
  const locks = requestsOf.map((all, lock) => ({ lock, requests: all.filter(isChosen) }));
  return locks.filter(({ requests }) => requests.length > 0).map(summaryOf);
}

function summaryOf({ lock, requests }) {
  const waits = sorted(requests.map((i) => data.waited[i]));
  const holds = sorted(requests.filter((i) => data.held[i] > 0).map((i) => data.held[i]));
  const contended = requests.filter((i) => data.contended[i]).length;
  const outcomes = outcomesOf(requests);
  const blockers = blockersOf(requests);
  const [wait50, wait99, wait100] = [0.5, 0.99, 1].map((part) => percentile(waits, part));
  const [hold50, hold99, hold100] = [0.5, 0.99, 1].map((part) => percentile(holds, part));
  return {
    lock,
    requests,
    name: data.names[lock],
    count: requests.length,
    contended: (100 * contended) / requests.length,
    outcomes,
    troubles: outcomes.reduce((sum, [outcome, n]) => sum + (PLAIN.has(outcome) ? 0 : n), 0),
    waiting: waits.reduce((sum, wait) => sum + wait, 0),
    wait50,
    wait99,
    wait100,
    hold50,
    hold99,
    hold100,
    blockers,
    worst: blockers.length > 0 ? describeRequester(blockers[0].request) : '',
  };
}

/** @returns {[outcome: string, count: number][]} the worst outcome first */
function outcomesOf(requests) {
  const counts = new Map();
  for (const i of requests) counts.set(outcomeOf(i), (counts.get(outcomeOf(i)) ?? 0) + 1);
  return OUTCOMES.filter((outcome) => counts.has(outcome)).map((one) => [one, counts.get(one)]);
}

/** Groups blockers by label, call site and process. The blockers of a request share its wait. */
function blockersOf(requests) {
  const found = new Map();
  for (const i of requests) {
    const blockers = data.blockers[i];
    for (const blocker of blockers) {
      const key = `${data.label[blocker]} ${data.site[blocker]} ${data.process[blocker]}`;
      const entry = found.get(key) ?? { request: blocker, count: 0, waiting: 0 };
      entry.count++;
      entry.waiting += data.waited[i] / blockers.length;
      found.set(key, entry);
    }
  }
  return [...found.values()].sort((a, b) => b.waiting - a.waiting);
}

/** @returns {number[][]} `[waiter][blocker]`: how long one process waited for another, in µs */
function waitingBetween() {
  const between = data.processes.map(() => data.processes.map(() => 0));
  for (let i = 0; i < count; i++) {
    const { length } = data.blockers[i];
    for (const blocker of data.blockers[i]) {
      between[data.process[i]][data.process[blocker]] += data.waited[i] / length;
    }
  }
  return between;
}

/** The first and the last time of all requests, in microseconds. */
function boundsOf() {
  let last = 0;
  for (let i = 0; i < count; i++) last = Math.max(last, endOf(i));
  const first = data.asked[0] ?? 0;
  return [first, Math.max(first + 1, last)];
}

module.exports = {
  PLAIN,
  boundsOf,
  count,
  cssNameOf,
  data,
  endOf,
  errorOf,
  filter,
  labelOf,
  outcomeOf,
  outcomesOf,
  processName,
  severalProcesses,
  shownLabel,
  siteOf,
  summarize,
  threadOf,
  waitEndOf,
  waitingBetween,
  describeRequester,
};
