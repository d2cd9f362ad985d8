/**
 * Draws the results of run.js: `node bench/chart.js FILE.json > chart.svg`. Each work has a group
 * of bars, one for each subject, on a logarithmic scale of the ratio to the group's first subject.
 */

const fs = require('node:fs');

const report = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));

const colors = {
  floor: '#9aa5b1',
  listeners: '#9aa5b1',
  'web-locks': '#1769aa',
  'in one thread': '#86b6dd',
  'async-mutex': '#e08e0b',
  'async-lock': '#2e8540',
  node: '#b3261e',
  metarhia: '#7b5ea7',
};
const BAR = 13;
const GAP = 16;
const LEFT = 190;
const RIGHT = 70;
const WIDTH = 820;
const TOP = 64;

const groups = report.works.filter(({ unit, medians }) => {
  return unit === 'ns' && Object.keys(medians).length > 1;
});
const ratios = groups.flatMap(({ medians }) => ratiosOf(medians).map(([, ratio]) => ratio));
const least = Math.min(...ratios, 1);
const most = Math.max(...ratios);

function ratiosOf(medians) {
  const first = Object.values(medians)[0].value;
  return Object.entries(medians).map(([subject, { value }]) => [subject, value / first]);
}

/** The position of a ratio on the logarithmic axis. */
const x = (ratio) =>
  LEFT + (Math.log(ratio / least) / Math.log(most / least)) * (WIDTH - LEFT - RIGHT);

const text = (left, top, content, more = '') =>
  `<text x="${left.toFixed(1)}" y="${top.toFixed(1)}" ${more}>${content}</text>`;

function legend() {
  const shown = Object.keys(colors).filter((subject) => {
    return groups.some(({ medians }) => medians[subject]);
  });
  return shown.map((subject, i) => {
    const left = 20 + i * 99;
    return (
      `<rect x="${left}" y="32" width="11" height="11" fill="${colors[subject]}"/>` +
      text(left + 16, 42, subject)
    );
  });
}

function draw() {
  const parts = legend();
  let top = TOP;
  for (const { name, medians } of groups) {
    const bars = ratiosOf(medians);
    parts.push(text(LEFT - 10, top + (bars.length * BAR) / 2 + 4, name, 'text-anchor="end"'));
    for (const [subject, ratio] of bars) {
      const [from, to] = [x(1), x(ratio)].sort((a, b) => a - b);
      parts.push(
        `<rect x="${from.toFixed(1)}" y="${top}" width="${Math.max(to - from, 1.5).toFixed(1)}" ` +
          `height="${BAR - 2}" fill="${colors[subject]}"><title>${subject}</title></rect>`,
        text(to + 4, top + BAR - 4, `${ratio.toFixed(ratio < 10 ? 2 : 0)} ×`),
      );
      top += BAR;
    }
    top += GAP;
  }
  const what = 'Time per request, as a multiple of the first bar of each group (log scale)';
  const title = `${what} · Node.js ${report.node}`;
  const size = `viewBox="0 0 ${WIDTH} ${top}" width="${WIDTH}" height="${top}"`;
  const [left, y1, y2] = [x(1).toFixed(1), TOP - 6, top - GAP];
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size}
  font-family="system-ui, sans-serif" font-size="11" fill="#1f2933">
<title>${title}</title>
<rect width="100%" height="100%" fill="#ffffff"/>
${text(20, 20, title, 'font-size="13"')}
<line x1="${left}" x2="${left}" y1="${y1}" y2="${y2}" stroke="#9aa5b1"/>
${parts.join('\n')}
</svg>
`;
}

process.stdout.write(draw());
