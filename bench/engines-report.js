/**
 * What `npm run bench -- --only "at its engine" --json FILE` measured, as the pages show it:
 * `node bench/engines-report.js FILE` prints the tables, and with a second argument draws the chart of
 * the cost by the number of sessions into that file.
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
    engines[name].sessions.map(({ sessions, alone, contended, idle, memory }) => [
      `${TITLES[name]}, ${number(sessions)}`,
      alone.p50,
      alone.server,
      contended.perSecond,
      contended.server,
      idle.cpu,
      idle.calls,
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

const WIDTH = 640;
const HEIGHT = 300;
const [LEFT, RIGHT, TOP, BOTTOM] = [70, 110, 40, 40];

/** The processor time of the server for a pair, by the number of sessions; both logarithmic. */
function draw() {
  const points = all.map((name) => ({
    name,
    line: engines[name].sessions.map(({ sessions, alone }) => [sessions, alone.server]),
  }));
  const values = points.flatMap(({ line }) => line.map(([, y]) => y));
  const lowest = 10 ** Math.floor(Math.log10(Math.min(...values)));
  const highest = 10 ** Math.ceil(Math.log10(Math.max(...values)));
  const x = (count) => LEFT + (Math.log10(count) / 3) * (WIDTH - LEFT - RIGHT);
  const part = (value) => Math.log10(value / lowest) / Math.log10(highest / lowest);
  const y = (value) => HEIGHT - BOTTOM - part(value) * (HEIGHT - TOP - BOTTOM);
  const parts = [];
  for (let value = lowest; value <= highest; value *= 10) {
    parts.push(
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}" stroke="#d9dee4"/>`,
      `<text x="${LEFT - 8}" y="${y(value) + 4}" text-anchor="end">${number(value)} µs</text>`,
    );
  }
  for (const count of [1, 10, 100, 1000]) {
    const at = `x="${x(count)}" y="${HEIGHT - BOTTOM + 18}"`;
    parts.push(`<text ${at} text-anchor="middle">${number(count)}</text>`);
  }
  for (const { name, line } of points) {
    const path = line.map(([count, value]) => `${x(count).toFixed(1)},${y(value).toFixed(1)}`);
    const [count, value] = line.at(-1);
    parts.push(
      `<polyline points="${path.join(' ')}" fill="none" stroke="${COLORS[name]}" stroke-width="2"/>`,
      ...path.map((point) => {
        const [cx, cy] = point.split(',');
        return `<circle cx="${cx}" cy="${cy}" r="3.5" fill="${COLORS[name]}"/>`;
      }),
      `<text x="${x(count) + 10}" y="${y(value) + 4}" fill="${COLORS[name]}">${TITLES[name]}</text>`,
    );
  }
  const title = 'Processor time of the server for a request and its release, by sessions: one asks';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}"
  font-family="system-ui, sans-serif" font-size="12" fill="#1f2933">
<title>${title}</title>
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="16" y="22" font-size="13">${title}</text>
${parts.join('\n')}
</svg>
`;
}

console.log(all.map(peersOf).join('\n'));
console.log(sessionsOf());
console.log(delaysOf());
if (chart) fs.writeFileSync(chart, draw());
