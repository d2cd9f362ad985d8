'use strict';

/**
 * Lists every text of the library and the command line that a person can read: errors, warnings,
 * reasons, usage. They are in docs/internals/messages.md, to be read in one go; the lint fails if that
 * page is not what the sources have.
 *
 *   messages.js            writes the page
 *   messages.js --check    fails if the page would change
 */

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const ts = require('typescript-oldest');

const root = path.join(__dirname, '..');
const PAGE = path.join(root, 'docs', 'internals', 'messages.md');
/** Generated, read by machines, or of tests and the compiler. */
const OTHERS =
  /\.(sql|lua)\.js$|\/page\/|extensions\/options\.js$|cli\/completion\.js$|\.h$|\/(check|verify|layout)\.c$/;

/** @param {string} text @returns {boolean} whether it is prose: three words or more */
const isProse = (text) => (text.match(/[A-Za-z'’]{2,}[,.:;]? /g) ?? []).length >= 2;

/** @param {string} file @returns {string[]} the texts of a JavaScript file, in its order */
function textsOf(file) {
  const source = ts.createSourceFile(
    file,
    fs.readFileSync(path.join(root, file), 'utf8'),
    ts.ScriptTarget.Latest,
    true,
  );
  /** @type {string[]} */
  const texts = [];
  /** @param {ts.Node} node @returns {string | undefined} */
  const textOf = (node) => {
    if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
    if (ts.isTemplateExpression(node)) {
      const spans = node.templateSpans.map(
        ({ expression, literal }) => `\${${nameOf(expression)}}${literal.text}`,
      );
      return node.head.text + spans.join('');
    }
    if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
      const [left, right] = [textOf(node.left), textOf(node.right)];
      return left === undefined || right === undefined ? undefined : left + right;
    }
    return undefined;
  };
  const nameOf = (/** @type {ts.Expression} */ expression) => {
    const text = expression.getText().replace(/\s+/g, ' ');
    return text.length > 40 ? `${text.slice(0, 40)}…` : text;
  };
  /** @param {ts.Node} node */
  const visit = (node) => {
    const text = textOf(node);
    if (text !== undefined) {
      if (isProse(text)) texts.push(text);
      if (!ts.isTemplateExpression(node)) return;
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return texts;
}

/** @param {string} file of C or C++ @returns {string[]} its strings; those that follow one another are one */
function textsOfC(file) {
  const source = fs
    .readFileSync(path.join(root, file), 'utf8')
    .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$|^#include.*$/gm, '');
  return [...source.matchAll(/"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*/g)]
    .map(([text]) => text.replace(/"\s*"/g, '').slice(1, -1))
    .filter(isProse);
}

const files = execFileSync('git', ['ls-files', 'lib', 'src'], { cwd: root, encoding: 'utf8' })
  .trim()
  .split('\n')
  .filter((file) => !OTHERS.test(file));
const sections = files.map((file) => {
  const texts = /\.(c|cc|h)$/.test(file) ? textsOfC(file) : /\.js$/.test(file) ? textsOf(file) : [];
  const lines = [...new Set(texts)].map((text) =>
    text.includes('\n') ? `\`\`\`text\n${text.trim()}\n\`\`\`` : `- ${text.trim()}`,
  );
  return lines.length > 0 ? `## ${file}\n\n${lines.join('\n')}\n` : '';
});
const page = `# Messages

Every text that a person can read, as \`node scripts/messages.js\` finds them in the sources. How they
are written: CONTRIBUTING.md.

${sections.filter(Boolean).join('\n')}`;

if (!process.argv.includes('--check')) fs.writeFileSync(PAGE, page);
else if (!fs.existsSync(PAGE) || fs.readFileSync(PAGE, 'utf8') !== page) {
  console.error(
    'docs/internals/messages.md is not what the sources have: node scripts/messages.js',
  );
  process.exitCode = 1;
}
