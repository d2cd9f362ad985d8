/**
 * Shows the results of `npm run bench -- --only "at its engine" --json FILE` as on the pages: `node
 * bench/engines-report.js FILE` prints the tables; with a second argument it draws the chart of the
 * cost by the number of sessions into that file.
 */

const fs = require('node:fs');

const [file, chart] = process.argv.slice(2);
const { engines } = JSON.parse(fs.readFileSync(file, 'utf8'));

const TITLES = { redis: 'Redis', cluster: 'PostgreSQL', etcd: 'etcd' };
const COLORS = { redis: '#b3261e', cluster: '#1769aa', etcd: '#2e8540' };

const all = Object.keys(TITLES).filter((name) => engines?.[name]);

const number = (value) => {
  if (Number.isInteger(value)) return value.toLocaleString('en');
  const digits = [100, 10, 0.1].findIndex((limit) => value >= limit);
  return value.toLocaleString('en', {
    maximumFractionDigits: digits < 0 ? 3 : digits,
    minimumFractionDigits: digits < 0 ? 0 : Math.min(digits, 1),
  });
};

/** @param {string[]} head @param {(string | number)[][]} rows */
function table(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const shown = rows.map((row) => line(row.map((c) => (typeof c === 'number' ? number(c) : c))));
  return [line(head), line(head.map(() => '---')), ...shown, ''].join('\n');
}

function peersOf(name) {
  const rows = Object.entries(engines[name].peers).map(([peer, { sequential, atOnce }]) => [
    peer === 'web-locks' ? '**web-locks**' : peer,
    sequential.p50,
    sequential.client,
    sequential.server,
    atOnce.perSecond,
    atOnce.client,
    atOnce.server,
  ]);
  const head = ['', 'ms a pair, p50', 'client, µs', 'server, µs'];
  return table(
    [TITLES[name], ...head.slice(1), '32 at once, pairs/s', 'client, µs', 'server, µs'],
    rows,
  );
}

function sessionsOf() {
  const rows = all.flatMap((name) =>
    engines[name].sessions.map(({ sessions, alone, contended, all: ofAll, idle, memory }) => [
      `${TITLES[name]}, ${number(sessions)}`,
      alone.p50,
      alone.server,
      contended.perSecond,
      contended.server,
      ofAll?.perSecond ?? '–',
      ofAll?.server ?? '–',
      idle.cpu,
      // PostgreSQL counts transactions when a session reports them, so earlier ones are counted
      // late.
      name === 'cluster' ? '–' : idle.calls,
      idle.connections,
      memory / 1024,
    ]),
  );
  return table(
    [
      'sessions',
      'one asks: ms a pair',
      'server, µs a pair',
      '4 contend: grants/s',
      'server, µs a grant',
      'all contend: grants/s',
      'server, µs a grant',
      'an idle one: server, µs/s',
      'calls/s',
      'connections',
      'KiB',
    ],
    rows,
  );
}

function delaysOf() {
  const rows = all.flatMap((name) =>
    engines[name].delays.map(({ roundTrip, sequential, atOnce, query, handOver }) => [
      `${TITLES[name]}, ${roundTrip} ms`,
      sequential.p50,
      atOnce.perSecond,
      handOver.p50,
      query.p50,
    ]),
  );
  const head = [
    'there and back',
    'a pair, ms',
    '32 at once, pairs/s',
    'hand-over, ms',
    'query, ms',
  ];
  return table(head, rows);
}

const WIDTH = 680;
const HEIGHT = 340;
const [LEFT, RIGHT, TOP, BOTTOM] = [70, 110, 64, 56];

/** Marks at 1, 2 and 5 of each power of ten in the range. */
const marksBetween = (lowest, highest) =>
  [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100].filter(
    (mark) => mark >= lowest && mark <= highest,
  );

/**
 * Draws the server's processor time for a grant by the number of sessions; both axes are
 * logarithmic.
 */
function draw() {
  const lines = all.flatMap((name) =>
    ['alone', 'contended'].map((which) => ({
      name,
      isDashed: which === 'contended',
      // A single session has no contention.
      points: engines[name].sessions
        .filter(({ sessions }) => which === 'alone' || sessions > 1)
        .map((row) => [row.sessions, row[which].server / 1e3]),
    })),
  );
  const values = lines.flatMap(({ points }) => points.map(([, value]) => value));
  const [lowest, highest] = [Math.min(...values) * 0.8, Math.max(...values) * 1.25];
  const x = (count) => LEFT + (Math.log10(count) / 3) * (WIDTH - LEFT - RIGHT);
  const part = (value) => Math.log(value / lowest) / Math.log(highest / lowest);
  const y = (value) => HEIGHT - BOTTOM - part(value) * (HEIGHT - TOP - BOTTOM);
  const text = (left, top, content, more = '') =>
    `<text x="${left.toFixed(1)}" y="${top.toFixed(1)}" ${more}>${content}</text>`;
  const parts = [];
  for (const mark of marksBetween(lowest, highest)) {
    const at = y(mark).toFixed(1);
    parts.push(
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at}" y2="${at}" stroke="#d9dee4"/>`,
      text(LEFT - 8, y(mark) + 4, `${mark} ms`, 'text-anchor="end"'),
    );
  }
  for (const count of [1, 10, 100, 1000]) {
    parts.push(text(x(count), HEIGHT - BOTTOM + 18, number(count), 'text-anchor="middle"'));
  }
  parts.push(text(x(31.6), HEIGHT - 16, 'sessions', 'text-anchor="middle"'));
  for (const { isDashed, name, points } of lines) {
    const color = COLORS[name];
    const path = points.map(([count, value]) => `${x(count).toFixed(1)},${y(value).toFixed(1)}`);
    const dashes = isDashed ? ' stroke-dasharray="5 4"' : '';
    const stroke = `stroke="${color}" stroke-width="2"${dashes}`;
    const fill = isDashed ? '#ffffff' : color;
    parts.push(
      `<polyline points="${path.join(' ')}" fill="none" ${stroke}/>`,
      ...path.map((point) => {
        const [cx, cy] = point.split(',');
        return `<circle cx="${cx}" cy="${cy}" r="3.5" fill="${fill}" stroke="${color}"/>`;
      }),
    );
    const [count, value] = points.at(-1);
    if (!isDashed) parts.push(text(x(count) + 10, y(value) + 4, TITLES[name], `fill="${color}"`));
  }
  const title = 'Processor time of the server for a request and its release (log scale)';
  const key = 'Line: one session asks, the others are idle. Dashes: four contend for one name.';
  const size = `viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size}
  font-family="system-ui, sans-serif" font-size="12" fill="#1f2933">
<title>${title}, by the number of sessions</title>
<rect width="100%" height="100%" fill="#ffffff"/>
${text(16, 22, title, 'font-size="13"')}
${text(16, 42, key, 'fill="#52606d"')}
${parts.join('\n')}
</svg>
`;
}

console.log(all.map(peersOf).join('\n'));
console.log(sessionsOf());
console.log(delaysOf());
if (chart) fs.writeFileSync(chart, draw());
